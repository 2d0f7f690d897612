//! Both eras over Streamable HTTP.

use genlock_testkit::{
    clients::{ApiClient, LEGACY, LegacyClient, META, MODERN, ModernClient},
    harness::{Control, DEADLINE, FakeServer, Scratch, eventually_async},
    raw,
};
use http::Method;

#[tokio::test]
async fn raw_answers_with_the_same_bytes_in_both_eras_as_json_and_as_events() {
    let scratch = Scratch::new();
    for flags in [&[][..], &["--sse"]] {
        let server = FakeServer::http(&scratch, "fake", flags);
        let modern = ModernClient::new(server.url());
        let legacy = LegacyClient::connect(server.url(), LEGACY[0]).await;

        for answer in [
            modern.call("raw", raw::ARGUMENTS).await,
            legacy.call("raw", raw::ARGUMENTS).await,
        ] {
            assert_eq!(answer.text(), raw::ARGUMENTS);
            assert_eq!(answer.member_raw("structuredContent"), Some(raw::ARGUMENTS));
            assert!(answer.body_text().contains(raw::RESULT_FIELDS));
        }
    }
}

#[tokio::test]
async fn modern_headers_must_match_the_body() {
    let scratch = Scratch::new();
    let server = FakeServer::http(&scratch, "fake", &["--schema-header"]);
    let client = ModernClient::new(server.url());
    let echo = || client.prepare_call("echo", r#"{"text":"x"}"#);
    let routed = || client.prepare_call("routed", r#"{"region":"é"}"#);

    let refused = [
        echo().without_header("mcp-method"),
        echo().header("mcp-method", "tools/list"),
        echo().without_header("mcp-name"),
        echo().header("mcp-name", "add"),
        echo().extra_header("mcp-name", "echo"),
        echo().without_header("mcp-protocol-version"),
        echo().header("mcp-protocol-version", "2025-11-25"),
        routed(),
    ];
    for request in refused {
        let answer = request.clone().send().await;
        assert_eq!(
            (answer.status, answer.error().code),
            (400, -32020),
            "{request:?}"
        );
    }

    assert_eq!(
        echo()
            .header("Mcp-Name", "=?base64?ZWNobw==?=")
            .send()
            .await
            .text(),
        "x"
    );
    assert_eq!(
        routed()
            .header("Mcp-Param-Region", "=?base64?w6k=?=")
            .send()
            .await
            .structured()["argument"],
        "é"
    );
    let no_capabilities = echo()
        .without_meta(&format!("{META}clientCapabilities"))
        .send()
        .await;
    assert_eq!(
        (no_capabilities.status, no_capabilities.error().code),
        (400, -32602)
    );
    let unknown = client.request("no/such", "{}").await;
    assert_eq!((unknown.status, unknown.error().code), (404, -32601));
    assert_eq!(
        client.request("server/discover", "{}").await.result()["supportedVersions"][0],
        MODERN
    );
}

#[tokio::test]
async fn legacy_sessions_are_asked_for_and_end() {
    let scratch = Scratch::new();
    let control = Control::new(&scratch, "control");
    let server = FakeServer::http(&scratch, "fake", &["--control", control.arg()]);
    let client = LegacyClient::connect(server.url(), "2025-06-18").await;

    assert_eq!(
        client
            .clone()
            .with_session(None)
            .request("tools/list", "{}")
            .await
            .status,
        400
    );
    assert_eq!(
        client
            .clone()
            .with_session(Some("nobody"))
            .request("tools/list", "{}")
            .await
            .status,
        404
    );
    assert_eq!(
        client
            .clone()
            .with_version("2025-11-25")
            .request("tools/list", "{}")
            .await
            .status,
        400
    );
    assert!(client.request("tools/list", "{}").await.is_result());
    assert_eq!(client.request("no/such", "{}").await.status, 200);

    assert_eq!(client.delete().await.status, 200);
    assert_eq!(client.request("tools/list", "{}").await.status, 404);

    let client = LegacyClient::connect(server.url(), "2025-03-26").await;
    control.pulse("drop_sessions").await;
    assert_eq!(client.request("tools/list", "{}").await.status, 404);
}

#[tokio::test]
async fn announcements_reach_the_streams_of_both_eras() {
    let scratch = Scratch::new();
    let control = Control::new(&scratch, "control");
    let server = FakeServer::http(&scratch, "fake", &["--control", control.arg()]);
    let legacy = LegacyClient::connect(server.url(), LEGACY[0])
        .await
        .listen()
        .await;
    let modern = ModernClient::new(server.url());
    let tools = modern.listen(r#"{"toolsListChanged":true}"#).await;
    let note = modern
        .listen(r#"{"resourceSubscriptions":["note://1"]}"#)
        .await;

    control.pulse("announce").await;
    control.updated("note://1").await;

    legacy
        .transcript()
        .wait_for("notifications/tools/list_changed")
        .await;
    let tagged = tools
        .transcript()
        .wait_for("notifications/tools/list_changed")
        .await;
    assert!(tagged.contains(&format!(r#""{META}subscriptionId":{}"#, tools.id)));
    note.transcript()
        .wait_for("notifications/resources/updated")
        .await;
    assert!(
        !note
            .transcript()
            .methods()
            .contains(&"notifications/tools/list_changed".to_owned())
    );

    control.pulse("end_listens").await;
    assert_eq!(tools.finish().await.result()["resultType"], "complete");
}

#[tokio::test]
async fn a_modern_client_cancels_by_going_away() {
    let scratch = Scratch::new();
    let server = FakeServer::http(&scratch, "fake", &["--sse"]);
    let client = ModernClient::new(server.url());

    let pending = client
        .prepare_call("hang", "{}")
        .id(r#""the one""#)
        .open()
        .await;
    drop(pending);

    let known = eventually_async(DEADLINE, "the call is cancelled", async || {
        let known = client.call("cancelled", "{}").await.structured();
        (known["count"] == 1).then_some(known)
    })
    .await;
    assert_eq!(known["ids"][0], "the one");
}

#[tokio::test]
async fn a_legacy_client_cancels_by_saying_so() {
    let scratch = Scratch::new();
    let control = Control::new(&scratch, "control");
    let server = FakeServer::http(&scratch, "fake", &["--control", control.arg()]);
    let client = LegacyClient::connect(server.url(), LEGACY[0]).await;
    let id = client.mint_id();

    let params = r#"{"name":"hold","arguments":{"key":"k"}}"#;
    let (answer, ()) = tokio::join!(client.start(&id, "tools/call", params), async {
        control.wait_held("k").await;
        client.cancel(&id).await;
    });

    assert_eq!(answer.unwrap().message, None);
    assert_eq!(
        client.call("cancelled", "{}").await.structured()["count"],
        1
    );
}

#[tokio::test]
async fn asking_back_takes_two_rounds() {
    let scratch = Scratch::new();
    let server = FakeServer::http(&scratch, "fake", &[]);
    let client = ModernClient::new(server.url());

    let unable = client.call("ask", "{}").await;
    assert_eq!((unable.status, unable.error().code), (400, -32021));

    let able = client.prepare_call("ask", "{}");
    let able = able.meta(
        &format!("{META}clientCapabilities"),
        r#"{"elicitation":{}}"#,
    );
    let asked = able.send().await;
    assert_eq!(asked.result()["resultType"], "input_required");
    let state = asked.member_raw("requestState").unwrap().to_owned();

    let responses = r#"{"word":{"action":"accept","content":{"word":"genlock"}}}"#;
    let again = format!(
        r#"{{"name":"ask","arguments":{{}},"inputResponses":{responses},"requestState":{state}}}"#
    );
    let done = client.request("tools/call", &again).await;
    assert_eq!(done.result()["resultType"], "complete");
    assert_eq!(
        done.structured()["inputResponses"]["word"]["content"]["word"],
        "genlock"
    );
    assert_eq!(done.structured()["requestState"], "fake state A");
}

#[tokio::test]
async fn refusals_of_the_whole_server_are_plain() {
    let scratch = Scratch::new();
    let broken = FakeServer::http(&scratch, "broken", &["--http-status", "503"]);
    let answer = ModernClient::new(broken.url())
        .request("tools/list", "{}")
        .await;
    assert_eq!((answer.status, answer.message.as_deref()), (503, None));
    assert!(answer.body_text().contains("<h1>503</h1>"));

    let locked = FakeServer::http(&scratch, "locked", &["--require-bearer", "key"]);
    assert_eq!(
        ModernClient::new(locked.url())
            .request("tools/list", "{}")
            .await
            .status,
        401
    );
    let client = ModernClient::new(locked.url()).with_header("authorization", "Bearer key");
    assert_eq!(
        client.call("headers", "{}").await.structured()["authorization"],
        "Bearer key"
    );
}

#[tokio::test]
async fn a_legacy_server_asks_in_the_middle_of_a_call() {
    let scratch = Scratch::new();
    let server = FakeServer::http(&scratch, "fake", &[]);
    let able =
        LegacyClient::connect_with(server.url(), LEGACY[0], r#"{"elicitation":{}}"#, &[]).await;
    let unable = LegacyClient::connect(server.url(), LEGACY[0]).await;

    let call = able
        .open("tools/call", r#"{"name":"ask","arguments":{}}"#)
        .await;
    let question = call.transcript().wait_for("elicitation/create").await;
    let id = serde_json::from_str::<serde_json::Value>(&question).unwrap()["id"].to_string();
    let accepted = able
        .respond(&id, r#"{"action":"accept","content":{"word":"genlock"}}"#)
        .await;

    assert_eq!(accepted.status, 202);
    assert_eq!(
        call.finish().await.structured()["response"]["content"]["word"],
        "genlock"
    );
    assert!(unable.call("ask", "{}").await.is_tool_error());
}

#[tokio::test]
async fn the_old_transport_answers_on_its_stream() {
    let scratch = Scratch::new();
    let server = FakeServer::http(&scratch, "fake", &[]);
    let api = ApiClient::new(server.url());
    let stream = api.open(Method::GET, "/sse", &[], "").await.unwrap();
    let route = stream
        .transcript()
        .find(DEADLINE, "endpoint", |data| data.starts_with("/messages"))
        .await
        .unwrap();

    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}"#;
    assert_eq!(api.post(&route, hello).await.status, 202);
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"old"}}}"#;
    assert_eq!(api.post(&route, call).await.status, 202);

    let answer = stream
        .transcript()
        .find(DEADLINE, "answer", |data| data.contains(r#""id":2"#))
        .await
        .unwrap();
    assert!(answer.contains(r#""text":"old""#), "{answer}");
    assert_eq!(api.post("/messages?session=nobody", call).await.status, 404);
}
