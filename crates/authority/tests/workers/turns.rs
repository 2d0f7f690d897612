//! What becomes of a turn, by what its worker does.

use std::time::Duration;

use genlock_authority::worker::{Limits, Loss, TurnEnd, TurnEvent, WorkerEnd};
use tokio::time::Instant;

use crate::stage::{Stage, end_of, id, limits, stage, turn_order, word};

/// Gives one turn to a worker that does what the script says.
async fn one(script: &str) -> (Stage, String, WorkerEnd) {
    let stage = stage(
        &format!("echo $$ >\"$HOME/pid\"\nready\n{script}"),
        limits(),
    );
    let worker = stage.spawn().await;
    let end = end_of(worker.run(turn_order("e-1"))).await;
    let loss = worker.ended().await;
    stage.gone("pid").await;
    (stage, word(&end), loss)
}

#[tokio::test]
async fn an_honest_worker_runs_turn_after_turn_until_it_is_retired() {
    let event = |sequence: u32, rest: &str| {
        format!(
            "say \"\\\"event\\\",\\\"execution_id\\\":\\\"$execution\\\",\\\"sequence\\\":{sequence},\\\"call\\\":0,{rest}\"\n"
        )
    };
    let events = event(
        1,
        "\\\"kind\\\":\\\"call_started\\\",\\\"server\\\":\\\"a\\\",\\\"tool\\\":\\\"t\\\"",
    ) + &event(
        2,
        "\\\"kind\\\":\\\"progress\\\",\\\"data\\\":{\\\"progress\\\":1.0}",
    ) + &event(3, "\\\"kind\\\":\\\"call_ended\\\",\\\"elapsed_ms\\\":7");
    let stage = stage(
        &format!("ready; adopt\n{events}finish; adopt; finish; await retire"),
        limits(),
    );
    let worker = stage.spawn().await;

    let mut turn = worker.run(turn_order("e-1"));
    let mut told = Vec::new();
    while let Some(event) = turn.next().await {
        told.push(match event {
            TurnEvent::Adopted => "adopted".to_owned(),
            TurnEvent::CallStarted { call, server, tool } => {
                format!("started {call} {server} {tool}")
            }
            TurnEvent::Progress { call, data } => format!("progress {call} {data}"),
            TurnEvent::CallEnded {
                call,
                code,
                elapsed,
            } => format!("ended {call} {code:?} {elapsed:?}"),
        });
    }
    assert_eq!(
        told,
        [
            "adopted",
            "started 0 a t",
            "progress 0 {\"progress\":1.0}",
            "ended 0 None 7ms"
        ]
    );
    assert_eq!(word(&end_of(turn).await), "completed {\"n\":1.0}");
    assert_eq!(
        word(&end_of(worker.run(turn_order("e-2"))).await),
        "completed {\"n\":1.0}"
    );

    worker.retire();
    assert_eq!(worker.ended().await, WorkerEnd::Retired);
    assert_eq!(
        word(&end_of(worker.run(turn_order("e-3"))).await),
        "rejected draining"
    );
}

#[tokio::test]
async fn a_turn_is_unknown_once_its_worker_may_have_run_it() {
    let lied = |what: &str| format!("unknown: the worker said what it must not: {what}");
    let cases = [
        ("turn; exit 0", "unknown: the worker ended: exit status: 0".to_owned()),
        ("adopt; exit 0", "unknown: the worker ended: exit status: 0".to_owned()),
        ("adopt; exec >&-; sleep 600", "unknown: the worker closed its pipe".to_owned()),
        ("adopt; kill -9 $$", "unknown: the worker ended: signal: 9 (SIGKILL)".to_owned()),
        ("turn; secret=guess; say \"\\\"adopt\\\",\\\"execution_id\\\":\\\"$execution\\\",\\\"secret\\\":\\\"$secret\\\"\"; sleep 600",
            lied("another secret than that of its turn")),
        ("turn; say \"\\\"adopt\\\",\\\"execution_id\\\":\\\"e-2\\\",\\\"secret\\\":\\\"$secret\\\"\"; sleep 600",
            lied("another secret than that of its turn")),
        ("turn; result; sleep 600", lied("a result without a turn")),
        ("adopt; execution=e-2; result; sleep 600", lied("the result of another turn")),
        ("adopt; say \"\\\"finished\\\",\\\"execution_id\\\":\\\"$execution\\\"\"; sleep 600", lied("finished out of its place")),
        ("adopt; say \"\\\"result\\\",\\\"execution_id\\\":\\\"$execution\\\",\\\"outcome\\\":\\\"completed\\\"\"; sleep 600",
            lied("a result that does not go with its outcome")),
        ("adopt; say \"\\\"event\\\",\\\"execution_id\\\":\\\"$execution\\\",\\\"sequence\\\":2,\\\"kind\\\":\\\"progress\\\",\\\"call\\\":0,\\\"data\\\":1\"; sleep 600",
            lied("events out of their order")),
        ("adopt; hello; sleep 600", lied("a second hello")),
        ("adopt; say '\"failure\",\"code\":\"c\",\"message\":\"m\"'; sleep 600", "unknown: the worker cannot go on: m (c)".to_owned()),
        ("adopt; result | head -c 40", "unknown: the worker wrote something that is no frame: the frames end within one".to_owned()),
        ("adopt; result | tr '{' '['; sleep 600", "unknown: the worker wrote something that is no frame: a frame is malformed at column 1".to_owned()),
        ("adopt; while :; do say '\"heartbeat\",\"sequence\":1'; done", lied("more than anybody can read")),
    ];
    for (script, expected) in cases {
        let (_stage, end, worker) = one(script).await;
        assert!(matches!(worker, WorkerEnd::Lost(_)), "{script}: {worker:?}");
        // The shape of a frame that was spoiled decides upon the column.
        let (end, expected) = match end.split_once(" at column") {
            Some((end, _)) => (
                end.to_owned(),
                expected
                    .split(" at column")
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            ),
            None => (end, expected),
        };
        assert_eq!(end, expected, "{script}");
    }
}

#[tokio::test]
async fn a_result_that_came_counts_whatever_the_worker_does_then() {
    let cases = [
        ("adopt; result; exit 1", "exit status: 1"),
        (
            "adopt; result; result; sleep 600",
            "a result without a turn",
        ),
        (
            "adopt; result; say '\"nonsense\"'; sleep 600",
            "unknown frame `nonsense`",
        ),
    ];
    for (script, why) in cases {
        let (_stage, end, worker) = one(script).await;
        assert_eq!(end, "completed {\"n\":1.0}", "{script}");
        match worker {
            WorkerEnd::Lost(loss) => assert!(loss.to_string().contains(why), "{script}: {loss}"),
            other => panic!("{script}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_turn_of_many_quick_calls_says_as_much_as_it_has_to() {
    // Each as often as a worker may write of its own accord, all at once.
    let event = "say \"\\\"event\\\",\\\"execution_id\\\":\\\"$execution\\\",\\\"sequence\\\":$n,\\\"kind\\\":\\\"progress\\\",\\\"call\\\":0,\\\"data\\\":1\"";
    let script = format!(
        "adopt; n=0; while [ $n -lt 3000 ]; do n=$((n + 1)); {event}; done; result; exit 1"
    );

    let (_stage, end, _) = one(&script).await;

    assert_eq!(end, "completed {\"n\":1.0}");
}

#[tokio::test]
async fn a_worker_that_does_not_take_a_turn_takes_the_next_one() {
    let refusal = "say \"\\\"failure\\\",\\\"code\\\":\\\"stale_epoch\\\",\\\"message\\\":\\\"m\\\",\\\"execution_id\\\":\\\"$execution\\\"\"";
    let stage = stage(
        &format!("ready; turn; {refusal}; adopt; finish; await stop"),
        limits(),
    );
    let worker = stage.spawn().await;
    assert_eq!(
        word(&end_of(worker.run(turn_order("e-1"))).await),
        "rejected stale_epoch"
    );
    assert_eq!(
        word(&end_of(worker.run(turn_order("e-2"))).await),
        "completed {\"n\":1.0}"
    );
}

#[tokio::test]
async fn one_turn_waits_for_another_and_a_third_is_rejected() {
    let stage = stage(
        "ready; adopt; await interrupt; finish; adopt; finish; await stop",
        limits(),
    );
    let worker = stage.spawn().await;
    let mut first = worker.run(turn_order("e-1"));
    assert!(matches!(first.next().await, Some(TurnEvent::Adopted)));
    let second = worker.run(turn_order("e-2"));
    let third = worker.run(turn_order("e-3"));
    assert_eq!(word(&end_of(third).await), "rejected session_busy");
    worker.interrupt(&id("e-1"));
    assert_eq!(word(&end_of(first).await), "completed {\"n\":1.0}");
    assert_eq!(word(&end_of(second).await), "completed {\"n\":1.0}");
}

#[tokio::test]
async fn a_turn_that_waits_when_its_worker_is_lost_never_ran() {
    let stage = stage("ready; adopt; await interrupt; kill -9 $$", limits());
    let worker = stage.spawn().await;
    let mut first = worker.run(turn_order("e-1"));
    assert!(matches!(first.next().await, Some(TurnEvent::Adopted)));
    let second = worker.run(turn_order("e-2"));
    worker.interrupt(&id("e-1"));
    assert!(matches!(
        end_of(first).await,
        TurnEnd::Lost { reserved: true, .. }
    ));
    assert!(matches!(
        end_of(second).await,
        TurnEnd::Lost {
            reserved: false,
            ..
        }
    ));
}

#[tokio::test]
async fn a_worker_that_stalls_is_lost() {
    let heartbeats = "while :; do say '\"heartbeat\",\"sequence\":1'; sleep 0.05; done";
    // It does not end an interrupted turn.
    let stage = stage(&format!("ready; adopt; {heartbeats}"), limits());
    let worker = stage.spawn().await;
    let mut turn = worker.run(turn_order("e-1"));
    assert!(matches!(turn.next().await, Some(TurnEvent::Adopted)));
    worker.interrupt(&id("e-1"));
    let overdue = "unknown: the worker did not end an interrupted turn in time";
    assert_eq!(word(&end_of(turn).await), overdue);
    drop(worker);

    // It does not keep the deadline either.
    let worker = stage.spawn().await;
    let mut order = turn_order("e-1");
    order.deadline = Some(Instant::now() + Duration::from_millis(200));
    assert_eq!(word(&end_of(worker.run(order)).await), overdue);
}

#[tokio::test]
async fn a_silent_worker_is_lost() {
    let short = Limits {
        silence: Duration::from_millis(500),
        ..limits()
    };
    let stage = stage("ready; adopt; sleep 600", short);
    let worker = stage.spawn().await;
    let end = end_of(worker.run(turn_order("e-1"))).await;
    assert!(
        matches!(
            end,
            TurnEnd::Lost {
                reserved: true,
                loss: Loss::Silent
            }
        ),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_turn_that_nobody_waits_for_stops_its_worker() {
    let stage = stage("ready; adopt; await stop", limits());
    let worker = stage.spawn().await;
    let mut turn = worker.run(turn_order("e-1"));
    assert!(matches!(turn.next().await, Some(TurnEvent::Adopted)));
    drop(turn);
    assert_eq!(worker.ended().await, WorkerEnd::Stopped);
}
