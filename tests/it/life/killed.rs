//! Servers that are killed in the middle of a call.

use std::time::{Duration, Instant};

use genlock_testkit::{
    clients::{ModernClient, StdioClient},
    harness::Control,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{server, wait_until};
use crate::{
    faults::{bare, refused},
    stage::{self, stdio, stdio_command, stdio_with},
};

/// How often in one run of the gateway.
const SERVERS: usize = 50;
/// What the next call may take beyond the start of a server.
const MARGIN: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_call_of_a_killed_server_is_answered_once_and_the_next_one_works_at_once() {
    kill_each_server_once().await;
}

/// The same a thousand times.
#[tokio::test]
#[ignore = "takes long: `just killed`"]
async fn a_call_of_a_killed_server_is_answered_once_a_thousand_times() {
    for _ in 0..1000 / SERVERS {
        kill_each_server_once().await;
    }
}

/// Each server once, since one that dies again and again is started ever later.
async fn kill_each_server_once() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let mut servers = serde_json::Map::new();
    for number in 0..SERVERS {
        let era = ["legacy", "modern"][number % 2];
        let flags = ["--control", control.arg(), "--era", era];
        servers.insert(format!("s{number}"), stdio(&flags));
    }
    for number in 0..5 {
        let lazy = stdio_with(&["--era", "modern"], &json!({"lazy": true}));
        servers.insert(format!("lazy{number}"), lazy);
    }
    servers.insert("pace".to_owned(), stdio(&[]));
    let gateway = stage::start(&json!({"mcp_servers": servers}));
    stage::wait_ready(&gateway).await;
    let client = ModernClient::new(gateway.url());
    let pipe = StdioClient::modern(&stdio_command(&gateway));

    let mut spawns = Vec::new();
    for number in 0..5 {
        pace(&client).await;
        let began = Instant::now();
        let called = client.call(&format!("lazy{number}__echo"), "{}").await;
        spawns.push(began.elapsed());
        assert!(called.is_result());
    }
    let mut next = Vec::new();
    for number in 0..SERVERS {
        pace(&client).await;
        let name = format!("s{number}");
        next.push((kill_in_a_call(&gateway, &control, &pipe, &name).await, name));
    }

    spawns.sort_unstable();
    next.sort_unstable();
    let (spawn, median) = (spawns[2], next[SERVERS / 2].0);
    let (last, slowest) = &next[SERVERS - 1];
    #[expect(
        clippy::print_stdout,
        reason = "the figures are the point of the long form"
    )]
    {
        println!(
            "start of a server: {spawn:?}; the next call: median {median:?}, longest {last:?}"
        );
    }
    assert!(median <= spawn + MARGIN, "{median:?} > {spawn:?}: {next:?}");
    // The pause before an automatic reconnect is a second at least; no call waited for one and for a start.
    let log = gateway.log();
    let said: Vec<&str> = log.lines().filter(|line| line.contains(slowest)).collect();
    assert!(
        *last < Duration::from_secs(1) + spawn,
        "{next:?}\n{said:#?}"
    );
}

/// Kills a server in a call and gives how long the next call takes.
async fn kill_in_a_call(
    gateway: &genlock_testkit::harness::GenlockProcess,
    control: &Control,
    pipe: &StdioClient,
    name: &str,
) -> Duration {
    let before = server(gateway, name).await;
    let pid = i32::try_from(before["pid"].as_i64().unwrap()).unwrap();
    let key = json!({"key": name}).to_string();
    let call = format!(r#"{{"name":"{name}__hold","arguments":{key},{}}}"#, meta());
    let held = pipe.start("tools/call", &call).await;
    control.wait_held(name).await;

    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let killed = Instant::now();
    let failed = pipe.answer(&held).await;
    let next = pipe
        .call(&format!("{name}__echo"), r#"{"text":"again"}"#)
        .await;
    let took = killed.elapsed();

    let text = format!("server `{name}`: the connection ended");
    assert_eq!(bare(&failed), refused(&text, "outcome_unknown", true));
    assert_eq!(next.text(), "again");
    let begin = format!(r#"{{"jsonrpc":"2.0","id":{held},"#);
    let said = pipe.transcript().messages();
    assert_eq!(
        said.iter().filter(|line| line.starts_with(&begin)).count(),
        1
    );
    let after = wait_until(gateway, name, "serves again", |one| one["state"] == "ready").await;
    assert_eq!(
        (&after["restarts"], after["pid"] != before["pid"]),
        (&json!(1), true)
    );
    took
}

/// Takes a little longer than the gateway needs to be allowed one more start.
async fn pace(client: &ModernClient) {
    assert!(
        client
            .call("pace__sleep", r#"{"ms":260}"#)
            .await
            .is_result()
    );
}

/// What a modern request over a pipe carries.
fn meta() -> String {
    use genlock_testkit::clients::{META, MODERN};
    format!(r#""_meta":{{"{META}protocolVersion":"{MODERN}","{META}clientCapabilities":{{}}}}"#)
}
