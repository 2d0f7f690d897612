//! Servers that answer too much.

use genlock_testkit::{
    clients::ModernClient,
    harness::{Control, FakeServer},
};
use serde_json::{Value, json};

use super::{bare, refused};
use crate::stage::{self, stdio, stdio_with};

/// The most that a server's answer may be, besides the envelope that a line may have.
const LIMIT: usize = 20_000;

fn too_large(server: &str) -> Value {
    let text = format!(
        "server `{server}`: the answer is larger than {} bytes",
        LIMIT + 64 * 1024
    );
    refused(&text, "response_too_large", true)
}

#[tokio::test]
async fn an_answer_that_is_too_large_fails_its_call_and_no_other() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let (json_server, sse_server) = (
        FakeServer::http(&scratch, "json", &["--control", control.arg()]),
        FakeServer::http(&scratch, "sse", &["--sse", "--control", control.arg()]),
    );
    let gateway = stage::start(
        &json!({"execution": {"max_response_bytes": LIMIT}, "mcp_servers": {
            "pipe": stdio(&["--control", control.arg()]),
            "web": {"url": json_server.url()},
            "stream": {"url": sse_server.url()},
            "wide": stdio_with(&[], &json!({"max_response_bytes": 10_000_000})),
        }}),
    );
    let client = ModernClient::new(gateway.url());
    for server in ["pipe", "web", "stream"] {
        let (tool, key) = (
            format!("{server}__hold"),
            json!({"key": server}).to_string(),
        );
        let meanwhile = async {
            control.wait_held(server).await;
            let big = client
                .call(&format!("{server}__big"), r#"{"bytes":1000000}"#)
                .await;
            assert_eq!(bare(&big), too_large(server));
            control.release(server);
        };
        let (held, ()) = tokio::join!(client.call(&tool, &key), meanwhile);
        assert_eq!(held.text(), "released");
        let fits = client
            .call(
                &format!("{server}__big"),
                &format!(r#"{{"bytes":{LIMIT}}}"#),
            )
            .await;
        assert_eq!(fits.text().len(), LIMIT);
    }
    let wide = client.call("wide__big", r#"{"bytes":1000000}"#).await;
    assert_eq!(wide.text().len(), 1_000_000);
}

#[tokio::test]
async fn an_answer_without_an_end_costs_no_memory_and_the_server_serves_on() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let web = FakeServer::http(&scratch, "web", &["--endless-line", "--era", "modern"]);
    let gateway = stage::start(
        &json!({"execution": {"max_response_bytes": LIMIT}, "mcp_servers": {
            "pipe": stdio(&["--endless-line", "--control", control.arg()]),
            "web": {"url": web.url()},
            "good": stdio(&[]),
        }}),
    );
    let client = ModernClient::new(gateway.url());
    let endless = async {
        control.wait_held("k").await;
        client.call("pipe__echo", "{}").await
    };

    let (held, pipe, web) = tokio::join!(
        client.call("pipe__hold", r#"{"key":"k"}"#),
        endless,
        client.call("web__echo", "{}"),
    );

    assert_eq!(bare(&web), too_large("web"));
    // Nobody can tell whose answer it was.
    let text = format!(
        "server `pipe`: an answer to some call is larger than {} bytes",
        LIMIT + 64 * 1024
    );
    for answer in [held, pipe] {
        assert_eq!(bare(&answer), refused(&text, "outcome_unknown", true));
    }
    assert_eq!(
        client.call("good__echo", r#"{"text":"on"}"#).await.text(),
        "on"
    );
    let peak = stage::peak_kib(gateway.pid());
    assert!(peak < 100 * 1024, "{peak} KiB");
}
