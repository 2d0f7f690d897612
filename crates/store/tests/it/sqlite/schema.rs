use std::fs;

use genlock_store::Options;
use sqlx::Connection;

use super::Directory;
use crate::draft::{number, profile};

#[tokio::test]
async fn a_store_of_a_newer_version_is_left_alone() {
    let directory = Directory::with_generations(1, 10).await;
    let mut raw = directory.raw().await;
    sqlx::query("PRAGMA user_version = 99")
        .execute(&mut raw)
        .await
        .unwrap();
    raw.close().await.unwrap();
    let before = fs::read(directory.database()).unwrap();

    let refusal = directory.refusal(&Options::default()).await;

    assert_eq!(refusal.code(), "store.newer");
    assert_eq!(
        refusal.to_string(),
        "the store is of a newer version (99) than this program reads: 5"
    );
    assert_eq!(fs::read(directory.database()).unwrap(), before);
}

#[tokio::test]
async fn the_database_of_another_program_is_left_alone() {
    let directory = Directory::new();
    fs::write(directory.database(), "").unwrap();
    let mut raw = directory.raw().await;
    sqlx::query("CREATE TABLE theirs (x)")
        .execute(&mut raw)
        .await
        .unwrap();
    raw.close().await.unwrap();
    let before = fs::read(directory.database()).unwrap();

    let refusal = directory.refusal(&Options::default()).await;

    assert_eq!(refusal.code(), "store.foreign");
    assert_eq!(fs::read(directory.database()).unwrap(), before);
    assert!(!directory.beside(".present").exists());
}

#[tokio::test]
async fn the_database_itself_refuses_to_rewrite_history() {
    let directory = Directory::with_generations(3, 10).await;
    let mut raw = directory.raw().await;

    for sql in [
        "UPDATE generation SET overlay = '{}' WHERE number = 1",
        "DELETE FROM generation WHERE number = 1",
        "DELETE FROM generation WHERE number = 3",
        "DELETE FROM profile",
        "UPDATE profile SET head = 2",
        "UPDATE profile SET head = 4",
        "UPDATE profile SET head = NULL",
        "UPDATE profile SET epoch = epoch - 1",
        "UPDATE profile SET epoch = epoch + 2",
        "INSERT INTO generation SELECT profile, 4, 3, digest, cause, actor, reason, at_ms,
             content, seal, fingerprints, overlay, config FROM generation WHERE number = 3",
        "INSERT INTO generation SELECT profile, 2, 1, digest, cause, actor, reason, at_ms,
             content, seal, fingerprints, overlay, config FROM generation WHERE number = 3",
    ] {
        assert!(sqlx::query(sql).execute(&mut raw).await.is_err(), "{sql}");
    }

    let store = directory.store().await;
    assert_eq!(store.verify().await.unwrap().generations, 3);
    assert_eq!(
        store.head(&profile()).await.unwrap().unwrap().number,
        number(3)
    );
}

#[tokio::test]
async fn the_database_itself_holds_the_fence() {
    use genlock_policy::Actor;
    use genlock_store::{NewTurn, TurnId};

    use crate::conformance::sessions::{new_session, session_id, to};

    let directory = Directory::with_generations(2, 10).await;
    let store = directory.store().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    for id in ["idle", "busy"] {
        let new = new_session(id, id);
        store.create_session(epoch, new).await.unwrap();
    }
    store
        .commit_transition(epoch, to("idle", 1, 2))
        .await
        .unwrap();
    let turn = NewTurn {
        profile: profile(),
        id: TurnId::new("t1"),
        session: session_id("busy"),
        submission: "t1".to_owned(),
        payload: "{}".to_owned(),
        actor: Actor::system(),
        at_ms: 1,
    };
    store.admit_turn(epoch, turn).await.unwrap();
    let mut raw = directory.raw().await;

    for sql in [
        "UPDATE session SET policy_seq = 2 WHERE id = 'busy'",
        "UPDATE session SET generation = 2 WHERE id = 'busy'",
        "UPDATE session SET policy_seq = 3 WHERE id = 'idle'",
        "UPDATE session SET policy_seq = 1 WHERE id = 'idle'",
        "UPDATE session SET selection = '{}' WHERE id = 'idle'",
        "UPDATE session SET pick = NULL",
        "UPDATE session SET owner = 'uid:0'",
        "UPDATE transition SET generation = 1",
        "DELETE FROM transition",
        "DELETE FROM turn",
        "DELETE FROM generation WHERE number = 1",
        "DELETE FROM server_name",
        "UPDATE turn SET generation = 2",
        "UPDATE turn SET payload = 'other'",
        "UPDATE turn SET status = 'unknown'",
        "UPDATE turn SET status = 'done'",
        "INSERT INTO turn SELECT profile, 't2', session, 2, 's2', 2, generation, actor, submitted_ms,
             status, outcome, execution, secret, started_ms, ended_ms, seal, error, payload, result FROM turn",
    ] {
        assert!(sqlx::query(sql).execute(&mut raw).await.is_err(), "{sql}");
    }

    assert_eq!(store.verify().await.unwrap().turns, 1);
}

#[tokio::test]
async fn a_damaged_session_or_turn_is_never_used() {
    use crate::conformance::sessions::{new_session, session_id};

    let directory = Directory::with_generations(1, 10).await;
    let store = directory.store().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    let new = new_session("s1", "r1");
    store.create_session(epoch, new).await.unwrap();
    let mut raw = directory.raw().await;
    sqlx::query("UPDATE session SET token = 7")
        .execute(&mut raw)
        .await
        .unwrap();

    let read = store.session(&profile(), &session_id("s1")).await;
    let verified = store.verify().await;

    assert_eq!(read.unwrap_err().code(), "store.corrupt");
    assert_eq!(verified.unwrap_err().code(), "store.corrupt");
}

#[tokio::test]
async fn a_store_of_the_first_version_is_brought_up_to_date_and_keeps_what_it_has() {
    let directory = Directory::with_generations(2, 10).await;
    let mut raw = directory.raw().await;
    // Back to version 1: what the later migrations made is taken away.
    let made: Vec<(String, String)> = sqlx::query_as(
        "SELECT type, name FROM sqlite_schema WHERE sql LIKE '%session%' OR sql LIKE '%server_name%'
            OR sql LIKE '%api_key%' OR sql LIKE '%audit%'
         ORDER BY type = 'table'",
    )
    .fetch_all(&mut raw)
    .await
    .unwrap();
    sqlx::query("PRAGMA foreign_keys = OFF")
        .execute(&mut raw)
        .await
        .unwrap();
    for (kind, name) in &made {
        let drop = sqlx::AssertSqlSafe(format!("DROP {kind} IF EXISTS {name}"));
        sqlx::query(drop).execute(&mut raw).await.unwrap();
    }
    sqlx::raw_sql(
        "DROP TRIGGER generation_is_immutable;
         UPDATE generation SET config = '{\"mcp_servers\":{\"a\":{},\"b\":{}}}' WHERE number = 1;
         CREATE TRIGGER generation_is_immutable BEFORE UPDATE ON generation
         BEGIN SELECT raise(ABORT, 'generations are immutable'); END;
         PRAGMA user_version = 1",
    )
    .execute(&mut raw)
    .await
    .unwrap();
    raw.close().await.unwrap();

    let store = directory.store().await;

    let names = store.server_names(&profile()).await.unwrap();
    assert_eq!(names, ["a", "b"].map(str::to_owned).into());
    let head = store.head(&profile()).await.unwrap();
    assert_eq!(head.unwrap().number, number(2));
    assert!(made.len() > 10, "{made:?}");
}

#[tokio::test]
async fn the_database_itself_keeps_the_audit() {
    use genlock_policy::Actor;
    use genlock_store::{AuditOutcome, NewAudit};

    let directory = Directory::with_generations(1, 10).await;
    let store = directory.store().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    let entry = NewAudit {
        at_ms: 1,
        actor: Actor::system(),
        key: None,
        tenant: None,
        action: "key.create".to_owned(),
        target: None,
        generation: None,
        gate: None,
        outcome: AuditOutcome::Done,
        code: None,
        count: 1,
        detail: String::new(),
    };
    let entries = vec![entry; 3];
    store
        .append_audit(epoch, &profile(), entries)
        .await
        .unwrap();
    let mut raw = directory.raw().await;

    for sql in [
        "UPDATE audit SET actor = 'uid:0'",
        "UPDATE audit SET outcome = 'refused' WHERE number = 1",
        "DELETE FROM audit",
        "DELETE FROM audit WHERE number = 1",
        "INSERT INTO retention SELECT id FROM profile; DELETE FROM audit WHERE number = 3",
        "INSERT INTO retention SELECT id FROM profile; DELETE FROM audit WHERE number = 2",
        "INSERT INTO audit SELECT profile, 7, at_ms, actor, key, tenant, action, target, generation, gate, outcome,
             code, count, detail, seal FROM audit WHERE number = 3",
    ] {
        let sql = sqlx::AssertSqlSafe(format!("BEGIN; {sql}; COMMIT"));
        assert!(sqlx::raw_sql(sql).execute(&mut raw).await.is_err());
        sqlx::query("ROLLBACK").execute(&mut raw).await.unwrap();
    }
    assert_eq!(store.verify().await.unwrap().audit, 3);

    // Who takes the triggers away is found out: a record that says something else, and one that is gone.
    for (sql, whole) in [
        ("UPDATE audit SET actor = 'uid:0' WHERE number = 2", false),
        ("UPDATE audit SET actor = 'system' WHERE number = 2", true),
        ("DELETE FROM audit WHERE number = 2", false),
    ] {
        let drop =
            "DROP TRIGGER IF EXISTS audit_is_immutable; DROP TRIGGER IF EXISTS audit_is_kept";
        sqlx::raw_sql(drop).execute(&mut raw).await.unwrap();
        sqlx::query(sql).execute(&mut raw).await.unwrap();
        assert_eq!(store.verify().await.is_ok(), whole, "{sql}");
    }
}
