//! Why a tool is not there any more, and what would bring it back.

use serde_json::{Value, json};

use super::{ask, gateway, lift, revoke};
use crate::stage::{self, stdio};

/// The gate that decided, whether the tool is listed, whether it can be called, and the remedy.
fn told(explained: &Value) -> [Value; 4] {
    ["decided_by", "listed", "callable", "remedy"].map(|field| explained[field].clone())
}

#[tokio::test]
async fn what_is_revoked_is_explained_by_it_with_the_number_that_lifts_it() {
    let scratch = stage::scratch();
    let (gateway, control) = gateway(&json!({"one": stdio(&[])})).await;
    let params = json!({"request_id": "r", "source": "cli", "cwd": scratch.path()});
    let session = ask(&control, "session.create", params).await["session_id"].take();
    let made = gateway.run(&["keys", "create", "--principal", "svc:a", "--format", "json"]);
    let key: Value = serde_json::from_str(&made.stdout).unwrap();
    let of_key = |tool: &str| json!({"key_id": key["id"], "tool": tool});
    let of_session = json!({"session_id": session, "tool": "one/echo"});

    for (kind, name) in [("tool", "one/echo"), ("server", "one")] {
        let number = revoke(&control, kind, name).await;
        let remedy = format!("`genlock revoke --lift {number}`");
        let expected = [
            json!("revocation"),
            json!(false),
            json!(false),
            json!(remedy),
        ];
        for params in [of_key("one/echo"), of_key("one__echo"), of_session.clone()] {
            let explained = ask(&control, "explain", params.clone()).await;
            assert_eq!(told(&explained), expected, "{kind} {params}");
        }
        lift(&control, &number).await;
    }
    let number = revoke(&control, "session", session.as_str().unwrap()).await;
    let explained = ask(&control, "explain", of_session).await;
    let remedy = format!("`genlock revoke --lift {number}`");
    assert_eq!(
        told(&explained),
        [json!("session"), json!(false), json!(false), json!(remedy)]
    );
}
