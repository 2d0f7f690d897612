//! What a gateway starts on.

use genlock_testkit::{
    clients::ModernClient,
    harness::{GenlockOptions, GenlockProcess},
};
use serde_json::{Value, json};

use super::{apply, config, gateway, get, head, history, owned, report};
use crate::stage::{self, stdio, stdio_with, wait_for_state, wait_ready};

fn guarded(token: &str) -> Value {
    json!({"plain": stdio(&[]), "safe": stdio_with(&[], &json!({"env": {"TOKEN": token}}))})
}

/// Starts it again on another file.
fn restart(gateway: &mut GenlockProcess, text: &str) {
    gateway.stop();
    gateway.write_config(text);
    gateway.start_again();
}

#[tokio::test]
async fn a_restart_on_the_same_file_keeps_the_generation() {
    let servers = guarded("a-token-of-this-test");
    let mut gateway = gateway(&servers).await;
    let mut file = config(&servers);
    file["shutdown"] = json!({"drain_s": 7});
    apply(&gateway, &file).await;
    let before = get(&gateway, "/api/generations/2").await;

    restart(&mut gateway, &file.to_string());
    wait_ready(&gateway).await;

    assert_eq!(head(&gateway).await, 2);
    assert_eq!(get(&gateway, "/api/generations/2").await, before);
    gateway.kill9();
    gateway.start_again();
    wait_ready(&gateway).await;
    assert_eq!(history(&gateway).await, owned(&[(1, "boot"), (2, "api")]));
}

#[tokio::test]
async fn a_restart_on_an_edited_file_commits_it() {
    let mut gateway = gateway(&json!({"one": stdio(&[])})).await;

    let edited = config(&json!({"one": stdio(&[]), "two": stdio(&[])}));
    restart(&mut gateway, &edited.to_string());
    wait_ready(&gateway).await;

    assert_eq!(history(&gateway).await, owned(&[(1, "boot"), (2, "boot")]));
    let changes = get(&gateway, "/api/generations/1/diff/2").await;
    assert_eq!(changes["servers"]["added"], json!(["two"]));
}

#[tokio::test]
async fn a_broken_file_at_boot_serves_the_last_good_generation_and_says_so() {
    let servers = guarded("a-token-of-this-test");
    let mut gateway = gateway(&servers).await;
    let mut broken = config(&servers);
    broken["no_such_key"] = json!(7);

    restart(&mut gateway, &broken.to_string());
    // Its private value stands in the file still.
    wait_ready(&gateway).await;

    let status = stage::status(&gateway).await;
    let degraded = &status["degraded"];
    assert_eq!(status["generation"], 1);
    assert_eq!(
        (&degraded["cause"], &degraded["code"], &degraded["message"]),
        (
            &json!("boot"),
            &json!("config.invalid"),
            &json!("the config is not valid")
        )
    );
    let finding = degraded["findings"][0].as_str().unwrap();
    assert!(
        finding.contains("genlock.yaml:1:") && finding.contains("no_such_key"),
        "{finding}"
    );
    assert_eq!(degraded.get("private_values_unavailable"), None);
    let client = ModernClient::new(gateway.url());
    let answer = client.call("safe__env", r#"{"name":"TOKEN"}"#).await;
    assert_eq!(answer.structured()["value"], "a-token-of-this-test");
    // The next good file ends that.
    let unchanged = apply(&gateway, &config(&servers)).await;
    assert_eq!(
        (&unchanged["changed"], &unchanged["generation"]),
        (&json!(false), &json!(1))
    );
    assert_eq!(stage::status(&gateway).await["degraded"], Value::Null);
}

#[tokio::test]
async fn a_server_whose_private_value_cannot_be_had_is_parked_while_the_others_serve() {
    let mut gateway = gateway(&guarded("a-token-of-this-test")).await;
    let mut broken = config(&guarded("another-token-of-this-test"));
    broken["no_such_key"] = json!(7);

    for text in [broken.to_string(), "no: [config".to_owned()] {
        restart(&mut gateway, &text);
        let parked = wait_for_state(&gateway, "safe", "parked").await;
        wait_for_state(&gateway, "plain", "ready").await;

        let reason = parked["reason"].as_str().unwrap();
        assert!(
            reason.contains("private_values_unavailable: /env/TOKEN")
                || reason.contains("private_values_unavailable: env/TOKEN")
                || reason.contains("private_values_unavailable: /mcp_servers/safe/env/TOKEN"),
            "{reason}"
        );
        let degraded = stage::status(&gateway).await["degraded"].clone();
        assert_eq!(
            degraded["private_values_unavailable"],
            json!(["/mcp_servers/safe/env/TOKEN"])
        );
        let client = ModernClient::new(gateway.url());
        assert_eq!(
            client.call("plain__echo", r#"{"text":"hi"}"#).await.text(),
            "hi"
        );
    }
    // The new value comes into force with the file that holds it.
    let rotated = apply(&gateway, &config(&guarded("another-token-of-this-test"))).await;
    assert_eq!(
        rotated["private_rotated"],
        json!(["/mcp_servers/safe/env/TOKEN"])
    );
    assert_eq!(rotated["servers"]["unavailable"], json!([]));
    wait_ready(&gateway).await;
}

#[tokio::test]
async fn a_value_that_comes_back_unchanged_serves_its_server_again() {
    let servers = guarded("a-token-of-this-test");
    let mut gateway = gateway(&servers).await;
    restart(&mut gateway, "no: [config");
    wait_for_state(&gateway, "safe", "parked").await;
    wait_for_state(&gateway, "plain", "ready").await;

    let report = apply(&gateway, &config(&servers)).await;

    assert_eq!(report["generation"], 1, "{report}");
    assert_eq!(report["changed"], false, "{report}");
    assert_eq!(report["servers"]["changed"], json!(["safe"]), "{report}");
    assert_eq!(report["servers"]["unavailable"], json!([]), "{report}");
    assert_eq!(history(&gateway).await, owned(&[(1, "boot")]));
    wait_ready(&gateway).await;
    let client = ModernClient::new(gateway.url());
    let answer = client.call("safe__env", r#"{"name":"TOKEN"}"#).await;
    assert_eq!(answer.structured()["value"], "a-token-of-this-test");
}

#[tokio::test]
async fn a_strict_boot_refuses_a_broken_file() {
    let gateway = gateway(&json!({"one": stdio(&[])})).await;
    let scratch = gateway.into_scratch();

    let refused = GenlockOptions::new("no_such_key: 7\n")
        .arg("--strict-boot")
        .scratch(scratch)
        .start_refused();

    // Nothing but the first start said that it serves.
    assert_eq!(
        (refused.code, refused.stdout.matches(" serves ").count()),
        (Some(78), 1)
    );
    assert!(
        refused.stderr.contains(":1:1 no_such_key"),
        "{}",
        refused.stderr
    );
}

#[tokio::test]
async fn a_broken_file_without_an_earlier_generation_refuses_to_boot() {
    let scratch = stage::scratch();

    let refused = GenlockOptions::new("no_such_key: 7\nlisten: 7\n")
        .scratch(scratch)
        .start_refused();

    assert_eq!((refused.code, refused.stdout.as_str()), (Some(78), ""));
    for finding in [":1:1 no_such_key", ":2:9 listen"] {
        assert!(refused.stderr.contains(finding), "{}", refused.stderr);
    }
}

#[tokio::test]
async fn the_removal_of_every_server_at_boot_serves_the_last_good_generation() {
    let mut gateway = gateway(&json!({"one": stdio(&[])})).await;

    restart(&mut gateway, &config(&json!({})).to_string());
    wait_ready(&gateway).await;

    let status = stage::status(&gateway).await;
    assert_eq!(
        (&status["generation"], &status["degraded"]["code"]),
        (&json!(1), &json!("mass_removal"))
    );
    let confirmed = report(&super::ask(&gateway, &json!({"confirm_mass_removal": true})).await);
    assert_eq!(confirmed["servers"]["removed"], json!(["one"]));
    assert_eq!(head(&gateway).await, 2);
}
