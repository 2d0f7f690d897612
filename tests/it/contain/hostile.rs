//! Servers that do everything to outlive their owner.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use genlock_testkit::harness::{
    DEADLINE, GenlockProcess, Scratch, eventually, fake_server, is_alive, is_locked, kill9, marked,
};
use serde_json::{Value, json};

/// How long after its owner's death anything may be left.
const LIMIT: Duration = Duration::from_secs(1);
/// How long nothing may come after all seemed gone: what was about to start when its owner died.
const QUIET: Duration = Duration::from_millis(100);
/// How many pairs of processes the bursting server starts.
const BURST: &str = "30";

/// A way to outlive one's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hostile {
    /// Deaf to the end of its input and to SIGTERM.
    Deaf,
    /// Starts a deaf process twice removed, in a session of its own.
    Detaching,
    /// A shell in a shell around a deaf server.
    Wrapped,
    /// Never answers its handshake, and is deaf.
    Stuck,
    /// Starts processes as fast as it can, half of them in sessions of their own.
    Bursting,
    /// Spins on its closed output.
    Spinning,
}

pub(crate) const ALL: [Hostile; 6] = [
    Hostile::Deaf,
    Hostile::Detaching,
    Hostile::Wrapped,
    Hostile::Stuck,
    Hostile::Bursting,
    Hostile::Spinning,
];

/// The servers of one run, each with files that are locked while it lives.
pub(crate) struct Gang {
    scratch: Scratch,
}

// === impl Hostile ===

impl Hostile {
    /// Its name in a config.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deaf => "deaf",
            Self::Detaching => "detaching",
            Self::Wrapped => "wrapped",
            Self::Stuck => "stuck",
            Self::Bursting => "bursting",
            Self::Spinning => "spinning",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Deaf | Self::Wrapped => &["--ignore-term"],
            Self::Detaching => &["--detach-grandchild"],
            Self::Stuck => &["--ignore-term", "--no-answer"],
            Self::Bursting => &["--ignore-term", "--fork-burst", BURST],
            Self::Spinning => &["--ignore-term", "--spin-on-epipe"],
        }
    }

    /// What is locked while a process of it lives, by what comes after the name of the lock.
    fn locks(self) -> &'static [&'static str] {
        match self {
            Self::Detaching => &["", ".grandchild"],
            Self::Bursting => &["", ".burst"],
            Self::Deaf | Self::Wrapped | Self::Stuck | Self::Spinning => &[""],
        }
    }
}

// === impl Gang ===

impl Gang {
    pub(crate) fn new(scratch: Scratch) -> Self {
        Self { scratch }
    }

    fn lock(&self, hostile: Hostile) -> String {
        let path = self.scratch.join(&format!("{}.alive", hostile.name()));
        path.into_os_string().into_string().unwrap()
    }

    /// The command line of one.
    fn command(&self, hostile: Hostile) -> Vec<String> {
        let mut line = vec![fake_server().to_str().unwrap().to_owned()];
        line.extend(hostile.flags().iter().map(ToString::to_string));
        line.extend(["--alive-lock".to_owned(), self.lock(hostile)]);
        if hostile != Hostile::Wrapped {
            return line;
        }
        // The words after the command keep the shells from becoming it.
        let inner = format!("{}; true", line.join(" "));
        let outer = format!("sh -c '{inner}'; true");
        ["/bin/sh", "-c", &outer].map(str::to_owned).into()
    }

    /// The definitions of all, with this containment.
    pub(crate) fn definitions(&self, containment: &str) -> Value {
        let definition = |hostile: &Hostile| {
            let definition = json!({"command": self.command(*hostile), "containment": containment});
            (hostile.name().to_owned(), definition)
        };
        ALL.iter().map(definition).collect()
    }

    /// Those of which a process lives.
    pub(crate) fn alive(&self) -> Vec<Hostile> {
        let lives = |hostile: &Hostile| {
            let lock = self.lock(*hostile);
            hostile
                .locks()
                .iter()
                .any(|end| is_locked(&PathBuf::from(format!("{lock}{end}"))))
        };
        ALL.into_iter().filter(lives).collect()
    }

    /// Waits until each of them has every process that it is to have at least.
    pub(crate) fn wait_alive(&self) {
        eventually(DEADLINE, "all hostile servers live", || {
            let all = ALL.iter().all(|hostile| {
                let lock = self.lock(*hostile);
                let mut locks = hostile.locks().iter();
                locks.all(|end| is_locked(&PathBuf::from(format!("{lock}{end}"))))
            });
            all.then_some(())
        });
    }

    /// All processes of it, found by the directory of this run.
    pub(crate) fn processes(&self) -> Vec<u32> {
        marked(self.scratch.path().to_str().unwrap())
    }

    /// Waits until nothing is left, of these processes neither, and says how long that took; or who was left at the end of
    /// the limit, and with how many processes.
    pub(crate) fn wait_gone(&self, others: &[u32]) -> Result<Duration, (Vec<Hostile>, usize)> {
        let began = Instant::now();
        let mut gone = None;
        loop {
            let servers = self.alive();
            let mut left = self.processes();
            left.extend(others.iter().filter(|pid| is_alive(**pid)));
            let took = began.elapsed();
            if servers.is_empty() && left.is_empty() {
                let since = *gone.get_or_insert(took);
                if took - since > QUIET {
                    return Ok(since);
                }
                continue;
            }
            gone = None;
            if took > LIMIT {
                return Err((servers, left.len()));
            }
        }
    }

    /// Starts all of them with nobody to contain them, as their owner would who died at once.
    pub(crate) fn abandon(&self) -> Vec<Child> {
        let start = |hostile: &Hostile| {
            let line = self.command(*hostile);
            let (program, args) = line.split_first().unwrap();
            let mut command = Command::new(program);
            command.args(args).stdin(Stdio::piped());
            let piped = command.stdout(Stdio::piped()).stderr(Stdio::null());
            piped.spawn().unwrap()
        };
        ALL.iter().map(start).collect()
    }

    /// Kills whatever is left, found by the directory of this run.
    pub(crate) fn clean_up(&self) {
        eventually(DEADLINE, "nothing is left of the run", || {
            let left = self.processes();
            left.iter().for_each(|pid| kill9(*pid));
            left.is_empty().then_some(())
        });
    }
}

impl Drop for Gang {
    fn drop(&mut self) {
        self.clean_up();
    }
}

/// All processes below a gateway: its keepers, and the servers that did not detach themselves.
pub(crate) fn below(gateway: &GenlockProcess) -> Vec<u32> {
    genlock_testkit::harness::descendants(gateway.pid())
}
