//! Private values of a session: those of its pinned generation, or none and a refusal that names them.

use genlock_testkit::harness::{Control, GenlockProcess};
use serde_json::{Value, json};

use super::{
    COMPLETED, Desk, call, config, digest, echo, gateway, held_by, hold, pin, state, texts,
    with_token,
};
use crate::stage::{self, stdio};

const OLD: &str = "canary-of-the-first-token-4711";
const NEW: &str = "canary-of-the-next-token-0815";
const POINTER: &str = "/mcp_servers/safe/env/TOKEN";

fn servers(token: &str) -> Value {
    json!({"plain": stdio(&[]), "safe": with_token(token)})
}

fn rotate(gateway: &GenlockProcess, token: &str) {
    gateway.write_config(&config(&servers(token)).to_string());
}

fn env_call() -> Value {
    call("safe", "env", &json!({"name": "TOKEN", "digest": true}))
}

#[tokio::test]
async fn a_rotated_value_reaches_a_session_with_its_next_transition() {
    let gateway = gateway(&servers(OLD)).await;
    let desk = Desk::of(&gateway).await;
    let (moved, still) = (
        desk.session(&gateway, "1").await,
        desk.session(&gateway, "2").await,
    );
    assert_eq!(desk.token(&moved, "safe").await, digest(OLD));
    rotate(&gateway, NEW);

    let resumed = desk.resume(&moved).await;

    assert_eq!(
        (resumed["session"].as_str(), pin(&resumed)),
        (Some("applied"), (2, 2))
    );
    assert_eq!(desk.token(&moved, "safe").await, digest(NEW));
    // The other one pins the generation before, and while it does so its values are there.
    assert_eq!(desk.token(&still, "safe").await, digest(OLD));
    assert_eq!(pin(&desk.get(&still).await), (1, 1));
}

#[tokio::test]
async fn after_a_restart_a_rotated_value_is_missing_by_name_until_the_session_is_resumed() {
    let mut gateway = gateway(&servers(OLD)).await;
    let session = Desk::of(&gateway).await.session(&gateway, "r").await;
    gateway.stop();
    rotate(&gateway, NEW);
    gateway.start_again();
    let desk = Desk::of(&gateway).await;

    let submission = Desk::submission(&session, &json!({"calls": [echo("plain"), env_call()]}));
    let (reason, detail) = desk.refused("turn.submit", &submission).await;
    let unaffected = desk.run(&session, &[echo("plain")]).await;
    let resumed = desk.resume(&session).await;

    assert_eq!(reason, "private_values_unavailable");
    assert!(detail.as_str().unwrap().contains(POINTER), "{detail}");
    assert_eq!(
        (state(&unaffected), texts(&unaffected)),
        (COMPLETED, vec!["plain".to_owned()])
    );
    assert_eq!(
        (resumed["session"].as_str(), pin(&resumed)),
        (Some("applied"), (2, 2))
    );
    assert_eq!(desk.token(&session, "safe").await, digest(NEW));
}

#[tokio::test]
async fn a_value_that_comes_back_is_used_again() {
    let mut gateway = gateway(&servers(OLD)).await;
    let session = Desk::of(&gateway).await.session(&gateway, "r").await;
    gateway.stop();
    rotate(&gateway, NEW);
    gateway.start_again();
    let desk = Desk::of(&gateway).await;
    let submission = Desk::submission(&session, &json!({"calls": [env_call()]}));
    desk.refused("turn.submit", &submission).await;

    rotate(&gateway, OLD);

    assert_eq!(desk.token(&session, "safe").await, digest(OLD));
    assert_eq!(pin(&desk.get(&session).await), (1, 1));
}

#[tokio::test]
async fn a_file_that_is_not_valid_still_gives_the_values_of_a_pinned_session() {
    let mut gateway = gateway(&servers(OLD)).await;
    let session = Desk::of(&gateway).await.session(&gateway, "r").await;
    gateway.stop();
    let mut broken = config(&servers(OLD));
    broken["no_such_key"] = json!(1);
    gateway.write_config(&broken.to_string());
    gateway.start_again();
    let desk = Desk::of(&gateway).await;

    assert_eq!(desk.token(&session, "safe").await, digest(OLD));
}

#[tokio::test]
async fn a_queued_turn_whose_value_is_gone_is_rejected_by_name_and_blocks_nothing() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let held =
        |token| config(&json!({"plain": held_by(&control), "safe": with_token(token)})).to_string();
    let mut gateway = genlock_testkit::harness::GenlockOptions::new(held(OLD)).start();
    stage::wait_ready(&gateway).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let running = desk.submit(&session, &[hold("plain", "k")]).await;
    control.wait_held("k").await;
    let needs = desk.submit(&session, &[env_call()]).await;
    let plain = desk.submit(&session, &[echo("plain")]).await;

    gateway.kill9();
    gateway.write_config(&held(NEW));
    gateway.start_again();
    let desk = Desk::of(&gateway).await;
    assert_eq!(desk.receipt(&running).await["status"], "unknown");
    desk.ask("turn.resolve_unknown", &json!({ "turn_id": running }))
        .await;
    let (needs, plain) = (desk.end(&needs).await, desk.end(&plain).await);

    assert_eq!(state(&needs), ("done", Some("rejected")));
    assert_eq!(needs["error"]["code"], "private_values_unavailable");
    assert!(
        needs["error"]["message"]
            .as_str()
            .unwrap()
            .contains(POINTER),
        "{needs}"
    );
    assert_eq!(
        (state(&plain), texts(&plain)),
        (COMPLETED, vec!["plain".to_owned()])
    );
    assert_eq!(desk.resume(&session).await["session"], "applied");
    assert_eq!(desk.token(&session, "safe").await, digest(NEW));
}

#[tokio::test]
async fn no_value_of_a_session_is_kept_logged_or_answered() {
    let mut gateway =
        genlock_testkit::harness::GenlockOptions::new(config(&servers(OLD)).to_string())
            .env("GENLOCK_LOG", "trace")
            .start();
    stage::wait_ready(&gateway).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let mut said = vec![desk.token(&session, "safe").await.to_string()];
    rotate(&gateway, NEW);
    said.push(desk.reload(&session).await.to_string());
    assert_eq!(desk.token(&session, "safe").await, digest(NEW));
    said.push(desk.get(&session).await.to_string());
    let list = desk.ask("session.list", &json!({})).await;
    said.push(list.to_string());
    for args in [
        &["sessions"][..],
        &["sessions", "show", &session],
        &["sessions", "show", &session, "--format", "json"],
    ] {
        let output = gateway.run(args);
        assert_eq!(output.code, Some(0), "{output:?}");
        said.extend([output.stdout, output.stderr]);
    }
    gateway.stop();
    said.push(gateway.log());

    let holds = |bytes: &[u8]| {
        [OLD, NEW].iter().any(|token| {
            let mut windows = bytes.windows(token.len());
            windows.any(|window| window == token.as_bytes())
        })
    };
    assert!(holds(format!("x{OLD}x").as_bytes()));
    for text in said {
        assert!(!holds(text.as_bytes()), "{text}");
    }
    for (path, bytes) in gateway.state_files() {
        assert!(!holds(&bytes), "{}", path.display());
    }
}
