//! Every way to call a server, and the connections behind it.

use genlock_testkit::{
    clients::{Answer, LegacyClient, ModernClient},
    harness::{Control, FakeServer, GenlockProcess, eventually_async, is_alive},
};
use serde_json::json;
use tokio::task::JoinSet;

use super::{CHANGED, ask, config, gateway, is_revoked, lift, owner, reason, revoke};
use crate::stage::{self, DEADLINE, servers, stdio, wait_for_state, wait_ready};

const ECHO: &str = r#"{"text":"here"}"#;

#[tokio::test]
async fn a_revoked_tool_is_refused_on_every_path_of_the_front_door_and_its_server_serves_on() {
    stage::scratch();
    let (gateway, control) = gateway(&json!({"one": stdio(&[]), "two": stdio(&[])})).await;
    let modern = ModernClient::new(gateway.url());
    let legacy = LegacyClient::connect(gateway.url(), "2025-06-18").await;
    let stream = legacy.listen().await;
    let before = modern.tool_names().await;

    let number = revoke(&control, "tool", "one/echo").await;

    // From the moment that the answer is there, and with no other step between.
    let (old, new) = (
        legacy.call("one__echo", ECHO).await,
        modern.call("one__echo", ECHO).await,
    );
    let calls = json!({"calls": [
        {"mcp_server": "one", "tool": "echo", "arguments": {"text": "x"}},
        {"mcp_server": "two", "tool": "echo", "arguments": {"text": "x"}},
    ]});
    let batch = modern.call("genlock_call", &calls.to_string()).await;
    assert!(is_revoked(&old) && is_revoked(&new));
    let text =
        format!("tool `one/echo` is revoked: leaked (an operator can lift revocation {number})");
    assert_eq!(new.text(), text);
    let results = batch.structured()["results"].clone();
    assert_eq!(results[0]["error_type"], "Revoked", "{results}");
    assert_eq!(
        (&results[0]["error"], &results[1]["success"]),
        (&json!(text), &json!(true))
    );
    assert_eq!(reason(&modern.call("two__echo", ECHO).await), None);
    assert!(!modern.call("one__counts", "{}").await.is_tool_error());

    stream.transcript().wait_for(CHANGED).await;
    let names = modern.tool_names().await;
    let expected: Vec<_> = before.iter().filter(|name| *name != "one__echo").collect();
    assert_eq!(names.iter().collect::<Vec<_>>(), expected);
    lift(&control, &number).await;
    assert_eq!(reason(&legacy.call("one__echo", ECHO).await), None);
    assert_eq!(modern.tool_names().await, before);
    let told = || {
        let methods = stream.transcript().methods();
        methods.iter().filter(|method| *method == CHANGED).count()
    };
    eventually_async(DEADLINE, "it is told twice", async || {
        (told() == 2).then_some(())
    })
    .await;
}

/// Makes a call that lasts until it is released.
fn hold_call(gateway: &GenlockProcess) -> JoinSet<Answer> {
    let client = ModernClient::new(gateway.url());
    let mut held = JoinSet::new();
    held.spawn(async move { client.call("one__hold", r#"{"key":"k"}"#).await });
    held
}

#[tokio::test]
async fn a_revoked_server_ends_with_its_calls_and_is_started_by_nothing_but_the_lift() {
    let scratch = stage::scratch();
    let hold = Control::new(&scratch, "control");
    let (gateway, control) = gateway(&json!({"one": stdio(&["--control", hold.arg()])})).await;
    let client = ModernClient::new(gateway.url());
    let pid = servers(&gateway).await[0]["pid"].as_u64().unwrap();
    let pid = u32::try_from(pid).unwrap();
    let mut held = hold_call(&gateway);
    hold.wait_held("k").await;

    let number = revoke(&control, "server", "one").await;

    let ended = held.join_next().await.unwrap().unwrap();
    assert!(is_revoked(&ended), "{}", ended.body_text());
    assert_eq!(ended.result()["_meta"]["genlock/may_have_run"], true);
    eventually_async(DEADLINE, "its process ends", async || {
        (!is_alive(pid)).then_some(())
    })
    .await;
    let parked = wait_for_state(&gateway, "one", "parked").await;
    assert_eq!(
        (&parked["reason"], parked.get("retry_at"), parked.get("pid")),
        (&json!("revoked: leaked"), None, None)
    );
    for (method, params) in [
        ("server.probe", json!({"name": "one"})),
        ("server.restart", json!({"name": "one"})),
    ] {
        let refused = control.request(method, &params.to_string()).await.error();
        assert_eq!(refused.message, "revoked", "{method}");
    }
    ask(&control, "config.reload", json!({"wait_s": 0})).await;
    assert!(is_revoked(&client.call("one__echo", ECHO).await));
    let still = &servers(&gateway).await[0];
    assert_eq!(
        (&still["state"], &still["restarts"]),
        (&json!("parked"), &json!(0))
    );

    lift(&control, &number).await;
    wait_ready(&gateway).await;
    assert_eq!(reason(&client.call("one__echo", ECHO).await), None);
    let again = servers(&gateway).await[0]["pid"].clone();
    assert!(again.is_u64() && again != pid, "{again}");
}

#[tokio::test]
async fn calls_in_flight_over_http_end_with_the_connection_to_a_revoked_server() {
    let scratch = stage::scratch();
    for era in ["modern", "legacy"] {
        let hold = Control::new(&scratch, &format!("control of {era}"));
        let flags = ["--era", era, "--control", hold.arg()];
        let web = FakeServer::http(&scratch, era, &flags);
        let (gateway, control) = gateway(&json!({"one": {"url": web.url()}})).await;
        let mut held = hold_call(&gateway);
        hold.wait_held("k").await;

        revoke(&control, "server", "one").await;

        assert!(
            is_revoked(&held.join_next().await.unwrap().unwrap()),
            "{era}"
        );
        hold.release("k");
    }
}

#[tokio::test]
async fn what_a_revoked_server_offers_beside_tools_is_gone_and_refused() {
    stage::scratch();
    let (gateway, control) = gateway(&json!({"one": stdio(&[]), "two": stdio(&[])})).await;
    let client = ModernClient::new(gateway.url());
    let lists = [
        ("prompts/list", "prompts", "name"),
        ("resources/list", "resources", "uri"),
        (
            "resources/templates/list",
            "resourceTemplates",
            "uriTemplate",
        ),
    ];
    let mut first = Vec::new();
    for (method, field, key) in lists {
        let listed = eventually_async(DEADLINE, method, async || {
            let listed = client.request(method, "{}").await.result()[field].clone();
            let both = ["one", "two"]
                .iter()
                .all(|server| listed.to_string().contains(server));
            both.then_some(listed)
        });
        let listed = listed.await;
        let own = listed.as_array().unwrap().iter();
        let mut own = own.filter(|entry| entry[key].as_str().unwrap().contains("one"));
        first.push(own.next().unwrap()[key].clone());
    }

    let number = revoke(&control, "server", "one").await;

    let (prompt, resource) = (json!({"name": first[0]}), json!({"uri": first[1]}));
    let reference = json!({
        "ref": {"type": "ref/prompt", "name": first[0]},
        "argument": {"name": "x", "value": ""},
    });
    for (method, params) in [
        ("prompts/get", prompt),
        ("resources/read", resource),
        ("completion/complete", reference),
    ] {
        let error = client.request(method, &params.to_string()).await.error();
        assert_eq!(error.data.unwrap()["reason"], "revoked", "{method}");
    }
    for (method, field, _) in lists {
        let listed = eventually_async(DEADLINE, method, async || {
            let listed = client.request(method, "{}").await.result()[field].to_string();
            (!listed.contains("one")).then_some(listed)
        });
        assert!(listed.await.contains("two"), "{method}");
    }
    lift(&control, &number).await;
    wait_ready(&gateway).await;
    let read = json!({"uri": first[1]}).to_string();
    assert!(client.request("resources/read", &read).await.is_result());
}

#[tokio::test]
async fn a_pinned_view_heeds_what_is_revoked_after_it_was_pinned() {
    let scratch = stage::scratch();
    let servers = json!({"one": stdio(&["--tool-name", "first"]), "two": stdio(&[])});
    let (gateway, control) = gateway(&servers).await;
    let params = json!({"request_id": "r", "source": "cli", "cwd": scratch.path()});
    let session = ask(&control, "session.create", params).await;
    let token = format!("Bearer {}", session["token"].as_str().unwrap());
    let url = session["mcp_url"].as_str().unwrap();
    let pinned = ModernClient::new(url).with_header("authorization", &token);
    let stream = pinned.listen(r#"{"toolsListChanged":true}"#).await;
    assert!(!pinned.call("one__first", "{}").await.is_tool_error());
    // From here on the view has an instance of its own, which no head knows.
    let other = json!({"one": stdio(&["--tool-name", "second"]), "two": stdio(&[])});
    gateway.write_config(&config(&other).to_string());
    ask(&control, "config.reload", json!({})).await;
    assert!(!pinned.call("one__first", "{}").await.is_tool_error());

    let number = revoke(&control, "server", "one").await;

    assert!(is_revoked(&pinned.call("one__first", "{}").await));
    assert!(is_revoked(
        &ModernClient::new(gateway.url())
            .call("one__second", "{}")
            .await
    ));
    assert_eq!(reason(&pinned.call("two__echo", ECHO).await), None);
    // Nobody asked for anything on the view: it is told by itself.
    stream.transcript().wait_for(CHANGED).await;
    let names = pinned.tool_names().await;
    assert!(
        !names.iter().any(|name| name.starts_with("one__")),
        "{names:?}"
    );
    let moved = ask(
        &control,
        "session.resume",
        json!({"session_id": session["session_id"]}),
    )
    .await;
    assert_eq!(moved["session"], "applied");
    assert!(is_revoked(&pinned.call("one__second", "{}").await));
    lift(&control, &number).await;
    wait_ready(&gateway).await;
    eventually_async(DEADLINE, "the view serves it again", async || {
        let answer = pinned.call("one__second", "{}").await;
        (answer.is_result() && !answer.is_tool_error()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_revocation_in_the_front_door_holds_for_each_tenant_and_says_nothing_to_others() {
    stage::scratch();
    let gateway = stage::start(&json!({
        "config_reload": {"enabled": false},
        "tool_access": {"mode": "front_door"},
        "auth": {"enabled": true, "role_assignments": [
            {"principal": "group:callers", "role": "service-account"},
        ]},
        "mcp_servers": {"one": {
            "command": stdio(&[])["command"], "args": [], "scope": "tenant",
            "tools": {"allow": ["echo"]},
        }},
    }));
    let client = |name: &str, tenant: Option<&str>| {
        let tenant = tenant.map_or(vec![], |tenant| vec!["--tenant", tenant]);
        let args = [
            "keys",
            "create",
            "--format",
            "json",
            "--principal",
            name,
            "--group",
            "callers",
        ];
        let made = gateway.run(&[&args, &tenant[..]].concat());
        let key: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
        ModernClient::new(gateway.url()).with_header("X-API-Key", key["key"].as_str().unwrap())
    };
    let (s, t, nobody) = (
        client("s", Some("s")),
        client("t", Some("t")),
        client("n", None),
    );
    for tenant in [&s, &t] {
        eventually_async(DEADLINE, "the tenant is served", async || {
            (tenant.tool_names().await == ["one__echo"]).then_some(())
        })
        .await;
        assert_eq!(reason(&tenant.call("one__echo", ECHO).await), None);
    }
    let unseen = [
        &nobody.call("one__echo", ECHO).await,
        &s.call("one__counts", "{}").await,
    ]
    .map(|answer| answer.body_text());

    revoke(&owner(&gateway).await, "server", "one").await;

    for tenant in [&s, &t] {
        assert!(is_revoked(&tenant.call("one__echo", ECHO).await));
    }
    let still = [
        &nobody.call("one__echo", ECHO).await,
        &s.call("one__counts", "{}").await,
    ]
    .map(|answer| answer.body_text());
    let without_id = |text: &String| {
        let mut answer: serde_json::Value = serde_json::from_str(text).unwrap();
        answer["id"].take();
        answer
    };
    assert_eq!(
        still.each_ref().map(without_id),
        unseen.each_ref().map(without_id)
    );
    let own = eventually_async(
        DEADLINE,
        "the instances of tenants are closed",
        async || {
            let listed = ask(&owner(&gateway).await, "server.list", json!({})).await;
            let of = |tenant: &str| listed["tenants"][tenant][0]["state"] == "parked";
            (of("s") && of("t")).then_some(listed)
        },
    );
    assert_eq!(own.await["tenants"]["s"][0].get("pid"), None);
}
