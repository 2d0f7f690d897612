//! From a file or a text to a [`Config`].

use std::{
    fs::{self, File, Metadata},
    io::{self, Read},
    os::unix::fs::MetadataExt,
};

use camino::{Utf8Path, Utf8PathBuf};
use secrecy::zeroize::Zeroizing;

use crate::{
    decode::{self, Document, Unserved},
    finding::{Finding, Findings},
    model::Config,
    private::PrivateValues,
    sources::Sources,
    variables::Variables,
};

/// The largest config file that is read, in bytes: 1 MiB.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// How often a file that changes while it is read is read again.
const READS: usize = 5;

/// A valid config, and what should be known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The config.
    pub config: Config,
    /// Findings that are no errors, in the order of their places.
    pub warnings: Vec<Finding>,
    /// Findings that make single servers unavailable, and nothing else: values in their
    /// definitions that are not there. Those servers say so in
    /// [`ServerDefinition::unavailable`](crate::ServerDefinition::unavailable).
    pub unavailable: Vec<Finding>,
}

/// Why there is no config. Never holds a value of the file.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be opened or read.
    #[error("read config {path}")]
    Read {
        /// The file.
        path: Utf8PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is something at the path that is no regular file.
    #[error("config {path} is not a regular file")]
    NotAFile {
        /// What was meant to be a file.
        path: Utf8PathBuf,
    },
    /// Every user of the machine can write the file, and so decide what is started.
    #[error("config {path} can be written by others")]
    WritableByOthers {
        /// The file.
        path: Utf8PathBuf,
    },
    /// The file belongs to somebody else, who can write it whatever its mode says.
    #[error("config {path} belongs to uid {owner}, which is neither root nor who reads it")]
    ForeignOwner {
        /// The file.
        path: Utf8PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// The text is longer than [`MAX_FILE_BYTES`].
    #[error("config {path} is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge {
        /// The file.
        path: Utf8PathBuf,
    },
    /// The file changed each time while it was read.
    #[error("config {path} kept changing while it was read")]
    Torn {
        /// The file.
        path: Utf8PathBuf,
    },
    /// The file is no UTF-8 text.
    #[error("config {path} is not UTF-8: first at byte {offset}")]
    NotUtf8 {
        /// The file.
        path: Utf8PathBuf,
        /// How many bytes before it are UTF-8.
        offset: usize,
    },
    /// The text is no valid config. Holds every finding, warnings too, in the order of their
    /// places; at least one is an error. `Display` counts the findings and does not list them.
    #[error("invalid config: {} finding(s)", .0.as_slice().len())]
    Invalid(Findings),
}

/// Loads the config in the file `path`, whole: [`load_with`], where every server has to be
/// available.
///
/// # Errors
/// As [`load_with`]; and [`LoadError::Invalid`] where a server would be unavailable.
pub fn load(path: &Utf8Path, variables: &Variables) -> Result<Loaded, LoadError> {
    load_with(path, &Sources::from(variables.clone())).and_then(Loaded::whole)
}

/// Loads the config in the file `path`.
///
/// Reads the file whole, once; a read that a writer got in between is repeated a few times. A file that others can
/// write, or that belongs to neither the reader nor root, is not read: whoever writes it decides what is started.
/// `sources` is what interpolation may read, beside files in the directory of `path`.
///
/// # Errors
/// [`LoadError::Invalid`] holds every finding of a file that could be read; the other variants
/// say why it could not.
pub fn load_with(path: &Utf8Path, sources: &Sources) -> Result<Loaded, LoadError> {
    for _ in 0..READS {
        if let Some(bytes) = read(path)? {
            let text = std::str::from_utf8(&bytes).map_err(|error| LoadError::NotUtf8 {
                path: path.to_owned(),
                offset: error.valid_up_to(),
            })?;
            return parse_with(text, path, sources);
        }
    }
    Err(LoadError::Torn {
        path: path.to_owned(),
    })
}

/// Parses `text` as the config that stands in `file`, whole: [`parse_with`], where every server
/// has to be available.
///
/// # Errors
/// As [`parse_with`]; and [`LoadError::Invalid`] where a server would be unavailable.
///
/// # Examples
/// ```
/// use genlock_config::{LoadError, Variables, parse};
///
/// let variables = Variables::from([("GITHUB_TOKEN".to_owned(), "s3cr3t".to_owned())]);
/// let text = "
/// mcp_servers:
///   github:
///     url: https://example.com/mcp
///     headers: { Authorization: 'Bearer ${GITHUB_TOKEN}' }
/// ";
/// let loaded = parse(text, "genlock.yaml".into(), &variables)?;
/// assert_eq!(loaded.config.servers.len(), 1);
/// assert!(!format!("{loaded:?}").contains("s3cr3t"));
///
/// let Err(LoadError::Invalid(findings)) =
///     parse("mcp_servers: { a: { command: a, timeout: soon } }", "genlock.yaml".into(), &variables)
/// else {
///     panic!("a duration is a number");
/// };
/// assert_eq!(
///     findings.to_string(),
///     "genlock.yaml:1:42 mcp_servers.a.timeout: \
///      expected a duration such as `30s` or `5m`, or a number of seconds",
/// );
/// # Ok::<(), LoadError>(())
/// ```
pub fn parse(text: &str, file: &Utf8Path, variables: &Variables) -> Result<Loaded, LoadError> {
    parse_with(text, file, &Sources::from(variables.clone())).and_then(Loaded::whole)
}

/// Parses `text` as the config that stands in `file`.
///
/// `file` is named in findings and is not opened; its directory is what `${file:…}` and
/// `env_file` may read beside the directories of `sources`. Where it ends in `.json`, `text` is
/// JSON, else YAML (which most JSON is as well).
///
/// A value that is not there makes the server unavailable in whose definition it stands.
/// Anywhere else it is an error.
///
/// # Errors
/// [`LoadError::Invalid`] with every finding, or [`LoadError::TooLarge`].
///
/// # Examples
/// ```
/// use genlock_config::{Sources, Variables, parse_with};
///
/// let text = "mcp_servers: { a: { command: a, env: { T: '${TOKEN}' } }, b: { command: b } }";
/// let loaded = parse_with(text, "genlock.yaml".into(), &Sources::new(Variables::empty()))?;
///
/// let reasons: Vec<_> = loaded.config.servers.values().map(|server| server.unavailable.as_deref()).collect();
/// assert_eq!(reasons, [Some("missing TOKEN"), None]);
/// assert_eq!(loaded.unavailable.len(), 1);
/// assert!(loaded.whole().is_err());
/// # Ok::<(), genlock_config::LoadError>(())
/// ```
pub fn parse_with(text: &str, file: &Utf8Path, sources: &Sources) -> Result<Loaded, LoadError> {
    loaded(document(text, file, sources, Unserved::Report)?)
}

/// Parses a config without a look at which of its keys this version acts upon.
///
/// For tools that show or convert a config. One that is served has to come from
/// [`parse_with`]: what this version would ignore may narrow what is granted.
///
/// # Errors
/// As [`parse_with`].
pub fn parse_schema(text: &str, file: &Utf8Path, sources: &Sources) -> Result<Loaded, LoadError> {
    loaded(document(text, file, sources, Unserved::Ignore)?)
}

/// Returns the private values of a config by their pointers, as far as they can be read, also
/// where the config is not valid.
///
/// For values of an earlier generation, which are only used where their fingerprints match.
pub fn private_values_in(text: &str, file: &Utf8Path, sources: &Sources) -> PrivateValues {
    let document = document(text, file, sources, Unserved::Ignore);
    let config = document.ok().and_then(|document| document.config);
    config.map_or_else(PrivateValues::empty, |config| config.private_values())
}

fn document(
    text: &str,
    file: &Utf8Path,
    sources: &Sources,
    unserved: Unserved,
) -> Result<Document, LoadError> {
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(LoadError::TooLarge {
            path: file.to_owned(),
        });
    }
    // Some editors write a byte order mark; it is no part of the document.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    Ok(decode::document(text, file, sources, unserved))
}

fn loaded(document: Document) -> Result<Loaded, LoadError> {
    let Document {
        config,
        findings,
        unavailable,
    } = document;
    match config {
        Some(config) if !findings.has_errors() => Ok(Loaded {
            config,
            warnings: findings.into_vec(),
            unavailable: unavailable.into_vec(),
        }),
        _ => Err(LoadError::Invalid(findings.and(unavailable))),
    }
}

// === impl Loaded ===

impl Loaded {
    /// Returns this where every server is available.
    ///
    /// # Errors
    /// [`LoadError::Invalid`] with every finding, where one is not.
    pub fn whole(self) -> Result<Self, LoadError> {
        if self.unavailable.is_empty() {
            return Ok(self);
        }
        let findings = [self.warnings, self.unavailable].concat();
        Err(LoadError::Invalid(Findings::new(findings)))
    }
}

/// Reads the file once. Returns `None` where it changed meanwhile.
fn read(path: &Utf8Path) -> Result<Option<Zeroizing<Vec<u8>>>, LoadError> {
    let failed = |source| LoadError::Read {
        path: path.to_owned(),
        source,
    };
    // Looked at before it is opened, since opening a pipe waits for its writer.
    check(path, &fs::metadata(path).map_err(failed)?)?;
    let mut file = File::open(path).map_err(failed)?;
    let before = file.metadata().map_err(failed)?;
    check(path, &before)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(
        usize::try_from(before.len()).unwrap_or(0) + 1,
    ));
    file.by_ref()
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let after = file.metadata().map_err(failed)?;
    check(path, &after)?;
    let whole = bytes.len() as u64 == after.len();
    let same = before.len() == after.len() && before.modified().ok() == after.modified().ok();
    Ok((whole && same).then_some(bytes))
}

fn check(path: &Utf8Path, metadata: &Metadata) -> Result<(), LoadError> {
    if !metadata.is_file() {
        return Err(LoadError::NotAFile {
            path: path.to_owned(),
        });
    }
    let reader = rustix::process::geteuid().as_raw();
    trust(path, metadata.mode(), metadata.uid(), reader)?;
    if metadata.len() > MAX_FILE_BYTES {
        return Err(LoadError::TooLarge {
            path: path.to_owned(),
        });
    }
    Ok(())
}

/// Refuses a file of this mode and owner where the user `reader` must not trust it. Root is trusted, since it can do
/// anything to the reader as well.
fn trust(path: &Utf8Path, mode: u32, owner: u32, reader: u32) -> Result<(), LoadError> {
    const WRITE_BY_OTHERS: u32 = 0o002;
    const ROOT: u32 = 0;
    let path = || path.to_owned();
    if mode & WRITE_BY_OTHERS != 0 {
        return Err(LoadError::WritableByOthers { path: path() });
    }
    if owner != reader && owner != ROOT {
        return Err(LoadError::ForeignOwner {
            path: path(),
            owner,
        });
    }
    Ok(())
}

// === impl LoadError ===

impl LoadError {
    /// Returns the stable code of this kind of error, such as `config.invalid`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } => "config.read",
            Self::NotAFile { .. } => "config.not_a_file",
            Self::WritableByOthers { .. } => "config.writable_by_others",
            Self::ForeignOwner { .. } => "config.foreign_owner",
            Self::TooLarge { .. } => "config.file_too_large",
            Self::Torn { .. } => "config.torn",
            Self::NotUtf8 { .. } => "config.not_utf8",
            Self::Invalid(_) => "config.invalid",
        }
    }

    /// Returns the findings, where the text could be read. Else an empty slice.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Invalid(findings) => findings.as_slice(),
            Self::Read { .. }
            | Self::NotAFile { .. }
            | Self::WritableByOthers { .. }
            | Self::ForeignOwner { .. }
            | Self::TooLarge { .. }
            | Self::Torn { .. }
            | Self::NotUtf8 { .. } => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::trust;

    #[test]
    fn only_the_reader_and_root_are_trusted_with_a_config() {
        let cases = [
            (0o100_600, 1000, 1000, Ok(())),
            (0o100_644, 1000, 1000, Ok(())),
            (0o100_664, 1000, 1000, Ok(())),
            (0o100_644, 0, 1000, Ok(())),
            (0o100_602, 1000, 1000, Err("config.writable_by_others")),
            (0o100_666, 0, 0, Err("config.writable_by_others")),
            (0o100_600, 1001, 1000, Err("config.foreign_owner")),
            (0o100_644, 1000, 0, Err("config.foreign_owner")),
        ];
        for (mode, owner, reader, expected) in cases {
            let found = trust("genlock.yaml".into(), mode, owner, reader);
            let found = found.map_err(|error| error.code());
            assert_eq!(
                found, expected,
                "mode {mode:o}, uid {owner}, read by {reader}"
            );
        }
    }
}
