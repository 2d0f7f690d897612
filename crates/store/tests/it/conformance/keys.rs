use genlock_policy::Actor;
use genlock_store::{KeyRecord, NewKey, Replaced, Rotation, WriteFault};

use super::Home;
use crate::draft::profile;

fn key(id: &str, stamp: u8) -> NewKey {
    NewKey {
        profile: profile(),
        id: id.to_owned(),
        hash: [stamp; 32],
        principal: format!("svc:{id}"),
        tenant: stamp.is_multiple_of(2).then(|| "tenant:a".to_owned()),
        groups: ["x".to_owned(), "y".to_owned()].into(),
        actor: Actor::new("uid:7"),
        at_ms: i64::from(stamp),
        expires_ms: stamp.is_multiple_of(3).then_some(1_000),
    }
}

fn taken(made: NewKey) -> KeyRecord {
    KeyRecord::new(made)
}

pub(crate) async fn keys_come_back_as_they_were_made(home: &dyn Home) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    let made = [key("b", 1), key("a", 2), key("c", 3)];
    for new in &made {
        let added = store.add_key(epoch, new.clone()).await.unwrap();
        assert_eq!(added, taken(new.clone()));
    }

    let again = home.open().await;
    let found = again.keys(&profile()).await.unwrap();
    assert_eq!(found, made.map(taken));
}

pub(crate) async fn a_key_is_revoked_once_and_for_good(home: &dyn Home) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    store.add_key(epoch, key("a", 2)).await.unwrap();
    store.add_key(epoch, key("b", 3)).await.unwrap();

    let revoked = store.revoke_key(epoch, &profile(), "a", 9).await.unwrap();
    let again = store.revoke_key(epoch, &profile(), "a", 10).await.unwrap();
    let unknown = store.revoke_key(epoch, &profile(), "z", 9).await.unwrap();

    let expected = KeyRecord {
        revoked_ms: Some(9),
        ..taken(key("a", 2))
    };
    assert_eq!(revoked.as_ref(), Some(&expected));
    assert_eq!((again, unknown), (revoked, None));
    let found = store.keys(&profile()).await.unwrap();
    assert_eq!(found, [expected, taken(key("b", 3))]);
}

pub(crate) async fn the_same_key_is_not_stored_twice(home: &dyn Home) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    store.add_key(epoch, key("a", 2)).await.unwrap();

    assert!(store.add_key(epoch, key("a", 3)).await.is_err());
    assert!(store.add_key(epoch, key("b", 2)).await.is_err());

    let found = store.keys(&profile()).await.unwrap();
    assert_eq!(found, [taken(key("a", 2))]);
}

pub(crate) async fn an_older_authority_makes_and_revokes_no_key(home: &dyn Home) {
    let store = home.open().await;
    let old = store.take_epoch(&profile()).await.unwrap();
    store.add_key(old, key("a", 2)).await.unwrap();
    store.take_epoch(&profile()).await.unwrap();

    let added = store.add_key(old, key("b", 3)).await;
    let revoked = store.revoke_key(old, &profile(), "a", 9).await;

    assert!(matches!(added, Err(WriteFault::StaleEpoch { .. })));
    assert!(matches!(revoked, Err(WriteFault::StaleEpoch { .. })));
    let found = store.keys(&profile()).await.unwrap();
    assert_eq!(found, [taken(key("a", 2))]);
}

pub(crate) async fn a_key_is_replaced_once_and_both_are_there(home: &dyn Home) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    for new in [key("a", 2), key("gone", 4)] {
        store.add_key(epoch, new).await.unwrap();
    }
    store
        .revoke_key(epoch, &profile(), "gone", 9)
        .await
        .unwrap();

    let done = store.rotate_key(epoch, "a", key("b", 3), 50).await.unwrap();
    let again = store.rotate_key(epoch, "a", key("c", 5), 60).await.unwrap();
    let gone = store
        .rotate_key(epoch, "gone", key("c", 5), 60)
        .await
        .unwrap();
    let unknown = store.rotate_key(epoch, "z", key("c", 5), 60).await.unwrap();

    let old = KeyRecord {
        replaced: Some(Replaced {
            by: "b".to_owned(),
            ends_ms: 50,
        }),
        ..taken(key("a", 2))
    };
    let new = taken(key("b", 3));
    let revoked = KeyRecord {
        revoked_ms: Some(9),
        ..taken(key("gone", 4))
    };
    assert_eq!((old.ends_ms(), new.ends_ms()), (Some(50), Some(1_000)));
    assert_eq!(again, Rotation::Over(Box::new(old.clone())));
    assert_eq!(gone, Rotation::Over(Box::new(revoked.clone())));
    assert_eq!(unknown, Rotation::Unknown);
    let found = home.open().await.keys(&profile()).await.unwrap();
    assert_eq!(found, [old.clone(), new.clone(), revoked]);
    assert_eq!(done, Rotation::Done(Box::new((old, new))));
}

pub(crate) async fn a_rotation_that_fails_replaces_nothing(home: &dyn Home) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    let made = [key("a", 2), key("b", 3)];
    for new in &made {
        store.add_key(epoch, new.clone()).await.unwrap();
    }

    // The hash of the new one is taken.
    assert!(store.rotate_key(epoch, "a", key("c", 3), 50).await.is_err());
    let fenced = store.take_epoch(&profile()).await.unwrap();
    assert!(fenced > epoch);
    let stale = store.rotate_key(epoch, "a", key("c", 5), 50).await;

    assert!(matches!(stale, Err(WriteFault::StaleEpoch { .. })));
    let found = store.keys(&profile()).await.unwrap();
    assert_eq!(found, made.map(taken));
}

pub(crate) async fn the_last_use_of_a_key_is_noted_and_never_an_earlier_one(home: &dyn Home) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    for new in [key("a", 2), key("b", 3)] {
        store.add_key(epoch, new).await.unwrap();
    }
    let note = async |uses: &[(&str, i64)]| {
        let uses = uses.iter().map(|(id, at)| ((*id).to_owned(), *at));
        store.note_key_uses(epoch, &profile(), uses.collect()).await
    };

    note(&[("a", 70), ("nobody", 70)]).await.unwrap();
    note(&[("a", 60)]).await.unwrap();

    let used = KeyRecord {
        used_ms: Some(70),
        ..taken(key("a", 2))
    };
    let found = home.open().await.keys(&profile()).await.unwrap();
    assert_eq!(found, [used, taken(key("b", 3))]);
    // It is no part of what is sealed, and stays beside it.
    store.revoke_key(epoch, &profile(), "a", 80).await.unwrap();
    let found = store.keys(&profile()).await.unwrap();
    assert_eq!(
        (found[0].used_ms, found[0].revoked_ms),
        (Some(70), Some(80))
    );
}
