//! Clients hear when resources and prompts change, and only of what changed.

use genlock_testkit::{
    clients::{LegacyClient, ModernClient, StdioClient, Transcript},
    harness::Control,
};

use super::*;

const RESOURCES: &str = "notifications/resources/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const TOOLS: &str = "notifications/tools/list_changed";

fn heard(transcript: &Transcript) -> Vec<String> {
    let mut methods = transcript.methods();
    methods.retain(|method| method.ends_with("list_changed"));
    methods
}

async fn hear(ears: &[(&str, Transcript)], expected: &[&str]) {
    for (name, transcript) in ears {
        eventually_async(
            DEADLINE,
            &format!("{name} hears {expected:?}"),
            async || (heard(transcript).len() >= expected.len()).then_some(()),
        )
        .await;
        assert_eq!(heard(transcript), expected, "{name}");
    }
}

async fn every_client_hears(era: &str) {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let servers = json!({"one": stdio(&["--era", era, "--control", control.arg()])});
    let gateway = gateway(&servers, &json!({})).await;
    let watcher = Party::Modern(ModernClient::new(gateway.url()));
    let before = (resources(&watcher).await, prompts(&watcher).await);

    let filter = r#"{"resourcesListChanged":true,"promptsListChanged":true}"#;
    let modern = ModernClient::new(gateway.url()).listen(filter).await;
    let only_tools = ModernClient::new(gateway.url())
        .listen(r#"{"toolsListChanged":true}"#)
        .await;
    let legacy = LegacyClient::connect(gateway.url(), "2025-11-25").await;
    let stream = legacy.listen().await;
    let pipe = StdioClient::legacy(&stage::stdio_command(&gateway), "2025-11-25").await;
    pipe.tool_names().await;
    let ears = [
        ("modern over HTTP", modern.transcript().clone()),
        ("legacy over HTTP", stream.transcript().clone()),
        ("legacy over a pipe", pipe.transcript().clone()),
    ];

    control.on("extra_resource");
    control.pulse("announce_resources").await;
    hear(&ears, &[RESOURCES]).await;
    let extra = "genlock://one/note://extra".to_owned();
    assert!(resources(&watcher).await.contains(&extra));
    control.on("extra_prompt");
    control.pulse("announce_prompts").await;
    hear(&ears, &[RESOURCES, PROMPTS]).await;
    assert!(prompts(&watcher).await.contains(&"one__extra".to_owned()));

    // A list that cannot be read replaces nothing.
    control.off("extra_resource");
    control.off("extra_prompt");
    control.on("fail_offers");
    control.pulse("announce_resources").await;
    control.on("extra_tool");
    control.pulse("announce").await;
    only_tools.transcript().wait_for(TOOLS).await;
    assert!(resources(&watcher).await.contains(&extra));
    control.off("fail_offers");
    control.pulse("announce_resources").await;
    eventually_async(DEADLINE, "the lists are read again", async || {
        let now = (resources(&watcher).await, prompts(&watcher).await);
        (now == before).then_some(())
    })
    .await;
    assert_eq!(heard(only_tools.transcript()), [TOOLS]);
}

#[tokio::test]
async fn every_client_hears_what_changed_of_a_legacy_server() {
    every_client_hears("legacy").await;
}

#[tokio::test]
async fn every_client_hears_what_changed_of_a_modern_server() {
    every_client_hears("modern").await;
}
