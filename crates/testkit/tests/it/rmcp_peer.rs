//! The independent peer against the testkit's own pieces, each side in turn.

use genlock_testkit::{
    clients::{LEGACY, LegacyClient, ModernClient, StdioClient, StdioCommand},
    harness::{
        DEADLINE, FakeServer, Process, ProcessOptions, Scratch, binary, eventually, fake_server,
    },
    rmcp_client::{Lifecycle, RmcpClient},
};
use serde_json::json;

fn serve_http(scratch: &Scratch, flags: &[&str]) -> (Process, String) {
    let seen = scratch.read("rmcp.stdout").len();
    let options = ProcessOptions::new(binary("genlock-rmcp-server"))
        .args(["--http", "127.0.0.1:0"])
        .args(flags);
    let process = options.start(scratch.path(), "rmcp");
    let url = eventually(DEADLINE, "the SDK's server listens", || {
        let said = process.stdout();
        said[seen..]
            .lines()
            .find_map(|line| line.strip_prefix("listening "))
            .map(str::to_owned)
    });
    (process, url)
}

#[tokio::test]
async fn own_clients_talk_to_the_sdks_server_over_http() {
    let scratch = Scratch::new();
    for flags in [&[][..], &["--json"]] {
        let (_process, url) = serve_http(&scratch, flags);

        let modern = ModernClient::new(&url);
        assert_eq!(modern.tool_names().await, ["echo", "add", "slow"]);
        assert_eq!(modern.call("add", r#"{"a":2,"b":3}"#).await.text(), "5");

        let legacy = LegacyClient::connect(&url, LEGACY[0]).await;
        assert_eq!(legacy.session().is_none(), flags.contains(&"--json"));
        let params = r#"{"name":"slow","arguments":{"steps":2},"_meta":{"progressToken":7}}"#;
        let answer = legacy.request("tools/call", params).await;
        assert_eq!(answer.text(), "2 steps done");
        let reports = answer
            .notifications
            .iter()
            .filter(|message| message.contains("notifications/progress"));
        assert_eq!(reports.count(), 2, "{flags:?}");
    }
}

#[tokio::test]
async fn own_clients_talk_to_the_sdks_server_over_pipes() {
    let command = StdioCommand::new(binary("genlock-rmcp-server"), [""; 0]);

    let legacy = StdioClient::legacy(&command, LEGACY[0]).await;
    assert_eq!(
        legacy.call("echo", r#"{"text":"legacy"}"#).await.text(),
        "legacy"
    );

    let modern = StdioClient::modern(&command);
    assert!(modern.request("server/discover", "{}").await.is_result());
    assert_eq!(
        modern.call("echo", r#"{"text":"modern"}"#).await.text(),
        "modern"
    );
}

#[tokio::test]
async fn the_sdks_client_talks_to_the_fake_server() {
    let scratch = Scratch::new();
    for (era, lifecycle) in [
        ("both", Lifecycle::Legacy),
        ("both", Lifecycle::Auto),
        ("both", Lifecycle::Modern),
        ("legacy", Lifecycle::Auto),
        ("modern", Lifecycle::Auto),
    ] {
        let server = FakeServer::http(&scratch, "fake", &["--era", era]);
        let over_http = RmcpClient::connect(server.url(), lifecycle, Some("key")).await;
        let over_pipes =
            RmcpClient::spawn(&StdioCommand::new(fake_server(), ["--era", era]), lifecycle).await;

        for client in [over_http, over_pipes] {
            let client = client.unwrap_or_else(|error| panic!("{era} {lifecycle:?}: {error}"));
            assert!(
                client
                    .tool_names()
                    .await
                    .unwrap()
                    .contains(&"echo".to_owned())
            );
            let answer = client.call("echo", json!({"text": "hello"})).await.unwrap();
            assert_eq!(answer.texts, ["hello"], "{era} {lifecycle:?}");
            let reported = client.call("progress", json!({"steps": 3})).await.unwrap();
            assert_eq!(reported.texts, ["3 steps done"]);
            assert!(client.call("rpc_error", json!({"code": -7})).await.is_err());
            client.close().await.unwrap();
        }
    }
}
