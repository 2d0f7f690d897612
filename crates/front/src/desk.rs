//! [`Desk`]: what the host of a front does for its meta tools.

use std::pin::Pin;

use genlock_access::Visitor;
use serde_json::Value;

/// What a front asks of the gateway behind it. Answers show no private value.
pub trait Desk: Send + Sync {
    /// Returns how the gateway is now.
    ///
    /// # Cancel safety
    /// Changes nothing; may be dropped at any time.
    fn status(&self) -> Pin<Box<dyn Future<Output = Value> + Send + '_>>;

    /// Brings the configuration into force for a visitor and says what came of it; an error where that was refused.
    ///
    /// # Cancel safety
    /// What was committed stays in force.
    fn reload(
        &self,
        visitor: &Visitor,
    ) -> Pin<Box<dyn Future<Output = Result<Value, Value>> + Send + '_>>;
}
