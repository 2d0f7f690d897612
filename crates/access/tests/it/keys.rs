use std::sync::Arc;

use genlock_access::{ApiKey, KeyFault, KeyHasher, KeyRing, MalformedKey, Principal, StoredKey};
use proptest::prelude::*;

fn ring() -> KeyRing {
    KeyRing::new(KeyHasher::new(&[1; 32]))
}

fn stored(ring: &KeyRing, key: &ApiKey, expires_ms: Option<i64>, revoked: bool) -> StoredKey {
    StoredKey {
        id: "k1".to_owned(),
        hash: ring.hasher().hash(key),
        principal: Arc::new(Principal::anonymous()),
        expires_ms,
        revoked,
    }
}

#[test]
fn a_key_is_taken_until_it_expires_or_is_revoked() {
    let (ring, key) = (ring(), ApiKey::new(&[7; 32]));
    let verify = |at_ms| {
        ring.verify(key.expose(), at_ms)
            .map(|who| who.subject.clone())
    };

    assert_eq!(verify(0), Err(KeyFault::Unknown));
    ring.replace([stored(&ring, &key, Some(100), false)]);
    assert_eq!(verify(99), Ok("anonymous".to_owned()));
    assert_eq!(verify(100), Err(KeyFault::Expired));
    ring.replace([stored(&ring, &key, Some(100), true)]);
    assert_eq!(verify(99), Err(KeyFault::Revoked));
    ring.replace([]);
    assert_eq!(verify(99), Err(KeyFault::Unknown));
}

#[test]
fn a_key_that_is_added_or_revoked_is_so_at_once_for_all_who_share_the_ring() {
    let (ring, key, other) = (ring(), ApiKey::new(&[7; 32]), ApiKey::new(&[8; 32]));
    let shared = ring.clone();

    ring.add(&stored(&ring, &key, None, false));
    assert!(shared.verify(key.expose(), 0).is_ok());
    ring.add(&StoredKey {
        id: "k2".to_owned(),
        ..stored(&ring, &other, None, false)
    });
    ring.revoke("k1");

    assert_eq!(shared.verify(key.expose(), 0), Err(KeyFault::Revoked));
    let taken = ["k1", "k2", "k3"].map(|id| shared.takes(id, 0));
    assert_eq!(taken, [false, true, false]);
    assert!(shared.verify(other.expose(), 0).is_ok());
}

#[test]
fn the_last_use_of_a_key_is_known_and_outlives_another_state_of_it() {
    let (ring, key) = (ring(), ApiKey::new(&[7; 32]));
    ring.replace([stored(&ring, &key, Some(100), false)]);
    assert_eq!(ring.uses(), [].into());

    for at_ms in [50, 60, 100] {
        // The last one comes too late: it is no use of the key.
        let _ = ring.verify(key.expose(), at_ms);
    }
    ring.add(&stored(&ring, &key, Some(70), false));

    assert_eq!(ring.uses(), [("k1".to_owned(), 60)].into());
}

#[test]
fn an_older_state_of_a_key_widens_nothing() {
    let (ring, key) = (ring(), ApiKey::new(&[7; 32]));
    ring.replace([stored(&ring, &key, Some(100), false)]);
    let taken_at = |at_ms| ring.verify(key.expose(), at_ms).is_ok();

    ring.add(&stored(&ring, &key, Some(50), false));
    ring.add(&stored(&ring, &key, None, false));
    assert_eq!((taken_at(49), taken_at(50)), (true, false));
    ring.revoke("k1");
    ring.add(&stored(&ring, &key, Some(90), false));
    assert!(!taken_at(49));
}

#[test]
fn a_hash_is_of_no_use_under_another_host_key() {
    let (ours, key) = (ring(), ApiKey::new(&[7; 32]));
    let theirs = KeyRing::new(KeyHasher::new(&[2; 32]));
    theirs.replace([stored(&ours, &key, None, false)]);

    assert_eq!(theirs.verify(key.expose(), 0), Err(KeyFault::Unknown));
}

#[test]
fn nothing_of_a_key_is_shown() {
    let (ring, key) = (ring(), ApiKey::new(&[7; 32]));
    ring.replace([stored(&ring, &key, None, false)]);

    let secret = &key.expose()[4..47];
    assert!(!format!("{key:?} {ring:?}").contains(secret));
}

#[test]
fn what_is_no_key_is_told_from_an_unknown_one() {
    let key = ApiKey::new(&[7; 32]);
    let whole = key.expose();
    let mistyped = whole.replacen('B', "C", 1);

    for text in [
        "",
        "glk_",
        "Bearer x",
        &whole[..52],
        &mistyped,
        &whole.replace("glk_", "gls_"),
        "glk_ä",
    ] {
        assert_eq!(ApiKey::parse(text).unwrap_err(), MalformedKey, "{text}");
    }
    assert_ne!(mistyped, whole);
}

proptest! {
    #[test]
    fn every_key_is_read_back_and_junk_is_refused(random: [u8; 32], junk in ".{0,80}") {
        let key = ApiKey::new(&random);
        let read = ApiKey::parse(key.expose()).unwrap();
        prop_assert_eq!(read.expose(), key.expose());
        prop_assert!(ApiKey::parse(&junk).is_err());
    }
}
