//! Fingerprints of private values.

use genlock_config::{
    Fingerprint, FingerprintKey, PrivateValue, ProfileId, Variables, fingerprints, parse,
};

fn key(byte: u8) -> FingerprintKey {
    FingerprintKey::from_bytes([byte; 32])
}

fn of(profile: &str, pointer: &str, value: &str) -> Fingerprint {
    let profile = ProfileId::new(profile).unwrap();
    key(1).fingerprint(&profile, pointer, &PrivateValue::new(value.into()))
}

#[test]
fn equal_values_are_equal_in_one_place_only() {
    let one = of("p", "/a/b", "value");

    let others = [
        of("q", "/a/b", "value"),
        of("p", "/a/c", "value"),
        of("p", "/a/b", "other"),
        of("p", "/a", "/bvalue"),
        of("p", "/a/bv", "alue"),
        of("p", "/a/b", ""),
        key(1).fingerprint(
            &ProfileId::new("p").unwrap(),
            "/a/b",
            &PrivateValue::missing(),
        ),
        key(1).fingerprint(
            &ProfileId::new("p").unwrap(),
            "/a/b",
            &PrivateValue::new("missing".into()),
        ),
        key(2).fingerprint(
            &ProfileId::new("p").unwrap(),
            "/a/b",
            &PrivateValue::new("value".into()),
        ),
    ];

    assert_eq!(one, of("p", "/a/b", "value"));
    for (index, other) in others.iter().enumerate() {
        assert_ne!(one, *other, "{index}");
        for (second, again) in others.iter().enumerate().skip(index + 1) {
            assert_ne!(other, again, "{index} {second}");
        }
    }
}

#[test]
fn every_private_value_of_a_config_has_one_and_nothing_else() {
    let text = "
mcp_servers:
  a: { command: x, args: [y, '${TOKEN}'], env: { A: '1', 'B': '' } }
  com.acme/b: { prefix: b, url: 'https://u:p@h/', headers: { X: y } }
model: { api_key: k3y-value, name: m }
";
    let variables = Variables::from([("TOKEN".to_owned(), "t0ken-value".to_owned())]);
    let config = parse(text, "a.yaml".into(), &variables).unwrap().config;

    let found = fingerprints(&config.private_values(), &config.profile, &key(1));

    let pointers: Vec<_> = found.keys().map(String::as_str).collect();
    let expected = [
        "/mcp_servers/a/args/1",
        "/mcp_servers/a/env/A",
        "/mcp_servers/a/env/B",
        "/mcp_servers/com.acme~1b/headers/x",
        "/mcp_servers/com.acme~1b/url",
        "/model/api_key",
    ];
    assert_eq!(pointers, expected);
    assert_eq!(
        found["/mcp_servers/a/env/A"],
        of("default", "/mcp_servers/a/env/A", "1")
    );
}

#[test]
fn fingerprints_are_hex_and_the_key_is_never_shown() {
    let fingerprint = of("p", "/a", "v");

    let json = serde_json::to_string(&fingerprint).unwrap();
    let shown = format!("{fingerprint} {fingerprint:?} {:?}", key(0x5a));

    assert_eq!(json.len(), 66);
    assert_eq!(
        serde_json::from_str::<Fingerprint>(&json).unwrap(),
        fingerprint
    );
    assert!(serde_json::from_str::<Fingerprint>("\"5a\"").is_err());
    assert_eq!(
        Fingerprint::from_hex(&fingerprint.to_string()),
        Some(fingerprint)
    );
    assert!(
        !shown.contains("5a5a") && !shown.contains("90, 90"),
        "{shown}"
    );
    assert_eq!(key(3).expose_bytes(), &[3; 32]);
}
