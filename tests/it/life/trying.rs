//! Connections that are tried while nobody uses them.

use std::path::Path;

use genlock_testkit::{
    clients::ModernClient,
    harness::{DEADLINE, FakeServer, eventually_async, journal},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{logged, server, wait_until};
use crate::stage::{self, stdio_with};

fn count(journal_path: &Path, method: &str) -> usize {
    journal(journal_path)
        .iter()
        .filter(|message| message["method"] == method)
        .count()
}

#[tokio::test]
async fn a_quiet_connection_is_tried_in_the_way_of_its_era_and_never_beside_a_call() {
    let scratch = stage::scratch();
    let paths = ["old", "new", "web"].map(|name| scratch.join(&format!("{name}.journal")));
    let flags = |index: usize, era: &'static str| {
        ["--era", era, "--journal", paths[index].to_str().unwrap()]
    };
    let web = FakeServer::http(&scratch, "web", &flags(2, "legacy"));
    let each_second = json!({"keepalive_interval": 1});
    let gateway = stage::start(&json!({"mcp_servers": {
        "old": stdio_with(&flags(0, "legacy"), &each_second),
        "new": stdio_with(&flags(1, "modern"), &each_second),
        "web": {"url": web.url(), "keepalive_interval": 1},
    }}));
    stage::wait_ready(&gateway).await;
    // The handshake has one `server/discover` of its own.
    let tries = [
        ("old", "ping", 2),
        ("new", "server/discover", 3),
        ("web", "ping", 2),
    ];
    for ((name, method, wanted), path) in tries.iter().zip(&paths) {
        eventually_async(DEADLINE, &format!("{name} is tried"), async || {
            (count(path, method) >= *wanted).then_some(())
        })
        .await;
    }

    let client = ModernClient::new(gateway.url());
    client.call("old__sleep", r#"{"ms":2500}"#).await;
    let last = journal(&paths[0]).pop().unwrap();

    assert_eq!(last["method"], "tools/call", "nothing came beside the call");
    let tried = count(&paths[0], "ping");
    eventually_async(DEADLINE, "it is tried again", async || {
        (count(&paths[0], "ping") > tried).then_some(())
    })
    .await;
    for name in ["old", "new", "web"] {
        assert_eq!(server(&gateway, name).await["restarts"], 0, "{name}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_while_nobody_uses_it_is_replaced() {
    let scratch = stage::scratch();
    let hangs = logged(&scratch, "one", &[], &json!({"keepalive_interval": 1}));
    let gateway = stage::start(&json!({"mcp_servers": {"one": hangs}}));
    let one = stage::wait_for_state(&gateway, "one", "ready").await;
    let pid = i32::try_from(one["pid"].as_i64().unwrap()).unwrap();

    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();

    let again = wait_until(&gateway, "one", "is replaced", |now| {
        now["state"] == "ready" && now["pid"] != one["pid"]
    })
    .await;
    assert_eq!(
        again["last_error"],
        "the keepalive failed: no answer within the deadline"
    );
}
