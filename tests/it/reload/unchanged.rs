//! What makes a generation, and which servers it touches.

use genlock_testkit::harness::fake_server;
use serde_json::json;

use super::{apply, ask, config, gateway, head, history, owned, pids, report, unchanged};
use crate::stage::{self, stdio, stdio_with};

#[tokio::test]
async fn a_file_that_means_the_same_makes_no_generation_and_touches_no_server() {
    let servers = json!({"one": stdio(&["--tools-only"]), "two": stdio_with(&[], &json!({"env": {"A": "a", "B": "b"}}))});
    let gateway = gateway(&servers).await;
    let before = (head(&gateway).await, pids(&gateway).await);
    let server = fake_server();
    let server = server.display();
    let again = config(&servers).to_string();
    let reordered = format!(
        "mcp_servers:\n  two: {{env: {{B: b, A: a}}, args: [], command: {server}}}\n  one:\n    args: [--tools-only]\n    \
         command: {server}\nconfig_reload: {{enabled: false}}\n"
    );
    let commented = format!("# A comment.\n{reordered}# Another.\n");
    let defaults = format!(
        "{reordered}shutdown: {{drain_s: 20}}\nlisten: 127.0.0.1:8717\ntool_access: {{names: always}}\n"
    )
    .replace("enabled: false", "enabled: false, interval_s: 5, debounce_ms: 500")
    .replace("args: []", "args: [], enabled: true");

    for text in [again, reordered, commented, defaults] {
        gateway.write_config(&text);
        assert_eq!(
            report(&ask(&gateway, &json!({})).await),
            unchanged(before.0, 2),
            "{text}"
        );
    }

    assert_eq!((head(&gateway).await, pids(&gateway).await), before);
    assert_eq!(history(&gateway).await, owned(&[(1, "boot")]));
}

#[tokio::test]
async fn an_edit_touches_exactly_the_edited_server() {
    let mut servers = json!({"a": stdio(&[]), "b": stdio(&[]), "c": stdio(&[])});
    let gateway = gateway(&servers).await;
    let before = pids(&gateway).await;

    servers["b"] = stdio(&["--tools-only"]);
    let report = apply(&gateway, &config(&servers)).await;

    let mut expected = unchanged(2, 2);
    expected["changed"] = json!(true);
    expected["servers"]["changed"] = json!(["b"]);
    assert_eq!(report, expected);
    let after = pids(&gateway).await;
    assert_eq!((before["a"], before["c"]), (after["a"], after["c"]));
    assert_ne!(before["b"], after["b"]);
    assert_eq!(history(&gateway).await, owned(&[(1, "boot"), (2, "api")]));
}

#[tokio::test]
async fn servers_come_and_go_and_one_that_does_not_start_is_named() {
    let mut servers = json!({"a": stdio(&[]), "b": stdio(&[])});
    let gateway = gateway(&servers).await;
    let before = pids(&gateway).await;

    let members = servers.as_object_mut().unwrap();
    members.remove("b");
    members.insert("c".to_owned(), json!({"command": "/no/such/program"}));
    members.insert("d".to_owned(), stdio(&[]));
    let report = apply(&gateway, &config(&servers)).await;

    let reason = report["servers"]["unavailable"][0]["reason"].clone();
    assert!(
        reason.as_str().unwrap().contains("/no/such/program"),
        "{reason}"
    );
    let mut expected = unchanged(2, 1);
    expected["changed"] = json!(true);
    expected["servers"]["added"] = json!(["c", "d"]);
    expected["servers"]["removed"] = json!(["b"]);
    expected["servers"]["unavailable"] = report["servers"]["unavailable"].clone();
    assert_eq!(report, expected);
    assert_eq!(
        report["servers"]["unavailable"].as_array().unwrap().len(),
        1
    );
    let after = pids(&gateway).await;
    assert_eq!(after["a"], before["a"]);
    assert_eq!(after.keys().collect::<Vec<_>>(), ["a", "d"]);
}

#[tokio::test]
async fn a_section_that_needs_a_restart_is_named_until_then() {
    let servers = json!({"a": stdio(&[])});
    let mut gateway = gateway(&servers).await;
    let mut file = config(&servers);
    file["config_reload"]["interval_s"] = json!(9);

    let first = apply(&gateway, &file).await;
    let second = apply(&gateway, &file).await;

    let sections =
        json!([{"section": "config_reload", "keys": ["interval_s"], "effect": "restart_required"}]);
    let mut expected = unchanged(2, 1);
    expected["restart_required"] = json!(["config_reload"]);
    assert_eq!(second, expected);
    expected["changed"] = json!(true);
    expected["sections"] = sections.clone();
    assert_eq!(first, expected);
    assert_eq!(stage::status(&gateway).await["restart_required"], sections);
    gateway.stop();
    gateway.start_again();
    assert_eq!(stage::status(&gateway).await["restart_required"], json!([]));
    assert_eq!(head(&gateway).await, 2);
}

#[tokio::test]
async fn a_report_waits_for_what_it_started_as_long_as_it_is_asked_to() {
    let mut servers = json!({"one": stdio(&[])});
    let gateway = gateway(&servers).await;
    let slow = |version: &str| {
        stdio_with(
            &["--start-delay-ms", "400"],
            &json!({"env": {"VERSION": version}}),
        )
    };

    servers["slow"] = slow("a");
    gateway.write_config(&config(&servers).to_string());
    let hasty = report(&ask(&gateway, &json!({"wait_s": 0})).await);
    servers["slow"] = slow("b");
    gateway.write_config(&config(&servers).to_string());
    let patient = report(&ask(&gateway, &json!({"wait_s": 20})).await);

    let connecting = json!([{"name": "slow", "reason": "connecting", "retry_at": null}]);
    assert_eq!(hasty["servers"]["unavailable"], connecting);
    assert_eq!(hasty["servers"]["added"], json!(["slow"]));
    assert_eq!(patient["servers"]["unavailable"], json!([]));
    assert_eq!(patient["servers"]["changed"], json!(["slow"]));
}

#[tokio::test]
async fn a_server_is_switched_off_and_on_while_the_others_go_on() {
    let mut servers = json!({"one": stdio(&[]), "two": stdio(&[])});
    let gateway = gateway(&servers).await;
    let before = pids(&gateway).await;

    servers["two"]["enabled"] = json!(false);
    let off = apply(&gateway, &config(&servers)).await;
    let between = pids(&gateway).await;
    servers["two"]["enabled"] = json!(true);
    let on = apply(&gateway, &config(&servers)).await;

    for report in [off, on] {
        assert_eq!(report["servers"]["changed"], json!(["two"]));
        assert_eq!(report["servers"]["unavailable"], json!([]));
    }
    assert_eq!(between, [("one".to_owned(), before["one"])].into());
    let after = pids(&gateway).await;
    assert_eq!(after["one"], before["one"]);
    assert_ne!(after["two"], before["two"]);
}
