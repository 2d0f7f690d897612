//! The deny overlay.

use genlock_policy::{GenerationNumber, Overlay, Revocation, RevocationKind};
use serde_json::json;

fn revocation(kind: RevocationKind, name: &str, number: u64) -> Revocation {
    Revocation {
        kind,
        name: name.to_owned(),
        reason: "why".to_owned(),
        number: GenerationNumber::new(number).unwrap(),
    }
}

#[test]
fn a_thing_stays_denied_until_the_last_of_its_revocations_is_lifted() {
    let number = |number| GenerationNumber::new(number).unwrap();
    let first = revocation(RevocationKind::Tool, "a/t", 2);
    let second = revocation(RevocationKind::Tool, "a/t", 5);
    let overlay = Overlay::default()
        .with(second.clone())
        .with(first.clone())
        .with(first.clone());

    assert_eq!(overlay.denies(RevocationKind::Tool, "a/t"), Some(&first));
    assert_eq!(overlay.denies(RevocationKind::Tool, "a/u"), None);
    assert_eq!(overlay.denies(RevocationKind::Server, "a/t"), None);
    assert_eq!(overlay.without(number(3)), None);
    assert_eq!(
        (overlay.of(number(5)), overlay.of(number(3))),
        (Some(&second), None)
    );
    let less = overlay.without(number(2)).unwrap();
    assert_eq!(less.denies(RevocationKind::Tool, "a/t"), Some(&second));
    assert!(less.without(number(5)).unwrap().is_empty());
    assert!(!less.is_empty());
}

#[test]
fn a_request_is_refused_by_the_revocation_of_its_server_before_that_of_its_tool() {
    let (tool, server) = (
        revocation(RevocationKind::Tool, "a/t", 2),
        revocation(RevocationKind::Server, "b", 3),
    );
    let overlay = Overlay::default()
        .with(tool.clone())
        .with(server.clone())
        .with(revocation(RevocationKind::Tool, "b/t", 1))
        .with(revocation(RevocationKind::Key, "c", 4))
        .with(revocation(RevocationKind::Session, "d", 5));

    let table = [
        ("a", Some("t"), Some(&tool)),
        ("a", Some("u"), None),
        ("a", Some(""), None),
        ("a", None, None),
        ("a/t", None, None),
        ("b", Some("t"), Some(&server)),
        ("b", Some("any"), Some(&server)),
        ("b", None, Some(&server)),
        ("c", Some("t"), None),
        ("d", None, None),
    ];
    for (name, tool, refused) in table {
        assert_eq!(overlay.refuses(name, tool), refused, "{name} {tool:?}");
    }
}

#[test]
fn a_revocation_says_what_and_why_and_what_can_be_done() {
    let text = revocation(RevocationKind::Tool, "a/t", 7).to_string();
    let expected = "tool `a/t` is revoked: why (an operator can lift revocation 7)";
    assert_eq!(text, expected);
}

#[test]
fn an_overlay_is_one_json_object_and_comes_back() {
    let overlay = Overlay::default()
        .with(revocation(RevocationKind::Session, "s", 3))
        .with(revocation(RevocationKind::Server, "a", 2));

    let json = serde_json::to_value(&overlay).unwrap();

    assert_eq!(
        json,
        json!({ "revoked": [
            { "kind": "server", "name": "a", "reason": "why", "number": 2 },
            { "kind": "session", "name": "s", "reason": "why", "number": 3 },
        ] })
    );
    assert_eq!(serde_json::from_value::<Overlay>(json).unwrap(), overlay);
    let unknown = json!({ "revoked": [], "allowed": [] });
    assert!(serde_json::from_value::<Overlay>(unknown).is_err());
}

#[test]
fn kinds_are_read_back_from_their_words() {
    for word in ["server", "tool", "key", "session"] {
        let kind = RevocationKind::from_word(word).unwrap();
        assert_eq!(
            (kind.as_str(), serde_json::to_value(kind).unwrap()),
            (word, json!(word))
        );
    }
    assert_eq!(RevocationKind::from_word("all"), None);
}
