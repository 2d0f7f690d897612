//! Batches, which only the 2025-03-26 revision has: many messages in one, answered in one.

use std::sync::Arc;

use futures_util::future::join_all;
use genlock_mcp::{
    Era, Message, RawJson, Request, Response, RpcError, Wire, error::code, message::ParseError,
};

use crate::{
    exchange::Caller,
    front::Front,
    http::{cancelled, take_notification},
    sessions::Session,
    world::World,
};

impl Front {
    /// Answers the requests of a batch, all of them under the world of its admission; `None` where it has none.
    pub(crate) async fn answer_batch(
        &self,
        world: &Arc<World>,
        items: Vec<Result<Message, ParseError>>,
        session: &Arc<Session>,
    ) -> Option<Wire> {
        let answers = items
            .into_iter()
            .map(|item| self.answer_one(world, item, session));
        let answers: Vec<RawJson> = join_all(answers)
            .await
            .into_iter()
            .flatten()
            .filter_map(|answer| RawJson::parse(answer.to_wire().into_bytes()).ok())
            .collect();
        if answers.is_empty() {
            return None;
        }
        let mut wire = Wire::new();
        wire.push(&RawJson::encode(&answers));
        Some(wire)
    }

    async fn answer_one(
        &self,
        world: &Arc<World>,
        item: Result<Message, ParseError>,
        session: &Arc<Session>,
    ) -> Option<Response> {
        match item {
            Ok(Message::Request(request)) => {
                Some(self.answer_request(world, request, session).await)
            }
            Ok(Message::Notification(notification)) => {
                take_notification(session, &notification);
                None
            }
            Ok(Message::Response(_)) => None,
            Err(error) => {
                let id = error.id.clone().unwrap_or(RawJson::NULL);
                Some(Response::error(id, &error.to_rpc()))
            }
        }
    }

    async fn answer_request(
        &self,
        world: &Arc<World>,
        request: Request,
        session: &Arc<Session>,
    ) -> Response {
        let id = request.id.clone();
        let Some(in_flight) = session.begin(&id) else {
            let error = RpcError::new(code::INVALID_REQUEST, "the id is used twice");
            return Response::error(id, &error);
        };
        let caller = Caller {
            visitor: session.owner.clone(),
            era: Era::Legacy,
            capabilities: None,
            surface: session.surface,
            headers: None,
            events: None,
        };
        tokio::select! {
            biased;
            () = in_flight.cancelled.cancelled() => cancelled(id).response,
            answer = self.handle(Arc::clone(world), request, caller) => answer.response,
        }
    }
}
