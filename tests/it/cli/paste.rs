//! `genlock client-config` and `genlock demo-server`.

use std::fs;

use genlock_testkit::clients::{LEGACY, StdioClient, StdioCommand};
use serde_json::{Value, json};

use crate::stage::{self, genlock, run, succeeded};

#[test]
fn each_client_gets_what_to_paste() {
    let scratch = stage::scratch();
    scratch.write("genlock.yaml", "listen: 127.0.0.1:9999");
    let file = scratch.join("genlock.yaml");
    let file = fs::canonicalize(&file).unwrap().display().to_string();
    let url = "http://127.0.0.1:9999/mcp";
    let pretty = |value: Value| serde_json::to_string_pretty(&value).unwrap();
    let start = json!({"command": "genlock", "args": ["--config", file, "serve", "--stdio"]});
    let typed = json!({"command": "genlock", "args": ["--config", file, "serve", "--stdio"], "type": "stdio"});
    let cases: [(&[&str], String); 10] = [
        (
            &["claude-code"],
            format!("claude mcp add --transport http genlock {url}"),
        ),
        (
            &["claude-code", "--stdio"],
            format!("claude mcp add genlock -- genlock --config {file} serve --stdio"),
        ),
        (
            &["claude-desktop"],
            pretty(json!({"mcpServers": {"genlock": start}})),
        ),
        (
            &["claude-desktop", "--stdio"],
            pretty(json!({"mcpServers": {"genlock": start}})),
        ),
        (
            &["cursor"],
            pretty(json!({"mcpServers": {"genlock": {"url": url}}})),
        ),
        (
            &["cursor", "--stdio"],
            pretty(json!({"mcpServers": {"genlock": start}})),
        ),
        (
            &["vscode"],
            pretty(json!({"servers": {"genlock": {"type": "http", "url": url}}})),
        ),
        (
            &["vscode", "--stdio"],
            pretty(json!({"servers": {"genlock": typed}})),
        ),
        (
            &["codex"],
            format!("[mcp_servers.genlock]\nurl = \"{url}\""),
        ),
        (
            &["codex", "--stdio"],
            format!(
                "[mcp_servers.genlock]\ncommand = \"genlock\"\nargs = [\"--config\",\"{file}\",\"serve\",\"--stdio\"]"
            ),
        ),
    ];
    for (args, expected) in cases {
        let shown = run(&scratch, &[&["client-config"], args].concat(), &[]);
        assert_eq!(shown, succeeded(format!("{expected}\n")), "{args:?}");
    }
    assert_eq!(
        run(&scratch, &["client-config", "emacs"], &[]).code,
        Some(64)
    );
}

#[test]
fn the_url_of_a_running_gateway_is_the_one_to_paste() {
    let gateway = stage::start(&json!({"mcp_servers": {}}));

    let shown = gateway.run(&["client-config", "claude-code"]);

    let expected = format!(
        "claude mcp add --transport http genlock {}\n",
        gateway.url()
    );
    assert_eq!(shown, succeeded(expected));
}

#[tokio::test]
async fn the_demo_server_speaks_both_eras() {
    let command = StdioCommand::new(genlock(), ["demo-server"]);
    let modern = StdioClient::modern(&command);
    let legacy = StdioClient::legacy(&command, LEGACY[1]).await;
    for client in [modern, legacy] {
        assert_eq!(
            client.tool_names().await,
            ["time", "text_stats", "countdown"]
        );
        assert!(!client.call("time", "{}").await.is_tool_error());
        assert!(client.close(stage::DEADLINE).await.success());
    }
}
