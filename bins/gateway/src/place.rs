//! Where the gateway's files are: what the arguments say, else what the environment says, else the usual places.

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::anyhow;
use camino::{Utf8Path, Utf8PathBuf};
use genlock_authority::worker::{Candidates, find_worker};
use genlock_config::{Config, Finding, LoadError, Loaded, Severity, Sources, Variables};

use genlock_gateway::ConfigSource;

use crate::{
    args::{Format, PlaceArgs},
    failure::{Exit, Failure},
};

/// The environment and the places that follow from it.
pub(crate) struct Place {
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) format: Format,
    config: Option<Utf8PathBuf>,
    state_dir: Option<Utf8PathBuf>,
    secret_dirs: Vec<Utf8PathBuf>,
}

impl Place {
    pub(crate) fn new(args: PlaceArgs, environment: Vec<(String, String)>) -> Self {
        let environment: BTreeMap<_, _> = environment.into_iter().collect();
        Self {
            environment,
            format: args.format,
            config: args.config,
            state_dir: args.state_dir,
            secret_dirs: args.secret_dir,
        }
    }

    /// Returns a directory of the user: `$variable`, else the path below `$HOME`.
    fn user_dir(&self, variable: &str, below_home: &str) -> Option<Utf8PathBuf> {
        let own = self
            .environment
            .get(variable)
            .filter(|dir| Utf8Path::new(dir).is_absolute());
        let home = || self.environment.get("HOME").filter(|home| !home.is_empty());
        own.map(Utf8PathBuf::from)
            .or_else(|| Some(Utf8Path::new(home()?).join(below_home)))
    }

    /// Returns the config file; `None` where none was named and none is in the usual places.
    pub(crate) fn config_file(&self) -> Option<Utf8PathBuf> {
        if let Some(named) = &self.config {
            return Some(named.clone());
        }
        let usual = self
            .user_dir("XDG_CONFIG_HOME", ".config")
            .map(|dir| dir.join("genlock/genlock.yaml"));
        [Some(Utf8PathBuf::from("genlock.yaml")), usual]
            .into_iter()
            .flatten()
            .find(|path| path.exists())
    }

    /// Returns the state directory.
    ///
    /// # Errors
    /// Where neither an argument nor the environment leads to one.
    pub(crate) fn state_dir(&self) -> Result<Utf8PathBuf, Failure> {
        let usual = || {
            self.user_dir("XDG_STATE_HOME", ".local/state")
                .map(|dir| dir.join("genlock"))
        };
        self.state_dir.clone().or_else(usual).ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                "state_dir.unknown",
                anyhow!("no state directory: $HOME is not set"),
            )
            .hint("name one with --state-dir DIR or GENLOCK_STATE_DIR")
        })
    }

    /// Loads the config file, or the embedded default where there is none. Warnings go to standard error.
    ///
    /// # Errors
    /// Where the file cannot be read or has errors; every finding was printed.
    pub(crate) fn load(&self) -> Result<(Config, Option<Utf8PathBuf>), Failure> {
        let Some(path) = self.config_file() else {
            return Ok((Config::embedded_default(), None));
        };
        let loaded = self
            .load_file(&path)
            .map_err(|error| self.failed(&path, error))?;
        self.print_findings(&loaded.warnings);
        Ok((loaded.config, Some(path)))
    }

    /// Returns where a running gateway takes its config from.
    pub(crate) fn source(&self) -> ConfigSource {
        ConfigSource {
            file: self.config_file(),
            sources: self.sources(),
        }
    }

    /// Returns the program that runs the turns of sessions, where it is found.
    pub(crate) fn worker(&self) -> Option<PathBuf> {
        let own = std::env::current_exe().ok();
        let get = |name| self.environment.get(name).map(String::as_str);
        let candidates = Candidates {
            beside: own.as_deref(),
            named: get("GENLOCK_WORKER_BIN"),
            path: get("PATH"),
        };
        find_worker(&candidates, is_program)
    }

    /// Returns what `${…}` may read: the environment, and files below the directories for secrets.
    fn sources(&self) -> Sources {
        let variables: Variables = self.environment.clone().into_iter().collect();
        let own = self.environment.get("CREDENTIALS_DIRECTORY").cloned();
        let directories = own.into_iter().chain(["/run/secrets".to_owned()]);
        directories
            .chain(self.secret_dirs.iter().map(ToString::to_string))
            .fold(Sources::new(variables), Sources::with_secret_dir)
    }

    pub(crate) fn load_file(&self, path: &Utf8Path) -> Result<Loaded, LoadError> {
        genlock_config::load_with(path, &self.sources()).and_then(Loaded::whole)
    }

    pub(crate) fn failed(&self, path: &Utf8Path, error: LoadError) -> Failure {
        let code = error.code();
        if self.format == Format::Text {
            self.print_findings(error.findings());
        }
        let hint = remedy(path, &error);
        let findings = serde_json::to_value(error.findings()).ok();
        let mut failure = Failure::new(
            Exit::Config,
            code,
            anyhow::Error::new(error).context(format!("config {path}")),
        );
        failure.findings = findings;
        failure.hint(hint)
    }

    /// Prints findings to standard error, one a line, the hint below.
    pub(crate) fn print_findings(&self, findings: &[Finding]) {
        for finding in findings {
            let word = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            eprintln!("{word}: {finding} [{}]", finding.code);
            if let Some(hint) = &finding.hint {
                eprintln!("  hint: {hint}");
            }
        }
    }
}

/// Says what to do about a config that does not load.
pub(crate) fn remedy(path: &Utf8Path, error: &LoadError) -> String {
    match error {
        LoadError::Read { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            "let the user that runs genlock read it".to_owned()
        }
        LoadError::Read { .. } | LoadError::NotAFile { .. } => {
            "name another file with --config FILE".to_owned()
        }
        LoadError::WritableByOthers { .. } => format!("chmod o-w {path}"),
        LoadError::ForeignOwner { .. } => {
            "let it belong to the user that runs genlock, or to root".to_owned()
        }
        LoadError::TooLarge { .. } => "leave out what is no configuration".to_owned(),
        LoadError::Torn { .. } => "write it to the side and rename it into place".to_owned(),
        LoadError::NotUtf8 { .. } => "save it as UTF-8".to_owned(),
        LoadError::Invalid(_) => "`genlock check` lists every finding".to_owned(),
    }
}

/// Tells whether a path leads to a file that can be executed.
fn is_program(path: &Path) -> bool {
    let metadata = std::fs::metadata(path);
    metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
