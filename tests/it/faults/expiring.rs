//! Sessions of upstreams that expire.

use futures_util::future::join_all;
use genlock_testkit::{
    clients::ModernClient,
    harness::{Control, FakeServer},
};
use serde_json::json;

use crate::stage::{self};

#[tokio::test]
async fn an_expired_session_of_an_upstream_is_renewed_once_and_nobody_notices() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let journal = scratch.join("journal");
    let flags = [
        "--era",
        "legacy",
        "--control",
        control.arg(),
        "--journal",
        journal.to_str().unwrap(),
    ];
    let web = FakeServer::http(&scratch, "web", &flags);
    let gateway = stage::start(&json!({"mcp_servers": {"web": {"url": web.url()}}}));
    let client = ModernClient::new(gateway.url());
    client.call("web__echo", "{}").await;

    control.pulse("drop_sessions").await;
    let calls = (0..20).map(async |turn| {
        let text = format!("call {turn}");
        let answer = client
            .call("web__echo", &json!({"text": text}).to_string())
            .await;
        assert_eq!(answer.text(), text, "{answer:?} {}", gateway.log());
    });
    join_all(calls).await;

    assert_eq!(stage::count(&client, "web", "sessions").await, 1);
    let methods = genlock_testkit::harness::journal(&journal);
    let greetings = methods
        .iter()
        .filter(|message| message["method"] == "initialize")
        .count();
    assert_eq!(greetings, 2);
}

#[tokio::test]
async fn a_call_that_runs_on_an_expired_session_is_not_cut_off() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let web = FakeServer::http(
        &scratch,
        "web",
        &["--era", "legacy", "--control", control.arg()],
    );
    let gateway = stage::start(&json!({"mcp_servers": {"web": {"url": web.url()}}}));
    let client = ModernClient::new(gateway.url());
    let renew = async {
        control.wait_held("k").await;
        control.pulse("drop_sessions").await;
        let answer = client.call("web__echo", r#"{"text":"renewed"}"#).await;
        control.release("k");
        answer
    };

    let (held, answer) = tokio::join!(client.call("web__hold", r#"{"key":"k"}"#), renew);

    assert_eq!(
        (held.text(), answer.text()),
        ("released".to_owned(), "renewed".to_owned())
    );
}
