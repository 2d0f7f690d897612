//! Connections that nobody uses.

use super::{
    S, Stage, call,
    peer::{Manner, Peer},
};

#[tokio::test(start_paused = true)]
async fn a_quiet_connection_is_tried_every_three_minutes_by_default() {
    let stage = Stage::new(Peer::new([Manner::Serves]), |_| {});
    stage.until_state("ready").await;
    tokio::time::sleep(S(3 * 180 + 1)).await;
    assert_eq!((stage.peer.pings(), stage.state()), (3, "ready"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_for_ten_seconds_is_connected_again() {
    let stage = Stage::new(Peer::new([Manner::Serves]), |one| {
        one.keepalive_interval = S(60);
    });
    stage.until_state("ready").await;
    stage.peer.fall_deaf();
    let at = stage.until_state("reconnecting").await;
    stage.peer.hear_again();
    let again = stage.until_state("ready").await;
    assert_eq!((at, again), (70.0, 71.0));
    let error = stage.server().snapshot().last_error.unwrap();
    assert_eq!(error, "the keepalive failed: no answer within the deadline");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_tried_where_that_is_switched_off_or_while_a_call_runs() {
    let off = Stage::new(Peer::new([Manner::Serves]), |one| {
        one.keepalive_interval = S(0);
    });
    let busy = Stage::new(Peer::new([Manner::Serves]), |one| {
        one.keepalive_interval = S(10);
    });
    off.until_state("ready").await;
    busy.until_state("ready").await;
    let wait = async {
        tokio::time::sleep(S(100)).await;
        assert_eq!(busy.peer.pings(), 0);
        busy.peer.release();
    };

    let (held, ()) = tokio::join!(call(busy.server(), "hold"), wait);

    assert!(held.is_ok());
    tokio::time::sleep(S(11)).await;
    assert_eq!((busy.peer.pings(), off.peer.pings()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_is_stopped_when_its_time_has_passed_since_its_last_call() {
    let stage = Stage::new(Peer::new([Manner::Serves]), |one| {
        one.idle_ttl = S(60);
        one.keepalive_interval = S(50);
    });
    stage.until_state("ready").await;
    tokio::time::sleep(S(40)).await;
    stage.call().await.unwrap();

    let stopped = stage.until_state("lazy").await;
    let answer = stage.call().await;

    // A try is no use, and a lazy server is ready.
    assert_eq!((stopped, stage.peer.pings()), (100.0, 1));
    assert_eq!(
        (answer.unwrap().as_str(), stage.peer.connects()),
        ("echo", vec![0.0, 100.0])
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_is_not_stopped_while_a_call_runs() {
    let stage = Stage::new(Peer::new([Manner::Serves]), |one| one.idle_ttl = S(5));
    stage.until_state("ready").await;
    let wait = async {
        tokio::time::sleep(S(60)).await;
        assert_eq!(stage.state(), "ready");
        stage.peer.release();
    };
    let (held, ()) = tokio::join!(call(stage.server(), "hold"), wait);
    assert_eq!(held.unwrap(), "hold");
    let stopped = stage.until_state("lazy").await;
    assert_eq!((stopped, stage.peer.connects().len()), (65.0, 1));
}
