//! How soon those are refused who call without a pause.

use std::{sync::Arc, time::Duration};

use genlock_testkit::clients::ModernClient;
use serde_json::json;
use tokio::{task::JoinSet, time::Instant};

use super::{ask, gateway, is_revoked, lift};
use crate::stage::{self, DEADLINE, stdio};

/// The target is 100 ms. The tests run side by side on few cores, so that this is generous; `genlock-bench` measures.
const SOON: Duration = Duration::from_secs(1);
const CLIENTS: usize = 4;

#[tokio::test]
async fn those_who_call_without_a_pause_are_refused_soon_after_the_wish_and_all_at_its_answer() {
    stage::scratch();
    let (gateway, control) = gateway(&json!({"one": stdio(&[])})).await;
    let url: Arc<str> = gateway.url().into();
    for (kind, name) in [("server", "one"), ("tool", "one/echo")] {
        let mut callers = JoinSet::new();
        for _ in 0..CLIENTS {
            callers.spawn(call_until_refused(Arc::clone(&url)));
        }
        // Until all of them are at it.
        tokio::task::yield_now().await;
        let wished = Instant::now();
        let params = json!({"kind": kind, "name": name, "reason": "leaked"});
        let done = ask(&control, "revoke", params).await;
        let answered = Instant::now();

        let mut last = wished;
        while let Some(began) = callers.join_next().await {
            let began = began.unwrap();
            // Whatever was served began before the answer.
            assert!(began.is_none_or(|began| began <= answered), "{kind}");
            last = last.max(began.unwrap_or(wished));
        }
        assert!(last - wished < SOON, "{kind}: {:?}", last - wished);
        lift(&control, &done["number"]).await;
        stage::wait_ready(&gateway).await;
    }
}

/// Calls until it is refused, and gives when the last call began that was served. One that is never refused does not go on.
async fn call_until_refused(url: Arc<str>) -> Option<Instant> {
    let client = ModernClient::new(&*url);
    let mut served = None;
    let until = Instant::now() + DEADLINE;
    loop {
        assert!(Instant::now() < until, "never refused");
        let began = Instant::now();
        let answer = client.call("one__echo", r#"{"text":"x"}"#).await;
        if is_revoked(&answer) {
            return served;
        }
        served = Some(began);
    }
}
