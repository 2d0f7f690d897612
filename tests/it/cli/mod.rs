//! The command line: what each command prints and the code it ends with.

mod check;
mod paste;
mod serve;
mod status;
mod warm;
