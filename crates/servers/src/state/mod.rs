//! The life of one server as a pure machine: `step(state, event, now)` gives the next state and what to do.
//!
//! Time and chance are passed in. The actor in `actor.rs` performs the effects and feeds their results back as events.

use std::time::Duration;

use tokio::time::Instant;

/// Pauses before the second, third and fourth attempt of a first connect.
pub const FIRST_CONNECT_PAUSES: [Duration; 3] = [secs(1), secs(2), secs(4)];
/// Pauses before the attempts of a reconnect.
pub const RECONNECT_PAUSES: [Duration; 5] = [secs(1), secs(2), secs(4), secs(8), secs(16)];
/// The first cooldown after a ladder of attempts failed; it doubles each time.
pub const COOLDOWN_FIRST: Duration = secs(30);
/// The longest cooldown.
pub const COOLDOWN_LONGEST: Duration = secs(600);
/// How long a parked server waits for its first self-probe; it doubles each time.
pub const PROBE_FIRST: Duration = secs(30);
/// The longest pause between self-probes.
pub const PROBE_LONGEST: Duration = secs(300);
/// A server that was up this long starts its ladder anew: uptime resets it, not a handshake.
pub const STABLE_AFTER: Duration = secs(600);
/// A session that lasted this long may be renewed at once; one that is shorter counts as a failure, so that sessions that
/// only ever end are not renewed in a circle.
pub const SESSION_LASTED: Duration = secs(10);
/// How much chance may lengthen a pause.
pub const JITTER: f64 = 0.25;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Where a server is in its life.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerState {
    /// Its definition says `enabled: false`; it is never started.
    Disabled,
    /// It has not been connected yet; an attempt runs, or the pause before the next one.
    Connecting(Attempt),
    /// It serves.
    Ready {
        /// Since when.
        since: Instant,
        /// How many attempts and connections failed lately, without a long uptime between.
        failures: u32,
        /// How many cooldowns came before.
        cooldowns: u32,
    },
    /// Its connection ended; an attempt runs, or the pause before the next one.
    Reconnecting(Attempt),
    /// A ladder of attempts failed; one attempt follows at the end.
    Cooldown {
        /// When the next attempt is made.
        until: Instant,
        /// How many cooldowns there were in a row, this one included.
        cooldowns: u32,
        /// Why the last attempt failed.
        error: String,
    },
    /// It failed in a way that waiting does not mend, such as a missing executable. It probes itself now and then.
    Parked {
        /// When the next self-probe is made.
        until: Instant,
        /// How many self-probes failed.
        probes: u32,
        /// Why.
        error: String,
    },
    /// A self-probe of a parked server, or the one attempt after a cooldown, runs.
    Probing(Probing),
    /// It is removed, or the gateway ends.
    Closed,
}

/// A connect ladder: which attempt, and whether it runs or waits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attempt {
    /// How many attempts and connections failed before.
    pub failures: u32,
    /// When a waiting attempt is made; `None` while it runs.
    pub wait_until: Option<Instant>,
    /// How many cooldowns came before.
    pub cooldowns: u32,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

/// One attempt outside a ladder, and where the server returns to if it fails.
#[derive(Debug, Clone, PartialEq)]
pub struct Probing {
    /// How many self-probes failed before.
    pub probes: u32,
    /// How many cooldowns came before.
    pub cooldowns: u32,
    /// Why the server had been parked or was cooling.
    pub error: String,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerEvent {
    /// An attempt led to a connection whose tools are listed.
    Connected,
    /// An attempt failed.
    ConnectFailed {
        /// Why.
        error: String,
        /// Whether waiting cannot mend it.
        permanent: bool,
    },
    /// The connection ended.
    Lost {
        /// Why.
        error: String,
    },
    /// The server ended the session that the connection belonged to, as it may at any time.
    Expired,
    /// The time that the state waits for has come.
    Due,
    /// Somebody asks for an attempt now.
    Probe,
    /// The server is removed, or the gateway ends.
    Close,
}

/// What the actor has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerEffect {
    /// Begin an attempt to connect.
    Connect,
    /// End the connection and the process behind it.
    Disconnect,
}

impl ServerState {
    /// Returns the state of a server when its definition is taken in.
    pub fn initial(enabled: bool) -> (Self, Option<ServerEffect>) {
        if enabled {
            (
                Self::Connecting(Attempt::default()),
                Some(ServerEffect::Connect),
            )
        } else {
            (Self::Disabled, None)
        }
    }

    /// Takes the next step. `chance` is in 0..=1 and lengthens a pause by up to [`JITTER`].
    ///
    /// An event that means nothing in a state changes nothing: a connect that succeeds after the server was closed, for
    /// one, only has to be disconnected again.
    #[must_use]
    pub fn step(
        self,
        event: ServerEvent,
        now: Instant,
        chance: f64,
    ) -> (Self, Option<ServerEffect>) {
        use ServerEffect::{Connect, Disconnect};
        use ServerEvent as E;
        let pause = |wait: Duration| now + wait.mul_f64(1.0 + JITTER * chance.clamp(0.0, 1.0));
        match (self, event) {
            (Self::Disabled, E::Close) => (Self::Closed, None),
            (Self::Closed, E::Connected) => (Self::Closed, Some(Disconnect)),
            (_, E::Close) => (Self::Closed, Some(Disconnect)),

            (Self::Connecting(attempt) | Self::Reconnecting(attempt), E::Connected) => (
                Self::Ready {
                    since: now,
                    failures: attempt.failures,
                    cooldowns: attempt.cooldowns,
                },
                None,
            ),
            (Self::Probing(probing), E::Connected) => (
                Self::Ready {
                    since: now,
                    failures: probing.failures(),
                    cooldowns: probing.cooldowns,
                },
                None,
            ),

            (
                Self::Connecting(attempt),
                E::ConnectFailed {
                    error,
                    permanent: false,
                },
            ) => match attempt.next(&FIRST_CONNECT_PAUSES, &error, pause) {
                Some(next) => (Self::Connecting(next), None),
                None => (cooldown(attempt.cooldowns, error, pause), None),
            },
            (
                Self::Reconnecting(attempt),
                E::ConnectFailed {
                    error,
                    permanent: false,
                },
            ) => match attempt.next(&RECONNECT_PAUSES, &error, pause) {
                Some(next) => (Self::Reconnecting(next), None),
                None => (cooldown(attempt.cooldowns, error, pause), None),
            },
            (
                Self::Connecting(_) | Self::Reconnecting(_),
                E::ConnectFailed {
                    error,
                    permanent: true,
                },
            ) => (parked(0, error, pause), None),
            (
                Self::Probing(probing),
                E::ConnectFailed {
                    error,
                    permanent: true,
                },
            ) => (parked(probing.probes, error, pause), None),
            (
                Self::Probing(probing),
                E::ConnectFailed {
                    error,
                    permanent: false,
                },
            ) => (cooldown(probing.cooldowns, error, pause), None),

            (
                Self::Ready {
                    since,
                    failures,
                    cooldowns,
                },
                E::Lost { error },
            ) => {
                let stable = now.duration_since(since) >= STABLE_AFTER;
                let (failures, cooldowns) = if stable {
                    (0, 0)
                } else {
                    (failures, cooldowns)
                };
                let lost = Attempt {
                    failures,
                    cooldowns,
                    ..Attempt::default()
                };
                match lost.next(&RECONNECT_PAUSES, &error, pause) {
                    Some(next) => (Self::Reconnecting(next), Some(Disconnect)),
                    None => (cooldown(cooldowns, error, pause), Some(Disconnect)),
                }
            }

            (
                Self::Ready {
                    since,
                    failures,
                    cooldowns,
                },
                E::Expired,
            ) if now.duration_since(since) >= SESSION_LASTED => {
                let renewal = Attempt {
                    failures,
                    wait_until: Some(now),
                    cooldowns,
                    error: None,
                };
                (Self::Reconnecting(renewal), Some(Disconnect))
            }
            (ready @ Self::Ready { .. }, E::Expired) => {
                let error = "the server ended the session".to_owned();
                ready.step(E::Lost { error }, now, chance)
            }

            (Self::Connecting(attempt), E::Due | E::Probe) if attempt.wait_until.is_some() => {
                (Self::Connecting(attempt.running()), Some(Connect))
            }
            (Self::Reconnecting(attempt), E::Due | E::Probe) if attempt.wait_until.is_some() => {
                (Self::Reconnecting(attempt.running()), Some(Connect))
            }
            (
                Self::Cooldown {
                    cooldowns, error, ..
                },
                E::Due | E::Probe,
            ) => (
                Self::Probing(Probing {
                    probes: 0,
                    cooldowns,
                    error,
                }),
                Some(Connect),
            ),
            (Self::Parked { probes, error, .. }, E::Due | E::Probe) => (
                Self::Probing(Probing {
                    probes: probes + 1,
                    cooldowns: 0,
                    error,
                }),
                Some(Connect),
            ),

            // Nobody waits for this connection any more.
            (
                state @ (Self::Disabled
                | Self::Ready { .. }
                | Self::Cooldown { .. }
                | Self::Parked { .. }),
                E::Connected,
            ) => (state, Some(Disconnect)),
            (state, E::ConnectFailed { .. } | E::Lost { .. } | E::Expired | E::Due | E::Probe) => {
                (state, None)
            }
        }
    }

    /// Returns when [`ServerEvent::Due`] is to be sent.
    pub fn due_at(&self) -> Option<Instant> {
        match self {
            Self::Connecting(attempt) | Self::Reconnecting(attempt) => attempt.wait_until,
            Self::Cooldown { until, .. } | Self::Parked { until, .. } => Some(*until),
            Self::Disabled | Self::Ready { .. } | Self::Probing(_) | Self::Closed => None,
        }
    }

    /// Returns the word for the state in status, logs and events.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Connecting(_) => "connecting",
            Self::Ready { .. } => "ready",
            Self::Reconnecting(_) => "reconnecting",
            Self::Cooldown { .. } => "cooldown",
            Self::Parked { .. } => "parked",
            Self::Probing(_) => "connecting",
            Self::Closed => "closed",
        }
    }

    /// Tells whether the server serves.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }

    /// Tells whether a call may wait for the server: an attempt runs or follows soon.
    pub fn may_become_ready(&self) -> bool {
        matches!(
            self,
            Self::Connecting(_) | Self::Reconnecting(_) | Self::Probing(_)
        )
    }

    /// Returns why the server does not serve, where something failed.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Connecting(attempt) | Self::Reconnecting(attempt) => attempt.error.as_deref(),
            Self::Cooldown { error, .. } | Self::Parked { error, .. } => Some(error),
            Self::Probing(probing) => Some(&probing.error),
            Self::Disabled | Self::Ready { .. } | Self::Closed => None,
        }
    }
}

impl Attempt {
    /// Returns the attempt after this one failed, or `None` at the end of the ladder.
    fn next(
        &self,
        pauses: &[Duration],
        error: &str,
        pause: impl Fn(Duration) -> Instant,
    ) -> Option<Self> {
        let wait = pauses.get(usize::try_from(self.failures).ok()?)?;
        Some(Self {
            failures: self.failures + 1,
            wait_until: Some(pause(*wait)),
            cooldowns: self.cooldowns,
            error: Some(error.to_owned()),
        })
    }

    fn running(self) -> Self {
        Self {
            wait_until: None,
            ..self
        }
    }
}

impl Probing {
    /// Returns the failures that a connection begins with: after a cooldown the ladder stays used up, so that a server
    /// that only ever handshakes is started once per cooldown.
    fn failures(&self) -> u32 {
        if self.cooldowns == 0 {
            0
        } else {
            u32::try_from(RECONNECT_PAUSES.len()).unwrap_or(u32::MAX)
        }
    }
}

fn cooldown(before: u32, error: String, pause: impl Fn(Duration) -> Instant) -> ServerState {
    let wait = doubled(COOLDOWN_FIRST, before, COOLDOWN_LONGEST);
    ServerState::Cooldown {
        until: pause(wait),
        cooldowns: before + 1,
        error,
    }
}

fn parked(probes: u32, error: String, pause: impl Fn(Duration) -> Instant) -> ServerState {
    ServerState::Parked {
        until: pause(doubled(PROBE_FIRST, probes, PROBE_LONGEST)),
        probes,
        error,
    }
}

fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first
        .saturating_mul(2_u32.saturating_pow(times))
        .min(longest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn failed(permanent: bool) -> ServerEvent {
        ServerEvent::ConnectFailed {
            error: "no".to_owned(),
            permanent,
        }
    }

    fn lost() -> ServerEvent {
        ServerEvent::Lost {
            error: "gone".to_owned(),
        }
    }

    /// Plays events at the times the machine asks for, and returns when attempts began, in seconds.
    fn play(mut answer: impl FnMut(u32) -> ServerEvent, until: u64) -> Vec<u64> {
        let start = Instant::now();
        let mut now = start;
        let (mut state, mut effect) = ServerState::initial(true);
        let mut attempts = Vec::new();
        while now.duration_since(start) < Duration::from_secs(until) {
            if effect == Some(ServerEffect::Connect) {
                attempts.push(now.duration_since(start).as_secs());
                let event = answer(u32::try_from(attempts.len()).unwrap());
                (state, effect) = state.step(event, now, 0.0);
                continue;
            }
            if state.is_ready() {
                (state, effect) = state.step(lost(), now, 0.0);
                continue;
            }
            let Some(due) = state.due_at() else { break };
            now = due;
            (state, effect) = state.step(ServerEvent::Due, now, 0.0);
        }
        attempts
    }

    #[test]
    fn a_first_connect_has_four_attempts_and_then_cooldowns_that_double() {
        let attempts = play(|_| failed(false), 1700);
        assert_eq!(attempts, [0, 1, 3, 7, 37, 97, 217, 457, 937, 1537]);
    }

    #[test]
    fn a_permanent_failure_parks_at_once_and_probes_itself() {
        let attempts = play(|_| failed(true), 1200);
        assert_eq!(attempts, [0, 30, 90, 210, 450, 750, 1050]);
    }

    #[test]
    fn a_server_that_handshakes_and_exits_is_started_six_times_in_the_first_minute() {
        let attempts = play(|_| ServerEvent::Connected, 7200);
        assert_eq!(attempts.iter().filter(|at| **at < 60).count(), 6);
        let later = attempts
            .iter()
            .filter(|at| (3600..7200).contains(*at))
            .count();
        assert!(later <= 12, "{later} starts an hour in steady state");
    }

    #[test]
    fn uptime_resets_the_ladder_and_a_handshake_does_not() {
        let now = Instant::now();
        let ready = |failures| ServerState::Ready {
            since: now,
            failures,
            cooldowns: 3,
        };

        let (early, _) = ready(2).step(lost(), now + STABLE_AFTER - secs(1), 0.0);
        let (late, _) = ready(2).step(lost(), now + STABLE_AFTER, 0.0);

        let waits = |state: &ServerState| match state {
            ServerState::Reconnecting(attempt) => (attempt.failures, attempt.cooldowns),
            ServerState::Disabled
            | ServerState::Connecting(_)
            | ServerState::Ready { .. }
            | ServerState::Cooldown { .. }
            | ServerState::Parked { .. }
            | ServerState::Probing(_)
            | ServerState::Closed => panic!("{state:?}"),
        };
        assert_eq!((waits(&early), waits(&late)), ((3, 3), (1, 0)));
    }

    #[test]
    fn an_expired_session_is_renewed_at_once_unless_sessions_only_ever_end() {
        let now = Instant::now();
        let ready = ServerState::Ready {
            since: now,
            failures: 0,
            cooldowns: 0,
        };

        let (lasted, effect) = ready
            .clone()
            .step(ServerEvent::Expired, now + SESSION_LASTED, 0.0);
        assert_eq!(effect, Some(ServerEffect::Disconnect));
        assert_eq!(lasted.due_at(), Some(now + SESSION_LASTED));

        let (short, _) = ready.step(ServerEvent::Expired, now + secs(1), 0.0);
        assert_eq!(short.due_at(), Some(now + secs(2)));
    }

    #[test]
    fn chance_only_lengthens_a_pause() {
        let now = Instant::now();
        let wait = |chance| {
            let (state, _) = ServerState::initial(true)
                .0
                .step(failed(false), now, chance);
            state.due_at().unwrap().duration_since(now)
        };
        assert_eq!(
            (wait(0.0), wait(1.0), wait(7.0)),
            (
                secs(1),
                Duration::from_millis(1250),
                Duration::from_millis(1250)
            )
        );
    }

    #[test]
    fn a_disabled_server_is_never_started() {
        let (mut state, effect) = ServerState::initial(false);
        assert_eq!(effect, None);
        for event in [ServerEvent::Due, ServerEvent::Probe, lost(), failed(true)] {
            let effect;
            (state, effect) = state.step(event, Instant::now(), 0.0);
            assert_eq!((&state, effect), (&ServerState::Disabled, None));
        }
    }

    #[test]
    fn what_arrives_after_the_end_is_disconnected() {
        let (closed, effect) =
            ServerState::initial(true)
                .0
                .step(ServerEvent::Close, Instant::now(), 0.0);
        assert_eq!(
            (&closed, effect),
            (&ServerState::Closed, Some(ServerEffect::Disconnect))
        );
        let late = closed.step(ServerEvent::Connected, Instant::now(), 0.0);
        assert_eq!(late, (ServerState::Closed, Some(ServerEffect::Disconnect)));
    }

    fn event() -> impl Strategy<Value = ServerEvent> {
        prop_oneof![
            Just(ServerEvent::Connected),
            any::<bool>().prop_map(failed),
            Just(lost()),
            Just(ServerEvent::Expired),
            Just(ServerEvent::Due),
            Just(ServerEvent::Probe),
            Just(ServerEvent::Close),
        ]
    }

    proptest! {
        #[test]
        fn at_most_one_attempt_runs_at_a_time(events in prop::collection::vec(event(), 0..60)) {
            let now = Instant::now();
            let (mut state, effect) = ServerState::initial(true);
            let mut running = i32::from(effect == Some(ServerEffect::Connect));
            for event in events {
                let ends = matches!(event, ServerEvent::Connected | ServerEvent::ConnectFailed { .. });
                if ends && running == 0 {
                    continue;
                }
                running -= i32::from(ends);
                let effect;
                (state, effect) = state.step(event, now, 0.5);
                running += i32::from(effect == Some(ServerEffect::Connect));
                prop_assert!((0..=1).contains(&running), "{state:?}");
                prop_assert!(!(state.is_ready() && running == 1));
            }
        }
    }
}
