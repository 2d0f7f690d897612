use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use camino::Utf8Path;
use genlock_store::{Access, Options, Verified};

use super::Directory;
use crate::draft::{draft, number, profile, record};

fn mode(path: &Utf8Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn must_exist() -> Options {
    Options {
        must_exist: true,
        ..Options::default()
    }
}

fn read_only() -> Options {
    Options {
        access: Access::ReadOnly,
        ..Options::default()
    }
}

#[tokio::test]
async fn the_files_are_for_the_owner_alone() {
    let directory = Directory::new();

    let store = directory.store().await;
    store.take_epoch(&profile()).await.unwrap();

    for suffix in ["", "-wal", "-shm", ".present"] {
        assert_eq!(mode(&directory.beside(suffix)), 0o600, "{suffix}");
    }
}

#[tokio::test]
async fn the_rights_of_others_are_taken_away() {
    let directory = Directory::with_generations(1, 10).await;
    fs::set_permissions(directory.database(), Permissions::from_mode(0o644)).unwrap();

    let store = directory.store().await;
    store.take_epoch(&profile()).await.unwrap();

    assert_eq!(mode(&directory.database()), 0o600);
    assert_eq!(mode(&directory.beside("-wal")), 0o600);
}

#[tokio::test]
async fn a_database_that_is_gone_is_never_made_anew() {
    let directory = Directory::with_generations(2, 10).await;
    let moved = directory.beside(".moved");
    fs::rename(directory.database(), &moved).unwrap();

    let refusal = directory.refusal(&Options::default()).await;

    assert_eq!(refusal.code(), "store.missing");
    assert_eq!(
        refusal.hint().unwrap(),
        format!(
            "restore `{}` from a backup, or, to begin with an empty history, remove `{}`",
            directory.database(),
            directory.beside(".present"),
        )
    );
    assert!(!directory.database().exists());

    fs::rename(&moved, directory.database()).unwrap();
    let head = directory.store().await.head(&profile()).await.unwrap();
    assert_eq!(head.unwrap().number, number(2));
}

#[tokio::test]
async fn an_emptied_database_is_a_missing_one() {
    let directory = Directory::with_generations(2, 10).await;
    fs::write(directory.database(), "").unwrap();

    let refusal = directory.refusal(&Options::default()).await;

    assert_eq!(refusal.code(), "store.missing");
    assert_eq!(fs::metadata(directory.database()).unwrap().len(), 0);
}

#[tokio::test]
async fn a_fresh_database_in_place_of_the_store_is_a_missing_one() {
    let directory = Directory::with_generations(2, 10).await;
    fs::remove_file(directory.database()).unwrap();
    fs::write(directory.database(), "").unwrap();
    let mut raw = directory.raw().await;
    sqlx::query("PRAGMA journal_mode = WAL")
        .execute(&mut raw)
        .await
        .unwrap();
    sqlx::Connection::close(raw).await.unwrap();

    let refusal = directory.refusal(&Options::default()).await;

    assert_eq!(refusal.code(), "store.missing");
}

#[tokio::test]
async fn a_wal_or_the_callers_word_is_evidence_too() {
    let directory = Directory::new();
    assert_eq!(
        directory.refusal(&must_exist()).await.code(),
        "store.missing"
    );
    assert_eq!(
        directory.refusal(&read_only()).await.code(),
        "store.missing"
    );

    fs::write(directory.beside("-wal"), "left over").unwrap();
    let refusal = directory.refusal(&Options::default()).await;

    assert_eq!(refusal.code(), "store.missing");
    assert!(!directory.database().exists());
}

#[tokio::test]
async fn the_marker_is_written_again_where_it_is_gone() {
    let directory = Directory::with_generations(1, 10).await;
    fs::remove_file(directory.beside(".present")).unwrap();

    directory.store().await;

    assert!(directory.beside(".present").exists());
}

#[tokio::test]
async fn a_store_for_reading_reads_beside_a_writer() {
    let directory = Directory::new();
    let writer = directory.store().await;
    let epoch = writer.take_epoch(&profile()).await.unwrap();

    let reader = directory.try_open(&read_only()).await.unwrap();
    writer
        .commit_generation(epoch, None, draft(1))
        .await
        .unwrap();

    let head = reader.head(&profile()).await.unwrap();
    assert_eq!(head, Some(record(&draft(1), number(1))));
    let all = Verified {
        profiles: 1,
        generations: 1,
        sessions: 0,
        turns: 0,
        keys: 0,
        audit: 0,
    };
    assert_eq!(reader.verify().await.unwrap(), all);
    let refused = reader.take_epoch(&profile()).await.unwrap_err();
    assert_eq!(refused.code(), "store.read_only");
}

#[tokio::test]
async fn a_store_whose_files_went_away_acknowledges_nothing() {
    for suffix in ["", "-wal"] {
        let directory = Directory::new();
        let store = directory.store().await;
        let epoch = store.take_epoch(&profile()).await.unwrap();
        let (there, away) = (directory.beside(suffix), directory.beside(".away"));
        fs::rename(&there, &away).unwrap();

        let gone = store.commit_generation(epoch, None, draft(1)).await;
        fs::copy(&away, &there).unwrap();
        let replaced = store.commit_generation(epoch, None, draft(1)).await;
        fs::rename(&away, &there).unwrap();
        let back = store.commit_generation(epoch, None, draft(1)).await;

        assert_eq!(gone.unwrap_err().code(), "store.missing", "{suffix}");
        assert_eq!(replaced.unwrap_err().code(), "store.missing", "{suffix}");
        assert_eq!(back.unwrap().number, number(1), "{suffix}");
    }
}
