//! How the parameters of a control method are read.

use genlock_mcp::{RawObject, RpcError};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use std::time::Duration;

use super::refusal;

/// The longest that an answer waits.
const LONGEST_WAIT: f64 = 600.0;

/// Reads parameters; a type says by `deny_unknown_fields` that it knows all of them.
pub(super) fn read<T: DeserializeOwned>(params: &RawObject) -> Result<T, RpcError> {
    serde_json::from_slice(params.to_raw().as_bytes())
        .map_err(|error| refusal("invalid_params", &error.to_string()))
}

/// A wait, as a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait(pub(super) Duration);

impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        let wait = Duration::try_from_secs_f64(seconds.min(LONGEST_WAIT));
        wait.map(Self)
            .map_err(|_| serde::de::Error::custom("a number of seconds is 0 or more"))
    }
}
