//! The modern era: headers against the body, metadata, methods.

use genlock_testkit::{
    clients::{LEGACY, LegacyClient, ModernClient, Request},
    header_value,
};
use serde_json::json;

use super::{SERVED, key, refusal, scene, told, without_key};
use crate::stage::Party;

#[tokio::test]
async fn headers_that_are_missing_differ_or_stand_twice_are_refused() {
    let gateway = scene();
    let client = ModernClient::new(gateway.url());
    let call = || client.prepare_call("one__echo", r#"{"text":"x"}"#);
    let cases: [(Request, &str); 10] = [
        (
            call().without_header("mcp-protocol-version"),
            "header `mcp-protocol-version` is required",
        ),
        (
            call().header("mcp-protocol-version", "2025-11-25"),
            "header `mcp-protocol-version` differs from `_meta`",
        ),
        (
            call().extra_header("mcp-protocol-version", "2026-07-28"),
            "header `mcp-protocol-version` is repeated",
        ),
        (
            call().without_header("mcp-method"),
            "header `mcp-method` is required",
        ),
        (
            call().header("mcp-method", "tools/list"),
            "header `mcp-method` differs from the body",
        ),
        (
            call().extra_header("mcp-method", "tools/call"),
            "header `mcp-method` is repeated",
        ),
        (
            call().without_header("mcp-name"),
            "header `mcp-name` is required",
        ),
        (
            call().header("mcp-name", "one__add"),
            "header `mcp-name` differs from the body",
        ),
        (
            call().extra_header("mcp-name", "one__echo"),
            "header `mcp-name` is repeated",
        ),
        (
            call().header("mcp-name", "=?base64?*?="),
            "header `mcp-name` is malformed",
        ),
    ];
    for (request, message) in cases {
        assert_eq!(refusal(&request.send().await), told(400, -32020, message));
    }

    let encoded = call()
        .header("mcp-name", "=?base64?b25lX19lY2hv?=")
        .send()
        .await;
    let padded = call().header("mcp-method", "  tools/call\t").send().await;
    assert_eq!(
        (encoded.text(), padded.text()),
        ("x".to_owned(), "x".to_owned())
    );
}

#[tokio::test]
async fn a_revision_that_is_not_served_is_refused_with_those_that_are() {
    let gateway = scene();
    let client = ModernClient::new(gateway.url());
    let expected = json!({"supported": SERVED, "requested": "2031-01-01"});

    let modern = client
        .prepare("tools/list", "{}")
        .header("mcp-protocol-version", "2031-01-01")
        .meta(&key("protocolVersion"), "\"2031-01-01\"")
        .send()
        .await;
    let legacy = LegacyClient::connect(gateway.url(), LEGACY[1])
        .await
        .with_version("2031-01-01");
    let legacy = legacy.request("tools/list", "{}").await;

    for answer in [modern, legacy] {
        assert_eq!((answer.status, answer.error().code), (400, -32022));
        assert_eq!(answer.error().data, Some(expected.clone()));
    }
}

#[tokio::test]
async fn a_request_without_the_required_metadata_is_refused() {
    let gateway = scene();
    let client = ModernClient::new(gateway.url());
    let list = || client.prepare("tools/list", "{}");
    let (version, capabilities) = (key("protocolVersion"), key("clientCapabilities"));
    let bare = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let cases = [
        (list().without_meta(&version), "protocolVersion"),
        (list().meta(&version, "7"), "protocolVersion"),
        (list().body(bare), "protocolVersion"),
        (list().without_meta(&capabilities), "clientCapabilities"),
        (list().meta(&capabilities, "[]"), "clientCapabilities"),
        (list().meta(&capabilities, "null"), "clientCapabilities"),
    ];
    for (request, name) in cases {
        let shown = format!("{request:?}");
        let answer = request.send().await;
        assert_eq!(
            (answer.status, answer.error().code),
            (400, -32602),
            "{shown}"
        );
        assert!(
            answer.error().message.contains(name),
            "{}: {shown}",
            without_key(name)
        );
    }
    // The client's name is for people only.
    let nameless = list().without_meta(&key("clientInfo")).send().await;
    assert!(nameless.is_result());
}

#[tokio::test]
async fn methods_that_are_not_served_are_not_found_in_the_way_of_each_era() {
    let gateway = scene();
    for (client, party) in Party::one_of_each(&gateway).await {
        for method in [
            "nothing/here",
            "prompts/list/x",
            "tools/call/x",
            "a\u{1b}[2Jb",
        ] {
            let answer = match &party {
                // The escape stands for itself in the body and not at all in a header.
                Party::Modern(modern) if method.contains('\u{1b}') => {
                    let request = modern.prepare("x", "{}");
                    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": {
                        key("protocolVersion"): SERVED[0], key("clientCapabilities"): {},
                    }}});
                    let header = header_value::encode(method);
                    request
                        .header("mcp-method", &header)
                        .body(&body.to_string())
                        .send()
                        .await
                }
                Party::Modern(_) | Party::Legacy(_) | Party::Pipe(_) => {
                    party.request(method, "{}").await
                }
            };
            let status = if client == "modern over HTTP" {
                404
            } else {
                200
            };
            let shown = method.replace('\u{1b}', "\\u{1b}");
            let message = format!("method not found: {shown}");
            assert_eq!(refusal(&answer), told(status, -32601, &message), "{client}");
        }
    }
    let modern = ModernClient::new(gateway.url());
    assert_eq!(modern.request("ping", "{}").await.status, 404);
    let legacy = LegacyClient::connect(gateway.url(), LEGACY[0]).await;
    assert_eq!(legacy.request("ping", "{}").await.result(), json!({}));
    assert_eq!(
        legacy.request("server/discover", "{}").await.error().code,
        -32601
    );
}

#[tokio::test]
async fn a_tool_that_is_not_there_and_wrong_parameters_are_invalid_in_every_era() {
    let gateway = scene();
    let cases = [
        (r#"{"name":"one__nothing"}"#, "unknown tool: one__nothing"),
        (r#"{"name":"two__echo"}"#, "unknown tool: two__echo"),
        (r#"{"name":"echo"}"#, "unknown tool: echo"),
        (
            r#"{"name":"one__echo","arguments":[]}"#,
            "`arguments` must be an object",
        ),
        (
            r#"{"name":"one__echo","arguments":null}"#,
            "`arguments` must be an object",
        ),
        (r#"{"name":7}"#, "`name` must be a string"),
        ("{}", "`name` must be a string"),
    ];
    for (client, party) in Party::one_of_each(&gateway).await {
        for (params, message) in cases {
            let answer = party.request("tools/call", params).await;
            assert_eq!(
                refusal(&answer),
                told(200, -32602, message),
                "{client} {params}"
            );
        }
    }
}

#[tokio::test]
async fn modern_traffic_has_no_session_and_its_notifications_are_taken() {
    let gateway = scene();
    let client = ModernClient::new(gateway.url());

    let answer = client
        .prepare("tools/list", "{}")
        .header("mcp-session-id", "made-up")
        .send()
        .await;
    let noted = client
        .prepare("notifications/cancelled", "{}")
        .without_id()
        .send()
        .await;
    let unknown = client
        .prepare("notifications/unknown", "{}")
        .without_id()
        .send()
        .await;

    assert_eq!(
        (answer.status, answer.header("mcp-session-id")),
        (200, None)
    );
    for taken in [noted, unknown] {
        assert_eq!((taken.status, taken.body_text()), (202, String::new()));
    }
}
