//! [`Reloader`]: the one door through which a configuration comes into force.
//!
//! Load, compare with the head, commit, publish, reconcile, report; whatever asked for it. One reload runs at a time.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use camino::Utf8Path;
use genlock_config::{Config, Finding};
use genlock_front::Front;
use genlock_policy::{
    Changes, Decision, Generation, GenerationNumber, Plan, SectionChange, Snapshot, diff,
    pending_restart,
};
use genlock_servers::{Pool, Reconciled, Server, ServerSnapshot};
use genlock_store::{CommitError, GenerationRecord};
use serde_json::{Value, json};
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, timeout_at},
};

use crate::{
    audit::{Act, Audit},
    events::Events,
    history::{Draft, History, stored_overlay, stored_snapshot},
    pins::Pins,
    report::{
        Phases, ReloadError, Report, ServersReport, Unavailable, is_about_the_file, message,
        refusal,
    },
    source::ConfigSource,
};

pub use crate::reload_request::ReloadRequest;

/// How many generations one list holds at most.
pub(crate) const LIST: u32 = 200;
/// How long a report waits for servers unless it is asked for otherwise.
pub(crate) const WAIT: Duration = Duration::from_secs(10);

/// Brings configurations into force, one at a time.
pub(crate) struct Reloader {
    source: ConfigSource,
    history: History,
    front: Front,
    pool: Arc<Pool>,
    events: Events,
    audit: Audit,
    clock: Arc<dyn Fn() -> std::time::SystemTime + Send + Sync>,
    booted: Arc<Snapshot>,
    /// Held as long as one reload takes, so that they are made one at a time.
    reloading: Mutex<()>,
    /// The generation in force, for whoever is about to replace it: never held while a file is read, which may take long and
    /// must not keep a revocation waiting.
    pub(crate) head: Mutex<Generation>,
    /// The same for those who only look, so that nobody who asks for a status waits for a reload.
    in_force: ArcSwap<Generation>,
    /// Why the last reload was refused; told in the status until one is not.
    degraded: parking_lot::Mutex<Option<Value>>,
    pins: Pins,
}

/// A configuration that was brought into force, or found to be so already; its servers may still be starting and ending.
pub(crate) struct Begun {
    report: Report,
    began: Instant,
    /// The servers that were not ready before.
    not_ready: BTreeSet<String>,
    /// The servers that it removes.
    leaving: Vec<Leaving>,
}

/// Whether a report waits for what a reload removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removals {
    /// It tells what is gone.
    Awaited,
    /// It tells what is removed; nothing waits for a drain.
    NotAwaited,
}

/// What became of the servers of a configuration that was brought into force.
pub(crate) struct Finished {
    pub(crate) report: Report,
    /// New servers that became ready.
    pub(crate) added: Vec<String>,
    /// Other servers that were not ready before, or have another definition, and became ready.
    pub(crate) reconnected: Vec<String>,
    /// Removed servers of which nothing is left.
    pub(crate) removed: Vec<String>,
    /// Removed servers that are not gone yet.
    pub(crate) pending: Vec<String>,
}

/// A server that is removed, and that nobody here keeps running.
pub(crate) struct Leaving {
    name: String,
    /// Ends with the last that is left of it.
    watched: watch::Receiver<ServerSnapshot>,
}

/// What becomes the next generation, and what changes with it.
struct Candidate {
    config: Arc<Config>,
    snapshot: Arc<Snapshot>,
    warnings: Vec<Finding>,
    reason: Option<String>,
    /// How long it took to read and take apart.
    loading: Duration,
}

impl Reloader {
    pub(crate) fn new(
        source: ConfigSource,
        history: History,
        front: Front,
        pool: Arc<Pool>,
        clock: Arc<dyn Fn() -> std::time::SystemTime + Send + Sync>,
        head: Generation,
        degraded: Option<Value>,
    ) -> Self {
        let booted = Arc::clone(&head.snapshot);
        let audit = Audit::new(&history, Arc::clone(&clock));
        Self {
            source,
            history,
            front,
            pool,
            events: Events::new(),
            audit,
            clock,
            booted,
            in_force: ArcSwap::from_pointee(head.clone()),
            pins: Pins::of(head.clone()),
            reloading: Mutex::default(),
            head: Mutex::new(head),
            degraded: parking_lot::Mutex::new(degraded),
        }
    }

    /// Returns the generations that sessions pin.
    pub(crate) fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Tells of what happens, and records it, where others of the gateway do as well.
    pub(crate) fn telling(self, events: Events, audit: Audit) -> Self {
        Self {
            events,
            audit,
            ..self
        }
    }

    pub(crate) fn audit(&self) -> &Audit {
        &self.audit
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// Returns the file that is read.
    pub(crate) fn file(&self) -> Option<&Utf8Path> {
        self.source.file.as_deref()
    }

    /// Returns the sections that go on as they were booted until a restart.
    pub(crate) fn restart_required(&self) -> Vec<SectionChange> {
        pending_restart(&self.booted, &self.head().snapshot)
    }

    /// Returns why the newest wish for a configuration is not in force, where that is so.
    pub(crate) fn degraded(&self) -> Option<Value> {
        self.degraded.lock().clone()
    }

    /// Returns the generation in force, also while a reload is under way.
    pub(crate) fn head(&self) -> Arc<Generation> {
        self.in_force.load_full()
    }

    /// Reads the file and brings it into force.
    ///
    /// # Errors
    /// Where it is refused; the generation before stays in force.
    pub(crate) async fn reload(&self, request: &ReloadRequest) -> Result<Report, ReloadError> {
        let begun = self.begin(request).await?;
        Ok(self
            .finish(begun, request.wait, Removals::NotAwaited)
            .await
            .report)
    }

    /// Reads the file and puts it in force, without waiting for the servers that this starts.
    ///
    /// # Errors
    /// Where it is refused; the generation before stays in force.
    pub(crate) async fn begin(&self, request: &ReloadRequest) -> Result<Begun, ReloadError> {
        let began = Instant::now();
        let _one_at_a_time = self.reloading.lock().await;
        let loading = Instant::now();
        let history = self.history.clone();
        let loaded = self.read(move |source| {
            let loaded = source.load()?;
            Ok((history.snapshot(&loaded.config), loaded))
        });
        let mut outcome = match loaded.await {
            Ok((snapshot, loaded)) => {
                let candidate = Candidate {
                    snapshot: Arc::new(snapshot),
                    config: Arc::new(loaded.config),
                    warnings: [loaded.warnings, loaded.unavailable].concat(),
                    reason: None,
                    loading: loading.elapsed(),
                };
                self.bring_into_force(candidate, request, began).await
            }
            Err(error) => Err(ReloadError::Invalid(error)),
        };
        self.tell(request, &outcome);
        let act = Act::new(request.who.clone(), "config.reload");
        self.keep(request, act, &mut outcome).await;
        outcome
    }

    /// Commits the content of an earlier generation as a new one.
    ///
    /// # Errors
    /// Where there is no such generation, or its private values are not those of today.
    pub(crate) async fn roll_back(
        &self,
        number: GenerationNumber,
        request: &ReloadRequest,
    ) -> Result<Report, ReloadError> {
        let began = Instant::now();
        let one_at_a_time = self.reloading.lock().await;
        let mut outcome = match self.earlier(number).await {
            Ok(candidate) => self.bring_into_force(candidate, request, began).await,
            Err(error) => Err(error),
        };
        drop(one_at_a_time);
        self.tell(request, &outcome);
        let act = Act::new(request.who.clone(), "generation.rollback");
        let act = act.on(format!("generation {number}"));
        self.keep(request, act, &mut outcome).await;
        let removals = Removals::NotAwaited;
        Ok(self.finish(outcome?, request.wait, removals).await.report)
    }

    /// Reads the file where blocking is allowed: it may take long on some mounts.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&ConfigSource) -> T + Send + 'static,
    ) -> T {
        let source = self.source.clone();
        match tokio::task::spawn_blocking(move || read(&source)).await {
            Ok(read) => read,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    async fn earlier(&self, number: GenerationNumber) -> Result<Candidate, ReloadError> {
        let loading = Instant::now();
        let record = self.record(number).await?;
        let values = self.read(ConfigSource::private_values).await;
        let (generation, unmatched) = self
            .history
            .restore(&record, &values)
            .map_err(ReloadError::Restore)?;
        if !unmatched.is_empty() {
            return Err(ReloadError::PrivateValuesUnavailable {
                pointers: unmatched,
            });
        }
        Ok(Candidate {
            config: generation.config,
            snapshot: generation.snapshot,
            warnings: Vec::new(),
            reason: Some(format!("rollback to generation {number}")),
            loading: loading.elapsed(),
        })
    }

    async fn bring_into_force(
        &self,
        candidate: Candidate,
        request: &ReloadRequest,
        began: Instant,
    ) -> Result<Begun, ReloadError> {
        let mut head = self.head.lock().await;
        let head = &mut *head;
        if let Some(expected) = request.expected.filter(|expected| *expected != head.number) {
            return Err(ReloadError::Conflict {
                expected,
                found: head.number,
            });
        }
        let planning = Instant::now();
        let plan = Plan {
            head: Some(&head.snapshot),
            booted: Some(&self.booted),
            candidate: &candidate.snapshot,
            confirm_mass_removal: request.confirm_mass_removal,
        };
        let mut report = Report {
            generation: head.number,
            changed: false,
            dry_run: request.dry_run,
            servers: ServersReport {
                unchanged: self.front.servers().len(),
                ..ServersReport::default()
            },
            sections: Vec::new(),
            private_rotated: Vec::new(),
            restart_required: Vec::new(),
            warnings: candidate.warnings,
            duration_ms: 0,
            audit: None,
            phases: Phases::default(),
        };
        let decision = plan.decide();
        let not_ready = unavailable(self).into_iter().map(|server| server.name);
        let not_ready: BTreeSet<String> = not_ready.collect();
        let mut leaving = Vec::new();
        report.phases.load_ms = fraction_ms(candidate.loading);
        report.phases.plan_ms = fraction_ms(planning.elapsed());
        match decision {
            Decision::Refused { reason } => return Err(ReloadError::Refused(reason)),
            Decision::Unchanged { restart_required } => {
                report.restart_required = restart_required;
                // A boot on the last good generation may have had to park servers whose values are there by now.
                if !request.dry_run && has_other_values(&head.config, &candidate.config) {
                    head.config = candidate.config;
                    report.servers.changed = self.publish(head).0.changed;
                    report.servers.unchanged -= report.servers.changed.len();
                }
            }
            Decision::Commit {
                changes,
                restart_required,
            } => {
                report.changed = true;
                report.restart_required = restart_required;
                report.take(changes);
                if !request.dry_run {
                    let draft = Draft {
                        snapshot: candidate.snapshot,
                        overlay: Arc::clone(&head.overlay),
                        config: candidate.config,
                        cause: request.cause,
                        actor: request.actor.clone(),
                        reason: candidate.reason,
                        at_ms: self.now_ms(),
                    };
                    let committing = Instant::now();
                    *head = self.commit(head.number, draft).await?;
                    report.phases.commit_ms = fraction_ms(committing.elapsed());
                    report.generation = head.number;
                    let publishing = Instant::now();
                    let (outcome, gone) = self.publish(head);
                    leaving = gone;
                    report.phases.publish_ms = fraction_ms(publishing.elapsed());
                    self.pins.keep(self.head(), &self.history).await;
                    tracing::info!(
                        generation = %head.number,
                        cause = head.cause.as_str(),
                        added = outcome.added.len(),
                        changed = outcome.changed.len(),
                        removed = outcome.removed.len(),
                        "generation committed"
                    );
                }
            }
        }
        Ok(Begun {
            report,
            began,
            not_ready,
            leaving,
        })
    }

    pub(crate) async fn commit(
        &self,
        expected: GenerationNumber,
        draft: Draft,
    ) -> Result<Generation, ReloadError> {
        let committed = self.history.commit(Some(expected), draft).await;
        committed.map_err(|error| {
            if let CommitError::Conflict {
                found: Some(found), ..
            } = error
            {
                return ReloadError::Conflict { expected, found };
            }
            ReloadError::Commit(error)
        })
    }

    /// Puts a committed generation in force, and lets the servers that it does not have any more drain. What it revokes comes
    /// first: that is in force for whoever holds an older one as well.
    pub(crate) fn publish(&self, generation: &Generation) -> (Reconciled, Vec<Leaving>) {
        self.pool.revoke(Arc::clone(&generation.overlay));
        let before = self.front.servers();
        let (servers, outcome) = self.pool.reconcile(&generation.config, &before);
        let replaced = self.front.publish(
            Some(generation.number),
            Arc::clone(&generation.config),
            servers,
        );
        self.audit.in_force(generation.number);
        let old = self.in_force.swap(Arc::new(generation.clone()));
        // To take a large one apart needs milliseconds, which nobody has to wait for.
        drop(tokio::task::spawn_blocking(move || drop(old)));
        let removed = outcome.removed.iter().filter_map(|name| before.get(name));
        let leaving = removed.map(Leaving::of).collect();
        for (old, new) in &replaced {
            self.pool.retire(old, new, generation.config.drain);
        }
        (outcome, leaving)
    }

    /// Waits for the servers that were started, and for those that end if that is asked for, until `wait` after the beginning at
    /// the latest, and says what became of them.
    ///
    /// # Cancel safety
    /// What was begun is in force; only the report is lost.
    pub(crate) async fn finish(
        &self,
        begun: Begun,
        wait: Duration,
        removals: Removals,
    ) -> Finished {
        let Begun {
            mut report,
            began,
            not_ready,
            leaving,
        } = begun;
        if !report.dry_run {
            let servers = self.front.servers();
            let started = report.servers.added.iter().chain(&report.servers.changed);
            let started: BTreeSet<&str> = started.map(String::as_str).collect();
            let waits = servers
                .iter()
                .map(|server| outcome_of(server, started.contains(server.name())));
            let awaited = leaving.iter().filter(|_| removals == Removals::Awaited);
            let ends = awaited.map(|leaving| self.has_left(leaving));
            let all = async {
                tokio::join!(
                    futures_util::future::join_all(waits),
                    futures_util::future::join_all(ends)
                )
            };
            // Who is not there, or not gone, by then is named with what it does.
            let _ = timeout_at(began + wait, all).await;
        }
        report.servers.unavailable = unavailable(self);
        report.duration_ms = millis(began);
        let (removed, pending) = leaving.into_iter().partition::<Vec<_>, _>(Leaving::is_gone);
        let names = |servers: Vec<Leaving>| servers.into_iter().map(|server| server.name).collect();
        let servers = self.front.servers();
        let is_ready = |name: &&String| servers.get(name).is_some_and(Server::is_ready);
        let changed: BTreeSet<&String> = report.servers.changed.iter().chain(&not_ready).collect();
        let changed = changed
            .into_iter()
            .filter(|name| !report.servers.added.contains(name));
        Finished {
            added: report
                .servers
                .added
                .iter()
                .filter(is_ready)
                .cloned()
                .collect(),
            reconnected: changed.filter(is_ready).cloned().collect(),
            removed: names(removed),
            pending: names(pending),
            report,
        }
    }

    /// Waits until a removed server is gone. One that calls hold is not waited for.
    async fn has_left(&self, leaving: &Leaving) {
        let draining = self.pool.draining(&self.front.all_servers());
        if draining
            .iter()
            .any(|held| held.name == leaving.name && held.holders > 0)
        {
            return;
        }
        let mut watched = leaving.watched.clone();
        while watched.changed().await.is_ok() {}
    }

    /// Tells listeners and the log what came out, and remembers a refusal for the status.
    fn tell(&self, request: &ReloadRequest, outcome: &Result<Begun, ReloadError>) {
        if request.dry_run {
            return;
        }
        let cause = request.cause.as_str();
        match outcome {
            Ok(Begun { report, .. }) => {
                *self.degraded.lock() = None;
                let kind = if report.changed {
                    "generation.committed"
                } else {
                    "generation.unchanged"
                };
                if !report.changed {
                    let generation = report.generation.get();
                    tracing::info!(generation, cause, "configuration unchanged");
                }
                self.events.tell(
                    kind,
                    json!({"generation": report.generation, "cause": cause}),
                );
            }
            Err(error) => {
                let refusal = refusal(
                    request.cause,
                    error.code(),
                    &message(error),
                    error.findings(),
                );
                let findings = &refusal["findings"];
                tracing::warn!(cause, code = error.code(), %error, %findings, "reload refused, the generation before stays in force");
                if is_about_the_file(request, error) {
                    *self.degraded.lock() = Some(refusal.clone());
                }
                self.events.tell("generation.refused", refusal);
            }
        }
    }

    /// Records what came out, and says in the report where the record is not on the disk.
    async fn keep(
        &self,
        request: &ReloadRequest,
        act: Act,
        outcome: &mut Result<Begun, ReloadError>,
    ) {
        let came = outcome.as_ref().map(|begun| &begun.report);
        let kept = self.audit.reload(request, act, came).await;
        if let Ok(begun) = outcome {
            begun.report.audit = kept.word();
        }
    }

    /// Compares two stored generations.
    ///
    /// # Errors
    /// Where one of them is not there or damaged.
    pub(crate) async fn diff(
        &self,
        from: GenerationNumber,
        to: GenerationNumber,
    ) -> Result<Changes, ReloadError> {
        let (from, to) = (self.record(from).await?, self.record(to).await?);
        Ok(diff(&self.stored(&from)?, &self.stored(&to)?))
    }

    /// Returns a stored generation in the form that may be shown.
    ///
    /// # Errors
    /// Where it is not there or damaged.
    pub(crate) async fn shown(&self, number: GenerationNumber) -> Result<Value, ReloadError> {
        let record = self.record(number).await?;
        let snapshot = self.stored(&record)?;
        let overlay =
            stored_overlay(&record).map_err(|error| ReloadError::Restore(error.into()))?;
        Ok(json!({
            "number": record.number,
            "parent": record.parent,
            "digest": record.digest,
            "cause": record.cause,
            "actor": record.actor,
            "reason": record.reason,
            "at": timestamp(record.at_ms),
            "config": snapshot.redacted().as_json(),
            "private": snapshot.fingerprints().keys().collect::<Vec<_>>(),
            "overlay": overlay,
        }))
    }

    /// Returns the newest generations: `{head, generations: […]}`.
    ///
    /// # Errors
    /// Where the store fails.
    pub(crate) async fn list(
        &self,
        before: Option<GenerationNumber>,
        limit: u32,
    ) -> Result<Value, ReloadError> {
        let generations: Vec<_> = self
            .history
            .list(before, limit)
            .await?
            .into_iter()
            .map(|summary| {
                json!({
                    "number": summary.number,
                    "digest": summary.digest,
                    "parent": summary.parent,
                    "cause": summary.cause,
                    "actor": summary.actor,
                    "reason": summary.reason,
                    "at": timestamp(summary.at_ms),
                })
            })
            .collect();
        let head = self.head().number;
        Ok(json!({"head": head, "generations": generations}))
    }

    async fn record(&self, number: GenerationNumber) -> Result<GenerationRecord, ReloadError> {
        self.history
            .get(number)
            .await?
            .ok_or(ReloadError::NotFound(number))
    }

    fn stored(&self, record: &GenerationRecord) -> Result<Snapshot, ReloadError> {
        stored_snapshot(record).map_err(|error| ReloadError::Restore(error.into()))
    }

    pub(crate) fn now_ms(&self) -> i64 {
        unix_ms((self.clock)())
    }
}

/// Whether servers of two configs that mean the same have other private values: a restored config lacks those that could not
/// be had.
fn has_other_values(one: &Config, other: &Config) -> bool {
    one.servers.iter().any(|(name, server)| {
        let other = other.servers.get(name);
        other.is_some_and(|other| {
            other != server && other.digest_with_values() != server.digest_with_values()
        })
    })
}

/// Waits for what a reload comes to for a server: the first attempt of one that was started, and of a parked one, which it
/// wakes, whether its definition changed or not.
async fn outcome_of(server: &Server, is_new: bool) {
    if is_new {
        first_outcome(server).await;
    } else if server.wake().await {
        server.settled().await;
    }
}

/// Waits until a server serves, or its first attempt has failed.
async fn first_outcome(server: &Server) {
    let mut watched = server.watch();
    // The sender lives as long as the server.
    let _ = watched
        .wait_for(|snapshot| {
            let rests = ["disabled", "parked"].contains(&snapshot.state);
            snapshot.ready || snapshot.last_error.is_some() || rests
        })
        .await;
}

/// Returns the enabled servers that are not ready, by name.
pub(crate) fn unavailable(reloader: &Reloader) -> Vec<Unavailable> {
    let servers = reloader.front.servers();
    let enabled = servers.iter().filter(|server| server.definition().enabled);
    enabled
        .filter_map(Server::snapshot_unless_ready)
        .map(|snapshot| Unavailable {
            name: snapshot.name,
            reason: snapshot.reason.unwrap_or_else(|| snapshot.state.to_owned()),
            retry_at: snapshot.retry_at.map(|at| timestamp(unix_ms(at))),
        })
        .collect()
}

/// Returns the servers that are ready, by name.
pub(crate) fn ready(reloader: &Reloader) -> BTreeSet<String> {
    let servers = reloader.front.servers();
    let ready = servers.iter().filter(|server| server.is_ready());
    ready.map(|server| server.name().to_owned()).collect()
}

impl Leaving {
    fn of(server: &Server) -> Self {
        Self {
            name: server.name().to_owned(),
            watched: server.watch(),
        }
    }

    fn is_gone(&self) -> bool {
        self.watched.has_changed().is_err()
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Returns milliseconds to the microsecond.
fn fraction_ms(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e3
}

/// Returns a time as it is stored: milliseconds since 1970.
pub(crate) fn unix_ms(time: std::time::SystemTime) -> i64 {
    let since = time
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn timestamp(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map(|at| at.to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use genlock_config::Sources;

    use super::*;
    use crate::{Gateway, Home, Host, StateDir};

    #[tokio::test]
    async fn the_status_does_not_wait_for_a_reload() {
        let dir = tempfile::tempdir().unwrap();
        let home = camino::Utf8PathBuf::from_path_buf(dir.path().join("state")).unwrap();
        let state_dir = StateDir::claim(&home).unwrap();
        let home = Home {
            state_dir: &state_dir,
            source: ConfigSource {
                file: None,
                sources: Sources::default(),
            },
            environment: Vec::new(),
            strict_boot: false,
            worker: None,
        };
        let gateway = Gateway::boot(home, &Host::system()).await.unwrap();
        let status = gateway.status();
        let reloader = status.reloader.clone().unwrap();

        // Held as long as a reload takes, which may be long: to read the file, or to commit.
        let under_way = reloader.head.lock().await;
        let shown = status.gateway().await;
        let list = timeout_at(Instant::now() + WAIT, reloader.list(None, LIST)).await;
        drop(under_way);

        assert_eq!(shown["generation"], 1, "{shown}");
        assert_eq!(shown["restart_required"], json!([]));
        assert_eq!(list.unwrap().unwrap()["head"], 1);
        gateway.stop().await;
    }
}
