//! Both eras over pipes.

use std::time::Duration;

use genlock_testkit::{
    clients::{LEGACY, StdioClient, StdioCommand},
    harness::{Control, Scratch, fake_server},
    raw,
};

fn command(flags: &[&str]) -> StdioCommand {
    StdioCommand::new(fake_server(), flags.iter().copied())
}

#[tokio::test]
async fn every_legacy_version_shakes_hands() {
    for version in LEGACY {
        let client = StdioClient::legacy(&command(&["--era", "legacy"]), version).await;

        let greeting = client.initialized().unwrap().result();
        assert_eq!(greeting["protocolVersion"], version);
        assert_eq!(
            client.call("echo", r#"{"text":"hello"}"#).await.text(),
            "hello"
        );
        assert!(client.call("fail", "{}").await.is_tool_error());
        assert_eq!(
            client
                .call("rpc_error", r#"{"code":-7}"#)
                .await
                .error()
                .code,
            -7
        );
        assert!(client.close(Duration::from_secs(10)).await.success());
    }
}

#[tokio::test]
async fn modern_needs_no_handshake() {
    let client = StdioClient::modern(&command(&["--era", "modern"]));

    let discovered = client.request("server/discover", "{}").await.result();
    assert_eq!(discovered["supportedVersions"][0], "2026-07-28");
    assert_eq!(discovered["resultType"], "complete");
    assert_eq!(client.call("add", r#"{"a":2,"b":3}"#).await.text(), "5");
    assert!(client.tool_names().await.contains(&"echo".to_owned()));
}

#[tokio::test]
async fn each_era_refuses_the_other() {
    let modern = StdioClient::spawn(&command(&["--era", "modern"]), false);
    let refused = modern
        .request("initialize", r#"{"protocolVersion":"2025-11-25"}"#)
        .await;
    assert_eq!(refused.error().code, -32022);

    let legacy = StdioClient::modern(&command(&["--era", "legacy"]));
    assert_eq!(
        legacy.request("server/discover", "{}").await.error().code,
        -32601
    );
}

#[tokio::test]
async fn raw_answers_with_the_same_bytes() {
    let client = StdioClient::modern(&command(&[]));

    let answer = client.call("raw", raw::ARGUMENTS).await;

    assert_eq!(answer.text(), raw::ARGUMENTS);
    assert_eq!(answer.member_raw("structuredContent"), Some(raw::ARGUMENTS));
    assert!(
        answer
            .result_raw()
            .starts_with(&format!("{{{},", raw::RESULT_FIELDS))
    );
    assert!(
        answer
            .body_text()
            .contains(&format!("[{{{},", raw::CONTENT_FIELDS))
    );
}

#[tokio::test]
async fn progress_is_reported_under_the_callers_token() {
    let client = StdioClient::legacy(&command(&[]), LEGACY[0]).await;

    let params = r#"{"name":"progress","arguments":{"steps":2},"_meta":{"progressToken":"t 1"}}"#;
    let answer = client.request("tools/call", params).await;

    assert_eq!(answer.text(), "2 steps done");
    assert_eq!(answer.notifications.len(), 2);
    assert!(
        answer
            .notifications
            .iter()
            .all(|message| message.contains(r#""progressToken":"t 1""#))
    );
}

#[tokio::test]
async fn a_cancelled_call_is_not_answered_and_remembered() {
    let scratch = Scratch::new();
    let control = Control::new(&scratch, "control");
    let client = StdioClient::modern(&command(&["--control", control.arg()]));
    let id = client.start_call("hold", r#"{"key":"k"}"#).await;
    control.wait_held("k").await;

    client.cancel(&id).await;

    let known = client.call("cancelled", "{}").await.structured();
    assert_eq!(known.to_string(), format!(r#"{{"count":1,"ids":[{id}]}}"#));
}

#[tokio::test]
async fn an_announcement_reaches_the_pipe() {
    let scratch = Scratch::new();
    let control = Control::new(&scratch, "control");
    let client = StdioClient::legacy(&command(&["--control", control.arg()]), LEGACY[0]).await;
    assert!(!client.tool_names().await.contains(&"extra".to_owned()));

    control.on("extra_tool");
    control.pulse("announce").await;

    client
        .transcript()
        .wait_for("notifications/tools/list_changed")
        .await;
    assert!(client.tool_names().await.contains(&"extra".to_owned()));
}

#[tokio::test]
async fn pages_give_every_tool_once() {
    let whole = StdioClient::modern(&command(&["--tools", "30"]))
        .tool_names()
        .await;
    let paged = StdioClient::modern(&command(&["--tools", "30", "--page-size", "7"]))
        .tool_names()
        .await;

    assert_eq!(whole, paged);
    assert!(whole.contains(&"t0030".to_owned()));
}
