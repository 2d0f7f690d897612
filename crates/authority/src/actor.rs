//! The actor of one session: the one place where its policy is committed, published and claimed under.

mod revocations;

use std::{sync::Arc, time::Duration};

use genlock_frames::{PolicySeq, ServerView};
use genlock_policy::{
    Actor as Asker, Generation, GenerationNumber, Overlay, Revocation, TransitionCause,
    needs_transition, resolve,
};
use genlock_store::{
    Fault, NewTransition, NewTurn, OpenTurn, SessionRecord, TransitionError, TurnError, TurnId,
    TurnMove, TurnOutcome, TurnRecord, TurnStatus,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    authority::{Core, Submission},
    execution::{Ran, Start, Warm, execute},
    payload::Payload,
    ports::{Pinned, RunnerOrder},
    refusal::{Refusal, busy_message},
    waiting::Moves,
};

/// How long a store that failed is left alone before the queue is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// What became of the wish to move a session to the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// What happened.
    pub transition: Transition,
    /// The policy that the session runs now.
    pub policy_seq: PolicySeq,
    /// The generation that it pins now.
    pub generation: GenerationNumber,
    /// The session as it is stored now.
    pub session: SessionRecord,
}

/// What happened to a session that was to be moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transition {
    /// It runs the next policy.
    Applied,
    /// It runs what the head means already.
    Unchanged,
    /// Turns of it are not over, and they win.
    Busy {
        /// The turns, in their order.
        blocked_by: Vec<OpenTurn>,
    },
}

/// A session as it is now.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// As it is stored.
    pub session: SessionRecord,
    /// What it pins.
    pub generation: Arc<Generation>,
    /// The turns that are not over, in their order.
    pub open: Vec<OpenTurn>,
    /// Its worker's own view of its servers; `None` while it has no worker.
    pub servers: Option<Vec<ServerView>>,
    /// The revocation that it is under, where it is.
    pub revoked: Option<Revocation>,
}

/// What a session runs. A request that holds it sees nothing of a later transition.
#[derive(Clone)]
pub struct SessionPolicy {
    /// The session as it is stored.
    pub session: SessionRecord,
    /// What it pins, and which private values of it are missing.
    pub pinned: Pinned,
}

/// What the actor of a session is asked.
pub(crate) enum Command {
    Submit(Submission, oneshot::Sender<Result<TurnRecord, Refusal>>),
    Move(Wish, oneshot::Sender<Result<Moved, Refusal>>),
    Cancel(TurnId, oneshot::Sender<Result<TurnRecord, Refusal>>),
    Interrupt(TurnId, oneshot::Sender<Result<(), Refusal>>),
    Resolve(
        TurnId,
        TurnOutcome,
        Asker,
        oneshot::Sender<Result<TurnRecord, Refusal>>,
    ),
    Close(oneshot::Sender<Result<SessionRecord, Refusal>>),
    RotateToken(oneshot::Sender<Result<SessionRecord, Refusal>>),
    View(oneshot::Sender<Result<SessionView, Refusal>>),
    Policy(oneshot::Sender<Result<watch::Receiver<Arc<SessionPolicy>>, Refusal>>),
}

/// The wish to move a session to a head.
pub(crate) struct Wish {
    pub(crate) head: Generation,
    pub(crate) cause: TransitionCause,
    pub(crate) actor: Asker,
}

pub(crate) struct Actor {
    pub(crate) core: Arc<Core>,
    pub(crate) session: SessionRecord,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) moves: Moves,
    /// Tells of revocations and of their ends.
    revoked: watch::Receiver<Arc<Overlay>>,
    /// The generation that the session pins; read anew where private values of it were missing.
    pinned: Option<Pinned>,
    /// What whoever serves the pinned view goes by; none before somebody asked.
    published: Option<watch::Sender<Arc<SessionPolicy>>>,
    /// Of the session's policy; set by [`Self::keep_warm`] alone.
    warm: Option<Warm>,
    running: Option<Running>,
    /// When an idle runner is retired.
    retire_at: Option<Instant>,
    /// When the queue is looked at again, after the store did not let it.
    claim_at: Option<Instant>,
}

/// The turn that runs.
struct Running {
    turn: TurnId,
    interrupt: CancellationToken,
    /// A task of its own: polled by the actor alone, it could hold the store's writer while the actor waits for the same.
    ending: AbortOnDropHandle<Ran>,
}

enum Woken {
    Asked(Option<Command>),
    Ran(Box<Ran>),
    RunnerEnded,
    Idle,
    Again,
    Revocations,
    /// The authority takes no more work, and nothing runs here.
    Drained,
    /// What runs is to end now.
    Interrupting,
    Aborted,
}

impl Actor {
    pub(crate) fn new(
        core: Arc<Core>,
        session: SessionRecord,
        commands: mpsc::Receiver<Command>,
        moves: Moves,
    ) -> Self {
        Self {
            revoked: core.revoked.clone(),
            core,
            session,
            commands,
            moves,
            pinned: None,
            published: None,
            warm: None,
            running: None,
            retire_at: None,
            claim_at: None,
        }
    }

    /// Runs until the authority is stopped.
    pub(crate) async fn run(mut self) {
        self.claim().await;
        loop {
            match self.wake().await {
                Woken::Asked(Some(command)) => self.take(command).await,
                Woken::Asked(None) => break,
                Woken::Ran(ran) => self.take_back(*ran).await,
                Woken::RunnerEnded => self.warm = None,
                Woken::Idle => self.retire(),
                Woken::Again => self.claim().await,
                Woken::Revocations => self.follow_revocations().await,
                Woken::Interrupting => self.interrupt_running(),
                Woken::Drained | Woken::Aborted => break,
            }
        }
        self.end().await;
    }

    async fn wake(&mut self) -> Woken {
        let idle = self.running.is_none();
        let interruptible = self
            .running
            .as_ref()
            .is_some_and(|running| !running.interrupt.is_cancelled());
        tokio::select! {
            () = self.core.aborted.cancelled() => Woken::Aborted,
            ran = ran(&mut self.running) => Woken::Ran(Box::new(ran)),
            () = self.core.draining.cancelled(), if idle => Woken::Drained,
            () = self.core.interrupting.cancelled(), if interruptible => Woken::Interrupting,
            command = self.commands.recv() => Woken::Asked(command),
            () = ended(self.warm.as_ref()), if idle => Woken::RunnerEnded,
            () = come(self.retire_at) => Woken::Idle,
            () = come(self.claim_at) => Woken::Again,
            () = noticed(&mut self.revoked) => Woken::Revocations,
        }
    }

    async fn take(&mut self, command: Command) {
        // Who asked may be gone by then; what was done is done.
        match command {
            Command::Submit(submission, reply) => {
                let admitted = self.submit(submission).await;
                let _ = reply.send(admitted);
                self.claim().await;
            }
            Command::Move(wish, reply) => {
                let moved = self.move_to(wish).await;
                let _ = reply.send(moved);
            }
            Command::Cancel(turn, reply) => {
                let cancelled = self.cancel(&turn).await;
                let _ = reply.send(cancelled);
                self.claim().await;
            }
            Command::Interrupt(turn, reply) => {
                let _ = reply.send(self.interrupt(&turn).await);
            }
            Command::Resolve(turn, outcome, actor, reply) => {
                let resolved = self.resolve_unknown(&turn, outcome, &actor).await;
                let _ = reply.send(resolved);
                self.claim().await;
            }
            Command::Close(reply) => {
                let closed = self.close().await;
                let _ = reply.send(closed);
            }
            Command::RotateToken(reply) => {
                let rotated = self.rotate_token().await;
                let _ = reply.send(rotated);
            }
            Command::View(reply) => {
                let view = self.view().await;
                let _ = reply.send(view);
            }
            Command::Policy(reply) => {
                let policy = self.policy().await;
                let _ = reply.send(policy);
            }
        }
    }

    // === the policy ===

    /// Moves the session to a head. The store decides whether it is idle, in the transaction that moves it.
    async fn move_to(&mut self, wish: Wish) -> Result<Moved, Refusal> {
        if self.session.closed_ms.is_some() {
            return Err(Refusal::Closed(self.session.id.clone()));
        }
        self.check_revoked()?;
        let Wish { head, cause, actor } = wish;
        let ever = self.core.store.server_names(&self.core.profile).await?;
        let pick = self.session.pick.as_ref();
        let selection = resolve(pick, &self.session.source, &head.config, &ever);
        let pinned = self.pinned().await?.generation.snapshot.digest();
        let candidate = (head.snapshot.digest(), &selection);
        if !needs_transition((pinned, &self.session.selection), candidate) {
            return Ok(self.moved(Transition::Unchanged));
        }
        let new = NewTransition {
            profile: self.core.profile.clone(),
            session: self.session.id.clone(),
            expected: self.session.policy_seq,
            generation: head.number,
            selection,
            cause,
            actor,
            at_ms: self.core.now_ms(),
        };
        let committed = self
            .core
            .store
            .commit_transition(self.core.epoch, new)
            .await;
        match committed {
            Ok(session) => {
                self.publish(session, head);
                Ok(self.moved(Transition::Applied))
            }
            Err(TransitionError::Busy { turns }) => {
                Ok(self.moved(Transition::Busy { blocked_by: turns }))
            }
            Err(error) => {
                // A commit that is in doubt may have been made: what the store has is what the session runs.
                self.reread().await;
                Err(Refusal::of_transition(error, &self.session.id))
            }
        }
    }

    /// Puts a committed policy in force: the next claim runs under it.
    fn publish(&mut self, session: SessionRecord, generation: Generation) {
        tracing::info!(
            session = %session.id,
            policy_seq = %session.policy_seq,
            generation = %session.generation,
            "transition committed"
        );
        self.core.tell_transition(&session);
        self.session = session;
        self.pinned = Some(Pinned {
            generation: Arc::new(generation),
            missing: std::collections::BTreeMap::new(),
        });
        self.retire();
        self.tell_policy();
    }

    async fn reread(&mut self) {
        let id = self.session.id.clone();
        if let Ok(Some(stored)) = self.core.store.session(&self.core.profile, &id).await
            && stored != self.session
        {
            self.session = stored;
            self.pinned = None;
            self.retire();
            if self.pinned().await.is_ok() {
                self.tell_policy();
            }
        }
    }

    fn moved(&self, transition: Transition) -> Moved {
        Moved {
            transition,
            policy_seq: self.session.policy_seq,
            generation: self.session.generation,
            session: self.session.clone(),
        }
    }

    /// Returns what the session pins. Where private values were missing it is read again: they may be there by now.
    async fn pinned(&mut self) -> Result<Pinned, Refusal> {
        if let Some(pinned) = self
            .pinned
            .clone()
            .filter(|pinned| pinned.missing.is_empty())
        {
            return Ok(pinned);
        }
        let pinned = self
            .core
            .generations
            .pinned(self.session.generation)
            .await?;
        self.pinned = Some(pinned.clone());
        self.tell_policy();
        Ok(pinned)
    }

    /// Returns what the session runs, now and from now on.
    async fn policy(&mut self) -> Result<watch::Receiver<Arc<SessionPolicy>>, Refusal> {
        let pinned = self.pinned().await?;
        let policy = SessionPolicy {
            session: self.session.clone(),
            pinned,
        };
        let published = self
            .published
            .get_or_insert_with(|| watch::Sender::new(Arc::new(policy)));
        Ok(published.subscribe())
    }

    /// Tells whoever serves the pinned view what the session runs by now.
    fn tell_policy(&self) {
        if let (Some(published), Some(pinned)) = (&self.published, &self.pinned) {
            published.send_replace(Arc::new(SessionPolicy {
                session: self.session.clone(),
                pinned: pinned.clone(),
            }));
        }
    }

    /// Refuses a turn that needs private values which cannot be had.
    async fn check_values(&mut self, payload: &Payload) -> Result<Pinned, Refusal> {
        let pinned = self.pinned().await?;
        let needs = payload.needs(&self.session.selection);
        let missing = pinned
            .missing
            .iter()
            .filter(|(server, _)| needs.contains(*server));
        let pointers: Vec<String> = missing.flat_map(|(_, pointers)| pointers.clone()).collect();
        match pointers.is_empty() {
            true => Ok(pinned),
            false => Err(Refusal::PrivateValuesUnavailable { pointers }),
        }
    }

    // === turns ===

    async fn submit(&mut self, submission: Submission) -> Result<TurnRecord, Refusal> {
        if self.core.draining.is_cancelled() {
            return Err(Refusal::Draining);
        }
        let payload = Payload::parse(&submission.payload)?;
        let new = NewTurn {
            profile: self.core.profile.clone(),
            id: TurnId::new(self.core.random_text()),
            session: self.session.id.clone(),
            submission: submission.id,
            payload: submission.payload,
            actor: submission.actor,
            at_ms: self.core.now_ms(),
        };
        let store = Arc::clone(&self.core.store);
        let before = store.submitted_turn(&new.profile, &new.session, &new.submission);
        if before.await?.is_none() {
            self.check_revoked()?;
            self.check_values(&payload).await?;
        }
        let id = new.id.clone();
        let admitted = store.admit_turn(self.core.epoch, new).await;
        let turn = admitted.map_err(|error| Refusal::of_admission(error, &self.session.id))?;
        if turn.id == id {
            self.tell(&turn);
        }
        Ok(turn)
    }

    /// Begins the first turn of the queue, where none runs or is unknown.
    async fn claim(&mut self) {
        self.claim_at = None;
        while !self.core.draining.is_cancelled() && self.running.is_none() {
            match self.first_queued().await {
                Ok(Some(turn)) => {
                    if !self.begin(turn).await {
                        return self.claim_later();
                    }
                }
                Ok(None) => return self.rest(),
                Err(error) => {
                    tracing::error!(session = %self.session.id, %error, "the queue was not read");
                    return self.claim_later();
                }
            }
        }
    }

    fn claim_later(&mut self) {
        self.claim_at = Some(Instant::now() + AGAIN);
    }

    /// Returns the turn that may begin: the first that is not over, if it waits.
    async fn first_queued(&self) -> Result<Option<TurnRecord>, Fault> {
        let (store, profile) = (&self.core.store, &self.core.profile);
        let open = store.open_turns(profile, &self.session.id).await?;
        match open
            .first()
            .filter(|first| first.status == TurnStatus::Queued)
        {
            Some(first) => store.turn(profile, &first.id).await,
            None => Ok(None),
        }
    }

    /// Begins a turn, or rejects it; false where the store takes neither.
    async fn begin(&mut self, turn: TurnRecord) -> bool {
        let payload = Payload::parse(&turn.payload).map_err(Refusal::from);
        let checked = match (self.check_revoked(), payload) {
            (Ok(()), Ok(payload)) => self.check_values(&payload).await,
            (Err(refusal), _) | (Ok(()), Err(refusal)) => Err(refusal),
        };
        let pinned = match checked {
            Ok(pinned) => pinned,
            Err(refusal) => return self.reject(&turn, &refusal).await,
        };
        let order = RunnerOrder {
            session: self.session.id.clone(),
            policy_seq: turn.policy_seq,
            generation: pinned.generation,
            selection: self.session.selection.clone(),
            cwd: self.session.cwd.clone(),
        };
        self.retire_at = None;
        let interrupt = CancellationToken::new();
        let id = turn.id.clone();
        let execution = execute(Start {
            core: Arc::clone(&self.core),
            turn,
            order,
            warm: self.warm.take(),
            interrupt: interrupt.clone(),
        });
        self.running = Some(Running {
            turn: id,
            interrupt,
            ending: AbortOnDropHandle::new(self.core.tasks.spawn(execution)),
        });
        true
    }

    async fn reject(&mut self, turn: &TurnRecord, refusal: &Refusal) -> bool {
        let error = TurnError {
            code: refusal.code().to_owned(),
            message: refusal.explain(),
        };
        let end = self.core.end(TurnOutcome::Rejected, None, Some(error));
        let step = TurnMove::Withdraw(end);
        match self.step(&turn.id, step, "").await {
            Ok(_) => true,
            Err(error) => {
                tracing::error!(turn = %turn.id, %error, "the turn was not rejected");
                false
            }
        }
    }

    /// Takes back what an execution left, and goes on with the queue.
    async fn take_back(&mut self, ran: Ran) {
        let Some(running) = self.running.take() else {
            return;
        };
        match self.settle(&running.turn, ran).await {
            true => self.claim().await,
            false => self.claim_later(),
        }
    }

    /// Takes over what an execution left: its runner, and how its turn ended. False where nobody can say that: the turn was not
    /// reserved, and waits; or it ran, and is unknown.
    async fn settle(&mut self, turn: &TurnId, ran: Ran) -> bool {
        self.keep_warm(ran.warm);
        match &ran.turn {
            Some(moved) => {
                self.tell(moved);
                true
            }
            None => {
                let _ = self.step(turn, TurnMove::Lose, "").await;
                self.moves.tell();
                false
            }
        }
    }

    async fn cancel(&mut self, turn: &TurnId) -> Result<TurnRecord, Refusal> {
        let remedy = "only a queued turn is cancelled; `turn.interrupt` ends a running one";
        if self.is_running(turn) {
            // It was claimed: whether it is reserved by now is for its execution to say.
            return Err(Refusal::WrongStatus {
                turn: turn.clone(),
                status: TurnStatus::Running,
                remedy,
            });
        }
        let end = self.core.end(TurnOutcome::Cancelled, None, None);
        self.step(turn, TurnMove::Withdraw(end), remedy).await
    }

    async fn interrupt(&mut self, turn: &TurnId) -> Result<(), Refusal> {
        if self.is_running(turn) {
            self.interrupt_running();
            return Ok(());
        }
        let stored = self.core.store.turn(&self.core.profile, turn).await?;
        let status = stored.ok_or_else(|| Refusal::NoTurn(turn.clone()))?.status;
        Err(Refusal::WrongStatus {
            turn: turn.clone(),
            status,
            remedy: "only a running turn is interrupted; `turn.cancel` takes back a queued one",
        })
    }

    async fn resolve_unknown(
        &mut self,
        turn: &TurnId,
        outcome: TurnOutcome,
        actor: &Asker,
    ) -> Result<TurnRecord, Refusal> {
        let error = TurnError {
            code: "outcome_unknown".to_owned(),
            message: format!("resolved as {} by {}", outcome.as_str(), actor.as_str()),
        };
        let end = self.core.end(outcome, None, Some(error));
        let remedy = "only an unknown turn is resolved";
        self.step(turn, TurnMove::Resolve(end), remedy).await
    }

    async fn step(
        &mut self,
        turn: &TurnId,
        step: TurnMove,
        remedy: &'static str,
    ) -> Result<TurnRecord, Refusal> {
        let core = Arc::clone(&self.core);
        let moved = core
            .store
            .move_turn(core.epoch, &core.profile, turn, step)
            .await;
        let moved = moved.map_err(|error| Refusal::of_move(error, turn, remedy))?;
        self.tell(&moved);
        Ok(moved)
    }

    fn tell(&self, turn: &TurnRecord) {
        self.core.tell_turn(turn, turn.status);
        self.moves.tell();
    }

    fn is_running(&self, turn: &TurnId) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| running.turn == *turn)
    }

    // === the session ===

    async fn close(&mut self) -> Result<SessionRecord, Refusal> {
        if let Some(running) = self.running.take() {
            running.interrupt.cancel();
            // Within what a runner takes to stop; one that does not is lost, which the store is told.
            let ran = running.ending.await.unwrap_or(Ran::NOTHING);
            self.settle(&running.turn, ran).await;
        }
        let (core, id) = (&self.core, &self.session.id);
        let closed = core
            .store
            .close_session(core.epoch, &core.profile, id, core.now_ms())
            .await;
        let closed = match closed {
            Ok(closed) => closed,
            Err(error) => {
                let refusal = Refusal::of_close(error, id);
                // It is open still, and its queue goes on.
                self.claim_later();
                return Err(refusal);
            }
        };
        self.session = closed.clone();
        self.retire();
        self.tell_policy();
        self.moves.tell();
        self.core.tell_closed(&closed);
        Ok(closed)
    }

    async fn rotate_token(&mut self) -> Result<SessionRecord, Refusal> {
        let (core, id) = (&self.core, &self.session.id);
        let now = core.now_ms();
        let rotated = core
            .store
            .rotate_token(core.epoch, &core.profile, id, now)
            .await;
        self.session = rotated.map_err(|error| Refusal::of_close(error, id))?;
        self.tell_policy();
        Ok(self.session.clone())
    }

    async fn view(&mut self) -> Result<SessionView, Refusal> {
        let generation = self.pinned().await?.generation;
        let open = self
            .core
            .store
            .open_turns(&self.core.profile, &self.session.id)
            .await?;
        Ok(SessionView {
            session: self.session.clone(),
            generation,
            open,
            servers: self.warm.as_ref().map(|warm| warm.runner.servers()),
            revoked: self.revocation(),
        })
    }

    // === the runner ===

    /// Keeps an idle runner warm for a while.
    fn rest(&mut self) {
        let idle = self.idle_ttl();
        if idle.is_zero() || self.revocation().is_some() {
            // At once: a deadline of now could lose against the next turn.
            return self.retire();
        }
        if self.warm.is_some() && self.retire_at.is_none() {
            self.retire_at = Some(Instant::now() + idle);
        }
    }

    fn idle_ttl(&self) -> Duration {
        let pinned = self.pinned.as_ref();
        pinned.map_or(Duration::ZERO, |pinned| {
            pinned.generation.config.worker.idle_ttl
        })
    }

    fn retire(&mut self) {
        self.retire_at = None;
        if let Some(warm) = self.warm.take() {
            warm.runner.retire();
        }
    }

    /// Takes back the runner of a turn. The turn was over in the store before it came back, so that the session may have
    /// moved on meanwhile: then the runner has nothing more to run.
    fn keep_warm(&mut self, warm: Option<Warm>) {
        let current = self.session.policy_seq;
        let is_stale = warm.as_ref().is_some_and(|warm| warm.policy_seq != current);
        self.warm = warm;
        if is_stale {
            self.retire();
        }
    }

    fn interrupt_running(&self) {
        if let Some(running) = &self.running {
            running.interrupt.cancel();
        }
    }

    /// Ends with what still runs: stopped, or given up as lost.
    async fn end(&mut self) {
        let Some(running) = self.running.take() else {
            return self.retire();
        };
        let turn = running.turn.clone();
        // Whoever runs it ends with it.
        drop(running);
        if let Err(error) = self.step(&turn, TurnMove::Lose, "").await {
            tracing::warn!(%turn, %error, "the turn that still ran was not given up");
        }
    }
}

/// Says what a session that is busy is told.
impl Transition {
    /// Returns the word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Unchanged => "unchanged",
            Self::Busy { .. } => "busy",
        }
    }

    /// Returns what people are told, where there is more to tell than the word.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Applied | Self::Unchanged => None,
            Self::Busy { blocked_by } => Some(busy_message(blocked_by)),
        }
    }
}

async fn ran(running: &mut Option<Running>) -> Ran {
    match running {
        Some(running) => (&mut running.ending).await.unwrap_or(Ran::NOTHING),
        None => std::future::pending().await,
    }
}

async fn ended(warm: Option<&Warm>) {
    match warm {
        Some(warm) => warm.runner.ended().await,
        None => std::future::pending().await,
    }
}

/// Completes when something is revoked, or that is lifted.
async fn noticed(revoked: &mut watch::Receiver<Arc<Overlay>>) {
    // Without anybody who revokes, nothing is told any more.
    if revoked.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn come(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
