//! The streams on which clients hear that the lists they are shown have changed.

use std::sync::Arc;

use axum::response::Response as HttpResponse;
use bytes::Bytes;
use futures_util::stream;
use genlock_access::Visitor;
use genlock_config::Surface;
use genlock_mcp::{Notification, RawJson, RawObject, Request, Response, meta, sse};
use tokio::time::Interval;
use tokio_util::sync::CancellationToken;

use crate::{
    front::Front,
    reply,
    sessions::Session,
    views::{List, ViewWatch},
};

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
                let told = changed?.into_iter().map(|list| list.changed(RawObject::default()));
                Some(told.flat_map(|told| sse::event(told.to_wire())).collect())
            }
            _ = self.ticks.tick() => {
                // Whose key has ended is told nothing more.
                if !self.view.is_open() {
                    return None;
                }
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
    lists: Vec<List>,
}

impl Subscription {
    pub(crate) fn new(request: &Request) -> Self {
        let filter = request
            .params
            .get_object("notifications")
            .unwrap_or_default();
        let asked_for = |list: &List| {
            let flag = filter.get(list.filter());
            flag.is_some_and(|flag| flag.as_bytes() == b"true")
        };
        Self {
            id: request.id.clone(),
            lists: List::ALL.into_iter().filter(asked_for).collect(),
        }
    }

    /// The first message: which part of the filter is honoured.
    pub(crate) fn acknowledgement(&self) -> Notification {
        let honoured = self.lists.iter();
        let honoured: RawObject = honoured
            .map(|list| (list.filter(), RawJson::encode(&true)))
            .collect();
        let params = [("_meta", self.meta()), ("notifications", honoured.to_raw())]
            .into_iter()
            .collect();
        Notification::new("notifications/subscriptions/acknowledged", params)
    }

    /// Waits for the next changes that were asked for; `None` when the client is told nothing more.
    pub(crate) async fn changes(&self, view: &mut ViewWatch) -> Option<Vec<Notification>> {
        loop {
            let mut changed = view.changed().await?;
            changed.retain(|list| self.lists.contains(list));
            let params = || [("_meta", self.meta())].into_iter().collect();
            let told: Vec<_> = changed.iter().map(|list| list.changed(params())).collect();
            if !told.is_empty() {
                return Some(told);
            }
        }
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
            changes = self.subscription.changes(&mut self.view) => match changes {
                Some(changes) => {
                    let events = changes.iter().flat_map(|change| sse::event(change.to_wire()));
                    (events.collect(), false)
                }
                None => (sse::event(self.subscription.end().to_wire()), true),
            },
            _ = self.ticks.tick() => match self.view.is_open() {
                true => (vec![sse::KEEP_ALIVE], false),
                false => (sse::event(self.subscription.end().to_wire()), true),
            },
        }
    }
}
