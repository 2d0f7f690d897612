//! The processes behind stdio servers: started from nothing, contained, watched, and ended with all they started.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "genlock-servers contains child processes by means that only Linux has (parent-death signals, subreapers, PID \
     namespaces, pidfds); another system needs a module of its own beside `process/direct.rs`, such as one with job \
     objects on Windows"
);

mod child;
mod closing;
mod direct;
mod environment;
mod keeper;
mod kept;
mod leaders;
mod masks;
mod program;
mod spawner;
mod start;
mod stderr;
mod sys;

pub(crate) use child::{Child, Pipes};
pub use environment::HostEnvironment;
pub use keeper::{Keeper, Role, role};
pub use program::SpawnError;
pub(crate) use start::Processes;
pub use start::{ContainmentReport, Rung};
pub(crate) use stderr::LogRing;
