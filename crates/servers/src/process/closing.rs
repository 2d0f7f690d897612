//! How long a server has to end itself before it is killed.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long a server may take to end itself after its input was closed.
const EOF_GRACE: Duration = Duration::from_secs(2);
/// How long it may take after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(3);
/// How often it is looked at meanwhile.
const POLL: Duration = Duration::from_millis(10);

/// Waits for a server whose input was closed to end itself, and asks it to terminate where it does not. Returns when it has
/// ended or its time is over.
pub(super) async fn end_by_itself(has_ended: impl Fn() -> bool, terminate: impl FnOnce()) {
    if !ends_within(EOF_GRACE, &has_ended).await {
        terminate();
        ends_within(TERM_GRACE, &has_ended).await;
    }
}

/// Waits until a server has ended, and tells whether it did in time.
pub(super) async fn ends_within(grace: Duration, has_ended: impl Fn() -> bool) -> bool {
    let until = Instant::now() + grace;
    loop {
        if has_ended() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Closes a server that ends this long after its input was closed, or after SIGTERM. Tells when it was asked to
    /// terminate, and when it was not waited for any more.
    async fn close(by_itself: Duration, at_term: Duration) -> (Option<Duration>, Duration) {
        let began = Instant::now();
        let asked = Cell::new(None);
        let has_ended = || {
            let since_asked = |asked: Duration| began.elapsed() >= asked + at_term;
            began.elapsed() >= by_itself || asked.get().is_some_and(since_asked)
        };
        end_by_itself(has_ended, || asked.set(Some(began.elapsed()))).await;
        (asked.get(), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_has_two_seconds_after_its_input_and_three_after_sigterm() {
        let never = MS(3_600_000);
        assert_eq!(close(MS(0), never).await, (None, MS(0)));
        assert_eq!(close(MS(2_000), never).await, (None, MS(2_000)));
        assert_eq!(
            close(MS(2_001), never).await,
            (Some(MS(2_000)), MS(2_010)),
            "it is looked at every 10 ms"
        );
        assert_eq!(close(never, MS(0)).await, (Some(MS(2_000)), MS(2_000)));
        assert_eq!(close(never, MS(3_000)).await, (Some(MS(2_000)), MS(5_000)));
        assert_eq!(close(never, never).await, (Some(MS(2_000)), MS(5_000)));
    }
}
