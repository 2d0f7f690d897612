//! Progress of running calls, and their cancellation.

use genlock_testkit::{
    clients::{LegacyClient, ModernClient},
    harness::{Control, FakeServer, GenlockProcess, Scratch, eventually_async},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::stage::{self, DEADLINE, Party, count, stdio};

/// The upstreams: name, era, whether over HTTP.
const UPSTREAMS: [(&str, &str, bool); 4] = [
    ("pipeold", "legacy", false),
    ("pipenew", "modern", false),
    ("webold", "legacy", true),
    ("webnew", "modern", true),
];

struct Scene {
    gateway: GenlockProcess,
    control: Control,
    _web: Vec<FakeServer>,
    _scratch: Scratch,
}

fn scene() -> Scene {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let mut servers = serde_json::Map::new();
    let mut web = Vec::new();
    for (name, era, over_http) in UPSTREAMS {
        let flags = ["--era", era, "--control", control.arg()];
        let definition = if over_http {
            let server = FakeServer::http(&scratch, name, &flags);
            let definition = json!({"url": server.url()});
            web.push(server);
            definition
        } else {
            stdio(&flags)
        };
        servers.insert(name.to_owned(), definition);
    }
    let gateway = stage::start(&json!({"mcp_servers": servers}));
    Scene {
        gateway,
        control,
        _web: web,
        _scratch: scratch,
    }
}

/// The parameters of the progress reports under a token.
fn reports(notifications: &[String], token: &Value) -> Vec<Value> {
    let parsed = notifications
        .iter()
        .map(|text| serde_json::from_str::<Value>(text).unwrap());
    parsed
        .filter(|message| message["method"] == "notifications/progress")
        .map(|message| message["params"].clone())
        .filter(|params| params["progressToken"] == *token)
        .collect()
}

// === progress ===

#[tokio::test]
async fn progress_comes_under_the_clients_own_token_in_order_and_before_the_answer() {
    let scene = scene();
    for (client, party) in Party::one_of_each(&scene.gateway).await {
        for (server, ..) in UPSTREAMS {
            let token = json!(format!("{client} \u{e9} {server}"));

            let answer = party
                .call_with_token(
                    &format!("{server}__progress"),
                    r#"{"steps":3,"delay_ms":30}"#,
                    &token.to_string(),
                )
                .await;

            assert_eq!(answer.text(), "3 steps done");
            let expected: Vec<_> = (1..=3)
                .map(|step| {
                    json!({"progressToken": token, "progress": step, "total": 3, "message": format!("step {step} of 3")})
                })
                .collect();
            assert_eq!(
                reports(&answer.notifications, &token),
                expected,
                "{client} {server}"
            );
            if let Party::Pipe(pipe) = &party {
                let said = pipe.transcript().messages();
                let last = said
                    .iter()
                    .rposition(|line| line.contains("steps done"))
                    .unwrap();
                assert_eq!(
                    reports(&said[last..], &token),
                    Vec::<Value>::new(),
                    "{client} {server}"
                );
            }
        }
    }
}

#[tokio::test]
async fn an_answer_is_a_stream_only_where_progress_was_asked_for() {
    let scene = scene();
    let arguments = r#"{"steps":2,"delay_ms":30}"#;
    for (client, party) in &Party::one_of_each(&scene.gateway).await[..2] {
        for (server, ..) in UPSTREAMS {
            let tool = format!("{server}__progress");
            let plain = party.call(&tool, arguments).await;
            let told = party.call_with_token(&tool, arguments, "7").await;

            assert_eq!(
                plain.header("content-type"),
                Some("application/json"),
                "{client} {server}"
            );
            assert_eq!(plain.notifications, [""; 0]);
            assert_eq!(
                told.header("content-type"),
                Some("text/event-stream"),
                "{client} {server}"
            );
            assert_eq!(told.header("x-accel-buffering"), Some("no"));
            assert_eq!(told.notifications.len(), 2);
        }
    }
}

#[tokio::test]
async fn a_client_that_takes_json_only_gets_json_whatever_it_asks_for() {
    let scene = scene();
    let client = ModernClient::new(scene.gateway.url());

    let answer = client
        .prepare_call("pipenew__progress", r#"{"steps":2,"delay_ms":30}"#)
        .meta("progressToken", "1")
        .header("accept", "application/json")
        .send()
        .await;

    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.text(), "2 steps done");
}

#[tokio::test]
async fn tokens_of_clients_that_choose_the_same_do_not_mix() {
    let scene = scene();
    let clients = Party::one_of_each(&scene.gateway).await;
    let calls = clients.iter().enumerate().map(async |(index, (_, party))| {
        let steps = index + 2;
        let arguments = json!({"steps": steps, "delay_ms": 30}).to_string();
        let answer = party
            .call_with_token("pipeold__progress", &arguments, "1")
            .await;
        (steps, reports(&answer.notifications, &json!(1)))
    });

    for (steps, reports) in futures_util::future::join_all(calls).await {
        let totals: Vec<_> = reports
            .iter()
            .map(|report| report["total"].clone())
            .collect();
        assert_eq!(totals, vec![json!(steps); steps]);
    }
}

// === cancellation ===

/// Waits until the fake server behind the prefix has seen this many cancellations.
async fn wait_cancelled(client: &ModernClient, server: &str, wanted: u64) {
    eventually_async(
        DEADLINE,
        &format!("{server} hears {wanted} cancellations"),
        async || {
            let known = client.call(&format!("{server}__cancelled"), "{}").await;
            (known.structured()["count"] == wanted).then_some(())
        },
    )
    .await;
}

/// Starts a call of `hold`, waits until it runs, and cancels it in the way of the client.
async fn cancel_a_call(scene: &Scene, party: &Party, tool: &str, key: &str) {
    let arguments = json!({"key": key}).to_string();
    let params = json!({"name": tool, "arguments": {"key": key}}).to_string();
    match party {
        Party::Modern(client) => {
            let call = client.prepare_call(tool, &arguments);
            let mut calls = JoinSet::new();
            calls.spawn(call.try_send());
            scene.control.wait_held(key).await;
            // In this era the end of the connection is the cancellation.
            calls.abort_all();
        }
        Party::Legacy(client) => {
            let (id, other) = (client.mint_id(), client.clone());
            let mut calls = JoinSet::new();
            let running = id.clone();
            calls.spawn(async move { other.start(&running, "tools/call", &params).await });
            scene.control.wait_held(key).await;
            assert_eq!(client.cancel(&id).await.status, 202);
            let answer = calls.join_next().await.unwrap().unwrap().unwrap();
            assert_eq!(answer.error().data, Some(json!({"reason": "cancelled"})));
        }
        Party::Pipe(client) => {
            let id = client.start_call(tool, &arguments).await;
            scene.control.wait_held(key).await;
            client.cancel(&id).await;
        }
    }
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_its_server_over_every_pair_of_eras_and_transports() {
    let scene = scene();
    let watcher = ModernClient::new(scene.gateway.url());
    for (turn, (_, party)) in Party::one_of_each(&scene.gateway).await.iter().enumerate() {
        for (server, ..) in UPSTREAMS {
            let before = turn as u64;
            cancel_a_call(
                &scene,
                party,
                &format!("{server}__hold"),
                &format!("{server}{turn}"),
            )
            .await;
            wait_cancelled(&watcher, server, before + 1).await;
            // The connection serves on, and nothing of the call is left.
            assert_eq!(
                party
                    .call(&format!("{server}__echo"), r#"{"text":"on"}"#)
                    .await
                    .text(),
                "on"
            );
            assert_eq!(
                count(&watcher, server, "running").await,
                running_now(server)
            );
        }
    }
}

/// What runs at a server while nobody calls: in the modern era, the listening for changes.
fn running_now(server: &str) -> u64 {
    u64::from(server.ends_with("new"))
}

#[tokio::test]
async fn a_cancelled_call_on_a_pipe_is_not_answered() {
    let scene = scene();
    let [.., (_, modern), (_, legacy)] = Party::one_of_each(&scene.gateway).await;
    for (key, party) in [("m", modern), ("l", legacy)] {
        let Party::Pipe(client) = &party else {
            panic!("a pipe")
        };
        let id = client
            .start_call("pipeold__hold", &json!({"key": key}).to_string())
            .await;
        scene.control.wait_held(key).await;

        client.cancel(&id).await;
        scene.control.release(key);

        // Whatever was to come for it would come before this.
        client.call("pipeold__echo", "{}").await;
        let said = client.transcript().messages();
        let begin = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
        assert!(
            !said.iter().any(|line| line.starts_with(&begin)),
            "{said:?}"
        );
    }
}

#[tokio::test]
async fn a_legacy_client_that_goes_away_cancels_nothing() {
    let scene = scene();
    let watcher = ModernClient::new(scene.gateway.url());
    let client = LegacyClient::connect(scene.gateway.url(), "2025-11-25").await;
    for (server, ..) in UPSTREAMS {
        let (other, id) = (client.clone(), client.mint_id());
        let params = json!({"name": format!("{server}__hold"), "arguments": {"key": server}});
        let mut calls = JoinSet::new();
        calls.spawn(async move { other.start(&id, "tools/call", &params.to_string()).await });
        scene.control.wait_held(server).await;

        calls.shutdown().await;
        client.call(&format!("{server}__echo"), "{}").await;

        // The call goes on.
        assert_eq!(
            count(&watcher, server, "running").await,
            running_now(server) + 1
        );
        scene.control.release(server);
        eventually_async(DEADLINE, "the call ends", async || {
            (count(&watcher, server, "running").await == running_now(server)).then_some(())
        })
        .await;
        let cancelled = watcher.call(&format!("{server}__cancelled"), "{}").await;
        assert_eq!(cancelled.structured(), json!({"count": 0, "ids": []}));
    }
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_and_cancelled_at_its_server() {
    let scratch = stage::scratch();
    let web = FakeServer::http(&scratch, "web", &["--era", "modern"]);
    let gateway = stage::start(&json!({"mcp_servers": {
        "pipe": stage::stdio_with(&["--era", "legacy"], &json!({"timeout": 1})),
        "web": {"url": web.url(), "timeout": 1},
    }}));
    let client = ModernClient::new(gateway.url());
    for server in ["pipe", "web"] {
        let answer = client.call(&format!("{server}__hang"), "{}").await.result();

        let text = format!("server `{server}`: no answer within the deadline");
        assert_eq!(answer["content"], json!([{"type": "text", "text": text}]));
        assert_eq!(answer["_meta"]["genlock/reason"], "deadline_exceeded");
        assert_eq!(answer["_meta"]["genlock/may_have_run"], true);
        wait_cancelled(&client, server, 1).await;
    }
}

#[tokio::test]
async fn progress_does_not_extend_the_time_of_a_call() {
    let scratch = stage::scratch();
    let web = FakeServer::http(&scratch, "web", &["--era", "modern"]);
    let gateway = stage::start(&json!({"mcp_servers": {
        "pipe": stage::stdio_with(&["--era", "legacy"], &json!({"timeout": 1})),
        "web": {"url": web.url(), "timeout": 1},
    }}));
    let client = Party::Modern(ModernClient::new(gateway.url()));
    for server in ["pipe", "web"] {
        let tool = format!("{server}__progress");
        let arguments = r#"{"steps":100,"delay_ms":100}"#;
        let answer = client.call_with_token(&tool, arguments, "7").await;

        // Ten seconds of progress, of which one was waited for.
        let heard = answer.notifications.len();
        assert!((1..=20).contains(&heard), "{server}: {heard}");
        let meta = answer.result()["_meta"].clone();
        assert_eq!(meta["genlock/reason"], "deadline_exceeded", "{server}");
    }
}
