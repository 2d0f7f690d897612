//! `genlock check`.

use std::{fs::Permissions, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};

use crate::stage::{self, failed, run, succeeded};

/// One of each: an unknown key, a wrong type, a bad value, a duplicate key, a missing variable, and a warning.
const FAULTY: &str = "\
profle: CANARY
mcp_servers:
  a:
    command: x
    timeout: CANARY
    timeout: 5
    env: { TOKEN: \"${NOPE}\", SECRET: CANARY-VALUE }
    args: [\"${HOME}\"]
  b: { command: x, enabled: CANARY }
logging: { level: CANARY }
";

const FINDINGS: &str = "\
error: genlock.yaml:1:1 profle: unknown key [config.unknown_key]
  hint: did you mean `profile`?
error: genlock.yaml:5:14 mcp_servers.a.timeout: expected a duration such as `30s` or `5m`, or a number of seconds [config.invalid_duration]
error: genlock.yaml:6:5 mcp_servers.a.timeout: this key stands twice: first at 5:5 [config.duplicate_key]
  hint: keep one of the two
error: genlock.yaml:7:19 mcp_servers.a.env.TOKEN: the variable `NOPE` is not set [config.missing_variable]
  hint: set it, or give a default: `${NOPE:-…}`
warning: genlock.yaml:8:12 mcp_servers.a.args[0]: a private value on a command line: every user of the machine can see it [config.private_in_argv]
  hint: pass it in `env`, where the server can read it from there
error: genlock.yaml:9:29 mcp_servers.b.enabled: expected `true` or `false`, found text [config.wrong_type]
error: genlock.yaml:10:19 logging.level: expected `error`, `warn`, `info`, `debug` or `trace` [config.unknown_value]
";

#[test]
fn check_prints_every_finding_with_its_place_and_no_value() {
    let scratch = stage::scratch();
    scratch.write("genlock.yaml", FAULTY);

    let checked = run(&scratch, &["check"], &[]);
    let served = run(&scratch, &["serve"], &[]);

    let end = "error: genlock.yaml: invalid config: 7 finding(s)\n";
    assert_eq!(checked, failed(78, format!("{FINDINGS}{end}")));
    let end = "error: config genlock.yaml\n  caused by: invalid config: 7 finding(s)\n\n\
               hint: `genlock check` lists every finding\n";
    assert_eq!(served, failed(78, format!("{FINDINGS}{end}")));
    assert!(!checked.stderr.contains("CANARY") && FAULTY.contains("CANARY"));
}

#[test]
fn check_prints_the_same_for_programs() {
    let scratch = stage::scratch();
    scratch.write("genlock.yaml", FAULTY);

    let checked = run(&scratch, &["check", "--format", "json"], &[]);

    assert_eq!((checked.code, checked.stderr.as_str()), (Some(78), ""));
    let report: Value = serde_json::from_str(&checked.stdout).unwrap();
    let line = |finding: &Value| {
        let text = |name: &str| finding[name].as_str().unwrap().to_owned();
        let hint = finding["hint"]
            .as_str()
            .map(|hint| format!("  hint: {hint}\n"))
            .unwrap_or_default();
        format!(
            "{}: {}:{}:{} {}: {} [{}]\n{hint}",
            text("severity"),
            text("file"),
            finding["line"],
            finding["column"],
            text("path"),
            text("message"),
            text("code"),
        )
    };
    let lines: String = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(line)
        .collect();
    assert_eq!(lines, FINDINGS);
    assert_eq!(
        report["error"],
        json!({"code": "config.invalid", "message": "invalid config: 7 finding(s)"})
    );
    assert_eq!(
        (&report["ok"], &report["file"]),
        (&json!(false), &json!("genlock.yaml"))
    );
    assert!(!checked.stdout.contains("CANARY"));
}

#[test]
fn check_says_what_is_fine() {
    let scratch = stage::scratch();
    assert_eq!(
        run(&scratch, &["check"], &[]),
        succeeded("no config file: the built-in demo server would be served\n")
    );
    scratch.write("one.yaml", "mcp_servers: { a: { command: x } }");
    scratch.write(
        "two.json",
        r#"{"mcp_servers": {"a": {"command": "x"}, "b": {"command": "y"}}}"#,
    );
    assert_eq!(
        run(&scratch, &["--config", "one.yaml", "check"], &[]),
        succeeded("one.yaml: ok, 1 server\n")
    );
    assert_eq!(
        run(&scratch, &["check"], &[("GENLOCK_CONFIG", "two.json")]),
        succeeded("two.json: ok, 2 servers\n")
    );
    let missing = run(&scratch, &["check", "--config", "none.yaml"], &[]);
    let text = "error: none.yaml: read config none.yaml\n  caused by: No such file or directory (os error 2)\n\n\
                hint: name another file with --config FILE\n";
    assert_eq!(missing, failed(78, text));
}

#[test]
fn a_config_that_others_can_write_is_neither_fine_nor_served() {
    let scratch = stage::scratch();
    let file = scratch.write("genlock.yaml", "mcp_servers: { a: { command: x } }");
    std::fs::set_permissions(&file, Permissions::from_mode(0o646)).unwrap();

    let checked = run(&scratch, &["check"], &[]);
    let served = run(&scratch, &["serve"], &[]);

    let why = "config genlock.yaml can be written by others\n\nhint: chmod o-w genlock.yaml\n";
    assert_eq!(checked, failed(78, format!("error: genlock.yaml: {why}")));
    let chain = format!("error: config genlock.yaml\n  caused by: {why}");
    assert_eq!(served, failed(78, chain));
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(
        run(&scratch, &["check"], &[]),
        succeeded("genlock.yaml: ok, 1 server\n")
    );
}
