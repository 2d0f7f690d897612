//! What it costs to check a key.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use genlock_access::{ApiKey, KeyHasher, KeyRing, Principal, StoredKey};

/// How many keys there are, and how many checks are timed.
const KEYS: u32 = 10_000;
const CHECKS: usize = 100_000;
/// The longest that half of the checks may take.
const WANTED: Duration = Duration::from_micros(2);

#[test]
#[ignore = "a figure of the release build: `just keys`"]
fn a_key_is_checked_in_two_microseconds() {
    let ring = KeyRing::new(KeyHasher::new(&[1; 32]));
    let keys: Vec<ApiKey> = (0..KEYS).map(key).collect();
    ring.replace(
        keys.iter()
            .zip(0..)
            .map(|(key, number): (_, u32)| StoredKey {
                id: number.to_string(),
                hash: ring.hasher().hash(key),
                principal: Arc::new(Principal::anonymous()),
                expires_ms: Some(1),
                revoked: false,
            }),
    );

    let mut spans: Vec<Duration> = (0..CHECKS)
        .map(|check| {
            // Far apart in memory, as those of many callers are.
            let key = &keys[check * 7919 % keys.len()];
            let began = Instant::now();
            let found = ring.verify(black_box(key.expose()), 0);
            let span = began.elapsed();
            assert!(found.is_ok());
            span
        })
        .collect();
    spans.sort();

    let (median, late) = (spans[CHECKS / 2], spans[CHECKS / 100 * 99]);
    println!(
        "one of {KEYS} keys, {CHECKS} checks: median {median:?}, 99th percentile {late:?}; at most {WANTED:?} wanted"
    );
    assert!(median <= WANTED, "{median:?}");
}

fn key(number: u32) -> ApiKey {
    let mut random = [0; 32];
    random[..4].copy_from_slice(&number.to_le_bytes());
    ApiKey::new(&random)
}
