//! A gateway's side with workers that do what a script says.

use std::{path::Path, sync::Arc, time::Duration};

use genlock_authority::worker::{
    Limits, SpawnError, Turn, TurnEnd, TurnOrder, Worker, WorkerOrder, Workers,
};
use genlock_config::{FingerprintKey, ProfileId, Variables, parse};
use genlock_frames::{Epoch, ExecutionId, ExecutionSecret, PolicySeq, SessionId};
use genlock_policy::{
    Actor, Cause, Generation, GenerationNumber, Overlay, Selection, SelectionRule, Snapshot,
};
use genlock_testkit::harness::{Scratch, eventually_async, is_alive, path};
use secrecy::SecretString;
use serde_json::value::RawValue;
use tokio::sync::watch;

/// How long anything may take that has to happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// A private value that must be seen nowhere.
pub(crate) const CANARY: &str = "s3cr3t-canary-value";

/// Limits that a hostile worker runs into soon, and a busy machine does not.
pub(crate) fn limits() -> Limits {
    Limits {
        hello: Duration::from_secs(10),
        ready: Duration::from_secs(10),
        adopt: Duration::from_secs(10),
        late: Duration::from_millis(100),
        interrupt: Duration::from_millis(300),
        finish: Duration::from_secs(10),
        retire: Duration::from_secs(10),
        stop: Duration::from_secs(10),
        heartbeat: Duration::from_millis(100),
        silence: Duration::from_secs(60),
    }
}

pub(crate) struct Stage {
    pub(crate) scratch: Scratch,
    pub(crate) workers: Workers,
    /// What is revoked.
    pub(crate) revoked: watch::Sender<Arc<Overlay>>,
}

/// Workers that do what the script says.
pub(crate) fn stage(script: &str, limits: Limits) -> Stage {
    let scratch = Scratch::new();
    scratch.write("script", script);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/worker.sh");
    let home = scratch.path().to_str().unwrap().to_owned();
    let environment = [
        ("PATH".to_owned(), path().into_string().unwrap()),
        ("HOME".to_owned(), home),
        ("LC_ALL".to_owned(), "C".to_owned()),
        ("ASKED_FOR".to_owned(), "yes".to_owned()),
        ("GATEWAY_TOKEN".to_owned(), CANARY.to_owned()),
    ];
    let revoked = watch::Sender::default();
    Stage {
        scratch,
        workers: Workers::with_limits(program, environment, revoked.subscribe(), limits),
        revoked,
    }
}

pub(crate) fn order() -> WorkerOrder {
    let text = format!(
        "mcp_servers:
           a: {{ command: a, env: {{ TOKEN: {CANARY} }}, env_pass: [ASKED_FOR] }}
           b: {{ command: b, env: {{ OTHER: other-{CANARY} }}, env_pass: [GATEWAY_TOKEN] }}"
    );
    let config = parse(&text, "genlock.yaml".into(), &Variables::empty())
        .unwrap()
        .config;
    let profile = ProfileId::default();
    let (snapshot, _) = Snapshot::of(&config, &profile, &FingerprintKey::from_bytes([7; 32]));
    let generation = Generation {
        number: GenerationNumber::FIRST,
        parent: None,
        cause: Cause::Boot,
        actor: Actor::system(),
        at_ms: 0,
        reason: None,
        snapshot: Arc::new(snapshot),
        overlay: Arc::new(Overlay::default()),
        config: Arc::new(config),
    };
    WorkerOrder {
        profile,
        session: SessionId::new("s-1").unwrap(),
        policy_seq: PolicySeq::new(1),
        epoch: Epoch::new(1),
        generation: Arc::new(generation),
        selection: Selection {
            servers: ["a".to_owned()].into(),
            toolsets: ["a".to_owned()].into(),
            rule: SelectionRule::Pick,
        },
        cwd: "/".into(),
    }
}

pub(crate) fn turn_order(execution: &str) -> TurnOrder {
    TurnOrder {
        execution_id: id(execution),
        secret: ExecutionSecret::new(SecretString::from(format!("secret-of-{execution}"))),
        epoch: Epoch::new(1),
        payload: RawValue::from_string(r#"{"calls":[]}"#.to_owned()).unwrap(),
        deadline: None,
    }
}

pub(crate) fn id(text: &str) -> ExecutionId {
    ExecutionId::new(text).unwrap()
}

impl Stage {
    pub(crate) async fn spawn(&self) -> Worker {
        let spawned = self.workers.spawn(order()).await;
        spawned.unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// Fails to start a worker.
    pub(crate) async fn refused(&self) -> SpawnError {
        let refused = self.workers.spawn(order()).await;
        let refused = refused.expect_err("a worker that is none");
        let shown = format!("{refused} {refused:?}");
        assert!(!shown.contains("canary"), "{shown}");
        refused
    }

    /// Waits until the process is gone whose id the script wrote down.
    pub(crate) async fn gone(&self, name: &str) {
        let pid = self.pid(name).await;
        eventually_async(DEADLINE, "the process ends", async || {
            (!is_alive(pid)).then_some(())
        })
        .await;
    }

    pub(crate) async fn pid(&self, name: &str) -> u32 {
        eventually_async(DEADLINE, "a process id", async || {
            self.scratch.read(name).trim().parse().ok()
        })
        .await
    }
}

/// Waits for the end of a turn, and within the time in which everything has to be told.
pub(crate) async fn end_of(turn: Turn) -> TurnEnd {
    let end = tokio::time::timeout(DEADLINE, turn.end()).await;
    end.expect("a turn ends")
}

/// In short, how a turn ended.
pub(crate) fn word(end: &TurnEnd) -> String {
    match end {
        TurnEnd::Completed { result } => format!("completed {result}"),
        TurnEnd::Failed { code, .. } => format!("failed {code}"),
        TurnEnd::Interrupted { .. } => "interrupted".to_owned(),
        TurnEnd::Rejected { code, .. } => format!("rejected {code}"),
        TurnEnd::Lost { reserved, loss } => {
            let word = if *reserved { "unknown" } else { "not sent" };
            format!("{word}: {loss}")
        }
    }
}
