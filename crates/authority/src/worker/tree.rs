//! Processes as `/proc` shows them, and the end of a whole tree of them.

use std::{collections::BTreeMap, fs, io};

use genlock_frames::{Birth, Pid, ProcessStat};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How often is looked for processes that were started meanwhile, before those that are known are killed.
const ROUNDS: usize = 50;
/// How often in a row nothing new has to be seen: a process that is handed on to another one while `/proc` is read may stand
/// below a parent that is not there any more.
const LOOKS: usize = 2;

/// One process for good: its id may be used again, with another birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) pid: Pid,
    pub(crate) birth: Birth,
}

impl Identity {
    /// Asks the system who has this id now.
    pub(crate) fn of(pid: Pid) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let stat = ProcessStat::parse(&stat);
        let stat =
            stat.ok_or_else(|| io::Error::other("the state of the process cannot be read"))?;
        Ok(Self::from(stat))
    }
}

impl From<ProcessStat> for Identity {
    fn from(stat: ProcessStat) -> Self {
        Self {
            pid: stat.pid,
            birth: stat.birth,
        }
    }
}

/// Everything that runs, as far as it may be seen.
fn all() -> Vec<ProcessStat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
        })
        .filter_map(|entry| {
            ProcessStat::parse(&fs::read_to_string(entry.path().join("stat")).ok()?)
        })
        .filter(|process| !process.has_ended)
        .collect()
}

/// Returns those of `roots` that live, and what they started.
fn living(roots: &BTreeMap<Pid, Birth>, all: &[ProcessStat]) -> BTreeMap<Pid, Birth> {
    let roots = all
        .iter()
        .filter(|process| roots.get(&process.pid) == Some(&process.birth));
    let mut found = BTreeMap::new();
    for root in roots {
        found.insert(root.pid, root.birth);
        let below = ProcessStat::descendants(all, root.pid);
        found.extend(below.iter().map(|process| (process.pid, process.birth)));
    }
    found
}

/// Returns what lives of a tree: of these processes, and of what they started.
pub(crate) fn look(roots: &BTreeMap<Pid, Birth>) -> BTreeMap<Pid, Birth> {
    living(roots, &all())
}

/// Kills these processes and everything that they started.
///
/// All of them are held first, so that none can start another while it is looked for it. A process is only ever touched
/// while it is the one that was meant. Returns what was killed; it may take a moment to go.
pub(crate) fn kill(roots: &BTreeMap<Pid, Birth>) -> BTreeMap<Pid, Birth> {
    let mut held = BTreeMap::new();
    let mut seen_none = 0;
    for _ in 0..ROUNDS {
        let mut known = roots.clone();
        known.extend(&held);
        let mut fresh = look(&known);
        fresh.retain(|pid, birth| held.get(pid) != Some(birth));
        seen_none = if fresh.is_empty() { seen_none + 1 } else { 0 };
        if seen_none == LOOKS {
            break;
        }
        for (pid, birth) in &fresh {
            send(*pid, *birth, Signal::STOP);
        }
        held.extend(fresh);
    }
    for (pid, birth) in &held {
        send(*pid, *birth, Signal::KILL);
    }
    held
}

fn send(pid: Pid, birth: Birth, signal: Signal) {
    let raw = i32::try_from(pid.get()).ok();
    let Some(raw) = raw.and_then(rustix::process::Pid::from_raw) else {
        return;
    };
    // The descriptor stays that of one process. Whether it is the one that is meant is asked after it was opened.
    let Ok(process) = pidfd_open(raw, PidfdFlags::empty()) else {
        return;
    };
    if Identity::of(pid).is_ok_and(|found| found.birth == birth) {
        // One that has ended meanwhile needs no signal.
        let _ = pidfd_send_signal(process, signal);
    }
}
