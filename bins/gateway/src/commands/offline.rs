//! What is asked of a gateway whether it runs or not: with it running, by asking it; without, on its state directory.

use std::time::Duration;

use genlock_gateway::{
    ClaimError, ControlClient, ControlError, Host, KeysError, Offline, StateDir,
};
use genlock_mcp::{RawJson, RawObject};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    failure::{Exit, Failure},
    place::Place,
};

/// How long a gateway may take that is just starting or ending.
const PATIENCE: Duration = Duration::from_secs(15);

/// Asks the running gateway, or does itself what that would do: whoever has the state directory's lock writes. The inner error
/// is what the gateway refuses.
pub(super) async fn ask(
    place: &Place,
    host: &Host,
    method: &str,
    params: &Value,
) -> Result<Result<Value, ControlError>, Failure> {
    let dir = place.state_dir()?;
    let params = RawObject::parse(&RawJson::encode(params)).unwrap_or_default();
    let until = Instant::now() + PATIENCE;
    let answered = loop {
        match StateDir::claim(&dir) {
            Ok(claimed) => break offline(place, host, claimed, method, &params).await?,
            Err(ClaimError::Held { .. }) => {}
            Err(error) => {
                let code = error.code();
                return Err(Failure::new(Exit::Unavailable, code, error));
            }
        }
        match ControlClient::connect(&dir).await {
            Ok(mut control) => break control.call(method, params).await,
            Err(error) if Instant::now() >= until => break Err(error),
            // It is just starting, or just ending.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    };
    match answered {
        Ok(answer) => match answer.decode() {
            Ok(answer) => Ok(Ok(answer)),
            Err(error) => Err(Failure::new(Exit::Bug, "answer.unreadable", error)),
        },
        Err(error) => Ok(Err(error)),
    }
}

async fn offline(
    place: &Place,
    host: &Host,
    claimed: StateDir,
    method: &str,
    params: &RawObject,
) -> Result<Result<RawJson, ControlError>, Failure> {
    let source = place.source();
    let opened = Offline::open(claimed, &source, host).await;
    let opened = opened.map_err(|error| {
        let code = error.code();
        match error {
            KeysError::Config(error) => {
                let file = source.file.unwrap_or_default();
                place.failed(&file, error)
            }
            KeysError::History(_)
            | KeysError::Open { .. }
            | KeysError::Read(_)
            | KeysError::Revoked(_) => Failure::new(Exit::Unavailable, code, error),
        }
    })?;
    let answered = opened.call(method, params).await;
    opened.close().await;
    Ok(answered)
}
