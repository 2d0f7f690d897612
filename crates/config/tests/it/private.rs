//! Private values: what is one, and that none gets out.

use genlock_config::{
    Config, Finding, FingerprintKey, LoadError, ServerDefinition, Text, TransportDefinition,
    Variables, fingerprints, parse,
};

use crate::{config, parsed, refused, short};

fn only_server(config: &Config) -> &ServerDefinition {
    config.servers.values().next().unwrap()
}

fn only_args(config: &Config) -> Vec<(String, String)> {
    match &only_server(config).transport {
        TransportDefinition::Stdio(stdio) => stdio.args.iter().map(seen).collect(),
        other @ (TransportDefinition::Http(_) | TransportDefinition::Builtin) => {
            panic!("{other:?}")
        }
    }
}

fn only_url(config: &Config) -> Text {
    match &only_server(config).transport {
        TransportDefinition::Http(http) => http.url.clone(),
        other @ (TransportDefinition::Stdio(_) | TransportDefinition::Builtin) => {
            panic!("{other:?}")
        }
    }
}

fn seen(text: &Text) -> (String, String) {
    (text.expose().to_owned(), text.shown().to_owned())
}

fn pair(value: &str, shown: &str) -> (String, String) {
    (value.to_owned(), shown.to_owned())
}

#[test]
fn env_and_headers_are_private_whatever_they_are_called() {
    let text = "mcp_servers: { a: { command: x, env: { LEVEL: low, T: '${TOKEN}', M: 'a ${TOKEN:-d} b', E: '' } } }";

    let config = config(text);

    let TransportDefinition::Stdio(stdio) = &only_server(&config).transport else {
        panic!("{config:?}")
    };
    let env: Vec<_> = stdio.env.values().map(seen).collect();
    assert_eq!(
        env,
        [
            pair("", "[private]"),
            pair("low", "[private]"),
            pair("a t0ken-value b", "[private]${TOKEN:-[private]}[private]"),
            pair("t0ken-value", "${TOKEN}"),
        ]
    );
    assert!(stdio.env.values().all(Text::is_private));
}

#[test]
fn arguments_are_private_by_reference_tag_and_option_name() {
    let text = "
mcp_servers:
  a:
    command: x
    args:
      - plain
      - '--root=${HOME}/x'
      - !private pin
      - --api-key
      - s3cret
      - --token=s3cret
      - --token
      - --verbose
      - 'postgres://u:p@h/db'
      - pa$$word
";

    let loaded = parsed(text);

    assert_eq!(
        only_args(&loaded.config),
        [
            pair("plain", "plain"),
            pair("--root=/home/u/x", "--root=${HOME}/x"),
            pair("pin", "[private]"),
            pair("--api-key", "--api-key"),
            pair("s3cret", "[private]"),
            pair("--token=s3cret", "--token=[private]"),
            pair("--token", "--token"),
            pair("--verbose", "--verbose"),
            pair("postgres://u:p@h/db", "postgres://[private]:[private]@h/db"),
            pair("pa$word", "pa$word"),
        ]
    );
    let argv = |finding: &&Finding| finding.code == "config.private_in_argv";
    let in_argv: Vec<_> = loaded.warnings.iter().filter(argv).collect();
    let warned: Vec<_> = in_argv.iter().map(|finding| short(finding)).collect();
    assert_eq!(
        warned,
        [
            "7:9 config.private_in_argv mcp_servers.a.args[1]",
            "8:9 config.private_in_argv mcp_servers.a.args[2]",
            "10:9 config.private_in_argv mcp_servers.a.args[4]",
            "11:9 config.private_in_argv mcp_servers.a.args[5]",
            "14:9 config.private_in_argv mcp_servers.a.args[8]",
        ]
    );
    assert!(
        in_argv
            .iter()
            .all(|warning| warning.hint.as_deref().unwrap().contains("`env`"))
    );
}

#[test]
fn urls_hide_their_private_parts() {
    let cases = [
        ("https://h/mcp", pair("https://h/mcp", "https://h/mcp")),
        (
            "https://u:p@h/mcp",
            pair("https://u:p@h/mcp", "https://[private]:[private]@h/mcp"),
        ),
        (
            "https://h/mcp?apiKey=k&x=1",
            pair(
                "https://h/mcp?apiKey=k&x=1",
                "https://h/mcp?apiKey=[private]&x=1",
            ),
        ),
        (
            "https://${HOST}/mcp",
            pair("https://example.com/mcp", "https://${HOST}/mcp"),
        ),
        (
            "https://h/?token=${TOKEN}",
            pair("https://h/?token=t0ken-value", "https://h/?token=${TOKEN}"),
        ),
    ];

    for (url, expected) in cases {
        let url = only_url(&parsed(&format!("mcp_servers: {{ a: {{ url: '{url}' }} }}")).config);
        assert_eq!(seen(&url), expected);
        assert_eq!(url.is_private(), expected.0 != expected.1);
    }
    let marked = only_url(&config(
        "mcp_servers: { a: { url: !private 'https://h/secret/path' } }",
    ));
    assert_eq!(seen(&marked), pair("https://h/secret/path", "[private]"));
}

#[test]
fn what_a_variable_holds_is_not_read_again() {
    let variables = Variables::from([("A".to_owned(), "${TOKEN}$$".to_owned())]);
    let text = "mcp_servers: { a: { command: x, args: ['${A}', '${NONE:-$$}'] } }";

    let loaded = parse(text, "a.yaml".into(), &variables).unwrap();

    assert_eq!(
        only_args(&loaded.config),
        [pair("${TOKEN}$$", "${A}"), pair("$$", "${NONE:-[private]}")]
    );
}

const CANARY: &str = "c4n4ry";

/// Texts with the canary at every place that a value can stand in, right or wrong.
fn canary_texts() -> Vec<String> {
    let values = [
        "c4n4ry",
        "'c4n4ry'",
        "\"c4n4ry\"",
        "!private c4n4ry",
        "!other c4n4ry",
        "!!int c4n4ry",
        "!!bool c4n4ry",
        "[c4n4ry]",
        "{ c4n4ry c4n4ry: c4n4ry }",
        "'${NOPE:-c4n4ry}'",
        "'${c4n4ry:c4n4ry}'",
        "'${c4n4ry c4n4ry}'",
        "'${file:c4n4ry}'",
        "'${CANARY}'",
        "'${CANARY} ${NOPE}'",
        "'${c4n4ry'",
        "\"c4n4ry\\n\"",
        "'https://c4n4ry:c4n4ry@h/?token=c4n4ry'",
        "'ftp://c4n4ry'",
        "'token=c4n4ry'",
        "~/c4n4ry",
        "\"c4n4ry\\q\"",
        "@c4n4ry",
        "*c4n4ry",
        "x: c4n4ry",
        "'c4n4ry",
    ];
    let places = [
        "VALUE",
        "profile: VALUE",
        "listen: VALUE",
        "tool_access: VALUE",
        "tool_access: { mode: VALUE }",
        "tool_access: { surface: VALUE }",
        "tool_access: { meta_prefix: VALUE }",
        "execution: { max_concurrency: VALUE }",
        "execution: { max_response_bytes: VALUE }",
        "shutdown: { drain_s: VALUE }",
        "logging: { level: VALUE }",
        "logging: { json: VALUE }",
        "allowed_hosts: [VALUE]",
        "allowed_origins: [VALUE]",
        "mcp_servers: VALUE",
        "unknown: VALUE",
        "mcp_servers: { a: VALUE }",
        "mcp_servers: { a: { command: VALUE } }",
        "mcp_servers: { a: { command: [x, VALUE] } }",
        "mcp_servers: { a: { command: x, args: VALUE } }",
        "mcp_servers: { a: { command: x, args: [--token, VALUE] } }",
        "mcp_servers: { a: { command: x, env: VALUE } }",
        "mcp_servers: { a: { command: x, env: { K: VALUE } } }",
        "mcp_servers: { a: { command: x, env_pass: [VALUE] } }",
        "mcp_servers: { a: { command: x, cwd: VALUE } }",
        "mcp_servers: { a: { url: VALUE } }",
        "mcp_servers: { a: { url: 'http://h', headers: { K: VALUE } } }",
        "mcp_servers: { a: { url: 'http://h', headers: { Authorization: VALUE, authorization: VALUE } } }",
        "mcp_servers: { a: { command: x, timeout: VALUE } }",
        "mcp_servers: { a: { command: x, protocol: VALUE } }",
        "mcp_servers: { a: { command: x, transport: VALUE } }",
        "mcp_servers: { a: { command: x, prefix: VALUE } }",
        "mcp_servers: { a: { command: x, env: { K: VALUE, K: VALUE } } }",
        "mcp_servers: { a: { command: x, env_file: VALUE } }",
        "mcp_servers: { a: { command: x, tools: VALUE } }",
        "mcp_servers: { a: { command: x, tools: { allow: [VALUE] } } }",
        "mcp_servers: { a: { command: x, tools: [{ name: VALUE, token: VALUE }] } }",
        "mcp_servers: { a: { command: x, tool_access: { member: { t: VALUE } } } }",
        "mcp_servers: { a: { command: x, scope: VALUE, containment: VALUE, lazy: VALUE } }",
        "mcp_servers: { a: { url: 'http://h', auth: VALUE } }",
        "mcp_servers: { a: { url: 'http://h', auth: { token: VALUE } } }",
        "mcp_servers: { a: { url: 'http://h', tls: { key_file: VALUE } } }",
        "store: { url: VALUE }",
        "platform_toolsets: { a: [VALUE] }",
        "model: VALUE",
        "model: { api_key: VALUE }",
        "terminal: { password: [VALUE, { x: VALUE }] }",
        "agent: { a: VALUE }",
        "auth: { api_key: { header_name: VALUE } }",
        "auth: { role_assignments: [{ principal: VALUE, role: VALUE, scope: VALUE }] }",
        "auth: { oidc: { issuer: VALUE, jwks_uri: VALUE } }",
        "execution: { tenant_limits: { t: VALUE } }",
        "interceptors: { validators: [{ type: VALUE, max_bytes: VALUE }] }",
        "ui_resources: { tenants: { t: { allowlist: [VALUE] } } }",
        "config_reload: { interval_s: VALUE, debounce_ms: VALUE }",
        "observability: { otlp_endpoint: VALUE }",
        "observability: { otlp_headers: { X: VALUE } }",
        "session_roots: [VALUE]",
    ];
    places
        .iter()
        .flat_map(|place| values.iter().map(|value| place.replace("VALUE", value)))
        .collect()
}

/// Everything that can be seen of a result.
fn everything_shown(result: &Result<genlock_config::Loaded, LoadError>) -> String {
    match result {
        Ok(loaded) => {
            let (redacted, private) = loaded.config.split();
            let key = FingerprintKey::from_bytes([7; 32]);
            let fingerprints = fingerprints(&private, &loaded.config.profile, &key);
            format!(
                "{:?} {:#?} {} {redacted:?} {} {} {private:?} {} {:?}",
                loaded,
                loaded.warnings,
                serde_json::to_string(&loaded.warnings).unwrap(),
                serde_json::to_string(&redacted).unwrap(),
                redacted.to_yaml(),
                serde_json::to_string(&fingerprints).unwrap(),
                private.iter().collect::<Vec<_>>(),
            )
        }
        Err(error) => {
            let json = serde_json::to_string(error.findings()).unwrap();
            format!(
                "{error} {error:?} {json} {:?}",
                std::error::Error::source(error)
            )
        }
    }
}

#[test]
fn no_finding_quotes_a_value() {
    let variables = Variables::from([("CANARY".to_owned(), CANARY.to_owned())]);

    let mut refusals = 0;
    for file in ["a.yaml", "a.json"] {
        for text in canary_texts() {
            let result = parse(&text, file.into(), &variables);
            if result.is_err() {
                refusals += 1;
                let shown = everything_shown(&result);
                assert!(!shown.contains(CANARY), "{text}\n{shown}");
            }
        }
    }

    assert!(refusals > 2000, "{refusals}");
    assert!(!format!("{variables:?}").contains(CANARY));
}

#[test]
fn no_config_shows_a_private_value() {
    let variables = Variables::from([("CANARY".to_owned(), CANARY.to_owned())]);
    let texts = [
        "mcp_servers: { a: { command: '${CANARY}', args: [!private c4n4ry, --token, c4n4ry, '--key=${CANARY}', API_KEY=c4n4ry], cwd: '/${CANARY}', env: { K: c4n4ry, L: 'x ${NOPE:-c4n4ry}' } } }",
        "mcp_servers: { a: { url: 'https://c4n4ry:c4n4ry@h/${CANARY}?token=c4n4ry&x=${CANARY}&api_key=${NOPE:-c4n4ry}', headers: { X: c4n4ry, Authorization: 'Bearer ${CANARY}' } } }",
        "mcp_servers: { a: { command: x, args: ['--header', 'Authorization: Bearer c4n4ry', 'https://c4n4ry@h', '--url=https://h/?key=c4n4ry', '--passphrase=c4n4ry'] } }",
        "mcp_servers: { a: { command: [!private c4n4ry, '${NOPE:-c4n4ry}'] } }",
        "mcp_servers: { a: { url: 'http://h', auth: { type: basic, user: '${CANARY}', password: c4n4ry }, tls: { ca_file: '/x/${CANARY}', key_file: !private c4n4ry } } }",
        "store: { url: 'postgres://u:c4n4ry@h/${CANARY}?sslpassword=c4n4ry' }",
        "model: { api_key: c4n4ry, credentials: { user: c4n4ry, more: [c4n4ry] }, base_url: 'http://c4n4ry@h/?key=c4n4ry', x: !private { y: c4n4ry }, z: '${CANARY}' }",
        "terminal: { a: [!private c4n4ry, { clientSecret: c4n4ry }] }\nagent: !private { a: c4n4ry, b: [c4n4ry] }",
        "observability: { otlp_endpoint: 'http://c4n4ry:c4n4ry@h/${CANARY}', otlp_headers: { X-Anything: c4n4ry } }",
    ];

    for text in texts {
        let result = parse(text, "a.yaml".into(), &variables);
        assert!(result.is_ok(), "{result:?}");
        let shown = everything_shown(&result);
        assert!(!shown.contains(CANARY), "{text}\n{shown}");
        for server in result.unwrap().config.servers.values() {
            assert!(!server.cache_key().contains(CANARY));
        }
    }
}

#[test]
fn a_key_that_is_no_name_is_not_quoted_either() {
    let findings = refused(
        "mcp_servers: { a: { command: x, env: { 'Bearer c4n4ry': v }, 'c4n4ry c4n4ry': v } }",
    );

    assert!(!format!("{findings:?}").contains(CANARY), "{findings:?}");
}
