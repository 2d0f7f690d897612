//! What `/proc/PID/stat` says of a process: who it is, and whose child. Reading the file is for the caller.

use std::collections::BTreeMap;

use crate::ids::{Birth, Pid};

/// A process as the system knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// Its id.
    pub pid: Pid,
    /// The process that started it, or took it over since that one is gone.
    pub parent: Pid,
    /// When it was started.
    pub birth: Birth,
    /// Whether it has ended, and nobody has asked how yet.
    pub has_ended: bool,
}

// === impl ProcessStat ===

impl ProcessStat {
    /// Reads the text of `/proc/PID/stat`.
    ///
    /// ```
    /// use genlock_frames::{Birth, Pid, ProcessStat};
    ///
    /// let stat = format!("7 (odd) name) S 1 {}42 0 0", "0 ".repeat(17));
    /// let read = ProcessStat::parse(&stat).unwrap();
    ///
    /// assert_eq!((read.pid, read.parent, read.birth), (Pid::new(7), Pid::new(1), Birth::new(42)));
    /// assert!(!read.has_ended);
    /// ```
    pub fn parse(stat: &str) -> Option<Self> {
        // The name of the program stands in parentheses and may hold anything.
        let (pid, rest) = stat.split_once(' ')?;
        let mut fields = rest[rest.rfind(')')? + 1..].split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?;
        // The start is field 22; the parent was field 4.
        let birth = fields.nth(22 - 5)?;
        Some(Self {
            pid: Pid::new(pid.parse().ok()?),
            parent: Pid::new(parent.parse().ok()?),
            birth: Birth::new(birth.parse().ok()?),
            has_ended: matches!(state, "Z" | "X"),
        })
    }

    /// Returns those of `all` that `pid` started, and what these started, nearest first.
    pub fn descendants(all: &[Self], pid: Pid) -> Vec<Self> {
        let mut children = BTreeMap::<Pid, Vec<Self>>::new();
        for process in all.iter().filter(|process| process.pid != process.parent) {
            children.entry(process.parent).or_default().push(*process);
        }
        let mut found: Vec<Self> = children.remove(&pid).unwrap_or_default();
        let mut next = 0;
        while let Some(process) = found.get(next) {
            // Taken out, so that a process that is read twice, under another parent, leads nowhere a second time.
            let own = children.remove(&process.pid).unwrap_or_default();
            found.extend(own);
            next += 1;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32) -> ProcessStat {
        ProcessStat {
            pid: Pid::new(pid),
            parent: Pid::new(parent),
            birth: Birth::new(0),
            has_ended: false,
        }
    }

    #[test]
    fn descendants_are_found_in_any_order_and_in_any_circle() {
        let all = [(5, 4), (2, 1), (4, 2), (3, 1), (9, 9), (7, 8), (8, 7)]
            .map(|(pid, parent)| process(pid, parent));
        let of = |pid| {
            let found = ProcessStat::descendants(&all, Pid::new(pid));
            found
                .iter()
                .map(|found| found.pid.get())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(1), [2, 3, 4, 5]);
        assert_eq!(of(4), [5]);
        assert_eq!(of(6), [0; 0]);
        assert_eq!(of(9), [0; 0]);
        assert_eq!(of(7), [8, 7]);
    }

    #[test]
    fn a_text_that_is_no_stat_is_none() {
        for text in [
            "",
            "7",
            "7 (a",
            "7 (a) S 1 2",
            "x (a) S 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 9",
        ] {
            assert_eq!(ProcessStat::parse(text), None, "{text}");
        }
    }
}
