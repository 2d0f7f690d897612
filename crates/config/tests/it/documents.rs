//! Documents that are broken, hostile, or no YAML at all.

use std::time::{Duration, Instant};

use genlock_config::{Finding, Text, TransportDefinition, parse};

use crate::{all_short, config, parsed, refused, refused_in, variables};

#[test]
fn broken_documents_say_what_and_where() {
    let cases = [
        ("", "1:1 config.empty"),
        ("# only a comment\n", "1:1 config.empty"),
        ("---\n", "1:1 config.empty"),
        ("~", "1:1 config.empty"),
        ("\u{feff}", "1:1 config.empty"),
        ("{}\n---\n{}\n", "2:1 config.several_documents"),
        ("a: b: c", "1:5 config.syntax"),
        ("logging:\n\tlevel: info\n", "2:1 config.syntax"),
        ("logging: {", "2:1 config.syntax"),
        ("logging: [a", "2:1 config.syntax"),
        ("profile: \"x", "1:12 config.syntax"),
        ("profile: 'x", "1:12 config.syntax"),
        ("profile: @x", "1:10 config.syntax"),
        ("profile: *x", "1:10 config.syntax"),
        ("profile: \"\\q\"", "1:11 config.syntax"),
        ("profile: a\u{1}b", "1:1 config.syntax"),
        ("a: 1\n b: 2\n", "2:3 config.syntax"),
        ("<<: { profile: x }", "1:1 config.merge_key"),
        (
            "logging: { <<: { level: info } }",
            "1:12 config.merge_key logging",
        ),
        ("1: x", "1:1 config.key_not_text"),
        ("[a]: x", "1:1 config.key_not_text"),
        ("profile: !!int x", "1:10 config.syntax"),
        ("profile: !other x", "1:10 config.unknown_tag profile"),
    ];

    for (text, expected) in cases {
        assert_eq!(all_short(&refused(text)), [expected], "{text:?}");
    }
}

#[test]
fn tabs_get_the_hint_to_use_spaces() {
    let findings = refused("logging:\n\tlevel: info\n");

    let hint = findings[0].hint.as_deref().unwrap_or_default();
    assert!(hint.contains("not tabs"), "{findings:?}");
}

#[test]
fn json_in_a_yaml_file_means_what_it_means_in_a_json_file() {
    let text = r#"
 {"mcpServers": {"a": {"command": "x", "timeout": 1e1, "description": "\ud83d\ude00", "args": ["[]", "null"]}}}"#;
    let of = |file: &str| parse(text, file.into(), &variables()).unwrap().config;
    assert_eq!(of("genlock.yaml"), of("genlock.json"));

    let wrong = "{\"mcp_servers\": {\"a\": {\"command\": \"x\",\n \"timeout\": \"soon\"}}}";
    let places = ["genlock.yaml", "genlock.json"].map(|file| all_short(&refused_in(file, wrong)));
    assert_eq!(
        places[0],
        ["2:13 config.invalid_duration mcp_servers.a.timeout"]
    );
    assert_eq!(places[0], places[1]);

    // What only looks like JSON is YAML still.
    let flow = parsed("{ mcp_servers: { a: { command: x, enabled: false } } } # remark");
    assert_eq!(flow.config.servers.len(), 1);
}

#[test]
fn json_files_are_read_with_the_escapes_that_yaml_lacks() {
    let text =
        r#"{"mcpServers": {"a": {"command": "x", "description": "\ud83d\ude00", "args": ["\/"]}}}"#;

    let loaded = parse(text, "genlock.json".into(), &variables()).unwrap();

    let server = loaded.config.servers.values().next().unwrap();
    assert_eq!(server.description.as_deref(), Some("\u{1f600}"));
    let TransportDefinition::Stdio(stdio) = &server.transport else {
        panic!("{server:?}")
    };
    assert_eq!(stdio.args, [Text::plain("/")]);
}

#[test]
fn json_files_have_places_too() {
    let text = "{\n  \"logging\": {\"levle\": \"info\"},\n  \"logging\": {},\n  \"profile\": \"\\ud83d\\ude00\",\n  \"listen\": 1\n}";

    let found = all_short(&refused_in("genlock.json", text));

    assert_eq!(
        found,
        [
            "2:15 config.unknown_key logging.levle",
            "3:3 config.duplicate_key logging",
            "4:14 config.invalid_name profile",
            "5:13 config.wrong_type listen",
        ]
    );
    assert_eq!(
        all_short(&refused_in("genlock.json", "{\"a\": 1,}")),
        ["1:9 config.syntax"]
    );
    assert_eq!(
        all_short(&refused_in("genlock.json", "{} {}")),
        ["1:4 config.syntax"]
    );
    assert_eq!(
        all_short(&refused_in("genlock.json", " ")),
        ["1:1 config.empty"]
    );
}

#[test]
fn values_are_not_read_as_yaml_1_1() {
    let config =
        config("mcp_servers: { 'no': { command: yes, args: [on, 1_000, 0777, 12:30:45] } }");

    let server = config.servers.values().next().unwrap();
    let TransportDefinition::Stdio(stdio) = &server.transport else {
        panic!("{server:?}")
    };
    assert_eq!(stdio.command, Text::plain("yes"));
    assert_eq!(
        stdio.args,
        ["on", "1_000", "0777", "12:30:45"].map(Text::plain)
    );
}

#[test]
fn hostile_documents_end_soon_with_one_finding() {
    let bomb = {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}", level - 1);
            text.push_str(&format!(
                "a{level}: &a{level} [{}]\n",
                vec![before; 10].join(", ")
            ));
        }
        text
    };
    let big_text = format!(
        "a: &a '{}'\nb: [{}]\n",
        "x".repeat(500_000),
        vec!["*a"; 100_000].join(",")
    );
    let cases = [
        ("bomb", bomb, "config.too_large"),
        ("repeated text", big_text, "config.too_large"),
        (
            "many nodes",
            format!("[{}]", "1,".repeat(500_000)),
            "config.too_large",
        ),
        ("many brackets", "[".repeat(1_000_000), "config.too_large"),
        ("flow depth", "[".repeat(20_000), "config.too_deep"),
        ("mapping depth", "{a: ".repeat(20_000), "config.too_deep"),
        ("block depth", "- ".repeat(500_000), "config.too_deep"),
        ("self", "a: &a [*a]".to_owned(), "config.too_deep"),
    ];

    for (name, text, code) in cases {
        let start = Instant::now();
        let findings = refused(&text);
        let took = start.elapsed();
        let codes: Vec<_> = findings
            .iter()
            .map(|finding: &Finding| finding.code)
            .collect();
        assert!(took < Duration::from_secs(10), "{name}: {took:?}");
        assert_eq!(codes, [code], "{name}");
    }
}

#[test]
fn a_mapping_may_be_as_deep_as_the_schema_needs() {
    assert_eq!(parsed("{\"logging\": {\"level\": \"info\"}}").warnings, []);
}
