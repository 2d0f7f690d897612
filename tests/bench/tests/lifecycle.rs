//! The benchmark of servers' lives as a whole, in its short form: every check runs, and finds what is planted.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::process::Output;

use common::{assert_kept, counts, rows};
use serde_json::Value;

fn lifecycle(arguments: &[&str]) -> Output {
    common::run("lifecycle", arguments)
}

/// The figures that are measured, by what they are of.
fn measured(output: &Output) -> Vec<Value> {
    let mut rows = rows(output);
    rows.retain(|row| row["unit"] != "count");
    for row in &rows {
        assert!(row["reached"].as_f64().unwrap() > 0.0, "{row}");
    }
    rows
}

#[test]
fn callers_of_other_servers_are_served_beside_one_that_hangs() {
    let output = lifecycle(&[
        "--parts",
        "hung",
        "--servers",
        "20",
        "--rounds",
        "2",
        "--span-ms",
        "300",
    ]);
    assert_kept(&counts(&output), &["S5"]);
    assert_eq!(measured(&output).len(), 3);
}

#[test]
fn garbage_and_endless_lines_harm_nobody() {
    let output = lifecycle(&["--parts", "garbage", "--rounds", "1"]);
    let counts = counts(&output);
    assert_kept(&counts, &["S6"]);
    assert_eq!(counts.len(), 10, "{counts:?}");
    let memory = measured(&output);
    assert_eq!(memory[0]["missed"], false, "{memory:?}");
}

#[test]
fn every_call_of_every_tenant_has_its_own_answer() {
    let output = lifecycle(&["--parts", "tenants", "--tenants", "6", "--calls", "3000"]);
    assert_kept(&counts(&output), &["S8"]);
}

#[test]
fn idle_sessions_cost_little() {
    let output = lifecycle(&["--parts", "memory", "--sessions", "100"]);
    let kilobytes = |row: &&Value| row["unit"] == "kB";
    let memory = rows(&output);
    let sessions: Vec<_> = memory.iter().filter(kilobytes).collect();
    assert_eq!(sessions.len(), 3, "{memory:?}");
    for row in sessions {
        assert_eq!(row["missed"], false, "{row}");
    }
}

#[test]
fn a_gateway_lists_from_its_cache_before_any_server_is_there() {
    let output = lifecycle(&["--parts", "start", "--rounds", "1"]);
    assert_kept(&counts(&output), &["F7"]);
    assert_eq!(measured(&output).len(), 3);
}
