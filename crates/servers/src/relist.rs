//! [`Relist`]: when a server's tools are listed again, and whether the new list takes the place of the old one.

use std::time::Duration;

use tokio::time::Instant;

/// The least time between the beginnings of two listings: announcements in between are one.
const EVERY: Duration = Duration::from_secs(1);
/// The longest pause before a failed listing is made again; it begins with [`EVERY`] and doubles.
const LONGEST: Duration = Duration::from_secs(30);
/// How often a failed listing is made again before the next announcement is waited for.
const RETRIES: u32 = 5;

/// What a listing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    /// A list with tools.
    Some,
    /// A list without tools.
    Empty,
    /// No list.
    Failed,
}

/// What becomes of the list before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The new one takes its place.
    Replace,
    /// It stays.
    Keep,
}

/// The listings of one connection.
#[derive(Debug)]
pub(crate) struct Relist {
    began_at: Instant,
    wanted_at: Option<Instant>,
    failures: u32,
    /// Whether the last list was empty and not believed.
    doubted: bool,
}

impl Relist {
    /// Begins with a connection, with which its tools were listed.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            began_at: now,
            wanted_at: None,
            failures: 0,
            doubted: false,
        }
    }

    /// Takes note that the server said that its tools changed.
    pub(crate) fn announced(&mut self, now: Instant) {
        self.failures = 0;
        self.wanted_at = Some(now.max(self.began_at + EVERY));
    }

    /// Returns when the next listing is to begin.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.wanted_at
    }

    /// Takes note that a listing begins.
    pub(crate) fn began(&mut self, now: Instant) {
        self.began_at = now;
        self.wanted_at = None;
    }

    /// Decides what becomes of the list before, `had_tools` or not.
    ///
    /// An empty list after one with tools is not believed before a second listing says the same: a server that has not
    /// loaded its tools yet must not take them away from everybody.
    pub(crate) fn ended(&mut self, listing: Listing, had_tools: bool, now: Instant) -> Verdict {
        let doubted = std::mem::take(&mut self.doubted);
        match listing {
            Listing::Empty if had_tools && !doubted => {
                self.doubted = true;
                self.again(now, EVERY);
                Verdict::Keep
            }
            Listing::Some | Listing::Empty => {
                self.failures = 0;
                Verdict::Replace
            }
            Listing::Failed => {
                self.doubted = doubted;
                if self.failures < RETRIES {
                    let pause = EVERY.saturating_mul(2_u32.saturating_pow(self.failures));
                    self.failures += 1;
                    self.again(now, pause.min(LONGEST));
                }
                Verdict::Keep
            }
        }
    }

    fn again(&mut self, now: Instant, pause: Duration) {
        // What was announced meanwhile is listed no later for it.
        let at = (now + pause).max(self.began_at + EVERY);
        self.wanted_at = Some(self.wanted_at.map_or(at, |wanted| wanted.min(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn due(relist: &Relist, start: Instant) -> Option<u128> {
        relist.due_at().map(|at| (at - start).as_millis())
    }

    #[test]
    fn announcements_are_listed_once_a_second_at_most() {
        let start = Instant::now();
        let mut relist = Relist::new(start);
        assert_eq!(due(&relist, start), None);
        relist.announced(start + MS(5000));
        assert_eq!(due(&relist, start), Some(5000));
        relist.began(start + MS(5000));
        for after in [5001, 5002, 5500] {
            relist.announced(start + MS(after));
        }
        assert_eq!(
            relist.ended(Listing::Some, true, start + MS(5600)),
            Verdict::Replace
        );
        assert_eq!(due(&relist, start), Some(6000));
        relist.began(start + MS(6000));
        assert_eq!(due(&relist, start), None);
    }

    #[test]
    fn a_failed_listing_replaces_nothing_and_is_made_again_five_times() {
        let start = Instant::now();
        let (mut relist, mut now) = (Relist::new(start), start);
        let mut pauses = Vec::new();
        loop {
            relist.began(now);
            assert_eq!(relist.ended(Listing::Failed, true, now), Verdict::Keep);
            let Some(at) = relist.due_at() else { break };
            pauses.push((at - now).as_secs());
            now = at;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16]);
        relist.announced(now + MS(60_000));
        relist.began(now + MS(60_000));
        relist.ended(Listing::Failed, true, now + MS(60_000));
        assert_eq!(
            relist.due_at(),
            Some(now + MS(61_000)),
            "an announcement begins anew"
        );
    }

    #[test]
    fn an_empty_list_is_believed_the_second_time() {
        let start = Instant::now();
        let mut relist = Relist::new(start);
        assert_eq!(
            relist.ended(Listing::Empty, false, start),
            Verdict::Replace,
            "nothing to lose"
        );
        assert_eq!(relist.ended(Listing::Empty, true, start), Verdict::Keep);
        assert_eq!(due(&relist, start), Some(1000));
        relist.began(start + MS(1000));
        // A failure in between says nothing.
        assert_eq!(
            relist.ended(Listing::Failed, true, start + MS(1000)),
            Verdict::Keep
        );
        assert_eq!(
            relist.ended(Listing::Empty, true, start + MS(2000)),
            Verdict::Replace
        );
        // One with tools in between does.
        assert_eq!(
            relist.ended(Listing::Empty, true, start + MS(3000)),
            Verdict::Keep
        );
        relist.ended(Listing::Some, true, start + MS(4000));
        assert_eq!(
            relist.ended(Listing::Empty, true, start + MS(5000)),
            Verdict::Keep
        );
    }
}
