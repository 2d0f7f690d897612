//! Keeps the changes of an upstream's lists coming.
//!
//! A legacy pipe sends them unasked. A legacy HTTP upstream sends them on a stream of its own, a modern one as the
//! answer of `subscriptions/listen`; both may end at any time and are opened again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Call, CallError, Client, Transport};
use crate::{raw::RawJson, version::Era};

/// How long to wait before a stream that ended is opened again, doubling up to the last.
const PAUSES: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
    Duration::from_secs(30),
];
/// A stream that held this long was a good one: the next pause is short again.
const HELD: Duration = Duration::from_secs(60);
/// For a request that is answered when it ends, years from now.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Runs until the connection ends, or the upstream offers no changes.
pub(super) async fn watch_changes(client: Client) {
    if !announces_changes(&client) {
        return;
    }
    let stopped = client.transport.stopped();
    let mut failures = 0;
    loop {
        let began = Instant::now();
        let go_on = tokio::select! {
            () = stopped.cancelled() => return,
            go_on = watch_once(&client) => go_on,
        };
        if !go_on {
            return;
        }
        failures = if began.elapsed() >= HELD {
            0
        } else {
            failures + 1
        };
        let pause = PAUSES
            .get(failures)
            .or(PAUSES.last())
            .copied()
            .unwrap_or(HELD);
        tokio::select! {
            () = stopped.cancelled() => return,
            () = sleep(pause) => {}
        }
    }
}

fn announces_changes(client: &Client) -> bool {
    let tools = client
        .peer
        .capabilities
        .get_object("tools")
        .unwrap_or_default();
    tools
        .get("listChanged")
        .is_some_and(|flag| flag.as_bytes() == b"true")
}

/// Watches until the stream ends; tells whether to open it again.
async fn watch_once(client: &Client) -> bool {
    match (&client.transport, client.peer.version.era()) {
        (Transport::Pipe(_), Era::Legacy) => false,
        (_, Era::Modern) => {
            let filter = RawJson::encode(&serde_json::json!({"toolsListChanged": true}));
            let params = [("notifications", filter)].into_iter().collect();
            let call = Call {
                method: "subscriptions/listen".to_owned(),
                params,
                ..Call::default()
            };
            match client.call(call, Instant::now() + FOREVER).await {
                Ok(outcome) => outcome.as_error().is_none(),
                Err(
                    CallError::Status { .. }
                    | CallError::Unauthorized { .. }
                    | CallError::BadAnswer { .. },
                ) => false,
                Err(_) => true,
            }
        }
        (Transport::Http(http), Era::Legacy) => match http.open_stream().await {
            Ok(Some(mut stream)) => {
                while let Ok(Some(message)) = stream.next().await {
                    http.take_unasked(message).await;
                }
                true
            }
            Ok(None) => false,
            Err(_) => true,
        },
    }
}
