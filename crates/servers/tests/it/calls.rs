//! How long calls wait, and what becomes of them when their server ends.

use futures_util::future::join_all;
use genlock_mcp::client::CallError;
use genlock_servers::ServerError;

use super::{
    S, Stage, call, not_connected,
    peer::{Manner, Peer},
};

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_one_attempt_and_thirty_seconds_and_not_longer() {
    let stage = Stage::new(Peer::new([Manner::Silent]), |one| {
        one.lazy = true;
        one.connect_timeout = S(60);
    });
    let error = stage.call().await.unwrap_err();
    assert_eq!(stage.now(), 90.0);
    assert_eq!(
        not_connected(&error),
        ("connecting", Some("no answer within 60 s"))
    );
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_call_counts_its_wait_for_a_connection_too() {
    let stage = Stage::new(Peer::new([Manner::Silent]), |one| {
        one.lazy = true;
        one.connect_timeout = S(60);
        one.timeout = S(5);
    });
    let error = stage.call().await.unwrap_err();
    assert_eq!(
        (stage.now(), error.code()),
        (5.0, "mcp_servers_unavailable")
    );
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_of_a_server_that_ends_fail_at_once_and_run_once() {
    let stage = Stage::new(Peer::new([Manner::Serves]), |_| {});
    stage.until_state("ready").await;
    let die = async {
        stage.peer.held().await;
        stage.peer.die();
    };

    let (held, ()) = tokio::join!(call(stage.server(), "hold"), die);
    let next = stage.call().await;

    let error = held.unwrap_err();
    let ended = ServerError::Call {
        server: "one".to_owned(),
        source: CallError::Closed { sent: true },
    };
    assert_eq!(
        (&error, error.code(), error.may_have_run()),
        (&ended, "outcome_unknown", true)
    );
    assert_eq!((next.unwrap().as_str(), stage.now()), ("echo", 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_as_its_connection_ends_is_made_on_another_and_counts_the_loss() {
    // Whoever notices first, the call or the actor: it depends on how often others were let before.
    for turns in 0..16 {
        let stage = Stage::new(Peer::new([Manner::Serves]), |_| {});
        stage.until_state("ready").await;
        for _ in 0..2 {
            // Long enough for a session to be renewed without being counted; this is none.
            tokio::time::sleep(S(20)).await;
            stage.peer.die();
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            match stage.call().await {
                Ok(said) => assert_eq!(said, "echo"),
                Err(error) => assert_eq!(error.code(), "outcome_unknown"),
            }
            stage.until_state("ready").await;
            stage.call().await.unwrap();
        }
        let connects = stage.peer.connects();
        assert_eq!(connects.len(), 3, "{turns}");
        assert!(connects[2] - connects[1] >= 22.0, "{turns}: {connects:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_has_300_s_where_nothing_else_is_said() {
    let stage = Stage::new(Peer::new([Manner::Serves]), |_| {});
    stage.until_state("ready").await;
    let error = call(stage.server(), "hold").await.unwrap_err();
    assert_eq!((stage.now(), error.code()), (300.0, "deadline_exceeded"));
}

#[tokio::test(start_paused = true)]
async fn ten_calls_of_one_server_and_fifty_of_all_run_at_once_where_nothing_else_is_said() {
    let one = Stage::new(Peer::new([Manner::Serves]), |_| {});
    let wide = Stage::new(Peer::new([Manner::Serves]), |one| {
        one.max_concurrency = Some(1000);
    });
    for (stage, at_once) in [(&one, 10), (&wide, 50)] {
        stage.until_state("ready").await;
        tokio::select! {
            _ = join_all((0..100).map(|_| call(stage.server(), "hold"))) => {}
            () = tokio::time::sleep(S(1)) => {}
        }
        assert_eq!(stage.peer.holds(), at_once);
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_may_be_64_kib_longer_than_the_largest_answer() {
    let stage = Stage::new(Peer::new([Manner::Serves]), |one| {
        one.max_response_bytes = Some(1000);
    });
    let longest = 1000 + 64 * 1024;

    let fits = call(stage.server(), &format!("line of {longest}")).await;
    let longer = call(stage.server(), &format!("line of {}", longest + 1)).await;

    assert_eq!(fits.unwrap(), format!("line of {longest}"));
    assert_eq!(longer.unwrap_err().code(), "response_too_large");
}
