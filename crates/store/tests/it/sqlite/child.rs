//! This test binary once more, as a process that may be killed, starved or put in another uid.
//!
//! The child reads what to do from its standard input, and so needs no variable of the
//! environment; run by hand it finds nothing there and ends.

use std::{
    io::{BufRead, BufReader, Lines, Write, stdin},
    process::{Child, ChildStdout, Command, Stdio},
};

use genlock_policy::GenerationNumber;
use genlock_store::{Location, Options, open};

use crate::draft::{draft_of, profile};

/// What [`a_process_of_its_own`] is called with, after the binary.
pub(super) const ARGUMENTS: [&str; 4] = [
    "--exact",
    "--ignored",
    "--nocapture",
    "sqlite::child::a_process_of_its_own",
];

pub(super) const CONFIG_BYTES: usize = 5000;

/// A child and what it says.
pub(super) struct Committer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

// === impl Committer ===

impl Committer {
    /// Starts `command`, which ends up running this binary, on the store in `database`.
    pub(super) fn start(mut command: Command, database: &str) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{database}").unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// This binary, to be started as it is.
    pub(super) fn command() -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(ARGUMENTS);
        command
    }

    /// Returns the rest of the next line that begins with `word`, until the child has ended.
    pub(super) fn next(&mut self, word: &str) -> Option<String> {
        loop {
            let line = self.lines.next()?.unwrap();
            // The test harness writes into the same line.
            if let Some((_, rest)) = line.split_once(word) {
                return Some(rest.trim().to_owned());
            }
        }
    }

    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    pub(super) fn wait(mut self) {
        self.child.wait().unwrap();
    }
}

#[tokio::test]
#[ignore = "run by other tests as a process"]
async fn a_process_of_its_own() {
    let mut database = String::new();
    stdin().read_line(&mut database).unwrap();
    if database.trim().is_empty() {
        return;
    }
    let error = commit_until_it_fails(database.trim()).await;
    println!("\nerror: {error}");
}

/// Commits and acknowledges, and returns the code of the error that ended it.
async fn commit_until_it_fails(database: &str) -> &'static str {
    let store = match open(&Location::sqlite(database), &Options::default()).await {
        Ok(store) => store,
        Err(error) => return error.code(),
    };
    let epoch = match store.take_epoch(&profile()).await {
        Ok(epoch) => epoch,
        Err(fault) => return fault.code(),
    };
    let head = store.head(&profile()).await.unwrap();
    let mut head = head.map(|head| head.number);
    println!();
    loop {
        let stamp = head.map_or(1, |head| head.next().get());
        let new = draft_of(stamp, CONFIG_BYTES);
        match store.commit_generation(epoch, head, new).await {
            Ok(committed) => println!("ack: {}", committed.number),
            Err(error) => return error.code(),
        }
        head = GenerationNumber::new(stamp);
    }
}
