//! Three tools: `echo`, `add`, and `slow` with progress.

use std::{sync::Arc, time::Duration};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        JsonObject, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
        ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

/// The handler.
#[derive(Debug, Clone)]
pub(crate) struct Tools;

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("rmcp-peer", "1.0.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(definitions()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        definitions().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text = match request.name.as_ref() {
            "echo" => arguments
                .get("text")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            "add" => (number(&arguments, "a") + number(&arguments, "b")).to_string(),
            "slow" => slow(&arguments, &context).await?,
            other => {
                return Err(ErrorData::invalid_params(
                    format!("Unknown tool: {other}"),
                    None,
                ));
            }
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

fn definitions() -> Vec<Tool> {
    [
        (
            "echo",
            "Answers with `text`.",
            json!({"text": {"type": "string"}}),
        ),
        (
            "add",
            "Answers with a + b.",
            json!({"a": {"type": "number"}, "b": {"type": "number"}}),
        ),
        (
            "slow",
            "Reports `steps` steps.",
            json!({"steps": {"type": "integer"}, "delay_ms": {"type": "integer"}}),
        ),
    ]
    .map(|(name, description, properties)| {
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), properties);
        Tool::new(name, description, Arc::new(schema))
    })
    .to_vec()
}

fn number(arguments: &JsonObject, name: &str) -> f64 {
    arguments
        .get(name)
        .and_then(Value::as_f64)
        .unwrap_or_default()
}

async fn slow(
    arguments: &JsonObject,
    context: &RequestContext<RoleServer>,
) -> Result<String, ErrorData> {
    let integer = |name: &str| {
        arguments
            .get(name)
            .and_then(Value::as_u64)
            .unwrap_or_default()
    };
    let steps = u32::try_from(integer("steps")).unwrap_or(u32::MAX);
    for step in 1..=steps {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(integer("delay_ms"))) => {}
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
        }
        if let Some(token) = context.meta.get_progress_token() {
            let report =
                ProgressNotificationParam::new(token, f64::from(step)).with_total(f64::from(steps));
            // A client that went away has no use for it.
            let _ = context.peer.notify_progress(report).await;
        }
    }
    Ok(format!("{steps} steps done"))
}
