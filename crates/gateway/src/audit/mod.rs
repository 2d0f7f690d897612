//! [`Audit`]: who did what, and who was refused what, one record each, on the disk.
//!
//! What was done is on the disk before it is answered as done. What was refused is only counted on the path of a request and
//! written behind it, within about a second, so that no call waits for a disk and nobody fills it: see [`notes`]. A record that
//! the store does not take waits and is tried again; what finds no room any more is counted, and a record says so.
//!
//! No record has an argument, the value of a header, key material or a private value. What a caller wrote is escaped and cut.

mod notes;
mod refusals;
mod reloads;
mod turns;
mod who;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use genlock_authority::Runners;
use genlock_config::ProfileId;
use genlock_mcp::error::escape_text;
use genlock_policy::{Gate, GenerationNumber};
use genlock_store::{AuditFilter, AuditOutcome, AuditRecord, Epoch, Fault, NewAudit, Store};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::who::Who;
use self::{
    notes::{Noted, Notes},
    turns::Recording,
};
use crate::{history::History, reload::unix_ms};

/// The longest text of a caller's that a record has, in characters.
const LONGEST: usize = 128;
/// How long the writer waits after the store did not take a batch.
const RETRY: Duration = Duration::from_secs(1);
/// How long acts may go on once the gateway stops.
const ACTS_END: Duration = Duration::from_secs(2);
/// How often what is too old is deleted.
const TIDY: Duration = Duration::from_secs(86_400);
const DAY_MS: i64 = 86_400_000;

/// The audit of one profile. A clone shares it.
#[derive(Clone)]
pub(crate) struct Audit {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    profile: ProfileId,
    epoch: Epoch,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    notes: Mutex<Notes>,
    /// Something waits that did not before.
    woken: Notify,
    /// Acts that go on, whoever waits for them.
    acts: TaskTracker,
    /// The number of the generation in force; 0 where there is none yet.
    generation: AtomicU64,
    written: AtomicU64,
    lost: AtomicU64,
}

/// What somebody did or asked for.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub(crate) who: Who,
    /// A stable word.
    pub(crate) action: &'static str,
    pub(crate) target: Option<String>,
    /// The generation that it was done under, or that it made; the one in force where it says none.
    pub(crate) generation: Option<GenerationNumber>,
    pub(crate) detail: String,
}

/// Where the record of something is that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Kept {
    /// On the disk.
    OnDisk,
    /// In memory: the store does not take it yet.
    Pending,
}

// === impl Act ===

impl Act {
    pub(crate) fn new(who: Who, action: &'static str) -> Self {
        Self {
            who,
            action,
            target: None,
            generation: None,
            detail: String::new(),
        }
    }

    pub(crate) fn on(self, target: impl Into<String>) -> Self {
        Self {
            target: Some(target.into()),
            ..self
        }
    }

    pub(crate) fn under(self, generation: Option<GenerationNumber>) -> Self {
        Self { generation, ..self }
    }

    pub(crate) fn detail(self, detail: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
            ..self
        }
    }
}

// === impl Kept ===

impl Kept {
    /// Returns where both are, at worst.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::OnDisk, Self::OnDisk) => Self::OnDisk,
            (Self::Pending, _) | (_, Self::Pending) => Self::Pending,
        }
    }

    /// Returns the word that an answer has for it; none where all is well.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Self::OnDisk => None,
            Self::Pending => Some("pending"),
        }
    }
}

// === impl Audit ===

impl Audit {
    /// Keeps the audit of the profile of a history.
    pub(crate) fn new(history: &History, clock: Arc<dyn Fn() -> SystemTime + Send + Sync>) -> Self {
        let (store, profile, epoch) = history.authority();
        let inner = Inner {
            store,
            profile,
            epoch,
            clock,
            notes: Mutex::default(),
            woken: Notify::new(),
            acts: TaskTracker::new(),
            generation: AtomicU64::new(0),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Takes which generation is in force from here on.
    pub(crate) fn in_force(&self, generation: GenerationNumber) {
        let number = generation.get();
        self.inner.generation.store(number, Ordering::Relaxed);
    }

    /// Records what was done. When it returns [`Kept::OnDisk`], the record is there.
    ///
    /// # Cancel safety
    /// The record of a dropped call is there or not.
    pub(crate) async fn done(&self, act: Act) -> Kept {
        let entry = self.entry(act, None, AuditOutcome::Done, None);
        match self.append(vec![entry]).await {
            true => Kept::OnDisk,
            false => Kept::Pending,
        }
    }

    /// Records what was refused, without waiting for the disk.
    pub(crate) fn refused(&self, act: Act, gate: Option<Gate>, code: &str) {
        self.note(self.entry(act, gate, AuditOutcome::Refused, Some(code)));
    }

    fn entry(
        &self,
        act: Act,
        gate: Option<Gate>,
        outcome: AuditOutcome,
        code: Option<&str>,
    ) -> NewAudit {
        let in_force = self.inner.generation.load(Ordering::Relaxed);
        NewAudit {
            at_ms: self.now_ms(),
            actor: act.who.actor,
            key: act.who.key,
            tenant: act.who.tenant,
            action: act.action.to_owned(),
            target: act.target,
            generation: act.generation.or(GenerationNumber::new(in_force)),
            gate: gate.map(|gate| gate.as_str().to_owned()),
            outcome,
            code: code.map(str::to_owned),
            count: 1,
            detail: act.detail,
        }
    }

    fn note(&self, entry: NewAudit) {
        let noted = self.inner.notes.lock().note(entry, Instant::now());
        match noted {
            Noted::Counted => {}
            Noted::Opened => self.inner.woken.notify_one(),
            Noted::Lost => {
                // The first of many says it; the record says how many there were.
                if self.inner.lost.fetch_add(1, Ordering::Relaxed) == 0 {
                    tracing::error!("audit records are lost: too many different ones at once");
                }
            }
        }
    }

    /// Appends records; those that the store does not take wait. Tells whether it took them.
    async fn append(&self, entries: Vec<NewAudit>) -> bool {
        let Inner {
            store,
            profile,
            epoch,
            ..
        } = &*self.inner;
        let appended = store.append_audit(*epoch, profile, entries.clone()).await;
        let Err(error) = appended else {
            let count = entries.len() as u64;
            self.inner.written.fetch_add(count, Ordering::Relaxed);
            return true;
        };
        // What may have been written is written again: twice is better than never.
        let lost = self.inner.notes.lock().take_back(entries);
        tracing::error!(code = error.code(), %error, lost, "audit records were not written");
        self.inner.lost.fetch_add(lost, Ordering::Relaxed);
        self.inner.woken.notify_one();
        false
    }

    /// Writes what was refused, until `stop`; what still waits then is for [`Audit::flush`].
    pub(crate) async fn write_behind(self, stop: CancellationToken) {
        loop {
            let next = self.inner.notes.lock().next();
            let due = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.inner.woken.notified() => {}
                () = due => {}
            }
            let due = self.inner.notes.lock().due(Instant::now(), self.now_ms());
            if !due.is_empty() && !self.append(due).await {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = sleep(RETRY) => {}
                }
            }
        }
    }

    /// Runs an act to its end, whatever becomes of the client that asked for it: one that is dropped with its connection would be
    /// half done, or done without a record.
    ///
    /// # Cancel safety
    /// A dropped call lets the act go on.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        act: impl Future<Output = T> + Send + 'static,
    ) -> T {
        match self.inner.acts.spawn(act).await {
            Ok(done) => done,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends, and whoever waits here with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Waits for the acts that go on, for a moment, and writes everything that waits: the last thing before the store is closed.
    pub(crate) async fn finish(&self) {
        self.inner.acts.close();
        if timeout(ACTS_END, self.inner.acts.wait()).await.is_err() {
            tracing::warn!("acts were still going on at the end");
        }
        self.flush().await;
    }

    /// Writes everything that waits.
    pub(crate) async fn flush(&self) {
        let all = self.inner.notes.lock().all(self.now_ms());
        if !all.is_empty() {
            self.append(all).await;
        }
    }

    /// Deletes what is older than `days` says, now and once a day, until `stop`.
    pub(crate) async fn tidy(self, days: impl Fn() -> u32, stop: CancellationToken) {
        loop {
            self.prune(days()).await;
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(TIDY) => {}
            }
        }
    }

    async fn prune(&self, days: u32) {
        let Inner {
            store,
            profile,
            epoch,
            ..
        } = &*self.inner;
        let before = self.now_ms().saturating_sub(i64::from(days) * DAY_MS);
        match store.prune_audit(*epoch, profile, before).await {
            Ok(0) => {}
            Ok(pruned) => tracing::info!(pruned, days, "old audit records deleted"),
            Err(error) => tracing::warn!(code = error.code(), %error, "delete old audit records"),
        }
    }

    /// Returns records, newest first.
    ///
    /// # Errors
    /// Where the store fails.
    pub(crate) async fn list(
        &self,
        filter: &AuditFilter,
        limit: u32,
    ) -> Result<Vec<AuditRecord>, Fault> {
        let Inner { store, profile, .. } = &*self.inner;
        store.audit(profile, filter, limit).await
    }

    /// Returns how it is, for the status: `{written, unwritten, lost}`, since the start.
    pub(crate) fn status(&self) -> Value {
        json!({
            "written": self.written(),
            "unwritten": self.unwritten(),
            "lost": self.lost(),
        })
    }

    pub(crate) fn written(&self) -> u64 {
        self.inner.written.load(Ordering::Relaxed)
    }

    pub(crate) fn unwritten(&self) -> u64 {
        self.inner.notes.lock().unwritten() as u64
    }

    pub(crate) fn lost(&self) -> u64 {
        self.inner.lost.load(Ordering::Relaxed)
    }

    pub(crate) fn now_ms(&self) -> i64 {
        unix_ms((self.inner.clock)())
    }

    /// Records the calls of turns that their policy refuses.
    pub(crate) fn watching(&self, runners: Arc<dyn Runners>) -> Arc<dyn Runners> {
        Arc::new(Recording::new(runners, self.clone()))
    }
}

/// Returns a text that a caller wrote, as a record may have it.
pub(crate) fn told(text: &str) -> String {
    escape_text(text).chars().take(LONGEST).collect()
}

/// Returns the name of a tool of a server, as a record may have it.
pub(crate) fn tool_of(server: &str, tool: &str) -> String {
    format!("{}/{}", told(server), told(tool))
}

#[cfg(test)]
mod tests;
