//! Servers that are stopped when nobody uses them.

use genlock_testkit::{
    clients::ModernClient,
    harness::{DEADLINE, eventually_async, is_alive},
};
use serde_json::json;

use super::{has, logged, server, started, wait_until};
use crate::stage;

#[tokio::test]
async fn an_idle_server_is_stopped_after_its_last_call_and_started_by_the_next() {
    let scratch = stage::scratch();
    let definition = logged(&scratch, "one", &[], &json!({"idle_ttl_s": 1}));
    let gateway = stage::start(&json!({"mcp_servers": {"one": definition}}));
    let client = ModernClient::new(gateway.url());

    // A call that takes longer than that is no idleness.
    let first = client.call("one__instance", "{}").await.text();
    let slept = client.call("one__sleep", r#"{"ms":2500}"#).await;
    let busy = server(&gateway, "one").await;
    let same = client.call("one__instance", "{}").await.text();
    let stopped = wait_until(&gateway, "one", "is stopped", |one| one["state"] == "lazy").await;
    let pid = u32::try_from(busy["pid"].as_u64().unwrap()).unwrap();
    eventually_async(DEADLINE, "its process has ended", async || {
        (!is_alive(pid)).then_some(())
    })
    .await;
    let names = client.tool_names().await;
    let lists = started(&scratch, "one");
    let second = client.call("one__instance", "{}").await.text();

    assert!(slept.is_result());
    assert_eq!(
        (busy["state"].clone(), same),
        (json!("ready"), first.clone())
    );
    assert_eq!(
        (&stopped["ready"], stopped.get("pid"), &stopped["tools"]),
        (&json!(true), None, &json!(23))
    );
    assert_eq!(
        (has(&names, "one"), lists),
        (true, 1),
        "listed without a start"
    );
    assert_ne!(first, second);
    assert_eq!(started(&scratch, "one"), 2);
}

#[tokio::test]
async fn calls_that_come_as_a_server_is_stopped_are_all_answered() {
    let scratch = stage::scratch();
    let one = logged(&scratch, "one", &[], &json!({"idle_ttl_s": 1}));
    let gateway = stage::start(&json!({"mcp_servers": {"one": one, "other": stage::stdio(&[])}}));
    let client = ModernClient::new(gateway.url());

    for turn in 0..8_u64 {
        let text = turn.to_string();
        let answer = client
            .call("one__echo", &json!({"text": text}).to_string())
            .await;
        assert_eq!(answer.text(), text);
        // The next call comes around the moment of the stop, later each time.
        let pause = json!({"ms": 980 + 6 * turn}).to_string();
        client.call("other__sleep", &pause).await;
    }

    assert!(started(&scratch, "one") > 1, "it was never stopped");
}
