//! The only wait that a test may do.

use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(10);

/// Looks again and again until the closure gives a value, and gives that.
///
/// ```
/// use std::time::Duration;
/// use genlock_testkit::harness::eventually;
///
/// let mut looks = 0;
/// let seen = eventually(Duration::from_secs(5), "third look", || {
///     looks += 1;
///     (looks == 3).then_some(looks)
/// });
/// assert_eq!(seen, 3);
/// ```
///
/// # Panics
/// After `deadline`, naming `what` did not come.
pub fn eventually<T>(deadline: Duration, what: &str, look: impl FnMut() -> Option<T>) -> T {
    poll(deadline, look).unwrap_or_else(|| panic!("not within {deadline:?}: {what}"))
}

/// The same for those who have more to say when it does not come.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that sleeps, between two looks"
)]
pub(crate) fn poll<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let found = look();
        if found.is_some() || start.elapsed() >= deadline {
            return found;
        }
        std::thread::sleep(POLL);
    }
}

/// Looks again and again until the future gives a value, and gives that.
///
/// # Panics
/// After `deadline`, naming `what` did not come.
pub async fn eventually_async<T>(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            start.elapsed() < deadline,
            "not within {deadline:?}: {what}"
        );
        tokio::time::sleep(POLL).await;
    }
}
