//! The reload benchmark as a whole, in its short form: every check runs, and finds what is planted.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_genlock-bench");

/// The gateway beside this benchmark, built where it is not there: Cargo builds no binaries of other packages for a test.
fn genlock() -> PathBuf {
    let binary = Path::new(BENCH).with_file_name("genlock");
    let is_release = binary
        .parent()
        .is_some_and(|directory| directory.ends_with("release"));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "genlock"]);
    if is_release {
        cargo.arg("--release");
    }
    let status = cargo.status().unwrap();
    assert!(status.success(), "build the gateway: {status}");
    binary
}

fn reload(arguments: &[&str]) -> Output {
    let mut command = Command::new(BENCH);
    command
        .args(["reload", "--json", "--genlock"])
        .arg(genlock());
    command.args(arguments).output().unwrap()
}

/// The figures by what they are of, without those that depend on how fast the machine is.
fn counts(output: &Output) -> Vec<Value> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["targets"].as_array().unwrap();
    rows.iter()
        .filter(|row| row["unit"] == "count")
        .cloned()
        .collect()
}

/// Whether a check that something never happens ran, and one that finds it where it is planted.
fn assert_kept(counts: &[Value], ids: &[&str]) {
    for row in counts {
        assert_eq!(row["missed"], false, "{row}");
        assert!(row["trials"].as_u64().unwrap() > 0, "{row}");
    }
    for id in ids {
        let is_of = |row: &&Value| row["id"] == **id;
        let planted = |row: &Value| row["what"].as_str().unwrap().starts_with("planted: ");
        let of: Vec<_> = counts.iter().filter(is_of).collect();
        assert!(
            of.iter().any(|row| planted(row)),
            "{id}: nothing planted in {of:?}"
        );
        assert!(
            of.iter().any(|row| !planted(row)),
            "{id}: nothing tried in {of:?}"
        );
    }
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
