//! [`Slots`]: how many calls may run at once; the limit can change while calls run.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A number of slots. A clone shares them. Who waits longest gets the next free one.
#[derive(Clone, Default)]
pub struct Slots {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    limit: usize,
    taken: usize,
    waiting: VecDeque<oneshot::Sender<Slot>>,
}

/// A taken slot; free again when dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Slots,
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Slots")
            .field("limit", &state.limit)
            .field("taken", &state.taken)
            .finish_non_exhaustive()
    }
}

impl Slots {
    /// Makes so many slots.
    pub fn new(limit: u32) -> Self {
        let slots = Self::default();
        slots.set_limit(limit);
        slots
    }

    /// Changes the limit. Calls that run keep their slots, also where they are more than the new limit.
    pub fn set_limit(&self, limit: u32) {
        self.state.lock().limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.hand_out();
    }

    /// Takes a slot, or waits for one.
    ///
    /// # Cancel safety
    /// A dropped wait takes no slot.
    pub async fn take(&self) -> Slot {
        loop {
            let turn = {
                let mut state = self.state.lock();
                if state.taken < state.limit && state.waiting.is_empty() {
                    state.taken += 1;
                    return Slot {
                        slots: self.clone(),
                    };
                }
                let (turn, mine) = oneshot::channel();
                state.waiting.push_back(turn);
                mine
            };
            // The sender is dropped only with all slots.
            if let Ok(slot) = turn.await {
                return slot;
            }
        }
    }

    /// Gives free slots to those who wait, longest first.
    fn hand_out(&self) {
        loop {
            let turn = {
                let mut state = self.state.lock();
                if state.taken >= state.limit {
                    return;
                }
                let turn = loop {
                    match state.waiting.pop_front() {
                        Some(turn) if turn.is_closed() => {}
                        Some(turn) => break turn,
                        None => return,
                    }
                };
                state.taken += 1;
                turn
            };
            // One who goes away at this very moment drops the slot, which frees it and hands it on.
            drop(turn.send(Slot {
                slots: self.clone(),
            }));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.state.lock().taken -= 1;
        self.slots.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn slots_are_given_in_turn_and_one_who_went_away_takes_none() {
        let slots = Slots::new(1);
        let first = slots.take().await;
        let mut second = Box::pin(slots.take());
        let mut third = Box::pin(slots.take());
        assert!(poll!(&mut second).is_pending() && poll!(&mut third).is_pending());

        drop(second);
        drop(first);

        assert!(poll!(&mut third).is_ready());
        assert_eq!(slots.state.lock().taken, 0);
    }

    #[tokio::test]
    async fn a_changed_limit_counts_from_then_on_and_takes_nothing_away() {
        let slots = Slots::new(2);
        let running = (slots.take().await, slots.take().await);
        slots.set_limit(1);
        let mut next = Box::pin(slots.take());
        assert!(poll!(&mut next).is_pending());
        drop(running.0);
        assert!(poll!(&mut next).is_pending());
        drop(running.1);
        let held = poll!(&mut next);
        assert!(held.is_ready());

        let mut more = Box::pin(slots.take());
        assert!(poll!(&mut more).is_pending());
        slots.set_limit(2);
        assert!(poll!(&mut more).is_ready());
    }
}
