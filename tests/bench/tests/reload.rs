//! The reload benchmark as a whole, in its short form: every check runs, and finds what is planted.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::process::{Command, Output};

use common::{BENCH, assert_kept, counts};

fn reload(arguments: &[&str]) -> Output {
    common::run("reload", arguments)
}

#[test]
fn exactly_what_changed_is_touched() {
    let sizes = ["--servers", "30", "--stdio", "10", "--rounds", "3"];
    let output = reload(&[&sizes[..], &["--parts", "touches"]].concat());
    assert_kept(&counts(&output), &["G6"]);

    let output = reload(&[&sizes[..], &["--parts", "speed"]].concat());
    let counts = counts(&output);
    assert_eq!(
        (&counts[0]["id"], &counts[0]["reached"]),
        (&"F8".into(), &0.0.into())
    );
}

#[test]
fn only_whole_saves_are_committed() {
    let output = reload(&["--parts", "saves", "--rounds", "3"]);
    let counts = counts(&output);
    assert_kept(&counts, &["G7"]);
    assert_eq!(counts.len(), 11, "{counts:?}");
}

#[test]
fn callers_see_nothing_of_a_reload_but_that_a_server_is_gone() {
    let output = reload(&[
        "--parts",
        "load,revoked",
        "--rounds",
        "3",
        "--span-ms",
        "500",
    ]);
    assert_kept(&counts(&output), &["G13", "R1"]);
}

#[test]
fn private_values_come_out_nowhere() {
    let output = reload(&["--parts", "secrets", "--rounds", "1"]);
    assert_kept(&counts(&output), &["K"]);
}

#[test]
fn a_gateway_that_does_not_start_is_an_error_and_not_a_figure() {
    let mut command = Command::new(BENCH);
    let output = command
        .args(["reload", "--genlock", "/bin/false"])
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(70));
    assert!(output.stdout.is_empty());
}
