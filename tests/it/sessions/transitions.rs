//! What moves a session to another policy, and what does not.

use genlock_testkit::harness::Control;
use serde_json::json;

use super::{COMPLETED, Desk, config, echo, gateway, held_by, hold, pin, state, texts};
use crate::stage::{self, stdio};

#[tokio::test]
async fn an_edit_reaches_a_session_when_a_second_client_attaches_and_not_before() {
    let gateway = gateway(&json!({"old": stdio(&[])})).await;
    let (owner, later) = (Desk::of(&gateway).await, Desk::of(&gateway).await);
    let session = owner.session(&gateway, "r").await;
    let both = json!({"old": stdio(&[]), "new": stdio(&[])});
    gateway.write_config(&config(&both).to_string());

    let before = owner.run(&session, &[echo("old"), echo("new")]).await;
    let attached = later.resume(&session).await;
    let again = later.resume(&session).await;
    let after = owner.run(&session, &[echo("old"), echo("new")]).await;

    assert_eq!(texts(&before), ["old", "not_in_policy"]);
    assert_eq!(pin(&before), (1, 1));
    assert_eq!(
        (attached["session"].as_str(), pin(&attached)),
        (Some("applied"), (2, 2))
    );
    assert_eq!(
        (again["session"].as_str(), pin(&again)),
        (Some("unchanged"), (2, 2))
    );
    assert_eq!(texts(&after), ["old", "new"]);
    assert_eq!(pin(&after), (2, 2));
}

#[tokio::test]
async fn a_head_that_moved_without_the_session_reaches_it_only_by_its_own_wish() {
    let gateway = gateway(&json!({"old": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let (one, two) = (
        desk.session(&gateway, "1").await,
        desk.session(&gateway, "2").await,
    );
    let both = json!({"old": stdio(&[]), "new": stdio(&[])});
    gateway.write_config(&config(&both).to_string());

    desk.ask("config.reload", &json!({})).await;
    desk.ask("reload.mcp", &json!({"confirm": true})).await;
    let still = desk.get(&one).await;
    let reloaded = desk.reload(&one).await;

    assert_eq!((pin(&still), &still["servers"]), ((1, 1), &json!(["old"])));
    assert_eq!(
        (reloaded["session"].as_str(), pin(&reloaded)),
        (Some("applied"), (2, 2))
    );
    assert_eq!(reloaded["session_servers"], json!(["new", "old"]));
    let other = desk.get(&two).await;
    assert_eq!((pin(&other), &other["servers"]), ((1, 1), &json!(["old"])));
}

#[tokio::test]
async fn a_busy_session_names_what_is_in_the_way_and_moves_once_asked_again() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = gateway(&json!({"old": held_by(&control)})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let running = desk.submit(&session, &[hold("old", "k")]).await;
    control.wait_held("k").await;
    let queued = desk.submit(&session, &[echo("new")]).await;
    let both = json!({"old": held_by(&control), "new": stdio(&[])});
    gateway.write_config(&config(&both).to_string());

    let reloaded = desk.reload(&session).await;
    let resumed = desk.resume(&session).await;

    let blocked = json!([
        {"turn_id": running, "status": "running"},
        {"turn_id": queued, "status": "queued"},
    ]);
    assert_eq!(
        (reloaded["session"].as_str(), &reloaded["blocked_by"]),
        (Some("busy"), &blocked)
    );
    assert!(
        reloaded["message"]
            .as_str()
            .unwrap()
            .contains("once the turn finishes"),
        "{reloaded}"
    );
    assert_eq!(
        (
            resumed["session"].as_str(),
            &resumed["running"],
            &resumed["pending"]
        ),
        (Some("busy"), &json!(running), &json!([queued]))
    );
    assert_eq!(pin(&desk.get(&session).await), (1, 1));

    control.release("k");
    let queued = desk.end(&queued).await;
    // Queued under the policy before, it runs under that one.
    assert_eq!(
        (texts(&queued), pin(&queued)),
        (vec!["not_in_policy".to_owned()], (1, 1))
    );
    assert_eq!(desk.reload(&session).await["session"], "applied");
    assert_eq!(texts(&desk.run(&session, &[echo("new")]).await), ["new"]);
}

#[tokio::test]
async fn a_file_that_is_not_valid_refuses_the_move_and_not_the_attach() {
    let gateway = gateway(&json!({"old": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let both = json!({"old": stdio(&[]), "new": stdio(&[])});
    gateway.write_config(&config(&both).to_string());
    desk.ask("config.reload", &json!({})).await;
    gateway.write_config("mcp_servers: {old: {comand: x}}\n");

    let attached = desk.resume(&session).await;
    let reloaded = desk.reload(&session).await;

    // The head is newer, and still the session does not move.
    for refused in [&attached, &reloaded] {
        assert_eq!(refused["session"], "refused", "{refused}");
        assert!(
            refused["message"].as_str().unwrap().contains("comand"),
            "{refused}"
        );
    }
    assert_eq!(pin(&attached), (1, 1));
    assert_eq!(pin(&desk.get(&session).await), (1, 1));
    let run = desk.run(&session, &[echo("old")]).await;
    assert_eq!(
        (state(&run), texts(&run)),
        (COMPLETED, vec!["old".to_owned()])
    );
}

#[tokio::test]
async fn a_session_that_is_not_there_moves_no_head() {
    let gateway = gateway(&json!({"old": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let both = json!({"old": stdio(&[]), "new": stdio(&[])});
    gateway.write_config(&config(&both).to_string());

    for id in ["0123", "", "../x", "x y"] {
        let named = json!({ "session_id": id });
        let confirmed = json!({"session_id": id, "confirm": true});
        for (method, params) in [
            ("session.resume", &named),
            ("session.get", &named),
            ("session.close", &named),
            ("reload.mcp", &confirmed),
        ] {
            let (reason, _) = desk.refused(method, params).await;
            assert_eq!(reason, "not_found", "{method} {id}");
        }
    }

    let list = desk.ask("generation.list", &json!({})).await;
    assert_eq!(list["head"], 1);
}

#[tokio::test]
async fn a_dry_run_says_what_would_change_and_moves_nothing() {
    let gateway = gateway(&json!({"old": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let both = json!({"old": stdio(&[]), "new": stdio(&[])});
    gateway.write_config(&config(&both).to_string());

    let params = json!({"session_id": session, "confirm": true, "dry_run": true});
    let told = desk.ask("reload.mcp", &params).await;

    assert_eq!(told["status"], "dry_run");
    assert_eq!(told["report"]["servers"]["added"], json!(["new"]));
    assert_eq!(pin(&desk.get(&session).await), (1, 1));
    let list = desk.ask("generation.list", &json!({})).await;
    assert_eq!(list["head"], 1);
}

#[tokio::test]
async fn a_closed_session_takes_no_work_and_its_queue_is_cancelled() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = gateway(&json!({"a": held_by(&control)})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let running = desk.submit(&session, &[hold("a", "k")]).await;
    control.wait_held("k").await;
    let queued = desk.submit(&session, &[echo("a")]).await;

    let closed = desk
        .ask("session.close", &json!({ "session_id": session }))
        .await;
    let submission = Desk::submission(&session, &json!({"calls": [echo("a")]}));
    let (reason, _) = desk.refused("turn.submit", &submission).await;
    let both = json!({"a": held_by(&control), "new": stdio(&[])});
    gateway.write_config(&config(&both).to_string());
    let confirmed = json!({"session_id": session, "confirm": true});
    for (method, params) in [
        ("session.resume", json!({ "session_id": session })),
        ("reload.mcp", confirmed),
    ] {
        let (reason, detail) = desk.refused(method, &params).await;
        assert_eq!(reason, "not_found", "{method}");
        assert!(detail.as_str().unwrap().contains("closed"), "{detail}");
    }
    let list = desk.ask("generation.list", &json!({})).await;

    assert_eq!(list["head"], 1);
    assert!(closed["closed_at"].is_string(), "{closed}");
    assert_eq!(
        state(&desk.receipt(&running).await),
        ("done", Some("interrupted"))
    );
    assert_eq!(
        state(&desk.receipt(&queued).await),
        ("done", Some("cancelled"))
    );
    assert_eq!(reason, "not_found");
}
