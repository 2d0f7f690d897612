//! [`Events`]: what happens in a gateway, for whoever listens: `/api/events` as server-sent events.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Router,
    extract::State,
    response::sse::{self, KeepAlive, Sse},
    routing::get,
};
use futures_util::stream::{self, Stream};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast;

/// How many events a slow listener may be behind before it misses some.
const BEHIND: usize = 256;

/// One event. `data` never holds a private value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// What happened, such as `generation.committed`.
    pub kind: &'static str,
    /// The particulars.
    pub data: Value,
}

/// Hears every event from its beginning on, unless it falls behind.
pub(crate) type Listening = broadcast::Receiver<Arc<Event>>;

/// The events of one gateway. A clone shares them.
#[derive(Clone)]
pub(crate) struct Events {
    sender: broadcast::Sender<Arc<Event>>,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self {
            sender: broadcast::channel(BEHIND).0,
        }
    }

    /// Tells all who listen; nobody has to.
    pub(crate) fn tell(&self, kind: &'static str, data: Value) {
        // An error means that nobody listens.
        let _ = self.sender.send(Arc::new(Event { kind, data }));
    }

    /// Listens from now on.
    pub(crate) fn listen(&self) -> Listening {
        self.sender.subscribe()
    }

    /// The route of the event stream.
    pub(crate) fn routes(self) -> Router {
        Router::new()
            .route("/api/events", get(stream_events))
            .with_state(self)
    }
}

async fn stream_events(
    State(events): State<Events>,
) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    let stream = stream::unfold(events.listen(), |mut listening| async move {
        let event = match listening.recv().await {
            Ok(event) => sse::Event::default()
                .event(event.kind)
                .data(event.data.to_string()),
            // Said, so that the listener can ask for the state it may have missed.
            Err(broadcast::error::RecvError::Lagged(missed)) => sse::Event::default()
                .event("events.missed")
                .data(missed.to_string()),
            Err(broadcast::error::RecvError::Closed) => return None,
        };
        Some((Ok(event), listening))
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}
