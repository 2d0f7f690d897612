//! `genlock sessions`, `genlock turns` and `genlock reload --session`.

use std::fs;

use genlock_testkit::harness::{CommandOutput, Control, GenlockProcess, kill9};
use serde_json::{Value, json};

use super::{Desk, config, gateway, held_by, with_token, workers};
use crate::stage::{self, stdio};

fn text(output: &CommandOutput) -> Vec<&str> {
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (Some(0), ""),
        "{output:?}"
    );
    output.stdout.lines().collect()
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Runs a command that answers programs.
fn answer(gateway: &GenlockProcess, args: &[&str]) -> Value {
    let output = gateway.run(&[args, &["--format", "json"]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

fn create(gateway: &GenlockProcess, more: &[&str]) -> String {
    let created = answer(gateway, &[&["sessions", "create"], more].concat());
    created["session_id"].as_str().unwrap().to_owned()
}

/// The exit code, the first line of what is said to people, and the hint.
fn failure(output: &CommandOutput) -> (Option<i32>, &str, &str) {
    let first = output.stderr.lines().next().unwrap_or_default();
    let hint = output
        .stderr
        .lines()
        .find(|line| line.starts_with("hint: "));
    (output.code, first, hint.unwrap_or_default())
}

#[tokio::test]
async fn a_session_goes_from_its_creation_over_an_edit_to_its_end() {
    let gateway = gateway(&json!({"old": stdio(&[])})).await;
    let created = gateway.run(&["sessions", "create", "--title", "demo"]);
    let lines = text(&created);
    let session = lines[0].strip_prefix("session ").unwrap();
    assert_eq!(
        lines[1..],
        [
            "policy 1 of generation 1",
            "servers   old",
            "toolsets  old, terminal"
        ]
    );

    let listed = gateway.run(&["sessions"]);
    let rows = text(&listed);
    assert_eq!(
        words(rows[0]),
        [
            "SESSION",
            "STATE",
            "CREATED",
            "SOURCE",
            "POLICY",
            "GENERATION",
            "SERVERS",
            "TITLE"
        ]
    );
    let row = words(rows[1]);
    assert_eq!(
        [&row[..2], &row[3..]].concat(),
        [session, "open", "cli", "1", "1", "old", "demo"]
    );

    let arguments = r#"{"text":"hi"}"#;
    let call = [
        "turns",
        "submit",
        session,
        "--call",
        "old/echo",
        "--arguments",
        arguments,
        "--wait",
    ];
    let turn = gateway.run(&call);
    let lines = text(&turn);
    assert!(
        lines[0].ends_with(&format!(
            "is completed: number 1 of session {session}, policy 1 of generation 1"
        )),
        "{lines:?}"
    );
    assert_eq!(lines[1..], ["", "old/echo: ok", "  hi"]);

    let both = json!({"old": stdio(&[]), "new": stdio(&[])});
    gateway.write_config(&config(&both).to_string());
    let dry = gateway.run(&["reload", "--session", session, "--dry-run"]);
    assert!(text(&dry)[0].starts_with("generation 1 would be followed by another"));
    let reloaded = gateway.run(&["reload", "--session", session]);
    let lines = text(&reloaded);
    assert_eq!(
        lines[0],
        format!("applied: session {session}, policy 2; generation 2 is in force")
    );
    assert_eq!(words(lines[4]), ["servers", "new,", "old"]);
    let resumed = gateway.run(&["sessions", "resume", session]);
    assert_eq!(
        text(&resumed)[0],
        format!("unchanged: session {session} runs policy 2 of generation 2")
    );

    let shown = gateway.run(&["sessions", "show", session]);
    let lines = text(&shown);
    assert_eq!(lines[0], format!("session     {session}"));
    assert!(lines.contains(&"servers     new, old"), "{lines:?}");
    let closed = gateway.run(&["sessions", "close", session]);
    assert_eq!(text(&closed), [format!("session {session} is closed")]);
    assert_eq!(
        words(text(&gateway.run(&["sessions", "list"]))[1])[1],
        "closed"
    );
}

#[tokio::test]
async fn programs_get_the_answers_of_the_methods() {
    let gateway = gateway(&json!({"a": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let dir = gateway.scratch().dir("project");
    let dir = dir.to_str().unwrap();
    let more = [
        "--cwd",
        dir,
        "--toolset",
        "a",
        "--toolset",
        "terminal",
        "--source",
        "cron",
    ];
    let create_args = [&["sessions", "create", "--request-id", "r"], &more[..]].concat();

    let created = answer(&gateway, &create_args);
    let again = answer(&gateway, &create_args);

    assert_eq!(created, again);
    let session = created["session_id"].as_str().unwrap();
    let shown = answer(&gateway, &["sessions", "show", session]);
    assert_eq!(shown, desk.get(session).await);
    assert_eq!(
        (&shown["cwd"], &shown["source"], &shown["pick"]),
        (&json!(dir), &json!("cron"), &json!(["a", "terminal"]))
    );
    let listed = answer(&gateway, &["sessions"]);
    assert_eq!(listed, desk.ask("session.list", &json!({})).await);
    let payload = gateway.scratch().write(
        "turn.json",
        r#"{"calls":[{"server":"a","tool":"add","arguments":{"a":1,"b":2}}]}"#,
    );
    let submit = [
        "turns",
        "submit",
        session,
        "--submission-id",
        "s",
        "--payload",
        payload.to_str().unwrap(),
    ];
    let submitted = answer(&gateway, &submit);
    let turn = submitted["turn_id"].as_str().unwrap();
    let waited = answer(&gateway, &["turns", "wait", turn]);
    assert_eq!(waited, desk.receipt(turn).await);
    assert_eq!(super::texts(&waited), ["3"]);
    assert_eq!(answer(&gateway, &["turns", "show", turn]), waited);
    assert_eq!(
        answer(&gateway, &[&submit[..], &["--wait"]].concat()),
        waited
    );
    let reloaded = answer(&gateway, &["reload", "--session", session]);
    assert_eq!(
        (&reloaded["status"], &reloaded["session"]),
        (&json!("reloaded"), &json!("unchanged"))
    );
}

#[tokio::test]
async fn the_exit_code_says_whether_every_call_went_well() {
    let gateway = gateway(&json!({"a": stdio(&[]), "b": stdio(&[])})).await;
    let session = create(&gateway, &["--toolset", "a"]);
    let submit = |more: &[&str]| {
        gateway.run(&[&["turns", "submit", session.as_str(), "--wait"], more].concat())
    };

    let good = submit(&["--call", "a/echo", "--call", "a/instance", "--parallel"]);
    let outside = submit(&["--call", "a/echo", "--call", "b/echo"]);
    let failing = submit(&["--call", "a/fail"]);
    let agent = submit(&["--text", "hello"]);

    assert_eq!(good.code, Some(0), "{good:?}");
    assert_eq!(
        failure(&outside),
        (Some(69), "error: 1 of 2 calls failed", "")
    );
    assert!(
        outside.stdout.contains("b/echo: not_in_policy"),
        "{outside:?}"
    );
    assert_eq!(
        failure(&failing),
        (Some(69), "error: 1 of 1 calls failed", "")
    );
    assert_eq!(agent.code, Some(69));
    assert!(
        agent.stderr.starts_with("error: text_turns_not_served: "),
        "{agent:?}"
    );
}

#[tokio::test]
async fn what_cannot_be_is_a_failure_of_usage_with_what_to_do() {
    let gateway = gateway(&json!({"a": stdio(&[])})).await;
    let session = create(&gateway, &["--request-id", "r"]);
    let once = [
        "turns",
        "submit",
        session.as_str(),
        "--submission-id",
        "s",
        "--call",
        "a/echo",
        "--wait",
    ];
    assert_eq!(gateway.run(&once).code, Some(0));
    let other = [
        "turns",
        "submit",
        session.as_str(),
        "--submission-id",
        "s",
        "--call",
        "a/instance",
    ];
    // The arguments, and what the failure and its hint have to say.
    let table: [(&[&str], &str, &str); 10] = [
        (
            &["sessions", "show", "none"],
            "there is no session `none`",
            "genlock sessions",
        ),
        (
            &["sessions", "resume", "none"],
            "there is no session `none`",
            "genlock sessions",
        ),
        (
            &["reload", "--session", "none"],
            "there is no session `none`",
            "genlock sessions",
        ),
        (
            &["turns", "show", "none"],
            "there is no turn `none`",
            "genlock sessions show",
        ),
        (
            &["turns", "cancel", "none"],
            "there is no turn `none`",
            "genlock sessions show",
        ),
        (
            &["sessions", "create", "--toolset", "termial"],
            "termial",
            "",
        ),
        (
            &["sessions", "create", "--cwd", "/no/such"],
            "/no/such",
            "--cwd",
        ),
        (
            &["sessions", "create", "--request-id", "r", "--title", "x"],
            "request_id",
            "not in the state",
        ),
        (&other, "submission_id", "--submission-id"),
        (
            &["turns", "submit", &session, "--payload", "/no/such"],
            "/no/such",
            "",
        ),
    ];

    for (args, says, hint) in table {
        let output = gateway.run(args);
        let (code, first, hinted) = failure(&output);
        assert_eq!(code, Some(64), "{args:?}: {output:?}");
        assert!(
            first.contains(says) && hinted.contains(hint),
            "{args:?}: {output:?}"
        );
    }
    for args in [
        &["turns", "submit", &session][..],
        &["turns", "submit", &session, "--call", "a"],
        &["reload", "--session", &session, "--if-generation", "1"],
        &["sessions", "unknown"],
    ] {
        assert_eq!(gateway.run(args).code, Some(64), "{args:?}");
    }
}

#[tokio::test]
async fn a_busy_session_is_told_to_be_tried_again() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = gateway(&json!({"a": held_by(&control)})).await;
    let session = create(&gateway, &[]);
    let call = ["--call", "a/hold", "--arguments", r#"{"key":"k"}"#];
    let submit = [&["turns", "submit", session.as_str()], &call[..]].concat();
    let turn = answer(&gateway, &submit)["turn_id"]
        .as_str()
        .unwrap()
        .to_owned();
    control.wait_held("k").await;
    let queued = answer(&gateway, &["turns", "submit", &session, "--call", "a/echo"]);
    let queued = queued["turn_id"].as_str().unwrap();
    let both = json!({"a": held_by(&control), "b": stdio(&[])});
    gateway.write_config(&config(&both).to_string());

    let reloaded = gateway.run(&["reload", "--session", &session]);
    let resumed = gateway.run(&["sessions", "resume", &session]);
    let waited = gateway.run(&["turns", "wait", &turn, "--timeout", "50ms"]);
    let shown = gateway.run(&["sessions", "show", &session]);

    for output in [&reloaded, &resumed] {
        let (code, _, hint) = failure(output);
        assert_eq!(code, Some(75), "{output:?}");
        assert!(hint.contains("genlock turns wait"), "{output:?}");
        assert!(output.stdout.starts_with("busy: "), "{output:?}");
        assert!(output.stdout.contains(&turn), "{output:?}");
    }
    assert_eq!(
        failure(&waited),
        (
            Some(75),
            format!("error: turn {turn} is running still").as_str(),
            ""
        )
    );
    let rows: Vec<Vec<&str>> = text(&shown).into_iter().map(words).collect();
    assert!(rows.contains(&vec![turn.as_str(), "running"]), "{rows:?}");
    assert!(rows.contains(&vec![queued, "queued"]), "{rows:?}");

    let cancelled = gateway.run(&["turns", "cancel", queued]);
    let interrupted = gateway.run(&["turns", "interrupt", &turn]);
    let ended = gateway.run(&["turns", "wait", &turn]);
    let moved = gateway.run(&["reload", "--session", &session]);

    assert!(text(&cancelled)[0].contains("is cancelled"));
    assert_eq!(interrupted.code, Some(0), "{interrupted:?}");
    assert_eq!(ended.code, Some(69));
    assert!(ended.stdout.contains("is interrupted"), "{ended:?}");
    assert!(text(&moved)[0].starts_with("applied: "));
}

#[tokio::test]
async fn an_unknown_turn_is_told_to_be_resolved() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = gateway(&json!({"a": held_by(&control)})).await;
    let session = create(&gateway, &[]);
    let call = ["--call", "a/hold", "--arguments", r#"{"key":"k"}"#];
    let submit = [&["turns", "submit", session.as_str()], &call[..]].concat();
    let turn = answer(&gateway, &submit)["turn_id"]
        .as_str()
        .unwrap()
        .to_owned();
    control.wait_held("k").await;
    kill9(workers(&gateway)[0]);
    let behind = [
        "turns",
        "submit",
        session.as_str(),
        "--call",
        "a/echo",
        "--wait",
    ];
    let behind = gateway.run(&behind);

    let waited = gateway.run(&["turns", "wait", &turn]);
    let closed = gateway.run(&["sessions", "close", &session]);
    let resolved = gateway.run(&["turns", "resolve", &turn, "--outcome", "completed"]);

    // Not to wait for ever for what cannot begin.
    let (code, first, hint) = failure(&behind);
    assert_eq!(code, Some(75), "{behind:?}");
    assert!(
        first.contains(&turn) && hint.contains("genlock turns resolve"),
        "{behind:?}"
    );
    let (code, first, hint) = failure(&waited);
    assert_eq!(code, Some(75));
    assert!(
        first.contains(&turn) && hint.contains("genlock turns resolve"),
        "{waited:?}"
    );
    let (code, _, hint) = failure(&closed);
    assert_eq!(code, Some(75));
    assert!(hint.contains("genlock turns resolve"), "{closed:?}");
    let lines = text(&resolved);
    assert!(lines[0].contains("is completed"), "{lines:?}");
    assert!(
        lines[1].starts_with("outcome_unknown: resolved as completed by uid:"),
        "{lines:?}"
    );
    assert_eq!(gateway.run(&["sessions", "close", &session]).code, Some(0));
}

#[tokio::test]
async fn what_is_wrong_with_the_config_is_an_exit_code_of_its_own() {
    let mut gateway = gateway(&json!({"safe": with_token("canary-of-the-old-token")})).await;
    let session = create(&gateway, &[]);
    gateway.stop();
    let rotated = config(&json!({"safe": with_token("canary-of-the-new-token")}));
    gateway.write_config(&rotated.to_string());
    gateway.start_again();

    let withheld = gateway.run(&["turns", "submit", &session, "--call", "safe/echo", "--wait"]);
    fs::write(gateway.config_path(), "mcp_servers: {a: {comand: x}}\n").unwrap();
    let refused = gateway.run(&["sessions", "resume", &session]);
    let reloaded = gateway.run(&["reload", "--session", &session]);
    gateway.write_config(&rotated.to_string());
    let resumed = gateway.run(&["sessions", "resume", &session]);

    let (code, first, hint) = failure(&withheld);
    assert_eq!(code, Some(78));
    assert!(
        first.contains("/mcp_servers/safe/env/TOKEN"),
        "{withheld:?}"
    );
    assert!(hint.contains("genlock sessions resume"), "{withheld:?}");
    for output in [&refused, &reloaded] {
        let (code, _, hint) = failure(output);
        assert_eq!(code, Some(78), "{output:?}");
        assert!(output.stdout.contains("comand"), "{output:?}");
        assert!(hint.contains("genlock check"), "{output:?}");
    }
    assert!(text(&resumed)[0].starts_with("applied: "));
}

#[tokio::test]
async fn a_reload_that_connects_nothing_is_unavailable_and_names_what() {
    let gateway = gateway(&json!({"a": stdio(&[])})).await;
    let session = create(&gateway, &[]);
    let lost = json!({"a": stdio(&[]), "lost": {"command": "/no/such/program"}});
    gateway.write_config(&config(&lost).to_string());

    let first = gateway.run(&["reload", "--session", &session]);
    let second = gateway.run(&["reload", "--session", &session]);

    assert!(text(&first)[0].starts_with("applied: "));
    assert!(
        first.stdout.contains("unavailable") && first.stdout.contains("lost"),
        "{first:?}"
    );
    let (code, line, hint) = failure(&second);
    assert_eq!(code, Some(69), "{second:?}");
    assert!(
        line.contains("lost") && hint.contains("genlock servers"),
        "{second:?}"
    );
}

#[test]
fn without_a_gateway_it_is_said_that_none_runs() {
    let scratch = stage::scratch();
    let state = scratch.dir("state");

    for args in [
        &["sessions"][..],
        &["turns", "show", "x"],
        &["reload", "--session", "x"],
    ] {
        let place = ["--state-dir", state.to_str().unwrap()];
        let output = stage::run(&scratch, &[&place, args].concat(), &[]);
        let (code, first, hint) = failure(&output);
        assert_eq!(code, Some(69), "{args:?}");
        assert!(first.contains("no gateway is running") && hint.contains("genlock serve"));
    }
}
