//! Keys that this version does not act upon.

use genlock_config::Severity;

use crate::{parsed, refused, short};

#[test]
fn a_key_that_is_not_acted_upon_is_warned_about_once() {
    let text = "
store: { url: 'sqlite:x' }
platform_toolsets: { cli: [terminal] }
model: { default: m1 }
worker: { mode: supervised, idle_ttl_s: 60, max: 2 }
execution: { max_concurrency: 7, turn_result_bytes: 2048 }
auth: { oidc: { issuer: 'https://id.example' }, storage: { driver: memory } }
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
            "7:9 config.not_served auth.oidc",
            "7:60 config.not_served auth.storage.driver",
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
session_roots: []
mcp_servers:
  a: { command: x, lazy: false, idle_ttl_s: 0, tools: {}, tool_access: { member: { t: {}, u: { deny: [] } } }, trust: false, containment: namespace, transport: stdio }
";

    assert_eq!(parsed(text).warnings, []);
}

#[test]
fn what_would_grant_more_when_ignored_is_refused() {
    let cases = [
        (
            "session_roots: [/srv]",
            "1:1 config.not_served session_roots",
        ),
        (
            "mcp_servers: { a: { command: x, scope: principal } }",
            "1:33 config.not_served mcp_servers.a.scope",
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
fn who_may_call_and_which_tools_there_are_is_acted_upon() {
    let text = "
auth:
  enabled: true
  allow_anonymous: true
  api_key: { enabled: true, header_name: X-Key }
  storage: { driver: sqlite, path: keys.db }
  role_assignments: [{ principal: a, role: admin, scope: 'tenant:t' }]
tool_access: { mode: front_door }
mcp_servers:
  a: { command: x, tools: { allow: [], deny: [x] }, tool_access: { member: { t: { deny: ['x*'] } } }, scope: tenant }
";

    assert_eq!(parsed(text).warnings, []);
}

#[test]
fn front_door_is_refused_without_auth() {
    for auth in [
        "",
        "auth: { enabled: false }\n",
        "auth: { allow_anonymous: true }\n",
    ] {
        let findings = refused(&format!("{auth}tool_access: {{ mode: front_door }}"));

        let found: Vec<_> = findings.iter().map(short).collect();
        let line = if auth.is_empty() { 1 } else { 2 };
        assert_eq!(
            found,
            [format!("{line}:22 config.needs_auth tool_access.mode")]
        );
        assert_eq!(findings[0].severity, Severity::Error);
    }
}

#[test]
fn a_glob_of_another_kind_is_refused_as_it_would_match_less_than_it_says() {
    for glob in ["[a-z]*", "{a,b}", r"a\*"] {
        let text = format!("mcp_servers: {{ a: {{ command: x, tools: {{ deny: ['{glob}'] }} }} }}");

        let found: Vec<_> = refused(&text).iter().map(short).collect();
        assert_eq!(
            found,
            ["1:49 config.unknown_value mcp_servers.a.tools.deny[0]"],
            "{glob}"
        );
    }
}
