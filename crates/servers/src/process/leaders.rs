//! [`Leaders`]: who leads the processes of a server, so that those can be told from all others.

use std::{collections::HashSet, fs, sync::Arc};

use parking_lot::Mutex;

/// How many generations are looked back, at most: no chain is longer that is not a circle of a process that just ended.
const GENERATIONS: usize = 1024;

/// The processes that lead servers at this moment: keepers, and servers without one. A clone shares them.
#[derive(Debug, Clone, Default)]
pub(super) struct Leaders(Arc<Mutex<HashSet<u32>>>);

/// A process leads a server as long as this is held.
#[derive(Debug)]
pub(super) struct Leader {
    leaders: Leaders,
    pid: Option<u32>,
}

// === impl Leaders ===

impl Leaders {
    /// Takes a process in; one that has ended already leads nobody.
    pub(super) fn enter(&self, pid: Option<u32>) -> Leader {
        self.0.lock().extend(pid);
        Leader {
            leaders: self.clone(),
            pid,
        }
    }

    /// Tells whether a process leads a server or descends from one that does. One that nothing can be said of does not.
    pub(super) fn lead(&self, pid: u32) -> bool {
        let lineage = std::iter::successors(Some(pid), |pid| parent(*pid));
        let mut lineage = lineage.take(GENERATIONS);
        lineage.any(|pid| self.0.lock().contains(&pid))
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            self.leaders.0.lock().remove(&pid);
        }
    }
}

/// Returns the parent of a process; `None` for the first of all, and for one that is gone.
pub(super) fn parent(of: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{of}/stat")).ok()?;
    // The command's name stands in parentheses and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let parent = fields.split_whitespace().nth(1)?.parse().ok()?;
    (parent != 0).then_some(parent)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_leader_leads_itself_and_its_descendants_while_it_is_one() {
        let leaders = Leaders::default();
        let mut other = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let own = std::process::id();

        let leader = leaders.enter(Some(own));
        let led = [own, other.id(), parent(own).unwrap()].map(|pid| leaders.lead(pid));
        drop(leader);
        let after = leaders.lead(other.id());

        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!((led, after), ([true, true, false], false));
    }
}
