//! The child process behind a stdio server: started from nothing, watched, and ended with its whole group.

mod child;
mod environment;
mod stderr;

pub use child::SpawnError;
pub(crate) use child::{Child, spawn};
pub use environment::HostEnvironment;
pub(crate) use stderr::LogRing;
