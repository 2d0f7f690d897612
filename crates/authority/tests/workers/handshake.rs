//! Programs that are no workers, and workers that are not who they say.

use std::{sync::Arc, time::Duration};

use genlock_authority::worker::{Limits, Loss, SpawnError, Workers};
use genlock_frames::FrameError;
use tokio::sync::watch;

use crate::stage::{CANARY, limits, order, stage};

#[tokio::test]
async fn a_lie_in_any_field_of_the_hello_is_found_and_its_process_ended() {
    let says = |pid: &str, birth: &str, version: u32| {
        format!(
            "echo $$ >\"$HOME/pid\"
             say \"\\\"hello\\\",\\\"pid\\\":{pid},\\\"birth\\\":{birth},\\\"version\\\":{version}\"
             sleep 600"
        )
    };
    let lies = [
        ("pid", says("$((pid + 1))", "$birth", 2)),
        ("pid", says("1", "$birth", 2)),
        ("pid", says("$PPID", "$birth", 2)),
        ("birth", says("$pid", "$((birth + 1))", 2)),
        ("birth", says("$pid", "0", 2)),
        ("version", says("$pid", "$birth", 0)),
        // It could not be told of a revocation.
        ("version", says("$pid", "$birth", 1)),
    ];
    for (expected, script) in lies {
        let stage = stage(&script, limits());
        match stage.refused().await {
            SpawnError::Hello { field, .. } => assert_eq!(field, expected, "{script}"),
            other => panic!("{script}: {other:?}"),
        }
        stage.gone("pid").await;
    }
}

#[tokio::test]
async fn a_program_that_is_no_worker_is_told_apart() {
    let short = Limits {
        hello: Duration::from_millis(500),
        ready: Duration::from_millis(500),
        ..limits()
    };
    type Expected = fn(&SpawnError) -> bool;
    let cases: [(&str, Expected); 9] = [
        (
            "exit 0",
            |error| matches!(error, SpawnError::Lost(Loss::Exited(status)) if status.success()),
        ),
        (
            "exit 3",
            |error| matches!(error, SpawnError::Lost(Loss::Exited(status)) if status.code() == Some(3)),
        ),
        ("echo Welcome to bash; sleep 600", |error| {
            matches!(
                error,
                SpawnError::Lost(Loss::NoFrame(FrameError::Malformed { .. }))
            )
        }),
        ("hello | head -c 20", |error| {
            matches!(
                error,
                SpawnError::Lost(Loss::NoFrame(FrameError::Truncated))
            )
        }),
        ("tr '\\0' x </dev/zero", |error| {
            matches!(error, SpawnError::Lost(Loss::NoFrame(FrameError::TooLong)))
        }),
        ("exec >&-; sleep 600", |error| {
            matches!(error, SpawnError::Lost(Loss::Closed))
        }),
        ("hello; hello; sleep 600", |error| {
            matches!(error, SpawnError::Lost(Loss::Lied(_)))
        }),
        ("hello; say '\"bootstrap\"'; sleep 600", |error| {
            matches!(
                error,
                SpawnError::Lost(Loss::NoFrame(FrameError::UnknownTag { .. }))
            )
        }),
        (
            "hello; await bootstrap; say '\"failure\",\"code\":\"c\",\"message\":\"m\"'; sleep 600",
            |error| matches!(error, SpawnError::Refused { code, .. } if code == "c"),
        ),
    ];
    for (script, expected) in cases {
        let stage = stage(&format!("echo $$ >\"$HOME/pid\"\n{script}"), limits());
        let refused = stage.refused().await;
        assert!(expected(&refused), "{script}: {refused:?}");
        stage.gone("pid").await;
    }
    for silent in ["sleep 600", "hello; sleep 600"] {
        let stage = stage(&format!("echo $$ >\"$HOME/pid\"\n{silent}"), short.clone());
        let refused = stage.refused().await;
        assert!(
            matches!(refused, SpawnError::Lost(Loss::Overdue(_))),
            "{silent}: {refused:?}"
        );
        stage.gone("pid").await;
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let workers = Workers::new(
        "/no/such/genlock-worker",
        [],
        watch::channel(Arc::default()).1,
    );
    let refused = workers.spawn(order()).await.expect_err("no program");
    assert_eq!(
        refused.to_string(),
        "start the worker /no/such/genlock-worker"
    );
    assert_eq!(refused.code(), "worker_failed");
}

#[tokio::test]
async fn a_worker_gets_what_it_needs_and_nothing_else() {
    let script = "env >\"$HOME/env\"; tr '\\0' '\\n' <\"/proc/$$/cmdline\" >\"$HOME/args\"; hello; await bootstrap
                  printf '%s' \"$frame\" >\"$HOME/bootstrap\"; say '\"ready\",\"servers\":[]'; await stop";
    let stage = stage(script, limits());
    let worker = stage.spawn().await;

    let env = stage.scratch.read("env");
    assert!(
        env.contains("LC_ALL=C") && env.contains("ASKED_FOR=yes"),
        "{env}"
    );
    assert!(
        !env.contains("GATEWAY_TOKEN") && !env.contains(CANARY),
        "{env}"
    );
    let args = stage.scratch.read("args");
    assert!(
        args.trim_end().ends_with("--stdio") && !args.contains(CANARY),
        "{args}"
    );
    let bootstrap: serde_json::Value =
        serde_json::from_str(&stage.scratch.read("bootstrap")).unwrap();
    let keys = |value: &serde_json::Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&bootstrap["private"]), ["/mcp_servers/a/env/TOKEN"]);
    assert_eq!(
        bootstrap["private"]["/mcp_servers/a/env/TOKEN"]["value"],
        CANARY
    );
    assert_eq!(keys(&bootstrap["policy"]["config"]["mcp_servers"]), ["a"]);
    assert_eq!(
        bootstrap["policy"]["servers"],
        serde_json::json!([{"name": "a"}])
    );
    assert_eq!(bootstrap["pid"], worker.pid().get());
    assert!(!format!("{:?} {worker:?}", order()).contains("canary"));
}

#[tokio::test]
async fn a_start_that_nobody_waits_for_leaves_nothing() {
    let short = Limits {
        stop: Duration::from_millis(300),
        ..limits()
    };
    let stage = stage("echo $$ >\"$HOME/pid\"; sleep 600", short);
    {
        let spawning = stage.workers.spawn(order());
        tokio::pin!(spawning);
        tokio::select! {
            _ = &mut spawning => panic!("it says nothing"),
            _ = stage.pid("pid") => {}
        }
    }
    stage.gone("pid").await;
}
