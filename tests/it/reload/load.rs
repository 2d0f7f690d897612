//! Many at once.

use futures_util::future::join_all;
use genlock_testkit::clients::ModernClient;
use serde_json::json;
use tokio::sync::watch;

use super::{apply, ask, config, gateway, head, history, owned, report};
use crate::stage::{stdio, stdio_with};

#[tokio::test]
async fn of_reloads_of_one_edit_at_once_exactly_one_commits() {
    let mut servers = json!({"one": stdio(&[]), "two": stdio(&[])});
    let gateway = gateway(&servers).await;
    servers["two"] = stdio(&["--tools-only"]);
    gateway.write_config(&config(&servers).to_string());

    let asked = (0..8).map(async |_| report(&ask(&gateway, &json!({})).await));
    let reports = join_all(asked).await;

    let changed = reports.iter().filter(|report| report["changed"] == true);
    assert_eq!(changed.count(), 1, "{reports:#?}");
    assert!(
        reports.iter().all(|report| report["generation"] == 2),
        "{reports:#?}"
    );
    assert_eq!(history(&gateway).await, owned(&[(1, "boot"), (2, "api")]));
}

#[tokio::test]
async fn no_call_fails_while_twenty_reloads_edit_another_server() {
    let mut servers = json!({"steady": stdio(&[]), "edited": stdio(&[])});
    let gateway = gateway(&servers).await;
    let (done, is_done) = watch::channel(false);

    let edits = async {
        for turn in 0..20 {
            servers["edited"] = stdio_with(&[], &json!({"env": {"TURN": turn.to_string()}}));
            let report = apply(&gateway, &config(&servers)).await;
            assert_eq!(report["servers"]["changed"], json!(["edited"]));
            assert_eq!(report["servers"]["unavailable"], json!([]));
        }
        done.send(true).unwrap();
    };
    let callers = (0..4).map(async |caller| {
        let client = ModernClient::new(gateway.url());
        let mut calls = 0;
        while !*is_done.borrow() {
            // Every other one to the server that is being replaced.
            let server = if (calls + caller) % 2 == 0 {
                "steady"
            } else {
                "edited"
            };
            let text = format!("{caller}.{calls}");
            let arguments = json!({"text": text}).to_string();
            let answer = client.call(&format!("{server}__echo"), &arguments).await;
            assert_eq!(answer.text(), text, "{answer:?}");
            calls += 1;
        }
        calls
    });
    let ((), calls) = tokio::join!(edits, join_all(callers));

    assert!(calls.iter().all(|calls| *calls > 0), "{calls:?}");
    assert_eq!(head(&gateway).await, 21);
}
