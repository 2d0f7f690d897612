//! Bodies and lines that are too large or no message.

use genlock_testkit::clients::{LEGACY, LegacyClient, ModernClient};
use serde_json::json;

use super::scene;
use crate::stage::{self, Party, raw_http, stdio};

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_and_costs_no_memory() {
    let gateway = stage::start(&json!({
        "execution": {"max_response_bytes": 4_000_000}, "mcp_servers": {"one": stdio(&[])},
    }));
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let announced = format!("{head}Content-Length: 100000000\r\n\r\n").into_bytes();
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    let endless = [
        format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes(),
        chunk.repeat(100),
    ]
    .concat();

    let answers = [announced, endless].map(|request| raw_http(&gateway, &request));

    for answer in answers {
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the body is larger than 4000000 bytes"}}"#;
        assert!(answer.ends_with(body), "{answer}");
    }
    let peak = stage::peak_kib(gateway.pid());
    assert!(peak < 100 * 1024, "{peak} KiB");
    let client = ModernClient::new(gateway.url());
    assert_eq!(
        client.call("one__echo", r#"{"text":"on"}"#).await.text(),
        "on"
    );
}

#[tokio::test]
async fn bodies_that_are_no_message_are_refused() {
    let gateway = scene();
    let legacy = LegacyClient::connect(gateway.url(), LEGACY[0]).await;
    let deep = |open: &str, times: usize| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}"#,
            open.repeat(times)
        )
    };
    let twice = |text: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping",{text}}}"#);
    let cases: Vec<(String, i64)> = vec![
        (String::new(), -32700),
        ("{".to_owned(), -32700),
        ("null".to_owned(), -32600),
        ("{}".to_owned(), -32600),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.to_owned(),
            -32600,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#.to_owned(), -32600),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#.to_owned(),
            -32700,
        ),
        (deep(r#"{"a":"#, 100_000), -32700),
        (deep("[", 2_000_000), -32700),
        (twice(r#""method":"tools/list""#), -32600),
        (twice(r#""id":2"#), -32600),
        (twice(r#""\u0069d":2"#), -32600),
        (twice(r#""params":{"a":1,"\u0061":2}"#), -32600),
    ];
    for (body, code) in cases {
        let shown: String = body.chars().take(80).collect();
        let answer = legacy.post(body).await;
        assert_eq!((answer.status, answer.error().code), (400, code), "{shown}");
    }
    let nested = format!("{}{}", r#"{"a":"#.repeat(100), "}".repeat(100));
    let nested = nested.replacen("{\"a\":}", "{}", 1);
    assert_eq!(legacy.call("one__raw", &nested).await.text(), nested);
}

#[tokio::test]
async fn a_line_that_is_no_message_is_refused_and_the_pipe_serves_on() {
    let gateway = scene();
    let [.., (_, modern), (_, legacy)] = Party::one_of_each(&gateway).await;
    for party in [modern, legacy] {
        let Party::Pipe(client) = &party else {
            panic!("a pipe")
        };
        for (line, code) in [
            ("{", -32700),
            ("7", -32600),
            (r#"{"jsonrpc":"2.0","id":null}"#, -32600),
            ("[]", -32600),
        ] {
            let before = client.transcript().messages().len();
            client.send_line(line).await;
            let begin = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"#);
            let transcript = client.transcript().clone();
            genlock_testkit::harness::eventually_async(stage::DEADLINE, "a refusal", async || {
                transcript.messages()[before..]
                    .iter()
                    .any(|line| line.starts_with(&begin))
                    .then_some(())
            })
            .await;
        }
        assert_eq!(
            party.call("one__echo", r#"{"text":"on"}"#).await.text(),
            "on"
        );
    }
}
