//! `/mcp/{session_id}`: the pinned view of a session.

use genlock_testkit::{
    clients::{ControlClient, LegacyClient, ModernClient},
    harness::{GenlockProcess, Scratch},
};
use serde_json::{Value, json};

use crate::stage::{self, stdio, wait_ready};

fn config(servers: &Value) -> Value {
    json!({"config_reload": {"enabled": false}, "mcp_servers": servers})
}

/// A gateway over two servers, and the owner's connection to it.
async fn two() -> (GenlockProcess, ControlClient) {
    let servers = json!({"one": stdio(&["--tool-name", "first"]), "two": stdio(&[])});
    let gateway = stage::start(&config(&servers));
    wait_ready(&gateway).await;
    let control = ControlClient::connect(&gateway.state_dir().join("control.sock"))
        .await
        .unwrap();
    (gateway, control)
}

async fn ask(control: &ControlClient, method: &str, params: Value) -> Value {
    control.request(method, &params.to_string()).await.result()
}

/// A session in a directory that exists: its id, and what its view is opened with.
async fn session(
    control: &ControlClient,
    scratch: &Scratch,
    request: &str,
) -> (Value, String, String) {
    let params = json!({"request_id": request, "source": "cli", "cwd": scratch.path()});
    let created = ask(control, "session.create", params).await;
    let text = |name: &str| created[name].as_str().unwrap().to_owned();
    (
        created["session_id"].clone(),
        text("mcp_url"),
        text("token"),
    )
}

fn client(url: &str, token: &str) -> ModernClient {
    ModernClient::new(url).with_header("authorization", &format!("Bearer {token}"))
}

/// The servers whose tools a view shows.
async fn shown(client: &ModernClient) -> Vec<String> {
    let names = client.tool_names().await;
    let servers = names.iter().filter_map(|name| name.split_once("__"));
    let mut servers: Vec<String> = servers.map(|(server, _)| server.to_owned()).collect();
    servers.dedup();
    servers
}

#[tokio::test]
async fn a_view_stays_where_its_session_is_and_moves_only_with_it() {
    let scratch = stage::scratch();
    let (gateway, control) = two().await;
    let (id, url, token) = session(&control, &scratch, "a").await;
    let (pinned, head) = (client(&url, &token), ModernClient::new(gateway.url()));
    assert_eq!(shown(&pinned).await, ["one", "two"]);

    let servers = json!({"one": stdio(&["--tool-name", "second"]), "three": stdio(&[])});
    gateway.write_config(&config(&servers).to_string());
    ask(&control, "reload.mcp", json!({"confirm": true})).await;

    assert_eq!(shown(&head).await, ["one", "three"]);
    assert_eq!(shown(&pinned).await, ["one", "two"]);
    // The definitions that are not in force any more run for this view alone.
    let (first, echo) = (
        pinned.call("one__first", "{}").await,
        pinned.call("two__echo", r#"{"text":"still"}"#).await,
    );
    assert!(!first.is_tool_error() && echo.text() == "still");
    assert_eq!(pinned.call("three__echo", "{}").await.error().code, -32602);

    let moved = ask(&control, "session.resume", json!({"session_id": id})).await;

    assert_eq!(moved["session"], "applied");
    assert_eq!(shown(&pinned).await, ["one", "three"]);
    assert!(!pinned.call("one__second", "{}").await.is_tool_error());
    assert_eq!(pinned.call("two__echo", "{}").await.error().code, -32602);
}

#[tokio::test]
async fn a_view_is_opened_by_its_own_token_alone() {
    let scratch = stage::scratch();
    let (gateway, control) = two().await;
    let (id, url, token) = session(&control, &scratch, "a").await;
    let (_, other_url, other) = session(&control, &scratch, "b").await;
    let nowhere = format!("{}/0123456789abcdef0123456789abcdef", gateway.url());
    let retried = session(&control, &scratch, "a").await;
    let status = async |url: &str, token: &str| {
        let answer = client(url, token).request("tools/list", "{}").await;
        (answer.status, answer.body_text().contains("unauthorized"))
    };
    let refused = (401, true);

    assert_eq!(status(&url, &token).await, (200, false));
    assert_eq!(status(&url, &other).await, refused);
    assert_eq!(status(&other_url, &token).await, refused);
    assert_eq!(status(&nowhere, &token).await, refused);
    assert_eq!(status(&url, "").await, refused);
    let bare = ModernClient::new(&url).request("tools/list", "{}").await;
    assert_eq!(bare.status, 401);
    let challenge = bare.headers.get("www-authenticate").unwrap();
    assert_eq!(challenge, "Bearer realm=\"genlock\"");
    assert_eq!((&retried.1, &retried.2), (&url, &token));

    let rotated = ask(&control, "session.rotate_token", json!({"session_id": id})).await;
    let fresh = rotated["token"].as_str().unwrap();
    assert_eq!(status(&url, &token).await, refused);
    assert_eq!(status(&url, fresh).await, (200, false));

    ask(&control, "session.close", json!({"session_id": id})).await;
    assert_eq!(status(&url, fresh).await, refused);
}

#[tokio::test]
async fn a_client_with_a_handshake_hears_that_its_view_moved() {
    let scratch = stage::scratch();
    let (gateway, control) = two().await;
    let (id, url, token) = session(&control, &scratch, "a").await;
    let bearer = format!("Bearer {token}");
    let client =
        LegacyClient::connect_with(&url, "2025-11-25", "{}", &[("authorization", &bearer)]).await;
    let stream = client.listen().await;
    gateway.write_config(&config(&json!({"one": stdio(&[])})).to_string());

    let moved = ask(
        &control,
        "reload.mcp",
        json!({"confirm": true, "session_id": id}),
    )
    .await;

    assert_eq!(moved["session"], "applied");
    let changed = "notifications/tools/list_changed";
    stream.transcript().wait_for(changed).await;
    let names = client.tool_names().await;
    assert!(
        names.iter().all(|name| !name.starts_with("two__")),
        "{names:?}"
    );
    assert!(
        names.iter().all(|name| !name.contains("reload")),
        "{names:?}"
    );
}
