use genlock_testkit::{
    clients::{ModernClient, StdioClient},
    harness::{GenlockProcess, Scratch, starts},
};
use serde_json::{Value, json};

use super::{HEADER, LEGACY, NOT_FOUND, caller, config, legacy, modern, start, wait_for_tools};
use crate::stage::{self, stdio, stdio_command_in};

/// Two servers: tenant a sees `echo` of the first, tenant b `add` of both.
fn servers(log: &str) -> Value {
    let mut one = stdio(&["--start-log", log]);
    one["tools"] = json!({"allow": ["echo", "add", "die"], "deny": ["d*"]});
    one["tool_access"] = json!({"member": {
        "tenant:a": {"allow": ["echo"]},
        "tenant:b": {"deny": ["echo"]},
    }});
    let mut two = stdio(&[]);
    two["tools"] = json!({"allow": ["add"]});
    two["tool_access"] = json!({"member": {"tenant:a": {"allow": []}}});
    json!({"one": one, "two": two})
}

/// What calling each of these is answered with: a result or a code.
async fn calls(client: &ModernClient, names: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        let answer = client.call(name, r#"{"text":"x","a":1,"b":2}"#).await;
        found.push(match answer.is_result() {
            true => "served".to_owned(),
            false => answer.error().code.to_string(),
        });
    }
    found
}

const ALL: [&str; 6] = [
    "one__echo",
    "one__add",
    "one__die",
    "two__add",
    "genlock_call",
    "none",
];

async fn door(scratch: &Scratch) -> (GenlockProcess, [ModernClient; 3]) {
    let log = scratch.join("starts");
    let gateway = start(&config("front_door", &servers(log.to_str().unwrap())));
    let clients = [
        ("svc:a", Some("tenant:a")),
        ("svc:b", Some("tenant:b")),
        ("svc:n", None),
    ]
    .map(|(name, tenant)| modern(&gateway, &caller(&gateway, name, tenant)));
    (gateway, clients)
}

#[tokio::test]
async fn each_tenant_sees_and_calls_its_own_tools_and_nothing_else() {
    let scratch = stage::scratch();
    let (_gateway, [a, b, nobody]) = door(&scratch).await;
    wait_for_tools(&a, &["one__echo"]).await;
    wait_for_tools(&b, &["one__add", "two__add"]).await;
    assert_eq!(nobody.tool_names().await, [""; 0]);

    let no = NOT_FOUND.to_string();
    let no = no.as_str();
    assert_eq!(calls(&a, &ALL).await, ["served", no, no, no, no, no]);
    assert_eq!(calls(&b, &ALL).await, [no, "served", no, "served", no, no]);
    assert_eq!(calls(&nobody, &ALL).await, [no; 6]);
    // What is hidden is answered as what is not there.
    let hidden = a.call("two__add", "{}").await.error();
    let absent = a.call("two__nothing", "{}").await.error();
    assert_eq!(
        hidden.message.replace("two__add", "two__nothing"),
        absent.message
    );
}

#[tokio::test]
async fn the_older_eras_see_the_same_and_a_session_is_its_owners_alone() {
    let scratch = stage::scratch();
    let (gateway, [a, b, _]) = door(&scratch).await;
    wait_for_tools(&a, &["one__echo"]).await;
    wait_for_tools(&b, &["one__add", "two__add"]).await;
    let keys = [
        ("svc:a", Some("tenant:a")),
        ("svc:x", Some("tenant:a")),
        ("svc:n", None),
    ]
    .map(|(name, tenant)| caller(&gateway, name, tenant));
    let of_a = legacy(&gateway, &keys[0]).await;

    assert_eq!(of_a.tool_names().await, ["one__echo"]);
    assert_eq!(of_a.call("one__add", "{}").await.error().code, NOT_FOUND);
    let of_nobody = legacy(&gateway, &keys[2]).await;
    assert_eq!(of_nobody.tool_names().await, [""; 0]);
    assert_eq!(
        of_nobody.call("one__echo", "{}").await.error().code,
        NOT_FOUND
    );
    for other in &keys[1..] {
        let stolen = legacy(&gateway, other).await.with_session(of_a.session());
        assert_eq!(stolen.request("tools/list", "{}").await.status, 404);
        assert_eq!(stolen.delete().await.status, 404);
    }
    assert_eq!(of_a.tool_names().await, ["one__echo"]);
}

#[tokio::test]
async fn tenants_share_no_process_unless_the_file_says_so() {
    let scratch = stage::scratch();
    let (apart, together) = (scratch.join("apart"), scratch.join("together"));
    let log = |path: &std::path::Path| stdio(&["--start-log", path.to_str().unwrap()]);
    let mut shared = log(&together);
    shared["scope"] = json!("shared");
    let gateway = start(&config(
        "front_door",
        &json!({"one": log(&apart), "two": shared}),
    ));
    for tenant in ["tenant:a", "tenant:b"] {
        let client = modern(&gateway, &caller(&gateway, "svc:x", Some(tenant)));
        for tool in ["one__echo", "two__echo"] {
            assert_eq!(client.call(tool, r#"{"text":"x"}"#).await.text(), "x");
        }
    }
    // Who belongs to no tenant starts nothing.
    let nobody = modern(&gateway, &caller(&gateway, "svc:n", None));
    assert_eq!(nobody.tool_names().await, [""; 0]);

    assert_eq!((starts(&apart).len(), starts(&together).len()), (2, 1));
    let shown = gateway.run(&["servers"]).stdout;
    assert!(shown.contains("\ntenant tenant:a:\nSERVER"), "{shown}");
    let restarted = gateway.run(&["servers", "restart", "one", "--tenant", "tenant:a"]);
    assert_eq!(restarted.code, Some(0), "{restarted:?}");
    assert_eq!(starts(&apart).len(), 3);
    let key = super::admin(&gateway);
    let status = super::api(&gateway, &key).get("/api/servers").await.json();
    let state = |of: &Value, name: &str| {
        let of = of.as_array().unwrap().iter();
        let named = of.filter(|server| server["name"] == name);
        named
            .map(|server| server["state"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(state(&status["servers"], "one"), ["lazy"]);
    for tenant in ["tenant:a", "tenant:b"] {
        assert_eq!(state(&status["tenants"][tenant], "one"), ["ready"]);
        assert_eq!(state(&status["tenants"][tenant], "two"), [""; 0]);
    }
}

#[tokio::test]
async fn a_pipe_in_front_door_is_of_no_tenant() {
    let scratch = stage::scratch();
    let log = scratch.join("starts");
    let config = config("front_door", &servers(log.to_str().unwrap()));
    scratch.write("genlock.yaml", &config.to_string());
    scratch.dir("state");
    let client = StdioClient::modern(&stdio_command_in(&scratch));

    assert_eq!(client.tool_names().await, [""; 0]);
    let refused = client.call("one__echo", r#"{"text":"x"}"#).await;
    assert_eq!(refused.error().code, NOT_FOUND);
    assert_eq!(starts(&log), [Value::Null; 0]);
}

#[tokio::test]
async fn rules_hold_in_egress_and_for_the_gateways_own_tools() {
    let scratch = stage::scratch();
    let log = scratch.join("starts");
    let mut open = config("egress", &servers(log.to_str().unwrap()));
    open["auth"] = json!({"enabled": false});
    let gateway = start(&open);
    let client = ModernClient::new(gateway.url());
    let flat = ModernClient::new(format!("{}?surface=flat", gateway.url()));
    wait_for_tools(&flat, &["one__add", "one__echo", "two__add"]).await;

    let batch = async |tool: &str| {
        let calls =
            json!({"calls": [{"mcp_server": "one", "tool": tool, "arguments": {"text": "x"}}]});
        client.call("genlock_call", &calls.to_string()).await
    };
    assert_eq!(batch("echo").await.structured()["success"], true);
    let denied = batch("die").await.structured();
    assert_eq!(
        denied["validation_errors"][0]["message"],
        "server `one` has no tool `die`"
    );
    let listed = client.call("genlock_tools", "{}").await.structured();
    let names: Vec<_> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(names, ["one__add", "one__echo", "two__add"]);
    assert_eq!(client.call("one__die", "{}").await.error().code, -32602);
    assert_eq!(starts(&log).len(), 1);
}

#[tokio::test]
async fn a_caller_of_a_tenant_in_egress_has_its_rules_and_who_may_nothing_sees_nothing() {
    let scratch = stage::scratch();
    let log = scratch.join("starts");
    let gateway = start(&config("egress", &servers(log.to_str().unwrap())));
    let all = caller(&gateway, "svc:n", None);
    let of_a = caller(&gateway, "svc:a", Some("tenant:a"));
    let nobody = super::make(&gateway, &["--principal", "svc:viewer"]).0;
    let flat = |key: &str| {
        ModernClient::new(format!("{}?surface=flat", gateway.url())).with_header(HEADER, key)
    };

    wait_for_tools(&flat(&all), &["one__add", "one__echo", "two__add"]).await;
    assert_eq!(flat(&of_a).tool_names().await, ["one__echo"]);
    assert_eq!(modern(&gateway, &nobody).tool_names().await, [""; 0]);
    let refused = modern(&gateway, &nobody).call("genlock_list", "{}").await;
    assert_eq!(refused.error().code, -32602);
    assert_eq!(legacy(&gateway, &nobody).await.version(), LEGACY);
    // One process serves them all.
    assert_eq!(starts(&log).len(), 1);
}
