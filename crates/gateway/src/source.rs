//! [`ConfigSource`]: where a configuration comes from.

use camino::{Utf8Path, Utf8PathBuf};
use genlock_config::{Config, LoadError, Loaded, Sources, private_values_in};

/// Where the configuration comes from.
#[derive(Clone)]
pub struct ConfigSource {
    /// The file; `None` serves the embedded default.
    pub file: Option<Utf8PathBuf>,
    /// What interpolation may read.
    pub sources: Sources,
}

impl ConfigSource {
    /// Loads the configuration.
    ///
    /// # Errors
    /// As [`genlock_config::load_with`].
    pub fn load(&self) -> Result<Loaded, LoadError> {
        match &self.file {
            Some(file) => genlock_config::load_with(file, &self.sources),
            None => Ok(Loaded {
                config: Config::embedded_default(),
                warnings: Vec::new(),
                unavailable: Vec::new(),
            }),
        }
    }

    /// Returns the private values that the file holds now, also where it is not valid.
    pub(crate) fn private_values(&self) -> genlock_config::PrivateValues {
        let file = self.file.as_deref().unwrap_or(Utf8Path::new(""));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        private_values_in(&text, file, &self.sources)
    }
}
