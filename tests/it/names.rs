//! Under which name a tool is shown.

use genlock_testkit::{
    clients::ModernClient,
    harness::{Control, DEADLINE, FakeServer, eventually_async},
};
use serde_json::json;

use crate::stage::{self, Party, stdio, stdio_with};

async fn names_and_reports(rule: &str) -> (Vec<String>, String) {
    let gateway = stage::start(&json!({
        "tool_access": {"names": rule, "surface": "flat"}, "mcp_servers": {
            "a": stdio(&["--tools-only", "--tool-name", "only_a", "--tool-name", "genlock_call"]),
            // Later than `a`, whose bare names are its own by then.
            "b": stdio_with(&["--tool-name", "b only", "--start-delay-ms", "400"], &json!({"prefix": "bee"})),
        },
    }));
    let names = ModernClient::new(gateway.url()).tool_names().await;
    let shown = gateway.run(&["status"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    (names, shown.stdout)
}

#[tokio::test]
async fn names_always_have_their_prefix_by_default() {
    let (names, shown) = names_and_reports("always").await;

    assert!(
        names
            .iter()
            .all(|name| name.starts_with("a__") || name.starts_with("bee__")),
        "{names:?}"
    );
    assert!(
        names.contains(&"a__only_a".to_owned()) && names.contains(&"a__genlock_call".to_owned())
    );
    // What clients refuse is cleaned and told apart.
    let cleaned: Vec<_> = names
        .iter()
        .filter(|name| name.starts_with("bee__b_only_"))
        .collect();
    assert_eq!(cleaned.len(), 1, "{names:?}");
    assert_eq!(cleaned[0].len(), "bee__b_only_".len() + 6);
    assert!(!shown.contains("names:"), "{shown}");
}

#[tokio::test]
async fn names_are_bare_where_they_are_unique_and_renames_are_reported() {
    let (names, shown) = names_and_reports("auto").await;

    for name in ["only_a", "echo", "bee__echo", "a__genlock_call"] {
        assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
    }
    for name in ["a__echo", "a__only_a", "genlock_call"] {
        assert!(!names.contains(&name.to_owned()), "{name}: {names:?}");
    }
    assert!(!shown.contains("`echo` of `a`"), "{shown}");
    assert!(
        shown.contains("names: `echo` of `bee` is shown with its prefix: the bare name is taken"),
        "{shown}"
    );
}

#[tokio::test]
async fn bare_names_that_clash_are_dropped_and_reported() {
    let (names, shown) = names_and_reports("never").await;

    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        names.contains(&"only_a".to_owned())
            && names.iter().any(|name| name.starts_with("b_only_"))
    );
    assert!(
        shown.contains("names: `echo` is not shown: the name clashes (a, bee)"),
        "{shown}"
    );
    assert!(
        shown.contains("names: `genlock_call` is not shown: the name clashes (a)"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_bare_name_never_moves_to_another_server() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = stage::start(&json!({
        "tool_access": {"names": "auto"}, "mcp_servers": {
            "a": stdio(&["--tool-name", "extra", "--start-delay-ms", "0"]),
            "b": stdio(&["--control", control.arg()]),
        },
    }));
    let client = ModernClient::new(gateway.url());
    assert!(client.tool_names().await.contains(&"extra".to_owned()));

    control.on("extra_tool");
    control.pulse("announce").await;
    let names = eventually_async(DEADLINE, "the tool of b is there", async || {
        let names = client.tool_names().await;
        names.contains(&"b__extra".to_owned()).then_some(names)
    })
    .await;

    assert!(names.contains(&"extra".to_owned()) && !names.contains(&"a__extra".to_owned()));
}

#[tokio::test]
async fn a_tool_with_an_odd_name_is_called_by_its_clean_one() {
    let scratch = stage::scratch();
    let odd = ["très bien 🙂", "a/b.c", "x y", " padded "];
    let flags: Vec<&str> = odd.iter().flat_map(|name| ["--tool-name", name]).collect();
    let web = ["modern", "legacy"]
        .map(|era| FakeServer::http(&scratch, era, &[&["--era", era], &flags[..]].concat()));
    let gateway = stage::start(&json!({"tool_access": {"surface": "flat"}, "mcp_servers": {
        "new": {"url": web[0].url()}, "old": {"url": web[1].url()}, "pipe": stdio(&flags),
    }}));
    let plain = |name: &str| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    for (client, party) in Party::one_of_each(&gateway).await {
        let names = party.tool_names().await;
        assert!(
            names.iter().all(|name| plain(name) && name.len() <= 64),
            "{names:?}"
        );
        let mut called = 0;
        for name in names
            .iter()
            .filter(|name| name.rsplit('_').next().is_some_and(|end| end.len() == 6))
        {
            let text = party.call(name, "{}").await;
            called += usize::from(text.is_result() && odd.contains(&text.text().as_str()));
        }
        assert_eq!(called, 3 * odd.len(), "{client}");
    }
}
