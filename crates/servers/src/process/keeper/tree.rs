//! Ends everything that descends from this process.

use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, wait};

use super::super::leaders::parent;

/// Kills everything that descends from this process and waits until it is gone.
///
/// Only direct children are looked for and killed: they cannot be reaped by anybody else, so that their numbers belong to
/// no stranger. What they leave behind becomes a child of this process, which is a subreaper, and is found the next time.
pub(super) fn kill_all() {
    loop {
        for child in children() {
            // Its group first: all of it at once, so that no member can start another meanwhile. One that leads no group
            // has no group of its number, and one that has ended needs no signal.
            let _ = kill_process_group(child, Signal::KILL);
            let _ = kill_process(child, Signal::KILL);
        }
        // Waits for one, takes what else there is, and looks again for what they have left behind.
        let mut reaped = wait(WaitOptions::empty());
        while let Ok(Some(_)) = reaped {
            reaped = wait(WaitOptions::NOHANG);
        }
        if let Err(rustix::io::Errno::CHILD) = reaped {
            return;
        }
    }
}

/// Returns the direct children of this process.
fn children() -> Vec<Pid> {
    let listed = fs::read_to_string("/proc/thread-self/children");
    match listed {
        Ok(text) => text.split_whitespace().filter_map(pid).collect(),
        // Not every kernel has that file.
        Err(_) => children_by_parent(),
    }
}

fn children_by_parent() -> Vec<Pid> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let candidates = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    candidates
        .filter(|candidate| parent(*candidate) == Some(own))
        .filter_map(|child| Pid::from_raw(i32::try_from(child).ok()?))
        .collect()
}

fn pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn both_ways_to_find_children_find_this_one() {
        let mut child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let expected = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();

        let (listed, by_parent) = (children(), children_by_parent());

        child.kill().unwrap();
        child.wait().unwrap();
        assert!(listed.contains(&expected), "{listed:?}");
        assert!(by_parent.contains(&expected), "{by_parent:?}");
    }
}
