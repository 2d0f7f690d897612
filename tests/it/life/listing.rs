//! Lists of tools that are read again.

use genlock_testkit::{
    clients::ModernClient,
    harness::{Control, DEADLINE, eventually_async},
};
use serde_json::json;

use super::{has, wait_until};
use crate::stage::{self, stdio};

#[tokio::test]
async fn many_announcements_are_one_listing_a_second() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = stage::start(&json!({"mcp_servers": {
        "one": stdio(&["--era", "legacy", "--control", control.arg()]),
    }}));
    stage::wait_ready(&gateway).await;
    let client = ModernClient::new(gateway.url());
    let began = std::time::Instant::now();

    for _ in 0..30 {
        control.pulse("announce").await;
    }
    control.on("extra_tool");
    control.pulse("announce").await;
    eventually_async(DEADLINE, "the last one is heard", async || {
        let names = client.tool_names().await;
        names.contains(&"one__extra".to_owned()).then_some(())
    })
    .await;

    // One with the connection, one for each second that passed, one for the last announcement.
    let lists = stage::count(&client, "one", "lists").await;
    let most = 3 + began.elapsed().as_secs();
    assert!(
        (2..=most).contains(&lists),
        "{lists} lists in {:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn an_empty_list_takes_the_place_of_a_good_one_once_it_is_confirmed() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = stage::start(&json!({"mcp_servers": {
        "one": stdio(&["--control", control.arg(), "--list-delay-ms", "1500"]),
    }}));
    stage::wait_ready(&gateway).await;
    let client = ModernClient::new(gateway.url());

    control.on("no_tools");
    control.pulse("announce").await;
    let doubted = wait_until(&gateway, "one", "says so", |one| {
        one["last_error"].is_string()
    })
    .await;
    let kept = client.tool_names().await;
    let believed = wait_until(&gateway, "one", "says so again", |one| one["tools"] == 0).await;

    let text = "the server lists no tools any more; the last list stays until it says so again";
    assert_eq!(
        (&doubted["last_error"], &doubted["tools"]),
        (&json!(text), &json!(23))
    );
    assert!(has(&kept, "one"));
    assert_eq!(believed["state"], "ready");
    assert!(!has(&client.tool_names().await, "one"));
}

#[tokio::test]
async fn a_listing_that_failed_is_made_again_without_another_announcement() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = stage::start(&json!({"mcp_servers": {
        "one": stdio(&["--control", control.arg()]),
    }}));
    stage::wait_ready(&gateway).await;
    let client = ModernClient::new(gateway.url());

    control.on("fail_list");
    control.on("extra_tool");
    control.pulse("announce").await;
    wait_until(&gateway, "one", "fails to list", |one| {
        one["last_error"].is_string()
    })
    .await;
    assert!(has(&client.tool_names().await, "one"));
    control.off("fail_list");

    eventually_async(DEADLINE, "it is listed", async || {
        let names = client.tool_names().await;
        names.contains(&"one__extra".to_owned()).then_some(())
    })
    .await;
}
