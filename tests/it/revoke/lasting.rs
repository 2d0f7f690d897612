//! A revocation outlives whatever becomes of the configuration and of the process.

use genlock_testkit::{
    clients::{ControlClient, ModernClient},
    harness::starts,
};
use serde_json::{Value, json};

use super::{ask, config, gateway, is_revoked, lift, owner, reason, revoke, revoked};
use crate::stage::{self, stdio, wait_for_state, wait_ready};

async fn cause_of_head(control: &ControlClient) -> (u64, String) {
    let list = ask(control, "generation.list", json!({})).await;
    let newest = &list["generations"][0];
    (
        list["head"].as_u64().unwrap(),
        newest["cause"].as_str().unwrap().to_owned(),
    )
}

#[tokio::test]
async fn a_revocation_is_a_generation_and_reloads_and_rollbacks_keep_it() {
    stage::scratch();
    let first = json!({"one": stdio(&[]), "two": stdio(&[])});
    let (gateway, control) = gateway(&first).await;
    let client = ModernClient::new(gateway.url());
    let number = revoke(&control, "tool", "one/echo").await;
    assert_eq!(
        (number.as_u64(), cause_of_head(&control).await),
        (Some(2), (2, "revoke".to_owned()))
    );
    let shown = ask(&control, "generation.get", json!({"number": 2})).await;
    assert_eq!(shown["reason"], "tool `one/echo`: leaked");
    assert_eq!(shown["overlay"]["revoked"][0]["name"], "one/echo");

    // The same file is no change to a head that revokes.
    let report = ask(&control, "config.reload", json!({})).await;
    assert_eq!(
        (&report["changed"], &report["generation"]),
        (&json!(false), &json!(2))
    );
    let mut second = first.clone();
    second["three"] = stdio(&[]);
    gateway.write_config(&config(&second).to_string());
    ask(&control, "config.reload", json!({})).await;
    assert_eq!(cause_of_head(&control).await, (3, "api".to_owned()));
    assert!(is_revoked(&client.call("one__echo", "{}").await));
    ask(&control, "generation.rollback", json!({"number": 1})).await;
    assert_eq!(cause_of_head(&control).await, (4, "rollback".to_owned()));
    assert!(is_revoked(&client.call("one__echo", "{}").await));

    lift(&control, &number).await;
    assert_eq!(cause_of_head(&control).await, (5, "revoke".to_owned()));
    let reason_of = ask(&control, "generation.get", json!({"number": 5})).await["reason"].clone();
    assert_eq!(reason_of, "lift of revocation 2: tool `one/echo`");
    assert_eq!(
        reason(&client.call("one__echo", r#"{"text":"x"}"#).await),
        None
    );
    // A generation in which it was revoked does not bring it back either.
    ask(&control, "generation.rollback", json!({"number": 3})).await;
    assert_eq!(
        reason(&client.call("one__echo", r#"{"text":"x"}"#).await),
        None
    );
}

#[tokio::test]
async fn a_revocation_holds_over_a_kill_and_over_a_start_on_a_broken_file() {
    stage::scratch();
    let (mut gateway, control) = gateway(&json!({"one": stdio(&[]), "two": stdio(&[])})).await;
    let number = revoke(&control, "server", "one").await;
    let of_tool = revoke(&control, "tool", "two/echo").await;

    gateway.kill9();
    gateway.start_again();

    let parked = wait_for_state(&gateway, "one", "parked").await;
    assert_eq!(
        (&parked["reason"], &parked["restarts"]),
        (&json!("revoked: leaked"), &json!(0))
    );
    let client = ModernClient::new(gateway.url());
    assert!(is_revoked(&client.call("one__echo", "{}").await));
    assert!(is_revoked(&client.call("two__echo", "{}").await));
    gateway.write_config("mcp_servers: { one: 7 }");
    gateway.kill9();
    gateway.start_again();
    let (control, client) = (owner(&gateway).await, ModernClient::new(gateway.url()));
    let both = vec![(2, "one".to_owned()), (3, "two/echo".to_owned())];
    assert_eq!(revoked(&control).await, both);
    assert!(is_revoked(&client.call("one__echo", "{}").await));
    assert!(is_revoked(&client.call("two__echo", "{}").await));
    let status = stage::status(&gateway).await;
    let names: Vec<&Value> = status["revoked"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, ["one", "two/echo"]);

    lift(&control, &number).await;
    lift(&control, &of_tool).await;
    wait_ready(&gateway).await;
    assert_eq!(
        reason(&client.call("one__echo", r#"{"text":"x"}"#).await),
        None
    );
    assert_eq!(
        reason(&client.call("two__echo", r#"{"text":"x"}"#).await),
        None
    );
    assert_eq!(revoked(&control).await, []);
}

#[tokio::test]
async fn a_server_that_was_removed_is_revoked_before_it_comes_back() {
    stage::scratch();
    let both = json!({"one": stdio(&[]), "two": stdio(&[])});
    let (gateway, control) = gateway(&both).await;
    gateway.write_config(&config(&json!({"two": stdio(&[])})).to_string());
    ask(&control, "config.reload", json!({})).await;

    revoke(&control, "server", "one").await;
    gateway.write_config(&config(&both).to_string());
    let report = ask(&control, "config.reload", json!({})).await;

    let unavailable = &report["servers"]["unavailable"][0];
    assert_eq!(
        (&unavailable["name"], &unavailable["reason"]),
        (&json!("one"), &json!("revoked: leaked"))
    );
    let parked = wait_for_state(&gateway, "one", "parked").await;
    assert_eq!(parked.get("pid"), None);
}

#[tokio::test]
async fn warming_leaves_alone_what_is_revoked_whether_a_gateway_runs_or_not() {
    let scratch = stage::scratch();
    let log = scratch.join("starts");
    let one = stdio(&["--start-log", log.to_str().unwrap()]);
    let (mut gateway, control) = gateway(&json!({"one": one, "two": stdio(&[])})).await;
    revoke(&control, "server", "one").await;
    let started = starts(&log).len();

    let running = gateway.run(&["warm"]);
    gateway.stop();
    let stopped = gateway.run(&["warm"]);

    for warmed in [running, stopped] {
        assert_eq!(warmed.code, Some(0), "{warmed:?}");
        assert!(
            warmed
                .stdout
                .starts_with("left    one: revoked: leaked\nok      two: "),
            "{warmed:?}"
        );
    }
    assert_eq!(starts(&log).len(), started);
}
