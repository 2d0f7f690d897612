//! Servers that answer their handshake and exit.

use futures_util::future::join_all;
use genlock_testkit::{clients::ModernClient, harness::eventually_async};
use serde_json::json;
use std::time::{Duration, Instant};

use super::{logged, server, started};
use crate::stage::{self, stdio};

/// As long as the longest ladder takes, and its jitter.
const LADDER: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_server_that_exits_again_and_again_is_started_six_times_in_its_first_minute_at_most() {
    let scratch = stage::scratch();
    let none = json!({});
    let exits = |name: &str, methods: &[&str]| {
        let flags: Vec<&str> = methods
            .iter()
            .flat_map(|method| ["--exit-on", method])
            .collect();
        logged(
            &scratch,
            name,
            &[&["--era", "legacy"], &flags[..]].concat(),
            &none,
        )
    };
    let gateway = stage::start(&json!({"mcp_servers": {
        "good": stdio(&[]),
        // After the handshake, and on the question for the era as well.
        "early": exits("early", &["server/discover", "initialize"]),
        // Once its tools are listed, so that it is ready for a moment each time.
        "late": exits("late", &["tools/list"]),
        // As that one, and on the question for the era.
        "both": exits("both", &["server/discover", "tools/list"]),
    }}));
    let began = Instant::now();
    let client = ModernClient::new(gateway.url());
    let names = ["early", "late", "both"];

    // Whoever calls and lists meanwhile changes nothing.
    eventually_async(LADDER, "all of them rest", async || {
        let calls = names.map(async |name| client.call(&format!("{name}__echo"), "{}").await);
        let (_, good) = tokio::join!(
            async {
                if began.elapsed() < Duration::from_secs(2) {
                    join_all(calls).await;
                }
            },
            client.call("good__echo", r#"{"text":"undisturbed"}"#),
        );
        assert_eq!(good.text(), "undisturbed");
        let states = join_all(names.map(|name| server(&gateway, name))).await;
        states
            .iter()
            .all(|one| one["state"] == "cooldown")
            .then_some(())
    })
    .await;
    let counts = names.map(|name| started(&scratch, name));

    // The cooldown takes 30 s more, so that these are the starts of the first minute.
    assert!(began.elapsed() < LADDER);
    assert!(
        counts.iter().all(|count| (2..=6).contains(count)),
        "{counts:?}"
    );
    for name in names {
        let found = server(&gateway, name).await;
        assert!(
            found["retry_at"].is_string() && found["reason"].is_string(),
            "{found}"
        );
    }
}
