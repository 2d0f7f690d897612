//! Work that goes on when nobody waits for it any more.

use tokio_util::task::TaskTracker;

/// Runs an act to its end, whatever becomes of the client that asked for it: one that is dropped with its connection would be
/// half done, or done without a record.
///
/// # Cancel safety
/// A dropped call lets the work go on.
pub(crate) async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    match TaskTracker::new().spawn(work).await {
        Ok(done) => done,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and whoever waits here with it.
            Err(_) => std::future::pending().await,
        },
    }
}
