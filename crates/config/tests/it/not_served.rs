//! Keys that this version does not act upon.

use genlock_config::{LoadError, Severity, Sources, parse_with};

use crate::{parsed, refused, short, variables};

#[test]
fn a_key_that_is_not_acted_upon_is_warned_about_once() {
    let text = "
store: { url: 'sqlite:x' }
platform_toolsets: { cli: [terminal] }
model: { default: m1 }
worker: { mode: supervised, idle_ttl_s: 60, max: 2 }
execution: { max_concurrency: 7, turn_result_bytes: 2048 }
auth: { enabled: false, api_key: { enabled: true } }
mcp_servers:
  a: { command: x, lazy: true, idle_ttl_s: 60, keepalive_interval: 30, scope: shared, containment: auto, mask: true, tools: [{ name: t }] }
  b: { url: 'http://h', transport: sse, auth: oauth }
";

    let warnings = parsed(text).warnings;

    let found: Vec<_> = warnings.iter().map(short).collect();
    assert_eq!(
        found,
        [
            "2:1 config.not_served store",
            "4:1 config.not_served model",
            "5:11 config.not_served worker.mode",
            "5:45 config.not_served worker.max",
            "7:1 config.not_served auth",
            "9:106 config.not_served mcp_servers.a.mask",
            "9:118 config.not_served mcp_servers.a.tools",
            "10:25 config.not_served mcp_servers.b.transport",
            "10:41 config.not_served mcp_servers.b.auth",
        ]
    );
    assert!(
        warnings
            .iter()
            .all(|finding| finding.severity == Severity::Warning)
    );
}

#[test]
fn what_is_acted_upon_or_asks_for_nothing_is_not_warned_about() {
    let text = "
platform_toolsets: { cli: [terminal] }
model:
worker: { mode: managed, idle_ttl_s: 60 }
execution: { turn_result_bytes: 2048 }
auth: { enabled: false }
headers: { param_validation: { required: false } }
session_roots: []
mcp_servers:
  a: { command: x, lazy: false, idle_ttl_s: 0, tools: {}, tool_access: { member: { t: {}, u: { deny: [] } } }, trust: false, containment: namespace, transport: stdio }
";

    assert_eq!(parsed(text).warnings, []);
}

#[test]
fn what_would_grant_more_when_ignored_is_refused() {
    let cases = [
        ("auth: { enabled: true }", "1:1 config.not_served auth"),
        (
            "headers: { param_validation: { required: true } }",
            "1:1 config.not_served headers",
        ),
        (
            "session_roots: [/srv]",
            "1:1 config.not_served session_roots",
        ),
        (
            "mcp_servers: { a: { command: x, tools: { deny: [x] } } }",
            "1:33 config.not_served mcp_servers.a.tools",
        ),
        (
            "mcp_servers: { a: { command: x, tools: { allow: [x] } } }",
            "1:33 config.not_served mcp_servers.a.tools",
        ),
        (
            "mcp_servers: { a: { command: x, tool_access: { member: { t: { deny: [x] } } } } }",
            "1:33 config.not_served mcp_servers.a.tool_access",
        ),
        (
            "mcp_servers: { a: { command: x, scope: session } }",
            "1:33 config.not_served mcp_servers.a.scope",
        ),
    ];

    for (text, expected) in cases {
        let findings = refused(text);
        let found: Vec<_> = findings.iter().map(short).collect();
        assert_eq!(found, [expected], "{text}");
        assert_eq!(findings[0].severity, Severity::Error);
    }
}

#[test]
fn an_empty_allowlist_is_refused_as_well() {
    let text = "mcp_servers: { a: { command: x, tools: { allow: [] } } }";

    assert_eq!(
        short(&refused(text)[0]),
        "1:33 config.not_served mcp_servers.a.tools"
    );
}

#[test]
fn front_door_is_refused_with_and_without_auth() {
    let without = refused("tool_access: { mode: front_door }");
    let with = "auth: { enabled: true }\ntool_access: { mode: front_door }";
    let with = parse_with(with, "genlock.yaml".into(), &Sources::new(variables()));

    let found: Vec<_> = without.iter().map(short).collect();
    assert_eq!(
        found,
        [
            "1:16 config.not_served tool_access.mode",
            "1:22 config.needs_auth tool_access.mode"
        ]
    );
    let Err(LoadError::Invalid(findings)) = with else {
        panic!("{with:?}")
    };
    let found: Vec<_> = findings.iter().map(short).collect();
    assert_eq!(
        found,
        [
            "1:1 config.not_served auth",
            "2:16 config.not_served tool_access.mode"
        ]
    );
    assert!(
        findings
            .iter()
            .all(|finding| finding.severity == Severity::Error)
    );
}
