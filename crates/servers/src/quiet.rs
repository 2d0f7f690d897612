//! What a connection needs that nobody uses: to be tried now and then, and to be stopped after a while.

use std::time::Duration;

use tokio::time::Instant;

/// How soon a connection in use is looked at again.
const BUSY: Duration = Duration::from_secs(1);

/// What is due on a quiet connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quiet {
    /// Stop the server: `idle_ttl_s` is over.
    Stop,
    /// Try whether it is there: `keepalive_interval` is over.
    Try,
    /// Nothing; look again.
    Look,
}

/// A connection, as far as its quiet is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Whether calls are under way.
    pub(crate) busy: bool,
    /// When the last call ended, or the connection was made.
    pub(crate) used_at: Instant,
    /// When the last try ended, or the connection was made.
    pub(crate) tried_at: Instant,
}

/// Returns what is due next and when; `None` where nothing ever is. A zero span means never.
pub(crate) fn due(
    usage: Usage,
    idle_ttl: Duration,
    keepalive: Duration,
    now: Instant,
) -> Option<(Instant, Quiet)> {
    let wanted = |span: Duration| (!span.is_zero()).then_some(span);
    let stop = wanted(idle_ttl).map(|span| (usage.used_at + span, Quiet::Stop));
    let heard_at = usage.used_at.max(usage.tried_at);
    let tried = wanted(keepalive).map(|span| (heard_at + span, Quiet::Try));
    let next = [stop, tried]
        .into_iter()
        .flatten()
        .min_by_key(|(at, _)| *at)?;
    if usage.busy {
        return Some((next.0.max(now + BUSY), Quiet::Look));
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a_quiet_connection_is_tried_and_stopped_after_its_last_call() {
        let start = Instant::now();
        let usage = |busy, used, tried| Usage {
            busy,
            used_at: start + S(used),
            tried_at: start + S(tried),
        };
        let now = start + S(100);
        let due = |usage, ttl, keepalive| {
            let due = due(usage, S(ttl), S(keepalive), now);
            due.map(|(at, what)| ((at - start).as_secs(), what))
        };
        assert_eq!(due(usage(false, 90, 10), 0, 0), None);
        assert_eq!(due(usage(false, 90, 10), 30, 0), Some((120, Quiet::Stop)));
        assert_eq!(due(usage(false, 90, 10), 0, 180), Some((270, Quiet::Try)));
        assert_eq!(due(usage(false, 10, 90), 0, 180), Some((270, Quiet::Try)));
        assert_eq!(due(usage(false, 90, 95), 30, 20), Some((115, Quiet::Try)));
        // A try is no use: it does not keep a server running.
        assert_eq!(due(usage(false, 90, 110), 30, 20), Some((120, Quiet::Stop)));
        // Never while calls are under way.
        assert_eq!(due(usage(true, 10, 10), 30, 20), Some((101, Quiet::Look)));
        assert_eq!(due(usage(true, 90, 10), 30, 180), Some((120, Quiet::Look)));
        assert_eq!(due(usage(true, 90, 10), 0, 0), None);
    }
}
