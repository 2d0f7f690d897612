//! Servers that start on first use.

use futures_util::future::join_all;
use genlock_testkit::{clients::ModernClient, harness::GenlockOptions};
use serde_json::json;

use super::{call_of, control, has, logged, reload, server, started, told, wait_until};
use crate::stage::{self, stdio};

#[tokio::test]
async fn nothing_but_its_first_use_starts_a_lazy_server_and_many_uses_start_it_once() {
    let scratch = stage::scratch();
    let lazy = logged(
        &scratch,
        "lazy",
        &["--start-delay-ms", "200"],
        &json!({"lazy": true}),
    );
    let config =
        |other: &str| json!({"mcp_servers": {"lazy": lazy, "other": stdio(&["--name", other])}});
    let gateway = stage::start(&config("a"));
    stage::wait_ready(&gateway).await;
    let client = ModernClient::new(gateway.url());

    // Looking at it, checking the file, an edit, a file that says the same.
    let before = server(&gateway, "lazy").await;
    let shown = gateway.run(&["status"]);
    assert_eq!(gateway.run(&["check"]).code, Some(0));
    gateway.write_config(&config("b").to_string());
    let edited = reload(&gateway).await;
    let same = reload(&gateway).await;
    control(&gateway, "server.list", &json!({})).await.unwrap();
    client.call("genlock_list", "{}").await;
    client.call("other__echo", "{}").await;
    assert_eq!(
        (&before["state"], &before["ready"], &before["listed"]),
        (&json!("lazy"), &json!(true), &json!(false))
    );
    assert!(shown.stdout.contains("lazy"), "{}", shown.stdout);
    assert_eq!(edited["servers"]["changed"], json!(["other"]));
    for report in [edited, same] {
        assert_eq!(report["servers"]["unavailable"], json!([]));
    }
    assert_eq!(started(&scratch, "lazy"), 0);

    let batch = call_of("lazy", "instance");
    let direct = (0..10).map(|_| client.call("lazy__instance", "{}"));
    let batches = (0..10).map(|_| client.call("genlock_call", &batch));
    let (direct, batches) = tokio::join!(join_all(direct), join_all(batches));
    let instance = direct[0].text();
    for answer in direct {
        assert_eq!(answer.text(), instance);
    }
    for answer in batches {
        let results = &answer.structured()["results"];
        assert_eq!(results[0]["result"]["content"][0]["text"], json!(instance));
    }
    assert_eq!(started(&scratch, "lazy"), 1);
    assert_eq!(server(&gateway, "lazy").await["state"], "ready");
}

#[tokio::test]
async fn a_list_starts_a_lazy_server_that_was_never_listed_and_waits_for_it() {
    let scratch = stage::scratch();
    let lazy = logged(&scratch, "lazy", &[], &json!({"lazy": true}));
    let gateway = stage::start(&json!({"mcp_servers": {"lazy": lazy}}));
    let client = ModernClient::new(gateway.url());

    let names = client.tool_names().await;

    assert!(has(&names, "lazy"), "{names:?}");
    assert_eq!(started(&scratch, "lazy"), 1);
}

#[tokio::test]
async fn a_list_goes_without_a_lazy_server_that_takes_too_long_and_announces_it() {
    let scratch = stage::scratch();
    let flags = ["--start-delay-ms", "1500"];
    let lazy = logged(&scratch, "lazy", &flags, &json!({"lazy": true}));
    let gateway = stage::start(&json!({
        "first_list_wait_s": "100ms", "mcp_servers": {"lazy": lazy, "quick": stdio(&[])},
    }));
    stage::wait_for_state(&gateway, "quick", "ready").await;
    let client = ModernClient::new(gateway.url());
    let listener = client.listen(r#"{"toolsListChanged":true}"#).await;
    assert_eq!(started(&scratch, "lazy"), 0);

    let first = client.request("tools/list", "{}").await;
    listener
        .transcript()
        .wait_for("notifications/tools/list_changed")
        .await;
    let second = client.request("tools/list", "{}").await;

    assert!(has(&first.names(), "quick") && !has(&first.names(), "lazy"));
    let missing = json!([{"name": "lazy", "reason": "connecting"}]);
    assert_eq!(told(&first.result()), (missing, json!(0)));
    assert!(has(&second.names(), "lazy"));
    assert_eq!(told(&second.result()), (json!(null), json!(5000)));
    assert_eq!(started(&scratch, "lazy"), 1);
}

#[tokio::test]
async fn a_lazy_server_that_was_listed_once_is_listed_from_then_on_without_a_start() {
    let scratch = stage::scratch();
    let lazy = logged(&scratch, "lazy", &[], &json!({"lazy": true}));
    let config = json!({"mcp_servers": {"lazy": lazy}});
    let home = stage::scratch();
    home.write("genlock.yaml", &config.to_string());
    home.dir("state");
    let warmed = stage::run(&home, &["--state-dir", "state", "warm"], &[]);
    assert_eq!(warmed.code, Some(0), "{}", warmed.stderr);
    assert_eq!(started(&scratch, "lazy"), 1);
    let gateway = GenlockOptions::new(config.to_string())
        .scratch(home)
        .start();
    let client = ModernClient::new(gateway.url());

    let list = client.request("tools/list", "{}").await;
    let wrong = client
        .call("genlock_call", &call_of("lazy", "no-such-tool"))
        .await;
    let idle = server(&gateway, "lazy").await;
    let starts = started(&scratch, "lazy");
    let called = client.call("lazy__echo", r#"{"text":"hi"}"#).await;

    assert!(has(&list.names(), "lazy"));
    assert_eq!(told(&list.result()), (json!(null), json!(5000)));
    assert_eq!(
        wrong.structured()["validation_errors"][0]["message"],
        "server `lazy` has no tool `no-such-tool`"
    );
    assert_eq!(
        (&idle["state"], &idle["tools"], &idle["listed"]),
        (&json!("lazy"), &json!(23), &json!(true))
    );
    assert_eq!((starts, called.text().as_str()), (1, "hi"));
    assert_eq!(started(&scratch, "lazy"), 2);
}

#[tokio::test]
async fn an_uncached_lazy_server_is_asked_whether_it_has_the_tool() {
    let scratch = stage::scratch();
    let lazy = logged(&scratch, "lazy", &[], &json!({"lazy": true}));
    let gateway = stage::start(&json!({"mcp_servers": {"lazy": lazy}}));
    let client = ModernClient::new(gateway.url());

    let batch = client
        .call("genlock_call", &call_of("lazy", "no-such-tool"))
        .await;
    let direct = client.call("lazy__no-such-tool", "{}").await;

    let result = &batch.structured()["results"][0];
    assert_eq!(
        (&result["error"], &result["error_type"]),
        (
            &json!("server `lazy` has no tool `no-such-tool`"),
            &json!("ToolNotFoundError")
        )
    );
    assert_eq!(direct.error().code, -32602);
    assert_eq!(started(&scratch, "lazy"), 1);
}

#[tokio::test]
async fn a_lazy_server_whose_first_connect_failed_is_registered_and_not_ready() {
    let scratch = stage::scratch();
    let silent = json!({"lazy": true, "connect_timeout": 1});
    let gateway = stage::start(&json!({"mcp_servers": {
        "missing": {"command": "/no/such/program", "lazy": true},
        "silent": logged(&scratch, "silent", &["--no-answer"], &silent),
    }}));
    let client = ModernClient::new(gateway.url());
    for name in ["missing", "silent"] {
        assert_eq!(server(&gateway, name).await["ready"], true);
    }

    let missing = client
        .call("genlock_call", &call_of("missing", "echo"))
        .await;
    let silent = client
        .call("genlock_call", &call_of("silent", "echo"))
        .await;

    let error = |answer: &genlock_testkit::clients::Answer| {
        let result = answer.structured()["results"][0].clone();
        (
            result["error"].as_str().unwrap().to_owned(),
            result["error_type"].clone(),
        )
    };
    let kind = json!("CannotStartMcpServerError");
    let text = "server `missing` is parked: command not found: /no/such/program";
    assert_eq!(error(&missing), (text.to_owned(), kind.clone()));
    assert_eq!(
        error(&silent),
        (
            "server `silent` is cooldown: no answer within 1 s".to_owned(),
            kind
        )
    );
    let parked = server(&gateway, "missing").await;
    let cooling = server(&gateway, "silent").await;
    assert_eq!(
        (&parked["state"], &parked["ready"], &parked["last_error"]),
        (
            &json!("parked"),
            &json!(false),
            &json!("command not found: /no/such/program")
        )
    );
    assert_eq!(
        (&cooling["state"], &cooling["ready"], &cooling["last_error"]),
        (
            &json!("cooldown"),
            &json!(false),
            &json!("no answer within 1 s")
        )
    );
    assert_eq!(started(&scratch, "silent"), 4);
    let report = reload(&gateway).await;
    let names: Vec<_> = report["servers"]["unavailable"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].clone())
        .collect();
    assert_eq!(names, ["missing", "silent"]);
}

#[tokio::test]
async fn a_lazy_server_that_lacks_a_variable_is_unavailable_from_the_start() {
    let gateway = stage::start(&json!({"mcp_servers": {
        "lacking": {"command": "x", "args": ["${NO_SUCH_VARIABLE}"], "lazy": true},
    }}));
    let found = wait_until(&gateway, "lacking", "is parked", |server| {
        server["state"] == "parked"
    })
    .await;
    assert_eq!(found["reason"], "missing NO_SUCH_VARIABLE");
}

#[tokio::test]
async fn an_edited_lazy_server_is_asked_for_tools_that_the_one_before_did_not_have() {
    let scratch = stage::scratch();
    let config = |flags: &[&str]| {
        let lazy = logged(&scratch, "lazy", flags, &json!({"lazy": true}));
        json!({"mcp_servers": {"lazy": lazy}})
    };
    let gateway = stage::start(&config(&[]));
    let client = ModernClient::new(gateway.url());
    client.tool_names().await;
    for (turn, batch) in [(0, false), (1, true)] {
        let tool = format!("fresh{turn}");
        let edited = config(&["--tool-name", &tool]);
        gateway.write_config(&edited.to_string());
        let report = reload(&gateway).await;
        assert_eq!(report["servers"]["changed"], json!(["lazy"]));
        let edited = server(&gateway, "lazy").await;
        assert_eq!(edited["state"], "lazy", "an edit starts nothing");

        let answer = match batch {
            true => client.call("genlock_call", &call_of("lazy", &tool)).await,
            false => client.call(&format!("lazy__{tool}"), "{}").await,
        };

        let result = answer.result();
        assert!(!result.to_string().contains("no tool"), "{result}");
        assert_eq!(server(&gateway, "lazy").await["tools"], 24);
    }
    assert_eq!(started(&scratch, "lazy"), 3);
}
