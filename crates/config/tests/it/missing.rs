//! Values that are not there.

use genlock_config::{
    Config, LoadError, ServerName, Severity, Sources, Variables, parse, parse_with,
    private_values_in,
};

use crate::{all_short, variables};

const TEXT: &str = "mcp_servers:
  a: { command: '${NOPE}', args: ['${TOKEN}', '${ALSO}'], env: { A: '${NOPE}' } }
  b: { url: 'https://${NOPE}/', headers: { X: 'a ${NOPE} ${file:none}' } }
  c: { command: x, env_file: none.env, cwd: '${NOPE:-/}' }
  d: { command: x }
";

fn sources() -> Sources {
    Sources::new(variables())
}

fn reasons(config: &Config) -> Vec<Option<&str>> {
    let servers = config.servers.values();
    servers
        .map(|server| server.unavailable.as_deref())
        .collect()
}

#[test]
fn only_the_servers_that_miss_a_value_are_unavailable() {
    let loaded = parse_with(TEXT, "genlock.yaml".into(), &sources()).unwrap();

    let expected = [
        Some("missing NOPE, ALSO"),
        Some("missing NOPE, file"),
        Some("missing env_file"),
        None,
    ];
    assert_eq!(reasons(&loaded.config), expected);
    assert_eq!(
        all_short(&loaded.unavailable),
        [
            "2:17 config.missing_variable mcp_servers.a.command",
            "2:47 config.missing_variable mcp_servers.a.args[1]",
            "2:69 config.missing_variable mcp_servers.a.env.A",
            "3:13 config.missing_variable mcp_servers.b.url",
            "3:47 config.missing_variable mcp_servers.b.headers.X",
            "3:47 config.missing_file mcp_servers.b.headers.X",
            "4:30 config.missing_file mcp_servers.c.env_file",
        ]
    );
    assert!(
        loaded
            .unavailable
            .iter()
            .all(|finding| finding.severity == Severity::Error)
    );
}

#[test]
fn a_whole_config_is_the_caller_s_choice() {
    let loaded = parse_with(TEXT, "genlock.yaml".into(), &sources()).unwrap();

    let Err(LoadError::Invalid(findings)) = loaded.whole() else {
        panic!("whole")
    };
    let strict = parse(TEXT, "genlock.yaml".into(), &variables()).unwrap_err();

    assert_eq!(strict.findings(), findings.as_slice());
    assert_eq!(
        findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .count(),
        7
    );
    let fine = parse_with("{}", "genlock.yaml".into(), &sources()).unwrap();
    assert!(fine.whole().is_ok());
}

#[test]
fn an_error_elsewhere_refuses_the_file_with_all_findings() {
    let text = "mcp_servers: { a: { command: '${NOPE}' } }\nlisten: 1\nmodel: { a: '${NOPE}' }\n";

    let error = parse_with(text, "genlock.yaml".into(), &sources()).unwrap_err();

    assert_eq!(
        all_short(error.findings()),
        [
            "1:30 config.private_in_argv mcp_servers.a.command",
            "1:30 config.missing_variable mcp_servers.a.command",
            "2:9 config.wrong_type listen",
            "3:1 config.not_served model",
            "3:13 config.missing_variable model.a",
        ]
    );
}

#[test]
fn a_missing_value_has_its_place_in_the_private_values_and_comes_back() {
    let loaded = parse_with(TEXT, "genlock.yaml".into(), &sources()).unwrap();

    let (redacted, private) = loaded.config.split();
    let again = Config::from_redacted(&redacted, &private).unwrap();

    assert_eq!(again, loaded.config);
    assert_eq!(redacted.get("/mcp_servers/a/command").unwrap(), "${NOPE}");
    assert_eq!(
        redacted.get("/mcp_servers/a/unavailable").unwrap(),
        "missing NOPE, ALSO"
    );
    assert!(private.get("/mcp_servers/a/command").unwrap().is_missing());
    assert!(!private.get("/mcp_servers/a/args/0").unwrap().is_missing());
    let a = &loaded.config.servers[&ServerName::new("a").unwrap()];
    assert!(
        a.digest(&Default::default())
            != loaded.config.servers[&ServerName::new("d").unwrap()].digest(&Default::default())
    );
}

#[test]
fn values_of_an_invalid_config_can_be_read_by_pointer() {
    let text = "
mcp_servers:
  a: { command: x, timeout: soon, env: { T: '${TOKEN}' }, unknown: 1 }
  b: { command: x, url: 'http://h', env: { T: '${TOKEN}' } }
listen: 1
";

    let values = private_values_in(text, "genlock.yaml".into(), &sources());

    let pointers: Vec<_> = values.pointers().collect();
    assert_eq!(pointers, ["/mcp_servers/a/env/T"]);
    let nothing = private_values_in("mcp_servers: [", "genlock.yaml".into(), &sources());
    assert!(nothing.is_empty());
    assert!(parse(text, "genlock.yaml".into(), &Variables::empty()).is_err());
}
