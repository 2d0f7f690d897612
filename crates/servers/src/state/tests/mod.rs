//! What the machine does: every pair of state and event, what surfaces see, and how often a server is started.

mod play;
mod random;
mod table;

use std::time::Duration;

use tokio::time::Instant;

use super::*;

/// A time that has a long past.
fn later() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

fn failed(permanent: bool) -> ServerEvent {
    ServerEvent::ConnectFailed {
        error: "no".to_owned(),
        permanent,
    }
}

fn ended_on_probe() -> ServerEvent {
    ServerEvent::EndedOnProbe {
        error: "ended".to_owned(),
    }
}

fn lost() -> ServerEvent {
    ServerEvent::Lost {
        error: "gone".to_owned(),
    }
}

fn troubles(failures: u32, rests: u32) -> Troubles {
    Troubles { failures, rests }
}

fn up(since: Instant, troubles: Troubles) -> Up {
    Up { since, troubles }
}

fn running(troubles: Troubles, error: Option<&str>) -> Attempt {
    Attempt {
        troubles,
        phase: Phase::Running,
        error: error.map(str::to_owned),
    }
}

fn waiting(troubles: Troubles, until: Instant, error: &str) -> Attempt {
    Attempt {
        troubles,
        phase: Phase::Waiting { until },
        error: Some(error.to_owned()),
    }
}

fn rest(troubles: Troubles, until: Instant, error: &str) -> Rest {
    Rest {
        until,
        troubles,
        error: error.to_owned(),
    }
}

fn probe(after: Resting, troubles: Troubles) -> Probe {
    Probe {
        after,
        troubles,
        error: "why".to_owned(),
    }
}

fn revoked(troubles: Troubles, why: &str) -> ServerState {
    ServerState::Revoked(Revoked {
        troubles,
        why: why.to_owned(),
    })
}

/// One state of each kind, in the order of the definition; those whose phase decides, once for each.
fn states(now: Instant) -> Vec<(&'static str, ServerState)> {
    let none = Troubles::default();
    let soon = now + Duration::from_secs(3);
    vec![
        ("disabled", ServerState::Disabled),
        ("lazy", ServerState::Lazy(troubles(2, 0))),
        (
            "connecting, first",
            ServerState::Connecting(running(none, None)),
        ),
        (
            "connecting, running",
            ServerState::Connecting(running(troubles(1, 0), Some("why"))),
        ),
        (
            "connecting, last",
            ServerState::Connecting(running(troubles(3, 0), Some("why"))),
        ),
        (
            "connecting, waiting",
            ServerState::Connecting(waiting(troubles(1, 0), soon, "why")),
        ),
        (
            "ready, new",
            ServerState::Ready(up(now - Duration::from_secs(9), troubles(2, 1))),
        ),
        (
            "ready, lasted",
            ServerState::Ready(up(now - Duration::from_secs(10), troubles(2, 1))),
        ),
        (
            "ready, used up",
            ServerState::Ready(up(now, troubles(5, 1))),
        ),
        (
            "ready, stable",
            ServerState::Ready(up(now - Duration::from_secs(600), troubles(5, 4))),
        ),
        (
            "reconnecting, running",
            ServerState::Reconnecting(running(troubles(2, 0), Some("why"))),
        ),
        (
            "reconnecting, last",
            ServerState::Reconnecting(running(troubles(5, 0), Some("why"))),
        ),
        (
            "reconnecting, first pause",
            ServerState::Reconnecting(waiting(troubles(1, 0), soon, "why")),
        ),
        (
            "reconnecting, later pause",
            ServerState::Reconnecting(waiting(troubles(2, 0), soon, "why")),
        ),
        (
            "cooldown",
            ServerState::Cooldown(rest(troubles(5, 2), soon, "why")),
        ),
        (
            "parked",
            ServerState::Parked(rest(troubles(0, 1), soon, "why")),
        ),
        (
            "probing after a cooldown",
            ServerState::Probing(probe(Resting::Cooldown, troubles(5, 2))),
        ),
        (
            "probing while parked",
            ServerState::Probing(probe(Resting::Parked, troubles(0, 1))),
        ),
        ("revoked", revoked(troubles(2, 1), "why")),
        ("draining", ServerState::Draining(up(now, troubles(1, 0)))),
        ("closed", ServerState::Closed),
    ]
}

/// One event of each kind; the failed attempt in both kinds.
fn events() -> Vec<(&'static str, ServerEvent)> {
    vec![
        ("connected", ServerEvent::Connected),
        ("failed", failed(false)),
        ("failed for good", failed(true)),
        ("ended on probe", ended_on_probe()),
        ("lost", lost()),
        ("expired", ServerEvent::Expired),
        ("due", ServerEvent::Due),
        ("use", ServerEvent::Use),
        ("idle", ServerEvent::Idle),
        ("probe", ServerEvent::Probe),
        ("wake", ServerEvent::Wake),
        ("restart", ServerEvent::Restart),
        (
            "revoke",
            ServerEvent::Revoke {
                why: "leaked".to_owned(),
            },
        ),
        ("lift", ServerEvent::Lift { lazy: false }),
        ("lift, lazy", ServerEvent::Lift { lazy: true }),
        ("retire", ServerEvent::Retire),
        ("keep", ServerEvent::Keep),
        ("close", ServerEvent::Close),
    ]
}

#[test]
fn a_server_begins_as_its_definition_says() {
    let first = ServerState::Connecting(running(Troubles::default(), None));
    let begins = [(false, false), (false, true), (true, false), (true, true)]
        .map(|(enabled, lazy)| ServerState::initial(enabled, lazy));
    assert_eq!(
        begins,
        [
            (ServerState::Disabled, vec![]),
            (ServerState::Disabled, vec![]),
            (first, vec![ServerEffect::Connect]),
            (ServerState::Lazy(Troubles::default()), vec![]),
        ]
    );
}

#[test]
fn surfaces_see_one_word_and_three_predicates_of_each_state() {
    let now = later();
    let mut seen: Vec<_> = states(now)
        .iter()
        .map(|(_, state)| {
            let predicates = [
                state.is_ready(),
                state.is_not_connected(),
                state.awaits_connect(),
                state.is_on_its_way(),
            ];
            (state.word(), predicates.map(u8::from))
        })
        .collect();
    seen.dedup();
    // ready, not connected, awaiting a connect, on its way
    let expected = [
        ("disabled", [0, 0, 0, 0]),
        ("lazy", [1, 0, 0, 0]),
        ("connecting", [0, 1, 0, 1]),
        ("ready", [1, 0, 0, 0]),
        ("reconnecting", [0, 1, 0, 1]),
        ("cooldown", [0, 1, 0, 0]),
        ("parked", [0, 1, 1, 0]),
        ("connecting", [0, 1, 0, 1]),
        // Revoked: nothing awaits it.
        ("parked", [0, 1, 0, 0]),
        ("draining", [0, 0, 0, 0]),
        ("closed", [0, 0, 0, 0]),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_state_says_until_when_it_waits_and_why() {
    let now = later();
    let soon = Some(now + Duration::from_secs(3));
    let told: Vec<_> = states(now)
        .into_iter()
        .filter(|(_, state)| state.due_at().is_some() || state.error().is_some())
        .map(|(name, state)| (name, state.due_at(), state.error().map(str::to_owned)))
        .collect();
    let why = || Some("why".to_owned());
    assert_eq!(
        told,
        [
            ("connecting, running", None, why()),
            ("connecting, last", None, why()),
            ("connecting, waiting", soon, why()),
            ("reconnecting, running", None, why()),
            ("reconnecting, last", None, why()),
            ("reconnecting, first pause", soon, why()),
            ("reconnecting, later pause", soon, why()),
            ("cooldown", soon, why()),
            ("parked", soon, why()),
            ("probing after a cooldown", None, why()),
            ("probing while parked", None, why()),
            ("revoked", None, why()),
        ]
    );
}
