//! `genlock revoke`, and what is refused.

use genlock_testkit::clients::{ApiClient, ModernClient};
use serde_json::{Value, json};

use super::{ask, gateway, lift, owner, revoke};
use crate::stage::{self, failed, run, stdio};

async fn refusal(
    gateway: &genlock_testkit::harness::GenlockProcess,
    params: Value,
) -> (String, String) {
    let control = owner(gateway).await;
    let error = control.request("revoke", &params.to_string()).await.error();
    let data = error.data.unwrap();
    (
        error.message,
        data["detail"].as_str().unwrap_or_default().to_owned(),
    )
}

#[tokio::test]
async fn only_what_there_is_or_was_is_revoked_with_a_reason_and_once() {
    let scratch = stage::scratch();
    let (gateway, control) = gateway(&json!({"one": stdio(&[])})).await;
    let wish = |kind: &str, name: &str, reason: &str| json!({"kind": kind, "name": name, "reason": reason});

    for (kind, name) in [
        ("server", "none"),
        ("server", "one/echo"),
        ("tool", "echo"),
        ("tool", "none/echo"),
        ("tool", "one/"),
        ("key", "key_0"),
        ("session", "0123456789abcdef0123456789abcdef"),
        ("session", ""),
    ] {
        let (reason, detail) = refusal(&gateway, wish(kind, name, "why")).await;
        assert_eq!(reason, "not_found", "{kind} {name}: {detail}");
        assert!(detail.contains(&format!("`{name}`")), "{detail}");
    }
    for reason in ["", "  ", "two\nlines", &"x".repeat(1025)] {
        let (code, _) = refusal(&gateway, wish("server", "one", reason)).await;
        assert_eq!(code, "invalid_params", "{reason:?}");
    }
    let (code, _) = refusal(&gateway, json!({"kind": "server", "name": "one"})).await;
    assert_eq!(code, "invalid_params");
    let (code, _) = refusal(&gateway, wish("world", "one", "why")).await;
    assert_eq!(code, "invalid_params");
    let lifted = control
        .request("revoke.lift", r#"{"number":1}"#)
        .await
        .error();
    assert_eq!(lifted.message, "not_found");
    // A tool that is not listed now may be tomorrow.
    revoke(&control, "tool", "one/tomorrow").await;
    let head = stage::status(&gateway).await["generation"].clone();

    let again = wish("tool", "one/tomorrow", "another reason").to_string();
    let standing = control.request("revoke", &again).await.result();

    let expected = json!({
        "kind": "tool", "name": "one/tomorrow", "reason": "leaked", "number": 2,
        "generation": head, "changed": false,
    });
    assert_eq!(standing, expected);
    drop(scratch);
}

#[tokio::test]
async fn the_command_says_what_it_did_and_how_it_is_undone() {
    stage::scratch();
    let (gateway, _control) = gateway(&json!({"one": stdio(&[])})).await;

    let done = gateway.run(&["revoke", "server", "one", "--reason", "its token leaked"]);
    let again = gateway.run(&["revoke", "server", "one", "--reason", "x"]);
    let listed = gateway.run(&["revoke", "list"]);
    let as_json = gateway.run(&["revoke", "list", "--format", "json"]);
    let status = gateway.run(&["status"]);
    let lifted = gateway.run(&["revoke", "--lift", "2"]);
    let twice = gateway.run(&["revoke", "--lift", "2"]);
    let unknown = gateway.run(&["revoke", "server", "none", "--reason", "x"]);
    let bare = gateway.run(&["revoke", "server", "one"]);

    assert_eq!(
        done.stdout,
        "server one is revoked for everybody (generation 2); `genlock revoke --lift 2` lifts it\n"
    );
    assert_eq!(
        again.stdout,
        "server one was revoked already, since generation 2: its token leaked; `genlock revoke --lift 2` lifts it\n"
    );
    let rows: Vec<Vec<&str>> = listed
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows,
        [
            vec!["NUMBER", "KIND", "NAME", "REASON"],
            vec!["2", "server", "one", "its", "token", "leaked"],
        ]
    );
    let listed: Value = serde_json::from_str(&as_json.stdout).unwrap();
    let one = json!({"kind": "server", "name": "one", "reason": "its token leaked", "number": 2});
    assert_eq!(listed, json!({"generation": 2, "revoked": [one]}));
    let line = "REVOKED: server one: its token leaked (`genlock revoke --lift 2` lifts it)";
    assert!(status.stdout.contains(line), "{}", status.stdout);
    assert_eq!(
        lifted.stdout,
        "revocation 2 of server one is lifted (generation 3)\n"
    );
    assert_eq!(
        (twice.code, unknown.code, bare.code),
        (Some(64), Some(64), Some(64))
    );
    assert!(unknown.stderr.contains("no generation has a server `none`"));
}

#[tokio::test]
async fn without_a_gateway_nothing_is_revoked_and_it_is_said_what_to_do() {
    let scratch = stage::scratch();
    let dir = scratch.dir("state");
    let dir = dir.to_str().unwrap();

    let output = run(&scratch, &["--state-dir", dir, "revoke", "list"], &[]);

    let expected = format!(
        "error: no gateway is running on {dir}\n\nhint: start one with `genlock serve`, or name its state directory with --state-dir DIR\n"
    );
    assert_eq!(output, failed(69, expected));
}

#[tokio::test]
async fn whoever_comes_in_over_http_without_a_key_may_look_and_not_revoke() {
    stage::scratch();
    let (gateway, _control) = gateway(&json!({"one": stdio(&[])})).await;
    let api = ApiClient::new(gateway.url());
    let rpc = async |method: &str, params: Value| {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        api.post("/api/rpc", &request.to_string()).await.json()
    };

    let list = rpc("revoke.list", json!({})).await;
    let wish = json!({"kind": "server", "name": "one", "reason": "x"});
    let refused = [
        rpc("revoke", wish).await,
        rpc("revoke.lift", json!({"number": 1})).await,
    ];

    assert_eq!(list["result"]["revoked"], json!([]));
    for answer in refused {
        assert_eq!(answer["error"]["message"], "permission_denied", "{answer}");
    }
    let called = ModernClient::new(gateway.url())
        .call("one__echo", r#"{"text":"x"}"#)
        .await;
    assert_eq!(called.text(), "x");
}

#[tokio::test]
async fn listeners_hear_of_each_revocation_and_each_lift() {
    stage::scratch();
    let (gateway, control) = gateway(&json!({"one": stdio(&[])})).await;
    ask(&control, "events.subscribe", json!({})).await;

    let number = revoke(&control, "server", "one").await;
    lift(&control, &number).await;

    let heard = |kind: &'static str| {
        let transcript = control.transcript();
        genlock_testkit::harness::eventually_async(stage::DEADLINE, kind, async move || {
            let messages = transcript.messages();
            let mut events = messages
                .iter()
                .filter_map(|text| serde_json::from_str::<Value>(text).ok())
                .filter(|message| message["method"] == "event");
            events.find(|event| event["params"]["kind"] == kind)
        })
    };
    let (revoked, lifted) = (heard("revoked").await, heard("lifted").await);
    let actor = revoked["params"]["data"]["actor"].clone();
    assert!(actor.as_str().unwrap().starts_with("uid:"));
    // What was done stands in the audit as well, newest first.
    let audit = ask(&control, "audit.list", json!({"action": "revoke"})).await;
    let lifts = ask(&control, "audit.list", json!({"action": "revoke.lift"})).await;
    let shown = [&audit, &lifts].map(|list| list.to_string());
    assert!(shown[0].contains("server one"), "{audit}");
    assert!(shown[1].contains("revocation 2: leaked"), "{lifts}");
    for (event, generation) in [(revoked, 2), (lifted, 3)] {
        let expected = json!({
            "kind": "server", "name": "one", "reason": "leaked", "number": 2,
            "generation": generation, "changed": true, "actor": actor,
        });
        assert_eq!(event["params"]["data"], expected);
    }
    drop(gateway);
}
