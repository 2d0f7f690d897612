//! The fake server as an upstream of a gateway under test.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    DEADLINE, Process, ProcessOptions, Scratch, eventually, fake_server, gateway::find_url, wait,
};

/// A fake server over HTTP.
#[derive(Debug)]
pub struct FakeServer {
    process: Process,
    url: String,
}

/// The switches of one fake server: the directory behind `--control`.
#[derive(Debug, Clone)]
pub struct Control {
    dir: PathBuf,
}

// === impl FakeServer ===

impl FakeServer {
    /// Starts one with these flags beside `--http`, with its output in the directory.
    ///
    /// # Panics
    /// Where it does not say where it listens.
    #[must_use]
    pub fn http(scratch: &Scratch, name: &str, flags: &[&str]) -> Self {
        let seen = scratch.read(&format!("{name}.stdout")).len();
        let options = ProcessOptions::new(fake_server())
            .args(["--name", name, "--http", "127.0.0.1:0"])
            .args(flags);
        let mut process = options.start(scratch.path(), name);
        let url = eventually(DEADLINE, "the fake server listens", || {
            if let Some(status) = process.exit_status() {
                panic!("the fake server ended with {status}\n{}", process.log());
            }
            find_url(&process.stdout()[seen..])
        });
        Self { process, url }
    }

    /// Its endpoint.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process.
    #[must_use]
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

// === impl Control ===

impl Control {
    /// A directory of switches in the scratch directory.
    #[must_use]
    pub fn new(scratch: &Scratch, name: &str) -> Self {
        Self {
            dir: scratch.dir(name),
        }
    }

    /// What to give after `--control`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// What to give after `--control`, as text.
    ///
    /// # Panics
    /// Where the path is not UTF-8.
    #[must_use]
    pub fn arg(&self) -> &str {
        self.dir.to_str().expect("scratch paths are UTF-8")
    }

    /// Turns a switch on, such as `extra_tool` or `fail_list`.
    ///
    /// # Panics
    /// Where the file cannot be created.
    pub fn on(&self, name: &str) {
        fs::write(self.dir.join(name), b"")
            .unwrap_or_else(|error| panic!("switch {name}: {error}"));
    }

    /// Turns a switch off.
    pub fn off(&self, name: &str) {
        // One that is off already is as off as it should be.
        let _ = fs::remove_file(self.dir.join(name));
    }

    /// Turns a switch on that the server removes when it has obeyed (`announce`, `drop_sessions`, …), and waits for that.
    ///
    /// # Panics
    /// Where it does not obey.
    pub async fn pulse(&self, name: &str) {
        self.on(name);
        self.wait_gone(name).await;
    }

    /// Says that a resource changed, and waits until somebody was told.
    ///
    /// # Panics
    /// Where nobody listens for it.
    pub async fn updated(&self, uri: &str) {
        // Renamed into place, so that the server never reads half of it.
        let new = self.dir.join("updated.new");
        let written =
            fs::write(&new, uri).and_then(|()| fs::rename(&new, self.dir.join("updated")));
        written.unwrap_or_else(|error| panic!("updated: {error}"));
        self.wait_gone("updated").await;
    }

    /// Waits until a call of `hold {key}` has begun.
    ///
    /// # Panics
    /// Where none does.
    pub async fn wait_held(&self, key: &str) {
        let held = self.dir.join(format!("held.{key}"));
        wait::eventually_async(DEADLINE, &format!("hold {key} begins"), async || {
            held.exists().then_some(())
        })
        .await;
    }

    /// Lets the calls of `hold {key}` answer.
    pub fn release(&self, key: &str) {
        self.on(&format!("release.{key}"));
    }

    async fn wait_gone(&self, name: &str) {
        let path = self.dir.join(name);
        let what = format!("the fake server obeys `{name}`");
        wait::eventually_async(DEADLINE, &what, async || (!path.exists()).then_some(())).await;
    }
}

/// A definition for `mcp_servers` that starts the fake server over stdio, as one line of JSON, which YAML takes as well.
///
/// ```no_run
/// use genlock_testkit::harness::definition;
///
/// let config = format!("mcp_servers:\n  one: {}\n", definition(&["--name", "one"]));
/// ```
#[must_use]
pub fn definition(flags: &[&str]) -> String {
    serde_json::json!({"command": fake_server(), "args": flags}).to_string()
}

/// The lines of a `--start-log` file so far.
#[must_use]
pub fn starts(path: &Path) -> Vec<Value> {
    lines(path)
}

/// The lines of a `--journal` file so far.
#[must_use]
pub fn journal(path: &Path) -> Vec<Value> {
    lines(path)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}
