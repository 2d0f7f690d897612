use std::time::Duration;

use genlock_testkit::{clients::ModernClient, harness::Control};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{apply, caller, config, modern, start};
use crate::stage::{self, stdio};

fn limited(servers: &Value, limits: &Value) -> Value {
    let mut config = config("front_door", servers);
    config["execution"] = json!({ "tenant_limits": limits });
    config["tool_access"]["surface"] = json!("both");
    config
}

/// What a call came to: its text, or the reason why it was refused.
async fn outcome(client: &ModernClient, tool: &str, arguments: &str) -> String {
    let answer = client.call(tool, arguments).await;
    match answer.result()["_meta"]["genlock/reason"].as_str() {
        Some(reason) => reason.to_owned(),
        None => answer.text(),
    }
}

#[tokio::test]
async fn a_tenant_that_calls_too_often_is_refused_and_no_other_one() {
    let servers = json!({"one": stdio(&["--tools-only"])});
    let few = json!({"tenant:a": {"rps": 1, "burst": 3}, "*": {"rps": 1000}});
    let gateway = start(&limited(&servers, &few));
    let [a, b] = ["a", "b"].map(|name| {
        let tenant = format!("tenant:{name}");
        modern(
            &gateway,
            &caller(&gateway, &format!("svc:{name}"), Some(&tenant)),
        )
    });
    let echo = async |client| outcome(client, "one__echo", r#"{"text":"x"}"#).await;

    // By whatever way: the two calls of the batch count as well.
    let call = json!({"mcp_server": "one", "tool": "echo", "arguments": {"text": "x"}});
    let batch = json!({"calls": [call, call]}).to_string();
    let first = a.call("genlock_call", &batch).await.structured();
    assert_eq!(first["succeeded"], 2, "{first}");
    let mut of_a = Vec::new();
    for _ in 0..4 {
        of_a.push(echo(&a).await);
    }
    // A slow machine may let one more through, which is its due after a second.
    assert!(
        of_a.iter().filter(|text| *text == "x").count() <= 2,
        "{of_a:?}"
    );
    assert_eq!(of_a.last().unwrap(), "rate_limited");
    let refused = a.call("genlock_call", &batch).await.structured();
    assert_eq!(
        refused["results"][1]["error_type"], "RateLimitExceeded",
        "{refused}"
    );
    for _ in 0..20 {
        assert_eq!(echo(&b).await, "x");
    }

    apply(&gateway, &limited(&servers, &json!({}))).await;
    for _ in 0..20 {
        assert_eq!(echo(&a).await, "x");
    }
}

#[tokio::test]
async fn a_tenant_waits_for_its_own_calls() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let servers = json!({"one": stdio(&["--tools-only", "--control", control.arg()])});
    let gateway = start(&limited(&servers, &json!({"*": {"max_concurrency": 1}})));
    let [a, b] = ["tenant:a", "tenant:b"]
        .map(|tenant| modern(&gateway, &caller(&gateway, "svc:x", Some(tenant))));
    let held = outcome(&a, "one__hold", r#"{"key":"k"}"#);
    let next = async {
        control.wait_held("k").await;
        let echo = || outcome(&a, "one__echo", r#"{"text":"x"}"#);
        // It waits as long as the first one runs, while another tenant does not.
        let early = timeout(Duration::from_millis(300), echo()).await;
        assert_eq!(outcome(&b, "one__echo", r#"{"text":"x"}"#).await, "x");
        let late = echo();
        control.release("k");
        (early.is_err(), late.await)
    };

    let (held, (waited, late)) = tokio::join!(held, next);

    assert!(waited);
    assert_eq!((held.as_str(), late.as_str()), ("released", "x"));
}
