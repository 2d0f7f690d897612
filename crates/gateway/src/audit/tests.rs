use std::{
    fs,
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, SystemTime},
};

use genlock_front::{Refusal, Target, Witness};
use genlock_policy::Actor;
use genlock_policy::Gate;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;

/// A profile whose clock the test moves.
struct Stage {
    directory: TempDir,
    history: History,
    audit: Audit,
    now_ms: Arc<AtomicI64>,
}

impl Stage {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = camino::Utf8Path::from_path(directory.path()).unwrap();
        let history = History::open(path, ProfileId::default(), || [7; 16]);
        let history = history.await.unwrap();
        let now_ms = Arc::new(AtomicI64::new(1_000));
        let clock = Arc::clone(&now_ms);
        let audit = Audit::new(
            &history,
            Arc::new(move || {
                let now = u64::try_from(clock.load(Ordering::Relaxed)).unwrap();
                SystemTime::UNIX_EPOCH + Duration::from_millis(now)
            }),
        );
        Self {
            directory,
            history,
            audit,
            now_ms,
        }
    }

    fn writing(&self) -> (CancellationToken, JoinHandle<()>) {
        let stop = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "the test awaits the task itself")]
        let writing = tokio::spawn(self.audit.clone().write_behind(stop.clone()));
        (stop, writing)
    }

    async fn records(&self) -> Vec<NewAudit> {
        let all = self.audit.list(&AuditFilter::default(), 10_000).await;
        all.unwrap()
            .into_iter()
            .rev()
            .map(|record| record.entry)
            .collect()
    }

    fn refuse(&self, name: &str) {
        self.audit.refused(
            Act::new(Who::system(), "call.refused").on(name),
            Some(Gate::Tool),
            "unknown_tool",
        );
    }

    /// Waits until there are so many records.
    async fn has(&self, count: usize) -> Vec<NewAudit> {
        for _ in 0..1_000 {
            let records = self.records().await;
            if records.len() >= count {
                return records;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("there are only {:?}", self.records().await);
    }
}

fn done(action: &str, at_ms: i64) -> NewAudit {
    NewAudit {
        at_ms,
        actor: Actor::system(),
        key: None,
        tenant: None,
        action: action.to_owned(),
        target: None,
        generation: None,
        gate: None,
        outcome: AuditOutcome::Done,
        code: None,
        count: 1,
        detail: String::new(),
    }
}

fn refused(name: &str, count: u64) -> NewAudit {
    NewAudit {
        target: Some(name.to_owned()),
        gate: Some("tool".to_owned()),
        outcome: AuditOutcome::Refused,
        code: Some("unknown_tool".to_owned()),
        count,
        ..done("call.refused", 1_000)
    }
}

#[tokio::test]
async fn what_was_done_is_on_the_disk_at_once_and_what_was_refused_soon() {
    let stage = Stage::new().await;
    let (stop, writing) = stage.writing();

    let kept = stage
        .audit
        .done(Act::new(Who::system(), "key.create"))
        .await;
    let at_once = stage.records().await;
    for _ in 0..1_000 {
        stage.refuse("a");
    }

    assert_eq!(
        (kept, at_once),
        (Kept::OnDisk, vec![done("key.create", 1_000)])
    );
    assert_eq!(stage.has(2).await[1], refused("a", 1_000));
    stop.cancel();
    writing.await.unwrap();
    // What comes after the writer has ended is for the flush.
    stage.refuse("b");
    stage.audit.flush().await;
    assert_eq!(stage.records().await[2], refused("b", 1));
    assert_eq!(
        stage.audit.status(),
        json!({"written": 3, "unwritten": 0, "lost": 0})
    );
}

#[tokio::test]
async fn records_that_find_no_room_are_counted_and_a_record_says_so() {
    let stage = Stage::new().await;
    for at in 0..notes::MOST + 23 {
        // Each of another one: what one alone is refused is folded before there is no room.
        let who = Who::new(Actor::new(format!("key:{at}")));
        let act = Act::new(who, "call.refused").on("a");
        stage.audit.refused(act, Some(Gate::Tool), "unknown_tool");
    }

    stage.audit.flush().await;

    let records = stage.records().await;
    let last = NewAudit {
        outcome: AuditOutcome::Refused,
        code: Some("audit.full".to_owned()),
        count: 23,
        detail: "23 records lost: more different ones came at once than are kept".to_owned(),
        ..done("audit.lost", 1_000)
    };
    assert_eq!(
        (records.len(), records.last()),
        (notes::MOST + 1, Some(&last))
    );
    assert_eq!(stage.audit.lost(), 23);
}

#[tokio::test]
async fn what_the_disk_does_not_take_is_told_and_written_when_it_does() {
    let stage = Stage::new().await;
    let there = stage.directory.path().join("genlock.db");
    let away = stage.directory.path().join("away.db");
    fs::rename(&there, &away).unwrap();

    let kept = stage
        .audit
        .done(Act::new(Who::system(), "key.create"))
        .await;
    let status = stage.audit.status();
    fs::rename(&away, &there).unwrap();
    let (stop, writing) = stage.writing();
    let records = stage.has(1).await;

    assert_eq!(kept.word(), Some("pending"));
    assert_eq!(status, json!({"written": 0, "unwritten": 1, "lost": 0}));
    assert_eq!(records, [done("key.create", 1_000)]);
    assert_eq!(
        stage.audit.status(),
        json!({"written": 1, "unwritten": 0, "lost": 0})
    );
    stop.cancel();
    writing.await.unwrap();
}

#[tokio::test]
async fn what_is_older_than_retention_says_is_deleted() {
    let stage = Stage::new().await;
    for day in 0..4 {
        stage.now_ms.store(day * DAY_MS, Ordering::Relaxed);
        let kept = stage.audit.done(Act::new(Who::system(), "gateway.boot"));
        assert_eq!(kept.await, Kept::OnDisk);
    }
    stage.audit.prune(2).await;

    let left: Vec<i64> = stage
        .records()
        .await
        .iter()
        .map(|entry| entry.at_ms)
        .collect();
    assert_eq!(left, [DAY_MS, 2 * DAY_MS, 3 * DAY_MS]);
}

#[tokio::test]
async fn a_refusal_is_recorded_with_its_gate_and_without_what_strangers_write() {
    let stage = Stage::new().await;
    stage.audit.in_force(GenerationNumber::FIRST);
    let name = format!("a\u{1b}[2J{}", "\u{202e}".repeat(500));
    let refusal = Refusal {
        gate: Gate::Tool,
        code: "unknown_tool",
        visitor: None,
        address: Some([10, 0, 0, 7].into()),
        generation: None,
        target: Target::Name(&name),
        missing: None,
    };

    Witness::refused(&stage.audit, &refusal);
    let owner = Actor::new("uid:7");
    stage.audit.of_session("s1", &owner).refused(&Refusal {
        visitor: Some(&genlock_access::Visitor::Local),
        target: Target::Tool {
            server: "one",
            tool: "two",
        },
        ..refusal
    });
    stage.audit.flush().await;

    let records = stage.records().await;
    let expected = NewAudit {
        actor: Actor::new("address:10.0.0.7"),
        generation: Some(GenerationNumber::FIRST),
        ..refused(
            &format!("a\\u{{1b}}[2J{}", "\\u{202e}".repeat(20))[..128],
            1,
        )
    };
    let of_session = NewAudit {
        actor: owner,
        generation: Some(GenerationNumber::FIRST),
        detail: "at the view of session s1".to_owned(),
        ..refused("one/two", 1)
    };
    assert!(records.contains(&expected), "{records:?}");
    assert!(records.contains(&of_session), "{records:?}");
    assert_eq!(records.len(), 2);
    stage.history.close().await;
}

#[tokio::test]
async fn a_start_deletes_what_is_too_old_by_the_config_in_force() {
    use genlock_config::Sources;

    use crate::{ConfigSource, Gateway, Home, Host, StateDir};

    let directory = tempfile::tempdir().unwrap();
    let path = camino::Utf8PathBuf::from_path_buf(directory.path().to_owned()).unwrap();
    let file = path.join("genlock.yaml");
    fs::write(&file, "retention: { audit_days: 3 }").unwrap();
    let state_dir = StateDir::claim(&path.join("state")).unwrap();
    let mut left = Vec::new();
    for day in [1, 2, 3, 9] {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400);
        let home = Home {
            state_dir: &state_dir,
            source: ConfigSource {
                file: Some(file.clone()),
                sources: Sources::default(),
            },
            environment: Vec::new(),
            strict_boot: true,
            worker: None,
        };
        let host = Host::new(move || now, || [7; 16]);
        let gateway = Gateway::boot(home, &host).await.unwrap();
        let audit = gateway.status().reloader.unwrap().audit().clone();
        let expected = if day == 9 {
            1
        } else {
            usize::try_from(day).unwrap()
        };
        for _ in 0..1_000 {
            let found = audit.list(&AuditFilter::default(), 10).await.unwrap();
            left = found.iter().map(|record| record.number.get()).collect();
            if left.len() == expected {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        gateway.stop().await;
    }

    assert_eq!(left, [4]);
}
