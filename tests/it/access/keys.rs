use genlock_testkit::harness::{GenlockProcess, Scratch, eventually_async};
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

#[tokio::test]
async fn a_key_that_is_replaced_is_taken_for_its_grace_and_the_new_one_is_of_the_same_principal() {
    let mut gateway = start(&config("egress", &servers()));
    let args = [
        "--principal",
        "ops:a",
        "--group",
        "admins",
        "--expires",
        "9h",
    ];
    let (key, id) = make(&gateway, &args);
    let rotate = |id: &str, grace: &str| {
        gateway.run(&["keys", "rotate", id, "--grace", grace, "--format", "json"])
    };
    let status = async |key: &str| api(&gateway, key).get("/api/servers").await.status;

    let made = ran(&rotate(&id, "1h"));
    let new = made["key"].as_str().unwrap();
    assert_eq!((status(&key).await, status(new).await), (200, 200));
    assert_eq!(
        (&made["principal"], &made["replaces"]),
        (&json!("ops:a"), &json!(id))
    );
    // Once is enough: whoever asks again has the new one.
    let again = rotate(&id, "1h");
    assert_eq!(again.code, Some(64), "{again:?}");
    assert!(
        again.stderr.contains("another key replaces it already"),
        "{again:?}"
    );
    // At once, where that is asked for.
    let second = made["id"].as_str().unwrap().to_owned();
    let last = ran(&rotate(&second, "0"));
    let last = last["key"].as_str().unwrap().to_owned();
    assert_eq!((status(new).await, status(&last).await), (401, 200));

    let used = |gateway: &GenlockProcess| {
        let keys = ran(&gateway.run(&["keys", "list", "--format", "json"]))["keys"].clone();
        let keys = keys.as_array().unwrap().clone();
        let of = |key: &Value| (key["id"].clone(), key["last_used_at"].clone());
        keys.iter().map(of).collect::<Vec<_>>()
    };
    let before = used(&gateway);
    assert!(before.iter().all(|(_, at)| at.is_string()), "{before:?}");
    let (old_key, new_key) = (key.clone(), last.clone());
    gateway.stop();
    gateway.start_again();
    assert_eq!(used(&gateway), before);
    let status = async |key: &str| api(&gateway, key).get("/api/servers").await.status;
    assert_eq!((status(&old_key).await, status(&new_key).await), (200, 200));
}
