//! [`Limits`]: how many calls the callers of one tenant make at once, and in a second.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use genlock_config::{Config, TenantLimits};
use genlock_servers::{Slot, Slots};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

/// Whose limits count for each tenant that has none of its own.
const ANY: &str = "*";

/// The limits in force, and what each tenant has used of its own. What was used outlives a reload.
pub(crate) struct Limits(Mutex<State>);

struct State {
    by_tenant: BTreeMap<String, TenantLimits>,
    shares: HashMap<Arc<str>, Arc<Share>>,
}

/// What one tenant has used.
struct Share {
    slots: Slots,
    rate: Mutex<Rate>,
}

/// A rate of calls, as the time at which the next one is due if all that came had come evenly.
#[derive(Debug, Clone, Copy)]
struct Rate {
    limits: TenantLimits,
    due_at: Instant,
}

/// Why a call is not made. It did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Exceeded {
    /// Too many calls came in too short a time.
    #[error(
        "the callers of this tenant make {rps} calls a second at most, try again in {again_ms} ms"
    )]
    Rate {
        /// What is allowed in a second.
        rps: u32,
        /// After how many milliseconds the next call is let through.
        again_ms: u64,
    },
    /// Too many calls ran until the deadline.
    #[error(
        "the callers of this tenant make {most} calls at once at most, and none ended within the deadline"
    )]
    Concurrency {
        /// What is allowed at once.
        most: u32,
    },
}

// === impl Exceeded ===

impl Exceeded {
    /// Returns the stable code of the refusal.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Rate { .. } => "rate_limited",
            Self::Concurrency { .. } => "busy",
        }
    }
}

// === impl Limits ===

impl Limits {
    pub(crate) fn new(config: &Config) -> Self {
        Self(Mutex::new(State {
            by_tenant: config.execution.tenant_limits.clone(),
            shares: HashMap::new(),
        }))
    }

    /// Takes over the limits of a configuration that was put in force, for calls that wait as well.
    pub(crate) fn follow(&self, config: &Config) {
        let mut state = self.0.lock();
        if state.by_tenant == config.execution.tenant_limits {
            return;
        }
        state.by_tenant.clone_from(&config.execution.tenant_limits);
        for (tenant, share) in &state.shares {
            share.set(limits_of(&state.by_tenant, tenant));
        }
    }

    /// Lets a call of a tenant through, once there are not too many of them; what is returned is held while it runs.
    ///
    /// # Errors
    /// At once where the rate is exceeded; at the deadline where too many run.
    ///
    /// # Cancel safety
    /// A dropped wait takes no slot; it has been counted in the rate.
    pub(crate) async fn enter(
        &self,
        tenant: Option<&str>,
        deadline: Instant,
    ) -> Result<Option<Slot>, Exceeded> {
        let Some(tenant) = tenant else {
            return Ok(None);
        };
        let share = self.share_of(tenant);
        share.rate.lock().take(Instant::now())?;
        match timeout_at(deadline, share.slots.take()).await {
            Ok(slot) => Ok(Some(slot)),
            Err(_) => {
                let most = share.rate.lock().limits.max_concurrency.unwrap_or_default();
                Err(Exceeded::Concurrency { most })
            }
        }
    }

    /// Returns the limits of a tenant.
    pub(crate) fn of(&self, tenant: &str) -> TenantLimits {
        limits_of(&self.0.lock().by_tenant, tenant)
    }

    fn share_of(&self, tenant: &str) -> Arc<Share> {
        let mut state = self.0.lock();
        if let Some(share) = state.shares.get(tenant) {
            return Arc::clone(share);
        }
        let limits = limits_of(&state.by_tenant, tenant);
        let share = Arc::new(Share::new(limits, Instant::now()));
        state.shares.insert(tenant.into(), Arc::clone(&share));
        share
    }
}

fn limits_of(by_tenant: &BTreeMap<String, TenantLimits>, tenant: &str) -> TenantLimits {
    let own = by_tenant.get(tenant).or_else(|| by_tenant.get(ANY));
    own.copied().unwrap_or_default()
}

// === impl Share ===

impl Share {
    fn new(limits: TenantLimits, now: Instant) -> Self {
        Self {
            slots: Slots::new(limits.max_concurrency.unwrap_or(u32::MAX)),
            rate: Mutex::new(Rate {
                limits,
                due_at: now,
            }),
        }
    }

    fn set(&self, limits: TenantLimits) {
        self.rate.lock().limits = limits;
        self.slots
            .set_limit(limits.max_concurrency.unwrap_or(u32::MAX));
    }
}

// === impl Rate ===

impl Rate {
    /// Counts a call in.
    ///
    /// # Errors
    /// Where it comes too early.
    fn take(&mut self, now: Instant) -> Result<(), Exceeded> {
        let Some(rps) = self.limits.rps else {
            return Ok(());
        };
        let pause = Duration::from_secs(1) / rps.max(1);
        let at_once = self.limits.burst.unwrap_or(rps).max(1);
        let ahead = pause * (at_once - 1);
        // What was used under another rate is not held against anybody for longer than this one fills up.
        let due_at = self.due_at.clamp(now, now + ahead + pause);
        let early = (due_at - now).saturating_sub(ahead);
        if !early.is_zero() {
            let again_ms = u64::try_from(early.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
            return Err(Exceeded::Rate { rps, again_ms });
        }
        self.due_at = due_at + pause;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    fn limits(most: Option<u32>, rps: Option<u32>, burst: Option<u32>) -> TenantLimits {
        TenantLimits {
            max_concurrency: most,
            rps,
            burst,
        }
    }

    fn config(by_tenant: &[(&str, TenantLimits)]) -> Config {
        let mut config = Config::default();
        let by_tenant = by_tenant.iter();
        config.execution.tenant_limits = by_tenant
            .map(|(tenant, limits)| ((*tenant).to_owned(), *limits))
            .collect();
        config
    }

    /// How many of the calls that come at these milliseconds are let through.
    fn let_through(limits: TenantLimits, at_ms: impl IntoIterator<Item = u64>) -> usize {
        let start = Instant::now();
        let mut rate = Rate {
            limits,
            due_at: start,
        };
        let mut calls = at_ms.into_iter();
        let mut passes = |ms: &u64| rate.take(start + Duration::from_millis(*ms)).is_ok();
        calls.by_ref().filter(|ms| passes(ms)).count()
    }

    #[tokio::test]
    async fn so_many_come_at_once_and_then_as_many_as_the_rate_lets_through() {
        let at_once = |many| std::iter::repeat_n(0, many);
        assert_eq!(let_through(limits(None, None, None), at_once(1000)), 1000);
        assert_eq!(let_through(limits(None, Some(10), None), at_once(50)), 10);
        assert_eq!(let_through(limits(None, Some(10), Some(3)), at_once(50)), 3);
        assert_eq!(let_through(limits(None, Some(10), Some(1)), at_once(50)), 1);
        // One call each millisecond for ten seconds.
        let steady = let_through(limits(None, Some(10), Some(3)), 0..10_000);
        assert_eq!(steady, 3 + 99);
        // Whoever was quiet may call at once again, and no more than that.
        let quiet = at_once(50).chain(std::iter::repeat_n(60_000, 50));
        assert_eq!(let_through(limits(None, Some(10), Some(3)), quiet), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_is_told_when_the_next_call_is_let_through() {
        let limits = Limits::new(&config(&[("a", limits(None, Some(4), Some(1)))]));
        let deadline = Instant::now() + Duration::from_secs(300);
        assert!(limits.enter(Some("a"), deadline).await.is_ok());

        let refused = limits.enter(Some("a"), deadline).await.err();

        let again_ms = 250;
        assert_eq!(refused, Some(Exceeded::Rate { rps: 4, again_ms }));
        tokio::time::advance(Duration::from_millis(again_ms)).await;
        assert!(limits.enter(Some("a"), deadline).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_waits_for_its_own_calls_and_for_nobody_elses() {
        let any = limits(Some(1), None, None);
        let own = limits(Some(2), None, None);
        let limits = Limits::new(&config(&[("a", own), ("*", any)]));
        let deadline = Instant::now() + Duration::from_secs(5);
        let enter = |tenant| limits.enter(tenant, deadline);
        let _of_a = (
            enter(Some("a")).await.unwrap(),
            enter(Some("a")).await.unwrap(),
        );
        let of_b = enter(Some("b")).await.unwrap();

        let mut third_of_a = Box::pin(enter(Some("a")));
        assert!(poll!(&mut third_of_a).is_pending());
        let mut second_of_b = Box::pin(enter(Some("b")));
        assert!(poll!(&mut second_of_b).is_pending());
        assert!(enter(Some("c")).await.is_ok());
        assert!(enter(None).await.is_ok() && enter(None).await.is_ok());

        drop(of_b);
        assert!(second_of_b.await.is_ok());
        assert_eq!(
            third_of_a.await.err(),
            Some(Exceeded::Concurrency { most: 2 })
        );
    }

    #[tokio::test(start_paused = true)]
    async fn another_limit_counts_at_once_and_for_those_who_wait() {
        let limits = Limits::new(&config(&[("*", self::limits(Some(1), Some(1), None))]));
        let deadline = Instant::now() + Duration::from_secs(300);
        let _running = limits.enter(Some("a"), deadline).await.unwrap();
        assert_eq!(
            limits
                .enter(Some("a"), deadline)
                .await
                .err()
                .map(Exceeded::code),
            Some("rate_limited")
        );

        limits.follow(&config(&[("*", self::limits(Some(1), None, None))]));
        let mut waiting = Box::pin(limits.enter(Some("a"), deadline));
        assert!(poll!(&mut waiting).is_pending());
        limits.follow(&config(&[]));

        assert!(poll!(&mut waiting).is_ready());
        assert_eq!(limits.of("a"), TenantLimits::default());
    }
}
