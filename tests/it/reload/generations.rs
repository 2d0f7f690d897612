//! Earlier configurations: shown, compared, taken back.

use genlock_testkit::clients::{ApiClient, ModernClient};
use serde_json::{Value, json};

use super::{apply, config, error, gateway, get, head, history, owned, pids, report, unchanged};
use crate::stage::{self, failed, stdio, stdio_with};

fn tokened(token: &str, flags: &[&str]) -> Value {
    json!({"one": stdio_with(flags, &json!({"env": {"TOKEN": token}})), "two": stdio(&[])})
}

#[tokio::test]
async fn generations_are_listed_shown_and_compared() {
    let gateway = gateway(&tokened("a-token-of-this-test", &[])).await;
    apply(
        &gateway,
        &config(&tokened("a-token-of-this-test", &["--tools-only"])),
    )
    .await;
    let by_command = |args: &[&str]| -> Value {
        let output = gateway.run(&[&["--format", "json", "generations"], args].concat());
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        serde_json::from_str(&output.stdout).unwrap()
    };

    let list = get(&gateway, "/api/generations").await;
    assert_eq!(by_command(&["list"]), list);
    assert_eq!(list["head"], 2);
    assert_eq!(history(&gateway).await, owned(&[(1, "boot"), (2, "api")]));
    let paged = get(&gateway, "/api/generations?before=2&limit=1").await;
    assert_eq!(paged["generations"], json!([list["generations"][1]]));
    assert_eq!(
        (
            &list["generations"][0]["actor"],
            &list["generations"][0]["parent"]
        ),
        (&json!("local:http"), &json!(1))
    );

    let shown = get(&gateway, "/api/generations/2").await;
    assert_eq!(by_command(&["show", "2"]), shown);
    assert_eq!(shown["private"], json!(["/mcp_servers/one/env/TOKEN"]));
    assert_eq!(
        shown["config"]["mcp_servers"]["one"]["env"],
        json!({"TOKEN": "[private]"})
    );
    assert_eq!(
        shown["config"]["mcp_servers"]["one"]["args"],
        json!(["--tools-only"])
    );

    let changes = get(&gateway, "/api/generations/1/diff/2").await;
    assert_eq!(by_command(&["diff", "1", "2"]), changes);
    assert_eq!(
        changes,
        json!({
            "servers": {"added": [], "removed": [], "changed": [{"name": "one", "keys": ["args"]}], "unchanged": 1},
            "sections": [], "private_rotated": [],
        })
    );

    let table = gateway.run(&["generations", "list"]).stdout;
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        ["NUMBER", "AT", "CAUSE", "ACTOR", "DIGEST", "WHY"]
    );
    assert_eq!(lines[1][..2], ["2", "*"]);
    assert_eq!(lines[2][0], "1");
}

#[tokio::test]
async fn a_rollback_commits_the_old_content_under_a_new_number() {
    let gateway = gateway(&tokened("a-token-of-this-test", &[])).await;
    let before = pids(&gateway).await;
    apply(
        &gateway,
        &config(&tokened("a-token-of-this-test", &["--tool-name", "newer"])),
    )
    .await;
    let client = ModernClient::new(gateway.url());
    let newer = "one__newer".to_owned();
    assert!(client.tool_names().await.contains(&newer));

    let api = ApiClient::new(gateway.url());
    let dry = api.post("/api/generations/1/rollback", r#"{"dry_run":true}"#);
    let dry = report(&dry.await);
    assert_eq!(
        (&dry["changed"], &dry["generation"]),
        (&json!(true), &json!(2))
    );
    let stale = ApiClient::new(gateway.url()).with_header("if-match", "1");
    let stale = error(&stale.post("/api/generations/1/rollback", "").await);
    assert_eq!(stale, (409, "conflict".to_owned(), json!([])));
    assert_eq!(head(&gateway).await, 2);
    let back = report(&api.post("/api/generations/1/rollback", "").await);

    let mut expected = unchanged(3, 1);
    expected["changed"] = json!(true);
    expected["servers"]["changed"] = json!(["one"]);
    assert_eq!(back, expected);
    assert!(!client.tool_names().await.contains(&newer));
    let (first, third) = (
        get(&gateway, "/api/generations/1").await,
        get(&gateway, "/api/generations/3").await,
    );
    assert_eq!(
        (&first["digest"], &first["config"]),
        (&third["digest"], &third["config"])
    );
    assert_eq!(third["reason"], "rollback to generation 1");
    let value = client.call("one__env", r#"{"name":"TOKEN"}"#).await;
    assert_eq!(value.structured()["value"], "a-token-of-this-test");
    assert_eq!(pids(&gateway).await["two"], before["two"]);

    // And forward again, by the command.
    let forward = gateway.run(&["generations", "rollback", "2"]);
    assert_eq!((forward.code, forward.stderr.as_str()), (Some(0), ""));
    assert!(
        forward.stdout.starts_with("generation 4 is in force ("),
        "{}",
        forward.stdout
    );
    assert!(client.tool_names().await.contains(&newer));
    // What is in force already is no change.
    let same = report(&api.post("/api/generations/2/rollback", "").await);
    assert_eq!(
        (&same["changed"], &same["generation"]),
        (&json!(false), &json!(4))
    );
    let causes = [(1, "boot"), (2, "api"), (3, "rollback"), (4, "rollback")];
    assert_eq!(history(&gateway).await, owned(&causes));
}

#[tokio::test]
async fn a_rollback_is_refused_by_name_where_a_private_value_is_another_one() {
    let gateway = gateway(&tokened("a-token-of-this-test", &[])).await;
    apply(
        &gateway,
        &config(&tokened("another-token-of-this-test", &[])),
    )
    .await;

    let api = ApiClient::new(gateway.url());
    let answer = api.post("/api/generations/1/rollback", "").await;
    let by_command = gateway.run(&["generations", "rollback", "1"]);

    let message = "private values are not available: /mcp_servers/one/env/TOKEN";
    assert_eq!(
        error(&answer),
        (409, "private_values_unavailable".to_owned(), json!([]))
    );
    assert_eq!(answer.json()["error"]["message"], message);
    assert_eq!(
        by_command,
        failed(
            78,
            format!(
                "error: {message}\n\nhint: put the values of that generation back, then roll back\n"
            )
        )
    );
    assert_eq!(head(&gateway).await, 2);
    // The configuration in force is the newest that was wished for and could be had.
    assert_eq!(stage::status(&gateway).await["degraded"], Value::Null);
}

#[tokio::test]
async fn a_generation_that_is_none_is_named_as_such_and_degrades_nothing() {
    let gateway = gateway(&json!({"one": stdio(&[])})).await;
    let api = ApiClient::new(gateway.url());

    for route in [
        "/api/generations/9",
        "/api/generations/0",
        "/api/generations/1/diff/9",
    ] {
        let (status, code, _) = error(&api.get(route).await);
        assert_eq!((status, code.as_str()), (404, "not_found"), "{route}");
    }
    let (status, code, _) = error(&api.post("/api/generations/9/rollback", "").await);
    assert_eq!((status, code.as_str()), (404, "not_found"));
    let by_command = gateway.run(&["generations", "rollback", "9"]);
    assert_eq!(by_command, failed(64, "error: there is no generation 9\n"));
    assert_eq!(stage::status(&gateway).await["degraded"], Value::Null);
}
