//! `/mcp/{session_id}`: the pinned view of a session, for any client that has its token.
//!
//! The pin hangs on the URL and the token, never on a connection or an earlier call. A request keeps the policy of its
//! admission; it is no attach and no turn, so that it neither moves its session nor keeps it from being moved.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::Response,
    routing::any,
};
use genlock_access::KeyRing;
use genlock_authority::{Authority, SessionPolicy, TokenKey};
use genlock_config::{Auth, Config, Mode, ServerDefinition};
use genlock_front::{Entropy, Front, FrontParts, Keys, RemoteAddress};
use genlock_policy::{Gate, GenerationNumber, Revocation, RevocationKind};
use genlock_servers::{Pool, Servers};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::watch, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use crate::{
    audit::{Act, Who},
    reload::{Reloader, unix_ms},
    status::failure,
};

/// How long a server that only pinned views use goes on after its last call.
const IDLE: Duration = Duration::from_secs(300);
/// How long a view that nobody uses is kept.
const KEPT: Duration = Duration::from_secs(900);

/// The pinned views that are served. A clone shares them.
#[derive(Clone)]
pub(crate) struct PinnedDoors {
    inner: Arc<Inner>,
}

struct Inner {
    authority: Authority,
    reloader: Arc<Reloader>,
    pool: Arc<Pool>,
    key: TokenKey,
    entropy: Entropy,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    doors: Mutex<HashMap<String, Door>>,
    tasks: TaskTracker,
}

/// The front of one session.
#[derive(Clone)]
struct Door {
    front: Front,
    policy: watch::Receiver<Arc<SessionPolicy>>,
    /// The number of the policy that the front serves.
    served: Arc<Mutex<u64>>,
    used: Instant,
    /// Ends when the view is let go.
    kept: CancellationToken,
}

/// Why a request is not let in.
enum Shut {
    /// There is no such session, or this is not its token: both alike.
    Unknown,
    /// The session is revoked, which whoever has its token is told.
    Revoked(Revocation),
}

impl PinnedDoors {
    pub(crate) fn new(
        authority: Authority,
        reloader: Arc<Reloader>,
        pool: Arc<Pool>,
        key: TokenKey,
        entropy: Entropy,
        clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                authority,
                reloader,
                pool,
                key,
                entropy,
                clock,
                doors: Mutex::default(),
                tasks: TaskTracker::new(),
            }),
        }
    }

    /// Returns what derives the tokens of sessions.
    pub(crate) fn key(&self) -> &TokenKey {
        &self.inner.key
    }

    /// Returns the route.
    pub(crate) fn routes(self) -> Router {
        Router::new()
            .route("/mcp/{session_id}", any(serve))
            .with_state(self)
    }

    /// Takes no new work on any view, and ends the streams on which clients hear of changes.
    pub(crate) fn drain(&self) {
        for door in self.inner.doors.lock().values() {
            door.front.drain();
            door.front.end_streams();
        }
    }

    /// Takes no new work on any view and waits for the streams on them to end.
    pub(crate) async fn stop(&self) {
        let doors: Vec<Door> = self
            .inner
            .doors
            .lock()
            .drain()
            .map(|(_, door)| door)
            .collect();
        for door in doors {
            door.kept.cancel();
            door.front.stop().await;
        }
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Returns the front of a session whose token is presented.
    async fn admit(&self, session: &str, token: &str) -> Result<Front, Shut> {
        let known = self.inner.doors.lock().get(session).cloned();
        let policy = match &known {
            Some(door) => door.policy.clone(),
            None => {
                let policy = self.inner.authority.policy(session).await;
                policy.map_err(|_| Shut::Unknown)?
            }
        };
        let now = Arc::clone(&policy.borrow());
        let now_ms = unix_ms((self.inner.clock)());
        if !self.inner.key.opens(&now.session, token, now_ms) {
            return Err(Shut::Unknown);
        }
        if let Some(revocation) = self.revocation(session) {
            return Err(Shut::Revoked(revocation));
        }
        let door = match known {
            Some(door) => door,
            None => self.open(session, policy, &now),
        };
        self.catch_up(&door, &now);
        self.sweep(session);
        Ok(door.front)
    }

    /// Returns the revocation that a session is under, where it is.
    fn revocation(&self, session: &str) -> Option<Revocation> {
        let revoked = self.inner.pool.revoked();
        revoked.denies(RevocationKind::Session, session).cloned()
    }

    /// Returns the front of a session and what it runs, for whoever may look at the session itself.
    pub(crate) async fn look(&self, session: &str) -> Option<(Front, Arc<SessionPolicy>)> {
        let policy = self.inner.authority.policy(session).await.ok()?;
        let now = Arc::clone(&policy.borrow());
        let known = self.inner.doors.lock().get(session).cloned();
        let door = known.unwrap_or_else(|| self.open(session, policy, &now));
        self.catch_up(&door, &now);
        self.sweep(session);
        Some((door.front, now))
    }

    /// Records that nobody was let in. Which session was asked for is kept where there is one, and no text of a stranger's.
    fn tell_refused(&self, session: &str, from: Option<RemoteAddress>, shut: &Shut) {
        let who = Who::address(from.map(|RemoteAddress(address)| address));
        let mut act = Act::new(who, "auth.refused");
        // Where its view is open, so that whoever knocks makes nobody look anything up.
        let known = self.inner.doors.lock().get(session).cloned();
        if let Some(door) = known {
            let policy = Arc::clone(&door.policy.borrow());
            act = act
                .on(policy.session.id.as_str())
                .under(Some(generation(&policy)));
        }
        let audit = self.inner.reloader.audit();
        let (gate, code) = match shut {
            Shut::Unknown => (Gate::Credential, "unauthorized"),
            Shut::Revoked(_) => (Gate::Session, Revocation::CODE),
        };
        audit.refused(act, Some(gate), code);
    }

    /// Makes the front of a session; the first of several at once stays.
    fn open(
        &self,
        session: &str,
        policy: watch::Receiver<Arc<SessionPolicy>>,
        now: &SessionPolicy,
    ) -> Door {
        let (config, servers) = self.world(now);
        let mut doors = self.inner.doors.lock();
        let door = doors.entry(session.to_owned()).or_insert_with(|| {
            let entropy = Arc::clone(&self.inner.entropy);
            let door = Door {
                front: self.front(now, config, servers, entropy),
                policy,
                served: Arc::new(Mutex::new(now.session.policy_seq.get())),
                used: Instant::now(),
                kept: CancellationToken::new(),
            };
            self.inner.tasks.spawn(self.clone().follow(door.clone()));
            door
        });
        door.clone()
    }

    fn front(
        &self,
        policy: &SessionPolicy,
        config: Arc<Config>,
        servers: Servers,
        entropy: Entropy,
    ) -> Front {
        // No key opens it: whoever comes in has shown the token of the session.
        let ring = KeyRing::new(self.inner.reloader.history().key_hasher());
        let (audit, session) = (self.inner.reloader.audit(), &policy.session);
        Front::new(FrontParts {
            generation: Some(generation(policy)),
            config,
            servers,
            pool: Arc::clone(&self.inner.pool),
            keys: Keys::new(ring, Arc::clone(&self.inner.clock)),
            entropy,
            pinned: Some(session.id.as_str().into()),
            witness: Some(audit.of_session(session.id.as_str(), &session.owner)),
        })
    }

    /// Brings a front to each policy that is committed, so that clients hear of it which ask for nothing; lets it go where its
    /// session is revoked. What else is revoked a front follows by itself.
    async fn follow(self, mut door: Door) {
        let mut revoked = self.inner.pool.watch_revoked();
        let session = door.policy.borrow().session.id.clone();
        loop {
            // Looked at after the watch began, so that no revocation is missed between the two.
            if self.revocation(session.as_str()).is_some() {
                return self.let_go(session.as_str());
            }
            let moved = tokio::select! {
                () = door.kept.cancelled() => return,
                noticed = revoked.changed() => match noticed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                moved = door.policy.changed() => moved,
            };
            if moved.is_err() {
                return;
            }
            let now = Arc::clone(&door.policy.borrow());
            self.catch_up(&door, &now);
        }
    }

    /// Brings a front to the policy that was committed last, before the request that has seen it goes on.
    fn catch_up(&self, door: &Door, now: &SessionPolicy) {
        let seq = now.session.policy_seq.get();
        let mut served = door.served.lock();
        if *served < seq {
            let (config, servers) = self.world(now);
            door.front.publish(Some(generation(now)), config, servers);
            *served = seq;
        }
    }

    /// Marks a view as used, and lets go of those that nobody used for long, or whose session is closed.
    fn sweep(&self, session: &str) {
        let now = Instant::now();
        let mut doors = self.inner.doors.lock();
        if let Some(door) = doors.get_mut(session) {
            door.used = now;
        }
        doors.retain(|_, door| {
            let is_closed = door.policy.borrow().session.closed_ms.is_some();
            let is_used = door.front.sessions() > 0 || now.duration_since(door.used) < KEPT;
            let stays = is_used && !is_closed;
            if !stays {
                door.shut();
            }
            stays
        });
    }

    fn let_go(&self, session: &str) {
        if let Some(door) = self.inner.doors.lock().remove(session) {
            door.shut();
        }
    }

    /// Returns what a policy serves: its config, cut down to its servers, and these. A definition that is in force as well shares
    /// its server; any other gets one of its own, that starts with its first call and stops when it is idle.
    fn world(&self, policy: &SessionPolicy) -> (Arc<Config>, Servers) {
        let pinned = &policy.pinned.generation.config;
        let head = &self.inner.reloader.head().config;
        let mut config = (**pinned).clone();
        let selected = &policy.session.selection.servers;
        // Who comes in here was let in by the token of the session, and sees what the session selects.
        config.auth = Auth::default();
        config.tool_access.mode = Mode::Egress;
        config
            .servers
            .retain(|name, _| selected.contains(name.as_str()));
        let definitions: Vec<ServerDefinition> = config
            .servers
            .iter()
            .map(|(name, definition)| match head.servers.get(name) {
                Some(in_force) if in_force == definition => definition.clone(),
                Some(_) | None => on_demand(definition),
            })
            .collect();
        let servers = self.inner.pool.hold(&definitions, &config.execution);
        (Arc::new(config), servers)
    }
}

impl Door {
    /// Takes no new work and ends the streams; answers that are under way go on.
    fn shut(&self) {
        self.kept.cancel();
        self.front.drain();
        self.front.end_streams();
    }
}

fn generation(policy: &SessionPolicy) -> GenerationNumber {
    policy.pinned.generation.number
}

fn on_demand(definition: &ServerDefinition) -> ServerDefinition {
    let mut definition = definition.clone();
    definition.lazy = true;
    if definition.idle_ttl.is_zero() {
        definition.idle_ttl = IDLE;
    }
    definition
}

async fn serve(
    State(doors): State<PinnedDoors>,
    Path(session): Path<String>,
    mut request: Request<Body>,
) -> Response {
    let token = bearer(request.headers()).map(str::to_owned);
    let front = match token {
        Some(token) => doors.admit(&session, &token).await,
        None => Err(Shut::Unknown),
    };
    let front = match front {
        Ok(front) => front,
        Err(shut) => {
            let from = request.extensions().get::<RemoteAddress>().copied();
            doors.tell_refused(&session, from, &shut);
            return refused(&shut);
        }
    };
    // From here on it is a request as any other, of a front that serves this session alone.
    let query = request.uri().query().map(|query| format!("?{query}"));
    let path = format!("/mcp{}", query.unwrap_or_default());
    if let Ok(uri) = path.parse::<Uri>() {
        *request.uri_mut() = uri;
    }
    request.headers_mut().remove(header::AUTHORIZATION);
    match front.router().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Returns the token that a request carries; none where it carries none, or several.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else {
        return None;
    };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn refused(shut: &Shut) -> Response {
    match shut {
        Shut::Unknown => unauthorized(),
        Shut::Revoked(revocation) => {
            let details = json!({"reason": revocation.reason, "number": revocation.number});
            let (status, text) = (StatusCode::FORBIDDEN, revocation.to_string());
            failure(status, Revocation::CODE, &text, &details)
        }
    }
}

fn unauthorized() -> Response {
    let message = "there is no such session, or this is not its token";
    let mut response = failure(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        message,
        &json!({}),
    );
    let challenge = HeaderValue::from_static("Bearer realm=\"genlock\"");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}
