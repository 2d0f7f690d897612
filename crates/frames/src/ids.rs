//! The identities that frames carry.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest id, in bytes.
const LONGEST: usize = 256;

/// A text is no id: it is empty, longer than 256 bytes, or holds something else than visible ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is 1 to 256 visible ASCII characters")]
pub struct InvalidId;

macro_rules! text_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Takes a text as an id.
            ///
            /// # Errors
            /// [`InvalidId`] where it is none.
            pub fn new(id: impl Into<String>) -> Result<Self, InvalidId> {
                let id = id.into();
                let fits = (1..=LONGEST).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
                if fits { Ok(Self(id)) } else { Err(InvalidId) }
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(id: String) -> Result<Self, InvalidId> {
                Self::new(id)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($number:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name($number);

        impl $name {
            /// Takes a number as it is.
            pub fn new(number: $number) -> Self {
                Self(number)
            }

            /// Returns the number.
            pub fn get(self) -> $number {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

text_ids! {
    /// The id of a session.
    SessionId;
    /// The id of one execution of a turn: what was reserved before the turn is sent.
    ExecutionId;
}

numbers! {
    /// The number of a session's policy: the first is 1, each committed transition adds 1.
    PolicySeq(u64);
    /// The number of an authority's start.
    Epoch(u64);
    /// The id of a process.
    Pid(u32);
    /// When a process was started, in clock ticks after the system was: with the [`Pid`] it names one process for good.
    Birth(u64);
}
