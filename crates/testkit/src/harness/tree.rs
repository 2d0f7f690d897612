//! Processes and their descendants, by `/proc`.

use std::{collections::BTreeMap, fs, path::Path};

use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, kill_process, kill_process_group},
};

/// Whether the process exists and is no zombie.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(_, state)| state != 'Z')
}

/// All living descendants of a process, in whatever group or session; those whose parent has died are not found.
#[must_use]
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(child) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some((parent, _)) = stat(child) {
            children.entry(parent).or_default().push(child);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        let of_parent = children.remove(&parent).unwrap_or_default();
        open.extend(&of_parent);
        found.extend(of_parent);
    }
    found
}

/// All processes that have `mark` among their arguments or whose standard output is a file with it in its path, such as
/// the directory of a test; in whatever group or session, and whoever their parent is.
#[must_use]
pub fn marked(mark: &str) -> Vec<u32> {
    let own = std::process::id();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own && is_alive(*pid) && bears(*pid, mark))
        .collect()
}

fn bears(pid: u32, mark: &str) -> bool {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let output = fs::read_link(format!("/proc/{pid}/fd/1")).unwrap_or_default();
    String::from_utf8_lossy(&arguments).contains(mark) || output.to_string_lossy().contains(mark)
}

/// Kills a process.
pub fn kill9(pid: u32) {
    send(pid, Signal::KILL);
}

/// Whether somebody holds the lock on this file, as the fake server does with `--alive-lock` while it lives.
///
/// Unlike a pid it means the same in every PID namespace and is never used again by another process.
#[must_use]
pub fn is_locked(path: &Path) -> bool {
    let Ok(file) = fs::File::open(path) else {
        return false;
    };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

/// The parent's pid and the state letter.
fn stat(pid: u32) -> Option<(u32, char)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in parentheses and may hold anything.
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((fields.next()?.parse().ok()?, state))
}

pub(crate) fn send(pid: u32, signal: Signal) {
    // A process that is gone needs no signal.
    let _ = raw(pid).map(|pid| kill_process(pid, signal));
}

/// Kills a process, its group and all its descendants.
pub(crate) fn kill_tree(pid: u32) {
    let below = descendants(pid);
    let _ = raw(pid).map(|pid| kill_process_group(pid, Signal::KILL));
    for process in below {
        send(process, Signal::KILL);
    }
}

fn raw(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}
