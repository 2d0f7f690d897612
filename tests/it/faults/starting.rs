//! Servers that do not start.

use std::time::Instant;

use genlock_testkit::{
    clients::{ApiClient, ModernClient},
    harness::FakeServer,
};
use serde_json::json;

use super::{bare, missing, refused};
use crate::stage::{self, Party, stdio, stdio_with};

#[tokio::test]
async fn a_command_that_cannot_run_parks_its_server_and_is_named_everywhere() {
    let scratch = stage::scratch();
    let dir = scratch.path().to_str().unwrap();
    let gateway = stage::start(&json!({"mcp_servers": {
        "good": stdio(&[]),
        "lost": {"command": "/no/such/program"},
        "name": {"command": "no-such-program-anywhere"},
        "dir": {"command": dir},
        "cwd": stdio_with(&[], &json!({"cwd": "/no/such/dir"})),
    }}));
    stage::wait_for_state(&gateway, "good", "ready").await;
    let reasons = [
        (
            "cwd",
            "no such directory to run in: /no/such/dir".to_owned(),
        ),
        ("dir", format!("command cannot be executed: {dir}")),
        ("lost", "command not found: /no/such/program".to_owned()),
        (
            "name",
            "command not found: no-such-program-anywhere".to_owned(),
        ),
    ];
    for (name, reason) in &reasons {
        let server = stage::wait_for_state(&gateway, name, "parked").await;
        assert_eq!(server["reason"], *reason);
        assert!(server["retry_at"].is_string(), "{server}");
    }

    let named: Vec<_> = reasons
        .iter()
        .map(|(name, reason)| json!({"name": name, "reason": format!("parked: {reason}")}))
        .collect();
    assert_eq!(missing(&gateway).await, json!(named));
    for (client, party) in Party::one_of_each(&gateway).await {
        let answer = party.call("lost__anything", "{}").await;
        let text = "server `lost` is parked: command not found: /no/such/program";
        assert_eq!(
            bare(&answer),
            refused(text, "mcp_servers_unavailable", false),
            "{client}"
        );
        assert!(party.tool_names().await.contains(&"good__echo".to_owned()));
    }
}

#[tokio::test]
async fn a_server_that_ends_at_once_is_named_with_its_last_words_and_private_values_masked() {
    let scratch = stage::scratch();
    let script = r#"echo "bad token $API_TOKEN for $ACCOUNT_ID, $PLAIN" >&2; exit 3"#;
    let gateway = stage::start(&json!({"mcp_servers": {
        "good": stdio(&[]),
        "bad": {"command": ["/bin/sh", "-c", script], "env": {
            "API_TOKEN": "canary-token-1", "ACCOUNT_ID": "canary-account", "PLAIN": "four",
        }},
    }}));

    let reason = stage::wait_for_unavailable(&gateway, "bad").await;

    let expected = "connecting: the process ended before the handshake was done (exit status: 3); \
                    its last words: bad token [private] for [private], four";
    assert_eq!(reason, expected);
    let api = ApiClient::new(gateway.url());
    let logs = api.get("/api/servers/bad/logs").await.body_text();
    let shown = gateway.run(&["status"]);
    let everything = [
        api.get("/api/status").await.body_text(),
        api.get("/api/servers/bad").await.body_text(),
        logs.clone(),
        gateway.log(),
        shown.stdout,
        shown.stderr,
    ];
    assert!(logs.contains("bad token [private]"), "{logs}");
    for text in everything {
        assert!(!text.contains("canary"), "{text}");
    }
    for (path, bytes) in gateway.state_files() {
        assert!(
            !String::from_utf8_lossy(&bytes).contains("canary"),
            "{}",
            path.display()
        );
    }
    drop(scratch);
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_after_its_connect_timeout_and_delays_nobody() {
    let scratch = stage::scratch();
    let web = FakeServer::http(&scratch, "web", &["--no-answer"]);
    let gateway = stage::start(&json!({"first_list_wait_s": 1, "mcp_servers": {
        "good": stdio(&[]),
        "mute": stdio_with(&["--no-answer"], &json!({"connect_timeout": 2})),
        "web": {"url": web.url(), "connect_timeout": 2},
        "hung": stdio(&["--no-answer"]),
    }}));
    let began = Instant::now();

    let client = ModernClient::new(gateway.url());
    let names = client.tool_names().await;
    let answer = client.call("good__echo", r#"{"text":"hello"}"#).await;

    // Far below the minute that `hung` may take.
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    assert!(names.contains(&"good__echo".to_owned()));
    assert_eq!(answer.text(), "hello");
    for name in ["mute", "web"] {
        let reason = stage::eventually_reason(&gateway, name).await;
        assert_eq!(reason, "no answer within 2 s");
    }
    let list = client.request("tools/list", "{}").await.result();
    assert_eq!(list["ttlMs"], 0);
    let unavailable = &list["_meta"]["genlock/unavailable"];
    assert_eq!(
        unavailable[0],
        json!({"name": "hung", "reason": "connecting"})
    );
    assert_eq!(unavailable.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn http_upstreams_that_are_no_mcp_are_named_with_what_they_answer() {
    let scratch = stage::scratch();
    let with_status = |code: &str| FakeServer::http(&scratch, code, &["--http-status", code]);
    let servers = ["200", "404", "500"].map(with_status);
    let locked = FakeServer::http(&scratch, "locked", &["--require-bearer", "key"]);
    // A port that was free a moment ago, and is nobody's.
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let gateway = stage::start(&json!({"mcp_servers": {
        "good": stdio(&[]),
        "page": {"url": servers[0].url()},
        "nothing": {"url": servers[1].url()},
        "broken": {"url": servers[2].url()},
        "locked": {"url": locked.url()},
        "closed": {"url": format!("http://{closed}/mcp")},
        "opened": {"url": locked.url(), "headers": {"Authorization": "Bearer key"}},
    }}));
    stage::wait_for_state(&gateway, "opened", "ready").await;

    let expected = [
        (
            "page",
            "parked",
            "initialize: not an MCP answer: invalid JSON at byte 0",
        ),
        (
            "nothing",
            "parked",
            "initialize: the upstream answered with HTTP status 404 Not Found",
        ),
        (
            "broken",
            "connecting",
            "initialize: the upstream answered with HTTP status 500 Internal Server Error",
        ),
        (
            "locked",
            "parked",
            "server/discover: the upstream refused the credentials: HTTP status 401 Unauthorized",
        ),
        (
            "closed",
            "connecting",
            "server/discover: connect: Connection refused (os error 111)",
        ),
    ];
    for (name, state, reason) in expected {
        let found = stage::eventually_reason(&gateway, name).await;
        let server = stage::wait_for_state(&gateway, name, state).await;
        assert_eq!((name, found.as_str()), (name, reason), "{server}");
    }
    let answer = ModernClient::new(gateway.url())
        .call("good__echo", r#"{"text":"hello"}"#)
        .await;
    assert_eq!(answer.text(), "hello");
}
