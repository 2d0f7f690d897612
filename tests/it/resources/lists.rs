//! What is listed, in every era over every transport.

use super::*;

#[tokio::test]
async fn every_client_is_shown_the_same_under_the_names_of_the_servers() {
    let gateway = gateway(&two(&[], &[]), &json!({})).await;

    for (name, client) in Party::one_of_each(&gateway).await {
        let both = |uris: [&str; 2]| -> Vec<String> {
            let of = |server: &str| uris.map(|uri| format!("genlock://{server}/{uri}"));
            [of("new"), of("old")].concat()
        };
        assert_eq!(
            resources(&client).await,
            both(["ui://panels/main", "note://plain"]),
            "{name}"
        );
        let templates = listed(
            &client,
            "resources/templates/list",
            "resourceTemplates",
            "uriTemplate",
        );
        assert_eq!(
            templates.await,
            [
                "genlock://new/note://{number}",
                "genlock://old/note://{number}"
            ],
            "{name}"
        );
        assert_eq!(
            prompts(&client).await,
            ["new__greet", "new__note", "old__greet", "old__note"],
            "{name}"
        );
        let answer = client.request("resources/list", "{}").await;
        let entry = r#"{"uri":"genlock://new/note://plain","name":"plain note","mimeType":"text/plain","x-extra":1.0}"#;
        assert!(answer.result_raw().contains(entry), "{name}");
        let hints = [answer.member_raw("ttlMs"), answer.member_raw("cacheScope")];
        let expected = match client.is_modern() {
            true => [Some("5000"), Some("\"private\"")],
            false => [None, None],
        };
        assert_eq!(hints, expected, "{name}");
    }
}

#[tokio::test]
async fn what_is_served_is_declared_to_both_eras() {
    let gateway = gateway(&two(&[], &[]), &json!({})).await;
    let declared = json!({
        "tools": {"listChanged": true}, "resources": {"listChanged": true},
        "prompts": {"listChanged": true}, "completions": {},
    });

    let [(_, modern), (_, legacy), ..] = Party::one_of_each(&gateway).await;
    let discovered = modern.request("server/discover", "{}").await.result();
    assert_eq!(discovered["capabilities"], declared);
    let Party::Legacy(legacy) = legacy else {
        panic!("the second is the legacy one");
    };
    assert_eq!(legacy.initialized().result()["capabilities"], declared);
}

#[tokio::test]
async fn a_server_that_does_not_declare_a_capability_is_never_asked() {
    let scratch = stage::scratch();
    let journals = ["all.journal", "tools.journal"].map(|name| scratch.join(name));
    let [all, tools] = journals.each_ref().map(|path| path.to_str().unwrap());
    let servers = json!({
        "all": stdio(&["--journal", all]),
        "tools": stdio(&["--journal", tools, "--tools-only"]),
    });
    let gateway = gateway(&servers, &json!({})).await;
    let [(_, client), ..] = Party::one_of_each(&gateway).await;

    assert_eq!(prompts(&client).await, ["all__greet", "all__note"]);

    let others = |journal| -> Vec<String> {
        let mut methods = asked(&scratch, journal);
        methods.retain(|method| method.starts_with("resources") || method.starts_with("prompts"));
        methods.sort();
        methods
    };
    assert_eq!(
        others("all.journal"),
        ["prompts/list", "resources/list", "resources/templates/list"]
    );
    assert_eq!(others("tools.journal"), [""; 0]);
}

#[tokio::test]
async fn raw_uris_are_listed_as_the_servers_wrote_them_unless_two_servers_have_the_same() {
    let one = json!({"one": stdio(&[])});
    let gateway = gateway(&one, &json!({"resources": {"uris": "raw"}})).await;
    let [(_, client), ..] = Party::one_of_each(&gateway).await;
    assert_eq!(
        resources(&client).await,
        ["ui://panels/main", "note://plain"]
    );

    // A reload puts it in force, and touches no server.
    let report = apply(&gateway, &config(&one, &json!({}))).await;
    assert_eq!(report["servers"]["unchanged"], 1);
    assert_eq!(
        resources(&client).await,
        [
            "genlock://one/ui://panels/main",
            "genlock://one/note://plain"
        ]
    );

    let raw = json!({"resources": {"uris": "raw"}});
    let both = json!({"one": stdio(&[]), "two": stdio(&[])});
    apply(&gateway, &config(&both, &raw)).await;
    let both = eventually_async(DEADLINE, "both are listed", async || {
        let uris = resources(&client).await;
        (uris.len() == 4).then_some(uris)
    })
    .await;
    assert!(
        both.iter().all(|uri| uri.starts_with("genlock://")),
        "{both:?}"
    );
}

#[tokio::test]
async fn what_was_listed_is_shown_after_a_restart_without_starting_a_lazy_server() {
    let scratch = stage::scratch();
    let starts = scratch.join("starts");
    let flags = ["--start-log", starts.to_str().unwrap()];
    let mut lazy = stdio(&flags);
    lazy["lazy"] = json!(true);
    let servers = json!({ "lazy": lazy });
    let mut gateway = stage::start(&config(&servers, &json!({})));
    let client = Party::Modern(genlock_testkit::clients::ModernClient::new(gateway.url()));

    // The first list starts it, and waits.
    assert_eq!(prompts(&client).await, ["lazy__greet", "lazy__note"]);
    assert_eq!(genlock_testkit::harness::starts(&starts).len(), 1);
    eventually_async(DEADLINE, "it is in the cache", async || {
        let files = std::fs::read_dir(gateway.state_dir().join("schema-cache")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.ends_with(".offers.json"))
            .count()
            .eq(&1)
            .then_some(())
    })
    .await;
    gateway.stop();
    gateway.start_again();

    let client = Party::Modern(genlock_testkit::clients::ModernClient::new(gateway.url()));
    assert_eq!(prompts(&client).await, ["lazy__greet", "lazy__note"]);
    assert_eq!(resources(&client).await.len(), 2);
    assert_eq!(genlock_testkit::harness::starts(&starts).len(), 1);
    let note = read(&client, "genlock://lazy/note://1").await.result();
    assert_eq!(note["contents"][0]["text"], "the text of note://1");
    assert_eq!(genlock_testkit::harness::starts(&starts).len(), 2);
}

#[tokio::test]
async fn a_cursor_of_somebody_elses_making_is_refused() {
    let gateway = gateway(&two(&[], &[]), &json!({})).await;
    for (name, client) in Party::one_of_each(&gateway).await {
        for method in ["resources/list", "resources/templates/list", "prompts/list"] {
            for cursor in [r#""AAAA""#, r#""""#, "7"] {
                let params = format!(r#"{{"cursor":{cursor}}}"#);
                let error = client.request(method, &params).await.error();
                assert_eq!(error.code, -32602, "{name}: {method} {cursor}");
            }
        }
    }
}
