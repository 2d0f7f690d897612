//! Clients hear when the tools change: after the new list is served, and once.

use genlock_testkit::{
    clients::{LegacyClient, ModernClient, StdioClient, Transcript},
    harness::{Control, FakeServer, GenlockProcess, Scratch, eventually_async},
};
use serde_json::{Value, json};

use crate::stage::{self, DEADLINE, stdio, stdio_command};

const CHANGED: &str = "notifications/tools/list_changed";

/// Every kind of client that can hear of changes.
struct Ears {
    watcher: ModernClient,
    heard: Vec<(&'static str, Transcript)>,
    _kept: Box<dyn std::any::Any>,
}

impl Ears {
    async fn open(gateway: &GenlockProcess) -> Self {
        let command = stdio_command(gateway);
        let watcher = ModernClient::new(gateway.url());
        let modern = watcher.listen(r#"{"toolsListChanged":true}"#).await;
        let legacy = LegacyClient::connect(gateway.url(), "2025-06-18").await;
        let stream = legacy.listen().await;
        let old_pipe = StdioClient::legacy(&command, "2025-11-25").await;
        let new_pipe = StdioClient::modern(&command);
        let listen = r#"{"notifications":{"toolsListChanged":true}}"#;
        new_pipe.start("subscriptions/listen", listen).await;
        new_pipe
            .transcript()
            .wait_for("notifications/subscriptions/acknowledged")
            .await;
        // The handshake is over when this is answered.
        old_pipe.tool_names().await;
        let heard = vec![
            ("modern over HTTP", modern.transcript().clone()),
            ("legacy over HTTP", stream.transcript().clone()),
            ("legacy over a pipe", old_pipe.transcript().clone()),
            ("modern over a pipe", new_pipe.transcript().clone()),
        ];
        Self {
            watcher,
            heard,
            _kept: Box::new((modern, legacy, stream, old_pipe, new_pipe)),
        }
    }

    fn counts(&self) -> Vec<(&'static str, usize)> {
        let count = |transcript: &Transcript| {
            transcript
                .methods()
                .iter()
                .filter(|method| *method == CHANGED)
                .count()
        };
        self.heard
            .iter()
            .map(|(name, transcript)| (*name, count(transcript)))
            .collect()
    }

    /// Waits until every client has heard `wanted` times; each time one hears it, the list must be the new one.
    async fn hear(&self, wanted: usize, extra: bool) {
        for (name, transcript) in &self.heard {
            let what = format!("{name} hears {wanted} changes");
            eventually_async(DEADLINE, &what, async || {
                let methods = transcript.methods();
                let heard = methods.iter().filter(|method| *method == CHANGED).count();
                (heard >= wanted).then_some(())
            })
            .await;
            let names = self.watcher.tool_names().await;
            assert_eq!(
                names.iter().any(|name| name.ends_with("__extra")),
                extra,
                "{name}"
            );
        }
        let expected: Vec<_> = self.heard.iter().map(|(name, _)| (*name, wanted)).collect();
        assert_eq!(self.counts(), expected);
    }
}

/// A gateway over one fake server with a control directory.
fn scene(era: &str, http: bool) -> (GenlockProcess, Control, Option<FakeServer>, Scratch) {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let flags = ["--era", era, "--control", control.arg()];
    let web = http.then(|| FakeServer::http(&scratch, "one", &flags));
    let definition = match &web {
        Some(server) => json!({"url": server.url()}),
        None => stdio(&flags),
    };
    let gateway = stage::start(&json!({"mcp_servers": {"one": definition}}));
    (gateway, control, web, scratch)
}

async fn every_client_hears_each_change_once(era: &str, http: bool) {
    let (gateway, control, _web, _scratch) = scene(era, http);
    stage::wait_ready(&gateway).await;
    let ears = Ears::open(&gateway).await;

    // Said, and nothing changed.
    control.pulse("announce").await;
    control.on("extra_tool");
    control.pulse("announce").await;
    ears.hear(1, true).await;
    control.off("extra_tool");
    control.pulse("announce").await;
    ears.hear(2, false).await;
    control.on("extra_tool");
    control.pulse("announce").await;
    ears.hear(3, true).await;
}

#[tokio::test]
async fn every_client_hears_each_change_of_a_legacy_server_on_a_pipe_once() {
    every_client_hears_each_change_once("legacy", false).await;
}

#[tokio::test]
async fn every_client_hears_each_change_of_a_modern_server_on_a_pipe_once() {
    every_client_hears_each_change_once("modern", false).await;
}

#[tokio::test]
async fn every_client_hears_each_change_of_a_legacy_server_over_http_once() {
    every_client_hears_each_change_once("legacy", true).await;
}

#[tokio::test]
async fn every_client_hears_each_change_of_a_modern_server_over_http_once() {
    every_client_hears_each_change_once("modern", true).await;
}

#[tokio::test]
async fn a_modern_listener_hears_only_what_it_asked_for_under_its_own_id() {
    let (gateway, control, _web, _scratch) = scene("modern", false);
    stage::wait_ready(&gateway).await;
    let client = ModernClient::new(gateway.url());
    // From here on it is known which prompts there are.
    client.request("prompts/list", "{}").await;
    let nothing = client.listen("{}").await;
    let prompts = client
        .listen(r#"{"promptsListChanged":true,"toolsListChanged":false}"#)
        .await;
    let tools = client
        .listen(r#"{"toolsListChanged":true,"promptsListChanged":true}"#)
        .await;

    control.on("extra_tool");
    control.pulse("announce").await;
    tools.transcript().wait_for(CHANGED).await;

    let said = |text: &Transcript| -> Vec<Value> {
        text.messages()
            .iter()
            .map(|text| serde_json::from_str(text).unwrap())
            .collect()
    };
    let message = |id: &str, method: &str, more: Value| {
        let id: u64 = id.parse().unwrap();
        let mut params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": id}});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"jsonrpc": "2.0", "method": method, "params": params})
    };
    let acknowledged = "notifications/subscriptions/acknowledged";
    let none = json!({"notifications": {}});
    assert_eq!(
        said(nothing.transcript()),
        [message(&nothing.id, acknowledged, none)]
    );
    assert_eq!(
        said(prompts.transcript()),
        [message(
            &prompts.id,
            acknowledged,
            json!({"notifications": {"promptsListChanged": true}})
        )]
    );
    let some = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    assert_eq!(
        said(tools.transcript()),
        [
            message(&tools.id, acknowledged, some),
            message(&tools.id, CHANGED, json!({}))
        ]
    );
}

#[tokio::test]
async fn a_list_that_cannot_be_read_again_never_replaces_a_good_one() {
    let (gateway, control, _web, _scratch) = scene("legacy", false);
    stage::wait_ready(&gateway).await;
    let client = ModernClient::new(gateway.url());
    let before = client.tool_names().await;

    control.on("extra_tool");
    control.on("fail_list");
    control.pulse("announce").await;
    let failed = eventually_async(DEADLINE, "the failure is known", async || {
        let error = stage::servers(&gateway).await[0]["last_error"].clone();
        error.as_str().map(str::to_owned)
    })
    .await;

    assert_eq!(
        failed,
        "tools/list: the server answered with error -32603: this listing is made to fail"
    );
    assert_eq!(client.tool_names().await, before);
    control.off("fail_list");
    control.pulse("announce").await;
    eventually_async(DEADLINE, "the list is read", async || {
        client
            .tool_names()
            .await
            .contains(&"one__extra".to_owned())
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_that_comes_late_is_announced() {
    let gateway = stage::start(&json!({"first_list_wait_s": 0, "mcp_servers": {
        "late": stdio(&["--start-delay-ms", "700"]),
    }}));
    let client = ModernClient::new(gateway.url());
    let listener = client.listen(r#"{"toolsListChanged":true}"#).await;
    let first = client.request("tools/list", "{}").await.result();

    listener.transcript().wait_for(CHANGED).await;

    assert_eq!(first["ttlMs"], 0);
    assert_eq!(
        first["_meta"]["genlock/unavailable"],
        json!([{"name": "late", "reason": "connecting"}])
    );
    let then = client.request("tools/list", "{}").await.result();
    assert_eq!(then["ttlMs"], 5000);
    assert_eq!(then["_meta"].get("genlock/unavailable"), None);
    assert!(client.tool_names().await.contains(&"late__echo".to_owned()));
}
