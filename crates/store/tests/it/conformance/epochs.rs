use genlock_config::ProfileId;
use genlock_store::{CommitError, Epoch};

use super::Home;
use crate::draft::{draft, number, profile, record};

pub(crate) async fn an_epoch_fences_the_one_before(home: &dyn Home) {
    let (older, newer) = (home.open().await, home.open().await);
    let first = older.take_epoch(&profile()).await.unwrap();
    older
        .commit_generation(first, None, draft(1))
        .await
        .unwrap();

    let second = newer.take_epoch(&profile()).await.unwrap();
    let late = older
        .commit_generation(first, Some(number(1)), draft(2))
        .await
        .unwrap_err();
    let current = newer
        .commit_generation(second, Some(number(1)), draft(3))
        .await;

    assert_eq!((first.get(), second.get()), (1, 2));
    assert_eq!(late.code(), "store.stale_epoch");
    assert_eq!(late.to_string(), "stale epoch: ours is 1, current is 2");
    assert_eq!(current.unwrap(), record(&draft(3), number(2)));
}

pub(crate) async fn a_profile_without_an_epoch_takes_no_commit(home: &dyn Home) {
    let store = home.open().await;
    let made_up = Epoch::new(1).unwrap();

    let refused = store
        .commit_generation(made_up, None, draft(1))
        .await
        .unwrap_err();

    assert!(
        matches!(refused, CommitError::StaleEpoch { ours, current: None } if ours == made_up),
        "{refused:?}"
    );
    assert_eq!(store.head(&profile()).await.unwrap(), None);
}

pub(crate) async fn profiles_do_not_see_each_other(home: &dyn Home) {
    let store = home.open().await;
    let other = ProfileId::new("other").unwrap();
    let epoch = store.take_epoch(&profile()).await.unwrap();
    for _ in 0..3 {
        store.take_epoch(&other).await.unwrap();
    }

    let committed = store.commit_generation(epoch, None, draft(1)).await;

    assert_eq!(committed.unwrap().number, number(1));
    assert_eq!(store.head(&other).await.unwrap(), None);
    assert_eq!(store.get(&other, number(1)).await.unwrap(), None);
    assert_eq!(store.list(&other, None, 10).await.unwrap(), []);
}
