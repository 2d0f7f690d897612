//! What the server remembers while it runs.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::{mpsc::Sender, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    message::{Filter, META, notification},
    script::Outgoing,
    server::Server,
};

/// The running state, shared by all connections.
#[derive(Debug)]
pub(crate) struct State {
    /// New at every start.
    pub(crate) instance: String,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    calls: u64,
    answered: u64,
    lists: u64,
    minted: u64,
    cancelled: Vec<String>,
    running: HashMap<(Option<String>, String), CancellationToken>,
    /// Stdio's one session is the empty name.
    sessions: BTreeMap<String, Session>,
    /// The server's own requests that wait for a response, by id as written.
    asked: HashMap<String, oneshot::Sender<String>>,
    listeners: Vec<Listener>,
    /// The streams of the old HTTP transport.
    streams: HashMap<String, Sender<Outgoing>>,
}

/// A legacy session.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) version: String,
    /// The client's capabilities, as written.
    pub(crate) capabilities: String,
}

/// Somebody who is told about changes.
#[derive(Debug)]
struct Listener {
    /// The legacy session, and `None` for a modern listener.
    session: Option<String>,
    /// The id of the modern `subscriptions/listen` request, as written.
    subscription: Option<String>,
    filter: Filter,
    out: Sender<Outgoing>,
}

/// A request that runs; it stops being registered when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    server: Arc<Server>,
    key: (Option<String>, String),
    pub(crate) token: CancellationToken,
}

impl Running {
    pub(crate) fn begin(server: Arc<Server>, session: Option<String>, id: &str) -> Self {
        let key = (session, id.to_owned());
        let token = CancellationToken::new();
        server
            .state
            .inner
            .lock()
            .running
            .insert(key.clone(), token.clone());
        Self { server, key, token }
    }

    pub(crate) fn id(&self) -> &str {
        &self.key.1
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.state.inner.lock().running.remove(&self.key);
    }
}

// === impl State ===

impl State {
    pub(crate) fn new(instance: String) -> Self {
        Self {
            instance,
            inner: Mutex::default(),
        }
    }

    /// Cancels a running request, and remembers it unless it is a listen stream, which has no other end.
    pub(crate) fn cancel(&self, session: Option<&str>, id: &str) {
        let key = (session.map(str::to_owned), id.to_owned());
        let mut inner = self.inner.lock();
        let before = inner.listeners.len();
        inner
            .listeners
            .retain(|listener| listener.subscription.as_deref() != Some(id));
        let listened = inner.listeners.len() < before;
        if let Some(token) = inner.running.get(&key) {
            token.cancel();
            if !listened {
                inner.cancelled.push(id.to_owned());
            }
        }
    }

    pub(crate) fn record_cancelled(&self, id: &str) {
        self.inner.lock().cancelled.push(id.to_owned());
    }

    /// The ids of the cancelled requests, as written.
    pub(crate) fn cancelled(&self) -> Vec<String> {
        self.inner.lock().cancelled.clone()
    }

    pub(crate) fn count_call(&self) {
        self.inner.lock().calls += 1;
    }

    pub(crate) fn count_list(&self) {
        self.inner.lock().lists += 1;
    }

    pub(crate) fn count_answered(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.answered += 1;
        inner.answered
    }

    /// (calls, lists, open sessions, listeners, running requests)
    pub(crate) fn counts(&self) -> [(&'static str, usize); 5] {
        let inner = self.inner.lock();
        [
            ("calls", usize::try_from(inner.calls).unwrap_or(usize::MAX)),
            ("lists", usize::try_from(inner.lists).unwrap_or(usize::MAX)),
            ("sessions", inner.sessions.len()),
            (
                "listeners",
                inner
                    .listeners
                    .iter()
                    .filter(|listener| !listener.out.is_closed())
                    .count(),
            ),
            ("running", inner.running.len()),
        ]
    }

    // --- legacy sessions ---

    /// A name that no other thing of this server has.
    pub(crate) fn mint(&self, kind: &str) -> String {
        let mut inner = self.inner.lock();
        inner.minted += 1;
        format!("{kind}-{}-{}", self.instance, inner.minted)
    }

    pub(crate) fn open_session(&self, name: &str, session: Session) {
        self.inner.lock().sessions.insert(name.to_owned(), session);
    }

    pub(crate) fn session(&self, name: &str) -> Option<Session> {
        self.inner.lock().sessions.get(name).cloned()
    }

    /// The response to a request that the server is about to send.
    pub(crate) fn expect(&self, id: &str) -> oneshot::Receiver<String> {
        let (sender, receiver) = oneshot::channel();
        self.inner.lock().asked.insert(id.to_owned(), sender);
        receiver
    }

    pub(crate) fn respond(&self, id: &str, response: String) {
        if let Some(sender) = self.inner.lock().asked.remove(id) {
            // A call that was cancelled meanwhile needs no response.
            let _ = sender.send(response);
        }
    }

    pub(crate) fn close_session(&self, session: &str) -> bool {
        let mut inner = self.inner.lock();
        inner
            .listeners
            .retain(|listener| listener.session.as_deref() != Some(session));
        inner.sessions.remove(session).is_some()
    }

    /// Forgets every legacy session, as a restarted server would.
    pub(crate) fn forget_sessions(&self) {
        let mut inner = self.inner.lock();
        inner.sessions.clear();
        inner
            .listeners
            .retain(|listener| listener.session.is_none());
    }

    pub(crate) fn open_stream(&self, name: &str, out: Sender<Outgoing>) {
        let mut inner = self.inner.lock();
        inner.streams.retain(|_, stream| !stream.is_closed());
        inner.streams.insert(name.to_owned(), out);
    }

    pub(crate) fn stream(&self, name: &str) -> Option<Sender<Outgoing>> {
        self.inner.lock().streams.get(name).cloned()
    }

    // --- announcements ---

    /// A legacy stream hears everything.
    pub(crate) fn listen_legacy(&self, session: &str, out: Sender<Outgoing>) {
        let filter = Filter {
            tools_list_changed: true,
            prompts_list_changed: true,
            resources_list_changed: true,
            resource_subscriptions: Vec::new(),
        };
        let listener = Listener {
            session: Some(session.to_owned()),
            subscription: None,
            filter,
            out,
        };
        self.inner.lock().listeners.push(listener);
    }

    pub(crate) fn listen_modern(&self, subscription: &str, filter: Filter, out: Sender<Outgoing>) {
        let listener = Listener {
            session: None,
            subscription: Some(subscription.to_owned()),
            filter,
            out,
        };
        self.inner.lock().listeners.push(listener);
    }

    pub(crate) fn subscribe(&self, session: &str, uri: &str, wanted: bool) {
        for listener in &mut self.inner.lock().listeners {
            if listener.session.as_deref() == Some(session) {
                let uris = &mut listener.filter.resource_subscriptions;
                uris.retain(|known| known != uri);
                if wanted {
                    uris.push(uri.to_owned());
                }
            }
        }
    }

    /// Tells those who asked; false where nobody did.
    pub(crate) fn announce(&self, change: &Change) -> bool {
        let mut inner = self.inner.lock();
        inner.listeners.retain(|listener| !listener.out.is_closed());
        let mut told = false;
        for listener in inner
            .listeners
            .iter()
            .filter(|listener| change.is_wanted(&listener.filter))
        {
            let message = change.message(listener.subscription.as_deref());
            // A listener whose channel is full does not read: it misses this one, as with any busy server.
            told |= listener.out.try_send(Outgoing::Message(message)).is_ok();
        }
        told
    }

    /// Ends every modern listen stream with its result.
    pub(crate) fn end_listens(&self) {
        let mut inner = self.inner.lock();
        for listener in inner
            .listeners
            .iter()
            .filter(|listener| listener.subscription.is_some())
        {
            let id = listener.subscription.as_deref().unwrap_or("null");
            if let Some(token) = inner.running.get(&(None, id.to_owned())) {
                let result = format!(
                    r#"{{"resultType":"complete","_meta":{{"{META}subscriptionId":{id}}}}}"#
                );
                let _ = listener
                    .out
                    .try_send(Outgoing::Message(crate::message::result_message(
                        id, &result,
                    )));
                token.cancel();
            }
        }
        inner
            .listeners
            .retain(|listener| listener.subscription.is_none());
    }
}

/// Something that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    Resource(String),
}

// === impl Change ===

impl Change {
    fn is_wanted(&self, filter: &Filter) -> bool {
        match self {
            Self::Tools => filter.tools_list_changed,
            Self::Prompts => filter.prompts_list_changed,
            Self::Resources => filter.resources_list_changed,
            Self::Resource(uri) => filter.resource_subscriptions.contains(uri),
        }
    }

    fn message(&self, subscription: Option<&str>) -> String {
        let (method, uri) = match self {
            Self::Tools => ("notifications/tools/list_changed", None),
            Self::Prompts => ("notifications/prompts/list_changed", None),
            Self::Resources => ("notifications/resources/list_changed", None),
            Self::Resource(uri) => ("notifications/resources/updated", Some(uri)),
        };
        let uri = uri.map(|uri| format!(r#""uri":{}"#, crate::message::quote(uri)));
        let meta = subscription.map(|id| format!(r#""_meta":{{"{META}subscriptionId":{id}}}"#));
        let members: Vec<String> = uri.into_iter().chain(meta).collect();
        let params = (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")));
        notification(method, params.as_deref())
    }
}
