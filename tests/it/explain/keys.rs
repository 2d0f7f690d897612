//! Keys: each row of the tables is a cause that was brought about, and what the holder of the key finds is asked for as well.

use genlock_testkit::{
    clients::ModernClient,
    harness::{CommandOutput, GenlockProcess, eventually},
};
use serde_json::{Value, json};

use super::{NONE, check_walk, explain, told, wait_ready};
use crate::stage::{self, DEADLINE, stdio, stdio_with, wait_for_state};

const HEADER: &str = "X-API-Key";

/// A key that was made, and its id.
struct Key {
    key: String,
    id: String,
}

fn ran(output: &CommandOutput) -> Value {
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

fn key(gateway: &GenlockProcess, principal: &str, more: &[&str]) -> Key {
    let args = [
        "keys",
        "create",
        "--format",
        "json",
        "--principal",
        principal,
    ];
    let made = ran(&gateway.run(&[&args[..], more].concat()));
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    Key {
        key: text("key"),
        id: text("id"),
    }
}

fn file(access: &Value, servers: &Value) -> Value {
    json!({
        "config_reload": {"enabled": false},
        "tool_access": access,
        "auth": {"enabled": true, "role_assignments": [
            {"principal": "group:callers", "role": "service-account"},
            {"principal": "svc:viewer", "role": "viewer"},
            {"principal": "svc:elsewhere", "role": "service-account", "scope": "tenant:b"},
        ]},
        "mcp_servers": servers,
    })
}

/// Whether the holder of a key is shown a tool, and whether a call of it reaches its server.
async fn found(gateway: &GenlockProcess, key: &Key, tool: &str) -> (bool, bool) {
    let client = ModernClient::new(gateway.url()).with_header(HEADER, &key.key);
    let list = client.request("tools/list", "{}").await;
    let listed = list.status == 200
        && list.result()["tools"]
            .as_array()
            .unwrap()
            .iter()
            .any(|listed| listed["name"] == tool);
    let answer = client.call(tool, r#"{"text":"x","a":1,"b":2}"#).await;
    let served = answer.status == 200
        && answer.is_result()
        && answer.result()["_meta"]["genlock/reason"].is_null();
    (listed, served)
}

/// Two tenants on four servers that work, one that is off, one that cannot be started, and one that was listed and cannot be
/// started any more.
fn servers(moved: &Value) -> Value {
    let mut one = stdio(&[]);
    one["tools"] = json!({"allow": ["echo", "add", "die", "absent"], "deny": ["d*"]});
    one["tool_access"] = json!({"member": {
        "tenant:a": {"allow": ["echo", "absent"]},
        "tenant:b": {"deny": ["echo"]},
    }});
    let mut two = stdio(&[]);
    two["tools"] = json!({"allow": ["add"]});
    two["tool_access"] = json!({"member": {"tenant:a": {"allow": []}}});
    let mut all = json!({
        "one": one, "two": two, "moved": moved,
        "off": stdio_with(&[], &json!({"enabled": false})),
        "gone": {"command": "/nowhere/to/be/found"},
        "odd": stdio(&["--tool-name", "two words"]),
    });
    for server in all.as_object_mut().unwrap().values_mut() {
        server["scope"] = json!("shared");
    }
    all
}

#[tokio::test]
async fn in_front_door_each_cause_is_named_and_is_what_the_caller_finds() {
    let file = |moved: &Value| file(&json!({"mode": "front_door"}), &servers(moved));
    let gateway = stage::start(&file(&stdio(&[])));
    let callers = |principal, tenant| {
        key(
            &gateway,
            principal,
            &["--group", "callers", "--tenant", tenant],
        )
    };
    let (a, b) = (callers("svc:a", "tenant:a"), callers("svc:b", "tenant:b"));
    let homeless = key(&gateway, "svc:n", &["--group", "callers"]);
    let unbound = key(&gateway, "svc:x", &["--tenant", "tenant:a"]);
    let viewer = key(&gateway, "svc:viewer", &["--tenant", "tenant:a"]);
    let elsewhere = key(&gateway, "svc:elsewhere", &["--tenant", "tenant:a"]);
    let expired = key(
        &gateway,
        "svc:e",
        &["--group", "callers", "--expires", "1s"],
    );
    let revoked = callers("svc:r", "tenant:a");
    ran(&gateway.run(&["keys", "revoke", &revoked.id, "--format", "json"]));
    wait_ready(&gateway, &["one", "two", "moved", "odd"]);
    gateway.write_config(&file(&json!({"command": "/nowhere/either"})).to_string());
    gateway.run(&["reload"]);
    eventually(DEADLINE, "the key has expired", || {
        let explained = explain(&gateway, ["--key", &expired.id], "one__echo");
        (told(&explained).0 == Some("credential")).then_some(())
    });

    let table = [
        (&a, "one__echo", NONE, true, true),
        (&a, "one__add", Some("tenant_rules"), false, false),
        (&b, "one__echo", Some("tenant_rules"), false, false),
        (&b, "one__add", NONE, true, true),
        (&a, "one__die", Some("rules"), false, false),
        (&a, "one__hold", Some("rules"), false, false),
        (&a, "one__absent", Some("listing"), false, false),
        (&a, "two__add", Some("tenant_rules"), false, false),
        (&b, "two__add", NONE, true, true),
        (&a, "off__echo", Some("server"), false, false),
        (&a, "none__echo", Some("server"), false, false),
        (&a, "nothing", Some("server"), false, false),
        (&a, "gone__echo", Some("listing"), false, false),
        (&a, "moved__echo", Some("connection"), true, false),
        (&homeless, "one__echo", Some("tenant"), false, false),
        (&unbound, "one__echo", Some("role"), false, false),
        (&viewer, "one__echo", Some("role"), false, false),
        (&elsewhere, "one__echo", Some("role"), false, false),
        (&expired, "one__echo", Some("credential"), false, false),
        (&revoked, "one__echo", Some("credential"), false, false),
        (&a, "genlock_call", Some("surface"), false, false),
        (&a, "genlock_reload", Some("permission"), false, false),
        // What it has is shown by another name.
        (&a, "echo", Some("name"), false, false),
    ];
    for (key, tool, decided, listed, callable) in table {
        let explained = explain(&gateway, ["--key", &key.id], tool);
        assert_eq!(
            told(&explained),
            (decided, listed, callable),
            "{tool}: {explained}"
        );
        assert_eq!(
            found(&gateway, key, tool).await,
            (listed, callable),
            "{tool}"
        );
        check_walk(&explained);
    }
    // The same tool by another name, and one whose own name cannot be shown.
    for (tool, why) in [
        ("one/echo", "shown as `one__echo`"),
        ("odd/two words", "shown as `odd__two_words_"),
    ] {
        let explained = explain(&gateway, ["--key", &a.id], tool);
        assert_eq!(told(&explained), (NONE, true, true), "{explained}");
        assert!(explained.to_string().contains(why), "{explained}");
    }
    let unknown = gateway.run(&["explain", "--key", "nobody", "one__echo"]);
    assert_eq!(unknown.code, Some(64), "{unknown:?}");
    assert!(
        unknown.stderr.contains("no key with this id"),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn in_egress_what_is_not_listed_can_be_called_by_another_way() {
    let servers = json!({"a": stdio(&[]), "b": stdio(&[]), "c": stdio(&["--schema-header"])});
    let access = |surface: &str, names: &str| json!({"surface": surface, "names": names});
    let gateway = stage::start(&file(&access("both", "always"), &servers));
    let caller = key(&gateway, "svc:a", &["--group", "callers"]);
    wait_ready(&gateway, &["a", "b", "c"]);
    let of = |tool: &str| explain(&gateway, ["--key", &caller.id], tool);
    let apply = |file: &Value| {
        gateway.write_config(&file.to_string());
        ran(&gateway.run(&["reload", "--format", "json"]));
    };
    assert_eq!(told(&of("a__echo")), (NONE, true, true));
    assert_eq!(found(&gateway, &caller, "a__echo").await, (true, true));
    assert_eq!(told(&of("genlock_call")), (NONE, true, true));

    apply(&file(&access("meta", "always"), &servers));
    assert_eq!(told(&of("a__echo")), (Some("surface"), false, true));
    assert_eq!(found(&gateway, &caller, "a__echo").await, (false, false));
    let calls = json!({"calls": [{"mcp_server": "a", "tool": "echo", "arguments": {"text": "x"}}]});
    let client = ModernClient::new(gateway.url()).with_header(HEADER, &caller.key);
    let batch = client.call("genlock_call", &calls.to_string()).await;
    assert_eq!(batch.structured()["success"], true);

    // The same name of three servers is shown for none of them.
    apply(&file(&access("both", "never"), &servers));
    let clash = of("a/echo");
    assert_eq!(told(&clash), (Some("name"), false, true), "{clash}");
    assert!(
        clash.to_string().contains("the name clashes (a, b, c)"),
        "{clash}"
    );
    check_walk(&clash);
    assert_eq!(told(&of("routed")), (NONE, true, true));
    apply(&file(&access("flat", "never"), &servers));
    assert_eq!(told(&of("a/echo")), (Some("name"), false, false));

    let mut checked = file(&access("both", "always"), &servers);
    checked["interceptors"] = json!({"validators": [{"type": "payload_size", "max_bytes": 99}]});
    apply(&checked);
    let depends = of("c__routed");
    let verdict = |gate: &str| {
        let mut gates = depends["gates"].as_array().unwrap().iter();
        gates.find(|said| said["gate"] == gate).unwrap()["verdict"].clone()
    };
    assert_eq!(told(&depends), (NONE, true, true));
    assert_eq!(
        (verdict("arguments"), verdict("headers")),
        (json!("depends"), json!("depends"))
    );
}

#[tokio::test]
async fn a_server_that_was_never_listed_is_not_started_by_the_question() {
    let scratch = stage::scratch();
    let log = scratch.join("starts");
    let lazy = stdio_with(
        &["--start-log", log.to_str().unwrap()],
        &json!({"lazy": true, "scope": "tenant"}),
    );
    let gateway = stage::start(&file(
        &json!({"mode": "front_door"}),
        &json!({"lazy": lazy}),
    ));
    let eager = key(
        &gateway,
        "svc:a",
        &["--group", "callers", "--tenant", "tenant:a"],
    );

    let explained = explain(&gateway, ["--key", &eager.id], "lazy__echo");

    assert_eq!(
        told(&explained),
        (Some("listing"), false, true),
        "{explained}"
    );
    assert_eq!(genlock_testkit::harness::starts(&log), [Value::Null; 0]);
    assert!(found(&gateway, &eager, "lazy__echo").await.1);
    let explained = explain(&gateway, ["--key", &eager.id], "lazy__echo");
    assert_eq!(told(&explained), (NONE, true, true), "{explained}");
}

#[tokio::test]
async fn while_there_is_no_authentication_a_key_decides_nothing() {
    let mut open = file(&json!({"mode": "egress"}), &json!({"a": stdio(&[])}));
    open["auth"] = json!({"enabled": false});
    let gateway = stage::start(&open);
    wait_ready(&gateway, &["a"]);
    let any = key(&gateway, "svc:a", &[]);

    let explained = explain(&gateway, ["--key", &any.id], "a__echo");

    assert_eq!(told(&explained), (NONE, true, true), "{explained}");
    assert_eq!(explained["gates"][0]["verdict"], "depends");
}

#[tokio::test]
async fn the_gateways_own_tool_explains_to_a_tenant_what_it_is_shown_and_no_more() {
    let mut secret = stdio(&[]);
    secret["tool_access"] = json!({"member": {"tenant:a": {"deny": ["echo"]}}});
    let servers = json!({"secret": secret});
    let gateway = stage::start(&file(&json!({"mode": "egress"}), &servers));
    let a = key(
        &gateway,
        "svc:a",
        &["--group", "callers", "--tenant", "tenant:a"],
    );
    let trusted = key(&gateway, "svc:t", &["--group", "callers"]);
    wait_ready(&gateway, &["secret"]);
    let of = async |key: &Key, tool: &str| {
        let client = ModernClient::new(gateway.url()).with_header(HEADER, &key.key);
        let arguments = json!({ "tool": tool }).to_string();
        client
            .call("genlock_explain", &arguments)
            .await
            .structured()
    };

    assert_eq!(told(&of(&a, "secret__add").await), (NONE, true, true));
    let hidden = of(&a, "secret__echo").await.to_string();
    let absent = of(&a, "secret__eggo").await.to_string();
    assert_eq!(hidden.replace("secret__echo", "secret__eggo"), absent);
    assert_eq!(
        told(&of(&trusted, "secret__echo").await),
        (NONE, true, true)
    );
    assert_eq!(
        told(&of(&trusted, "none__echo").await),
        (Some("server"), false, false)
    );
}

#[tokio::test]
async fn a_server_that_cools_down_says_when_it_is_tried_again() {
    let servers = json!({"silent": stdio_with(&["--no-answer"], &json!({"connect_timeout": 0.2}))});
    let mut open = file(&json!({"mode": "egress"}), &servers);
    open["auth"] = json!({"enabled": false});
    let gateway = stage::start(&open);
    let any = key(&gateway, "svc:a", &[]);
    let snapshot = wait_for_state(&gateway, "silent", "cooldown").await;

    let explained = explain(&gateway, ["--key", &any.id], "silent__echo");

    assert_eq!(
        told(&explained),
        (Some("listing"), false, false),
        "{explained}"
    );
    let remedy = explained["remedy"].as_str().unwrap();
    let retry = snapshot["retry_at"].as_str().unwrap();
    assert!(remedy.contains(retry), "{remedy} {retry}");
}
