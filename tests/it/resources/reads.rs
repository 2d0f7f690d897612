//! `resources/read`: which URI leads where, and what comes back.

use super::*;

#[tokio::test]
async fn a_resource_is_read_by_its_shown_uri_in_every_era() {
    let gateway = gateway(&two(&[], &[]), &json!({})).await;
    for (name, client) in Party::one_of_each(&gateway).await {
        for server in ["old", "new"] {
            // One that is listed, one that a template makes.
            for uri in ["note://plain", "note://2", "ui://panels/main"] {
                let shown = format!("genlock://{server}/{uri}");
                let answer = read(&client, &shown).await;
                let result = answer.result();
                assert_eq!(result["contents"][0]["uri"], shown.as_str(), "{name}");
                let hints = [&result["resultType"], &result["cacheScope"]];
                let expected = match client.is_modern() {
                    true => [&json!("complete"), &json!("private")],
                    false => [&Value::Null, &Value::Null],
                };
                assert_eq!(hints, expected, "{name} {shown}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_not_there_is_refused_by_the_code_of_the_era() {
    let gateway = gateway(&two(&[], &[]), &json!({})).await;
    for (name, client) in Party::one_of_each(&gateway).await {
        let expected = if client.is_modern() { -32602 } else { -32002 };
        for uri in [
            "genlock://old/note://none",
            "genlock://new/note://none",
            "genlock://nobody/note://1",
            "note://none/at/all",
            "genlock://old/",
            "",
        ] {
            let error = read(&client, uri).await.error();
            assert_eq!(error.code, expected, "{name}: {uri}");
        }
        // The server's error names the URI that the client knows.
        let answer = read(&client, "genlock://old/note://none").await;
        assert!(
            answer
                .body_text()
                .contains(r#""uri":"genlock://old/note://none""#)
        );
    }
}

#[tokio::test]
async fn a_servers_own_uri_leads_where_exactly_one_server_offers_it() {
    let one = json!({"one": stdio(&[]), "bare": stdio(&["--tools-only"])});
    let gateway = gateway(&one, &json!({})).await;
    let [(_, client), ..] = Party::one_of_each(&gateway).await;
    resources(&client).await;
    for uri in ["ui://panels/main", "note://plain", "note://3"] {
        let result = read(&client, uri).await.result();
        assert_eq!(result["contents"][0]["uri"], format!("genlock://one/{uri}"));
    }

    let both = json!({"one": stdio(&[]), "two": stdio(&[])});
    apply(&gateway, &config(&both, &json!({}))).await;
    eventually_async(DEADLINE, "both are listed", async || {
        (resources(&client).await.len() == 4).then_some(())
    })
    .await;
    let error = read(&client, "note://plain").await.error();
    assert_eq!(
        (error.code, error.message.as_str()),
        (
            -32602,
            "unknown resource: note://plain; several servers offer it: genlock://one/note://plain, genlock://two/note://plain"
        )
    );
}

#[tokio::test]
async fn raw_uris_come_back_raw() {
    let one = json!({"one": stdio(&[])});
    let gateway = gateway(&one, &json!({"resources": {"uris": "raw"}})).await;
    for (name, client) in Party::one_of_each(&gateway).await {
        resources(&client).await;
        for uri in ["note://plain", "genlock://one/note://plain"] {
            let result = read(&client, uri).await.result();
            assert_eq!(result["contents"][0]["uri"], "note://plain", "{name}");
        }
        let links = client.call("one__links", "{}").await.result();
        assert_eq!(links["content"][0]["uri"], "note://1", "{name}");
    }
}

#[tokio::test]
async fn a_server_that_is_gone_is_no_missing_resource() {
    let broken = json!({"broken": {"command": "/nonexistent/server"}});
    let gateway = stage::start(&config(&broken, &json!({})));
    let client = Party::Modern(genlock_testkit::clients::ModernClient::new(gateway.url()));
    stage::wait_for_state(&gateway, "broken", "parked").await;

    let answer = read(&client, "genlock://broken/note://1").await;

    let error = answer.error();
    assert_eq!(error.code, 4001);
    let reason = r#""reason":"mcp_servers_unavailable""#;
    assert!(
        answer.body_text().contains(reason),
        "{}",
        answer.body_text()
    );
}
