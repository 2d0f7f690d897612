//! Whether a candidate becomes the next generation.

use genlock_config::Mode;
use genlock_policy::{Decision, Plan, Refusal, Snapshot, diff, pending_restart};
use serde_json::json;

use crate::snapshot;

const NONE: &str = "{}";
const ONE: &str = "mcp_servers: { a: { command: x } }";
const OFF: &str = "mcp_servers: { a: { command: x, enabled: false } }";
const TWO: &str = "mcp_servers: { a: { command: x }, b: { command: x } }";
const MOVED: &str = "listen: 127.0.0.1:1\nmcp_servers: { a: { command: x } }";
const CLOSED: &str = "auth: { enabled: true }\ntool_access: { mode: front_door }\nmcp_servers: { a: { command: x } }";
const CLOSED_NONE: &str = "auth: { enabled: true }\ntool_access: { mode: front_door }";

/// What is expected of a decision.
#[derive(Debug, PartialEq)]
enum Seen {
    Unchanged(Vec<String>),
    Commit(Vec<String>),
    MassRemoval,
    RestartRequired,
}

fn decide(
    head: Option<&str>,
    booted: Option<&str>,
    candidate: &str,
    confirm_mass_removal: bool,
) -> Decision {
    let (head, booted) = (head.map(snapshot), booted.map(snapshot));
    let plan = Plan {
        head: head.as_ref(),
        booted: booted.as_ref(),
        candidate: &snapshot(candidate),
        confirm_mass_removal,
    };
    plan.decide()
}

fn seen(decision: Decision) -> Seen {
    match decision {
        Decision::Unchanged { restart_required } => Seen::Unchanged(restart_required),
        Decision::Commit {
            restart_required, ..
        } => Seen::Commit(restart_required),
        Decision::Refused {
            reason: Refusal::MassRemoval { .. },
        } => Seen::MassRemoval,
        Decision::Refused {
            reason: Refusal::RestartRequired { .. },
        } => Seen::RestartRequired,
    }
}

#[test]
fn decisions_are_those_of_the_table() {
    let commit = |sections: &[&str]| {
        Seen::Commit(sections.iter().map(|&section| section.to_owned()).collect())
    };
    let unchanged = |sections: &[&str]| {
        Seen::Unchanged(sections.iter().map(|&section| section.to_owned()).collect())
    };
    // head, booted, candidate, confirmed
    let cases = [
        // At boot nothing is pinned yet.
        (None, None, NONE, false, commit(&[])),
        (None, None, ONE, false, commit(&[])),
        (Some(ONE), None, ONE, false, unchanged(&[])),
        (Some(ONE), None, TWO, false, commit(&[])),
        (Some(ONE), None, MOVED, false, commit(&[])),
        (Some(ONE), None, CLOSED, false, commit(&[])),
        (Some(ONE), None, NONE, false, Seen::MassRemoval),
        // While it runs.
        (Some(ONE), Some(ONE), ONE, false, unchanged(&[])),
        (Some(ONE), Some(ONE), ONE, true, unchanged(&[])),
        (Some(ONE), Some(ONE), TWO, false, commit(&[])),
        (Some(TWO), Some(ONE), ONE, false, commit(&[])),
        (Some(ONE), Some(ONE), OFF, false, commit(&[])),
        (Some(ONE), Some(ONE), NONE, false, Seen::MassRemoval),
        (Some(ONE), Some(ONE), NONE, true, commit(&[])),
        (Some(OFF), Some(ONE), NONE, false, Seen::MassRemoval),
        (Some(NONE), Some(ONE), NONE, false, unchanged(&[])),
        (Some(NONE), Some(NONE), "drain_s: 1", false, commit(&[])),
        // A section that waits for a restart is named until then, not only once.
        (Some(ONE), Some(ONE), MOVED, false, commit(&["listen"])),
        (Some(MOVED), Some(ONE), MOVED, false, unchanged(&["listen"])),
        (Some(MOVED), Some(ONE), ONE, false, commit(&[])),
        (Some(MOVED), Some(MOVED), MOVED, false, unchanged(&[])),
        // The mode is pinned, whatever else.
        (Some(ONE), Some(ONE), CLOSED, false, Seen::RestartRequired),
        (
            Some(CLOSED),
            Some(CLOSED),
            ONE,
            false,
            Seen::RestartRequired,
        ),
        (
            Some(CLOSED),
            Some(CLOSED),
            NONE,
            true,
            Seen::RestartRequired,
        ),
        (
            Some(CLOSED),
            Some(CLOSED),
            CLOSED_NONE,
            false,
            Seen::MassRemoval,
        ),
        (Some(CLOSED), Some(CLOSED), CLOSED_NONE, true, commit(&[])),
        // A head that was committed elsewhere does not move what is pinned.
        (Some(CLOSED), Some(ONE), TWO, false, commit(&[])),
    ];

    for (head, booted, candidate, confirmed, expected) in cases {
        let decision = decide(head, booted, candidate, confirmed);
        assert_eq!(
            seen(decision),
            expected,
            "{head:?} {booted:?} {candidate} {confirmed}"
        );
    }
}

#[test]
fn a_commit_tells_its_changes() {
    let (one, two) = (snapshot(ONE), snapshot(TWO));

    let Decision::Commit { changes, .. } = decide(Some(ONE), Some(ONE), TWO, false) else {
        panic!("no commit")
    };
    let Decision::Commit { changes: first, .. } = decide(None, None, TWO, false) else {
        panic!("no commit")
    };

    assert_eq!(changes, diff(&one, &two));
    assert_eq!(first.servers.added, ["a", "b"]);
}

#[test]
fn a_refusal_says_what_would_help() {
    let mass = Refusal::MassRemoval {
        removed: vec!["a".to_owned(), "b".to_owned()],
    };
    let mode = Refusal::RestartRequired {
        running: Mode::FrontDoor,
        wanted: Mode::Egress,
    };

    assert_eq!(
        (mass.code(), mode.code()),
        ("mass_removal", "restart_required")
    );
    assert_eq!(
        mass.to_string(),
        "the config removes every server (a, b): confirm it with `confirm_mass_removal`"
    );
    assert_eq!(
        mode.to_string(),
        "`tool_access.mode` is `front_door` until a restart: restart required for `egress`"
    );
    assert_eq!(
        serde_json::to_value(Decision::Refused { reason: mode }).unwrap(),
        json!({
            "decision": "refused",
            "reason": { "code": "restart_required", "running": "front_door", "wanted": "egress" },
        })
    );
    assert_eq!(
        decide(Some(TWO), Some(TWO), NONE, false),
        Decision::Refused { reason: mass }
    );
}

#[test]
fn what_waits_for_a_restart_is_told_by_key() {
    let booted: Snapshot = snapshot("drain_s: 1");
    let now = snapshot("drain_s: 2\nlogging: { level: debug }\nlisten: 127.0.0.1:1");

    let pending: Vec<_> = pending_restart(&booted, &now)
        .into_iter()
        .map(|change| (change.section, change.keys))
        .collect();

    assert_eq!(
        pending,
        [
            ("listen".to_owned(), vec![]),
            ("logging".to_owned(), vec!["level".to_owned()])
        ]
    );
}
