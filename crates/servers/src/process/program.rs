//! What is started for a definition, and why it cannot be.

use std::{
    collections::BTreeMap,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use genlock_config::StdioDefinition;
use rustix::io::Errno;

/// Why a server's process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("command not found: {command}")]
    NotFound {
        /// The command as it was written.
        command: String,
    },
    /// The command is a directory or may not be executed.
    #[error("command cannot be executed: {command}")]
    NotExecutable {
        /// The command as it was written.
        command: String,
    },
    /// The program is a script whose interpreter is missing, or needs a loader that is.
    #[error("the interpreter that the command needs is missing: {command}")]
    NoInterpreter {
        /// The command as it was written.
        command: String,
    },
    /// The directory it should run in is missing.
    #[error("no such directory to run in: {cwd}")]
    NoDirectory {
        /// The directory as it was written.
        cwd: String,
    },
    /// The definition asks for namespaces that cannot be had.
    #[error("`containment: namespace` cannot be had here: {reason}")]
    NoNamespace {
        /// Why.
        reason: String,
    },
    /// The system refused.
    #[error("start {command}: {source}")]
    System {
        /// The command as it was written.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// The keeper could not make ready what the server is to run in.
    #[error("start {command}: {doing}: {source}")]
    Keeper {
        /// The command as it was written.
        command: String,
        /// What it was doing.
        doing: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl SpawnError {
    /// Tells whether waiting cannot mend it.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::NotFound { .. }
            | Self::NotExecutable { .. }
            | Self::NoInterpreter { .. }
            | Self::NoDirectory { .. }
            | Self::NoNamespace { .. } => true,
            Self::System { .. } | Self::Keeper { .. } => false,
        }
    }

    /// Says why a program that was found could not be executed.
    pub(super) fn not_executed(command: &str, source: io::Error) -> Self {
        let command = command.to_owned();
        match Errno::from_io_error(&source) {
            // The file itself was there a moment ago.
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Self::NoInterpreter { command },
            Some(Errno::ACCESS | Errno::PERM | Errno::ISDIR) => Self::NotExecutable { command },
            Some(_) | None => Self::System { command, source },
        }
    }
}

/// Finds the program as the child itself would: a path as it is, a name along the child's own `PATH`.
///
/// # Errors
/// Where there is none, or the directory it should run in is missing.
pub(super) fn find(
    definition: &StdioDefinition,
    environment: &BTreeMap<String, String>,
) -> Result<PathBuf, SpawnError> {
    if let Some(cwd) = &definition.cwd
        && !Path::new(cwd.expose()).is_dir()
    {
        let cwd = cwd.shown().to_owned();
        return Err(SpawnError::NoDirectory { cwd });
    }
    let command = definition.command.expose();
    let shown = || definition.command.shown().to_owned();
    if command.contains('/') {
        let base = definition
            .cwd
            .as_ref()
            .map_or(Path::new(""), |cwd| Path::new(cwd.expose()));
        let path = base.join(command);
        return match path.metadata() {
            Err(_) => Err(SpawnError::NotFound { command: shown() }),
            Ok(metadata) if !is_executable(&metadata) => {
                Err(SpawnError::NotExecutable { command: shown() })
            }
            // A relative path would be looked up in the directory that the child changes into.
            Ok(_) => std::path::absolute(path).map_err(|source| SpawnError::System {
                command: shown(),
                source,
            }),
        };
    }
    let path = environment
        .get("PATH")
        .map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
    path.split(':')
        .map(|dir| Path::new(dir).join(command))
        .find(|candidate| {
            candidate
                .metadata()
                .is_ok_and(|metadata| is_executable(&metadata))
        })
        .ok_or_else(|| SpawnError::NotFound { command: shown() })
}

fn is_executable(metadata: &std::fs::Metadata) -> bool {
    metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
}
