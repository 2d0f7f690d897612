use genlock_testkit::harness::{Scratch, eventually_async};
use serde_json::{Value, json};

use super::{admin, api, caller, config, make, modern, ran, start};
use crate::stage::{DEADLINE, stdio};

fn servers() -> Value {
    json!({"one": stdio(&[])})
}

#[tokio::test]
async fn a_key_is_taken_at_once_until_it_is_revoked_and_survives_a_restart() {
    let mut gateway = start(&config("egress", &servers()));
    let (key, id) = make(&gateway, &["--principal", "ops:a", "--group", "admins"]);
    assert_eq!(api(&gateway, &key).get("/api/servers").await.status, 200);

    gateway.stop();
    let (offline, _) = make(&gateway, &["--principal", "ops:b", "--group", "admins"]);
    gateway.start_again();
    for key in [&key, &offline] {
        assert_eq!(api(&gateway, key).get("/api/servers").await.status, 200);
    }
    let revoked = ran(&gateway.run(&["keys", "revoke", &id, "--format", "json"]));

    assert!(revoked["revoked_at"].is_string());
    assert_eq!(api(&gateway, &key).get("/api/servers").await.status, 401);
    gateway.stop();
    gateway.start_again();
    assert_eq!(api(&gateway, &key).get("/api/servers").await.status, 401);
    assert_eq!(
        api(&gateway, &offline).get("/api/servers").await.status,
        200
    );
}

#[tokio::test]
async fn a_key_expires() {
    let gateway = start(&config("egress", &servers()));
    let args = [
        "--principal",
        "ops:a",
        "--group",
        "admins",
        "--expires",
        "1s",
    ];
    let (key, _) = make(&gateway, &args);

    let ended = async || (api(&gateway, &key).get("/api/status").await.status == 401).then_some(());
    eventually_async(DEADLINE, "the key is not taken any more", ended).await;
}

#[tokio::test]
async fn a_key_is_shown_once_and_stands_nowhere() {
    let mut config = config("egress", &servers());
    config["auth"]["storage"] = json!({"driver": "sqlite"});
    let mut gateway = start(&config);
    let (key, id) = make(
        &gateway,
        &[
            "--principal",
            "svc:a",
            "--tenant",
            "t",
            "--group",
            "callers",
        ],
    );
    let listed = gateway.run(&["keys", "list", "--format", "json"]);
    modern(&gateway, &key).tool_names().await;
    gateway.stop();

    let shown = ran(&listed)["keys"][0].clone();
    assert_eq!(shown["id"], id);
    assert_eq!(
        (&shown["principal"], &shown["tenant"], &shown["groups"]),
        (&json!("svc:a"), &json!("t"), &json!(["callers"]))
    );
    let secret = &key[4..47];
    assert!(!listed.stdout.contains(secret) && !gateway.log().contains(secret));
    let files = gateway.state_files();
    assert!(files.iter().any(|(path, _)| path.ends_with("auth.db")));
    for (path, bytes) in files {
        let found = bytes
            .windows(secret.len())
            .any(|window| window == secret.as_bytes());
        assert!(!found, "{}", path.display());
    }
}

#[tokio::test]
async fn keys_are_where_the_config_says_before_the_first_start_as_well() {
    let scratch = Scratch::new();
    let file = scratch.join("keys.db");
    let mut config = config("egress", &servers());
    config["auth"]["storage"] = json!({"driver": "sqlite", "path": file});
    let mut gateway = start(&config);
    gateway.stop();
    std::fs::remove_dir_all(gateway.state_dir()).unwrap();
    for suffix in ["", "-wal", "-shm", ".present"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", file.display()));
    }

    let key = caller(&gateway, "svc:a", None);

    assert!(file.exists());
    gateway.start_again();
    modern(&gateway, &key).tool_names().await;
}

#[tokio::test]
async fn what_cannot_be_a_key_is_refused() {
    let gateway = start(&config("egress", &servers()));
    for args in [
        &["create", "--principal", "anonymous"][..],
        &["create", "--principal", "group:admins"],
        &["create", "--principal", "a b"],
        &["create", "--principal", "a", "--tenant", ""],
        &["create", "--principal", "a", "--group", "group:x"],
        &["revoke", "key_0"],
    ] {
        let refused = gateway.run(&[&["keys"], args].concat());
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (Some(64), ""),
            "{args:?}"
        );
    }
    let none = ran(&gateway.run(&["keys", "list", "--format", "json"]));
    assert_eq!(none, json!({"keys": []}));
}

#[tokio::test]
async fn only_an_admin_manages_keys_over_http() {
    let gateway = start(&config("egress", &servers()));
    let (admin, (operator, _)) = (
        admin(&gateway),
        make(&gateway, &["--principal", "svc:operator"]),
    );
    let ask = async |key: &str| {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"key.list","params":{}}"#;
        api(&gateway, key).post("/api/rpc", body).await.json()
    };

    assert_eq!(
        ask(&operator).await["error"]["data"],
        json!({"reason": "permission_denied", "detail": "this needs the permission `key:manage`"})
    );
    let listed = ask(&admin).await["result"]["keys"].clone();
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
}
