//! What people ask of a server: `server.*`, `genlock servers`, and what a reload does for those that wait.

use genlock_testkit::{
    clients::{ApiClient, ModernClient},
    harness::{DEADLINE, eventually_async},
};
use http::Method;
use serde_json::{Value, json};

use super::{control, install, logged, reload, server, started, wait_until};
use crate::stage::{self, stdio};

fn refusal(error: &Value) -> (&Value, &Value) {
    (&error["data"]["reason"], &error["data"]["detail"])
}

#[tokio::test]
async fn a_reload_wakes_a_parked_server_whose_definition_did_not_change() {
    let scratch = stage::scratch();
    let program = scratch.join("later");
    let gateway = stage::start(&json!({"mcp_servers": {"later": {"command": program}}}));
    stage::wait_for_state(&gateway, "later", "parked").await;
    install(&program);

    let report = reload(&gateway).await;

    assert_eq!(
        (&report["changed"], &report["servers"]["unavailable"]),
        (&json!(false), &json!([])),
        "the report waits for it"
    );
    assert_eq!(server(&gateway, "later").await["state"], "ready");
}

#[tokio::test]
async fn a_reload_leaves_a_cooling_server_alone_and_a_probe_does_not() {
    let scratch = stage::scratch();
    let silent = json!({"connect_timeout": 0.2});
    let gateway = stage::start(&json!({"mcp_servers": {
        "silent": logged(&scratch, "silent", &["--no-answer"], &silent),
    }}));
    let cooling = stage::wait_for_state(&gateway, "silent", "cooldown").await;
    let starts = started(&scratch, "silent");

    reload(&gateway).await;
    let same = server(&gateway, "silent").await;
    let probed = control(&gateway, "server.probe", &json!({"name": "silent"}))
        .await
        .unwrap();

    assert_eq!(
        (&same["state"], &same["retry_at"]),
        (&json!("cooldown"), &cooling["retry_at"])
    );
    assert_eq!(
        (&probed["state"], started(&scratch, "silent")),
        (&json!("cooldown"), starts + 1)
    );
    assert_ne!(probed["retry_at"], cooling["retry_at"]);
}

#[tokio::test]
async fn a_probe_wakes_a_parked_server_and_tells_what_came_of_it() {
    let scratch = stage::scratch();
    let program = scratch.join("later");
    let gateway = stage::start(&json!({"mcp_servers": {"later": {"command": program}}}));
    stage::wait_for_state(&gateway, "later", "parked").await;

    let still = control(&gateway, "server.probe", &json!({"name": "later"}))
        .await
        .unwrap();
    install(&program);
    let mended = gateway.run(&["servers", "probe", "later"]);

    assert_eq!(still["state"], "parked");
    assert_eq!((mended.code, mended.stderr.as_str()), (Some(0), ""));
    assert!(
        mended.stdout.starts_with("later is ready"),
        "{}",
        mended.stdout
    );
    let broken = gateway.run(&["servers", "probe", "later"]);
    assert_eq!(broken.code, Some(0), "one that serves is left alone");
}

#[tokio::test]
async fn a_restart_replaces_the_process() {
    let scratch = stage::scratch();
    let gateway = stage::start(&json!({"mcp_servers": {
        "one": logged(&scratch, "one", &[], &json!({})),
        "lazy": logged(&scratch, "lazy", &[], &json!({"lazy": true})),
    }}));
    stage::wait_for_state(&gateway, "one", "ready").await;
    let client = ModernClient::new(gateway.url());
    let before = client.call("one__instance", "{}").await.text();

    let restarted = control(&gateway, "server.restart", &json!({"name": "one"}))
        .await
        .unwrap();
    let begun = gateway.run(&["servers", "restart", "lazy"]);

    assert_eq!(
        (&restarted["state"], &restarted["restarts"]),
        (&json!("ready"), &json!(1))
    );
    assert_ne!(client.call("one__instance", "{}").await.text(), before);
    assert!(
        begun.stdout.starts_with("lazy is ready"),
        "{}",
        begun.stdout
    );
    assert_eq!(
        (started(&scratch, "one"), started(&scratch, "lazy")),
        (2, 1)
    );
}

#[tokio::test]
async fn servers_are_listed_as_a_table_and_for_programs() {
    let scratch = stage::scratch();
    let gateway = stage::start(&json!({"mcp_servers": {
        "good": stdio(&[]),
        "lazy": logged(&scratch, "lazy", &[], &json!({"lazy": true})),
        "lost": {"command": "/no/such/program"},
        "off": {"command": "x", "enabled": false},
    }}));
    let good = stage::wait_for_state(&gateway, "good", "ready").await;
    let lost = stage::wait_for_state(&gateway, "lost", "parked").await;

    let table = gateway.run(&["servers"]);
    let object = gateway.run(&["servers", "--format", "json"]);
    let listed = control(&gateway, "server.list", &json!({})).await.unwrap();
    let one = control(&gateway, "server.get", &json!({"name": "good"}))
        .await
        .unwrap();

    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""));
    let rows: Vec<Vec<&str>> = table
        .stdout
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    let header = [
        "SERVER",
        "STATE",
        "SINCE",
        "TOOLS",
        "CALLS",
        "RESTARTS",
        "PID",
        "RUNG",
        "NEXT TRY",
        "LAST ERROR",
    ];
    assert_eq!(rows[0], header);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (pid, rung) = (good["pid"].to_string(), good["rung"].to_string());
    assert_eq!(
        rows[1],
        [
            "good",
            "ready",
            &text(&good["since"]),
            "23",
            "0",
            "0",
            &pid,
            &rung,
            "-",
            "-"
        ]
    );
    assert_eq!(rows[2][..2], ["lazy", "lazy"]);
    assert_eq!(
        (rows[3][1], rows[3][8], rows[3][9]),
        (
            "parked",
            text(&lost["retry_at"]).as_str(),
            "command not found: /no/such/program"
        )
    );
    assert_eq!(rows[4][..2], ["off", "disabled"]);
    let object: Value = serde_json::from_str(&object.stdout).unwrap();
    assert_eq!(object, listed);
    assert_eq!((&one, &listed["servers"][0]), (&good, &good));
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_with_its_reason() {
    let gateway = stage::start(&json!({"mcp_servers": {
        "off": {"command": "x", "enabled": false},
    }}));
    let ask =
        async |method: &str, params: Value| control(&gateway, method, &params).await.unwrap_err();

    let unknown = ask("server.get", json!({"name": "nobody"})).await;
    let nameless = ask("server.probe", json!({})).await;
    let surprise = ask("server.list", json!({"surprise": 1})).await;
    let wait = ask("server.probe", json!({"name": "off", "wait_s": "long"})).await;
    let disabled = ask("server.restart", json!({"name": "off"})).await;
    let method = ask("server.explode", json!({"name": "off"})).await;
    let shown = gateway.run(&["servers", "restart", "off"]);
    let absent = gateway.run(&["servers", "logs", "nobody"]);

    let expected = [
        (
            &unknown,
            "not_found",
            "no server of this name is configured",
        ),
        (&nameless, "invalid_params", "`name` must be a string"),
        (&surprise, "invalid_params", "unknown parameter `surprise`"),
        (
            &wait,
            "invalid_params",
            "`wait_s` must be a number of seconds",
        ),
        (
            &disabled,
            "server_disabled",
            "its definition says `enabled: false`",
        ),
    ];
    for (error, reason, detail) in expected {
        assert_eq!(refusal(error), (&json!(reason), &json!(detail)));
    }
    assert_eq!(method["code"], -32601);
    assert_eq!(
        (shown.code, shown.stderr.lines().next()),
        (
            Some(69),
            Some("error: `off`: its definition says `enabled: false`")
        )
    );
    assert_eq!(
        (absent.code, absent.stderr.lines().next()),
        (
            Some(64),
            Some("error: `nobody`: no server of this name is configured")
        )
    );
}

#[tokio::test]
async fn the_last_words_of_a_server_are_shown() {
    let gateway = stage::start(&json!({"mcp_servers": {
        "bad": {"command": ["/bin/sh", "-c", "echo first >&2; echo second >&2; exit 3"]},
    }}));
    wait_until(&gateway, "bad", "failed", |bad| {
        bad["last_error"].is_string()
    })
    .await;

    let shown = gateway.run(&["servers", "logs", "bad"]);
    let logs = control(&gateway, "server.logs", &json!({"name": "bad"}))
        .await
        .unwrap();

    assert!(
        shown.stdout.starts_with("first\nsecond\n"),
        "{}",
        shown.stdout
    );
    assert_eq!(
        logs["lines"].as_array().unwrap()[..2],
        [json!("first"), json!("second")]
    );
}

#[tokio::test]
async fn whoever_listens_hears_each_edge_of_a_server_once() {
    let gateway = stage::start(&json!({"mcp_servers": {"one": stdio(&[])}}));
    stage::wait_for_state(&gateway, "one", "ready").await;
    let api = ApiClient::new(gateway.url());
    let events = api.open(Method::GET, "/api/events", &[], "").await.unwrap();

    control(&gateway, "server.restart", &json!({"name": "one"}))
        .await
        .unwrap();
    let told = eventually_async(DEADLINE, "both edges are told", async || {
        let told = events.transcript().messages();
        (told.len() >= 2).then_some(told)
    })
    .await;

    let edge = |from: &str, to: &str, ready: bool| json!({"name": "one", "from": from, "to": to, "ready": ready});
    let told: Vec<Value> = told
        .iter()
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert_eq!(
        told,
        [
            edge("ready", "reconnecting", false),
            edge("reconnecting", "ready", true)
        ]
    );
    // The log has the same edges, each once.
    let log = gateway.log();
    let edges = log.lines().filter(|line| line.contains("server state"));
    assert_eq!(edges.count(), 3, "{log}");
}
