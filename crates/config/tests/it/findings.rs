//! Places, order and forms of findings.

use genlock_config::{Finding, LoadError, Severity, Variables, parse};

use crate::{all_short, parsed, refused};

#[test]
fn every_finding_of_a_file_is_reported_at_its_place() {
    let text = "
# A comment moves nothing.
profile: Work
listen: 8717
mcp_servers:
  github:
    url: not a url
    timeout: soon
    headers:
      Authorization: Bearer ${NOPE} ${NEITHER}
    retries: 3
  files:
    command: files
    args:
      - ok
      - 5
    env: { A: 1, B: [x] }
  files:
    url: https://example.com
    max_concurrency: many
logging: { levle: info }
";

    assert_eq!(
        all_short(&refused(text)),
        [
            "3:10 config.invalid_name profile",
            "4:9 config.wrong_type listen",
            "7:10 config.invalid_url mcp_servers.github.url",
            "8:14 config.invalid_duration mcp_servers.github.timeout",
            "10:22 config.missing_variable mcp_servers.github.headers.Authorization",
            "10:22 config.missing_variable mcp_servers.github.headers.Authorization",
            "11:5 config.unknown_key mcp_servers.github.retries",
            "16:9 config.wrong_type mcp_servers.files.args[1]",
            "17:15 config.wrong_type mcp_servers.files.env.A",
            "17:21 config.wrong_type mcp_servers.files.env.B",
            "18:3 config.duplicate_key mcp_servers.files",
            "21:12 config.unknown_key logging.levle",
        ]
    );
}

#[test]
fn a_finding_names_its_place_path_message_and_hint() {
    let findings = refused("mcp_servers:\n  a:\n    command: x\n    timeot: 5\n");

    let expected = Finding {
        code: "config.unknown_key",
        severity: Severity::Error,
        file: "genlock.yaml".into(),
        line: 4,
        column: 5,
        path: "mcp_servers.a.timeot".to_owned(),
        message: "unknown key".to_owned(),
        hint: Some("did you mean `timeout`?".to_owned()),
    };
    assert_eq!(
        findings[0].to_string(),
        "genlock.yaml:4:5 mcp_servers.a.timeot: unknown key"
    );
    assert_eq!(findings, [expected]);
}

#[test]
fn a_finding_is_one_json_object() {
    let findings = refused("profile: 1");

    let json = serde_json::to_value(&findings).unwrap();
    let expected = serde_json::json!([{
        "code": "config.wrong_type",
        "severity": "error",
        "file": "genlock.yaml",
        "line": 1,
        "column": 10,
        "path": "profile",
        "message": "expected a profile id, found a number, or true or false",
        "hint": "quote it",
    }]);
    assert_eq!(json, expected);
}

#[test]
fn both_places_of_a_duplicate_key_are_named() {
    let findings = refused(
        "logging: {}\nmcp_servers:\n  a: { command: x, env: { K: a, K: b } }\nlogging: {}\n",
    );

    let found: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "genlock.yaml:3:33 mcp_servers.a.env.K: this key stands twice: first at 3:27",
            "genlock.yaml:4:1 logging: this key stands twice: first at 1:1",
        ]
    );
}

#[test]
fn every_missing_variable_is_named_and_its_value_is_not() {
    let findings = refused("mcp_servers: { a: { command: x, args: ['${A_B}${TOKEN}${C}'] } }");

    let found: Vec<_> = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| finding.message.as_str())
        .collect();
    assert_eq!(
        found,
        [
            "the variable `A_B` is not set",
            "the variable `C` is not set"
        ]
    );
}

#[test]
fn columns_count_characters_and_a_byte_order_mark_is_none() {
    let text = "\u{feff}mcp_servers: { a: { command: x, description: 'äöü', lazi: 1 } }";

    assert_eq!(
        all_short(&refused(text)),
        ["1:53 config.unknown_key mcp_servers.a.lazi"]
    );
}

#[test]
fn findings_inside_of_an_alias_stand_where_the_alias_does_or_inside_its_anchor() {
    let text = "mcp_servers:\n  a: &a { command: x, bad: 1 }\n  b: *a\n";

    assert_eq!(
        all_short(&refused(text)),
        [
            "2:23 config.unknown_key mcp_servers.a.bad",
            "2:23 config.unknown_key mcp_servers.b.bad",
        ]
    );
}

#[test]
fn a_file_of_nothing_but_faults_has_a_bounded_report() {
    let text: String = (0..10_000)
        .map(|number| format!("key{number}: x\n"))
        .collect();

    let findings = refused(&text);

    assert_eq!(findings.len(), 201);
    assert_eq!(findings[200].code, "config.too_many_findings");
    assert_eq!(findings[200].message, "9800 more findings are not shown");
}

#[test]
fn long_paths_of_many_faults_are_bounded_too() {
    let deep = format!("{}{{ ", "{ key: ".repeat(60));
    let text = format!("{deep}{} }}{}", "x: 1, ".repeat(40_000), " }".repeat(60));

    let findings = refused(&text);

    assert_eq!(findings.len(), 201);
    let message = &findings
        .iter()
        .find(|finding| finding.code == "config.too_many_findings")
        .unwrap()
        .message;
    assert_eq!(message, "39800 more findings are not shown");
}

#[test]
fn many_warnings_are_no_error() {
    let text = format!(
        "mcp_servers: {{ a: {{ command: x, args: [{}] }} }}",
        "'${TOKEN}', ".repeat(300)
    );

    let warnings = parsed(&text).warnings;

    assert_eq!(warnings.len(), 201);
    assert_eq!(warnings[200].message, "100 more findings are not shown");
}

#[test]
fn warnings_do_not_push_out_errors() {
    let many = "'${TOKEN}', ".repeat(300);
    let text = format!("mcp_servers: {{ a: {{ command: x, args: [{many}] }}, b: {{}} }}\n");

    let findings = refused(&text);

    assert!(
        findings
            .iter()
            .any(|finding| finding.code == "config.missing_key"),
        "{findings:?}"
    );
}

#[test]
fn every_error_has_a_code_and_a_text_without_a_value() {
    let large = "#".repeat((1 << 20) + 1);
    let errors = [
        parse("profile: CANARY", "a.yaml".into(), &Variables::empty()).unwrap_err(),
        parse(&large, "a.yaml".into(), &Variables::empty()).unwrap_err(),
    ];

    let found: Vec<_> = errors
        .iter()
        .map(|error| (error.code(), error.to_string()))
        .collect();
    assert_eq!(
        found,
        [
            ("config.invalid", "invalid config: 1 finding(s)".to_owned(),),
            (
                "config.file_too_large",
                "config a.yaml is larger than 1048576 bytes".to_owned()
            ),
        ]
    );
    assert!(matches!(errors[0], LoadError::Invalid(_)));
}
