//! The steps: one function for each state, one arm for each event.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Attempt, COOLDOWN_FIRST, COOLDOWN_LONGEST, FIRST_CONNECT_PAUSES, JITTER, PROBE_FIRST,
    PROBE_LONGEST, Phase, Probe, RECONNECT_PAUSES, Rest, Resting, Revoked, SESSION_LASTED,
    STABLE_AFTER, ServerEffect, ServerEvent, ServerState, Troubles, Up,
};
use ServerEffect::{Abandon, Connect, Cut, Disconnect};
use ServerEvent as E;
use ServerState as S;

/// The next state, and what to do in this order.
type Step = (ServerState, Vec<ServerEffect>);

/// What a step is taken with.
#[derive(Clone, Copy)]
struct Moment {
    now: Instant,
    /// In 0..=1; lengthens a pause.
    chance: f64,
}

impl ServerState {
    /// Takes the next step. `chance` is in 0..=1 and lengthens a pause by up to [`JITTER`].
    ///
    /// An event that means nothing in a state leaves it as it is: a use of a server that serves, for one, or the end of an
    /// attempt that was given up.
    #[must_use]
    pub fn step(self, event: ServerEvent, now: Instant, chance: f64) -> Step {
        let moment = Moment { now, chance };
        match self {
            S::Disabled => disabled(&event),
            S::Lazy(troubles) => lazy(troubles, event),
            S::Connecting(attempt) => connecting(attempt, event, moment),
            S::Ready(up) => ready(up, event, moment),
            S::Reconnecting(attempt) => reconnecting(attempt, event, moment),
            S::Cooldown(rest) => cooling(rest, event),
            S::Parked(rest) => parked(rest, event),
            S::Probing(probe) => probing(probe, event, moment),
            S::Revoked(revoked) => self::revoked(revoked, event),
            S::Draining(up) => draining(up, &event),
            S::Closed => stay(S::Closed),
        }
    }
}

fn stay(state: ServerState) -> Step {
    (state, vec![])
}

fn disabled(event: &ServerEvent) -> Step {
    match event {
        E::Close => (S::Closed, vec![]),
        E::Connected
        | E::ConnectFailed { .. }
        | E::EndedOnProbe { .. }
        | E::Lost { .. }
        | E::Expired
        | E::Due
        | E::Use
        | E::Idle
        | E::Probe
        | E::Wake
        | E::Restart
        | E::Revoke { .. }
        | E::Lift { .. }
        | E::Retire
        | E::Keep => stay(S::Disabled),
    }
}

fn lazy(troubles: Troubles, event: ServerEvent) -> Step {
    match event {
        E::Use | E::Probe | E::Restart => (S::Connecting(Attempt::first(troubles)), vec![Connect]),
        E::Revoke { why } => stay(revoke(troubles, why)),
        E::Close => (S::Closed, vec![]),
        // A reload never starts a lazy server.
        E::Wake
        | E::Connected
        | E::ConnectFailed { .. }
        | E::EndedOnProbe { .. }
        | E::Lost { .. }
        | E::Expired
        | E::Due
        | E::Idle
        | E::Lift { .. }
        | E::Retire
        | E::Keep => stay(S::Lazy(troubles)),
    }
}

fn connecting(attempt: Attempt, event: ServerEvent, moment: Moment) -> Step {
    match event {
        E::Connected => connected(attempt.troubles, moment),
        E::ConnectFailed {
            error,
            permanent: true,
        } => stay(park(attempt.troubles, error, moment)),
        E::ConnectFailed {
            error,
            permanent: false,
        } => match attempt.troubles.pause(&FIRST_CONNECT_PAUSES, moment) {
            Some(until) => stay(S::Connecting(attempt.again(error, until))),
            None => stay(cool(attempt.troubles, error, moment)),
        },
        // The first one costs no pause: many a server of the older eras ends itself on what it does not know.
        E::EndedOnProbe { error } if attempt.troubles == Troubles::default() => {
            let next = attempt.again(error, moment.now).running();
            (S::Connecting(next), vec![Connect])
        }
        E::EndedOnProbe { error } => connecting(attempt, failed(error), moment),
        E::Due | E::Probe => match attempt.phase {
            Phase::Running => stay(S::Connecting(attempt)),
            Phase::Waiting { .. } => (S::Connecting(attempt.running()), vec![Connect]),
        },
        E::Restart => (S::Connecting(attempt.clone().running()), attempt.restart()),
        E::Revoke { why } => (revoke(attempt.troubles, why), vec![Abandon]),
        E::Close => (S::Closed, vec![Abandon]),
        E::Lost { .. }
        | E::Expired
        | E::Use
        | E::Idle
        | E::Wake
        | E::Lift { .. }
        | E::Retire
        | E::Keep => stay(S::Connecting(attempt)),
    }
}

fn ready(up: Up, event: ServerEvent, moment: Moment) -> Step {
    match event {
        E::Lost { error } => lost(up.troubles_at(moment.now), error, moment),
        E::Expired if moment.now.duration_since(up.since) >= SESSION_LASTED => {
            let renewal = Attempt::first(up.troubles_at(moment.now));
            (S::Reconnecting(renewal), vec![Disconnect, Connect])
        }
        E::Expired => {
            let error = "the server ended the session".to_owned();
            lost(up.troubles_at(moment.now), error, moment)
        }
        E::Restart => {
            let attempt = Attempt::first(up.troubles_at(moment.now));
            (S::Reconnecting(attempt), vec![Disconnect, Connect])
        }
        E::Idle => (S::Lazy(up.troubles_at(moment.now)), vec![Disconnect]),
        E::Retire => stay(S::Draining(up)),
        E::Revoke { why } => (revoke(up.troubles_at(moment.now), why), vec![Cut]),
        E::Close => (S::Closed, vec![Disconnect]),
        E::Connected
        | E::ConnectFailed { .. }
        | E::EndedOnProbe { .. }
        | E::Due
        | E::Use
        | E::Probe
        | E::Wake
        | E::Lift { .. }
        | E::Keep => stay(S::Ready(up)),
    }
}

fn reconnecting(attempt: Attempt, event: ServerEvent, moment: Moment) -> Step {
    match event {
        E::Connected => connected(attempt.troubles, moment),
        E::ConnectFailed {
            error,
            permanent: true,
        } => stay(park(attempt.troubles, error, moment)),
        E::ConnectFailed {
            error,
            permanent: false,
        }
        | E::EndedOnProbe { error } => match attempt.troubles.pause(&RECONNECT_PAUSES, moment) {
            Some(until) => stay(S::Reconnecting(attempt.again(error, until))),
            None => stay(cool(attempt.troubles, error, moment)),
        },
        // A call need not wait for the pause after the first loss; the later ones hold, so that a server that only ever
        // ends is started no oftener for being called.
        E::Use => match attempt.phase {
            Phase::Waiting { .. } if attempt.troubles == Troubles::ONE_FAILURE => {
                (S::Reconnecting(attempt.running()), vec![Connect])
            }
            Phase::Waiting { .. } | Phase::Running => stay(S::Reconnecting(attempt)),
        },
        E::Due | E::Probe => match attempt.phase {
            Phase::Running => stay(S::Reconnecting(attempt)),
            Phase::Waiting { .. } => (S::Reconnecting(attempt.running()), vec![Connect]),
        },
        E::Restart => (
            S::Reconnecting(attempt.clone().running()),
            attempt.restart(),
        ),
        E::Revoke { why } => (revoke(attempt.troubles, why), vec![Abandon]),
        E::Close => (S::Closed, vec![Abandon]),
        E::Lost { .. } | E::Expired | E::Idle | E::Wake | E::Lift { .. } | E::Retire | E::Keep => {
            stay(S::Reconnecting(attempt))
        }
    }
}

fn cooling(rest: Rest, event: ServerEvent) -> Step {
    match event {
        E::Due | E::Probe | E::Restart => probe(rest, Resting::Cooldown),
        E::Revoke { why } => stay(revoke(rest.troubles, why)),
        E::Close => (S::Closed, vec![]),
        // A reload never shortens a cooldown, and a call spawns nothing.
        E::Wake
        | E::Use
        | E::Connected
        | E::ConnectFailed { .. }
        | E::EndedOnProbe { .. }
        | E::Lost { .. }
        | E::Expired
        | E::Idle
        | E::Lift { .. }
        | E::Retire
        | E::Keep => stay(S::Cooldown(rest)),
    }
}

fn parked(rest: Rest, event: ServerEvent) -> Step {
    match event {
        E::Due | E::Probe | E::Wake | E::Restart => probe(rest, Resting::Parked),
        E::Revoke { why } => stay(revoke(rest.troubles, why)),
        E::Close => (S::Closed, vec![]),
        // A call spawns nothing.
        E::Use
        | E::Connected
        | E::ConnectFailed { .. }
        | E::EndedOnProbe { .. }
        | E::Lost { .. }
        | E::Expired
        | E::Idle
        | E::Lift { .. }
        | E::Retire
        | E::Keep => stay(S::Parked(rest)),
    }
}

fn probing(probe: Probe, event: ServerEvent, moment: Moment) -> Step {
    match event {
        E::Connected => connected(probe.troubles, moment),
        E::ConnectFailed {
            error,
            permanent: true,
        } => stay(park(probe.troubles, error, moment)),
        E::ConnectFailed {
            error,
            permanent: false,
        } => stay(cool(probe.troubles, error, moment)),
        // A parked server that runs at last has its first connect before it; a cooling one had its one attempt.
        E::EndedOnProbe { error } => match probe.after {
            Resting::Parked if probe.troubles.failures == 0 => {
                let attempt = Attempt::first(probe.troubles).again(error, moment.now);
                (S::Connecting(attempt.running()), vec![Connect])
            }
            Resting::Parked | Resting::Cooldown => stay(cool(probe.troubles, error, moment)),
        },
        E::Restart => (S::Probing(probe), vec![Abandon, Connect]),
        E::Revoke { why } => (revoke(probe.troubles, why), vec![Abandon]),
        E::Close => (S::Closed, vec![Abandon]),
        E::Lost { .. }
        | E::Expired
        | E::Due
        | E::Use
        | E::Idle
        | E::Probe
        | E::Wake
        | E::Lift { .. }
        | E::Retire
        | E::Keep => stay(S::Probing(probe)),
    }
}

fn revoked(revoked: Revoked, event: ServerEvent) -> Step {
    let troubles = revoked.troubles;
    match event {
        E::Revoke { why } => stay(revoke(troubles, why)),
        E::Lift { lazy: true } => stay(S::Lazy(troubles)),
        E::Lift { lazy: false } => (S::Connecting(Attempt::first(troubles)), vec![Connect]),
        E::Close => (S::Closed, vec![]),
        // Neither a person who asks nor a reload gets round a revocation.
        E::Probe
        | E::Restart
        | E::Wake
        | E::Use
        | E::Connected
        | E::ConnectFailed { .. }
        | E::EndedOnProbe { .. }
        | E::Lost { .. }
        | E::Expired
        | E::Due
        | E::Idle
        | E::Retire
        | E::Keep => stay(S::Revoked(revoked)),
    }
}

fn draining(up: Up, event: &ServerEvent) -> Step {
    match event {
        E::Keep => stay(S::Ready(up)),
        // No configuration wants it back.
        E::Lost { .. } | E::Expired | E::Close => (S::Closed, vec![Disconnect]),
        E::Revoke { .. } => (S::Closed, vec![Cut]),
        E::Connected
        | E::ConnectFailed { .. }
        | E::EndedOnProbe { .. }
        | E::Due
        | E::Use
        | E::Idle
        | E::Probe
        | E::Wake
        | E::Restart
        | E::Lift { .. }
        | E::Retire => stay(S::Draining(up)),
    }
}

// === what steps have in common ===

fn connected(troubles: Troubles, moment: Moment) -> Step {
    let since = moment.now;
    stay(S::Ready(Up { since, troubles }))
}

fn lost(troubles: Troubles, error: String, moment: Moment) -> Step {
    let next = match troubles.pause(&RECONNECT_PAUSES, moment) {
        Some(until) => S::Reconnecting(Attempt::first(troubles).again(error, until)),
        None => cool(troubles, error, moment),
    };
    (next, vec![Disconnect])
}

fn revoke(troubles: Troubles, why: String) -> ServerState {
    S::Revoked(Revoked { troubles, why })
}

fn probe(rest: Rest, after: Resting) -> Step {
    let Rest {
        troubles, error, ..
    } = rest;
    let probe = Probe {
        after,
        troubles,
        error,
    };
    (S::Probing(probe), vec![Connect])
}

/// After a cooldown the ladder stays used up, so that a server that only ever handshakes is started once per cooldown.
fn cool(before: Troubles, error: String, moment: Moment) -> ServerState {
    let wait = doubled(COOLDOWN_FIRST, before.rests, COOLDOWN_LONGEST);
    S::Cooldown(Rest {
        until: moment.after(wait),
        troubles: Troubles {
            failures: ladder(&RECONNECT_PAUSES),
            rests: before.rests.saturating_add(1),
        },
        error,
    })
}

fn park(before: Troubles, error: String, moment: Moment) -> ServerState {
    let wait = doubled(PROBE_FIRST, before.rests, PROBE_LONGEST);
    S::Parked(Rest {
        until: moment.after(wait),
        troubles: Troubles {
            failures: before.failures,
            rests: before.rests.saturating_add(1),
        },
        error,
    })
}

fn failed(error: String) -> ServerEvent {
    E::ConnectFailed {
        error,
        permanent: false,
    }
}

fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first
        .saturating_mul(2_u32.saturating_pow(times))
        .min(longest)
}

fn ladder(pauses: &[Duration]) -> u32 {
    u32::try_from(pauses.len()).unwrap_or(u32::MAX)
}

impl Moment {
    fn after(self, wait: Duration) -> Instant {
        self.now + wait.mul_f64(1.0 + JITTER * self.chance.clamp(0.0, 1.0))
    }
}

impl Troubles {
    const ONE_FAILURE: Self = Self {
        failures: 1,
        rests: 0,
    };

    /// Returns the end of the pause before the next attempt of a ladder; `None` where it has no more.
    fn pause(self, pauses: &[Duration], moment: Moment) -> Option<Instant> {
        let wait = pauses.get(usize::try_from(self.failures).ok()?)?;
        Some(moment.after(*wait))
    }
}

impl Up {
    /// Returns what is to be remembered of what went wrong before.
    fn troubles_at(self, now: Instant) -> Troubles {
        if now.duration_since(self.since) >= STABLE_AFTER {
            Troubles::default()
        } else {
            self.troubles
        }
    }
}

impl Attempt {
    /// Returns the attempt after this one failed.
    fn again(&self, error: String, until: Instant) -> Self {
        Self {
            troubles: Troubles {
                failures: self.troubles.failures.saturating_add(1),
                ..self.troubles
            },
            phase: Phase::Waiting { until },
            error: Some(error),
        }
    }

    fn running(self) -> Self {
        Self {
            phase: Phase::Running,
            ..self
        }
    }

    /// What a restart does to it: an attempt that hangs is given up.
    fn restart(&self) -> Vec<ServerEffect> {
        match self.phase {
            Phase::Running => vec![Abandon, Connect],
            Phase::Waiting { .. } => vec![Connect],
        }
    }
}
