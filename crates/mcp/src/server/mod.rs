//! The side that clients talk to: which era a message belongs to, and whether its headers agree with its body.

mod admission;

pub use admission::{Admitted, Refusal, admit_http, admit_pipe};
