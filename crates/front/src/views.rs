//! [`ViewWatch`]: tells a client when the tools that it is shown have changed, and only then.

use genlock_access::Visitor;
use genlock_config::Surface;
use tokio::sync::watch;

use crate::front::Front;

/// One client's watch on its own view.
pub(crate) struct ViewWatch {
    front: Front,
    visitor: Visitor,
    wish: Option<Surface>,
    moved: watch::Receiver<u64>,
    seen: blake3::Hash,
}

impl ViewWatch {
    /// Begins with what the client is shown now.
    pub(crate) fn new(front: &Front, visitor: Visitor, wish: Option<Surface>) -> Self {
        let moved = front.inner.moved.subscribe();
        let seen = front.world_of(&visitor).view(wish);
        Self {
            front: front.clone(),
            visitor,
            wish,
            moved,
            seen,
        }
    }

    /// Waits until the client is shown other tools than it was told of last, and they are served; `None` when nothing
    /// can change any more.
    ///
    /// # Cancel safety
    /// Cancel safe: a change that is not returned is returned next time.
    pub(crate) async fn changed(&mut self) -> Option<()> {
        loop {
            self.moved.changed().await.ok()?;
            let now = self.front.world_of(&self.visitor).view(self.wish);
            if now != self.seen {
                self.seen = now;
                return Some(());
            }
        }
    }
}
