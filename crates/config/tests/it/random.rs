//! Random texts.

use genlock_config::{
    Config, LoadError, RedactedConfig, Severity, Sources, Variables, parse, parse_schema,
};
use proptest::prelude::*;

/// Pieces that YAML and the schema give a meaning to.
fn piece() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "mcp_servers",
        "mcpServers",
        "a",
        "b",
        "command",
        "url",
        "args",
        "env",
        "headers",
        "timeout",
        "logging",
        "level",
        "prefix",
        "'",
        "\"",
        ": ",
        ":",
        "- ",
        "-",
        "\n",
        "\n  ",
        "\n    ",
        "\t",
        "{",
        "}",
        "[",
        "]",
        ", ",
        "&x ",
        "*x",
        "!private ",
        "!!int ",
        "<<",
        "---\n",
        "...",
        "#",
        " #",
        "|\n",
        ">\n",
        "? ",
        "%",
        "@",
        "${",
        "}",
        "${TOKEN}",
        "${NOPE:-d}",
        "$$",
        "1",
        "1.5",
        "true",
        "~",
        "30s",
        "64KiB",
        "http://h",
        "\u{feff}",
        "\u{0}",
        "ä",
        "\u{1f600}",
        "\\",
        "\r\n",
        "\u{2028}",
        "\u{85}",
    ]);
    prop_oneof![8 => words.prop_map(str::to_owned), 1 => ".{0,4}"]
}

fn document() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..60).prop_map(|pieces| pieces.concat())
}

fn check(text: &str, file: &str) -> Result<(), TestCaseError> {
    let variables = Variables::from([("TOKEN".to_owned(), "t0ken".to_owned())]);
    let lines = u32::try_from(
        text.split(['\n', '\r', '\u{2028}', '\u{2029}', '\u{85}'])
            .count(),
    )
    .unwrap();
    match parse(text, file.into(), &variables) {
        Ok(loaded) => prop_assert!(
            loaded
                .warnings
                .iter()
                .all(|finding| finding.severity == Severity::Warning)
        ),
        Err(LoadError::Invalid(findings)) => {
            prop_assert!(findings.has_errors());
            for finding in &findings {
                // The end of a text that ends inside of something is a line of its own.
                prop_assert!((1..=lines + 1).contains(&finding.line), "{finding}");
                prop_assert!(finding.column >= 1, "{finding}");
                prop_assert!(finding.code.starts_with("config."), "{finding}");
                prop_assert!(!finding.message.is_empty());
            }
        }
        Err(other) => prop_assert!(false, "{other:?}"),
    }
    Ok(())
}

/// A server with values that must not be seen.
fn secrets() -> impl Strategy<Value = (String, String)> {
    let canary = "[a-zA-Z0-9]{8,24}".prop_map(|text| format!("c4n4ry{text}"));
    let place = prop::sample::select(vec![
        "command: x, env: { K: 'CANARY' }",
        "command: x, env: { K: CANARY, K: CANARY }",
        "command: x, env: { K: 'a ${NOPE:-CANARY} b' }",
        "command: x, args: ['--token=CANARY']",
        "command: x, args: ['--token', 'CANARY']",
        "command: x, args: [!private 'CANARY']",
        "command: x, args: ['${NOPE:-CANARY}'], timeout: CANARY",
        "url: 'https://CANARY@h/'",
        "url: 'https://u:CANARY@h/?password=CANARY'",
        "url: 'https://h/', headers: { X-CANARY-y: 'x', Authorization: 'Bearer CANARY' }, max_concurrency: CANARY",
        "url: 'https://h/', headers: { Authorization: [CANARY] }",
        "url: 'CANARY'",
        "command: x, connect_timeout: 'CANARY', enabled: CANARY, prefix: 'CANARY!'",
    ]);
    (canary, place).prop_map(|(canary, place)| {
        let text = format!(
            "mcp_servers: {{ a: {{ {} }} }}",
            place
                .replace("X-CANARY-y", "X-y")
                .replace("CANARY", &canary)
        );
        (canary, text)
    })
}

/// A config whose `env` values are all numbers, which is wrong, laid out at random.
fn numbers() -> impl Strategy<Value = (String, usize)> {
    let entry = (any::<bool>(), 0..3usize, 1..5usize, 1..4usize);
    let servers = prop::collection::vec((any::<bool>(), prop::collection::vec(entry, 1..5)), 1..4);
    (servers, prop::sample::select(vec!["\n", "\r\n"])).prop_map(|(servers, end)| {
        let mut text = "mcp_servers:\n".to_owned();
        let mut count = 0;
        for (index, (flow, entries)) in servers.into_iter().enumerate() {
            text.push_str(&format!(
                "  s{index}: # ä\n    command: 'ü x'\n    env:{}",
                if flow { " {" } else { "\n" }
            ));
            for (quoted, breaks, spaces, places) in entries {
                count += 1;
                let key = if quoted {
                    format!("\"K{count}\"")
                } else {
                    format!("K{count}")
                };
                let value = format!(
                    "{}{}",
                    10_usize.pow(u32::try_from(places).unwrap_or(1)),
                    1000 + count
                );
                let (breaks, spaces) = ("\n".repeat(breaks), " ".repeat(spaces));
                match flow {
                    true => text.push_str(&format!("{breaks}      {key}:{spaces}{value},")),
                    false => text.push_str(&format!("{breaks}      {key}:{spaces}{value} # x\n")),
                }
            }
            text.push_str(if flow { " }\n" } else { "" });
        }
        (text.replace('\n', end), count)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_text_never_panics_and_every_error_has_a_place(text in document()) {
        check(&text, "a.yaml")?;
        check(&text, "a.json")?;
    }

    #[test]
    fn every_finding_stands_at_its_value((text, count) in numbers()) {
        let Err(LoadError::Invalid(findings)) = parse(&text, "a.yaml".into(), &Variables::empty()) else {
            return Err(TestCaseError::fail(text));
        };
        let lines: Vec<&str> = text.lines().collect();

        let found: Vec<String> = findings
            .iter()
            .map(|finding| {
                let (line, column) = (finding.line as usize, finding.column as usize);
                let key = finding.path.rsplit('.').next().unwrap_or_default();
                let value: String = lines[line - 1].chars().skip(column - 1).take_while(char::is_ascii_digit).collect();
                format!("{key} {}", value.get(value.len().saturating_sub(4)..).unwrap_or_default())
            })
            .collect();

        let expected: Vec<String> = (1..=count).map(|number| format!("K{number} {}", 1000 + number)).collect();
        prop_assert_eq!(found, expected, "{}", text);
    }

    #[test]
    fn random_characters_never_panic(text in any::<String>()) {
        check(&text, "a.yaml")?;
    }

    #[test]
    fn private_values_are_never_shown((canary, text) in secrets()) {
        let shown = match parse(&text, "a.yaml".into(), &Variables::empty()) {
            Ok(loaded) => format!("{loaded:?} {}", serde_json::to_string(&loaded.warnings).unwrap_or_default()),
            Err(error) => format!("{error} {error:?} {}", serde_json::to_string(error.findings()).unwrap_or_default()),
        };
        prop_assert!(!shown.contains(&canary), "{text}\n{shown}");
    }

    #[test]
    fn a_config_comes_back_from_what_is_stored_of_it((text, token) in configs()) {
        let sources = Sources::new(Variables::from([("TOKEN".to_owned(), token.clone())]));
        let config = parse_schema(&text, "a.yaml".into(), &sources)
            .map_err(|error| TestCaseError::fail(format!("{text} {:?}", error.findings())))?
            .config;
        let (redacted, private) = config.split();
        let stored = serde_json::to_string(&redacted).unwrap_or_default();
        prop_assert!(!stored.contains(&token), "{stored}");
        prop_assert!(!redacted.to_yaml().contains(&token));

        let value = serde_json::from_str(&stored).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let again = RedactedConfig::from_stored(value, private.pointers())
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let restored = Config::from_redacted(&again, &private)
            .map_err(|error| TestCaseError::fail(format!("{text} {error:?}")))?;

        prop_assert_eq!(&restored, &config);
        prop_assert_eq!(restored.split(), (redacted, private));
    }
}

/// Configs of many forms, with a token wherever one may stand.
fn configs() -> impl Strategy<Value = (String, String)> {
    let token = "[a-zA-Z0-9]{12,24}".prop_map(|text| format!("c4n4ry{text}"));
    let word = prop::sample::select(vec![
        "'${TOKEN}'",
        "!private 'TOKEN'",
        "'a ${TOKEN} b'",
        "'${NONE:-TOKEN}'",
        "'$${TOKEN'",
        "'[private]'",
        "plain",
        "'ä b: c'",
        "''",
    ]);
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| number.to_string()),
        (-1.0e6..1.0e6).prop_map(|number: f64| format!("{number:?}")),
    ];
    let parts = (
        prop::collection::vec(word.clone(), 0..4),
        prop::collection::vec(word, 1..4),
        number,
        1u64..86_400_000_000_000,
        any::<bool>(),
    );
    (token, parts).prop_map(|(token, (args, values, number, nanos, flag))| {
        let seconds = std::time::Duration::from_nanos(nanos + 1_000_000_000).as_secs_f64();
        let timeout = seconds.min(86_400.0);
        let list = values.join(", ");
        let text = format!(
            "
model: {{ a: [{list}], n: {number}, deep: {{ api_key: TOKEN, b: {flag} }} }}
mcp_servers:
  a~/b: {{ prefix: ab, command: x, args: [{}], timeout: {timeout:?}, env: {{ A: TOKEN }}, enabled: {flag} }}
  c: {{ url: 'https://u:TOKEN@h/?token=TOKEN', headers: {{ X: '${{TOKEN}}' }}, auth: {{ x: [{list}] }} }}
",
            args.join(", ")
        );
        let text = text.replace("TOKEN", &token);
        (text.replace(&format!("${{{token}"), "${TOKEN"), token)
    })
}
