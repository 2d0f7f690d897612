//! The `genlock` binary as a process.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use super::{DEADLINE, Process, ProcessOptions, Scratch, binary, path, wait::poll};

/// How a gateway is started.
#[derive(Debug, Default)]
pub struct GenlockOptions {
    config: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    scratch: Option<Scratch>,
}

/// A running gateway with its scratch directory: `genlock.yaml`, `state/`, and its output.
#[derive(Debug)]
pub struct GenlockProcess {
    // Before the directory, so that it is dead when that is removed.
    process: Process,
    url: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    scratch: Scratch,
}

/// What a finished command left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// The exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    /// The whole stdout.
    pub stdout: String,
    /// The whole stderr.
    pub stderr: String,
}

// === impl GenlockOptions ===

impl GenlockOptions {
    /// A gateway with this configuration file.
    #[must_use]
    pub fn new(config: impl Into<String>) -> Self {
        Self {
            config: config.into(),
            ..Self::default()
        }
    }

    /// Adds an argument to `serve`.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Uses a directory that is there already, with whatever state is in it.
    #[must_use]
    pub fn scratch(mut self, scratch: Scratch) -> Self {
        self.scratch = Some(scratch);
        self
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Panics
    /// Where it does not become so, with its output.
    #[must_use]
    pub fn start(self) -> GenlockProcess {
        let scratch = self.scratch.unwrap_or_default();
        scratch.write("genlock.yaml", &self.config);
        scratch.dir("state");
        let (process, url) = launch(&scratch, &self.args, &self.env);
        GenlockProcess {
            process,
            url,
            args: self.args,
            env: self.env,
            scratch,
        }
    }

    /// Starts one that is to refuse, and waits for its end.
    ///
    /// # Panics
    /// Where it does not end.
    #[must_use]
    pub fn start_refused(self) -> CommandOutput {
        let scratch = self.scratch.unwrap_or_default();
        scratch.write("genlock.yaml", &self.config);
        scratch.dir("state");
        let mut process = options(&scratch, &self.args, &self.env).start(scratch.path(), "genlock");
        let status = process.wait_exit(DEADLINE);
        CommandOutput {
            code: status.code(),
            stdout: process.stdout(),
            stderr: process.stderr(),
        }
    }
}

// === impl GenlockProcess ===

impl GenlockProcess {
    /// Starts `genlock serve` with this configuration and these further arguments, and waits until it is ready.
    ///
    /// # Panics
    /// Where it does not become so, with its output.
    #[must_use]
    pub fn start(config: &str, extra_args: &[&str]) -> Self {
        extra_args
            .iter()
            .fold(GenlockOptions::new(config), |options, arg| {
                options.arg(*arg)
            })
            .start()
    }

    /// The front door: `http://127.0.0.1:PORT/mcp`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Another route of the same listener; `route` starts with a slash.
    #[must_use]
    pub fn route(&self, route: &str) -> String {
        format!("{}{route}", self.url.trim_end_matches("/mcp"))
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The process.
    #[must_use]
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Everything it has said, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Its directory.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The configuration file.
    #[must_use]
    pub fn config_path(&self) -> PathBuf {
        self.scratch.join("genlock.yaml")
    }

    /// The state directory.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.scratch.join("state")
    }

    /// The control socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.scratch.join("state/control.sock")
    }

    /// Replaces the configuration file in one step.
    pub fn write_config(&self, text: &str) {
        self.scratch.replace("genlock.yaml", text);
    }

    /// Runs `genlock` with this gateway's config and state directory and waits for its end.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn run(&self, args: &[&str]) -> CommandOutput {
        let mut command = Command::new(binary("genlock"));
        command
            .arg("--config")
            .arg(self.config_path())
            .arg("--state-dir")
            .arg(self.state_dir())
            .args(args);
        command
            .env_clear()
            .env("PATH", path())
            .env("HOME", self.scratch.path())
            .envs(self.env.iter().cloned());
        let output = command
            .current_dir(self.scratch.path())
            .stdin(Stdio::null())
            .output()
            .expect("genlock starts");
        CommandOutput {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asks it to stop and waits for its end; the scratch directory stays.
    ///
    /// # Panics
    /// Where it does not end within 45 s.
    pub fn stop(&mut self) -> ExitStatus {
        self.process.terminate();
        self.process.wait_exit(Duration::from_secs(45))
    }

    /// Kills it as a crash would.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Starts it again over the same directory, after `stop` or `kill9`; the URL is a new one.
    ///
    /// # Panics
    /// Where it does not become ready.
    pub fn start_again(&mut self) {
        let (process, url) = launch(&self.scratch, &self.args, &self.env);
        self.process = process;
        self.url = url;
    }

    /// Stops it and gives back its directory.
    ///
    /// # Panics
    /// Where it does not end.
    #[must_use]
    pub fn into_scratch(mut self) -> Scratch {
        self.stop();
        self.scratch
    }
}

fn options(scratch: &Scratch, args: &[String], env: &[(String, String)]) -> ProcessOptions {
    let mut options = ProcessOptions::new(binary("genlock"))
        .args(["--config".into(), scratch.join("genlock.yaml")])
        .args(["--state-dir".into(), scratch.join("state")])
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(args);
    for (name, value) in env {
        options = options.env(name, value);
    }
    options
}

fn launch(scratch: &Scratch, args: &[String], env: &[(String, String)]) -> (Process, String) {
    // Another start's URL may stand in the files already.
    let seen = ["genlock.stdout", "genlock.stderr"].map(|name| scratch.read(name).len());
    let mut process = options(scratch, args, env).start(scratch.path(), "genlock");
    let url = await_start(&mut process, "prints no URL", |process| {
        let fresh = [process.stdout(), process.stderr()];
        fresh
            .iter()
            .zip(seen)
            .find_map(|(text, seen)| find_url(&text[seen..]))
    });
    let ready = format!("{}/health/ready", url.trim_end_matches("/mcp"));
    await_start(&mut process, "does not become ready", |_| {
        (http_status(&ready) == Some(200)).then_some(())
    });
    (process, url)
}

fn await_start<T>(process: &mut Process, failure: &str, look: impl Fn(&Process) -> Option<T>) -> T {
    let found = poll(DEADLINE, || {
        assert_running(process);
        look(process)
    });
    found.unwrap_or_else(|| panic!("genlock {failure} within {DEADLINE:?}\n{}", process.log()))
}

fn assert_running(process: &mut Process) {
    if let Some(status) = process.exit_status() {
        panic!("genlock ended with {status}\n{}", process.log());
    }
}

/// The first `http://ADDRESS:PORT/mcp` that stands complete in the text.
pub(crate) fn find_url(text: &str) -> Option<String> {
    text.match_indices("http://").find_map(|(start, _)| {
        let rest = &text[start..];
        let end = rest.find("/mcp")? + "/mcp".len();
        let is_clean = !rest[..end].contains(char::is_whitespace);
        let (_, port) = rest[..end - "/mcp".len()].rsplit_once(':')?;
        (is_clean && port.parse::<u16>().is_ok_and(|port| port != 0))
            .then(|| rest[..end].to_owned())
    })
}

/// The status of a GET; `None` where nobody answers.
fn http_status(url: &str) -> Option<u16> {
    let (host, route) = url.strip_prefix("http://")?.split_once('/')?;
    let mut stream = TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(
        stream,
        "GET /{route} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).ok()?;
    let (_, status) = std::str::from_utf8(&answer).ok()?.split_once(' ')?;
    status.parse().ok()
}

// For leak tests.
impl GenlockProcess {
    /// The bytes of every file in the state directory, by path.
    ///
    /// # Panics
    /// Where the directory cannot be read.
    #[must_use]
    pub fn state_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        collect(&self.state_dir(), &mut files);
        files
    }
}

fn collect(dir: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("read {}: {error}", dir.display()))
    {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.is_file() {
            // A file that vanishes while it is looked for has nothing to say.
            files.extend(fs::read(&path).map(|bytes| (path, bytes)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::find_url;

    #[test]
    fn the_url_is_found_in_prose_and_json() {
        for text in [
            "Serving http://127.0.0.1:4321/mcp\n",
            r#"{"msg":"listening","url":"http://127.0.0.1:4321/mcp"}"#,
            "see http://example.org for more\nlisten http://127.0.0.1:4321/mcp",
        ] {
            assert_eq!(
                find_url(text).as_deref(),
                Some("http://127.0.0.1:4321/mcp"),
                "{text}"
            );
        }
        assert_eq!(find_url("listening http://127.0.0.1:43"), None);
        assert_eq!(find_url("http://127.0.0.1:0/mcp"), None);
    }
}
