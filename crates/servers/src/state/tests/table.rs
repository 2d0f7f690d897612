//! Every pair of state and event.

use super::*;
use ServerEffect::{Abandon, Connect, Cut, Disconnect};

type Outcome = (ServerState, Vec<ServerEffect>);

const ATTEMPTS: [&str; 8] = [
    "connecting, first",
    "connecting, running",
    "connecting, last",
    "connecting, waiting",
    "reconnecting, running",
    "reconnecting, last",
    "reconnecting, first pause",
    "reconnecting, later pause",
];

/// What changes, pair by pair. A pair that is not here changes nothing and does nothing.
fn moves(now: Instant) -> Vec<(&'static str, &'static str, Outcome)> {
    let secs = |seconds| now + Duration::from_secs(seconds);
    let none = Troubles::default();
    let ready = |before| (ServerState::Ready(up(now, before)), vec![]);
    let parked = |before: Troubles, seconds, error: &str| {
        let state = ServerState::Parked(rest(before, secs(seconds), error));
        (state, vec![])
    };
    let cooldown = |rests, seconds, error: &str| {
        ServerState::Cooldown(rest(troubles(5, rests), secs(seconds), error))
    };
    let connecting = |failures, seconds, error: &str| {
        let next = waiting(troubles(failures, 0), secs(seconds), error);
        (ServerState::Connecting(next), vec![])
    };
    let reconnecting = |before, seconds, error: &str| {
        ServerState::Reconnecting(waiting(before, secs(seconds), error))
    };
    let starts = |before, error| {
        (
            ServerState::Connecting(running(before, error)),
            vec![Connect],
        )
    };
    let renews = |before| {
        (
            ServerState::Reconnecting(running(before, None)),
            vec![Disconnect, Connect],
        )
    };
    let resumes = |before| {
        (
            ServerState::Reconnecting(running(before, Some("why"))),
            vec![Connect],
        )
    };
    let probes = |after, before| (ServerState::Probing(probe(after, before)), vec![Connect]);
    let why = Some("why");
    let mut moves = vec![
        ("disabled", "close", (ServerState::Closed, vec![])),
        // Lazy: the first use, and nothing else, starts it.
        ("lazy", "use", starts(troubles(2, 0), None)),
        ("lazy", "probe", starts(troubles(2, 0), None)),
        ("lazy", "restart", starts(troubles(2, 0), None)),
        ("lazy", "close", (ServerState::Closed, vec![])),
        // The first connect: 1, 2, 4 s, then 30 s.
        ("connecting, first", "connected", ready(none)),
        ("connecting, first", "failed", connecting(1, 1, "no")),
        (
            "connecting, first",
            "failed for good",
            parked(troubles(0, 1), 30, "no"),
        ),
        (
            "connecting, first",
            "ended on probe",
            starts(troubles(1, 0), Some("ended")),
        ),
        (
            "connecting, first",
            "restart",
            (
                ServerState::Connecting(running(none, None)),
                vec![Abandon, Connect],
            ),
        ),
        ("connecting, running", "connected", ready(troubles(1, 0))),
        ("connecting, running", "failed", connecting(2, 2, "no")),
        (
            "connecting, running",
            "failed for good",
            parked(troubles(1, 1), 30, "no"),
        ),
        (
            "connecting, running",
            "ended on probe",
            connecting(2, 2, "ended"),
        ),
        (
            "connecting, running",
            "restart",
            (
                ServerState::Connecting(running(troubles(1, 0), why)),
                vec![Abandon, Connect],
            ),
        ),
        ("connecting, last", "connected", ready(troubles(3, 0))),
        (
            "connecting, last",
            "failed",
            (cooldown(1, 30, "no"), vec![]),
        ),
        (
            "connecting, last",
            "failed for good",
            parked(troubles(3, 1), 30, "no"),
        ),
        (
            "connecting, last",
            "ended on probe",
            (cooldown(1, 30, "ended"), vec![]),
        ),
        (
            "connecting, last",
            "restart",
            (
                ServerState::Connecting(running(troubles(3, 0), why)),
                vec![Abandon, Connect],
            ),
        ),
        ("connecting, waiting", "connected", ready(troubles(1, 0))),
        ("connecting, waiting", "failed", connecting(2, 2, "no")),
        (
            "connecting, waiting",
            "failed for good",
            parked(troubles(1, 1), 30, "no"),
        ),
        (
            "connecting, waiting",
            "ended on probe",
            connecting(2, 2, "ended"),
        ),
        ("connecting, waiting", "due", starts(troubles(1, 0), why)),
        ("connecting, waiting", "probe", starts(troubles(1, 0), why)),
        (
            "connecting, waiting",
            "restart",
            starts(troubles(1, 0), why),
        ),
        // A loss: 1, 2, 4, 8, 16 s, then a cooldown; forgotten after 600 s of uptime.
        (
            "ready, new",
            "lost",
            (reconnecting(troubles(3, 1), 4, "gone"), vec![Disconnect]),
        ),
        (
            "ready, new",
            "expired",
            (
                reconnecting(troubles(3, 1), 4, "the server ended the session"),
                vec![Disconnect],
            ),
        ),
        (
            "ready, lasted",
            "lost",
            (reconnecting(troubles(3, 1), 4, "gone"), vec![Disconnect]),
        ),
        ("ready, lasted", "expired", renews(troubles(2, 1))),
        (
            "ready, used up",
            "lost",
            (cooldown(2, 60, "gone"), vec![Disconnect]),
        ),
        (
            "ready, used up",
            "expired",
            (
                cooldown(2, 60, "the server ended the session"),
                vec![Disconnect],
            ),
        ),
        (
            "ready, stable",
            "lost",
            (reconnecting(troubles(1, 0), 1, "gone"), vec![Disconnect]),
        ),
        ("ready, stable", "expired", renews(none)),
        ("reconnecting, running", "connected", ready(troubles(2, 0))),
        (
            "reconnecting, running",
            "failed",
            (reconnecting(troubles(3, 0), 4, "no"), vec![]),
        ),
        (
            "reconnecting, running",
            "failed for good",
            parked(troubles(2, 1), 30, "no"),
        ),
        (
            "reconnecting, running",
            "ended on probe",
            (reconnecting(troubles(3, 0), 4, "ended"), vec![]),
        ),
        (
            "reconnecting, running",
            "restart",
            (
                ServerState::Reconnecting(running(troubles(2, 0), why)),
                vec![Abandon, Connect],
            ),
        ),
        ("reconnecting, last", "connected", ready(troubles(5, 0))),
        (
            "reconnecting, last",
            "failed",
            (cooldown(1, 30, "no"), vec![]),
        ),
        (
            "reconnecting, last",
            "failed for good",
            parked(troubles(5, 1), 30, "no"),
        ),
        (
            "reconnecting, last",
            "ended on probe",
            (cooldown(1, 30, "ended"), vec![]),
        ),
        (
            "reconnecting, last",
            "restart",
            (
                ServerState::Reconnecting(running(troubles(5, 0), why)),
                vec![Abandon, Connect],
            ),
        ),
        (
            "reconnecting, first pause",
            "connected",
            ready(troubles(1, 0)),
        ),
        (
            "reconnecting, first pause",
            "failed",
            (reconnecting(troubles(2, 0), 2, "no"), vec![]),
        ),
        (
            "reconnecting, first pause",
            "failed for good",
            parked(troubles(1, 1), 30, "no"),
        ),
        (
            "reconnecting, first pause",
            "ended on probe",
            (reconnecting(troubles(2, 0), 2, "ended"), vec![]),
        ),
        ("reconnecting, first pause", "due", resumes(troubles(1, 0))),
        ("reconnecting, first pause", "use", resumes(troubles(1, 0))),
        (
            "reconnecting, first pause",
            "probe",
            resumes(troubles(1, 0)),
        ),
        (
            "reconnecting, first pause",
            "restart",
            resumes(troubles(1, 0)),
        ),
        (
            "reconnecting, later pause",
            "connected",
            ready(troubles(2, 0)),
        ),
        (
            "reconnecting, later pause",
            "failed",
            (reconnecting(troubles(3, 0), 4, "no"), vec![]),
        ),
        (
            "reconnecting, later pause",
            "failed for good",
            parked(troubles(2, 1), 30, "no"),
        ),
        (
            "reconnecting, later pause",
            "ended on probe",
            (reconnecting(troubles(3, 0), 4, "ended"), vec![]),
        ),
        ("reconnecting, later pause", "due", resumes(troubles(2, 0))),
        (
            "reconnecting, later pause",
            "probe",
            resumes(troubles(2, 0)),
        ),
        (
            "reconnecting, later pause",
            "restart",
            resumes(troubles(2, 0)),
        ),
        // Rests: one attempt at their end, or when somebody asks; a reload wakes the parked one only.
        ("cooldown", "due", probes(Resting::Cooldown, troubles(5, 2))),
        (
            "cooldown",
            "probe",
            probes(Resting::Cooldown, troubles(5, 2)),
        ),
        (
            "cooldown",
            "restart",
            probes(Resting::Cooldown, troubles(5, 2)),
        ),
        ("cooldown", "close", (ServerState::Closed, vec![])),
        ("parked", "due", probes(Resting::Parked, troubles(0, 1))),
        ("parked", "probe", probes(Resting::Parked, troubles(0, 1))),
        ("parked", "wake", probes(Resting::Parked, troubles(0, 1))),
        ("parked", "restart", probes(Resting::Parked, troubles(0, 1))),
        ("parked", "close", (ServerState::Closed, vec![])),
        (
            "probing after a cooldown",
            "connected",
            ready(troubles(5, 2)),
        ),
        (
            "probing after a cooldown",
            "failed",
            (cooldown(3, 120, "no"), vec![]),
        ),
        (
            "probing after a cooldown",
            "failed for good",
            parked(troubles(5, 3), 120, "no"),
        ),
        (
            "probing after a cooldown",
            "ended on probe",
            (cooldown(3, 120, "ended"), vec![]),
        ),
        (
            "probing after a cooldown",
            "restart",
            (
                ServerState::Probing(probe(Resting::Cooldown, troubles(5, 2))),
                vec![Abandon, Connect],
            ),
        ),
        (
            "probing after a cooldown",
            "close",
            (ServerState::Closed, vec![Abandon]),
        ),
        ("probing while parked", "connected", ready(troubles(0, 1))),
        (
            "probing while parked",
            "failed",
            (cooldown(2, 60, "no"), vec![]),
        ),
        (
            "probing while parked",
            "failed for good",
            parked(troubles(0, 2), 60, "no"),
        ),
        (
            "probing while parked",
            "ended on probe",
            starts(troubles(1, 1), Some("ended")),
        ),
        (
            "probing while parked",
            "restart",
            (
                ServerState::Probing(probe(Resting::Parked, troubles(0, 1))),
                vec![Abandon, Connect],
            ),
        ),
        (
            "probing while parked",
            "close",
            (ServerState::Closed, vec![Abandon]),
        ),
        ("draining", "lost", (ServerState::Closed, vec![Disconnect])),
        (
            "draining",
            "expired",
            (ServerState::Closed, vec![Disconnect]),
        ),
        ("draining", "revoke", (ServerState::Closed, vec![Cut])),
        ("draining", "keep", ready(troubles(1, 0))),
        ("draining", "close", (ServerState::Closed, vec![Disconnect])),
    ];
    for (name, before) in [
        ("ready, new", troubles(2, 1)),
        ("ready, lasted", troubles(2, 1)),
        ("ready, used up", troubles(5, 1)),
        ("ready, stable", none),
    ] {
        moves.push((name, "restart", renews(before)));
        moves.push((name, "idle", (ServerState::Lazy(before), vec![Disconnect])));
        moves.push((name, "close", (ServerState::Closed, vec![Disconnect])));
    }
    for (name, since, before) in [
        ("ready, new", 9, troubles(2, 1)),
        ("ready, lasted", 10, troubles(2, 1)),
        ("ready, used up", 0, troubles(5, 1)),
        ("ready, stable", 600, troubles(5, 4)),
    ] {
        let since = now - Duration::from_secs(since);
        moves.push((
            name,
            "retire",
            (ServerState::Draining(up(since, before)), vec![]),
        ));
    }
    moves.extend(revocations());
    let closes = ATTEMPTS.map(|name| (name, "close", (ServerState::Closed, vec![Abandon])));
    moves.extend(closes);
    moves
}

/// What a revocation and its end change: whatever a server does, it ends, and it begins as on the first day.
fn revocations() -> Vec<(&'static str, &'static str, Outcome)> {
    let none = Troubles::default();
    let mut moves = vec![
        ("revoked", "lift", {
            let next = ServerState::Connecting(running(troubles(2, 1), None));
            (next, vec![Connect])
        }),
        (
            "revoked",
            "lift, lazy",
            (ServerState::Lazy(troubles(2, 1)), vec![]),
        ),
        ("revoked", "close", (ServerState::Closed, vec![])),
    ];
    for (name, before, effects) in [
        ("lazy", troubles(2, 0), vec![]),
        ("connecting, first", none, vec![Abandon]),
        ("connecting, running", troubles(1, 0), vec![Abandon]),
        ("connecting, last", troubles(3, 0), vec![Abandon]),
        ("connecting, waiting", troubles(1, 0), vec![Abandon]),
        ("ready, new", troubles(2, 1), vec![Cut]),
        ("ready, lasted", troubles(2, 1), vec![Cut]),
        ("ready, used up", troubles(5, 1), vec![Cut]),
        ("ready, stable", none, vec![Cut]),
        ("reconnecting, running", troubles(2, 0), vec![Abandon]),
        ("reconnecting, last", troubles(5, 0), vec![Abandon]),
        ("reconnecting, first pause", troubles(1, 0), vec![Abandon]),
        ("reconnecting, later pause", troubles(2, 0), vec![Abandon]),
        ("cooldown", troubles(5, 2), vec![]),
        ("parked", troubles(0, 1), vec![]),
        ("probing after a cooldown", troubles(5, 2), vec![Abandon]),
        ("probing while parked", troubles(0, 1), vec![Abandon]),
        ("revoked", troubles(2, 1), vec![]),
    ] {
        moves.push((name, "revoke", (revoked(before, "leaked"), effects)));
    }
    moves
}

#[test]
fn every_pair_of_state_and_event_has_its_outcome() {
    let now = later();
    let mut moves = moves(now);
    for (state_name, state) in states(now) {
        for (event_name, event) in events() {
            let found = state.clone().step(event, now, 0.0);
            let place = moves
                .iter()
                .position(|(state, event, _)| (*state, *event) == (state_name, event_name));
            let expected = match place {
                Some(place) => moves.swap_remove(place).2,
                None => (state.clone(), vec![]),
            };
            assert_eq!(found, expected, "{event_name} while {state_name}");
        }
    }
    assert_eq!(moves, [], "pairs that there are not");
}

#[test]
fn the_table_has_every_state_and_every_event() {
    // Without a wildcard, so that a new one does not compile before it is here.
    let state = |state: &ServerState| match state {
        ServerState::Disabled => 0,
        ServerState::Lazy(_) => 1,
        ServerState::Connecting(_) => 2,
        ServerState::Ready(_) => 3,
        ServerState::Reconnecting(_) => 4,
        ServerState::Cooldown(_) => 5,
        ServerState::Parked(_) => 6,
        ServerState::Probing(_) => 7,
        ServerState::Revoked(_) => 8,
        ServerState::Draining(_) => 9,
        ServerState::Closed => 10,
    };
    let event = |event: &ServerEvent| match event {
        ServerEvent::Connected => 0,
        ServerEvent::ConnectFailed { permanent, .. } => 1 + i32::from(*permanent),
        ServerEvent::EndedOnProbe { .. } => 3,
        ServerEvent::Lost { .. } => 4,
        ServerEvent::Expired => 5,
        ServerEvent::Due => 6,
        ServerEvent::Use => 7,
        ServerEvent::Idle => 8,
        ServerEvent::Probe => 9,
        ServerEvent::Wake => 10,
        ServerEvent::Restart => 11,
        ServerEvent::Revoke { .. } => 12,
        ServerEvent::Lift { lazy } => 13 + i32::from(*lazy),
        ServerEvent::Retire => 15,
        ServerEvent::Keep => 16,
        ServerEvent::Close => 17,
    };
    let mut kinds: Vec<i32> = states(later())
        .iter()
        .map(|(_, each)| state(each))
        .collect();
    kinds.dedup();
    assert_eq!(kinds, (0..11).collect::<Vec<_>>());
    let kinds: Vec<i32> = events().iter().map(|(_, each)| event(each)).collect();
    assert_eq!(kinds, (0..18).collect::<Vec<_>>());
}
