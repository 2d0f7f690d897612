//! A disk that is full, cannot be written or fails, and other writers.

use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    process::Command,
    time::Duration,
};

use genlock_store::Options;
use rustix::process::geteuid;
use sqlx::Connection;

use super::{
    Directory,
    child::{ARGUMENTS, CONFIG_BYTES, Committer},
};
use crate::draft::{draft, draft_of, number, profile, record};

/// Nobody, and the group of nobody.
const NOBODY: u32 = 65534;

fn impatient() -> Options {
    Options {
        busy_timeout: Duration::from_millis(50),
        ..Options::default()
    }
}

#[tokio::test]
async fn a_full_store_refuses_and_keeps_its_head() {
    let directory = Directory::new();
    let small = Options {
        max_bytes: Some(200_000),
        ..Options::default()
    };
    let store = directory.try_open(&small).await.unwrap();
    let epoch = store.take_epoch(&profile()).await.unwrap();
    store
        .commit_generation(epoch, None, draft(1))
        .await
        .unwrap();

    for _ in 0..3 {
        let too_big = draft_of(2, 300_000);
        let full = store
            .commit_generation(epoch, Some(number(1)), too_big)
            .await;

        assert_eq!(full.unwrap_err().code(), "store.full");
        let head = store.head(&profile()).await.unwrap();
        assert_eq!(head, Some(record(&draft(1), number(1))));
    }

    let fits = store
        .commit_generation(epoch, Some(number(1)), draft(3))
        .await;
    assert_eq!(fits.unwrap(), record(&draft(3), number(2)));
    store.verify().await.unwrap();
}

#[tokio::test]
async fn another_writer_makes_the_store_busy_and_not_broken() {
    let directory = Directory::with_generations(1, 10).await;
    let store = directory.try_open(&impatient()).await.unwrap();
    let epoch = store.take_epoch(&profile()).await.unwrap();
    let mut other = directory.raw().await;
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut other)
        .await
        .unwrap();

    let busy = store
        .commit_generation(epoch, Some(number(1)), draft(2))
        .await;
    let second = directory.refusal(&impatient()).await;
    let read = store.head(&profile()).await;
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    let free = store
        .commit_generation(epoch, Some(number(1)), draft(2))
        .await;

    assert_eq!(busy.unwrap_err().code(), "store.busy");
    assert_eq!(second.code(), "store.busy");
    assert_eq!(read.unwrap().unwrap().number, number(1));
    assert_eq!(free.unwrap().number, number(2));
    other.close().await.unwrap();
}

/// Permissions say nothing to root, so that the store is then opened by another user.
#[tokio::test]
async fn a_database_without_write_permission_is_read_only() {
    let directory = Directory::with_generations(1, 10).await;
    let mut command = Committer::command();
    if geteuid().is_root() {
        let binary = directory.0.path().join("child");
        fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
        for path in [directory.0.path(), &binary] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        for path in [directory.0.path(), directory.database().as_std_path()] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command = Command::new(binary);
        command.args(ARGUMENTS).uid(NOBODY).gid(NOBODY);
    }
    fs::set_permissions(directory.database(), Permissions::from_mode(0o400)).unwrap();

    let mut child = Committer::start(command, directory.database().as_str());

    assert_eq!(child.next("error: ").as_deref(), Some("store.read_only"));
    child.wait();
}

/// With a limit on the size of files in place of a disk that fails: the write is refused with
/// another error than a full disk, in the middle of a commit.
#[tokio::test]
async fn a_failed_write_ends_in_an_error_and_a_whole_store() {
    let directory = Directory::with_generations(1, CONFIG_BYTES).await;
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"trap "" XFSZ; ulimit -f 200; exec "$@""#, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(ARGUMENTS);

    let mut child = Committer::start(command, directory.database().as_str());
    let mut acknowledged = 1;
    let error = loop {
        // One of the two comes next, and the harness may write before either.
        let line = child.next(": ").unwrap();
        match line.parse() {
            Ok(number) => acknowledged = number,
            Err(_) => break line,
        }
    };
    child.wait();

    assert!(
        ["store.in_doubt", "store.unavailable"].contains(&error.as_str()),
        "{error}"
    );
    let store = directory.store().await;
    let found = store.head(&profile()).await.unwrap().unwrap().number.get();
    assert!((acknowledged..=acknowledged + 1).contains(&found));
    assert!(acknowledged > 1);
    assert_eq!(store.verify().await.unwrap().generations, found);
}
