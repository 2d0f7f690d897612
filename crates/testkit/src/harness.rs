//! Processes, scratch directories and waiting, for whole-process tests.

mod fake;
mod gateway;
mod process;
mod scratch;
mod tree;
mod wait;

use std::{ffi::OsString, path::PathBuf, time::Duration};

pub use self::{
    fake::{Control, FakeServer, definition, journal, starts},
    gateway::{CommandOutput, GenlockOptions, GenlockProcess},
    process::{Process, ProcessOptions},
    scratch::Scratch,
    tree::{descendants, is_alive, is_locked, kill9, marked},
    wait::{eventually, eventually_async},
};

/// How long a process gets to do what it is started for.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// The fake server's executable.
///
/// # Panics
/// Where it is not built.
#[must_use]
pub fn fake_server() -> PathBuf {
    binary("genlock-fake-server")
}

/// A built executable of the workspace, looked for beside the running test: `target/<profile>/NAME`.
///
/// # Panics
/// Where it is not built, saying how to.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a process knows its executable");
    // A test runs from target/<profile>/deps, a binary from target/<profile>.
    let found = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file());
    found.unwrap_or_else(|| {
        let package = match name {
            "genlock-fake-server" => "genlock-testkit",
            "genlock-rmcp-server" => "genlock-testkit --features rmcp-peer",
            other => other,
        };
        panic!(
            "{name} is not built beside {}; run `cargo build -p {package} --bin {name}`",
            test.display()
        )
    })
}

/// This process's `PATH`, which started processes get.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "what a test starts needs a PATH, and nothing else of the environment"
)]
pub fn path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"))
}
