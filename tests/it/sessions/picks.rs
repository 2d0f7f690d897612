//! What a session may use: its pick, its platform, and nothing else, whatever the config says later.

use genlock_testkit::harness::GenlockProcess;
use serde_json::{Value, json};

use super::{Desk, config, echo, pin, texts};
use crate::stage::{start, stdio, stdio_with};

fn three() -> Value {
    json!({"a": stdio(&[]), "b": stdio(&[]), "off": stdio_with(&[], &json!({"enabled": false}))})
}

fn gateway() -> GenlockProcess {
    start(&config(&three()))
}

#[tokio::test]
async fn a_session_gets_what_it_picked_and_nothing_else() {
    let gateway = gateway();
    let desk = Desk::of(&gateway).await;
    // The pick, the servers, the toolsets.
    let table = [
        (json!(["a"]), json!(["a"]), json!(["a"])),
        (
            json!(["terminal", "b"]),
            json!(["b"]),
            json!(["b", "terminal"]),
        ),
        (json!(["off"]), json!([]), json!([])),
        (json!(["no_mcp"]), json!([]), json!([])),
        (
            json!(["terminal", "no_mcp"]),
            json!([]),
            json!(["terminal"]),
        ),
        (json!(["a", "no_mcp"]), json!([]), json!([])),
        (
            json!(["terminal"]),
            json!(["a", "b"]),
            json!(["a", "b", "terminal"]),
        ),
        (json!([]), json!(["a", "b"]), json!(["a", "b"])),
    ];

    for (pick, servers, toolsets) in table {
        let request = pick.to_string();
        let created = desk
            .create(&gateway, &request, &json!({ "toolsets": pick }))
            .await;
        assert_eq!(
            (&created["servers"], &created["toolsets"], pin(&created)),
            (&servers, &toolsets, (1, 1)),
            "{pick}"
        );
        let session = created["session_id"].as_str().unwrap();
        let shown = desk.get(session).await;
        assert_eq!((&shown["pick"], &shown["servers"]), (&pick, &servers));
        let run = desk
            .run(session, &[echo("a"), echo("b"), echo("off")])
            .await;
        let expected = ["a", "b", "off"].map(|name| {
            match servers.as_array().unwrap().contains(&json!(name)) {
                true => name,
                false => "not_in_policy",
            }
        });
        assert_eq!(texts(&run), expected, "{pick}");
    }
}

#[tokio::test]
async fn a_misspelt_pick_is_refused_and_makes_no_session() {
    let gateway = gateway();
    let desk = Desk::of(&gateway).await;

    let params = super::creation(&gateway, "r", &json!({"toolsets": ["a", "termial"]}));
    let (reason, detail) = desk.refused("session.create", &params).await;

    assert_eq!(reason, "invalid_params");
    assert!(detail.as_str().unwrap().contains("termial"), "{detail}");
    let list = desk.ask("session.list", &json!({})).await;
    assert_eq!(list["sessions"], json!([]));
}

#[tokio::test]
async fn what_a_session_is_created_with_is_checked() {
    let gateway = gateway();
    let desk = Desk::of(&gateway).await;
    let file = gateway.scratch().write("file", "");
    let wrong = [
        json!({"cwd": "relative"}),
        json!({"cwd": "/no/such/directory"}),
        json!({"cwd": file}),
        json!({"cwd": 7}),
        json!({"request_id": ""}),
        json!({"source": "a\nb"}),
        json!({"toolsets": "a"}),
        json!({"title": "x".repeat(10_000)}),
        json!({"surprise": true}),
    ];

    for more in wrong {
        let params = super::creation(&gateway, "r", &more);
        let (reason, detail) = desk.refused("session.create", &params).await;
        assert_eq!(reason, "invalid_params", "{more}: {detail}");
    }
}

#[tokio::test]
async fn the_same_request_gives_the_same_session_and_with_other_parameters_a_conflict() {
    let gateway = gateway();
    let (desk, other) = (Desk::of(&gateway).await, Desk::of(&gateway).await);
    let first = desk
        .create(&gateway, "r", &json!({"toolsets": ["a"]}))
        .await;

    gateway.write_config(&config(&json!({"b": stdio(&[])})).to_string());
    desk.ask("config.reload", &json!({})).await;
    let again = other
        .create(&gateway, "r", &json!({"toolsets": ["a"]}))
        .await;
    let params = super::creation(&gateway, "r", &json!({"toolsets": ["b"]}));
    let (reason, _) = desk.refused("session.create", &params).await;

    assert_eq!(again, first);
    assert_eq!(reason, "conflict");
}

#[tokio::test]
async fn a_platforms_list_stays_an_allowlist_when_its_only_server_is_gone() {
    let mut with = config(&three());
    with["platform_toolsets"] = json!({"cli": ["terminal", "a"]});
    let mut without = config(&json!({"b": stdio(&[])}));
    without["platform_toolsets"] = with["platform_toolsets"].clone();
    let mut gateway = start(&with);
    let desk = Desk::of(&gateway).await;
    let before = desk.create(&gateway, "before", &json!({})).await;
    assert_eq!(before["servers"], json!(["a"]));

    gateway.stop();
    gateway.write_config(&without.to_string());
    gateway.start_again();
    let desk = Desk::of(&gateway).await;
    let session = before["session_id"].as_str().unwrap();
    let resumed = desk.resume(session).await;
    let after = desk.create(&gateway, "after", &json!({})).await;

    assert_eq!(resumed["session"], "applied");
    assert_eq!(desk.get(session).await["servers"], json!([]));
    assert_eq!(after["servers"], json!([]));
    assert_eq!(
        texts(&desk.run(session, &[echo("b")]).await),
        ["not_in_policy"]
    );
}
