//! Keeps the changes of an upstream's lists coming.
//!
//! A legacy pipe sends them unasked. A legacy HTTP upstream sends them on a stream of its own, a modern one as the
//! answer of `subscriptions/listen`; both may end at any time and are opened again.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{Call, CallError, Client, Transport};
use crate::{object::RawObject, raw::RawJson, version::Era};

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

/// How often an upstream said that a list of its changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Announced {
    /// Its tools.
    pub tools: u64,
    /// Its prompts, resources or resource templates.
    pub offers: u64,
}

impl Announced {
    /// Takes note of a notification; tells whether it announces a list.
    pub(super) fn note(announced: &watch::Sender<Self>, method: &str) -> bool {
        match method {
            "notifications/tools/list_changed" => announced.send_modify(|all| all.tools += 1),
            "notifications/prompts/list_changed" | "notifications/resources/list_changed" => {
                announced.send_modify(|all| all.offers += 1);
            }
            _ => return false,
        }
        true
    }
}

/// Runs until the connection ends, or the upstream offers no changes.
pub(super) async fn watch_changes(client: Client) {
    if filter(&client).is_empty() {
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

/// Returns the filter of `subscriptions/listen` for the lists whose changes the upstream announces.
fn filter(client: &Client) -> RawObject {
    let announced = |capability: &str| {
        let declared = client.peer.capabilities.get_object(capability);
        let flag = declared.and_then(|declared| declared.get("listChanged").cloned());
        flag.is_some_and(|flag| flag.as_bytes() == b"true")
    };
    [
        ("tools", "toolsListChanged"),
        ("prompts", "promptsListChanged"),
        ("resources", "resourcesListChanged"),
    ]
    .into_iter()
    .filter(|(capability, _)| announced(capability))
    .map(|(_, wanted)| (wanted, RawJson::encode(&true)))
    .collect()
}

/// Watches until the stream ends; tells whether to open it again.
async fn watch_once(client: &Client) -> bool {
    match (&client.transport, client.peer.version.era()) {
        (Transport::Pipe(_), Era::Legacy) => false,
        (_, Era::Modern) => {
            let filter = filter(client).to_raw();
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
