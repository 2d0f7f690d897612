//! Links that tools hand out: they are shown as the lists show them, and stay readable while they are kept.

use super::*;

fn kept(most: u32) -> Value {
    json!({"resource_links": {"max_per_tenant": most}})
}

/// The notes among the resources that are listed.
async fn notes(client: &Party) -> Vec<String> {
    let mut uris = resources(client).await;
    uris.retain(|uri| uri.contains("note://") && !uri.ends_with("plain"));
    uris
}

fn links(numbers: &[u32]) -> Vec<String> {
    let numbers = numbers.iter();
    numbers
        .map(|number| format!("genlock://one/note://{number}"))
        .collect()
}

#[tokio::test]
async fn a_result_shows_links_and_embedded_resources_as_the_lists_do() {
    let gateway = gateway(&two(&[], &[]), &json!({})).await;
    for (name, client) in Party::one_of_each(&gateway).await {
        for server in ["old", "new"] {
            let result = client
                .call(&format!("{server}__links"), "{}")
                .await
                .result();
            let content = result["content"].as_array().unwrap();
            let shown: Vec<_> = content[..3].iter().map(|block| &block["uri"]).collect();
            let of = |number| format!("genlock://{server}/note://{number}");
            assert_eq!(shown, [&of(1), &of(2), &of(3)], "{name}");
            assert_eq!(content[3]["resource"]["uri"], of(1), "{name}");
            let read = read(&client, &of(2)).await.result();
            assert_eq!(read["contents"][0]["text"], "the text of note://2");
        }
        // What points at a panel stays as the host looks it up.
        let tools = client.request("tools/list", "{}").await;
        let raw = r#"{"ui":{"resourceUri":"ui://panels/main"}}"#;
        assert!(tools.result_raw().contains(raw), "{name}");
    }
}

#[tokio::test]
async fn a_link_in_a_batch_is_shown_and_kept_too() {
    let gateway = gateway(&json!({"one": stdio(&[])}), &json!({})).await;
    let [(_, client), ..] = Party::one_of_each(&gateway).await;
    let batch = r#"{"calls":[{"mcp_server":"one","tool":"links"}]}"#;

    let result = client.call("genlock_call", batch).await.structured();

    let content = &result["results"][0]["result"]["content"];
    assert_eq!(content[0]["uri"], "genlock://one/note://1");
    assert_eq!(notes(&client).await, links(&[1, 2, 3]));
}

#[tokio::test]
async fn the_newest_links_stay_listed_as_the_file_says() {
    let one = json!({"one": stdio(&[])});
    let gateway = gateway(&one, &kept(2)).await;
    for (_, client) in Party::one_of_each(&gateway).await {
        client.call("one__links", "{}").await;
        assert_eq!(notes(&client).await, links(&[2, 3]));
    }
    let [(_, client), ..] = Party::one_of_each(&gateway).await;

    // A lower limit counts at once, a higher one brings nothing back; no server is touched.
    for (sections, listed) in [
        (kept(1), &[3][..]),
        (json!({}), &[3]),
        (json!({"shutdown": {"drain_s": 7}}), &[3]),
    ] {
        let report = apply(&gateway, &config(&one, &sections)).await;
        assert_eq!(report["servers"]["unchanged"], 1, "{sections}");
        assert_eq!(notes(&client).await, links(listed), "{sections}");
    }
    client.call("one__links", "{}").await;
    assert_eq!(notes(&client).await, links(&[1, 2, 3]));

    // Those of an edited server are gone.
    let edited = json!({"one": stdio(&["--name", "edited"])});
    apply(&gateway, &config(&edited, &json!({}))).await;
    assert_eq!(notes(&client).await, links(&[]));
}
