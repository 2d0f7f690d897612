//! Where the worker's program is.

use std::path::{Path, PathBuf};

/// The name of the program.
const NAME: &str = "genlock-worker";

/// Where the program may be. The host fills it in: nothing here reads the environment.
#[derive(Debug, Clone, Default)]
pub struct Candidates<'a> {
    /// The gateway's own executable: the worker's is looked for beside it.
    pub beside: Option<&'a Path>,
    /// What `GENLOCK_WORKER_BIN` says.
    pub named: Option<&'a str>,
    /// What `PATH` says.
    pub path: Option<&'a str>,
}

/// Returns the worker's program: the one that was named, else the one beside the gateway's own executable, else the
/// first on the path. `is_program` tells whether a path can be executed.
///
/// One that was named is taken as it is, so that a mistake in the name is told where it is started, and no other program
/// is started in its place.
///
/// ```
/// use std::path::Path;
/// use genlock_authority::worker::{Candidates, find_worker};
///
/// let candidates = Candidates { beside: Some(Path::new("/opt/bin/genlock")), path: Some("/bin:/usr/bin"), ..Candidates::default() };
/// let found = find_worker(&candidates, |path| path.starts_with("/usr/bin"));
/// assert_eq!(found.as_deref(), Some(Path::new("/usr/bin/genlock-worker")));
/// ```
pub fn find_worker(
    candidates: &Candidates<'_>,
    is_program: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    if let Some(named) = candidates.named.filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let beside = candidates.beside.and_then(Path::parent);
    let directories = candidates.path.unwrap_or_default().split(':');
    // A directory of the path that is not absolute depends on where the gateway was started.
    let directories = directories.map(Path::new).filter(|dir| dir.is_absolute());
    beside
        .into_iter()
        .chain(directories)
        .map(|dir| dir.join(NAME))
        .find(|path| is_program(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_named_wins_then_what_lies_beside_then_the_path() {
        let programs = [
            "/own/genlock-worker",
            "/b/genlock-worker",
            "/c/genlock-worker",
        ];
        let find = |named, beside: &str, path| {
            let candidates = Candidates {
                beside: Some(Path::new(beside)),
                named,
                path: Some(path),
            };
            let found = find_worker(&candidates, |path| {
                programs.iter().any(|program| path == Path::new(program))
            });
            found.map(|path| path.display().to_string())
        };
        let table = [
            (Some("/not/there"), "/own/genlock", "/b", Some("/not/there")),
            (Some(""), "/own/genlock", "/b", Some("/own/genlock-worker")),
            (None, "/own/genlock", "/b", Some("/own/genlock-worker")),
            (
                None,
                "/other/genlock",
                "/a:/b:/c",
                Some("/b/genlock-worker"),
            ),
            (None, "/other/genlock", "b:.::", None),
            (None, "/other/genlock", "", None),
        ];
        for (named, beside, path, expected) in table {
            assert_eq!(
                find(named, beside, path).as_deref(),
                expected,
                "{named:?} {beside} {path}"
            );
        }
    }
}
