//! When a server is connected.

use futures_util::future::join_all;

use super::{
    S, Stage,
    peer::{Manner, Peer},
};

#[tokio::test(start_paused = true)]
async fn a_first_connect_is_tried_four_times_and_once_after_each_cooldown() {
    let stage = Stage::new(Peer::new([Manner::Silent]), |_| {});
    stage.until(|snapshot| snapshot.restarts == 5).await;
    // Each attempt takes its second; pauses of 1, 2, 4 s, cooldowns of 30 and 60 s.
    assert_eq!(stage.peer.connects(), [0.0, 2.0, 5.0, 10.0, 41.0, 102.0]);
}

#[tokio::test(start_paused = true)]
async fn many_callers_start_a_lazy_server_once() {
    let stage = Stage::new(Peer::new([Manner::Serves]), |one| one.lazy = true);
    tokio::time::sleep(S(3600)).await;
    assert_eq!((stage.state(), stage.peer.connects().len()), ("lazy", 0));

    let answers = join_all((0..100).map(|_| stage.call())).await;

    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(stage.peer.connects(), [3600.0]);
}

#[tokio::test(start_paused = true)]
async fn a_lazy_server_that_is_mended_serves_after_its_cooldown() {
    let stage = Stage::new(Peer::new([Manner::Silent]), |one| one.lazy = true);
    let error = stage.call().await.unwrap_err();
    assert_eq!(
        super::not_connected(&error),
        ("cooldown", Some("no answer within 1 s"))
    );
    let failed = stage.server().snapshot();
    assert_eq!(
        (failed.ready, failed.last_error.as_deref()),
        (false, Some("no answer within 1 s"))
    );

    stage.peer.behave(Manner::Serves);
    let at = stage.until_state("ready").await;

    assert_eq!(at, 41.0);
    assert_eq!(stage.call().await.unwrap(), "echo");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_again_and_again_is_connected_six_times_in_its_first_minute() {
    let stage = Stage::new(Peer::new([Manner::EndsAfterList]), |_| {});
    stage.until(|snapshot| snapshot.restarts == 8).await;
    let connects = stage.peer.connects();
    assert_eq!(
        connects,
        [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 61.0, 121.0, 241.0]
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_the_first_pause_and_starts_nothing_else() {
    let manners = [Manner::Serves, Manner::Serves, Manner::Serves];
    let stage = Stage::new(Peer::new(manners), |_| {});
    stage.until_state("ready").await;
    for _ in 0..2 {
        stage.peer.die();
        stage.until_state("reconnecting").await;
        assert_eq!(stage.call().await.unwrap(), "echo");
    }
    assert_eq!(stage.peer.connects(), [0.0, 0.0, 2.0]);
}

#[tokio::test(start_paused = true)]
async fn calls_to_a_server_that_rests_fail_at_once_and_start_nothing() {
    let cooling = Stage::new(Peer::new([Manner::Silent]), |_| {});
    let parked = Stage::new(Peer::new([Manner::Nonsense]), |_| {});
    cooling.until_state("cooldown").await;
    parked.until_state("parked").await;
    let (attempts, now) = (cooling.peer.connects().len(), cooling.now());

    for (stage, state) in [(&cooling, "cooldown"), (&parked, "parked")] {
        for _ in 0..20 {
            let error = stage.call().await.unwrap_err();
            assert_eq!(super::not_connected(&error).0, state);
        }
    }

    assert_eq!(
        (cooling.peer.connects().len(), cooling.now()),
        (attempts, now)
    );
    assert_eq!(parked.peer.connects(), [0.0]);
}

#[tokio::test(start_paused = true)]
async fn a_reload_wakes_what_is_parked_and_nothing_else() {
    let parked = Stage::new(Peer::new([Manner::Nonsense]), |_| {});
    let cooling = Stage::new(Peer::new([Manner::Silent]), |_| {});
    let lazy = Stage::new(Peer::new([Manner::Serves]), |one| one.lazy = true);
    parked.until_state("parked").await;
    cooling.until_state("cooldown").await;
    let before = cooling.server().snapshot();
    parked.peer.behave(Manner::Serves);

    let woken = [
        parked.server().wake().await,
        cooling.server().wake().await,
        lazy.server().wake().await,
    ];
    parked.server().settled().await;

    assert_eq!(woken, [true, false, false]);
    assert_eq!((parked.state(), lazy.state()), ("ready", "lazy"));
    assert_eq!(cooling.server().snapshot(), before);
    cooling.server().probe().await;
    assert_eq!(cooling.state(), "connecting");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_no_configuration_has_drains_and_serves_on_if_one_has_it_again() {
    let mut stage = Stage::new(Peer::new([Manner::Serves]), |_| {});
    stage.until_state("ready").await;
    let old = stage.change(|one| one.description = Some("another".to_owned()));
    let mut watched = old.watch();
    watched
        .wait_for(|snapshot| snapshot.state == "draining")
        .await
        .unwrap();

    assert_eq!(super::call(&old, "echo").await.unwrap(), "echo");
    let newer = stage.change(|_| {});
    watched
        .wait_for(|snapshot| snapshot.state == "ready")
        .await
        .unwrap();
    tokio::time::sleep(S(301)).await;
    assert_eq!(super::call(stage.server(), "echo").await.unwrap(), "echo");
    // The one that came in between had its 300 s.
    assert_eq!(newer.snapshot().state, "closed");
    drop(old);
    assert_eq!(stage.state(), "ready");
}

#[tokio::test(start_paused = true)]
async fn a_draining_server_whose_connection_ends_is_not_connected_again() {
    let mut stage = Stage::new(Peer::new([Manner::Serves]), |_| {});
    stage.until_state("ready").await;
    let peer = std::sync::Arc::clone(&stage.peer);
    let old = stage.change(|one| one.enabled = false);
    let mut watched = old.watch();
    watched
        .wait_for(|snapshot| snapshot.state == "draining")
        .await
        .unwrap();

    peer.die();
    watched
        .wait_for(|snapshot| snapshot.state == "closed")
        .await
        .unwrap();

    let error = super::call(&old, "echo").await.unwrap_err();
    assert_eq!(super::not_connected(&error).0, "closed");
    assert_eq!((stage.state(), peer.connects().len()), ("disabled", 1));
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_of_a_new_connection_is_not_believed_at_once() {
    let stage = Stage::new(Peer::new([Manner::Serves]), |_| {});
    stage.until_state("ready").await;
    stage.peer.list_nothing();
    stage.peer.die();
    stage.until_state("reconnecting").await;
    let again = stage.until_state("ready").await;
    let kept = stage.server().tools().unwrap().len();

    let believed = stage.until(|snapshot| snapshot.tools == 0).await;

    assert_eq!((kept, believed - again, stage.peer.lists()), (1, 1.0, 3));
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_a_lazy_server_starts_neither_the_old_nor_the_new_one() {
    let mut stage = Stage::new(Peer::new([Manner::Serves]), |one| one.lazy = true);
    let old = stage.change(|one| {
        one.lazy = true;
        one.description = Some("another".to_owned());
    });
    drop(old);
    stage.server().settled().await;
    tokio::time::sleep(S(3600)).await;
    assert_eq!((stage.state(), stage.peer.connects()), ("lazy", vec![]));
    assert!(!stage.server().wake().await);
    assert_eq!(stage.peer.connects(), Vec::<f64>::new());
}
