//! Lists that are longer than a page.

use genlock_testkit::{
    clients::{LegacyClient, ModernClient},
    harness::{Control, eventually_async},
};
use serde_json::json;

use crate::stage::{self, DEADLINE, Party, stdio};

/// What one page holds.
const PAGE: usize = 5_000;

#[tokio::test]
async fn a_long_list_comes_in_pages_that_are_whole_together() {
    let gateway = stage::start(&json!({"mcp_servers": {
        "a": stdio(&["--tools", "4000", "--page-size", "999"]), "b": stdio(&["--tools", "4000"]),
    }}));
    for (client, party) in Party::one_of_each(&gateway).await {
        let first = party.request("tools/list", "{}").await;
        assert_eq!(first.names().len(), PAGE, "{client}");

        let mut names = party.tool_names().await;

        assert_eq!(names.len(), 6 + 2 * 4023, "{client}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 6 + 2 * 4023, "{client}");
    }
}

#[tokio::test]
async fn a_cursor_is_good_for_its_own_view_until_the_tools_change() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let flags = ["--tools", "6000", "--control", control.arg()];
    let gateway = stage::start(&json!({"mcp_servers": {"one": stdio(&flags)}}));
    let client = ModernClient::new(gateway.url());
    let cursor = client.request("tools/list", "{}").await.result()["nextCursor"].clone();
    let params = json!({"cursor": cursor}).to_string();
    let legacy = LegacyClient::connect(gateway.url(), "2025-11-25").await;
    let flat = ModernClient::new(format!("{}?surface=flat", gateway.url()));

    // It depends on no connection, only on the view.
    let rest = legacy.request("tools/list", &params).await.names().len();
    assert_eq!(rest, 6 + 23 + 6000 - PAGE);
    let other_view = flat.request("tools/list", &params).await.error();
    let made_up = client
        .request("tools/list", r#"{"cursor":"AAAA"}"#)
        .await
        .error();
    let wrong = client
        .request("tools/list", r#"{"cursor":7}"#)
        .await
        .error();
    control.on("extra_tool");
    control.pulse("announce").await;
    let stale = eventually_async(DEADLINE, "the list changes", async || {
        let answer = client.request("tools/list", &params).await;
        (!answer.is_result()).then(|| answer.error())
    })
    .await;

    for (error, message) in [
        (&other_view, "invalid cursor"),
        (&made_up, "invalid cursor"),
        (&wrong, "`cursor` must be a string"),
        (&stale, "the list changed: list again from the first page"),
    ] {
        assert_eq!((error.code, error.message.as_str()), (-32602, message));
    }
    assert_eq!(stale.data, Some(json!({"reason": "cursor_stale"})));
}
