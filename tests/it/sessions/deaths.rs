//! What is left when a worker, the gateway or a directory goes away in the middle of a turn.

use std::fs;

use genlock_testkit::harness::{
    Control, GenlockProcess, Scratch, descendants, eventually, eventually_async, is_alive, kill9,
};
use serde_json::{Value, json};

use super::{COMPLETED, Desk, call, config, echo, gateway, held_by, hold, state, texts, workers};
use crate::stage::{self, DEADLINE, stdio};

/// A session with a turn that runs and is held, and one that waits.
struct Scene {
    gateway: GenlockProcess,
    desk: Desk,
    session: String,
    running: String,
    queued: String,
    control: Control,
    _scratch: Scratch,
}

async fn scene(more: &Value) -> Scene {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let mut config = config(&json!({"a": held_by(&control)}));
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let gateway = stage::start(&config);
    stage::wait_ready(&gateway).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let running = desk.submit(&session, &[hold("a", "k")]).await;
    control.wait_held("k").await;
    let queued = desk.submit(&session, &[echo("a")]).await;
    Scene {
        gateway,
        desk,
        session,
        running,
        queued,
        control,
        _scratch: scratch,
    }
}

impl Scene {
    /// The unknown turn pauses the queue until it is resolved; then the queue goes on.
    async fn resolve(&self, desk: &Desk) {
        assert_eq!(state(&desk.receipt(&self.running).await), ("unknown", None));
        assert_eq!(state(&desk.receipt(&self.queued).await), ("queued", None));
        let reloaded = desk.reload(&self.session).await;
        assert_eq!(reloaded["session"], "unchanged", "{reloaded}");
        let named = json!({ "session_id": self.session });
        let (reason, detail) = desk.refused("session.close", &named).await;
        assert_eq!(reason, "session_busy");
        assert!(detail.as_str().unwrap().contains(&self.running), "{detail}");

        let outcome = json!({"turn_id": self.running, "outcome": "failed"});
        let resolved = desk.ask("turn.resolve_unknown", &outcome).await;
        assert_eq!(state(&resolved), ("done", Some("failed")));
        assert_eq!(resolved["error"]["code"], "outcome_unknown");
        let queued = desk.end(&self.queued).await;
        assert_eq!(
            (state(&queued), texts(&queued)),
            (COMPLETED, vec!["a".to_owned()])
        );
    }
}

#[tokio::test]
async fn a_turn_whose_worker_was_killed_is_unknown_and_the_next_runs_on_another_once_resolved() {
    let scene = scene(&json!({})).await;
    let before = workers(&scene.gateway);
    assert_eq!(before.len(), 1);
    let below = descendants(before[0]);
    assert!(!below.is_empty());

    kill9(before[0]);
    let lost = scene.desk.end(&scene.running).await;

    assert_eq!(state(&lost), ("unknown", None));
    eventually(DEADLINE, "the worker's servers are gone", || {
        (!below.iter().any(|pid| is_alive(*pid))).then_some(())
    });
    scene.resolve(&scene.desk).await;
    let after = workers(&scene.gateway);
    assert_eq!(after.len(), 1);
    assert_ne!(after, before);
}

#[tokio::test]
async fn a_worker_that_is_killed_while_idle_affects_no_turn() {
    let gateway = gateway(&json!({"a": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let instance = |receipt: &Value| texts(receipt)[0].clone();
    let ask = [call("a", "instance", &json!({}))];
    let first = instance(&desk.run(&session, &ask).await);
    let warm = instance(&desk.run(&session, &ask).await);
    let before = workers(&gateway);

    kill9(before[0]);
    eventually(DEADLINE, "the worker is gone", || {
        workers(&gateway).is_empty().then_some(())
    });
    let next = desk.run(&session, &ask).await;

    assert_eq!(warm, first);
    assert_eq!(state(&next), COMPLETED);
    assert_ne!(instance(&next), first);
}

#[tokio::test]
async fn a_turn_that_runs_may_end_while_the_gateway_stops_and_the_queue_runs_after_it() {
    let mut scene = scene(&json!({})).await;

    scene.gateway.process().terminate();
    eventually_async(DEADLINE, "no turn is taken any more", async || {
        let submission = Desk::submission(&scene.session, &json!({"calls": [echo("a")]}));
        let answer = scene
            .desk
            .control
            .request("turn.submit", &submission.to_string())
            .await;
        (!answer.is_result()).then(|| answer.error().message)
    })
    .await;
    scene.control.release("k");
    let ended = scene.gateway.process().wait_exit(DEADLINE);
    scene.gateway.start_again();

    assert!(ended.success(), "{ended}");
    let desk = Desk::of(&scene.gateway).await;
    let running = desk.receipt(&scene.running).await;
    assert_eq!(
        (state(&running), texts(&running)),
        (COMPLETED, vec!["released".to_owned()])
    );
    assert_eq!(state(&desk.end(&scene.queued).await), COMPLETED);
}

#[tokio::test]
async fn a_turn_that_goes_on_when_the_drain_is_over_is_interrupted() {
    let mut scene = scene(&json!({"shutdown": {"drain_s": 0.2}})).await;

    assert!(scene.gateway.stop().success());
    scene.gateway.start_again();

    let desk = Desk::of(&scene.gateway).await;
    let running = desk.receipt(&scene.running).await;
    assert_eq!(state(&running), ("done", Some("interrupted")));
    assert_eq!(state(&desk.end(&scene.queued).await), COMPLETED);
}

#[tokio::test]
async fn a_killed_gateway_leaves_no_worker_and_no_server_and_loses_no_turn() {
    let mut scene = scene(&json!({})).await;
    let below = descendants(scene.gateway.pid());
    // Its own server, the worker, and the worker's server at least.
    assert!(below.len() >= 3, "{below:?}");
    assert_eq!(workers(&scene.gateway).len(), 1);

    scene.gateway.kill9();

    eventually(DEADLINE, "nothing is left of it", || {
        (!below.iter().any(|pid| is_alive(*pid))).then_some(())
    });
    scene.gateway.start_again();
    stage::wait_ready(&scene.gateway).await;
    scene.resolve(&Desk::of(&scene.gateway).await).await;
}

#[tokio::test]
async fn a_directory_that_is_gone_fails_the_turn_by_name_until_it_is_back() {
    let mut config = config(&json!({"a": stdio(&[])}));
    // So that each turn starts a worker.
    config["worker"] = json!({"idle_ttl_s": 0});
    let gateway = stage::start(&config);
    let desk = Desk::of(&gateway).await;
    let dir = gateway.scratch().dir("project");
    let created = desk.create(&gateway, "r", &json!({ "cwd": dir })).await;
    let session = created["session_id"].as_str().unwrap();
    fs::remove_dir(&dir).unwrap();

    let gone = desk.run(session, &[echo("a")]).await;
    fs::create_dir(&dir).unwrap();
    let back = desk.run(session, &[call("a", "cwd", &json!({}))]).await;

    assert_eq!(texts(&gone), ["mcp_servers_unavailable"]);
    let told = &gone["result"]["results"][0]["error"]["message"];
    assert!(
        told.as_str().unwrap().contains(dir.to_str().unwrap()),
        "{told}"
    );
    assert_eq!(texts(&back), [dir.to_str().unwrap()]);
}
