//! The benchmark as a whole, with few calls: every answer on every path is checked by the load.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

const BENCH: &str = env!("CARGO_BIN_EXE_genlock-bench");

/// So few calls that the run is over in a moment.
const QUICK: [&str; 14] = [
    "call",
    "--json",
    "--calls",
    "20",
    "--large-calls",
    "2",
    "--list-calls",
    "2",
    "--rounds",
    "5",
    "--clients",
    "1,4",
    "--tools=50",
    "--layouts=free",
];

#[test]
fn call_without_a_gateway_measures_the_direct_path_and_the_floor() {
    let output = Command::new(BENCH).args(QUICK).output().unwrap();

    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let paths: Vec<Value> = report["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(name)
        .collect();
    let expected = [
        ("echo_http", "direct", 1),
        ("echo_http", "floor", 1),
        ("echo_stdio", "direct", 1),
        ("echo_http", "direct", 4),
        ("echo_http", "floor", 4),
        ("echo_stdio", "direct", 4),
        ("large", "direct", 1),
        ("large", "floor", 1),
        ("large", "memcpy", 1),
        ("list", "direct", 1),
        ("list", "floor", 1),
    ];
    assert_eq!(
        paths,
        expected.map(|(workload, path, clients)| json!([workload, path, clients]))
    );
    for path in report["paths"].as_array().unwrap() {
        assert_eq!(path["rounds"].as_array().unwrap().len(), 5);
        assert!(path["p50_us"].as_f64().unwrap() > 0.0, "{path}");
    }
    assert!(report["remarks"][0].as_str().unwrap().contains("--genlock"));
}

#[test]
fn check_fails_where_a_target_was_not_measured() {
    let status = Command::new(BENCH)
        .args(QUICK)
        .arg("--check")
        .output()
        .unwrap()
        .status;

    assert_eq!(status.code(), Some(1));
}

#[test]
fn wrong_use_is_a_usage_error() {
    let status = Command::new(BENCH)
        .args(["call", "--rounds", "1"])
        .output()
        .unwrap()
        .status;

    assert_eq!(status.code(), Some(64));
}

#[test]
fn gateway_that_does_not_start_is_an_error_and_not_a_figure() {
    let output = Command::new(BENCH)
        .args(QUICK)
        .args(["--genlock", "/bin/false"])
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(70));
    assert!(output.stdout.is_empty());
}

#[test]
fn stdio_upstream_answers_and_ends_with_its_input() {
    let mut command = Command::new(BENCH);
    command
        .args(["upstream-stdio", "--tools", "3"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut upstream = command.spawn().unwrap();

    let request = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/list", "params": {}});
    writeln!(upstream.stdin.take().unwrap(), "{request}").unwrap();
    let output = upstream.wait_with_output().unwrap();

    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (
            &answer["id"],
            answer["result"]["tools"].as_array().unwrap().len()
        ),
        (&json!("a"), 3)
    );
}

/// Returns what names a path.
fn name(path: &Value) -> Value {
    json!([path["workload"], path["path"], path["clients"]])
}
