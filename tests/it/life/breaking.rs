//! Servers whose transport fails again and again.

use genlock_testkit::{
    clients::{Answer, ModernClient},
    harness::{Control, FakeServer},
};
use serde_json::{Value, json};

use super::server;
use crate::{
    faults::{bare, refused},
    stage,
};

fn reason(answer: &Answer) -> Value {
    answer.result()["_meta"]["genlock/reason"].clone()
}

#[tokio::test]
async fn after_five_transport_failures_calls_are_refused_at_once_and_tool_errors_do_not_count() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let flags = ["--era", "legacy", "--control", control.arg(), "--journal"];
    let journal = scratch.join("journal");
    let flags = [&flags[..], &[journal.to_str().unwrap()]].concat();
    let web = FakeServer::http(&scratch, "web", &flags);
    let gateway = stage::start(&json!({"mcp_servers": {"web": {"url": web.url()}}}));
    stage::wait_ready(&gateway).await;
    let client = ModernClient::new(gateway.url());
    for _ in 0..6 {
        assert_eq!(
            client.call("web__fail", "{}").await.result()["isError"],
            true
        );
    }
    assert_eq!(
        client.call("web__echo", r#"{"text":"on"}"#).await.text(),
        "on"
    );

    control.on("fail_http");
    for _ in 0..5 {
        assert_eq!(
            reason(&client.call("web__echo", "{}").await),
            "upstream_status"
        );
    }
    control.off("fail_http");
    let received = genlock_testkit::harness::journal(&journal).len();
    let open = client.call("web__echo", "{}").await;

    let text = "server `web`: its transport failed 5 times in a row, calls are refused for now";
    assert_eq!(bare(&open), refused(text, "breaker_open", false));
    assert_eq!(genlock_testkit::harness::journal(&journal).len(), received);
    let shown = server(&gateway, "web").await;
    assert_eq!(
        (&shown["state"], &shown["reason"]),
        (
            &json!("ready"),
            &json!("the transport failed 5 times in a row, calls are refused for now")
        )
    );
    assert!(shown["retry_at"].is_string(), "{shown}");
}

#[tokio::test]
async fn a_server_that_refuses_its_credentials_from_now_on_is_parked_until_a_reload() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let web = FakeServer::http(&scratch, "web", &["--control", control.arg()]);
    let gateway = stage::start(&json!({"mcp_servers": {"web": {"url": web.url()}}}));
    stage::wait_ready(&gateway).await;
    let client = ModernClient::new(gateway.url());
    assert!(client.call("web__echo", "{}").await.is_result());

    control.on("lock");
    let refused = client.call("web__echo", "{}").await;
    let parked = stage::wait_for_state(&gateway, "web", "parked").await;
    control.off("lock");
    let report = super::reload(&gateway).await;

    assert_eq!(reason(&refused), "upstream_unauthorized");
    assert_eq!(
        parked["reason"],
        "server/discover: the upstream refused the credentials: HTTP status 401 Unauthorized"
    );
    assert_eq!(report["servers"]["unavailable"], json!([]));
    assert_eq!(
        client.call("web__echo", r#"{"text":"on"}"#).await.text(),
        "on"
    );
}
