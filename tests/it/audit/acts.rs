use std::{io::Write as _, net::TcpStream};

use genlock_testkit::{
    clients::{ApiClient, ControlClient},
    harness::{Control, GenlockProcess, eventually_async},
};
use serde_json::{Value, json};

use super::{boot, owner, record, recorded};
use crate::{
    access,
    stage::{self, stdio, wait_ready},
};

fn config(servers: &Value) -> Value {
    json!({"config_reload": {"enabled": false}, "mcp_servers": servers})
}

async fn gateway(servers: &Value) -> (GenlockProcess, ControlClient) {
    let gateway = stage::start(&config(servers));
    wait_ready(&gateway).await;
    let control = ControlClient::connect(&gateway.socket()).await.unwrap();
    (gateway, control)
}

async fn ask(control: &ControlClient, method: &str, params: Value) -> Value {
    control.request(method, &params.to_string()).await.result()
}

async fn session(gateway: &GenlockProcess, control: &ControlClient) -> String {
    let cwd = gateway.scratch().path();
    let params = json!({"request_id": "r", "source": "cli", "cwd": cwd});
    let created = ask(control, "session.create", params).await;
    created["session_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn keys_leave_a_record_each_also_where_no_gateway_runs() {
    let (mut gateway, _) = gateway(&json!({})).await;
    let make = |name: &str| {
        let args = [
            "keys",
            "create",
            "--principal",
            name,
            "--tenant",
            "red",
            "--group",
            "x",
            "--format",
            "json",
        ];
        let made: Value = serde_json::from_str(&gateway.run(&args).stdout).unwrap();
        made["id"].as_str().unwrap().to_owned()
    };

    let online = make("svc:a");
    gateway.run(&["keys", "revoke", &online]);
    gateway.run(&["keys", "revoke", "key_0"]);
    gateway.run(&["keys", "list"]);
    gateway.stop();
    let args = ["keys", "create", "--principal", "svc:b", "--format", "json"];
    let offline: Value = serde_json::from_str(&gateway.run(&args).stdout).unwrap();

    let of = |action: &str, id: &Value, detail: &str| {
        record(&gateway, action, &json!({"target": id, "detail": detail}))
    };
    let (online, offline) = (json!(online), offline["id"].clone());
    let expected = [
        boot(&gateway),
        of("key.create", &online, "of svc:a, tenant red, group x"),
        of("key.revoke", &online, "of svc:a, tenant red, group x"),
        of("key.create", &offline, "of svc:b"),
    ];
    assert_eq!(recorded(&gateway), expected);
}

#[tokio::test]
async fn what_reloads_change_and_what_of_them_is_refused_is_recorded_with_its_cause() {
    let one = json!({"one": stdio(&[])});
    let (gateway, control) = gateway(&one).await;

    gateway.run(&["reload"]);
    let two = json!({"one": stdio(&[]), "two": stdio(&[])});
    gateway.write_config(&config(&two).to_string());
    gateway.run(&["reload", "--dry-run"]);
    gateway.run(&["reload"]);
    gateway.run(&["generations", "rollback", "1"]);
    ask(&control, "reload.mcp", json!({"confirm": true})).await;
    gateway.write_config("no_such_key: 1");
    let api = ApiClient::new(gateway.url());
    let refused = api.post("/api/config/reload", "{}").await;
    let export = api.post("/api/config/export", "{}").await;

    assert_eq!((refused.status, export.status), (422, 200));
    let refused = json!({"action": "config.reload", "outcome": "refused"});
    let refused_records = super::wait_for(&gateway, &refused, 1).await;
    assert_eq!(refused_records.len(), 1);
    let under = |action: &str, generation: u64, detail: &str| {
        record(
            &gateway,
            action,
            &json!({"generation": generation, "detail": detail}),
        )
    };
    let mut expected = vec![
        boot(&gateway),
        under("config.reload", 2, "by api: 1 added, 0 changed, 0 removed"),
        under(
            "generation.rollback",
            3,
            "by rollback: 0 added, 0 changed, 1 removed",
        ),
        under(
            "config.reload",
            4,
            "by reload_mcp: 1 added, 0 changed, 0 removed",
        ),
        under("config.export", 4, ""),
        under("config.reload", 4, "by api"),
    ];
    expected[2]["target"] = json!("generation 1");
    expected[4]["actor"] = json!("local:http");
    let last = json!({"actor": "local:http", "outcome": "refused", "code": "config.invalid"});
    expected[5]
        .as_object_mut()
        .unwrap()
        .extend(last.as_object().unwrap().clone());
    assert_eq!(recorded(&gateway), expected);
}

#[tokio::test]
async fn sessions_and_their_transitions_are_recorded() {
    let (gateway, control) = gateway(&json!({"one": stdio(&[])})).await;
    let id = session(&gateway, &control).await;
    let of_session = || json!({ "session_id": id });

    ask(&control, "session.rotate_token", of_session()).await;
    ask(&control, "session.resume", of_session()).await;
    let two = json!({"one": stdio(&[]), "two": stdio(&[])});
    gateway.write_config(&config(&two).to_string());
    ask(&control, "session.resume", of_session()).await;
    gateway.write_config(&config(&json!({"two": stdio(&[])})).to_string());
    let reload = json!({"session_id": id, "confirm": true});
    ask(&control, "reload.mcp", reload).await;
    ask(&control, "session.get", of_session()).await;
    ask(&control, "session.close", of_session()).await;

    let of = |action: &str, generation: u64, detail: &str| {
        let more = json!({"generation": generation, "target": id, "detail": detail});
        record(&gateway, action, &more)
    };
    let reload = |generation: u64, detail: &str| {
        let more = json!({"generation": generation, "detail": detail});
        record(&gateway, "config.reload", &more)
    };
    let expected = [
        boot(&gateway),
        of("session.create", 1, "policy 1"),
        of("session.rotate_token", 1, ""),
        of("session.resume", 1, "unchanged, policy 1"),
        reload(2, "by resume: 1 added, 0 changed, 0 removed"),
        of("session.resume", 2, "applied, policy 2"),
        of("session.transition", 2, "by session.resume, policy 2"),
        reload(3, "by reload_mcp: 0 added, 0 changed, 1 removed"),
        of("session.transition", 3, "by reload.mcp, policy 3"),
        of("session.close", 3, ""),
    ];
    assert_eq!(recorded(&gateway), expected);
}

#[tokio::test]
async fn what_is_done_to_turns_and_servers_is_recorded_with_what_was_refused_of_it() {
    let scratch = stage::scratch();
    let held = Control::new(&scratch, "control");
    let (mut gateway, control) = gateway(&json!({"one": stdio(&["--control", held.arg()])})).await;
    let id = session(&gateway, &control).await;
    let submit = async |name: &str| {
        let call = json!({"server": "one", "tool": "hold", "arguments": {"key": name}});
        let params = json!({"session_id": id, "submission_id": name, "payload": {"calls": [call]}});
        let receipt = ask(&control, "turn.submit", params).await;
        receipt["turn_id"].as_str().unwrap().to_owned()
    };
    let (first, second) = (submit("a").await, submit("b").await);
    held.wait_held("a").await;
    ask(&control, "turn.cancel", json!({ "turn_id": second })).await;
    let again = json!({ "turn_id": second }).to_string();
    control.request("turn.cancel", &again).await;
    ask(&control, "server.restart", json!({"name": "one"})).await;
    let unknown = json!({"name": "none"}).to_string();
    control.request("server.probe", &unknown).await;
    let refused = super::wait_for(&gateway, &json!({"outcome": "refused"}), 2).await;
    gateway.kill9();
    gateway.start_again();
    let control = ControlClient::connect(&gateway.socket()).await.unwrap();
    let resolve = json!({"turn_id": first, "outcome": "failed"});
    ask(&control, "turn.resolve_unknown", resolve).await;

    let of = |action: &str, target: &str, detail: &str| {
        record(
            &gateway,
            action,
            &json!({"target": target, "detail": detail}),
        )
    };
    let with = |action: &str, target: &str, code: &str| {
        let more = json!({"target": target, "outcome": "refused", "code": code});
        record(&gateway, action, &more)
    };
    let expected = [
        boot(&gateway),
        of("session.create", &id, "policy 1"),
        of(
            "turn.cancel",
            &second,
            &format!("of session {id}: cancelled"),
        ),
        of("server.restart", "one", "ready"),
        with("turn.cancel", &second, "conflict"),
        with("server.probe", "none", "not_found"),
        boot(&gateway),
        of(
            "turn.resolve_unknown",
            &first,
            &format!("of session {id}: failed"),
        ),
    ];
    assert_eq!((refused.len(), recorded(&gateway)), (2, expected.to_vec()));
}

#[tokio::test]
async fn a_start_on_the_last_good_generation_is_recorded_as_degraded() {
    let (mut gateway, _) = gateway(&json!({})).await;
    gateway.stop();
    gateway.write_config("no_such_key: 1");
    gateway.start_again();

    let mut degraded = boot(&gateway);
    degraded["detail"] = json!("degraded: config.invalid");
    assert_eq!(recorded(&gateway), [boot(&gateway), degraded]);
    assert_ne!(owner(&gateway), "system");
}

#[tokio::test]
async fn an_act_is_done_and_recorded_also_where_its_client_goes_away() {
    let slow = json!({"one": stdio(&["--start-delay-ms", "1000"])});
    let gateway = stage::start(&access::config("egress", &slow));
    let control = ControlClient::connect(&gateway.socket()).await.unwrap();
    let is_ready = async |wanted: bool| {
        let what = format!("whether the server is ready is {wanted}");
        eventually_async(stage::DEADLINE, &what, async || {
            let shown = ask(&control, "server.get", json!({"name": "one"})).await;
            (shown["ready"] == wanted).then_some(())
        })
        .await;
    };
    is_ready(true).await;
    let (key, id) = access::make(&gateway, &["--principal", "svc:operator"]);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"server.restart","params":{"name":"one"}}"#;
    let request = format!(
        "POST /api/rpc HTTP/1.1\r\nhost: localhost\r\n{}: {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        access::HEADER,
        body.len()
    );
    let address = gateway.url().split('/').nth(2).unwrap();

    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    is_ready(false).await;
    drop(client);

    let wanted = json!({"action": "server.restart"});
    let found = super::wait_for(&gateway, &wanted, 1).await;
    let who = ["actor", "key", "target", "detail"].map(|name| found[0][name].clone());
    assert_eq!(
        who,
        ["key:svc:operator", &id, "one", "ready"].map(Value::from)
    );
}
