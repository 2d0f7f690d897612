//! The processes that are measured: how they start, end, and what they have used.

pub(crate) mod cores;
pub(crate) mod gateway;
pub(crate) mod procfs;
pub(crate) mod server;
pub(crate) mod stage;

use std::io;

use rustix::process::{Signal, set_parent_process_death_signal};

/// Makes this process end when the benchmark that started it does, however that ends.
///
/// # Errors
/// The operating system refuses.
pub(crate) fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}
