//! [`Authority`]: the handle on all sessions of a profile.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use camino::Utf8PathBuf;
use genlock_config::ProfileId;
use genlock_frames::SessionId;
use genlock_policy::{
    Actor as Asker, Generation, Known, NO_MCP, Overlay, Pick, TERMINAL, TransitionCause, resolve,
};
use genlock_store::{
    Epoch, NewSession, SessionRecord, Store, TurnId, TurnOutcome, TurnRecord, TurnStatus,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    actor::{Actor, Command, Moved, SessionPolicy, SessionView, Wish},
    ports::{Generations, Runners},
    refusal::{Refusal, owned_by},
    waiting::Moves,
};

/// How many commands may wait for the actor of one session; more wait outside.
const COMMANDS: usize = 64;
/// The longest `request_id`, `submission_id`, `source` and title, in bytes.
const LONGEST_NAME: usize = 256;
/// How long turns that were interrupted at the end may take to say how they ended.
const ACKNOWLEDGE: Duration = Duration::from_secs(10);

/// What an authority is made of.
pub struct Parts {
    /// What is durable.
    pub store: Arc<dyn Store>,
    /// The profile.
    pub profile: ProfileId,
    /// The epoch that was taken for this authority.
    pub epoch: Epoch,
    /// What numbers of generations stand for.
    pub generations: Arc<dyn Generations>,
    /// What runs turns.
    pub runners: Arc<dyn Runners>,
    /// What is revoked, now and from now on: the one thing of the head that a pinned session heeds.
    pub revoked: watch::Receiver<Arc<Overlay>>,
    /// The wall clock.
    pub clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// Random bytes that nobody can guess.
    pub random: Arc<dyn Fn() -> [u8; 16] + Send + Sync>,
    /// Is told of transitions and turns: the kind, and what is known.
    pub events: Arc<dyn Fn(&'static str, Value) + Send + Sync>,
}

/// The single writer for the sessions of a profile. A clone shares it.
#[derive(Clone)]
pub struct Authority {
    core: Arc<Core>,
    sessions: Arc<Mutex<HashMap<SessionId, Handle>>>,
}

pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) profile: ProfileId,
    pub(crate) epoch: Epoch,
    pub(crate) generations: Arc<dyn Generations>,
    pub(crate) runners: Arc<dyn Runners>,
    pub(crate) revoked: watch::Receiver<Arc<Overlay>>,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    random: Arc<dyn Fn() -> [u8; 16] + Send + Sync>,
    events: Arc<dyn Fn(&'static str, Value) + Send + Sync>,
    pub(crate) tasks: TaskTracker,
    /// No turn is begun or admitted any more.
    pub(crate) draining: CancellationToken,
    /// Turns that run are to end.
    pub(crate) interrupting: CancellationToken,
    /// Everything ends.
    pub(crate) aborted: CancellationToken,
}

#[derive(Clone)]
struct Handle {
    commands: mpsc::Sender<Command>,
    moves: Moves,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The principal.
    pub actor: Asker,
    /// Whether sessions of others may be looked at and worked on.
    pub operator: bool,
}

/// What a session is asked for with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSessionRequest {
    /// The caller's own id of the request.
    pub request_id: String,
    /// What kind of client it is for.
    pub source: String,
    /// The directory that it works in: absolute, and one that exists.
    pub cwd: Utf8PathBuf,
    /// The names that it picks; `None` where it picks nothing.
    pub toolsets: Option<Vec<String>>,
    /// A name for people.
    pub title: Option<String>,
}

/// A turn as it is submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The caller's own id of it.
    pub id: String,
    /// What it does, as JSON.
    pub payload: String,
    /// Who submits it.
    pub actor: Asker,
}

impl Authority {
    /// Takes over the sessions of a profile: turns that ran when the authority before ended are `unknown` from now on, and
    /// queued ones run. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn start(parts: Parts) -> Result<Self, Refusal> {
        let core = Core {
            store: parts.store,
            profile: parts.profile,
            epoch: parts.epoch,
            generations: parts.generations,
            runners: parts.runners,
            revoked: parts.revoked,
            clock: parts.clock,
            random: parts.random,
            events: parts.events,
            tasks: TaskTracker::new(),
            draining: CancellationToken::new(),
            interrupting: CancellationToken::new(),
            aborted: CancellationToken::new(),
        };
        let given_up = core.store.give_up_running(core.epoch, &core.profile).await;
        for turn in given_up.map_err(Refusal::Store)? {
            tracing::warn!(%turn, "the turn ran when its owner ended: nobody knows how far it came");
        }
        let waiting = core.store.sessions_with_open_turns(&core.profile).await?;
        let authority = Self {
            core: Arc::new(core),
            sessions: Arc::default(),
        };
        for session in waiting {
            authority.handle(&session).await?;
        }
        Ok(authority)
    }

    /// Takes no more work from here on, lets turns that run go on for `drain`, then ends them. A turn that does not say within
    /// 10 s how it ended is `unknown`; queued turns stay queued.
    ///
    /// # Cancel safety
    /// May be called again.
    pub async fn stop(&self, drain: Duration) {
        self.core.draining.cancel();
        self.core.tasks.close();
        if timeout(drain, self.core.tasks.wait()).await.is_err() {
            self.core.interrupting.cancel();
            // Who has not ended by then is given up.
            let _ = timeout(ACKNOWLEDGE, self.core.tasks.wait()).await;
        }
        self.core.aborted.cancel();
        self.core.tasks.wait().await;
    }

    /// Ends everything at once: turns that run are `unknown`, queued ones stay queued.
    ///
    /// # Cancel safety
    /// May be called again.
    pub async fn abort(&self) {
        self.core.draining.cancel();
        self.core.aborted.cancel();
        self.core.tasks.close();
        self.core.tasks.wait().await;
    }

    // === sessions ===

    /// Creates a session under `head`; the same request of the same caller gives the same session.
    ///
    /// # Errors
    /// [`Refusal`].
    ///
    /// # Cancel safety
    /// The session is there or not; call again with the same request.
    pub async fn create(
        &self,
        caller: &Caller,
        request: NewSessionRequest,
        head: &Generation,
    ) -> Result<SessionRecord, Refusal> {
        self.take_no_more()?;
        check_name("request_id", &request.request_id)?;
        check_name("source", &request.source)?;
        if let Some(title) = &request.title {
            check_name("title", title)?;
        }
        if !request.cwd.is_absolute() || !request.cwd.is_dir() {
            return Err(Refusal::invalid(
                "cwd",
                "must be an absolute directory that exists",
            ));
        }
        let ever = self.core.store.server_names(&self.core.profile).await?;
        let known = known(head, ever);
        let names = request.toolsets.as_deref();
        let pick = names
            .map(|names| Pick::of(names.iter().map(String::as_str), &known))
            .transpose()
            .map_err(Refusal::UnknownMember)?;
        let selection = resolve(pick.as_ref(), &request.source, &head.config, &known.servers);
        let id = SessionId::new(self.core.random_text());
        let new = NewSession {
            profile: self.core.profile.clone(),
            id: id.map_err(|error| Refusal::invalid("session_id", error.to_string()))?,
            owner: caller.actor.clone(),
            request_id: request.request_id,
            source: request.source,
            cwd: request.cwd,
            title: request.title,
            pick,
            generation: head.number,
            selection,
            at_ms: self.core.now_ms(),
        };
        let created = self.core.store.create_session(self.core.epoch, new).await;
        let session = created.map_err(Refusal::of_create)?;
        tracing::info!(session = %session.id, generation = %session.generation, "session");
        Ok(session)
    }

    /// Moves a session to `head`, if it is idle and `head` means something else to it.
    ///
    /// # Errors
    /// [`Refusal`]. That the session is busy is none: see [`Moved`].
    ///
    /// # Cancel safety
    /// The transition is committed or not; call again.
    pub async fn move_to(
        &self,
        caller: &Caller,
        session: &str,
        head: Generation,
        cause: TransitionCause,
    ) -> Result<Moved, Refusal> {
        let session = self.owned(caller, session).await?;
        let actor = caller.actor.clone();
        let wish = Wish { head, cause, actor };
        self.ask(&session.id, |reply| Command::Move(wish, reply))
            .await
    }

    /// Returns a session as it is now.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn view(&self, caller: &Caller, session: &str) -> Result<SessionView, Refusal> {
        let session = self.owned(caller, session).await?;
        self.ask(&session.id, Command::View).await
    }

    /// Returns what a session runs, now and from now on, to serve its pinned view. Whoever asks has to check the token.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn policy(
        &self,
        session: &str,
    ) -> Result<watch::Receiver<Arc<SessionPolicy>>, Refusal> {
        let missing = || Refusal::NoSession(session.to_owned());
        let id = SessionId::new(session).map_err(|_| missing())?;
        self.ask(&id, Command::Policy).await
    }

    /// Returns at most `limit` of the caller's sessions, newest first, below `before`.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn list(
        &self,
        caller: &Caller,
        before: Option<&SessionId>,
        limit: u32,
    ) -> Result<Vec<SessionRecord>, Refusal> {
        let sessions = self
            .core
            .store
            .sessions(&self.core.profile, before, limit)
            .await?;
        let own = sessions
            .into_iter()
            .filter(|session| owned_by(&session.owner, caller));
        Ok(own.collect())
    }

    /// Closes a session: what is queued is cancelled, what runs is stopped.
    ///
    /// # Errors
    /// [`Refusal::Busy`] where a turn is unknown; other [`Refusal`]s.
    pub async fn close(&self, caller: &Caller, session: &str) -> Result<SessionRecord, Refusal> {
        let session = self.owned(caller, session).await?;
        self.ask(&session.id, Command::Close).await
    }

    /// Ends the token of a session: the next one is derived with another counter.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn rotate_token(
        &self,
        caller: &Caller,
        session: &str,
    ) -> Result<SessionRecord, Refusal> {
        let session = self.owned(caller, session).await?;
        self.ask(&session.id, Command::RotateToken).await
    }

    // === turns ===

    /// Admits a turn under the policy that its session runs now. When it returns, the turn is on the disk.
    ///
    /// # Errors
    /// [`Refusal`].
    ///
    /// # Cancel safety
    /// The turn is admitted or not; call again with the same submission.
    pub async fn submit(
        &self,
        caller: &Caller,
        session: &str,
        submission_id: String,
        payload: String,
    ) -> Result<TurnRecord, Refusal> {
        self.take_no_more()?;
        check_name("submission_id", &submission_id)?;
        let session = self.owned(caller, session).await?;
        let submission = Submission {
            id: submission_id,
            payload,
            actor: caller.actor.clone(),
        };
        self.ask(&session.id, |reply| Command::Submit(submission, reply))
            .await
    }

    /// Returns a turn as it is now.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn turn(&self, caller: &Caller, turn: &TurnId) -> Result<TurnRecord, Refusal> {
        let found = self.core.store.turn(&self.core.profile, turn).await?;
        let missing = || Refusal::NoTurn(turn.clone());
        let found = found.ok_or_else(missing)?;
        match self.owned(caller, found.session.as_str()).await {
            Ok(_) => Ok(found),
            Err(Refusal::NoSession(_)) => Err(missing()),
            Err(other) => Err(other),
        }
    }

    /// Waits until a turn is over or unknown, for `patience` at most, and returns it as it is then.
    ///
    /// # Errors
    /// [`Refusal`].
    ///
    /// # Cancel safety
    /// Changes nothing; may be dropped at any time.
    pub async fn wait(
        &self,
        caller: &Caller,
        turn: &TurnId,
        patience: Duration,
    ) -> Result<TurnRecord, Refusal> {
        let deadline = Instant::now() + patience;
        let first = self.turn(caller, turn).await?;
        let mut moves = self.handle(&first.session).await?.moves.wait();
        loop {
            // Read after the wait began, so that no move is missed between the two.
            let found = self.turn(caller, turn).await?;
            match found.status {
                TurnStatus::Done(_) | TurnStatus::Unknown => return Ok(found),
                TurnStatus::Queued | TurnStatus::Running => {}
            }
            if !moves.next(deadline).await {
                return self.turn(caller, turn).await;
            }
        }
    }

    /// Takes a queued turn back.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn cancel(&self, caller: &Caller, turn: &TurnId) -> Result<TurnRecord, Refusal> {
        let found = self.turn(caller, turn).await?;
        self.ask(&found.session, |reply| Command::Cancel(turn.clone(), reply))
            .await
    }

    /// Asks for the end of a running turn; its receipt says what came of it.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn interrupt(&self, caller: &Caller, turn: &TurnId) -> Result<TurnRecord, Refusal> {
        let found = self.turn(caller, turn).await?;
        self.ask(&found.session, |reply| {
            Command::Interrupt(turn.clone(), reply)
        })
        .await?;
        self.turn(caller, turn).await
    }

    /// Says what became of an unknown turn, after which its session goes on.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn resolve_unknown(
        &self,
        caller: &Caller,
        turn: &TurnId,
        outcome: TurnOutcome,
    ) -> Result<TurnRecord, Refusal> {
        let found = self.turn(caller, turn).await?;
        let actor = caller.actor.clone();
        self.ask(&found.session, |reply| {
            Command::Resolve(turn.clone(), outcome, actor, reply)
        })
        .await
    }

    // === actors ===

    fn take_no_more(&self) -> Result<(), Refusal> {
        match self.core.draining.is_cancelled() {
            true => Err(Refusal::Draining),
            false => Ok(()),
        }
    }

    /// Returns a session of the caller. One of somebody else is answered as one that is not there.
    async fn owned(&self, caller: &Caller, session: &str) -> Result<SessionRecord, Refusal> {
        let missing = || Refusal::NoSession(session.to_owned());
        let id = SessionId::new(session).map_err(|_| missing())?;
        let found = self.core.store.session(&self.core.profile, &id).await?;
        found
            .filter(|found| owned_by(&found.owner, caller))
            .ok_or_else(missing)
    }

    async fn ask<T>(
        &self,
        session: &SessionId,
        command: impl FnOnce(oneshot::Sender<Result<T, Refusal>>) -> Command,
    ) -> Result<T, Refusal> {
        let handle = self.handle(session).await?;
        let (reply, answer) = oneshot::channel();
        let asked = handle.commands.send(command(reply)).await;
        asked.map_err(|_| Refusal::Draining)?;
        answer.await.unwrap_or(Err(Refusal::Draining))
    }

    /// Returns the actor of a session, which is started where it does not run.
    async fn handle(&self, session: &SessionId) -> Result<Handle, Refusal> {
        if let Some(handle) = self.sessions.lock().get(session) {
            return Ok(handle.clone());
        }
        let record = self.core.store.session(&self.core.profile, session).await?;
        let record = record.ok_or_else(|| Refusal::NoSession(session.to_string()))?;
        let mut sessions = self.sessions.lock();
        // Somebody else may have been first; a stopped authority starts none.
        if let Some(handle) = sessions.get(session) {
            return Ok(handle.clone());
        }
        self.take_no_more()?;
        let (commands, received) = mpsc::channel(COMMANDS);
        let moves = Moves::new();
        let actor = Actor::new(Arc::clone(&self.core), record, received, moves.clone());
        self.core.tasks.spawn(actor.run());
        let handle = Handle { commands, moves };
        sessions.insert(session.clone(), handle.clone());
        Ok(handle)
    }
}

/// The names that a pick may hold under a head.
fn known(head: &Generation, ever: std::collections::BTreeSet<String>) -> Known {
    let listed = head.config.platform_toolsets.values().flatten();
    let toolsets = listed.map(String::as_str).chain([TERMINAL]);
    let toolsets = toolsets.filter(|name| !ever.contains(*name) && *name != NO_MCP);
    Known {
        toolsets: toolsets.map(str::to_owned).collect(),
        servers: ever,
    }
}

fn check_name(name: &'static str, value: &str) -> Result<(), Refusal> {
    let fits = (1..=LONGEST_NAME).contains(&value.len()) && !value.chars().any(char::is_control);
    match fits {
        true => Ok(()),
        false => Err(Refusal::invalid(
            name,
            format!("must be 1 to {LONGEST_NAME} bytes without control characters"),
        )),
    }
}

// === impl Core ===

impl Core {
    pub(crate) fn now_ms(&self) -> i64 {
        let since = (self.clock)().duration_since(SystemTime::UNIX_EPOCH);
        i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
    }

    /// Makes a text of 32 digits that nobody can guess.
    pub(crate) fn random_text(&self) -> String {
        let bytes = (self.random)();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn tell_turn(&self, turn: &TurnRecord, status: TurnStatus) {
        let outcome = status.outcome().map(TurnOutcome::as_str);
        tracing::info!(session = %turn.session, turn = %turn.id, status = status.as_str(), outcome, "turn");
        let what = json!({
            "session_id": turn.session, "turn_id": turn.id.as_str(), "status": status.as_str(),
            "outcome": outcome, "policy_seq": turn.policy_seq, "generation": turn.generation,
        });
        (self.events)("turn", what);
    }

    pub(crate) fn tell_transition(&self, session: &SessionRecord) {
        let what = json!({
            "session_id": session.id, "policy_seq": session.policy_seq, "generation": session.generation,
        });
        (self.events)("session.transition", what);
    }

    pub(crate) fn tell_closed(&self, session: &SessionRecord) {
        tracing::info!(session = %session.id, "session closed");
        (self.events)("session.closed", json!({"session_id": session.id}));
    }
}
