//! What a revocation does to a server, to its connection and to calls, wherever they are on their way.

use std::sync::Arc;

use genlock_policy::{GenerationNumber, Overlay, Revocation, RevocationKind};
use genlock_servers::ServerError;

use super::{
    S, Stage, call,
    peer::{Manner, Peer},
};

fn revocation(kind: RevocationKind, name: &str) -> Revocation {
    Revocation {
        kind,
        name: name.to_owned(),
        reason: "leaked".to_owned(),
        number: GenerationNumber::FIRST,
    }
}

fn server() -> Revocation {
    revocation(RevocationKind::Server, "one")
}

fn revoke(stage: &Stage, revocation: Revocation) {
    let overlay = Overlay::default().with(revocation);
    stage.pool.revoke(Arc::new(overlay));
}

fn refused(revocation: Revocation, may_have_run: bool) -> Result<String, ServerError> {
    Err(ServerError::Revoked {
        revocation,
        may_have_run,
    })
}

#[tokio::test(start_paused = true)]
async fn a_revoked_server_has_no_connection_until_that_is_lifted_and_then_begins_anew() {
    let stage = Stage::new(Peer::new([Manner::Serves]), |_| {});
    stage.until_state("ready").await;

    revoke(&stage, server());
    let at_once = stage.call().await;
    stage.until_state("parked").await;
    let shown = stage.server().snapshot();
    stage.server().probe().await;
    stage.server().restart().await;
    let woken = stage.server().wake().await;
    tokio::time::sleep(S(3600)).await;
    let later = stage.call().await;
    let connects = stage.peer.connects();
    stage.pool.revoke(Arc::default());
    stage.until_state("ready").await;
    let lifted = stage.call().await;

    assert_eq!(at_once, refused(server(), false));
    assert_eq!(shown.reason.as_deref(), Some("revoked: leaked"));
    assert_eq!((shown.ready, shown.retry_at, woken), (false, None, false));
    assert_eq!((later, connects), (refused(server(), false), vec![0.0]));
    assert_eq!(lifted.unwrap(), "echo");
    assert_eq!(stage.peer.connects(), [0.0, 3600.0]);
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_to_a_revoked_server_end_with_its_connection_and_may_have_run() {
    let stage = Stage::new(Peer::new([Manner::Serves]), |_| {});
    stage.until_state("ready").await;
    let revoked = async {
        stage.peer.held().await;
        revoke(&stage, server());
    };

    let (held, ()) = tokio::join!(call(stage.server(), "hold"), revoked);

    assert_eq!((held, stage.now()), (refused(server(), true), 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_slot_or_a_connection_is_refused_without_being_sent() {
    let of_slot = Stage::new(Peer::new([Manner::Serves]), |one| {
        one.max_concurrency = Some(1);
    });
    of_slot.until_state("ready").await;
    let of_tool = revocation(RevocationKind::Tool, "one/echo");
    let revoked = async {
        of_slot.peer.held().await;
        tokio::time::sleep(S(1)).await;
        revoke(&of_slot, of_tool.clone());
        tokio::time::sleep(S(1)).await;
        of_slot.peer.release();
    };
    let waits = async {
        let answer = of_slot.call().await;
        (answer, of_slot.now())
    };
    let (held, waited, ()) = tokio::join!(call(of_slot.server(), "hold"), waits, revoked);

    let of_connection = Stage::new(Peer::new([Manner::Silent]), |_| {});
    let revoked = async {
        tokio::time::sleep(S(1) / 2).await;
        revoke(&of_connection, server());
    };
    let (unconnected, ()) = tokio::join!(of_connection.call(), revoked);

    // A call of another tool goes on.
    assert_eq!(held.unwrap(), "hold");
    assert_eq!(waited, (refused(of_tool, false), 1.0));
    assert_eq!(
        (unconnected, of_connection.now()),
        (refused(server(), false), 0.5)
    );
}

#[tokio::test(start_paused = true)]
async fn a_revoked_tool_is_refused_and_its_server_serves_the_others() {
    let stage = Stage::new(Peer::new([Manner::Serves]), |_| {});
    stage.until_state("ready").await;
    let of_tool = revocation(RevocationKind::Tool, "one/echo");

    revoke(&stage, of_tool.clone());

    let other = call(stage.server(), "other").await;
    assert_eq!(stage.call().await, refused(of_tool, false));
    assert_eq!((other.unwrap().as_str(), stage.state()), ("other", "ready"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_begun_while_it_is_revoked_is_not_connected() {
    let mut stage = Stage::new(Peer::new([Manner::Serves]), |_| {});
    stage.until_state("ready").await;
    revoke(&stage, server());

    let old = stage.change(|one| one.description = Some("another".to_owned()));
    let begins = stage.state();
    tokio::time::sleep(S(60)).await;

    assert_eq!((begins, stage.state()), ("parked", "parked"));
    assert_eq!(stage.peer.connects(), [0.0]);
    assert_eq!(call(&old, "echo").await, refused(server(), false));
    assert_eq!(stage.call().await, refused(server(), false));
}

#[tokio::test(start_paused = true)]
async fn a_revoked_lazy_server_is_lazy_again_when_that_is_lifted() {
    let stage = Stage::new(Peer::new([Manner::Serves]), |one| one.lazy = true);
    revoke(&stage, server());
    stage.until_state("parked").await;
    let refusal = stage.call().await;

    stage.pool.revoke(Arc::default());
    stage.until_state("lazy").await;

    assert_eq!(refusal, refused(server(), false));
    assert_eq!(stage.peer.connects(), [0.0; 0]);
}
