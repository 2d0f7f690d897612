//! Servers that answer nonsense.

use futures_util::future::join_all;
use genlock_testkit::{clients::ModernClient, harness::FakeServer};
use serde_json::json;

use super::{bare, missing, refused};
use crate::stage::{self, Party, stdio, stdio_with};

#[tokio::test]
async fn garbage_between_answers_is_skipped() {
    let gateway = stage::start(&json!({"mcp_servers": {
        "old": stdio(&["--garbage", "--era", "legacy"]),
        "new": stdio(&["--garbage", "--era", "modern"]),
    }}));
    for (client, party) in Party::one_of_each(&gateway).await {
        for server in ["old", "new"] {
            let answer = party
                .call(&format!("{server}__echo"), r#"{"text":"clean"}"#)
                .await;
            assert_eq!(answer.text(), "clean", "{client} {server}");
        }
    }
    assert_eq!(missing(&gateway).await, json!(null));
}

#[tokio::test]
async fn answers_that_answer_nothing_are_no_answers() {
    let scratch = stage::scratch();
    let web = |name: &str, flag: &str| FakeServer::http(&scratch, name, &[flag, "--era", "legacy"]);
    let (wrong, bad) = (web("wrong", "--wrong-id"), web("bad", "--bad-json-answers"));
    let gateway = stage::start(&json!({"mcp_servers": {
        "webwrong": {"url": wrong.url()},
        "webbad": {"url": bad.url()},
        "pipewrong": stdio_with(&["--wrong-id"], &json!({"timeout": 1})),
        "pipebad": stdio_with(&["--bad-json-answers"], &json!({"timeout": 1})),
    }}));
    let client = ModernClient::new(gateway.url());
    let expected = [
        (
            "webwrong",
            "not an MCP answer: an answer with a foreign id",
            "bad_answer",
        ),
        (
            "webbad",
            "not an MCP answer: invalid JSON at byte 45",
            "bad_answer",
        ),
        (
            "pipewrong",
            "no answer within the deadline",
            "deadline_exceeded",
        ),
        (
            "pipebad",
            "not an MCP answer: invalid JSON at byte 45",
            "bad_answer",
        ),
    ];

    let calls = expected.map(async |(server, what, reason)| {
        let answer = client.call(&format!("{server}__echo"), "{}").await;
        let text = format!("server `{server}`: {what}");
        assert_eq!(bare(&answer), refused(&text, reason, true));
    });

    join_all(calls).await;
}

#[tokio::test]
async fn a_second_answer_to_the_same_call_goes_nowhere() {
    let scratch = stage::scratch();
    let web = FakeServer::http(&scratch, "web", &["--double-answer", "--sse"]);
    let gateway = stage::start(&json!({"mcp_servers": {
        "pipe": stdio(&["--double-answer"]), "web": {"url": web.url()},
    }}));
    for (client, party) in Party::one_of_each(&gateway).await {
        let mut ids = Vec::new();
        for turn in 0..5 {
            for server in ["pipe", "web"] {
                let text = format!("{turn} {server}");
                let arguments = json!({"text": text}).to_string();
                let answer = party.call(&format!("{server}__echo"), &arguments).await;
                assert_eq!(answer.text(), text, "{client}");
                ids.push(answer.id().unwrap().to_owned());
            }
        }
        if let Party::Pipe(pipe) = &party {
            let said = pipe.transcript().messages();
            let answers = said
                .iter()
                .filter(|line| line.contains(r#""content""#))
                .count();
            assert_eq!(answers, ids.len(), "{client}");
        }
    }
}
