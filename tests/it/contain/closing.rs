//! How a server is ended: the end of its input, then SIGTERM, then SIGKILL.

use std::time::{Duration, Instant};

use genlock_testkit::{
    clients::ModernClient,
    harness::{Scratch, descendants, eventually, is_locked},
};
use serde_json::json;

use super::{RUNGS, has_namespaces};
use crate::stage::{self, DEADLINE, stdio_with};

/// A shell that ignores the end of its input and ends at SIGTERM.
fn ends_at_term(scratch: &Scratch, lock: &str) -> serde_json::Value {
    let lock = scratch.join(lock);
    let server = genlock_testkit::harness::fake_server();
    // The server itself ends with its input; the shell stays and has the lock.
    let script = format!(
        "exec 9>{}; flock 9; {}; while :; do sleep 100 & wait; done",
        lock.display(),
        server.display()
    );
    json!({"command": ["/bin/sh", "-c", script]})
}

#[tokio::test]
async fn each_step_of_the_close_sequence_is_taken_only_when_the_one_before_was_not_enough() {
    for (containment, rung) in RUNGS {
        let scratch = stage::scratch();
        let path = |name: &str| scratch.join(name).to_str().unwrap().to_owned();
        let with = json!({"containment": containment});
        let mut at_term = ends_at_term(&scratch, "term");
        at_term["containment"] = containment.into();
        let gateway = stage::start(&json!({"mcp_servers": {
            "good": stage::stdio(&[]),
            "eof": stdio_with(&["--alive-lock", &path("eof")], &with),
            "term": at_term,
            "kill": stdio_with(&["--ignore-term", "--alive-lock", &path("kill")], &with),
        }}));
        if rung == 2 && !has_namespaces(&gateway, "the close sequence on rung 2").await {
            continue;
        }
        stage::wait_ready(&gateway).await;
        let client = ModernClient::new(gateway.url());
        let began = Instant::now();
        gateway.write_config(&json!({"mcp_servers": {"good": stage::stdio(&[])}}).to_string());
        assert_eq!(gateway.run(&["reload"]).code, Some(0));

        // Whoever is not being ended is served meanwhile.
        let mut slowest = Duration::ZERO;
        let mut ended = Vec::new();
        while ended.len() < 3 {
            let asked = Instant::now();
            let answer = client.call("good__echo", r#"{"text":"on"}"#).await;
            assert_eq!(answer.text(), "on");
            slowest = slowest.max(asked.elapsed());
            for name in ["eof", "term", "kill"] {
                let known = ended.iter().any(|(ended, _)| *ended == name);
                if !known && !is_locked(&scratch.join(name)) {
                    ended.push((name, began.elapsed().as_secs_f64()));
                }
            }
            assert!(began.elapsed() < DEADLINE, "{ended:?}");
        }

        let [("eof", eof), ("term", term), ("kill", kill)] = ended[..] else {
            panic!("{containment}: {ended:?}");
        };
        assert!(eof < 1.9, "{ended:?}");
        assert!((1.9..4.5).contains(&term), "{ended:?}");
        assert!((4.9..8.0).contains(&kill), "{ended:?}");
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
        // Nothing is left that waits to be reaped either.
        let below_good = gateway.pid();
        eventually(DEADLINE, "only the server that stays is left", || {
            let shown = descendants(below_good).len();
            // The server, and its keepers.
            (shown <= 3).then_some(())
        });
    }
}
