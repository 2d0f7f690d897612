//! [`InUse`]: how many calls of a server are under way, and when the last one ended.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use tokio::time::{Duration, Instant};

/// The calls of one server.
#[derive(Debug)]
pub(crate) struct InUse {
    began_at: Instant,
    calls: AtomicUsize,
    /// Milliseconds from the beginning to the end of the last call.
    last: AtomicU64,
}

/// A call under way; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Under<'a>(&'a InUse);

impl Default for InUse {
    fn default() -> Self {
        Self {
            began_at: Instant::now(),
            calls: AtomicUsize::new(0),
            last: AtomicU64::new(0),
        }
    }
}

impl InUse {
    /// Counts a call from here on. Who reads the connection after this, and finds one, has it until the call ends.
    pub(crate) fn begin(&self) -> Under<'_> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Under(self)
    }

    /// Returns how many calls are under way.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Tells whether calls are under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.calls() > 0
    }

    /// Returns when the last call ended; the beginning where there was none.
    pub(crate) fn last(&self) -> Instant {
        self.began_at + Duration::from_millis(self.last.load(Ordering::Acquire))
    }
}

impl Drop for Under<'_> {
    fn drop(&mut self) {
        let millis = u64::try_from(self.0.began_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last.fetch_max(millis, Ordering::AcqRel);
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_last_call_is_remembered() {
        let usage = InUse::default();
        let start = Instant::now();
        let (one, two) = (usage.begin(), usage.begin());
        assert_eq!((usage.calls(), usage.last()), (2, start));
        advance(Duration::from_secs(2)).await;
        drop(two);
        advance(Duration::from_secs(1)).await;
        drop(one);
        advance(Duration::from_secs(1)).await;
        assert_eq!(
            (usage.is_busy(), usage.last()),
            (false, start + Duration::from_secs(3))
        );
    }
}
