//! What a session may use: the truth table of a pick, a platform's list, and what the config has of them.

use std::collections::BTreeSet;

use genlock_config::Config;
use genlock_policy::{Known, Pick, SelectionRule, ServerVerdict, resolve};
use proptest::prelude::*;

use crate::config;

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// `a`, `b` enabled, `off` disabled; `gone` was there in an earlier generation.
fn three(platform: &str) -> Config {
    let text = format!(
        "platform_toolsets: {{ cli: [{platform}] }}\n\
         mcp_servers: {{ a: {{ command: x }}, b: {{ command: x }}, off: {{ command: x, enabled: false }} }}"
    );
    config(&text, "")
}

fn known() -> Known {
    Known {
        servers: set(&["a", "b", "off", "gone"]),
        toolsets: set(&["terminal"]),
    }
}

/// A pick, the list of the platform; the servers, the toolsets and the rule that come of them.
type Row<'r> = (
    Option<&'r [&'r str]>,
    &'r str,
    &'r [&'r str],
    &'r [&'r str],
    SelectionRule,
);

#[test]
fn the_truth_table() {
    use SelectionRule::{All, Pick as Picked, PickNoMcp, Platform, PlatformNoMcp};
    let cases: &[Row<'_>] = &[
        // Nothing is said about servers anywhere: every enabled one.
        (None, "", &["a", "b"], &["a", "b"], All),
        (None, "terminal", &["a", "b"], &["a", "b", "terminal"], All),
        (
            Some(&["terminal"]),
            "",
            &["a", "b"],
            &["a", "b", "terminal"],
            All,
        ),
        (Some(&[]), "", &["a", "b"], &["a", "b"], All),
        // The platform's list names servers.
        (None, "terminal, a", &["a"], &["a", "terminal"], Platform),
        (None, "a, off", &["a"], &["a"], Platform),
        (None, "off", &[], &[], Platform),
        (None, "gone", &[], &[], Platform),
        (None, "terminal, no_mcp", &[], &["terminal"], PlatformNoMcp),
        (None, "a, no_mcp", &[], &[], PlatformNoMcp),
        (
            Some(&["terminal"]),
            "a",
            &["a"],
            &["a", "terminal"],
            Platform,
        ),
        (Some(&["terminal"]), "x, gone", &[], &["terminal"], Platform),
        // The pick names servers: the list of the platform says nothing any more.
        (Some(&["a"]), "b", &["a"], &["a"], Picked),
        (
            Some(&["terminal", "a", "off"]),
            "",
            &["a"],
            &["a", "terminal"],
            Picked,
        ),
        (Some(&["off"]), "", &[], &[], Picked),
        (Some(&["gone"]), "", &[], &[], Picked),
        (
            Some(&["terminal", "gone"]),
            "a, b",
            &[],
            &["terminal"],
            Picked,
        ),
        // `no_mcp` wins.
        (Some(&["no_mcp"]), "a", &[], &[], PickNoMcp),
        (
            Some(&["a", "terminal", "no_mcp"]),
            "b",
            &[],
            &["terminal"],
            PickNoMcp,
        ),
    ];
    for (pick, platform, servers, toolsets, rule) in cases {
        let pick = pick.map(|names| Pick::of(names.iter().copied(), &known()).unwrap());

        let selection = resolve(pick.as_ref(), "cli", &three(platform), &known().servers);

        let found = (selection.servers, selection.toolsets, selection.rule);
        let expected = (set(servers), set(toolsets), *rule);
        assert_eq!(found, expected, "{pick:?} with [{platform}]");
    }
}

#[test]
fn another_source_has_a_list_of_its_own() {
    let selection = resolve(None, "gui", &three("a"), &known().servers);

    assert_eq!(
        (selection.servers, selection.rule),
        (set(&["a", "b"]), SelectionRule::All)
    );
}

#[test]
fn a_server_that_is_left_out_is_told_why() {
    let pick = Pick::of(["a", "gone"], &known()).unwrap();
    let config = three("");
    let selection = resolve(Some(&pick), "cli", &config, &known().servers);

    let found = ["a", "b", "off", "gone"].map(|name| selection.explain(name, &config));

    let expected = [
        ServerVerdict::Selected,
        ServerVerdict::LeftOut(SelectionRule::Pick),
        ServerVerdict::Disabled,
        ServerVerdict::NotConfigured,
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_misspelt_server_is_no_pick() {
    let refused = Pick::of(["terminal", "gihub"], &known()).unwrap_err();

    assert_eq!(
        refused.to_string(),
        "`gihub` is neither a server nor a toolset; known: a, b, gone, off, terminal, no_mcp"
    );
}

#[test]
fn a_pick_is_stored_and_read_back() {
    let pick = Pick::of(["terminal", "a", "no_mcp", "a"], &known()).unwrap();

    let stored = serde_json::to_string(&pick).unwrap();

    let expected =
        r#"[{"kind":"toolset","name":"terminal"},{"kind":"server","name":"a"},{"kind":"no_mcp"}]"#;
    assert_eq!(stored, expected);
    assert_eq!(serde_json::from_str::<Pick>(&stored).unwrap(), pick);
}

proptest! {
    /// Whatever is disabled or removed after the pick: a session never gets a server that its pick did not name.
    #[test]
    fn a_pick_that_names_servers_never_widens(
        picked in prop::collection::btree_set(0..6_usize, 1..4),
        defined in prop::collection::btree_map(0..6_usize, any::<bool>(), 0..6),
        listed in prop::collection::vec(0..6_usize, 0..4),
    ) {
        let name = |index: usize| format!("s{index}");
        let known = Known { servers: (0..6).map(name).collect(), ..Known::default() };
        let names: BTreeSet<String> = picked.into_iter().map(name).collect();
        let pick = Pick::of(names.iter().map(String::as_str), &known).unwrap();
        let servers: Vec<String> = defined
            .iter()
            .map(|(index, enabled)| format!("{}: {{ command: x, enabled: {enabled} }}", name(*index)))
            .collect();
        let listed: Vec<String> = listed.into_iter().map(name).collect();
        let text = format!(
            "platform_toolsets: {{ cli: [{}] }}\nmcp_servers: {{ {} }}", listed.join(", "), servers.join(", ")
        );

        let selection = resolve(Some(&pick), "cli", &config(&text, ""), &known.servers);

        prop_assert!(selection.servers.is_subset(&names));
        let enabled = defined.iter().filter(|(_, enabled)| **enabled).map(|(index, _)| name(*index));
        let expected: BTreeSet<String> = enabled.filter(|name| names.contains(name)).collect();
        prop_assert_eq!(selection.servers, expected);
    }
}
