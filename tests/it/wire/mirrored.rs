//! Headers that mirror arguments.

use genlock_testkit::{
    clients::ModernClient,
    harness::{FakeServer, GenlockProcess},
    header_value,
};
use serde_json::{Value, json};

use crate::stage::{self, Party, stdio};

/// The servers with a tool whose argument `region` travels in a header as well.
fn routed(scratch: &genlock_testkit::harness::Scratch) -> (GenlockProcess, [FakeServer; 2]) {
    let web = ["modern", "legacy"]
        .map(|era| FakeServer::http(scratch, era, &["--schema-header", "--era", era]));
    let gateway = stage::start(&json!({"mcp_servers": {
        "new": {"url": web[0].url()}, "old": {"url": web[1].url()}, "pipe": stdio(&["--schema-header"]),
    }}));
    (gateway, web)
}

#[tokio::test]
async fn a_mirrored_argument_is_checked_and_sent_on_in_a_header() {
    let scratch = stage::scratch();
    let (gateway, _web) = routed(&scratch);
    let client = ModernClient::new(gateway.url());
    for (server, header_sent) in [("new", true), ("old", false), ("pipe", false)] {
        for region in ["eu", "is land", " padded", "日本", "=?base64?eA==?=", ""] {
            let arguments = json!({"region": region, "note": "x"}).to_string();
            let header = header_value::encode(region);
            let call = client.prepare_call(&format!("{server}__routed"), &arguments);

            let found = call
                .header("mcp-param-region", &header)
                .send()
                .await
                .structured();

            let sent = if header_sent {
                json!(header)
            } else {
                Value::Null
            };
            assert_eq!(
                (&found["argument"], &found["header"]),
                (&json!(region), &sent),
                "{server}"
            );
        }
    }
}

#[tokio::test]
async fn a_mirrored_argument_that_its_header_does_not_agree_with_is_refused() {
    let scratch = stage::scratch();
    let (gateway, _web) = routed(&scratch);
    let client = ModernClient::new(gateway.url());
    let call = |arguments: &str| client.prepare_call("new__routed", arguments);
    let eu = r#"{"region":"eu"}"#;
    let refused = [
        call(eu),
        call(eu).header("mcp-param-region", "us"),
        call(eu).header("mcp-param-region", "EU"),
        call(eu)
            .header("mcp-param-region", "eu")
            .extra_header("mcp-param-region", "eu"),
        call(eu).header("mcp-param-region", "=?base64?*?="),
        call("{}").header("mcp-param-region", "eu"),
        call(r#"{"region":null}"#).header("mcp-param-region", "eu"),
    ];
    for request in refused {
        let shown = format!("{request:?}");
        let answer = request.send().await;
        assert_eq!(
            (answer.status, answer.error().code),
            (400, -32020),
            "{shown}"
        );
        assert!(
            answer.error().message.contains("mcp-param-region"),
            "{}",
            answer.error().message
        );
    }
    for request in [call("{}"), call(r#"{"region":null}"#)] {
        assert_eq!(request.send().await.structured()["header"], Value::Null);
    }
    let other = call(eu)
        .header("mcp-param-region", "eu")
        .header("mcp-param-other", "x")
        .send()
        .await;
    assert_eq!(other.structured()["header"], "eu");
}

#[tokio::test]
async fn a_legacy_client_has_no_such_header_and_the_server_gets_it_all_the_same() {
    let scratch = stage::scratch();
    let (gateway, _web) = routed(&scratch);
    for (client, party) in Party::one_of_each(&gateway).await {
        if client == "modern over HTTP" {
            continue;
        }
        let found = party
            .call("new__routed", r#"{"region":"eu"}"#)
            .await
            .structured();
        assert_eq!(found["header"], "eu", "{client}");
    }
    let batch =
        json!({"calls": [{"mcp_server": "new", "tool": "routed", "arguments": {"region": "eu"}}]});
    let answer = ModernClient::new(gateway.url())
        .call("genlock_call", &batch.to_string())
        .await
        .structured();
    assert_eq!(
        answer["results"][0]["result"]["structuredContent"]["header"],
        "eu"
    );
}
