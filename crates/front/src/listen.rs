//! The streams on which clients hear that the tools they are shown have changed.

use std::sync::Arc;

use axum::response::Response as HttpResponse;
use bytes::Bytes;
use futures_util::stream;
use genlock_access::Visitor;
use genlock_config::Surface;
use genlock_mcp::{Notification, RawJson, RawObject, Request, Response, meta, sse};
use tokio::time::Interval;
use tokio_util::sync::CancellationToken;

use crate::{front::Front, reply, sessions::Session, views::ViewWatch};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// Opens the stream of a session for what belongs to no request.
pub(crate) fn legacy(front: &Front, visitor: Visitor, session: Arc<Session>) -> HttpResponse {
    let state = Some(Legacy {
        ended: session.open_stream(),
        stopped: front.inner.stopped.clone(),
        view: ViewWatch::new(front, visitor, session.surface),
        ticks: reply::ticks(),
        session,
    });
    let rest = stream::unfold(state, |state| async move {
        let mut state = state?;
        state.next().await.map(|parts| (parts, Some(state)))
    });
    // A comment at once, so that the client sees the stream open.
    reply::events(Box::pin(reply::flatten(vec![sse::KEEP_ALIVE], rest)))
}

struct Legacy {
    session: Arc<Session>,
    ended: CancellationToken,
    stopped: CancellationToken,
    view: ViewWatch,
    ticks: Interval,
}

impl Legacy {
    async fn next(&mut self) -> Option<Vec<Bytes>> {
        tokio::select! {
            () = self.ended.cancelled() => None,
            () = self.stopped.cancelled() => None,
            changed = self.view.changed() => {
                changed?;
                Some(sse::event(Notification::new(TOOLS_CHANGED, RawObject::default()).to_wire()))
            }
            _ = self.ticks.tick() => {
                self.session.touch();
                Some(vec![sse::KEEP_ALIVE])
            }
        }
    }
}

/// What a listen request of the modern era asked for, as far as it is honoured.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    id: RawJson,
    tools: bool,
}

impl Subscription {
    pub(crate) fn new(request: &Request) -> Self {
        let filter = request
            .params
            .get_object("notifications")
            .unwrap_or_default();
        let tools = filter
            .get("toolsListChanged")
            .is_some_and(|flag| flag.as_bytes() == b"true");
        Self {
            id: request.id.clone(),
            tools,
        }
    }

    /// The first message: which part of the filter is honoured.
    pub(crate) fn acknowledgement(&self) -> Notification {
        let mut honoured = RawObject::default();
        if self.tools {
            honoured.set("toolsListChanged", RawJson::encode(&true));
        }
        let params = [("_meta", self.meta()), ("notifications", honoured.to_raw())]
            .into_iter()
            .collect();
        Notification::new("notifications/subscriptions/acknowledged", params)
    }

    /// Waits for the next change that was asked for; `None` when nothing can change any more.
    pub(crate) async fn change(&self, view: &mut ViewWatch) -> Option<Notification> {
        if !self.tools {
            return std::future::pending().await;
        }
        view.changed().await?;
        let params = [("_meta", self.meta())].into_iter().collect();
        Some(Notification::new(TOOLS_CHANGED, params))
    }

    /// The answer that ends the subscription in order.
    pub(crate) fn end(&self) -> Response {
        let result = [
            ("resultType", RawJson::string("complete")),
            ("_meta", self.meta()),
        ]
        .into_iter()
        .collect();
        Response::object(self.id.clone(), result)
    }

    fn meta(&self) -> RawJson {
        let meta: RawObject = [(meta::SUBSCRIPTION_ID, self.id.clone())]
            .into_iter()
            .collect();
        meta.to_raw()
    }
}

/// Answers `subscriptions/listen` with a stream that lives until either side ends it.
pub(crate) fn modern(
    front: &Front,
    request: &Request,
    visitor: Visitor,
    wish: Option<Surface>,
) -> HttpResponse {
    let subscription = Subscription::new(request);
    let first = sse::event(subscription.acknowledgement().to_wire());
    let state = Some(Modern {
        subscription,
        stopped: front.inner.stopped.clone(),
        view: ViewWatch::new(front, visitor, wish),
        ticks: reply::ticks(),
    });
    let rest = stream::unfold(state, |state| async move {
        let mut state = state?;
        let (parts, done) = state.next().await;
        Some((parts, (!done).then_some(state)))
    });
    reply::events(Box::pin(reply::flatten(first, rest)))
}

struct Modern {
    subscription: Subscription,
    stopped: CancellationToken,
    view: ViewWatch,
    ticks: Interval,
}

impl Modern {
    async fn next(&mut self) -> (Vec<Bytes>, bool) {
        tokio::select! {
            () = self.stopped.cancelled() => (sse::event(self.subscription.end().to_wire()), true),
            change = self.subscription.change(&mut self.view) => match change {
                Some(change) => (sse::event(change.to_wire()), false),
                None => (sse::event(self.subscription.end().to_wire()), true),
            },
            _ = self.ticks.tick() => (vec![sse::KEEP_ALIVE], false),
        }
    }
}
