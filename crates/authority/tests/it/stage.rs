//! An authority, its store, and the generations that a test commits.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use camino::Utf8Path;
use genlock_authority::{
    Authority, Caller, Generations, GenerationsError, NewSessionRequest, Parts, Pending, Pinned,
    Refusal, Submission, Transition,
};
use genlock_config::{FingerprintKey, ProfileId, Sources, Variables, parse_schema};
use genlock_policy::{
    Actor, Cause, Generation, GenerationNumber, Overlay, Revocation, RevocationKind, Snapshot,
    TransitionCause,
};
use genlock_store::{
    Location, NewGeneration, Options, SessionRecord, Store, TurnId, TurnOutcome, TurnRecord,
    TurnStatus, open,
};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::{sync::watch, time::timeout};

use crate::runner::{Manual, Puppets, Run, Started};

/// How long anything may take before a test gives up.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct Stage {
    pub(crate) authority: Authority,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runners: Arc<Manual>,
    pub(crate) puppets: Puppets,
    /// What is revoked.
    revoked: watch::Sender<Arc<Overlay>>,
    book: Arc<Book>,
    epoch: genlock_store::Epoch,
    directory: Arc<TempDir>,
}

/// The generations that were committed, and which private values are missing.
#[derive(Default)]
struct Book {
    generations: Mutex<BTreeMap<u64, Generation>>,
    missing: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Generations for Book {
    fn pinned(&self, number: GenerationNumber) -> Pending<'_, Result<Pinned, GenerationsError>> {
        let generation = self.generations.lock().get(&number.get()).cloned();
        let missing = self.missing.lock().clone();
        Box::pin(async move {
            let why = "was never committed".to_owned();
            let generation = generation.ok_or(GenerationsError { number, why })?;
            Ok(Pinned {
                generation: Arc::new(generation),
                missing,
            })
        })
    }
}

pub(crate) fn caller() -> Caller {
    Caller {
        actor: Actor::new("uid:7"),
        operator: false,
    }
}

impl Stage {
    /// An authority whose first generation has these servers.
    pub(crate) async fn new(servers: &[&str]) -> Self {
        let stage = Self::open(Arc::new(tempfile::tempdir().unwrap()), Arc::default()).await;
        stage.commit(servers).await;
        stage
    }

    async fn open(directory: Arc<TempDir>, book: Arc<Book>) -> Self {
        let path = Utf8Path::from_path(directory.path()).unwrap();
        let location = Location::sqlite(path.join("genlock.db"));
        let store = open(&location, &Options::default()).await.unwrap();
        let epoch = store.take_epoch(&ProfileId::default()).await.unwrap();
        let (runners, puppets) = Manual::new();
        let counter = AtomicU64::new(epoch.get() << 32);
        let random = move || {
            let number = counter.fetch_add(1, Ordering::SeqCst);
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            bytes
        };
        let revoked = watch::Sender::default();
        let parts = Parts {
            store: Arc::clone(&store),
            profile: ProfileId::default(),
            epoch,
            generations: Arc::clone(&book) as Arc<dyn Generations>,
            runners: Arc::clone(&runners) as Arc<dyn genlock_authority::Runners>,
            revoked: revoked.subscribe(),
            clock: Arc::new(|| SystemTime::UNIX_EPOCH),
            random: Arc::new(random),
            events: Arc::new(|_, _| {}),
        };
        let authority = Authority::start(parts).await.unwrap();
        Self {
            authority,
            store,
            runners,
            puppets,
            revoked,
            book,
            epoch,
            directory,
        }
    }

    /// The authority is gone in mid-work, and another one takes over.
    pub(crate) async fn killed(self) -> Self {
        // Its tasks end with the runtime; its epoch is fenced by the next one.
        Self::open(self.directory, self.book).await
    }

    /// Commits a generation with these servers; `-name` is a disabled one.
    pub(crate) async fn commit(&self, servers: &[&str]) -> Generation {
        let servers: Vec<String> = servers
            .iter()
            .map(|name| match name.strip_prefix('-') {
                Some(name) => format!("{name}: {{ command: x, enabled: false }}"),
                None => format!("{name}: {{ command: x }}"),
            })
            .collect();
        let text = format!(
            "platform_toolsets: {{ cli: [agent] }}\nmcp_servers: {{ {} }}",
            servers.join(", ")
        );
        let sources = Sources::new(Variables::empty());
        let config = parse_schema(&text, "genlock.yaml".into(), &sources)
            .unwrap()
            .config;
        let key = FingerprintKey::from_bytes([7; 32]);
        let snapshot = Snapshot::of(&config, &config.profile, &key).0;
        let head = self.store.head(&config.profile).await.unwrap();
        let new = NewGeneration {
            profile: config.profile.clone(),
            digest: snapshot.digest(),
            config: snapshot.redacted().as_json().to_string(),
            fingerprints: BTreeMap::new(),
            overlay: "{}".to_owned(),
            servers: config
                .servers
                .keys()
                .map(|name| name.as_str().to_owned())
                .collect(),
            cause: Cause::Api,
            actor: Actor::system(),
            reason: None,
            at_ms: 0,
        };
        let expected = head.map(|head| head.number);
        let record = self
            .store
            .commit_generation(self.epoch, expected, new)
            .await
            .unwrap();
        let generation = Generation {
            number: record.number,
            parent: record.parent,
            cause: record.cause,
            actor: record.actor,
            at_ms: record.at_ms,
            reason: None,
            snapshot: Arc::new(snapshot),
            overlay: Arc::new(Overlay::default()),
            config: Arc::new(config),
        };
        let number = generation.number.get();
        self.book
            .generations
            .lock()
            .insert(number, generation.clone());
        generation
    }

    /// From now on, these private values of a server cannot be had; none for all can.
    pub(crate) fn miss(&self, missing: Option<(&str, &str)>) {
        let missing = missing.map(|(server, at)| (server.to_owned(), vec![at.to_owned()]));
        *self.book.missing.lock() = missing.into_iter().collect();
    }

    /// Revokes a session, and nothing else from now on; nothing at all where there is none.
    pub(crate) fn revoke(&self, session: Option<&str>) {
        let revoked = session.map(|session| Revocation {
            kind: RevocationKind::Session,
            name: session.to_owned(),
            reason: "it went astray".to_owned(),
            number: GenerationNumber::FIRST,
        });
        let revoked = revoked.into_iter().collect();
        self.revoked.send_replace(Arc::new(Overlay { revoked }));
    }

    pub(crate) fn head(&self) -> Generation {
        let generations = self.book.generations.lock();
        generations.last_key_value().unwrap().1.clone()
    }

    pub(crate) async fn create(&self, request: &str, pick: Option<&[&str]>) -> String {
        let request = self.request(request, pick);
        let created = self
            .authority
            .create(&caller(), request, &self.head())
            .await;
        created.unwrap().id.to_string()
    }

    pub(crate) fn request(&self, request: &str, pick: Option<&[&str]>) -> NewSessionRequest {
        NewSessionRequest {
            request_id: request.to_owned(),
            source: "cli".to_owned(),
            cwd: Utf8Path::from_path(self.directory.path())
                .unwrap()
                .to_owned(),
            toolsets: pick.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
            title: None,
        }
    }

    pub(crate) async fn submit(&self, session: &str, id: &str) -> TurnRecord {
        self.try_submit(session, id).await.unwrap()
    }

    /// Submits a turn that calls the server `old`.
    pub(crate) async fn try_submit(&self, session: &str, id: &str) -> Result<TurnRecord, Refusal> {
        let payload = format!(r#"{{"calls":[{{"server":"old","tool":"{id}"}}]}}"#);
        self.authority
            .submit(&caller(), session, id.to_owned(), payload)
            .await
    }

    pub(crate) async fn move_to_head(&self, session: &str) -> Transition {
        let cause = TransitionCause::ReloadMcp;
        let moved = self
            .authority
            .move_to(&caller(), session, self.head(), cause)
            .await;
        moved.unwrap().transition
    }

    /// What a session runs: the number of its policy, its generation, its servers.
    pub(crate) async fn policy(&self, session: &str) -> (u64, u64, Vec<String>) {
        let view = self.authority.view(&caller(), session).await.unwrap();
        let SessionRecord {
            policy_seq,
            generation,
            selection,
            ..
        } = view.session;
        let servers = selection.servers.into_iter().collect();
        (policy_seq.get(), generation.get(), servers)
    }

    /// Waits until a turn is over or unknown.
    pub(crate) async fn settled(&self, turn: &TurnId) -> TurnStatus {
        let settled = self.authority.wait(&caller(), turn, DEADLINE).await;
        settled.unwrap().status
    }

    pub(crate) async fn status(&self, turn: &TurnId) -> TurnStatus {
        self.authority.turn(&caller(), turn).await.unwrap().status
    }

    pub(crate) async fn next_run(&self) -> Run {
        let mut runs = self.puppets.runs.lock().await;
        timeout(DEADLINE, runs.recv()).await.unwrap().unwrap()
    }

    pub(crate) async fn next_start(&self) -> Started {
        let mut starts = self.puppets.starts.lock().await;
        timeout(DEADLINE, starts.recv()).await.unwrap().unwrap()
    }

    /// Whether nothing was started or run that a test has not seen.
    pub(crate) async fn is_quiet(&self) -> bool {
        let (starts, runs) = (&self.puppets.starts, &self.puppets.runs);
        starts.lock().await.is_empty() && runs.lock().await.is_empty()
    }
}

pub(crate) const COMPLETED: TurnStatus = TurnStatus::Done(TurnOutcome::Completed);

/// A submission of `old` by somebody else.
pub(crate) fn submission(id: &str) -> Submission {
    Submission {
        id: id.to_owned(),
        payload: r#"{"calls":[{"server":"old","tool":"t"}]}"#.to_owned(),
        actor: Actor::new("uid:8"),
    }
}
