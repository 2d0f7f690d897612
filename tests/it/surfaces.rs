//! What is listed to whom, and the gateway's tools that list.

use genlock_testkit::clients::{LegacyClient, ModernClient};
use serde_json::{Value, json};

use crate::stage::{self, Party, stdio, stdio_with};

const META_TOOLS: [&str; 6] = [
    "genlock_call",
    "genlock_tools",
    "genlock_list",
    "genlock_explain",
    "genlock_status",
    "genlock_reload",
];

/// Which of the two kinds of tools a list shows.
fn kinds(names: &[String]) -> (bool, bool) {
    let own = names
        .iter()
        .filter(|name| META_TOOLS.contains(&name.as_str()))
        .count();
    assert!(own == 0 || own == META_TOOLS.len(), "{names:?}");
    (names.iter().any(|name| name == "one__echo"), own > 0)
}

#[tokio::test]
async fn a_client_narrows_its_view_and_never_widens_it() {
    let (flat, meta, both) = ((true, false), (false, true), (true, true));
    let cases = [
        ("both", [both, flat, meta]),
        ("flat", [flat, flat, flat]),
        ("meta", [meta, meta, meta]),
    ];
    for (surface, expected) in cases {
        let gateway = stage::start(&json!({
            "tool_access": {"surface": surface}, "mcp_servers": {"one": stdio(&[])},
        }));
        for (query, shown) in ["", "?surface=flat", "?surface=meta"]
            .into_iter()
            .zip(expected)
        {
            let url = format!("{}{query}", gateway.url());
            let modern = Party::Modern(ModernClient::new(&url));
            let legacy = Party::Legacy(LegacyClient::connect(&url, "2025-06-18").await);
            for party in [modern, legacy] {
                let names = party.tool_names().await;
                assert_eq!(kinds(&names), shown, "{surface} {query}");
                // What is not listed cannot be called, and is answered as what does not exist.
                let (tool, own) = (
                    party.call("one__echo", "{}").await,
                    party.call("genlock_list", "{}").await,
                );
                assert_eq!(
                    (tool.is_result(), own.is_result()),
                    shown,
                    "{surface} {query}"
                );
                for refused in [(&tool, "one__echo"), (&own, "genlock_list")] {
                    if !refused.0.is_result() {
                        let error = refused.0.error();
                        assert_eq!(
                            (error.code, error.message),
                            (-32602, format!("unknown tool: {}", refused.1))
                        );
                    }
                }
            }
        }
        let url = format!("{}?surface=both", gateway.url());
        assert_eq!(
            ModernClient::new(url)
                .request("tools/list", "{}")
                .await
                .status,
            400
        );
    }
}

#[tokio::test]
async fn a_pipe_shows_what_the_config_says() {
    let gateway = stage::start(&json!({
        "tool_access": {"surface": "meta", "meta_prefix": "hangar"}, "mcp_servers": {"one": stdio(&[])},
    }));
    for (client, party) in Party::one_of_each(&gateway).await {
        assert_eq!(
            party.tool_names().await,
            [
                "hangar_call",
                "hangar_tools",
                "hangar_list",
                "hangar_explain",
                "hangar_status",
                "hangar_reload"
            ],
            "{client}"
        );
        let batch = json!({"calls": [{"mcp_server": "one", "tool": "echo", "arguments": {"text": "hello"}}]});
        let report = party
            .call("hangar_call", &batch.to_string())
            .await
            .structured();
        assert_eq!(
            report["results"][0]["result"]["content"][0]["text"],
            "hello"
        );
        assert_eq!(party.call("genlock_call", "{}").await.error().code, -32602);
    }
}

#[tokio::test]
async fn the_list_of_servers_says_what_each_is_and_what_is_wrong_with_it() {
    let gateway = stage::start(&json!({"mcp_servers": {
        "good": stdio_with(&["--tools-only"], &json!({"description": "does good"})),
        "lost": {"command": "/no/such/program"},
        "off": stdio_with(&[], &json!({"enabled": false})),
    }}));
    stage::wait_for_state(&gateway, "good", "ready").await;
    stage::wait_for_state(&gateway, "lost", "parked").await;

    let found = ModernClient::new(gateway.url())
        .call("genlock_list", "{}")
        .await
        .structured();

    let reason = "command not found: /no/such/program";
    assert_eq!(
        found,
        json!({"servers": [
            {"name": "good", "state": "ready", "ready": true, "tools": 23, "description": "does good", "reason": null},
            {"name": "lost", "state": "parked", "ready": false, "tools": 0, "description": null, "reason": reason},
            {"name": "off", "state": "disabled", "ready": false, "tools": 0, "description": null, "reason": null},
        ]})
    );
}

#[tokio::test]
async fn tools_are_found_by_server_and_by_words() {
    let gateway = stage::start(&json!({"mcp_servers": {
        "a": stdio(&["--schema-header"]), "b": stdio(&["--tool-name", "odd one"]),
    }}));
    let client = ModernClient::new(gateway.url());
    let find = async |arguments: Value| {
        let answer = client.call("genlock_tools", &arguments.to_string()).await;
        let tools = answer.structured()["tools"].as_array().unwrap().clone();
        tools
            .iter()
            .map(|tool| {
                format!(
                    "{}/{}",
                    tool["mcp_server"].as_str().unwrap(),
                    tool["tool"].as_str().unwrap()
                )
            })
            .collect::<Vec<_>>()
    };

    assert_eq!(find(json!({})).await.len(), 24 + 24);
    assert_eq!(find(json!({"mcp_server": "a"})).await.len(), 24);
    assert_eq!(
        find(json!({"query": "EXACT bytes"})).await,
        ["a/raw", "b/raw"]
    );
    assert_eq!(
        find(json!({"query": "bytes exact", "mcp_server": "b"})).await,
        ["b/raw"]
    );
    assert_eq!(find(json!({"query": "b odd"})).await, ["b/odd one"]);
    assert_eq!(find(json!({"query": "nothing like it"})).await, [""; 0]);
    let answer = client.call("genlock_tools", r#"{"query":"region"}"#).await;
    let schema = r#""inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"note":{"type":"string"}}}"#;
    assert!(
        answer.body_text().contains(schema),
        "{}",
        answer.body_text()
    );
    for (wrong, message) in [
        (
            json!({"mcp_server": "nobody"}),
            "no server is called `nobody`",
        ),
        (json!({"query": 7}), "`query` must be a string"),
        (json!({"more": 7}), "unknown argument `more`"),
    ] {
        let error = client
            .call("genlock_tools", &wrong.to_string())
            .await
            .error();
        assert_eq!((error.code, error.message.as_str()), (-32602, message));
    }
}
