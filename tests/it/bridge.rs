//! `genlock serve --stdio`: all windows share one gateway, and none of them depends on another.

use genlock_testkit::{
    clients::{LEGACY, LegacyClient, ModernClient, StdioClient, StdioCommand},
    harness::{Control, Scratch, eventually_async, starts},
};
use serde_json::{Value, json};

use crate::stage::{self, DEADLINE, stdio, stdio_command, stdio_command_in};

/// A directory with a config of one server, whose starts are written down.
fn scene() -> (Scratch, Control, Value) {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let log = scratch.join("starts");
    let flags = [
        "--control",
        control.arg(),
        "--start-log",
        log.to_str().unwrap(),
    ];
    let config = json!({"mcp_servers": {"one": stdio(&flags)}});
    scratch.write("genlock.yaml", &config.to_string());
    scratch.dir("state");
    (scratch, control, config)
}

/// The answer to a call whose gateway went away.
fn assert_lost(answer: &genlock_testkit::clients::Answer) {
    let error = answer.error();
    assert_eq!(
        (error.code, error.data),
        (4001, Some(json!({"reason": "outcome_unknown"})))
    );
    assert_eq!(
        error.message,
        "the gateway went away before it answered; the call may have run"
    );
}

fn answers_to(client: &StdioClient, id: &str) -> usize {
    let begin = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
    client
        .transcript()
        .messages()
        .iter()
        .filter(|line| line.starts_with(&begin))
        .count()
}

#[tokio::test]
async fn windows_share_the_servers_of_the_first() {
    let (scratch, ..) = scene();
    let command = stdio_command_in(&scratch);
    let first = StdioClient::legacy(&command, LEGACY[0]).await;
    let instance = first.call("one__instance", "{}").await.text();
    let second = StdioClient::modern(&command);
    let third = StdioClient::legacy(&command, LEGACY[2]).await;

    assert_eq!(second.call("one__instance", "{}").await.text(), instance);
    assert_eq!(third.call("one__instance", "{}").await.text(), instance);
    assert_eq!(second.tool_names().await, first.tool_names().await);
    assert_eq!(starts(&scratch.join("starts")).len(), 1);
}

#[tokio::test]
async fn a_window_shares_the_servers_of_a_gateway_over_http() {
    let (scratch, _, config) = scene();
    let log = scratch.join("starts");
    let gateway = stage::start(&config);
    let http = ModernClient::new(gateway.url());
    let window = StdioClient::legacy(&stdio_command(&gateway), LEGACY[1]).await;

    let instances = [
        http.call("one__instance", "{}").await.text(),
        window.call("one__instance", "{}").await.text(),
    ];

    assert_eq!(instances[0], instances[1]);
    assert_eq!(starts(&log).len(), 1);
}

async fn the_other_takes_over(
    command: &StdioCommand,
    scratch: &Scratch,
    control: &Control,
    modern: bool,
) {
    let mut owner = StdioClient::modern(command);
    let before = owner.call("one__instance", "{}").await.text();
    let other = if modern {
        StdioClient::modern(command)
    } else {
        StdioClient::legacy(command, LEGACY[0]).await
    };
    assert_eq!(other.call("one__instance", "{}").await.text(), before);
    let id = other.start_call("one__hold", r#"{"key":"k"}"#).await;
    control.wait_held("k").await;

    kill9(owner.pid().unwrap());
    owner.wait_exit(DEADLINE).await;

    assert_lost(&other.answer(&id).await);
    let after = other.call("one__instance", "{}").await.text();
    assert_ne!(before, after);
    assert_eq!(starts(&scratch.join("starts")).len(), 2);
    assert_eq!(answers_to(&other, &id), 1);
    // The handshake that was repeated is nobody's business; the change is.
    let methods = other.transcript().methods();
    let expected: &[&str] = if modern {
        &[]
    } else {
        &["notifications/tools/list_changed"]
    };
    assert_eq!(methods[..expected.len()], *expected);
    let said = other.transcript().messages();
    assert!(
        !said.iter().any(|line| line.contains("genlock-bridge")),
        "{said:?}"
    );
}

fn kill9(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_modern_window_takes_over_when_the_owner_is_killed() {
    let (scratch, control, _) = scene();
    the_other_takes_over(&stdio_command_in(&scratch), &scratch, &control, true).await;
}

#[tokio::test]
async fn a_legacy_window_takes_over_when_the_owner_is_killed() {
    let (scratch, control, _) = scene();
    the_other_takes_over(&stdio_command_in(&scratch), &scratch, &control, false).await;
}

#[tokio::test]
async fn one_of_many_windows_takes_over_and_the_others_follow() {
    let (scratch, ..) = scene();
    let command = stdio_command_in(&scratch);
    let mut owner = StdioClient::modern(&command);
    owner.call("one__instance", "{}").await;
    let mut others = Vec::new();
    for _ in 0..4 {
        let other = StdioClient::legacy(&command, LEGACY[0]).await;
        other.call("one__echo", "{}").await;
        others.push(other);
    }

    kill9(owner.pid().unwrap());
    owner.wait_exit(DEADLINE).await;

    let mut instances = Vec::new();
    for other in &others {
        // A call that came while nobody served is answered so; the next one works.
        let id = other.start_call("one__instance", "{}").await;
        let answer = other.answer(&id).await;
        let answer = if answer.is_result() {
            answer
        } else {
            other.call("one__instance", "{}").await
        };
        instances.push(answer.text());
    }
    instances.dedup();
    assert_eq!(instances.len(), 1, "{instances:?}");
    assert_eq!(starts(&scratch.join("starts")).len(), 2);
}

#[tokio::test]
async fn a_window_goes_on_when_the_gateway_over_http_ends_or_is_killed() {
    for kill in [true, false] {
        let (scratch, _, config) = scene();
        let log = scratch.join("starts");
        let mut gateway = stage::start(&config);
        let window = StdioClient::legacy(&stdio_command(&gateway), LEGACY[0]).await;
        let before = window.call("one__instance", "{}").await.text();

        if kill {
            gateway.kill9();
        } else {
            assert!(gateway.stop().success());
        }

        window
            .transcript()
            .wait_for("notifications/tools/list_changed")
            .await;
        assert_ne!(window.call("one__instance", "{}").await.text(), before);
        assert_eq!(starts(&log).len(), 2);
        let shown = gateway.run(&["status"]);
        assert!(
            shown.stdout.contains("(no HTTP)"),
            "{}{}",
            shown.stdout,
            shown.stderr
        );
    }
}

#[tokio::test]
async fn a_window_that_closes_gets_its_answers_first() {
    let (scratch, control, _) = scene();
    let command = stdio_command_in(&scratch);
    let owner = StdioClient::modern(&command);
    owner.call("one__echo", "{}").await;
    let attached = StdioClient::legacy(&command, LEGACY[0]).await;
    for (key, mut client) in [("attached", attached), ("owner", owner)] {
        let id = client
            .start_call("one__hold", &json!({"key": key}).to_string())
            .await;
        control.wait_held(key).await;

        client.close_stdin().await;
        control.release(key);

        assert_eq!(client.answer(&id).await.text(), "released", "{key}");
        assert!(client.wait_exit(DEADLINE).await.success(), "{key}");
    }
}

#[tokio::test]
async fn a_window_that_closes_ends_whatever_it_listens_for() {
    let (scratch, ..) = scene();
    let command = stdio_command_in(&scratch);
    let owner = StdioClient::modern(&command);
    owner.call("one__echo", "{}").await;
    for client in [StdioClient::modern(&command), owner] {
        client
            .start(
                "subscriptions/listen",
                r#"{"notifications":{"toolsListChanged":true}}"#,
            )
            .await;
        client
            .transcript()
            .wait_for("notifications/subscriptions/acknowledged")
            .await;

        assert!(client.close(DEADLINE).await.success());
    }
}

#[tokio::test]
async fn a_window_serves_http_as_well_where_it_is_told_to() {
    let (scratch, ..) = scene();
    let mut command = stdio_command_in(&scratch);
    command
        .args
        .extend(["--listen".to_owned(), "127.0.0.1:0".to_owned()]);
    let window = StdioClient::modern(&command);
    window.call("one__echo", "{}").await;
    let args = ["--state-dir", "state", "client-config", "claude-code"];

    let url = eventually_async(DEADLINE, "the URL", async || {
        let shown = stage::run(&scratch, &args, &[]).stdout;
        let word = shown.split_whitespace().last()?.to_owned();
        (!word.ends_with(":8717/mcp")).then_some(word)
    })
    .await;

    let http = LegacyClient::connect(&url, LEGACY[0]).await;
    assert_eq!(http.tool_names().await, window.tool_names().await);
}

#[tokio::test]
async fn windows_that_open_at_the_same_moment_agree_on_one_gateway() {
    let (scratch, ..) = scene();
    let command = stdio_command_in(&scratch);
    let windows: Vec<_> = (0..5).map(|_| StdioClient::modern(&command)).collect();

    let calls = windows
        .iter()
        .map(async |window| window.call("one__instance", "{}").await.text());
    let mut instances = futures_util::future::join_all(calls).await;

    instances.dedup();
    assert_eq!(instances.len(), 1, "{instances:?}");
    assert_eq!(starts(&scratch.join("starts")).len(), 1);
}
