use std::{
    pin::Pin,
    task::{Context, Poll},
};

use genlock_store::{CommitError, Pending, Store};

use super::Home;
use crate::draft::{draft_of, profile, record};

/// A future that gives up when it has been polled `left` times.
struct Dropped<'a, T> {
    inner: Option<Pending<'a, T>>,
    left: usize,
}

// === impl Dropped ===

impl<T> Future for Dropped<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if self.left == 0 {
            self.inner = None;
            return Poll::Ready(None);
        }
        self.left -= 1;
        match &mut self.inner {
            Some(inner) => inner.as_mut().poll(context).map(Some),
            None => Poll::Ready(None),
        }
    }
}

/// Commits on whatever the head is; a dropped commit may land in between once.
async fn commit_on_head(store: &dyn Store, epoch: genlock_store::Epoch, stamp: u64) {
    for _ in 0..2 {
        let head = store.head(&profile()).await.unwrap();
        let expected = head.map(|head| head.number);
        let new = draft_of(stamp, 10_000);
        match store.commit_generation(epoch, expected, new).await {
            Ok(_) => return,
            Err(CommitError::Conflict { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("two conflicts without another writer");
}

pub(crate) async fn a_dropped_commit_is_whole_or_nothing(home: &dyn Home) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    let (mut finished, mut landed) = (false, 0);

    for polls in 0..64 {
        let stamp = 100 + polls as u64;
        let head = store.head(&profile()).await.unwrap();
        let expected = head.map(|head| head.number);
        let dropped = draft_of(stamp, 10_000);
        let outcome = Dropped {
            inner: Some(store.commit_generation(epoch, expected, dropped.clone())),
            left: polls,
        };
        finished = outcome.await.is_some();
        // The store goes on working, and by then it is settled what the dropped call did.
        commit_on_head(&*store, epoch, stamp + 1000).await;

        let number = expected.map_or(genlock_policy::GenerationNumber::FIRST, |n| n.next());
        let next = store.get(&profile(), number).await.unwrap().unwrap();
        let after = store.get(&profile(), number.next()).await.unwrap();
        if after.is_some() {
            landed += 1;
            assert_eq!(next, record(&dropped, number), "{polls} polls");
        } else {
            assert_eq!(next, record(&draft_of(stamp + 1000, 10_000), number));
        }
        if finished {
            break;
        }
    }

    assert!(finished && landed > 0, "no commit ran to its end");
    store.verify().await.unwrap();
}
