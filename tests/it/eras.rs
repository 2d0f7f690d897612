//! Both eras and both transports, on both sides.

use genlock_testkit::{
    clients::{LEGACY, LegacyClient, ModernClient, StdioClient, StdioCommand},
    harness::{FakeServer, GenlockProcess, fake_server},
};
use serde_json::json;

use crate::stage::{self, Party, stdio, stdio_command};

const OLD: [&str; 6] = ["--era", "legacy", "--tools", "30", "--page-size", "7"];
const NEW: [&str; 6] = ["--era", "modern", "--tools", "3", "--page-size", "1"];
const WEB: [&str; 4] = ["--tools", "12", "--page-size", "5"];

/// The gateway's own tools, then those of the servers: each list that a server gives page by page, whole.
async fn expected_names() -> Vec<String> {
    let mut names = Vec::new();
    for (prefix, flags) in [("old", &OLD[2..4]), ("new", &NEW[2..4]), ("web", &WEB[..2])] {
        let server = StdioClient::modern(&StdioCommand::new(fake_server(), flags.iter().copied()));
        let own = server.tool_names().await;
        names.extend(own.iter().map(|name| format!("{prefix}__{name}")));
    }
    names.sort();
    let own = ["call", "tools", "list", "explain", "status", "reload"]
        .map(|name| format!("genlock_{name}"));
    own.into_iter().chain(names).collect()
}

async fn all_clients(gateway: &GenlockProcess) -> Vec<(String, Party)> {
    let command = stdio_command(gateway);
    let mut clients = vec![
        (
            "modern over HTTP".to_owned(),
            Party::Modern(ModernClient::new(gateway.url())),
        ),
        (
            "modern over a pipe".to_owned(),
            Party::Pipe(StdioClient::modern(&command)),
        ),
    ];
    for version in LEGACY {
        let http = LegacyClient::connect(gateway.url(), version).await;
        assert_eq!(http.version(), version);
        clients.push((format!("{version} over HTTP"), Party::Legacy(http)));
        let pipe = StdioClient::legacy(&command, version).await;
        let negotiated = pipe.initialized().unwrap().result();
        assert_eq!(negotiated["protocolVersion"], version);
        clients.push((format!("{version} over a pipe"), Party::Pipe(pipe)));
    }
    clients
}

#[tokio::test]
async fn every_client_lists_the_same_tools_and_calls_each_server() {
    let scratch = stage::scratch();
    let web = FakeServer::http(&scratch, "web", &WEB);
    let gateway = stage::start(&json!({"mcp_servers": {
        "old": stdio(&OLD), "new": stdio(&NEW), "web": {"url": web.url()},
    }}));
    let expected = expected_names().await;

    for (name, client) in all_clients(&gateway).await {
        assert_eq!(client.tool_names().await, expected, "{name}");
        for server in ["old", "new", "web"] {
            let text = format!("{name} to {server}");
            let answer = client
                .call(
                    &format!("{server}__echo"),
                    &json!({"text": text}).to_string(),
                )
                .await;
            assert_eq!(answer.text(), text);
        }
    }
}

#[tokio::test]
async fn each_server_is_spoken_to_in_its_newest_revision() {
    let scratch = stage::scratch();
    let web = FakeServer::http(&scratch, "web", &["--era", "legacy"]);
    let both = FakeServer::http(&scratch, "both", &[]);
    let gateway = stage::start(&json!({"mcp_servers": {
        "old": stdio(&["--era", "legacy"]),
        "new": stdio(&["--era", "modern"]),
        "pinned": stage::stdio_with(&[], &json!({"protocol": "legacy"})),
        "silent": stdio(&["--discover-silent", "--era", "legacy"]),
        "web": {"url": web.url()},
        "both": {"url": both.url()},
    }}));
    stage::wait_ready(&gateway).await;

    let spoken: Vec<_> = stage::servers(&gateway)
        .await
        .iter()
        .map(|server| (server["name"].clone(), server["protocol"].clone()))
        .collect();

    let expected = [
        ("both", "2026-07-28"),
        ("new", "2026-07-28"),
        ("old", "2025-11-25"),
        ("pinned", "2025-11-25"),
        ("silent", "2025-11-25"),
        ("web", "2025-11-25"),
    ];
    assert_eq!(
        spoken,
        expected.map(|(name, version)| (json!(name), json!(version)))
    );
}

#[tokio::test]
async fn a_tool_is_shown_as_its_server_wrote_it_but_for_its_name() {
    let gateway = stage::start(&json!({"mcp_servers": {"one": stdio(&[])}}));
    let direct = StdioClient::modern(&StdioCommand::new(fake_server(), [""; 0]));
    let entry = r#""name":"raw","description""#;
    let own = direct.request("tools/list", "{}").await.body_text();
    let own = cut(&own, entry);

    for (name, client) in Party::one_of_each(&gateway).await {
        let shown = client.request("tools/list", "{}").await.body_text();
        let renamed = entry.replace("raw", "one__raw");
        assert_eq!(
            cut(&shown, &renamed).replace("one__raw", "raw"),
            own,
            "{name}"
        );
    }
}

/// The text of the tool that begins so, up to its last field.
fn cut(list: &str, begin: &str) -> String {
    let from = list
        .find(begin)
        .unwrap_or_else(|| panic!("no {begin} in {list}"));
    let rest = &list[from..];
    let end = rest.find(r#""optional"}}"#).unwrap();
    rest[..end].to_owned()
}

#[tokio::test]
async fn a_modern_answer_says_what_its_era_demands_and_a_legacy_one_does_not() {
    let gateway = stage::start(&json!({"mcp_servers": {
        "old": stdio(&["--era", "legacy"]), "new": stdio(&["--era", "modern"]),
    }}));

    for (name, client) in Party::one_of_each(&gateway).await {
        let modern = name.starts_with("modern");
        let list = client.request("tools/list", "{}").await.result();
        let hints = [&list["resultType"], &list["ttlMs"], &list["cacheScope"]];
        let expected = if modern {
            [json!("complete"), json!(5000), json!("private")]
        } else {
            [json!(null), json!(null), json!(null)]
        };
        assert_eq!(hints, expected.each_ref(), "{name}");
        for server in ["old", "new"] {
            let answer = client.call(&format!("{server}__echo"), "{}").await.result();
            let expected = if modern {
                json!("complete")
            } else {
                json!(null)
            };
            assert_eq!(answer["resultType"], expected, "{name} {server}");
        }
    }
}

#[tokio::test]
async fn discovery_names_every_revision_and_unknown_ones_are_negotiated_down() {
    let gateway = stage::start(&json!({"mcp_servers": {"one": stdio(&[])}}));
    let client = ModernClient::new(gateway.url());

    let found = client.request("server/discover", "{}").await.result();
    let unknown = LegacyClient::connect(gateway.url(), "2031-01-01").await;

    assert_eq!(
        found["supportedVersions"],
        json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"])
    );
    assert_eq!(
        found["capabilities"],
        json!({
            "tools": {"listChanged": true}, "resources": {"listChanged": true},
            "prompts": {"listChanged": true}, "completions": {},
        })
    );
    let meta = &found["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(meta["name"], "genlock");
    assert_eq!(unknown.version(), "2025-11-25");
}

#[tokio::test]
async fn the_first_call_and_the_first_list_wait_for_their_servers() {
    let config =
        json!({"mcp_servers": {"one": stdio(&["--start-delay-ms", "20"]), "two": stdio(&[])}});
    for _ in 0..5 {
        let gateway = stage::start(&config);
        let client = ModernClient::new(gateway.url());
        let (answer, names) = tokio::join!(
            client.call("one__echo", r#"{"text":"first"}"#),
            client.tool_names()
        );
        assert_eq!(answer.text(), "first");
        assert_eq!(names.len(), 6 + 2 * 23);
        assert_eq!(
            client.call("two__echo", r#"{"text":"next"}"#).await.text(),
            "next"
        );
    }
}
