//! The gateway's side and the worker's, together.

use std::{sync::Arc, time::Duration};

use genlock_authority::worker::{
    Limits, TurnEnd, TurnEvent, TurnOrder, Worker, WorkerEnd, WorkerOrder, Workers,
};
use genlock_config::{FingerprintKey, ProfileId, Variables, parse};
use genlock_frames::{Epoch, ExecutionSecret, PolicySeq, SessionId};
use genlock_policy::{
    Actor, Cause, Generation, GenerationNumber, Overlay, Selection, SelectionRule, Snapshot,
};
use genlock_testkit::harness::{Control, Scratch, eventually_async, is_alive, is_locked, path};
use rustix::process::{Pid, Signal, kill_process};
use secrecy::SecretString;
use serde_json::{Value, json, value::to_raw_value};
use tokio::{sync::watch, time::Instant};

use super::hand::id;
use crate::stage::{DEADLINE, scratch, stdio, stdio_with, worker};

fn workers(limits: Limits) -> Workers {
    let environment = [("PATH".to_owned(), path().into_string().unwrap())];
    Workers::with_limits(
        worker(),
        environment,
        watch::channel(Arc::default()).1,
        limits,
    )
}

/// A session with these servers, all of them selected, in the profile `p`.
fn order(servers: &Value, cwd: &Scratch) -> WorkerOrder {
    let text = json!({"mcp_servers": servers}).to_string();
    let config = parse(&text, "genlock.json".into(), &Variables::empty())
        .unwrap()
        .config;
    let profile = ProfileId::new("p").unwrap();
    let key = FingerprintKey::from_bytes([7; 32]);
    let selected = config.servers.keys().map(|name| name.as_str().to_owned());
    let selection = Selection {
        servers: selected.collect(),
        toolsets: [].into(),
        rule: SelectionRule::All,
    };
    let generation = Generation {
        number: GenerationNumber::FIRST,
        parent: None,
        cause: Cause::Boot,
        actor: Actor::system(),
        at_ms: 0,
        reason: None,
        snapshot: Arc::new(Snapshot::of(&config, &profile, &key).0),
        overlay: Arc::new(Overlay::default()),
        config: Arc::new(config),
    };
    WorkerOrder {
        profile,
        session: SessionId::new("s-1").unwrap(),
        policy_seq: PolicySeq::new(1),
        epoch: Epoch::new(1),
        generation: Arc::new(generation),
        selection,
        cwd: cwd.path().to_str().unwrap().into(),
    }
}

fn turn(execution: &str, calls: &Value) -> TurnOrder {
    TurnOrder {
        execution_id: id(execution),
        secret: ExecutionSecret::new(SecretString::from(format!("secret of {execution}"))),
        epoch: Epoch::new(1),
        payload: to_raw_value(&json!({"calls": calls})).unwrap(),
        deadline: None,
    }
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!([{"server": "a", "tool": tool, "arguments": arguments}])
}

async fn completed(worker: &Worker, order: TurnOrder) -> Value {
    match worker.run(order).end().await {
        TurnEnd::Completed { result } => serde_json::from_str(result.get()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn first_text(result: &Value) -> &str {
    super::hand::text(&result["results"][0])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stays_warm_for_the_next_turn_and_ends_when_it_is_retired() {
    let scratch = scratch();
    let lock = scratch.join("lock");
    let servers = json!({"a": stdio_with(&["--alive-lock", lock.to_str().unwrap()], &json!({"env": {"TOKEN": "s3cr3t-canary"}}))});
    let worker = workers(Limits::default())
        .spawn(order(&servers, &scratch))
        .await
        .unwrap();

    let one = completed(&worker, turn("e-1", &call("instance", &json!({})))).await;
    let two = completed(&worker, turn("e-2", &call("instance", &json!({})))).await;
    let env = completed(
        &worker,
        turn("e-3", &call("env", &json!({"name": "TOKEN"}))),
    )
    .await;

    assert_eq!(first_text(&one), first_text(&two));
    assert!(first_text(&env).contains("s3cr3t-canary"));
    let view = eventually_async(DEADLINE, "the worker's view", async || {
        worker.servers().into_iter().find(|server| server.ready)
    })
    .await;
    assert_eq!((view.name.as_str(), view.state.as_str()), ("a", "ready"));
    assert!(is_locked(&lock));
    worker.retire();
    assert_eq!(worker.ended().await, WorkerEnd::Retired);
    assert!(!is_locked(&lock));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_many_frames_arrives_whole() {
    let scratch = scratch();
    let worker = workers(Limits::default())
        .spawn(order(&json!({"a": stdio(&[])}), &scratch))
        .await
        .unwrap();
    let calls: Vec<_> = (0..8)
        .map(|_| call("big", &json!({"bytes": 1_000_000}))[0].clone())
        .collect();
    let result = completed(&worker, turn("e-1", &json!(calls))).await;
    let results = result["results"].as_array().unwrap();
    assert!(
        results
            .iter()
            .all(|result| super::hand::text(result).len() == 1_000_000)
    );
    assert_eq!(results.len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_interrupted_stopped_or_ends_with_its_time() {
    let scratch = scratch();
    let control = Control::new(&scratch, "control");
    let servers = json!({"a": stdio(&["--control", control.arg()])});
    let workers = workers(Limits::default());
    let worker = workers.spawn(order(&servers, &scratch)).await.unwrap();
    let held = async |key: &str| {
        let file = control.path().join(format!("held.{key}"));
        eventually_async(DEADLINE, "the call", async || file.exists().then_some(())).await;
    };

    let running = worker.run(turn("e-1", &call("hold", &json!({"key": "one"}))));
    held("one").await;
    worker.interrupt(&id("e-1"));
    assert!(matches!(
        running.end().await,
        TurnEnd::Interrupted { result: Some(_) }
    ));

    let mut timed = turn("e-2", &call("hold", &json!({"key": "two"})));
    timed.deadline = Some(Instant::now() + Duration::from_millis(700));
    match worker.run(timed).end().await {
        TurnEnd::Failed {
            code,
            result: Some(_),
            ..
        } => assert_eq!(code, "deadline_exceeded"),
        other => panic!("{other:?}"),
    }

    let running = worker.run(turn("e-3", &call("hold", &json!({"key": "three"}))));
    held("three").await;
    worker.stop();
    assert!(matches!(
        running.end().await,
        TurnEnd::Interrupted { result: Some(_) }
    ));
    assert_eq!(worker.ended().await, WorkerEnd::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_leaves_its_turn_unknown_and_nothing_running() {
    let scratch = scratch();
    let lock = scratch.join("lock");
    let control = Control::new(&scratch, "control");
    let flags = [
        "--ignore-term",
        "--detach-grandchild",
        "--control",
        control.arg(),
        "--alive-lock",
        lock.to_str().unwrap(),
    ];
    let worker = workers(Limits::default())
        .spawn(order(&json!({"a": stdio(&flags)}), &scratch))
        .await
        .unwrap();
    // The worker tells of its servers before the call is made, so that the gateway knows of what they started.
    eventually_async(DEADLINE, "the server", async || {
        worker
            .servers()
            .iter()
            .any(|server| server.ready)
            .then_some(())
    })
    .await;
    let mut running = worker.run(turn("e-1", &call("hold", &json!({"key": "k"}))));
    assert!(matches!(running.next().await, Some(TurnEvent::Adopted)));
    control.wait_held("k").await;
    assert!(is_locked(&lock) && is_locked(&scratch.join("lock.grandchild")));

    let pid = i32::try_from(worker.pid().get()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();

    assert!(matches!(
        running.end().await,
        TurnEnd::Lost { reserved: true, .. }
    ));
    assert!(matches!(worker.ended().await, WorkerEnd::Lost(_)));
    assert!(!is_locked(&lock), "the server is left");
    assert!(
        !is_locked(&scratch.join("lock.grandchild")),
        "the grandchild is left"
    );
    assert!(!is_alive(worker.pid().get()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dials_in_is_welcome_if_it_is_who_the_system_says() {
    let scratch = scratch();
    let socket = scratch.join("w.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let mut process = genlock_testkit::harness::ProcessOptions::new(worker())
        .args(["--connect", &format!("unix:{}", socket.display())])
        .start(scratch.path(), "worker");
    let (stream, _) = listener.accept().await.unwrap();

    let worker = workers(Limits::default())
        .welcome(stream, order(&json!({"a": stdio(&[])}), &scratch))
        .await
        .unwrap();

    assert_eq!(worker.pid().get(), process.pid());
    let result = completed(&worker, turn("e-1", &call("echo", &json!({"text": "hi"})))).await;
    assert_eq!(first_text(&result), "hi");
    worker.retire();
    assert!(process.wait_exit(DEADLINE).success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_the_gateway_itself_is_not_welcome() {
    let scratch = scratch();
    let socket = scratch.join("w.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let _peer = tokio::net::UnixStream::connect(&socket).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();

    let workers = workers(Limits::default());
    let refused = workers.welcome(stream, order(&json!({}), &scratch)).await;

    let refused = refused.unwrap_err().to_string();
    assert_eq!(refused, "the worker's hello: `pid` is the gateway itself");
}
