//! How the fake server starts, misbehaves and ends.

use std::time::Duration;

use genlock_testkit::{
    clients::{StdioClient, StdioCommand},
    harness::{
        DEADLINE, Process, ProcessOptions, Scratch, eventually, fake_server, is_alive, is_locked,
        journal, starts,
    },
};

fn command(flags: &[&str]) -> StdioCommand {
    StdioCommand::new(fake_server(), flags.iter().copied())
}

fn start(scratch: &Scratch, flags: &[&str]) -> Process {
    ProcessOptions::new(fake_server())
        .args(["--http", "127.0.0.1:0"])
        .args(flags)
        .start(scratch.path(), "fake")
}

#[tokio::test]
async fn environment_is_from_zero() {
    let client = StdioClient::modern(&command(&[]).env("CANARY", "x"));

    let names = client.call("env_names", "{}").await.structured();
    assert_eq!(names.to_string(), r#"{"names":["CANARY","PATH"]}"#);
    assert_eq!(
        client
            .call("env", r#"{"name":"CANARY"}"#)
            .await
            .structured()["value"],
        "x"
    );
}

#[tokio::test]
async fn faults_spoil_calls_only() {
    for (flag, spoiled) in [
        ("--bad-json-answers", r#""result":{"content":[}"#),
        ("--wrong-id", r#""id":"nobody-asked""#),
        ("--double-answer", r#""text":"x""#),
        ("--garbage", "loading modules"),
    ] {
        let client = StdioClient::modern(&command(&[flag]));
        assert!(
            client.request("tools/list", "{}").await.is_result(),
            "{flag}"
        );

        client.start_call("echo", r#"{"text":"x"}"#).await;

        let found = client
            .transcript()
            .find(DEADLINE, flag, |line| line.contains(spoiled))
            .await;
        assert!(found.is_some(), "{flag}");
    }
}

#[tokio::test]
async fn it_ends_after_as_many_calls_as_told() {
    let mut client = StdioClient::modern(&command(&["--crash-after", "2"]));
    client.call("echo", "{}").await;

    let last = client.call("echo", r#"{"text":"bye"}"#).await;

    assert_eq!(last.text(), "bye");
    assert_eq!(client.wait_exit(DEADLINE).await.code(), Some(3));
}

#[tokio::test]
async fn it_dies_in_the_middle_of_a_call() {
    let mut client = StdioClient::modern(&command(&[]));

    let id = client.start_call("die", "{}").await;

    assert!(client.try_answer(&id).await.is_none());
    assert_eq!(client.wait_exit(DEADLINE).await.code(), Some(4));
}

#[tokio::test]
async fn starts_and_messages_are_written_down() {
    let scratch = Scratch::new();
    let (log, book) = (scratch.join("starts"), scratch.join("journal"));
    let client = StdioClient::modern(&command(&[
        "--start-log",
        log.to_str().unwrap(),
        "--journal",
        book.to_str().unwrap(),
    ]));

    let instance = client.call("instance", "{}").await.text();

    assert_eq!(starts(&log)[0]["instance"], instance.as_str());
    assert_eq!(journal(&book)[0]["params"]["name"], "instance");
}

#[tokio::test]
async fn a_refusing_start_still_counts_as_one() {
    let scratch = Scratch::new();
    let log = scratch.join("starts");

    let mut process = start(
        &scratch,
        &["--exit-at-start", "9", "--start-log", log.to_str().unwrap()],
    );

    assert_eq!(process.wait_exit(DEADLINE).code(), Some(9));
    assert_eq!(starts(&log).len(), 1);
}

#[tokio::test]
async fn a_stubborn_server_outlives_term_and_a_dropped_process_takes_its_tree_along() {
    let scratch = Scratch::new();
    let lock = scratch.join("alive");
    let grandchild = scratch.join("alive.grandchild");
    let flags = [
        "--ignore-term",
        "--spawn-grandchild",
        "--alive-lock",
        lock.to_str().unwrap(),
    ];
    let process = start(&scratch, &flags);
    let pid = process.pid();
    eventually(DEADLINE, "it listens", || {
        process.stdout().contains("listening").then_some(())
    });
    assert!(is_locked(&lock) && is_locked(&grandchild));

    process.terminate();
    let mut looks = 0;
    eventually(
        Duration::from_secs(5),
        "it is still there after a while",
        || {
            looks += 1;
            (looks > 20 && is_alive(pid)).then_some(())
        },
    );
    drop(process);

    eventually(DEADLINE, "nothing is left", || {
        (!is_locked(&lock) && !is_locked(&grandchild)).then_some(())
    });
}
