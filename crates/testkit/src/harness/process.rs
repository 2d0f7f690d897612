//! A started process.

use std::{
    ffi::OsString,
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::Signal;

use super::{path, tree, wait::poll};

/// What to start. The environment is `PATH`, `HOME` (the output directory) and what is given here.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: Option<PathBuf>,
}

/// A process in its own group, with its output in files; it and its descendants are killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    stdout: PathBuf,
    stderr: PathBuf,
}

// === impl ProcessOptions ===

impl ProcessOptions {
    /// A program without arguments.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = Some(dir.into());
        self
    }

    /// Starts it, with `stdout` and `stderr` written to `NAME.stdout` and `NAME.stderr` in `output`, at their ends.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn start(&self, output: &Path, name: &str) -> Process {
        let stdout = output.join(format!("{name}.stdout"));
        let stderr = output.join(format!("{name}.stderr"));
        let open = |path: &Path| {
            let file = fs::OpenOptions::new().create(true).append(true).open(path);
            file.unwrap_or_else(|error| panic!("open {}: {error}", path.display()))
        };
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .env("PATH", path())
            .env("HOME", output)
            .envs(self.env.iter().cloned());
        command
            .stdin(Stdio::null())
            .stdout(open(&stdout))
            .stderr(open(&stderr))
            .process_group(0);
        command.current_dir(self.cwd.as_deref().unwrap_or(output));
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", self.program.display()));
        Process {
            child,
            name: name.to_owned(),
            stdout,
            stderr,
        }
    }
}

// === impl Process ===

impl Process {
    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to stdout so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// What it has written to stderr so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Both outputs, for messages.
    #[must_use]
    pub fn log(&self) -> String {
        format!(
            "--- {0} stdout\n{1}\n--- {0} stderr\n{2}",
            self.name,
            self.stdout(),
            self.stderr()
        )
    }

    /// How it ended; `None` while it runs.
    ///
    /// # Panics
    /// Where the system does not say.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits for it to end.
    ///
    /// # Panics
    /// After `deadline`, with its output.
    pub fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        let ended = poll(deadline, || self.exit_status());
        ended.unwrap_or_else(|| panic!("{} runs after {deadline:?}\n{}", self.name, self.log()))
    }

    /// Sends TERM.
    pub fn terminate(&self) {
        tree::send(self.pid(), Signal::TERM);
    }

    /// Sends HUP.
    pub fn hang_up(&self) {
        tree::send(self.pid(), Signal::HUP);
    }

    /// Kills this one process, as a crash would; its descendants are left to themselves.
    pub fn kill9(&mut self) {
        // One that has ended already is as dead as it should be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        tree::kill_tree(self.pid());
        self.kill9();
    }
}

fn read(path: &Path) -> String {
    fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}
