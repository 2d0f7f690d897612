//! Runs of `genlock` that end by themselves.

use std::process::{Command, Stdio};

use genlock_testkit::harness::{CommandOutput, Scratch, path};

use super::genlock;

/// Runs `genlock` in a directory, with nothing of this process's environment but its `PATH`.
pub(crate) fn run(scratch: &Scratch, args: &[&str], env: &[(&str, &str)]) -> CommandOutput {
    let output = Command::new(genlock())
        .args(args)
        .env_clear()
        .env("PATH", path())
        .env("HOME", scratch.path())
        .envs(env.iter().copied())
        .current_dir(scratch.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    CommandOutput {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// What a run leaves that says this on stderr.
pub(crate) fn failed(code: i32, stderr: impl Into<String>) -> CommandOutput {
    CommandOutput {
        code: Some(code),
        stdout: String::new(),
        stderr: stderr.into(),
    }
}

/// What a run leaves that says this on stdout.
pub(crate) fn succeeded(stdout: impl Into<String>) -> CommandOutput {
    CommandOutput {
        code: Some(0),
        stdout: stdout.into(),
        stderr: String::new(),
    }
}
