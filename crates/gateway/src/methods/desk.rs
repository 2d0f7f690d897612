//! What a gateway does for the meta tools of its front: the methods of the same meaning. Whether the caller may is for the front
//! to decide.

use std::{pin::Pin, sync::Arc};

use genlock_access::Visitor;
use genlock_front::Desk;
use genlock_mcp::{RawJson, RawObject, Request};
use serde_json::{Value, json};

use super::{Methods, Peer};

impl Desk for Methods {
    fn status(&self) -> Pin<Box<dyn Future<Output = Value> + Send + '_>> {
        Box::pin(self.status.gateway())
    }

    fn reload(
        &self,
        visitor: &Visitor,
    ) -> Pin<Box<dyn Future<Output = Result<Value, Value>> + Send + '_>> {
        let peer = match visitor {
            // Who is not asked who they are is taken for the owner, on pipes as well.
            Visitor::Local => Peer::Owner,
            Visitor::Known(principal) => Peer::Principal(Arc::clone(principal)),
        };
        let confirm = [("confirm", RawJson::encode(&true))].into_iter();
        let request = Request {
            id: RawJson::NULL,
            method: "reload.mcp".to_owned(),
            params: confirm.collect::<RawObject>(),
        };
        Box::pin(async move {
            let done = self.call(&peer, &request).await;
            let done = done.map(|answer| answer.decode().unwrap_or_default());
            done.map_err(|error| {
                let error: Value =
                    serde_json::from_slice(error.to_raw().as_bytes()).unwrap_or_default();
                json!({"status": "refused", "message": error["message"], "data": error["data"]})
            })
        })
    }
}
