//! Calls and lists while the configuration changes.

use genlock_testkit::{
    clients::{LegacyClient, ModernClient},
    harness::{Control, GenlockProcess, eventually_async, is_alive},
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{apply, config, gateway, pids};
use crate::stage::{self, DEADLINE, stdio, stdio_with};

const CHANGED: &str = "notifications/tools/list_changed";

fn held_server(control: &Control, version: &str) -> Value {
    stdio_with(
        &["--control", control.arg()],
        &json!({"env": {"VERSION": version}}),
    )
}

async fn version(client: &ModernClient) -> Value {
    let answer = client.call("one__env", r#"{"name":"VERSION"}"#).await;
    answer.structured()["value"].clone()
}

/// The servers that drain, each with somebody who holds it.
async fn draining(gateway: &GenlockProcess) -> Vec<String> {
    let draining = stage::status(gateway).await["draining"].clone();
    let each = draining.as_array().unwrap().iter();
    each.map(|server| {
        assert_eq!(server["holders"], 1, "{server}");
        server["name"].as_str().unwrap().to_owned()
    })
    .collect()
}

#[tokio::test]
async fn a_call_in_flight_ends_on_the_old_instance_while_new_calls_reach_the_new_one() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let mut servers = json!({"one": held_server(&control, "v1"), "other": stdio(&[])});
    let gateway = gateway(&servers).await;
    let client = ModernClient::new(gateway.url());
    assert_eq!(version(&client).await, "v1");
    let before = pids(&gateway).await;

    let change = async {
        control.wait_held("k").await;
        servers["one"] = held_server(&control, "v2");
        let report = apply(&gateway, &config(&servers)).await;
        let seen = version(&client).await;
        let draining = draining(&gateway).await;
        control.release("k");
        (report["servers"]["changed"].clone(), seen, draining)
    };
    let (held, changed) = tokio::join!(client.call("one__hold", r#"{"key":"k"}"#), change);

    assert_eq!(held.text(), "released");
    assert_eq!(
        changed,
        (json!(["one"]), json!("v2"), vec!["one".to_owned()])
    );
    assert_ne!(pids(&gateway).await["one"], before["one"]);
    let old = u32::try_from(before["one"]).unwrap();
    eventually_async(DEADLINE, "the old instance is gone", async || {
        let is_over = draining(&gateway).await.is_empty() && !is_alive(old);
        is_over.then_some(())
    })
    .await;
}

#[tokio::test]
async fn tools_never_vanish_from_the_list_while_their_server_is_replaced() {
    let mut servers = json!({"one": stdio(&[]), "other": stdio(&[])});
    let gateway = gateway(&servers).await;
    let client = ModernClient::new(gateway.url());
    let expected = client.tool_names().await;

    let (done, mut is_done) = oneshot::channel();
    let change = async {
        for turn in 0..3 {
            servers["one"] = stdio_with(
                &["--start-delay-ms", "150"],
                &json!({"env": {"TURN": turn.to_string()}}),
            );
            let report = apply(&gateway, &config(&servers)).await;
            assert_eq!(report["servers"]["changed"], json!(["one"]));
        }
        done.send(()).unwrap();
    };
    let look = async {
        let mut looks = 0;
        while is_done.try_recv().is_err() {
            let list = client.request("tools/list", "{}").await;
            assert_eq!(list.names(), expected, "look {looks}");
            looks += 1;
        }
        looks
    };
    let ((), looks) = tokio::join!(change, look);

    assert!(looks > 3, "{looks}");
}

#[tokio::test]
async fn a_removed_server_is_gone_at_once_while_its_call_in_flight_ends() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let servers = json!({"one": held_server(&control, "v1"), "other": stdio(&[])});
    let gateway = gateway(&servers).await;
    let client = ModernClient::new(gateway.url());

    let change = async {
        control.wait_held("k").await;
        let left = config(&json!({"other": servers["other"]}));
        let report = apply(&gateway, &left).await;
        assert_eq!(report["servers"]["removed"], json!(["one"]));
        let names = client.tool_names().await;
        let refused = client.call("one__echo", "{}").await.error().code;
        let draining = draining(&gateway).await;
        let shown = gateway.run(&["status"]).stdout;
        control.release("k");
        assert!(
            names.iter().all(|name| !name.starts_with("one__")),
            "{names:?}"
        );
        assert!(names.contains(&"other__echo".to_owned()));
        assert!(
            shown.contains("\none: an older instance drains, held by "),
            "{shown}"
        );
        (refused, draining)
    };
    let (held, changed) = tokio::join!(client.call("one__hold", r#"{"key":"k"}"#), change);

    assert_eq!(held.text(), "released");
    assert_eq!(changed, (-32602, vec!["one".to_owned()]));
}

#[tokio::test]
async fn clients_hear_once_of_a_commit_that_changes_their_tools_and_not_of_another() {
    let mut servers = json!({"one": stdio(&["--tools-only"])});
    let gateway = gateway(&servers).await;
    let legacy = LegacyClient::connect(gateway.url(), "2025-11-25").await;
    let stream = legacy.listen().await;
    let heard = || {
        let methods = stream.transcript().methods();
        methods.iter().filter(|method| *method == CHANGED).count()
    };

    // Nothing that a client sees.
    let mut file = config(&servers);
    file["shutdown"] = json!({"drain_s": 7});
    assert_eq!(apply(&gateway, &file).await["changed"], true);
    file["mcp_servers"]["one"]["env"] = json!({"A": "a"});
    assert_eq!(
        apply(&gateway, &file).await["servers"]["changed"],
        json!(["one"])
    );
    assert_eq!(heard(), 0);
    servers = file["mcp_servers"].clone();
    for wanted in 1..=2 {
        let name = format!("tool_{wanted}");
        servers["one"]["args"] = json!(["--tools-only", "--tool-name", name]);
        file["mcp_servers"] = servers.clone();
        apply(&gateway, &file).await;
        let told = eventually_async(DEADLINE, "the change is heard", async || {
            (heard() >= wanted).then_some(())
        });
        told.await;
        // The list that it is told of is served.
        let names = legacy.tool_names().await;
        assert!(names.contains(&format!("one__{name}")), "{names:?}");
    }
    // What was told before this answer would have come by now.
    file["shutdown"] = json!({"drain_s": 8});
    apply(&gateway, &file).await;
    legacy.tool_names().await;
    assert_eq!(heard(), 2);
}

#[tokio::test]
async fn a_call_that_outlives_the_drain_of_its_instance_is_ended_and_says_so() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let mut servers = json!({"one": held_server(&control, "v1")});
    let gateway = gateway(&servers).await;
    let client = ModernClient::new(gateway.url());

    let change = async {
        control.wait_held("k").await;
        servers["one"] = held_server(&control, "v2");
        let mut file = config(&servers);
        file["drain_s"] = json!(0.1);
        apply(&gateway, &file).await;
    };
    let (held, ()) = tokio::join!(client.call("one__hold", r#"{"key":"k"}"#), change);

    assert!(held.is_tool_error(), "{held:?}");
    let meta = &held.result()["_meta"];
    assert_eq!(meta["genlock/may_have_run"], true, "{held:?}");
    assert_eq!(version(&client).await, "v2");
    assert!(draining(&gateway).await.is_empty());
}

#[tokio::test]
async fn a_call_to_another_server_holds_no_instance_that_was_replaced() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let mut servers = json!({"one": held_server(&control, "v1"), "two": stdio(&[])});
    let gateway = gateway(&servers).await;
    let client = ModernClient::new(gateway.url());
    let old = u32::try_from(pids(&gateway).await["two"]).unwrap();

    let change = async {
        control.wait_held("k").await;
        servers["two"] = stdio(&["--tools-only"]);
        apply(&gateway, &config(&servers)).await;
        eventually_async(DEADLINE, "the old instance is gone", async || {
            (!is_alive(old)).then_some(())
        })
        .await;
        assert!(draining(&gateway).await.is_empty());
        control.release("k");
    };
    let (held, ()) = tokio::join!(client.call("one__hold", r#"{"key":"k"}"#), change);

    assert_eq!(held.text(), "released");
}
