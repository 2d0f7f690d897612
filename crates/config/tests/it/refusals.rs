//! What the schema refuses.

use genlock_config::Severity;

use crate::{all_short, refused};

#[test]
fn values_outside_of_their_range_are_refused() {
    let cases = [
        (
            "execution: { max_concurrency: 0 }",
            "execution.max_concurrency",
        ),
        (
            "execution: { max_concurrency: 10001 }",
            "execution.max_concurrency",
        ),
        (
            "execution: { default_mcp_server_concurrency: -1 }",
            "execution.default_mcp_server_concurrency",
        ),
        (
            "execution: { max_concurrency: 340282366920938463463374607431768211455 }",
            "execution.max_concurrency",
        ),
        (
            "execution: { max_response_bytes: 1023 }",
            "execution.max_response_bytes",
        ),
        (
            "execution: { max_response_bytes: 2GiB }",
            "execution.max_response_bytes",
        ),
        ("shutdown: { drain_s: -1 }", "shutdown.drain_s"),
        ("shutdown: { drain_s: 3601 }", "shutdown.drain_s"),
        ("shutdown: { drain_s: .inf }", "shutdown.drain_s"),
        ("shutdown: { drain_s: .nan }", "shutdown.drain_s"),
        ("first_list_wait_s: 1h", "first_list_wait_s"),
        (
            "mcp_servers: { a: { command: x, connect_timeout: 99ms } }",
            "mcp_servers.a.connect_timeout",
        ),
        (
            "mcp_servers: { a: { command: x, connect_timeout: 601 } }",
            "mcp_servers.a.connect_timeout",
        ),
        (
            "mcp_servers: { a: { command: x, timeout: 0.5 } }",
            "mcp_servers.a.timeout",
        ),
        (
            "mcp_servers: { a: { command: x, timeout: 25h } }",
            "mcp_servers.a.timeout",
        ),
    ];

    for (text, path) in cases {
        let findings = refused(text);
        let found: Vec<_> = findings
            .iter()
            .map(|finding| (finding.code, finding.path.as_str()))
            .collect();
        let code = match text.contains(": 340") {
            true => "config.wrong_type",
            false => "config.out_of_range",
        };
        assert_eq!(found, [(code, path)], "{text}");
    }
}

#[test]
fn single_findings_have_their_code_and_path() {
    let cases = [
        ("profile: Work", "1:10 config.invalid_name profile"),
        (
            "listen: localhost:8717",
            "1:9 config.invalid_address listen",
        ),
        (
            "tool_access: { mode: ingress }",
            "1:22 config.unknown_value tool_access.mode",
        ),
        (
            "tool_access: { surface: flta }",
            "1:25 config.unknown_value tool_access.surface",
        ),
        (
            "tool_access: { meta_prefix: a__b }",
            "1:29 config.invalid_name tool_access.meta_prefix",
        ),
        (
            "tool_access: { meta_prefix: a_ }",
            "1:29 config.invalid_name tool_access.meta_prefix",
        ),
        (
            "logging: { json: 'yes' }",
            "1:18 config.wrong_type logging.json",
        ),
        (
            "logging: { json: yes }",
            "1:18 config.wrong_type logging.json",
        ),
        (
            "allowed_hosts: ['*']",
            "1:17 config.invalid_host allowed_hosts[0]",
        ),
        (
            "allowed_origins: [a.b]",
            "1:19 config.invalid_origin allowed_origins[0]",
        ),
        ("allowed_hosts: a.b", "1:16 config.wrong_type allowed_hosts"),
        ("- a", "1:1 config.wrong_type"),
        ("text", "1:1 config.wrong_type"),
        ("profile: ~", "1:10 config.wrong_type profile"),
        (
            "profile: ${HOME}",
            "1:10 config.interpolation_not_allowed profile",
        ),
        (
            "execution: { max_concurrency: '${N}' }",
            "1:31 config.interpolation_not_allowed execution.max_concurrency",
        ),
        (
            "shutdown: { drain_s: '${N}' }",
            "1:22 config.interpolation_not_allowed shutdown.drain_s",
        ),
        (
            "profile: !private p",
            "1:10 config.private_not_allowed profile",
        ),
        (
            "mcp_servers: { a: x }",
            "1:19 config.wrong_type mcp_servers.a",
        ),
        (
            "mcp_servers: { a: }",
            "1:16 config.missing_key mcp_servers.a",
        ),
        (
            "mcp_servers: { a: { command: '' } }",
            "1:30 config.empty_value mcp_servers.a.command",
        ),
        (
            "mcp_servers: { a: { command: [] } }",
            "1:30 config.empty_value mcp_servers.a.command",
        ),
        (
            "mcp_servers: { a: { command: x, url: 'http://h' } }",
            "1:33 config.conflicting_keys mcp_servers.a.url",
        ),
        (
            "mcp_servers: { a: { command: x, headers: {} } }",
            "1:33 config.misplaced_key mcp_servers.a.headers",
        ),
        (
            "mcp_servers: { a: { url: 'http://h', args: [] } }",
            "1:38 config.misplaced_key mcp_servers.a.args",
        ),
        (
            "mcp_servers: { a: { command: x, transport: http } }",
            "1:44 config.conflicting_keys mcp_servers.a.transport",
        ),
        (
            "mcp_servers: { a: { command: x, mode: remote } }",
            "1:39 config.conflicting_keys mcp_servers.a.mode",
        ),
        (
            "mcp_servers: { a: { url: 'http://h', transport: ws } }",
            "1:49 config.unknown_value mcp_servers.a.transport",
        ),
        (
            "mcp_servers: { a: { url: 'http://h', url: 'http://h' } }",
            "1:38 config.duplicate_key mcp_servers.a.url",
        ),
        (
            "mcp_servers: { a: { url: 'http://h', endpoint: 'http://h' } }",
            "1:38 config.conflicting_keys mcp_servers.a.endpoint",
        ),
        (
            "mcp_servers: { a: { url: 'ftp://h' } }",
            "1:26 config.invalid_url mcp_servers.a.url",
        ),
        (
            "mcp_servers: { a: { command: x, env: { K: 1 } } }",
            "1:43 config.wrong_type mcp_servers.a.env.K",
        ),
        (
            "mcp_servers: { a: { command: x, env: { K: true } } }",
            "1:43 config.wrong_type mcp_servers.a.env.K",
        ),
        (
            "mcp_servers: { a: { command: x, env: { 'A B': v } } }",
            "1:40 config.invalid_name mcp_servers.a.env.?",
        ),
        (
            "mcp_servers: { a: { command: x, env: [K=v] } }",
            "1:38 config.wrong_type mcp_servers.a.env",
        ),
        (
            "mcp_servers: { a: { command: x, env_pass: ['A=B'] } }",
            "1:44 config.invalid_name mcp_servers.a.env_pass[0]",
        ),
        (
            "mcp_servers: { a: { command: x, args: [1] } }",
            "1:40 config.wrong_type mcp_servers.a.args[0]",
        ),
        (
            "mcp_servers: { a: { command: x, cwd: ~/src } }",
            "1:38 config.invalid_path mcp_servers.a.cwd",
        ),
        (
            "mcp_servers: { a: { command: x, args: [\"\\0\"] } }",
            "1:40 config.invalid_text mcp_servers.a.args[0]",
        ),
        (
            "mcp_servers: { a: { command: '${NOPE}' } }",
            "1:30 config.missing_variable mcp_servers.a.command",
        ),
        (
            "mcp_servers: { a: { command: '${file:/x}' } }",
            "1:30 config.file_not_allowed mcp_servers.a.command",
        ),
        (
            "mcp_servers: { a: { command: '${input:x}' } }",
            "1:30 config.unknown_source mcp_servers.a.command",
        ),
        (
            "mcp_servers: { a: { command: '${' } }",
            "1:30 config.bad_reference mcp_servers.a.command",
        ),
        (
            "mcp_servers: { a: { url: 'http://h', headers: { Mcp-Session-Id: x } } }",
            "1:49 config.invalid_header mcp_servers.a.headers.Mcp-Session-Id",
        ),
        (
            "mcp_servers: { a: { url: 'http://h', headers: { Host: x } } }",
            "1:49 config.invalid_header mcp_servers.a.headers.Host",
        ),
        (
            "mcp_servers: { a: { url: 'http://h', headers: { 'a b': x } } }",
            "1:49 config.invalid_header mcp_servers.a.headers.?",
        ),
        (
            "mcp_servers: { a: { url: 'http://h', headers: { X: \"a\\nb\" } } }",
            "1:52 config.invalid_header mcp_servers.a.headers.X",
        ),
        (
            "mcp_servers: { a: { url: 'http://h', headers: { X: a, x: b } } }",
            "1:55 config.duplicate_key mcp_servers.a.headers.x",
        ),
        (
            "mcp_servers: { A: { command: x } }",
            "1:16 config.needs_prefix mcp_servers.A",
        ),
        (
            "mcp_servers: { a_: { command: x } }",
            "1:16 config.needs_prefix mcp_servers.a_",
        ),
        (
            "mcp_servers: { '': { command: x, prefix: p } }",
            "1:16 config.invalid_name mcp_servers.\"\"",
        ),
        (
            "mcp_servers: { a: { command: x, prefix: A } }",
            "1:41 config.invalid_name mcp_servers.a.prefix",
        ),
        (
            "mcp_servers: { a: { command: x }, B: { command: x, prefix: a } }",
            "1:35 config.duplicate_prefix mcp_servers.B",
        ),
        (
            "mcp_servers: { a: { command: x, enabled: ~ } }",
            "1:42 config.wrong_type mcp_servers.a.enabled",
        ),
        (
            "mcp_servers: {}\nmcpServers: {}",
            "2:1 config.conflicting_keys mcpServers",
        ),
        (
            "mcp_servers: { a: { command: x, lasy: true } }",
            "1:33 config.unknown_key mcp_servers.a.lasy",
        ),
        ("stores: { url: x }", "1:1 config.unknown_key stores"),
        ("store: { url: mysql }", "1:15 config.invalid_url store.url"),
        (
            "store: { url: '${NOPE}' }",
            "1:15 config.missing_variable store.url",
        ),
        ("model: m1", "1:8 config.wrong_type model"),
        (
            "model: { password: 12345678 }",
            "1:20 config.wrong_type model.password",
        ),
        (
            "model: { x: !private 12345678 }",
            "1:13 config.wrong_type model.x",
        ),
        (
            "model: { x: !private { y: 1 } }",
            "1:27 config.wrong_type model.x.y",
        ),
        ("model: { x: .nan }", "1:13 config.out_of_range model.x"),
        (
            "model: { x: 99999999999999999999 }",
            "1:13 config.out_of_range model.x",
        ),
        (
            "platform_toolsets: { cli: terminal }",
            "1:27 config.wrong_type platform_toolsets.cli",
        ),
        (
            "platform_toolsets: { cli: [1] }",
            "1:28 config.wrong_type platform_toolsets.cli[0]",
        ),
        (
            "worker: { mode: managd }",
            "1:17 config.unknown_value worker.mode",
        ),
        (
            "session_roots: [tmp]",
            "1:17 config.invalid_path session_roots[0]",
        ),
        (
            "ui_resources: { tenants: { a: { allowlist: ['http://x'] } } }",
            "1:45 config.unknown_value ui_resources.tenants.a.allowlist[0]",
        ),
        (
            "observability: { otlp_endpoint: x }",
            "1:33 config.invalid_url observability.otlp_endpoint",
        ),
        (
            "mcp_servers: { a: { command: x, auth: oauth } }",
            "1:33 config.misplaced_key mcp_servers.a.auth",
        ),
        (
            "mcp_servers: { a: { url: 'http://h', env_file: x } }",
            "1:38 config.misplaced_key mcp_servers.a.env_file",
        ),
        (
            "mcp_servers: { a: { url: 'http://h', auth: basic } }",
            "1:44 config.unknown_value mcp_servers.a.auth",
        ),
        (
            "mcp_servers: { a: { command: x, tools: [{ description: d }] } }",
            "1:41 config.missing_key mcp_servers.a.tools[0]",
        ),
        (
            "mcp_servers: { a: { command: x, unavailable: x } }",
            "1:33 config.unknown_key mcp_servers.a.unavailable",
        ),
    ];

    for (text, expected) in cases {
        let errors: Vec<_> = refused(text)
            .into_iter()
            .filter(|finding| finding.severity == Severity::Error)
            .filter(|finding| finding.code != "config.not_served")
            .collect();
        assert_eq!(all_short(&errors), [expected], "{text}");
    }
}

#[test]
fn the_server_inside_the_process_cannot_be_written() {
    let found = all_short(&refused("mcp_servers: { a: { transport: builtin } }"));

    let expected = [
        "1:16 config.missing_key mcp_servers.a",
        "1:32 config.unknown_value mcp_servers.a.transport",
    ];
    assert_eq!(found, expected);
}

#[test]
fn unknown_keys_name_the_nearest_known_one() {
    let cases = [
        ("profil: x", Some("did you mean `profile`?")),
        ("toolAccess: {}", Some("did you mean `tool_access`?")),
        ("shutdown: { drain: 1 }", Some("did you mean `drain_s`?")),
        (
            "mcp_servers: { a: { command: x, connectTimeout: 1 } }",
            Some("did you mean `connect_timeout`?"),
        ),
        (
            "mcp_servers: { a: { command: x, evn: {} } }",
            Some("did you mean `env`?"),
        ),
        (
            "logging: { colour: true }",
            Some("known here: `level`, `json`"),
        ),
    ];

    for (text, hint) in cases {
        assert_eq!(refused(text)[0].hint.as_deref(), hint, "{text}");
    }
}
