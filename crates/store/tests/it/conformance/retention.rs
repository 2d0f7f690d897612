use std::{collections::BTreeSet, num::NonZeroU32};

use genlock_policy::GenerationNumber;
use genlock_store::{Epoch, Store};

use super::Home;
use crate::draft::{draft, number, profile};

async fn commit(store: &dyn Store, epoch: Epoch, stamps: std::ops::RangeInclusive<u64>) {
    for stamp in stamps {
        let head = GenerationNumber::new(stamp - 1);
        store
            .commit_generation(epoch, head, draft(stamp))
            .await
            .unwrap();
    }
}

async fn kept(store: &dyn Store) -> Vec<u64> {
    let kept = store.list(&profile(), None, 1000).await.unwrap();
    kept.iter().map(|kept| kept.number.get()).collect()
}

fn keep(keep: u32) -> NonZeroU32 {
    NonZeroU32::new(keep).unwrap()
}

pub(crate) async fn prune_spares_the_head_and_what_is_pinned(home: &dyn Home) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    commit(&*store, epoch, 1..=10).await;
    let pinned = BTreeSet::from([number(2), number(5), number(99)]);

    let pruned = store.prune(epoch, &profile(), keep(3), &pinned).await;

    let numbers: Vec<u64> = pruned.unwrap().iter().map(|n| n.get()).collect();
    assert_eq!(numbers, [1, 3, 4, 6, 7]);
    assert_eq!(kept(&*store).await, [10, 9, 8, 5, 2]);

    let nothing = BTreeSet::new();
    for (kept_after, limit) in [(vec![10], 1), (vec![10], 1), (vec![10], u32::MAX)] {
        store
            .prune(epoch, &profile(), keep(limit), &nothing)
            .await
            .unwrap();
        assert_eq!(kept(&*store).await, kept_after);
    }

    commit(&*store, epoch, 11..=11).await;
    assert_eq!(kept(&*store).await, [11, 10]);
    store.verify().await.unwrap();
}

pub(crate) async fn prune_deletes_more_than_a_batch(home: &dyn Home) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    commit(&*store, epoch, 1..=230).await;

    let pruned = store
        .prune(epoch, &profile(), keep(5), &BTreeSet::new())
        .await
        .unwrap();

    assert_eq!(pruned, (1..=225).map(number).collect::<Vec<_>>());
    assert_eq!(kept(&*store).await, [230, 229, 228, 227, 226]);
}

pub(crate) async fn a_stale_epoch_prunes_nothing(home: &dyn Home) {
    let store = home.open().await;
    let stale = store.take_epoch(&profile()).await.unwrap();
    commit(&*store, stale, 1..=3).await;
    store.take_epoch(&profile()).await.unwrap();

    let refused = store
        .prune(stale, &profile(), keep(1), &BTreeSet::new())
        .await
        .unwrap_err();

    assert_eq!(refused.code(), "store.stale_epoch");
    assert_eq!(kept(&*store).await, [3, 2, 1]);
}
