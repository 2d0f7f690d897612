use genlock_testkit::clients::{ApiClient, ModernClient};
use serde_json::{Value, json};

use super::{NOT_FOUND, admin, api, apply, caller, config, make, modern, start, wait_for_tools};
use crate::stage::stdio;

fn servers() -> Value {
    json!({"one": {"command": stdio(&[])["command"], "tools": {"allow": ["echo"]}}})
}

#[tokio::test]
async fn roles_are_those_of_the_generation_in_force() {
    let with = config("front_door", &servers());
    let gateway = start(&with);
    let key = caller(&gateway, "svc:a", Some("tenant:a"));
    let client = modern(&gateway, &key);
    wait_for_tools(&client, &["one__echo"]).await;
    let mut without = with.clone();
    without["auth"]["role_assignments"] = json!([]);

    apply(&gateway, &without).await;

    assert_eq!(client.tool_names().await, [""; 0]);
    let refused = client.call("one__echo", r#"{"text":"x"}"#).await;
    assert_eq!((refused.status, refused.error().code), (200, NOT_FOUND));
    apply(&gateway, &with).await;
    let served = client.call("one__echo", r#"{"text":"x"}"#).await;
    assert_eq!(served.text(), "x");
}

#[tokio::test]
async fn auth_that_is_turned_on_is_on_for_the_next_request() {
    let closed = config("egress", &servers());
    let mut open = closed.clone();
    open["auth"] = json!({"enabled": false});
    let gateway = start(&open);
    let local = ApiClient::new(gateway.url());
    assert_eq!(local.get("/api/status").await.status, 200);

    apply(&gateway, &closed).await;

    assert_eq!(local.get("/api/status").await.status, 401);
    let mcp = ModernClient::new(gateway.url());
    assert_eq!(mcp.request("tools/list", "{}").await.status, 401);
    let key = admin(&gateway);
    assert_eq!(api(&gateway, &key).get("/api/status").await.status, 200);
}

#[tokio::test]
async fn rules_of_tools_follow_the_file() {
    let mut config = config("front_door", &servers());
    let gateway = start(&config);
    let client = modern(&gateway, &caller(&gateway, "svc:a", Some("tenant:a")));
    wait_for_tools(&client, &["one__echo"]).await;

    config["mcp_servers"]["one"]["tool_access"] = json!({"member": {"tenant:a": {"deny": ["e*"]}}});
    apply(&gateway, &config).await;
    wait_for_tools(&client, &[]).await;
    config["mcp_servers"]["one"]["tool_access"] = json!({"member": {"tenant:b": {"deny": ["e*"]}}});
    apply(&gateway, &config).await;
    wait_for_tools(&client, &["one__echo"]).await;
}

#[tokio::test]
async fn another_mode_is_refused_and_nothing_is_touched() {
    let gateway = start(&config("front_door", &servers()));
    let (client, admin) = (
        modern(&gateway, &caller(&gateway, "svc:a", Some("tenant:a"))),
        admin(&gateway),
    );
    wait_for_tools(&client, &["one__echo"]).await;
    gateway.write_config(&config("egress", &servers()).to_string());

    let refused = api(&gateway, &admin).post("/api/config/reload", "{}").await;

    assert_eq!(refused.status, 409);
    assert_eq!(refused.json()["error"]["code"], "restart_required");
    assert_eq!(client.tool_names().await, ["one__echo"]);
    let head = api(&gateway, &admin).get("/api/generations").await.json()["head"].clone();
    assert_eq!(head, 1);
}

#[tokio::test]
async fn a_stream_of_a_revoked_key_hears_of_nothing_more() {
    let mut config = config("front_door", &servers());
    let gateway = start(&config);
    let args = [
        "--principal",
        "svc:a",
        "--tenant",
        "t",
        "--group",
        "callers",
    ];
    let (good, _) = make(&gateway, &args);
    let (revoked, id) = make(&gateway, &args);
    wait_for_tools(&modern(&gateway, &good), &["one__echo"]).await;
    let filter = r#"{"toolsListChanged":true}"#;
    let streams = [&good, &revoked].map(|key| modern(&gateway, key));
    let [of_good, of_revoked] = [
        streams[0].listen(filter).await,
        streams[1].listen(filter).await,
    ];
    let acknowledged = "notifications/subscriptions/acknowledged";
    for stream in [&of_good, &of_revoked] {
        stream.transcript().wait_for(acknowledged).await;
    }
    assert_eq!(gateway.run(&["keys", "revoke", &id]).code, Some(0));

    config["mcp_servers"]["one"]["tools"] = json!({"deny": ["*"]});
    apply(&gateway, &config).await;

    let changed = "notifications/tools/list_changed";
    of_good.transcript().wait_for(changed).await;
    of_revoked.transcript().wait_for_end().await;
    assert!(of_revoked.transcript().has_ended());
    let told = of_revoked.transcript().methods();
    assert!(!told.iter().any(|method| method == changed), "{told:?}");
}
