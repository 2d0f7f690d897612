//! What is refused, and that nothing comes of it.

use genlock_authority::{Caller, NewSessionRequest};
use genlock_policy::Actor;
use genlock_store::{TurnId, TurnOutcome, TurnStatus};

use crate::stage::{COMPLETED, Stage, caller, submission};

#[tokio::test]
async fn the_same_request_is_the_same_session_and_another_one_is_a_conflict() {
    let stage = Stage::new(&["old"]).await;
    let first = stage.create("a", Some(&["old"])).await;

    let again = stage.create("a", Some(&["old"])).await;
    let other = stage.request("a", None);
    let other = stage
        .authority
        .create(&caller(), other, &stage.head())
        .await;

    assert_eq!(again, first);
    assert_eq!(other.unwrap_err().code(), "conflict");
}

#[tokio::test]
async fn a_request_that_is_none_makes_no_session() {
    let stage = Stage::new(&["old"]).await;
    let good = stage.request("a", None);
    let cases = [
        NewSessionRequest {
            cwd: "relative".into(),
            ..good.clone()
        },
        NewSessionRequest {
            cwd: "/no/such/directory".into(),
            ..good.clone()
        },
        NewSessionRequest {
            request_id: String::new(),
            ..good.clone()
        },
        NewSessionRequest {
            request_id: "x".repeat(257),
            ..good.clone()
        },
        NewSessionRequest {
            source: "a\nb".to_owned(),
            ..good.clone()
        },
        NewSessionRequest {
            toolsets: Some(vec!["olld".to_owned()]),
            ..good
        },
    ];
    for request in cases {
        let refused = stage
            .authority
            .create(&caller(), request, &stage.head())
            .await;
        assert_eq!(refused.unwrap_err().code(), "invalid_params");
    }
    assert_eq!(stage.authority.list(&caller(), None, 10).await.unwrap(), []);
}

#[tokio::test]
async fn the_terminal_is_a_toolset_wherever_no_list_names_it() {
    let stage = Stage::new(&["old"]).await;
    let other_source = NewSessionRequest {
        source: "gui".to_owned(),
        ..stage.request("a", Some(&["terminal", "old"]))
    };

    let created = stage
        .authority
        .create(&caller(), other_source, &stage.head())
        .await
        .unwrap();

    let toolsets: Vec<_> = created.selection.toolsets.into_iter().collect();
    assert_eq!(toolsets, ["old", "terminal"]);
}

#[tokio::test]
async fn what_belongs_to_somebody_else_is_not_there() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let turn = stage.submit(&a, "one").await;
    let run = stage.next_run().await;
    let other = |operator| Caller {
        actor: Actor::new("uid:8"),
        operator,
    };
    let stranger = other(false);

    let view = stage.authority.view(&stranger, &a).await.unwrap_err();
    let close = stage.authority.close(&stranger, &a).await.unwrap_err();
    let receipt = stage.authority.turn(&stranger, &turn.id).await.unwrap_err();
    let submitted = submission("x");
    let submit = stage
        .authority
        .submit(&stranger, &a, submitted.id, submitted.payload)
        .await;
    let unknown = stage
        .authority
        .view(&caller(), "no such")
        .await
        .unwrap_err();
    let missing = TurnId::new("none");
    let missing = stage.authority.turn(&caller(), &missing).await.unwrap_err();

    let codes = [view, close, receipt, submit.unwrap_err(), unknown, missing].map(|e| e.code());
    assert_eq!(codes, ["not_found"; 6]);
    assert_eq!(stage.authority.list(&stranger, None, 10).await.unwrap(), []);
    assert!(stage.authority.view(&other(true), &a).await.is_ok());
    run.complete();
}

#[tokio::test]
async fn the_same_submission_is_the_same_turn_and_another_payload_is_a_conflict() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let first = stage.submit(&a, "one").await;
    stage.next_run().await.complete();
    stage.settled(&first.id).await;

    let again = stage.submit(&a, "one").await;
    let payload = r#"{"text":"other"}"#.to_owned();
    let other = stage
        .authority
        .submit(&caller(), &a, "one".to_owned(), payload)
        .await;

    assert_eq!((again.id, again.status), (first.id, COMPLETED));
    assert_eq!(other.unwrap_err().code(), "submission_conflict");
}

#[tokio::test]
async fn a_payload_that_is_none_is_not_admitted() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    for payload in [
        "",
        "[]",
        "{}",
        r#"{"calls":[]}"#,
        r#"{"calls":[{"server":"a"}]}"#,
        r#"{"calls":[{"server":"a","tool":""}]}"#,
        r#"{"calls":[{"server":"a","tool":"t","arguments":[]}]}"#,
        r#"{"calls":[{"server":"a","tool":"t","extra":1}]}"#,
        r#"{"calls":[{"server":"a","tool":"t"}],"text":"x"}"#,
        r#"{"text":"x","parallel":true}"#,
        r#"{"text":7}"#,
    ] {
        let id = "x".to_owned();
        let refused = stage
            .authority
            .submit(&caller(), &a, id, payload.to_owned())
            .await;
        assert_eq!(refused.unwrap_err().code(), "invalid_params", "{payload}");
    }
    assert!(stage.is_quiet().await);
}

#[tokio::test]
async fn a_turn_whose_private_values_are_missing_is_refused_and_blocks_nothing() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let running = stage.submit(&a, "one").await;
    let run = stage.next_run().await;
    let queued = stage.submit(&a, "two").await;
    let stage = stage.killed().await;
    stage.miss(Some(("old", "/mcp_servers/old/env/TOKEN")));

    let refused = stage.try_submit(&a, "three").await.unwrap_err();
    let retried = stage.submit(&a, "two").await;
    let other = r#"{"calls":[{"server":"elsewhere","tool":"t"}]}"#.to_owned();
    let other = stage
        .authority
        .submit(&caller(), &a, "four".to_owned(), other)
        .await;
    let outcome = TurnOutcome::Failed;
    stage
        .authority
        .resolve_unknown(&caller(), &running.id, outcome)
        .await
        .unwrap();
    stage.next_run().await.complete();

    assert_eq!(refused.code(), "private_values_unavailable");
    assert!(refused.to_string().contains("/mcp_servers/old/env/TOKEN"));
    assert_eq!(retried.id, queued.id);
    assert_eq!(stage.settled(&other.unwrap().id).await, COMPLETED);
    let rejected = stage.authority.turn(&caller(), &queued.id).await.unwrap();
    let code = rejected.error.unwrap().code;
    let expected = TurnStatus::Done(TurnOutcome::Rejected);
    assert_eq!(
        (rejected.status, code.as_str()),
        (expected, "private_values_unavailable")
    );
    // The values are there again: no restart is needed for that.
    stage.miss(None);
    let next = stage.submit(&a, "five").await;
    stage.next_run().await.complete();
    assert_eq!(stage.settled(&next.id).await, COMPLETED);
    drop(run);
}
