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
        "the store is of a newer version (99) than this program reads: 1"
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
