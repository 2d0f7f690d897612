//! The demo server: a small, honest MCP server to try a gateway with. It speaks both eras over a pipe.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use genlock_mcp::{
    Era, Message, Notification, ProtocolVersion, RawJson, RawObject, Request, RequestId, Response,
    RpcError,
    lines::{Line, LineReader},
    meta,
    server::{Admitted, admit_pipe},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

const LONGEST_LINE: usize = 16 * 1024 * 1024;
const LONGEST_COUNTDOWN: u64 = 60;

/// Reads the wall clock.
pub(crate) type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Serves the demo server on a pipe until the client closes its end. `clock` reads the wall clock.
///
/// # Cancel safety
/// A dropped serve ends all calls.
pub async fn serve<R, W>(reader: R, mut writer: W, clock: Arc<dyn Fn() -> SystemTime + Send + Sync>)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (outgoing, mut answers) = mpsc::channel::<Message>(64);
    let mut lines = LineReader::new(reader, LONGEST_LINE);
    let mut demo = Demo {
        clock,
        outgoing,
        calls: JoinSet::new(),
        in_flight: HashMap::new(),
    };
    let mut open = true;
    while open || !demo.calls.is_empty() || !answers.is_empty() {
        tokio::select! {
            Some(answer) = answers.recv() => {
                if let Message::Response(response) = &answer {
                    demo.in_flight.remove(&response.id);
                }
                for part in answer.to_wire().into_line() {
                    if writer.write_all(&part).await.is_err() {
                        return;
                    }
                }
                if writer.flush().await.is_err() {
                    return;
                }
            }
            line = lines.next(), if open => match line {
                Ok(Some(Line::Whole(line))) => demo.take(Message::parse(line)).await,
                Ok(Some(Line::TooLong(_))) => {}
                Ok(None) | Err(_) => open = false,
            },
            Some(_) = demo.calls.join_next() => {}
        }
    }
}

struct Demo {
    clock: Clock,
    outgoing: mpsc::Sender<Message>,
    calls: JoinSet<()>,
    in_flight: HashMap<RequestId, CancellationToken>,
}

impl Demo {
    async fn take(&mut self, message: Result<Message, genlock_mcp::message::ParseError>) {
        let answer = match message {
            Ok(Message::Request(request)) => match admit_pipe(&Message::Request(request.clone())) {
                Ok(Admitted::Modern(_)) => self.request(request, Era::Modern),
                Ok(Admitted::Legacy(_)) => self.request(request, Era::Legacy),
                Err(refusal) => Some(Response::error(request.id, &refusal.error)),
            },
            Ok(Message::Notification(notification)) => {
                self.notification(&notification);
                None
            }
            Ok(Message::Response(_)) => None,
            Err(error) => Some(Response::error(
                error.id.clone().unwrap_or(RawJson::NULL),
                &error.to_rpc(),
            )),
        };
        if let Some(answer) = answer {
            // An error means that the writer is gone, and so is the client.
            let _ = self.outgoing.send(Message::Response(answer)).await;
        }
    }

    fn notification(&self, notification: &Notification) {
        if notification.method == "notifications/cancelled"
            && let Some(token) = notification
                .params
                .get("requestId")
                .and_then(|id| self.in_flight.get(id))
        {
            token.cancel();
        }
    }

    /// Answers at once, or begins a call that answers later.
    fn request(&mut self, request: Request, era: Era) -> Option<Response> {
        let result = match (request.method.as_str(), era) {
            ("initialize", _) => initialize(&request.params),
            ("server/discover", Era::Modern) => Ok(
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 60_000, "cacheScope": "public"}),
            ),
            ("ping", Era::Legacy) => Ok(json!({})),
            ("tools/list", _) => {
                Ok(json!({"tools": tools(), "ttlMs": 60_000, "cacheScope": "public"}))
            }
            ("tools/call", _) => {
                self.begin(request, era);
                return None;
            }
            (method, _) => Err(RpcError::method_not_found(method)),
        };
        Some(answer(request.id, result, era))
    }

    fn begin(&mut self, request: Request, era: Era) {
        let cancelled = CancellationToken::new();
        self.in_flight.insert(request.id.clone(), cancelled.clone());
        let (clock, outgoing) = (Arc::clone(&self.clock), self.outgoing.clone());
        self.calls.spawn(async move {
            tokio::select! {
                () = cancelled.cancelled() => {}
                result = call(&request.params, &clock, &outgoing) => {
                    // An error means that the writer is gone, and so is the client.
                    let _ = outgoing.send(Message::Response(answer(request.id, result, era))).await;
                }
            }
        });
    }
}

fn answer(id: RequestId, result: Result<Value, RpcError>, era: Era) -> Response {
    match result {
        Err(error) => Response::error(id, &error),
        Ok(mut value) => {
            if let (Era::Modern, Some(object)) = (era, value.as_object_mut()) {
                object.insert("resultType".to_owned(), json!("complete"));
                object.insert(
                    "_meta".to_owned(),
                    json!({ meta::SERVER_INFO: server_info() }),
                );
            }
            Response::result(id, RawJson::encode(&value))
        }
    }
}

fn server_info() -> Value {
    json!({"name": "genlock-demo", "version": env!("CARGO_PKG_VERSION")})
}

fn initialize(params: &RawObject) -> Result<Value, RpcError> {
    let asked = params.get_string("protocolVersion");
    let asked = asked.ok_or_else(|| RpcError::invalid_params("`protocolVersion` is required"))?;
    let version = ProtocolVersion::negotiate_legacy(&asked);
    Ok(
        json!({"protocolVersion": version.as_str(), "capabilities": {"tools": {}}, "serverInfo": server_info()}),
    )
}

fn tools() -> Value {
    json!([
        {
            "name": "time",
            "title": "Time",
            "description": "Tells the time.",
            "inputSchema": {"type": "object", "properties": {
                "utc_offset_minutes": {"type": "integer", "minimum": -1439, "maximum": 1439, "default": 0}
            }, "additionalProperties": false},
            "annotations": {"readOnlyHint": true},
        },
        {
            "name": "text_stats",
            "title": "Text statistics",
            "description": "Counts the lines, words, characters and bytes of a text.",
            "inputSchema": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}, "additionalProperties": false},
            "annotations": {"readOnlyHint": true},
        },
        {
            "name": "countdown",
            "title": "Countdown",
            "description": "Counts seconds down and reports progress; made to be watched and cancelled.",
            "inputSchema": {"type": "object", "properties": {
                "seconds": {"type": "integer", "minimum": 1, "maximum": LONGEST_COUNTDOWN, "default": 5}
            }, "additionalProperties": false},
            "annotations": {"readOnlyHint": true},
        },
    ])
}

async fn call(
    params: &RawObject,
    clock: &Clock,
    outgoing: &mpsc::Sender<Message>,
) -> Result<Value, RpcError> {
    let arguments = params.get_object("arguments").unwrap_or_default();
    match params.get_string("name").as_deref() {
        Some("time") => Ok(time(&arguments, clock)),
        Some("text_stats") => Ok(text_stats(&arguments)),
        Some("countdown") => {
            Ok(countdown(&arguments, meta::progress_token(params), outgoing).await)
        }
        _ => Err(RpcError::invalid_params("unknown tool")),
    }
}

fn structured(value: &Value) -> Value {
    json!({"content": [{"type": "text", "text": value.to_string()}], "structuredContent": value})
}

fn failed(message: &str) -> Value {
    json!({"content": [{"type": "text", "text": message}], "isError": true})
}

/// Reads an integer argument; `Err` where it is none or out of range.
fn integer(
    arguments: &RawObject,
    name: &str,
    default: i64,
    range: std::ops::RangeInclusive<i64>,
) -> Result<i64, Value> {
    let Some(raw) = arguments.get(name) else {
        return Ok(default);
    };
    let number = raw
        .decode::<i64>()
        .ok()
        .filter(|number| range.contains(number));
    number.ok_or_else(|| {
        failed(&format!(
            "`{name}` must be an integer from {} to {}",
            range.start(),
            range.end()
        ))
    })
}

fn time(arguments: &RawObject, clock: &Clock) -> Value {
    let minutes = match integer(arguments, "utc_offset_minutes", 0, -1439..=1439) {
        Ok(minutes) => minutes,
        Err(refused) => return refused,
    };
    let offset = i32::try_from(minutes * 60)
        .ok()
        .and_then(|seconds| jiff::tz::Offset::from_seconds(seconds).ok());
    match (jiff::Timestamp::try_from(clock()), offset) {
        (Ok(now), Some(offset)) => structured(&json!({
            "utc": now.to_string(),
            "local": offset.to_datetime(now).to_string(),
            "unix_seconds": now.as_second(),
        })),
        _ => failed("the clock cannot be read"),
    }
}

fn text_stats(arguments: &RawObject) -> Value {
    let Some(text) = arguments.get_string("text") else {
        return failed("`text` must be a string");
    };
    structured(&json!({
        "lines": text.lines().count(),
        "words": text.split_whitespace().count(),
        "characters": text.chars().count(),
        "bytes": text.len(),
    }))
}

async fn countdown(
    arguments: &RawObject,
    token: Option<RawJson>,
    outgoing: &mpsc::Sender<Message>,
) -> Value {
    let seconds = match integer(arguments, "seconds", 5, 1..=60) {
        Ok(seconds) => seconds,
        Err(refused) => return refused,
    };
    for done in 1..=seconds {
        sleep(Duration::from_secs(1)).await;
        if let Some(token) = &token {
            let params = [
                (meta::PROGRESS_TOKEN, token.clone()),
                ("progress", RawJson::encode(&done)),
                ("total", RawJson::encode(&seconds)),
                (
                    "message",
                    RawJson::string(&format!("{} s left", seconds - done)),
                ),
            ];
            let progress =
                Notification::new("notifications/progress", params.into_iter().collect());
            // Progress is advice: a client that does not read misses some.
            let _ = outgoing.try_send(Message::Notification(progress));
        }
    }
    structured(&json!({ "counted_seconds": seconds }))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(lines: &str) -> Vec<Value> {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let (server_reader, server_writer) = tokio::io::split(server);
        let (client_reader, mut client_writer) = tokio::io::split(client);
        let input = lines.to_owned();
        let serving = serve(
            server_reader,
            server_writer,
            Arc::new(|| SystemTime::UNIX_EPOCH),
        );
        let asking = async move {
            client_writer.write_all(input.as_bytes()).await.unwrap();
            client_writer.shutdown().await.unwrap();
            let mut reader = LineReader::new(client_reader, LONGEST_LINE);
            let mut answers = Vec::new();
            while let Ok(Some(Line::Whole(line))) = reader.next().await {
                answers.push(serde_json::from_slice(&line).unwrap());
            }
            answers
        };
        tokio::join!(serving, asking).1
    }

    #[tokio::test]
    async fn tools_answer_with_text_and_structure() {
        let answers = ask(concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"time","arguments":{"utc_offset_minutes":60}}}"#,
            "\n",
        ))
        .await;
        let structure = json!({"utc": "1970-01-01T00:00:00Z", "local": "1970-01-01T01:00:00", "unix_seconds": 0});
        assert_eq!(answers[0]["result"]["structuredContent"], structure);
    }

    #[tokio::test(start_paused = true)]
    async fn a_countdown_reports_progress_under_the_callers_token() {
        let answers = ask(concat!(
            r#"{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"countdown","arguments":{"seconds":2},"_meta":{"progressToken":"t"}}}"#,
            "\n",
        ))
        .await;
        let progress: Vec<_> = answers
            .iter()
            .filter_map(|answer| answer["params"]["progress"].as_i64())
            .collect();
        assert_eq!(progress, [1, 2]);
        assert_eq!(
            answers[2]["result"]["structuredContent"],
            json!({"counted_seconds": 2})
        );
    }

    #[tokio::test]
    async fn wrong_arguments_are_the_tools_own_error() {
        let answers = ask(concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"countdown","arguments":{"seconds":0}}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"nothing"}}"#,
            "\n",
        ))
        .await;
        let find = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
        assert_eq!(find(1)["result"]["isError"], true);
        assert_eq!(find(2)["error"]["code"], -32602);
    }
}
