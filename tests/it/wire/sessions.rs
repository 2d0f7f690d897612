//! Sessions, their streams, and batches.

use genlock_testkit::clients::{ApiClient, LEGACY, LegacyClient, ModernClient};
use http::Method;

use super::{refusal, scene, told};
use crate::stage::{self};

type Headers<'a> = &'a [(&'a str, &'a str)];

#[tokio::test]
async fn a_session_is_required_known_and_ends_when_its_client_says_so() {
    let gateway = scene();
    for version in LEGACY {
        let client = LegacyClient::connect(gateway.url(), version).await;
        let stream = client.listen().await;
        let none = client
            .clone()
            .with_session(None)
            .request("tools/list", "{}")
            .await;
        let unknown = client
            .clone()
            .with_session(Some("made-up"))
            .request("tools/list", "{}")
            .await;

        let ended = client.delete().await;

        let again = "begin with `initialize`, or send the metadata of 2026-07-28";
        let message = format!("`Mcp-Session-Id` is required: {again}");
        assert_eq!(refusal(&none), told(400, -32600, &message));
        let gone = told(
            404,
            -32600,
            "no such session: begin again with `initialize`",
        );
        assert_eq!(refusal(&unknown), gone);
        assert_eq!((ended.status, ended.body_text()), (204, String::new()));
        stream.transcript().wait_for_end().await;
        assert_eq!(refusal(&client.request("tools/list", "{}").await), gone);
        assert_eq!(
            client
                .notify("notifications/initialized", "{}")
                .await
                .status,
            404
        );
        assert_eq!(
            refusal(&client.delete().await),
            told(404, -32600, "no such session")
        );
    }
    let sessions = stage::status(&gateway).await["sessions"].clone();
    assert_eq!(sessions, 0);
}

#[tokio::test]
async fn only_a_session_has_a_stream_and_only_post_is_for_the_modern_era() {
    let gateway = scene();
    let api = ApiClient::new(gateway.url());
    let events = ("accept", "text/event-stream");
    let session = LegacyClient::connect(gateway.url(), LEGACY[0])
        .await
        .session()
        .unwrap()
        .to_owned();
    let session = ("mcp-session-id", session.as_str());
    let modern = ("mcp-protocol-version", "2026-07-28");
    let cases: [(Method, Headers<'_>, u16, Option<&str>); 8] = [
        (Method::GET, &[events], 405, Some("POST")),
        (Method::GET, &[events, modern], 405, Some("POST")),
        (Method::GET, &[events, modern, session], 405, Some("POST")),
        (Method::DELETE, &[modern, session], 405, Some("POST")),
        (Method::DELETE, &[], 400, None),
        (
            Method::GET,
            &[events, ("mcp-session-id", "made-up")],
            404,
            None,
        ),
        (
            Method::GET,
            &[session, ("accept", "application/json")],
            406,
            None,
        ),
        (Method::PUT, &[session], 405, Some("DELETE, GET, POST")),
    ];
    for (method, headers, status, allow) in cases {
        let answer = api.request(method.clone(), "/mcp", headers, "").await;
        let sorted = |allow: Option<&str>| {
            allow.map(|text| {
                let mut words: Vec<_> = text.split(',').map(str::trim).map(str::to_owned).collect();
                words.sort();
                words
            })
        };
        assert_eq!(
            (answer.status, sorted(answer.header("allow"))),
            (status, sorted(allow)),
            "{method} {headers:?}"
        );
    }
}

#[tokio::test]
async fn a_second_stream_of_a_session_ends_the_first() {
    let gateway = scene();
    let client = LegacyClient::connect(gateway.url(), LEGACY[0]).await;
    let first = client.listen().await;

    let second = client.listen().await;

    first.transcript().wait_for_end().await;
    assert!(!second.transcript().has_ended());
}

#[tokio::test]
async fn batches_are_answered_in_the_one_revision_that_has_them() {
    let gateway = scene();
    let batch = concat!(
        r#"[{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"one__echo","arguments":{"text":"1"}}},"#,
        r#"{"jsonrpc":"2.0","method":"notifications/unknown"},"#,
        r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"},"#,
        r#"7,"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"nothing"}]"#,
    );
    let notes = r#"[{"jsonrpc":"2.0","method":"notifications/unknown"}]"#;
    let client = LegacyClient::connect(gateway.url(), "2025-03-26").await;

    let answers = client.post(batch.to_owned()).await;
    let noted = client.post(notes.to_owned()).await;
    let empty = client.post("[]".to_owned()).await;

    assert_eq!(answers.status, 200);
    let expected = concat!(
        r#"[{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"1"}],"#,
        r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"1.0.0"}}}},"#,
        r#"{"jsonrpc":"2.0","id":1.0,"result":{}},"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message is an object"}},"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"method not found: nothing"}}]"#,
    );
    assert_eq!(answers.body_text(), expected);
    assert_eq!((noted.status, noted.body_text()), (202, String::new()));
    assert_eq!((empty.status, empty.error().code), (400, -32600));
    for version in ["2025-11-25", "2025-06-18"] {
        let client = LegacyClient::connect(gateway.url(), version).await;
        let refused = refusal(&client.post(batch.to_owned()).await);
        assert_eq!(
            refused,
            told(400, -32600, "this protocol version has no batches")
        );
    }
    let modern = ModernClient::new(gateway.url())
        .prepare("tools/list", "{}")
        .body(batch)
        .send()
        .await;
    assert_eq!((modern.status, modern.error().code), (400, -32600));
}
