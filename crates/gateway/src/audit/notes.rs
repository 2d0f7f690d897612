//! [`Notes`]: refusals that wait to be written, equal ones as one. Pure: times are passed in.
//!
//! An equal refusal within a window is counted and makes no record of its own. The first window is a second; each that was
//! not quiet is followed by one that is twice as long, up to an hour, so that who goes on for days does not fill the disk.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use genlock_policy::Actor;
use genlock_store::{AuditOutcome, NewAudit};
use tokio::time::Instant;

/// How many different refusals are counted at once; more are lost, and counted as such.
pub(super) const MOST: usize = 1024;
/// How many of them are of one actor; what that one is refused beyond it is counted as one, whatever it was.
pub(super) const MOST_EACH: usize = 64;
/// How long the first window is.
const FIRST: Duration = Duration::from_secs(1);
/// How long a window is at most.
const LONGEST: Duration = Duration::from_secs(3600);

/// What became of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noted {
    /// It is one of a window that is open.
    Counted,
    /// It is the first of its window.
    Opened,
    /// There was no room for it.
    Lost,
}

/// What waits to be written.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// By what is equal of them: the entry, without its time and its count.
    windows: HashMap<NewAudit, Window>,
    /// Records that the store did not take, oldest first.
    unwritten: VecDeque<NewAudit>,
    /// How many were lost since the last record that says so.
    lost: u64,
}

#[derive(Debug)]
struct Window {
    first_ms: i64,
    count: u64,
    span: Duration,
    ends: Instant,
}

// === impl Notes ===

impl Notes {
    /// Takes note of a refusal.
    pub(super) fn note(&mut self, entry: NewAudit, now: Instant) -> Noted {
        let (first_ms, count) = (entry.at_ms, entry.count);
        let key = NewAudit {
            at_ms: 0,
            count: 1,
            ..entry
        };
        if let Some(window) = self.windows.get_mut(&key) {
            if window.count == 0 {
                window.first_ms = first_ms;
            }
            window.count += count;
            return Noted::Counted;
        }
        if key.target.is_some() && self.targets_of(&key.actor) >= MOST_EACH {
            // Whoever asks for ever new names fills neither the table nor the disk.
            let folded = NewAudit {
                at_ms: first_ms,
                count,
                target: None,
                detail: "many different ones".to_owned(),
                ..key
            };
            return self.note(folded, now);
        }
        if self.windows.len() >= MOST {
            // Those that only remember how long they were go first.
            self.windows.retain(|_, window| window.count > 0);
        }
        if self.windows.len() >= MOST {
            self.lost += count;
            return Noted::Lost;
        }
        let window = Window {
            first_ms,
            count,
            span: FIRST,
            ends: now + FIRST,
        };
        self.windows.insert(key, window);
        Noted::Opened
    }

    fn targets_of(&self, actor: &Actor) -> usize {
        let keys = self.windows.keys();
        keys.filter(|key| key.target.is_some() && key.actor == *actor)
            .count()
    }

    /// Takes back what the store did not take; returns how many are lost, for want of room. What was done takes the place of what
    /// was refused.
    pub(super) fn take_back(&mut self, entries: impl IntoIterator<Item = NewAudit>) -> u64 {
        let mut lost = 0;
        for entry in entries {
            let is_full = self.unwritten.len() >= MOST;
            let mut others = self.unwritten.iter();
            let lesser = others.position(|other| other.outcome == AuditOutcome::Refused);
            match (is_full, entry.outcome, lesser) {
                (false, ..) => self.unwritten.push_back(entry),
                (true, AuditOutcome::Done, Some(lesser)) => {
                    lost += self.unwritten.remove(lesser).map_or(0, |other| other.count);
                    self.unwritten.push_back(entry);
                }
                (true, AuditOutcome::Done, None) | (true, AuditOutcome::Refused, _) => {
                    lost += entry.count;
                }
            }
        }
        self.lost += lost;
        lost
    }

    /// Returns when something is to be written next; `None` while nothing waits.
    pub(super) fn next(&self) -> Option<Instant> {
        self.windows.values().map(|window| window.ends).min()
    }

    /// Returns how many records the store has not taken yet.
    pub(super) fn unwritten(&self) -> usize {
        self.unwritten.len()
    }

    /// Takes what is to be written now: what the store did not take before, the windows that have ended, and how many were lost.
    pub(super) fn due(&mut self, now: Instant, now_ms: i64) -> Vec<NewAudit> {
        let mut due: Vec<NewAudit> = self.unwritten.drain(..).collect();
        let mut ended = Vec::new();
        self.windows.retain(|key, window| {
            if window.ends > now {
                return true;
            }
            if window.count == 0 {
                return false;
            }
            ended.push(window.take(key));
            window.span = (window.span * 2).min(LONGEST);
            window.ends = now + window.span;
            true
        });
        self.add(&mut due, ended, now_ms);
        due
    }

    /// Takes everything, ended or not.
    pub(super) fn all(&mut self, now_ms: i64) -> Vec<NewAudit> {
        let mut all: Vec<NewAudit> = self.unwritten.drain(..).collect();
        let windows = self.windows.iter_mut();
        let open = windows.filter(|(_, window)| window.count > 0);
        let open = open.map(|(key, window)| window.take(key)).collect();
        self.add(&mut all, open, now_ms);
        all
    }

    fn add(&mut self, to: &mut Vec<NewAudit>, mut ended: Vec<NewAudit>, now_ms: i64) {
        ended.sort_by_key(|entry| entry.at_ms);
        to.extend(ended);
        if self.lost > 0 {
            to.push(lost(self.lost, now_ms));
            self.lost = 0;
        }
    }
}

impl Window {
    fn take(&mut self, key: &NewAudit) -> NewAudit {
        NewAudit {
            at_ms: self.first_ms,
            count: std::mem::take(&mut self.count),
            ..key.clone()
        }
    }
}

/// The record that stands for those that were lost.
fn lost(count: u64, at_ms: i64) -> NewAudit {
    NewAudit {
        at_ms,
        actor: Actor::system(),
        key: None,
        tenant: None,
        action: "audit.lost".to_owned(),
        target: None,
        generation: None,
        gate: None,
        outcome: AuditOutcome::Refused,
        code: Some("audit.full".to_owned()),
        count,
        detail: format!("{count} records lost: more different ones came at once than are kept"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(target: &str, at_ms: i64) -> NewAudit {
        NewAudit {
            at_ms,
            actor: Actor::new("key:svc:a"),
            key: None,
            tenant: None,
            action: "call.refused".to_owned(),
            target: Some(target.to_owned()),
            generation: None,
            gate: Some("tool".to_owned()),
            outcome: AuditOutcome::Refused,
            code: Some("unknown_tool".to_owned()),
            count: 1,
            detail: String::new(),
        }
    }

    fn counted(target: &str, at_ms: i64, count: u64) -> NewAudit {
        NewAudit {
            count,
            ..entry(target, at_ms)
        }
    }

    /// What somebody else was refused.
    fn of_another(number: usize) -> NewAudit {
        NewAudit {
            actor: Actor::new(format!("key:svc:{number}")),
            ..entry("a", 0)
        }
    }

    #[test]
    fn whoever_asks_for_ever_new_names_fills_nothing() {
        let (mut notes, began) = (Notes::default(), Instant::now());
        for at in 0..5_000_usize {
            notes.note(entry(&at.to_string(), 0), began);
        }
        notes.note(of_another(1), began);

        let due = notes.due(began + FIRST, 0);

        let total: u64 = due.iter().map(|entry| entry.count).sum();
        assert_eq!((due.len(), total), (MOST_EACH + 2, 5_001));
        let folded = due.iter().find(|entry| entry.target.is_none()).unwrap();
        let rest = 5_000 - MOST_EACH as u64;
        assert_eq!(
            (folded.count, folded.detail.as_str()),
            (rest, "many different ones")
        );
    }

    #[test]
    fn what_was_done_takes_the_place_of_what_was_refused() {
        let mut notes = Notes::default();
        let done = |at| NewAudit {
            outcome: AuditOutcome::Done,
            ..entry("a", at)
        };
        assert_eq!(notes.take_back((0..MOST).map(of_another)), 0);

        assert_eq!(notes.take_back([done(1), done(2), entry("late", 3)]), 3);

        let all = notes.all(0);
        assert_eq!(all.len(), MOST + 1);
        assert_eq!(all[MOST - 2..MOST], [done(1), done(2)]);
        assert_eq!(all[MOST], super::lost(3, 0));
    }

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn equal_refusals_within_a_second_make_one_record() {
        let (mut notes, began) = (Notes::default(), Instant::now());
        for at in 0..500 {
            notes.note(entry("a", at), began + seconds(0.5));
        }
        notes.note(entry("b", 7), began);

        assert_eq!(notes.next(), Some(began + FIRST));
        assert_eq!(notes.due(began + seconds(0.9), 0), []);
        assert_eq!(notes.due(began + FIRST, 0), [counted("b", 7, 1)]);
        assert_eq!(notes.due(began + seconds(1.5), 0), [counted("a", 0, 500)]);
    }

    #[test]
    fn who_goes_on_makes_ever_fewer_records_and_the_counts_add_up() {
        let (mut notes, began) = (Notes::default(), Instant::now());
        let mut written = Vec::new();
        let day: u32 = 86_400;
        for second in 0..day {
            let now = began + Duration::from_secs(second.into());
            notes.note(entry("a", second.into()), now);
            written.extend(notes.due(now, 0));
        }
        written.extend(notes.all(0));

        let total: u64 = written.iter().map(|entry| entry.count).sum();
        assert_eq!(total, u64::from(day));
        // Eleven windows that double up to an hour, and then one an hour.
        assert!((30..=40).contains(&written.len()), "{}", written.len());
    }

    #[test]
    fn after_a_quiet_window_it_begins_with_a_second_again() {
        let (mut notes, began) = (Notes::default(), Instant::now());
        notes.note(entry("a", 1), began);
        notes.due(began + seconds(1.0), 0);
        assert_eq!(notes.due(began + seconds(3.0), 0), []);
        assert_eq!(notes.next(), None);

        notes.note(entry("a", 9), began + seconds(4.0));

        assert_eq!(notes.next(), Some(began + seconds(5.0)));
        assert_eq!(notes.all(0), [counted("a", 9, 1)]);
        assert_eq!(notes.all(0), []);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_said() {
        let (mut notes, began) = (Notes::default(), Instant::now());
        let lost = (0..MOST + 7)
            .filter(|at| notes.note(of_another(*at), began) == Noted::Lost)
            .count();
        // An equal one needs no room.
        assert_eq!(notes.note(of_another(0), began), Noted::Counted);

        let due = notes.due(began + FIRST, 99);

        assert_eq!((lost, due.len()), (7, MOST + 1));
        assert_eq!(due.last(), Some(&super::lost(7, 99)));
        // The windows that are open now only remember: they make room.
        let noted = notes.note(entry("new", 0), began + FIRST);
        assert_eq!(noted, Noted::Opened);
    }

    #[test]
    fn what_the_store_did_not_take_comes_first_and_is_bounded() {
        let (mut notes, began) = (Notes::default(), Instant::now());
        let entries = (0..MOST).map(|at| entry("a", i64::try_from(at).unwrap()));
        assert_eq!(notes.take_back(entries), 0);
        assert_eq!(notes.take_back([counted("b", 0, 3)]), 3);
        assert_eq!(notes.unwritten(), MOST);

        let due = notes.due(began, 5);

        assert_eq!((due.len(), &due[0]), (MOST + 1, &entry("a", 0)));
        assert_eq!(due.last(), Some(&super::lost(3, 5)));
        assert_eq!(notes.unwritten(), 0);
    }
}
