//! The control methods of configuration: `config.reload` and `generation.*`.

use genlock_mcp::{RawObject, RpcError, error::code};
use genlock_policy::{Cause, GenerationNumber};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Peer,
    params::{Wait, read},
    refusal,
};
use crate::{
    api,
    reload::{LIST, ReloadRequest, Reloader},
    report::ReloadError,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReloadParams {
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    confirm_mass_removal: bool,
    if_generation: Option<u64>,
    wait_s: Option<Wait>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RollbackParams {
    number: u64,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    confirm_mass_removal: bool,
    if_generation: Option<u64>,
    wait_s: Option<Wait>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    before: Option<u64>,
    limit: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetParams {
    number: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiffParams {
    from: u64,
    to: u64,
}

/// Answers a method of configuration.
pub(super) async fn answer(
    reloader: &Reloader,
    peer: &Peer,
    method: &str,
    params: &RawObject,
) -> Result<Value, RpcError> {
    let result = match method {
        "config.reload" => {
            let request = read::<ReloadParams>(params)?.request(Cause::Api, peer)?;
            reloader.reload(&request).await.map(|report| json!(report))
        }
        "generation.rollback" => {
            let params: RollbackParams = read(params)?;
            let earlier = number(params.number)?;
            let request = params.reload().request(Cause::Rollback, peer)?;
            let report = reloader.roll_back(earlier, &request).await;
            report.map(|report| json!(report))
        }
        "generation.list" => {
            let params: ListParams = read(params)?;
            let before = params.before.map(number).transpose()?;
            reloader
                .list(before, params.limit.unwrap_or(LIST).min(LIST))
                .await
        }
        "generation.get" => {
            let params: GetParams = read(params)?;
            reloader.shown(number(params.number)?).await
        }
        "generation.diff" => {
            let params: DiffParams = read(params)?;
            let changes = reloader
                .diff(number(params.from)?, number(params.to)?)
                .await;
            changes.map(|changes| json!(changes))
        }
        method => return Err(RpcError::method_not_found(method)),
    };
    result.map_err(|error| refused(&error))
}

/// Makes the refusal of a reload.
pub(super) fn refused(error: &ReloadError) -> RpcError {
    let mut detail = api::details(error);
    if let Some(detail) = detail.as_object_mut() {
        detail.insert("message".to_owned(), json!(error.to_string()));
    }
    RpcError::new(code::GATEWAY, error.code())
        .with_data(&json!({"reason": error.code(), "detail": detail}))
}

fn number(number: u64) -> Result<GenerationNumber, RpcError> {
    let invalid = || refusal("invalid_params", "the number of a generation is 1 or more");
    GenerationNumber::new(number).ok_or_else(invalid)
}

impl RollbackParams {
    fn reload(self) -> ReloadParams {
        let Self {
            number: _,
            dry_run,
            confirm_mass_removal,
            if_generation,
            wait_s,
        } = self;
        ReloadParams {
            dry_run,
            confirm_mass_removal,
            if_generation,
            wait_s,
        }
    }
}

impl ReloadParams {
    fn request(self, cause: Cause, peer: &Peer) -> Result<ReloadRequest, RpcError> {
        let mut request = ReloadRequest::of(cause, peer.who());
        request.dry_run = self.dry_run;
        request.confirm_mass_removal = self.confirm_mass_removal;
        request.expected = self.if_generation.map(number).transpose()?;
        if let Some(Wait(wait)) = self.wait_s {
            request.wait = wait;
        }
        Ok(request)
    }
}
