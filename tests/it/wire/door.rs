//! Who comes in, and with which types.

use genlock_testkit::clients::ModernClient;
use serde_json::json;

use super::{refusal, scene, told};
use crate::stage::{self, raw_http, stdio};

#[tokio::test]
async fn requests_of_strangers_are_refused_at_every_route() {
    let gateway = stage::start(&json!({
        "allowed_hosts": ["gate.example"], "allowed_origins": ["https://app.example"],
        "mcp_servers": {"one": stdio(&[])},
    }));
    let strangers = [
        ("Host: evil.example", "http.host_not_allowed"),
        ("Host: 127.0.0.1.evil.example", "http.host_not_allowed"),
        (
            "Host: localhost\r\nOrigin: http://evil.example",
            "http.origin_not_allowed",
        ),
        ("Host: localhost\r\nOrigin: null", "http.origin_not_allowed"),
        (
            "Host: localhost\r\nX-Forwarded-For: 127.0.0.1",
            "http.relayed",
        ),
        (
            "Host: localhost\r\nX-Forwarded-Host: localhost",
            "http.relayed",
        ),
        (
            "Host: localhost\r\nForwarded: for=127.0.0.1",
            "http.relayed",
        ),
    ];
    for route in [
        "POST /mcp",
        "GET /mcp",
        "DELETE /mcp",
        "GET /api/status",
        "GET /api/servers",
        "GET /api/servers/one/logs",
    ] {
        for (headers, code) in strangers {
            let request = format!("{route} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n");
            let answer = raw_http(&gateway, request.as_bytes());
            assert!(
                answer.starts_with("HTTP/1.1 403 "),
                "{route} {headers}: {answer}"
            );
            assert!(
                answer.contains(&format!(r#""code":"{code}""#)),
                "{route} {headers}: {answer}"
            );
        }
    }
    let friends = [
        "Host: localhost",
        "Host: 127.0.0.1:1",
        "Host: [::1]",
        "Host: gate.example:8717",
        "Host: localhost\r\nOrigin: http://localhost:3000",
        "Host: localhost\r\nOrigin: https://app.example",
    ];
    for headers in friends {
        let request = format!("GET /api/status HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n");
        assert!(
            raw_http(&gateway, request.as_bytes()).starts_with("HTTP/1.1 200 "),
            "{headers}"
        );
    }
}

#[tokio::test]
async fn only_json_is_taken_and_only_what_a_client_takes_is_sent() {
    let gateway = scene();
    let client = ModernClient::new(gateway.url());
    let list = || client.prepare("tools/list", "{}");
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "",
    ] {
        let answer = list().header("content-type", kind).send().await;
        assert_eq!(
            refusal(&answer),
            told(415, -32600, "`Content-Type` must be application/json"),
            "{kind}"
        );
    }
    assert_eq!(
        list().without_header("content-type").send().await.status,
        415
    );
    let answer = list().header("accept", "text/html").send().await;
    let message = "`Accept` must list application/json and text/event-stream";
    assert_eq!(refusal(&answer), told(406, -32600, message));
    for kind in ["application/json; charset=utf-8", "Application/JSON"] {
        assert_eq!(list().header("content-type", kind).send().await.status, 200);
    }
    for kinds in ["*/*", "application/*, text/*;q=0.5"] {
        assert_eq!(list().header("accept", kinds).send().await.status, 200);
    }
    assert_eq!(list().without_header("accept").send().await.status, 200);
}
