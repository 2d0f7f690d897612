//! How somebody waits for the turns of a session to move.

use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// Tells that turns of a session have moved. What they are by now stands in the store.
#[derive(Clone)]
pub(crate) struct Moves(watch::Sender<u64>);

/// A wait that misses no move from its beginning on.
pub(crate) struct Wait(watch::Receiver<u64>);

impl Moves {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    pub(crate) fn tell(&self) {
        self.0.send_modify(|moves| *moves = moves.wrapping_add(1));
    }

    pub(crate) fn wait(&self) -> Wait {
        Wait(self.0.subscribe())
    }
}

impl Wait {
    /// Waits for the next move; false at the deadline, and when nothing can move any more.
    ///
    /// # Cancel safety
    /// Cancel safe: a move that was not returned is returned next time.
    pub(crate) async fn next(&mut self, deadline: Instant) -> bool {
        matches!(timeout_at(deadline, self.0.changed()).await, Ok(Ok(())))
    }
}
