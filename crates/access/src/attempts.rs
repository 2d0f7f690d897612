//! [`Attempts`]: how often an address may fail to say who it is.

use std::{collections::HashMap, net::IpAddr};

use parking_lot::Mutex;

/// How many failures an address has in a window.
const MOST: u32 = 10;
/// The window, in milliseconds.
const WINDOW_MS: i64 = 60_000;
/// The first lockout, in milliseconds; each next one is twice as long.
const LOCKOUT_MS: i64 = 60_000;
/// The longest lockout, in milliseconds.
const LONGEST_MS: i64 = 3_600_000;
/// How many addresses are remembered.
const ADDRESSES: usize = 10_000;

/// The failures of addresses, bounded in number and in time.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<HashMap<IpAddr, Failures>>);

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    since_ms: i64,
    locked_until_ms: i64,
    lockouts: u32,
}

// === impl Attempts ===

impl Attempts {
    /// Returns how many seconds an address still has to wait; `None` where it may try.
    pub fn wait_s(&self, address: IpAddr, now_ms: i64) -> Option<u64> {
        let failures = *self.0.lock().get(&address)?;
        let left = failures.locked_until_ms.saturating_sub(now_ms);
        u64::try_from(left)
            .ok()
            .filter(|left| *left > 0)
            .map(|left| left.div_ceil(1000))
    }

    /// Notes a failure: ten in a minute lock an address out for a minute, then for two, and so on up to an hour.
    pub fn failed(&self, address: IpAddr, now_ms: i64) {
        let mut by_address = self.0.lock();
        if by_address.len() >= ADDRESSES && !by_address.contains_key(&address) {
            by_address.retain(|_, failures| !failures.is_over(now_ms));
        }
        // So many at once are no mistakes of people: who fails first is remembered.
        if by_address.len() >= ADDRESSES && !by_address.contains_key(&address) {
            return;
        }
        let failures = by_address.entry(address).or_insert(Failures {
            count: 0,
            since_ms: now_ms,
            locked_until_ms: 0,
            lockouts: 0,
        });
        if now_ms.saturating_sub(failures.since_ms) >= WINDOW_MS {
            failures.count = 0;
            failures.since_ms = now_ms;
        }
        failures.count += 1;
        if failures.count >= MOST {
            let longer = 1_i64 << failures.lockouts.min(16);
            let lockout = LOCKOUT_MS.saturating_mul(longer).min(LONGEST_MS);
            failures.locked_until_ms = now_ms.saturating_add(lockout);
            failures.lockouts += 1;
            failures.count = 0;
        }
    }
}

// === impl Failures ===

impl Failures {
    /// Tells whether nothing of it matters any more.
    fn is_over(self, now_ms: i64) -> bool {
        let last = self.since_ms.max(self.locked_until_ms);
        now_ms.saturating_sub(last) >= LONGEST_MS
    }
}
