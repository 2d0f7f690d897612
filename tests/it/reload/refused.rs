//! What is refused, and how that is told; the generation before stays in force.

use std::{fs::Permissions, os::unix::fs::PermissionsExt};

use genlock_testkit::clients::{ApiClient, ModernClient};
use http::Method;
use serde_json::{Value, json};

use super::{
    apply, ask, config, error, gateway, head, history, owned, pids, report, told, unchanged,
};
use crate::stage::{self, failed, stdio};

/// A file with two mistakes.
const BROKEN: &str = "mcp_servers:\n  one:\n    comand: x\nlisten: 7\n";

/// The places of findings.
fn places(findings: &Value) -> Vec<(String, u64, u64, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    findings
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| {
            let (line, column) = (&finding["line"], &finding["column"]);
            (
                text(&finding["file"]),
                line.as_u64().unwrap(),
                column.as_u64().unwrap(),
                text(&finding["path"]),
            )
        })
        .collect()
}

#[tokio::test]
async fn an_invalid_file_is_refused_with_its_findings_until_a_good_one_comes() {
    let servers = json!({"one": stdio(&[])});
    let gateway = gateway(&servers).await;
    let before = pids(&gateway).await;
    let api = ApiClient::new(gateway.url());
    let events = api.open(Method::GET, "/api/events", &[], "").await.unwrap();
    gateway.write_config(BROKEN);

    let (status, code, findings) = error(&ask(&gateway, &json!({})).await);

    let file = gateway.config_path().to_str().unwrap().to_owned();
    assert_eq!((status, code.as_str()), (422, "config.invalid"));
    let mut found = places(&findings);
    found.dedup();
    assert!(
        found.contains(&(file.clone(), 4, 9, "listen".to_owned())),
        "{findings}"
    );
    assert!(
        found.contains(&(file.clone(), 3, 5, "mcp_servers.one.comand".to_owned())),
        "{findings}"
    );
    // Told everywhere.
    let refused = events
        .transcript()
        .find(stage::DEADLINE, "an event", |_| true)
        .await
        .unwrap();
    let degraded = stage::status(&gateway).await["degraded"].clone();
    assert_eq!(serde_json::from_str::<Value>(&refused).unwrap(), degraded);
    assert_eq!(
        (&degraded["cause"], &degraded["code"], &degraded["message"]),
        (
            &json!("api"),
            &json!(code),
            &json!("the config is not valid")
        )
    );
    let shown = gateway.run(&["status"]).stdout;
    assert!(
        shown.contains("\nDEGRADED: the last api was refused: the config is not valid\n"),
        "{shown}"
    );
    assert!(shown.contains(&format!("  {file}:4:9 listen: ")), "{shown}");
    // And served as before.
    let client = ModernClient::new(gateway.url());
    assert_eq!(
        client.call("one__echo", r#"{"text":"still"}"#).await.text(),
        "still"
    );
    assert_eq!((head(&gateway).await, pids(&gateway).await), (1, before));

    assert_eq!(apply(&gateway, &config(&servers)).await, unchanged(1, 1));
    assert_eq!(stage::status(&gateway).await["degraded"], Value::Null);
    assert!(!gateway.run(&["status"]).stdout.contains("DEGRADED"));
}

#[tokio::test]
async fn a_file_that_is_gone_is_named() {
    let servers = json!({"one": stdio(&[])});
    let gateway = gateway(&servers).await;
    let file = gateway.config_path();
    std::fs::remove_file(&file).unwrap();

    let refused = ask(&gateway, &json!({})).await;

    let gone = "No such file or directory (os error 2)";
    let read = format!("read config {}", file.display());
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.json()["error"]["details"]["causes"],
        json!([read, gone])
    );
    let degraded = stage::status(&gateway).await["degraded"].clone();
    assert_eq!(
        degraded["message"],
        format!("the config is not valid: {read}: {gone}")
    );
    assert_eq!(apply(&gateway, &config(&servers)).await, unchanged(1, 1));
}

#[tokio::test]
async fn an_edit_that_anybody_could_have_made_is_refused() {
    let gateway = gateway(&json!({"one": stdio(&[])})).await;
    let file = gateway.config_path();
    let two = json!({"one": stdio(&[]), "two": stdio(&[])});
    std::fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    std::fs::write(&file, config(&two).to_string()).unwrap();

    let (status, code, _) = error(&ask(&gateway, &json!({})).await);

    assert_eq!((status, code.as_str()), (422, "config.writable_by_others"));
    assert_eq!((head(&gateway).await, pids(&gateway).await.len()), (1, 1));
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    ask(&gateway, &json!({})).await;
    assert_eq!((head(&gateway).await, pids(&gateway).await.len()), (2, 2));
}

#[tokio::test]
async fn the_event_of_a_refusal_is_named_as_is_that_of_a_commit() {
    let gateway = gateway(&json!({"one": stdio(&[])})).await;
    let api = ApiClient::new(gateway.url());
    let events = api.open(Method::GET, "/api/events", &[], "").await.unwrap();
    assert!(events.is_event_stream());
    let transcript = events.transcript().clone();

    gateway.write_config("mcp_servers: 7\n");
    ask(&gateway, &json!({})).await;
    apply(
        &gateway,
        &config(&json!({"two": stdio(&[]), "one": stdio(&[])})),
    )
    .await;
    ask(&gateway, &json!({})).await;

    let committed = json!({"generation": 2, "cause": "api"});
    let is_last = |text: &str| text.contains(r#""generation":2"#);
    transcript.find(stage::DEADLINE, "a commit", is_last).await;
    let all =
        genlock_testkit::harness::eventually_async(stage::DEADLINE, "three events", async || {
            let all = told(&transcript);
            (all.len() >= 3).then_some(all)
        })
        .await;
    assert_eq!(all[0]["code"], "config.invalid");
    assert_eq!(all[1..], [committed.clone(), committed]);
}

#[tokio::test]
async fn the_removal_of_every_server_has_to_be_confirmed() {
    let gateway = gateway(&json!({"one": stdio(&[])})).await;
    gateway.write_config(&config(&json!({})).to_string());

    let refused = error(&ask(&gateway, &json!({})).await);
    let by_command = gateway.run(&["reload"]);
    assert_eq!(refused, (409, "mass_removal".to_owned(), json!([])));
    assert_eq!(
        stage::status(&gateway).await["degraded"]["code"],
        "mass_removal"
    );
    assert_eq!(
        by_command,
        failed(
            78,
            "error: the config removes every server (one): confirm it with `confirm_mass_removal`\n\n\
             hint: say so with --confirm-mass-removal\n"
        )
    );
    assert_eq!(pids(&gateway).await.len(), 1);
    let confirmed = report(&ask(&gateway, &json!({"confirm_mass_removal": true})).await);

    let mut expected = unchanged(2, 0);
    expected["changed"] = json!(true);
    expected["servers"]["removed"] = json!(["one"]);
    assert_eq!(confirmed, expected);
    assert_eq!(stage::status(&gateway).await["degraded"], Value::Null);
}

#[tokio::test]
async fn a_caller_that_has_seen_another_head_is_refused_and_that_is_no_degradation() {
    let mut servers = json!({"one": stdio(&[])});
    let gateway = gateway(&servers).await;
    servers["two"] = stdio(&[]);
    apply(&gateway, &config(&servers)).await;
    servers["three"] = stdio(&[]);
    gateway.write_config(&config(&servers).to_string());
    let reload = async |tag: &str| {
        let api = ApiClient::new(gateway.url()).with_header("if-match", tag);
        api.post("/api/config/reload", "").await
    };

    let stale = error(&reload("\"1\"").await);
    let by_command = gateway.run(&["reload", "--if-generation", "1"]);
    let nonsense = reload("latest").await;
    let degraded = stage::status(&gateway).await["degraded"].clone();
    let fresh = report(&reload("\"2\"").await);

    assert_eq!(stale, (409, "conflict".to_owned(), json!([])));
    assert_eq!(
        by_command,
        failed(
            75,
            "error: the head is generation 2, not 1\n\n\
             hint: look at `genlock generations list` and try again\n"
        )
    );
    assert_eq!(nonsense.status, 400);
    assert_eq!(degraded, Value::Null);
    assert_eq!(
        (&fresh["changed"], &fresh["generation"]),
        (&json!(true), &json!(3))
    );
}

#[tokio::test]
async fn a_dry_run_reports_the_change_and_commits_nothing() {
    let mut servers = json!({"one": stdio(&[]), "two": stdio(&[])});
    let gateway = gateway(&servers).await;
    let before = pids(&gateway).await;
    servers["two"] = stdio(&["--tools-only"]);
    gateway.write_config(&config(&servers).to_string());

    let dry = report(&ask(&gateway, &json!({"dry_run": true})).await);
    let shown = gateway.run(&["reload", "--dry-run"]);

    let mut expected = unchanged(1, 1);
    expected["changed"] = json!(true);
    expected["dry_run"] = json!(true);
    expected["servers"]["changed"] = json!(["two"]);
    assert_eq!(dry, expected);
    assert!(
        shown
            .stdout
            .starts_with("generation 1 would be followed by another ("),
        "{}",
        shown.stdout
    );
    assert_eq!(pids(&gateway).await, before);
    assert_eq!(history(&gateway).await, owned(&[(1, "boot")]));
    // One that would be refused says so, and nothing is remembered of it.
    gateway.write_config("mcp_servers: 7\n");
    assert_eq!(ask(&gateway, &json!({"dry_run": true})).await.status, 422);
    assert_eq!(stage::status(&gateway).await["degraded"], Value::Null);
}

#[tokio::test]
async fn a_body_that_is_none_is_refused() {
    let gateway = gateway(&json!({})).await;
    for body in ["[", "7", r#"{"dryrun":true}"#, r#"{"wait_s":-1}"#] {
        let api = ApiClient::new(gateway.url());
        let (status, code, _) = error(&api.post("/api/config/reload", body).await);
        assert_eq!((status, code.as_str()), (400, "invalid_params"), "{body}");
    }
}
