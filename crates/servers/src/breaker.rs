//! [`Breaker`]: keeps calls from a connection whose transport fails again and again.
//!
//! It belongs to one connection, so that a new one begins with a closed breaker. What a server answers, tool errors
//! included, closes it; what never answers opens it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How many transport failures in a row open it.
pub(crate) const FAILURES: u32 = 5;
/// How long it stays open before one call may try.
pub(crate) const OPEN: Duration = Duration::from_secs(30);

/// Where a breaker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Calls pass.
    Closed {
        /// How many failed in a row.
        failures: u32,
    },
    /// Calls are refused.
    Open {
        /// When one may try.
        until: Instant,
    },
    /// One call tries; others are refused.
    HalfOpen,
}

/// How a call ended, as far as the transport is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server answered.
    Answered,
    /// The transport failed.
    Failed,
    /// Nothing can be told.
    Nothing,
}

/// The breaker of one connection.
#[derive(Debug)]
pub(crate) struct Breaker(Mutex<State>);

/// A call that may go out.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    breaker: &'a Breaker,
    verdict: Verdict,
}

/// A call that must not go out; another may try then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    /// When, at the earliest; `None` while a call tries.
    pub(crate) until: Option<Instant>,
}

impl State {
    fn admit(self, now: Instant) -> (Self, Result<(), Refused>) {
        match self {
            Self::Closed { .. } => (self, Ok(())),
            Self::Open { until } if until <= now => (Self::HalfOpen, Ok(())),
            Self::Open { until } => (self, Err(Refused { until: Some(until) })),
            Self::HalfOpen => (self, Err(Refused { until: None })),
        }
    }

    fn refuses(self) -> bool {
        match self {
            Self::Closed { .. } => false,
            Self::Open { .. } | Self::HalfOpen => true,
        }
    }

    fn record(self, verdict: Verdict, now: Instant) -> Self {
        let until = now + OPEN;
        match (self, verdict) {
            (_, Verdict::Answered) => Self::Closed { failures: 0 },
            (Self::Closed { failures }, Verdict::Failed) if failures + 1 < FAILURES => {
                Self::Closed {
                    failures: failures + 1,
                }
            }
            (Self::Closed { .. } | Self::HalfOpen, Verdict::Failed) => Self::Open { until },
            // A call that was under way when it opened.
            (Self::Open { .. }, Verdict::Failed) => self,
            // The one that tried went away: the next one tries.
            (Self::HalfOpen, Verdict::Nothing) => Self::Open { until: now },
            (Self::Closed { .. } | Self::Open { .. }, Verdict::Nothing) => self,
        }
    }
}

// === impl Breaker ===

impl Default for Breaker {
    fn default() -> Self {
        Self(Mutex::new(State::Closed { failures: 0 }))
    }
}

impl Breaker {
    /// Lets a call out, or refuses it at once.
    pub(crate) fn admit(&self) -> Result<Pass<'_>, Refused> {
        let mut state = self.0.lock();
        let (next, admitted) = state.admit(Instant::now());
        *state = next;
        admitted.map(|()| Pass {
            breaker: self,
            verdict: Verdict::Nothing,
        })
    }

    /// Tells when an open breaker lets one call try; `None` where calls pass.
    pub(crate) fn open_until(&self) -> Option<Instant> {
        match *self.0.lock() {
            State::Open { until } => Some(until),
            State::Closed { .. } | State::HalfOpen => None,
        }
    }
}

// === impl Pass ===

impl Pass<'_> {
    /// Says how the call ended. One that is dropped before ended with nothing.
    pub(crate) fn ended(mut self, verdict: Verdict) {
        self.verdict = verdict;
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = self.breaker.0.lock();
        let before = *state;
        *state = state.record(self.verdict, Instant::now());
        let (was_open, is_open) = (before.refuses(), state.refuses());
        if is_open && !was_open {
            tracing::warn!("a server's transport failed too often: its breaker opens");
        } else if was_open && !is_open {
            tracing::info!("a server answers again: its breaker closes");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn call(breaker: &Breaker, verdict: Verdict) {
        breaker.admit().unwrap().ended(verdict);
    }

    fn fail(breaker: &Breaker, times: u32) {
        for _ in 0..times {
            call(breaker, Verdict::Failed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn five_failures_in_a_row_open_it_for_30_s_and_one_call_tries_then() {
        let breaker = Breaker::default();
        fail(&breaker, 4);
        call(&breaker, Verdict::Answered);
        fail(&breaker, 4);
        call(&breaker, Verdict::Nothing);
        assert_eq!(breaker.open_until(), None);

        call(&breaker, Verdict::Failed);
        let until = Instant::now() + Duration::from_secs(30);
        assert_eq!(breaker.open_until(), Some(until));
        let refused = Refused { until: Some(until) };
        assert_eq!(breaker.admit().unwrap_err(), refused);
        advance(Duration::from_millis(29_999)).await;
        assert_eq!(breaker.admit().unwrap_err(), refused);

        advance(Duration::from_millis(1)).await;
        let tries = breaker.admit().unwrap();
        assert_eq!(breaker.admit().unwrap_err(), Refused { until: None });
        tries.ended(Verdict::Failed);
        let until = Instant::now() + Duration::from_secs(30);
        assert_eq!(breaker.open_until(), Some(until));

        advance(Duration::from_secs(30)).await;
        call(&breaker, Verdict::Answered);
        fail(&breaker, 4);
        assert_eq!(breaker.open_until(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_tries_and_goes_away_leaves_it_to_the_next() {
        let breaker = Breaker::default();
        fail(&breaker, 5);
        advance(Duration::from_secs(30)).await;
        drop(breaker.admit().unwrap());
        call(&breaker, Verdict::Answered);
        assert!(breaker.admit().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_failure_does_not_prolong_it_and_a_late_answer_closes_it() {
        let breaker = Breaker::default();
        let (late, answered) = (breaker.admit().unwrap(), breaker.admit().unwrap());
        fail(&breaker, 5);
        let until = breaker.open_until();
        advance(Duration::from_secs(1)).await;
        late.ended(Verdict::Failed);
        assert_eq!(breaker.open_until(), until);
        answered.ended(Verdict::Answered);
        assert_eq!(breaker.open_until(), None);
    }
}
