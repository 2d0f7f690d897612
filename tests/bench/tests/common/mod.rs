//! What the tests of whole benchmarks have in common.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

pub(crate) const BENCH: &str = env!("CARGO_BIN_EXE_genlock-bench");

/// The gateway beside this benchmark, with its worker, built where they are not there: Cargo builds no binaries of other packages for a test.
pub(crate) fn genlock() -> PathBuf {
    let binary = Path::new(BENCH).with_file_name("genlock");
    let is_release = binary
        .parent()
        .is_some_and(|directory| directory.ends_with("release"));
    let mut cargo = Command::new(env!("CARGO"));
    let packages = ["--package", "genlock", "--package", "genlock-worker"];
    cargo.args(["build", "--quiet"]).args(packages);
    if is_release {
        cargo.arg("--release");
    }
    let status = cargo.status().unwrap();
    assert!(status.success(), "build the gateway: {status}");
    binary
}

/// Runs a benchmark against the gateway.
pub(crate) fn run(benchmark: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(BENCH);
    command
        .args([benchmark, "--json", "--genlock"])
        .arg(genlock());
    command.args(arguments).output().unwrap()
}

/// All figures of a run that went well.
pub(crate) fn rows(output: &Output) -> Vec<Value> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["targets"].as_array().unwrap().clone()
}

/// The figures by what they are of, without those that depend on how fast the machine is.
pub(crate) fn counts(output: &Output) -> Vec<Value> {
    let mut rows = rows(output);
    rows.retain(|row| row["unit"] == "count");
    rows
}

/// Whether a check that something never happens ran, and one that finds it where it is planted.
pub(crate) fn assert_kept(counts: &[Value], ids: &[&str]) {
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
