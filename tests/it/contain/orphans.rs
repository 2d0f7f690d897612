//! What is left of the servers of a gateway that was killed.

use std::time::Duration;

use genlock_testkit::harness::GenlockProcess;
use serde_json::json;

use super::{
    RUNGS, has_namespaces,
    hostile::{self, Gang, Hostile},
};
use crate::stage;

/// How often each is tried here; `just soak contain` does it hundreds of times.
const CYCLES: usize = 3;

/// One life and death of a gateway with all hostile servers: how long until nothing was left, or who was.
pub(crate) type Outcome = Result<Duration, (Vec<Hostile>, usize)>;

/// Starts a gateway with all of them.
pub(crate) fn start(containment: &str) -> (GenlockProcess, Gang) {
    let gang = Gang::new(stage::scratch());
    let gateway = stage::start(&json!({"mcp_servers": gang.definitions(containment)}));
    (gateway, gang)
}

/// Kills a gateway in the middle of everything: once all its servers live, or while they are being started.
pub(crate) fn kill_cycle(containment: &str, cycle: usize) -> Outcome {
    let (mut gateway, gang) = start(containment);
    if cycle.is_multiple_of(2) {
        gang.wait_alive();
    }
    let below = hostile::below(&gateway);
    assert!(
        cycle % 2 == 1 || below.len() >= hostile::ALL.len(),
        "{below:?}"
    );

    gateway.kill9();

    gang.wait_gone(&below)
}

/// The same check on servers that nobody contains: it must find every one of them.
pub(crate) fn planted_fault() -> Outcome {
    let gang = Gang::new(stage::scratch());
    let mut abandoned = gang.abandon();
    gang.wait_alive();
    // As the death of their owner would.
    for child in &mut abandoned {
        drop((child.stdin.take(), child.stdout.take()));
    }

    let outcome = gang.wait_gone(&[]);

    gang.clean_up();
    for mut child in abandoned {
        child.wait().unwrap();
    }
    outcome
}

#[test]
fn the_check_finds_every_server_that_nobody_contains() {
    let (found, processes) = planted_fault().unwrap_err();

    assert_eq!(found, hostile::ALL);
    assert!(processes > hostile::ALL.len(), "{processes}");
}

#[tokio::test]
async fn nothing_outlives_a_gateway_that_is_killed_within_a_second() {
    let (gateway, gang) = start("auto");
    let namespaces = has_namespaces(&gateway, "orphans on rung 2").await;
    drop((gateway, gang));

    for (containment, rung) in RUNGS {
        if rung == 2 && !namespaces {
            continue;
        }
        for cycle in 0..CYCLES {
            let outcome = tokio::task::spawn_blocking(move || kill_cycle(containment, cycle)).await;
            let outcome = outcome.unwrap();
            assert!(outcome.is_ok(), "{containment}, {cycle}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn nothing_outlives_a_server_that_is_removed() {
    for (containment, rung) in RUNGS {
        let (gateway, gang) = start(containment);
        if rung == 2 && !has_namespaces(&gateway, "removal on rung 2").await {
            continue;
        }
        gang.wait_alive();
        let below = hostile::below(&gateway);
        gateway.write_config(&json!({"mcp_servers": {"good": stage::stdio(&[])}}).to_string());
        let reloaded = gateway.run(&["reload"]);
        assert_eq!(reloaded.code, Some(0), "{reloaded:?}");

        let left = genlock_testkit::harness::eventually(stage::DEADLINE, "they end", || {
            let left = gang.processes();
            let alive = |pid: &&u32| genlock_testkit::harness::is_alive(**pid);
            (left.is_empty() && gang.alive().is_empty() && !below.iter().any(|pid| alive(&pid)))
                .then_some(left)
        });

        assert_eq!(left, Vec::<u32>::new());
        // The one that stayed is none of theirs.
        stage::wait_for_state(&gateway, "good", "ready").await;
    }
}
