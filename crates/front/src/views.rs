//! [`ViewWatch`]: tells a client when a list that it is shown has changed, and only then.

use genlock_access::Visitor;
use genlock_config::Surface;
use genlock_mcp::{Notification, RawObject};
use tokio::sync::watch;

use crate::{front::Front, world::World};

/// A list whose changes are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Prompts,
    Resources,
}

impl List {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// Returns the word by which `subscriptions/listen` asks for its changes.
    pub(crate) fn filter(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Prompts => "promptsListChanged",
            Self::Resources => "resourcesListChanged",
        }
    }

    /// Returns the notification of a change.
    pub(crate) fn changed(self, params: RawObject) -> Notification {
        let method = match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        };
        Notification::new(method, params)
    }
}

/// Identifies what a client is shown, list by list, in the order of [`List::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Views([Option<blake3::Hash>; 3]);

/// One client's watch on its own views.
pub(crate) struct ViewWatch {
    front: Front,
    visitor: Visitor,
    wish: Option<Surface>,
    moved: watch::Receiver<u64>,
    seen: Views,
}

impl ViewWatch {
    /// Begins with what the client is shown now.
    pub(crate) fn new(front: &Front, visitor: Visitor, wish: Option<Surface>) -> Self {
        let moved = front.inner.moved.subscribe();
        let seen = Views::of(&front.world_of(&visitor), wish);
        Self {
            front: front.clone(),
            visitor,
            wish,
            moved,
            seen,
        }
    }

    /// Tells whether the client may still hear of changes.
    pub(crate) fn is_open(&self) -> bool {
        self.front.would_let_in(&self.visitor)
    }

    /// Waits until the client is shown another list than it was told of last, and it is served; returns the lists that
    /// changed, `None` when nothing can change any more, or the client may not hear of it.
    ///
    /// # Cancel safety
    /// Cancel safe: a change that is not returned is returned next time.
    pub(crate) async fn changed(&mut self) -> Option<Vec<List>> {
        loop {
            self.moved.changed().await.ok()?;
            if !self.is_open() {
                return None;
            }
            let now = Views::of(&self.front.world_of(&self.visitor), self.wish);
            let before = std::mem::replace(&mut self.seen, now);
            let changed = now.differing_from(before);
            if !changed.is_empty() {
                return Some(changed);
            }
        }
    }
}

impl Views {
    fn of(world: &World, wish: Option<Surface>) -> Self {
        let sight = world.sight();
        Self([
            Some(world.view(wish)),
            world.shelf.prompts_id(sight),
            world.shelf.resources_id(sight),
        ])
    }

    fn differing_from(self, other: Self) -> Vec<List> {
        let pairs = self.0.into_iter().zip(other.0);
        List::ALL
            .into_iter()
            .zip(pairs)
            .filter(|(_, (now, before))| now != before)
            .map(|(list, _)| list)
            .collect()
    }
}
