//! [`Events`]: what happens in a gateway, for whoever listens: `/api/events` as server-sent events.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Extension, Router,
    extract::State,
    response::sse::{self, KeepAlive, Sse},
    routing::get,
};
use futures_util::stream::{self, Stream};
use genlock_access::{Permission, Visitor};
use genlock_front::Front;
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

    /// The route of the event stream; `front` says who may hear on.
    pub(crate) fn routes(self, front: Front) -> Router {
        Router::new()
            .route("/api/events", get(stream_events))
            .with_state((self, front))
    }
}

/// A listener, and what it is let in by.
struct Listener {
    listening: Listening,
    front: Front,
    visitor: Visitor,
}

impl Listener {
    /// Tells whether it would be let in again, and may still read.
    fn may_hear(&self) -> bool {
        let may = self.front.may(&self.visitor, Permission::Read);
        may.is_allowed() && self.front.would_let_in(&self.visitor)
    }
}

async fn stream_events(
    State((events, front)): State<(Events, Front)>,
    Extension(visitor): Extension<Visitor>,
) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    let listener = Listener {
        listening: events.listen(),
        front,
        visitor,
    };
    let stream = stream::unfold(listener, |mut listener| async move {
        let heard = tokio::select! {
            biased;
            () = listener.front.streams_ended() => return None,
            heard = listener.listening.recv() => heard,
        };
        // Asked with each event: a credential or a permission may have ended since the last one.
        if !listener.may_hear() {
            return None;
        }
        let event = match heard {
            Ok(event) => sse::Event::default()
                .event(event.kind)
                .data(event.data.to_string()),
            // Said, so that the listener can ask for the state it may have missed.
            Err(broadcast::error::RecvError::Lagged(missed)) => sse::Event::default()
                .event("events.missed")
                .data(missed.to_string()),
            Err(broadcast::error::RecvError::Closed) => return None,
        };
        Some((Ok(event), listener))
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}
