//! [`Sessions`]: what is remembered of a client of the `initialize` eras between its requests.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use genlock_access::Visitor;
use genlock_config::Surface;
use genlock_mcp::{ProtocolVersion, RequestId};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The most sessions that are kept; the one that was silent longest goes first.
const MOST: usize = 10_000;
/// How long a session may be silent.
const IDLE: Duration = Duration::from_secs(3600);

/// One client of the `initialize` eras.
#[derive(Debug)]
pub(crate) struct Session {
    /// Who began it: nobody else gets anywhere with its id.
    pub(crate) owner: Visitor,
    pub(crate) version: ProtocolVersion,
    /// What the client asked its view to be narrowed to.
    pub(crate) surface: Option<Surface>,
    in_flight: Mutex<HashMap<RequestId, CancellationToken>>,
    last_used: Mutex<Instant>,
    /// Ends with the session, and so do its streams.
    pub(crate) ended: CancellationToken,
    /// The open stream for what belongs to no request.
    stream: Mutex<CancellationToken>,
}

/// All clients of the `initialize` eras, by their session id.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_id: Mutex<HashMap<String, Arc<Session>>>,
}

// === impl Sessions ===

impl Sessions {
    /// Keeps a new session.
    pub(crate) fn insert(&self, id: String, session: Arc<Session>) {
        let mut by_id = self.by_id.lock();
        let now = Instant::now();
        if by_id.len() >= MOST {
            by_id.retain(|_, session| !session.is_idle_at(now));
        }
        if by_id.len() >= MOST {
            let oldest = by_id
                .iter()
                .min_by_key(|(_, session)| *session.last_used.lock())
                .map(|(id, _)| id.clone());
            if let Some(oldest) = oldest.and_then(|id| by_id.remove(&id)) {
                oldest.ended.cancel();
            }
        }
        by_id.insert(id, session);
    }

    /// Returns a session and notes that it was used.
    pub(crate) fn get(&self, id: &str, visitor: &Visitor) -> Option<Arc<Session>> {
        let session = self.by_id.lock().get(id).cloned()?;
        if !session.is_of(visitor) {
            return None;
        }
        let now = Instant::now();
        if session.is_idle_at(now) {
            self.remove(id);
            return None;
        }
        *session.last_used.lock() = now;
        Some(session)
    }

    /// Ends a session; tells whether there was one.
    pub(crate) fn remove(&self, id: &str) -> bool {
        let removed = self.by_id.lock().remove(id);
        if let Some(session) = &removed {
            session.ended.cancel();
        }
        removed.is_some()
    }

    /// Ends the sessions of all whom `stays` does not take.
    pub(crate) fn end_others(&self, stays: impl Fn(&Visitor) -> bool) {
        self.by_id.lock().retain(|_, session| {
            let stays = stays(&session.owner);
            if !stays {
                session.ended.cancel();
            }
            stays
        });
    }

    /// Returns how many sessions there are.
    pub(crate) fn len(&self) -> usize {
        self.by_id.lock().len()
    }
}

// === impl Session ===

impl Session {
    pub(crate) fn new(owner: Visitor, version: ProtocolVersion, surface: Option<Surface>) -> Self {
        Self {
            owner,
            version,
            surface,
            in_flight: Mutex::default(),
            last_used: Mutex::new(Instant::now()),
            ended: CancellationToken::new(),
            stream: Mutex::default(),
        }
    }

    /// Tells whether a visitor began it: the same principal, whatever key it has by now.
    fn is_of(&self, visitor: &Visitor) -> bool {
        match (&self.owner, visitor) {
            (Visitor::Local, Visitor::Local) => true,
            (Visitor::Known(owner), Visitor::Known(caller)) => {
                owner.subject == caller.subject && owner.tenant == caller.tenant
            }
            (Visitor::Local, Visitor::Known(_)) | (Visitor::Known(_), Visitor::Local) => false,
        }
    }

    fn is_idle_at(&self, now: Instant) -> bool {
        let silent = now.saturating_duration_since(*self.last_used.lock()) >= IDLE;
        silent && self.in_flight.lock().is_empty()
    }

    /// Notes that the client is still there.
    pub(crate) fn touch(&self) {
        *self.last_used.lock() = Instant::now();
    }

    /// Registers a request, so that the client can cancel it; `None` where one with this id is in flight already.
    pub(crate) fn begin(self: &Arc<Self>, id: &RequestId) -> Option<InFlight> {
        let token = self.ended.child_token();
        match self.in_flight.lock().entry(id.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(vacant) => vacant.insert(token.clone()),
        };
        Some(InFlight {
            session: Arc::clone(self),
            id: id.clone(),
            cancelled: token,
        })
    }

    /// Cancels a request of the client, where it is in flight.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(token) = self.in_flight.lock().get(id) {
            token.cancel();
        }
    }

    /// Takes the place of the stream for what belongs to no request; an older one ends.
    pub(crate) fn open_stream(&self) -> CancellationToken {
        let token = self.ended.child_token();
        std::mem::replace(&mut *self.stream.lock(), token.clone()).cancel();
        token
    }
}

/// A request in flight; forgotten when dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    session: Arc<Session>,
    id: RequestId,
    /// Cancelled when the client cancels the request or its session ends.
    pub(crate) cancelled: CancellationToken,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.session.in_flight.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use genlock_mcp::RawJson;

    use super::*;

    fn session() -> Arc<Session> {
        Arc::new(Session::new(Visitor::Local, ProtocolVersion::LEGACY, None))
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_session_is_forgotten_unless_a_request_runs() {
        let (sessions, silent, busy) = (Sessions::default(), session(), session());
        sessions.insert("silent".to_owned(), Arc::clone(&silent));
        sessions.insert("busy".to_owned(), Arc::clone(&busy));
        let _running = busy.begin(&RawJson::NULL).unwrap();

        tokio::time::advance(IDLE).await;

        assert!(sessions.get("silent", &Visitor::Local).is_none() && silent.ended.is_cancelled());
        assert!(sessions.get("busy", &Visitor::Local).is_some());
    }

    #[tokio::test]
    async fn a_session_is_of_who_began_it() {
        let known = |subject: &str, tenant: Option<&str>| {
            Visitor::Known(Arc::new(genlock_access::Principal {
                subject: subject.to_owned(),
                tenant: tenant.map(str::to_owned),
                ..genlock_access::Principal::anonymous()
            }))
        };
        let (sessions, owner) = (Sessions::default(), known("a", Some("t")));
        let session = Session::new(owner.clone(), ProtocolVersion::LEGACY, None);
        sessions.insert("s".to_owned(), Arc::new(session));

        assert!(sessions.get("s", &owner).is_some());
        for other in [known("b", Some("t")), known("a", None), Visitor::Local] {
            assert!(sessions.get("s", &other).is_none(), "{other:?}");
        }
    }

    #[tokio::test]
    async fn a_request_is_cancelled_by_its_id_and_an_id_is_used_once() {
        let session = session();
        let (one, two) = (RawJson::string("1"), RawJson::encode(&1));
        let (first, second) = (session.begin(&one).unwrap(), session.begin(&two).unwrap());
        assert!(session.begin(&one).is_none());

        session.cancel(&one);

        assert!(first.cancelled.is_cancelled() && !second.cancelled.is_cancelled());
        drop(first);
        assert!(session.begin(&one).is_some());
    }

    #[tokio::test]
    async fn a_new_stream_ends_the_older_one() {
        let session = session();
        let (first, second) = (session.open_stream(), session.open_stream());
        assert!(first.is_cancelled() && !second.is_cancelled());
    }
}
