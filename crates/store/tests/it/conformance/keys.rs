use genlock_policy::Actor;
use genlock_store::{KeyRecord, NewKey, WriteFault};

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
    KeyRecord {
        made,
        revoked_ms: None,
    }
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
        made: key("a", 2),
        revoked_ms: Some(9),
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
