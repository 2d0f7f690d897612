//! [`Front`]: the one dispatcher behind every transport and both eras.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use genlock_config::{Config, Surface, ToolAccess};
use genlock_mcp::{
    Era, Notification, Outcome, ProtocolVersion, RawJson, RawObject, Request, Response, RpcError,
    error::{code, escape_text},
    meta,
};
use genlock_servers::{Server, ServerError, Servers};
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{Instant, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    catalog::{Catalog, Entry, Target},
    cursor::CursorKey,
    meta_tools::{Batch, MetaTool, list_servers, list_tools, tool_call},
    naming::SEPARATOR,
    sessions::Sessions,
};

/// Makes random bytes; passed in by the host.
pub type Entropy = Arc<dyn Fn() -> [u8; 16] + Send + Sync>;

/// The MCP surface of a gateway. A clone shares it.
#[derive(Clone)]
pub struct Front {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) servers: Arc<Servers>,
    access: ToolAccess,
    pub(crate) max_request_bytes: usize,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    catalog: ArcSwap<Catalog>,
    /// Held while a catalog is compiled, so that an older one never replaces a newer one.
    compiling: Mutex<()>,
    /// Rises each time clients are shown other tools.
    pub(crate) changed: watch::Sender<u64>,
    first_lists: Instant,
    cursors: CursorKey,
    pub(crate) sessions: Sessions,
    pub(crate) entropy: Entropy,
    server_info: RawJson,
    /// No new work is taken.
    pub(crate) draining: CancellationToken,
    /// Everything still open ends.
    pub(crate) stopped: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// The clients on pipes.
    pub(crate) pipes: TaskTracker,
}

/// Who asks, and what the answer may use.
pub(crate) struct Caller {
    pub(crate) era: Era,
    /// What the client declared for this request (modern).
    pub(crate) capabilities: Option<RawJson>,
    /// What the client asked its view to be narrowed to.
    pub(crate) surface: Option<Surface>,
    /// The headers of the request, where they must agree with the arguments.
    pub(crate) headers: Option<HeaderMap>,
    /// Where progress goes; `None` where the client asked for none.
    pub(crate) events: Option<mpsc::Sender<Notification>>,
}

/// An answer, and whether its method is one that is served.
pub(crate) struct Answer {
    pub(crate) response: Response,
    pub(crate) unknown_method: bool,
}

impl Front {
    /// Serves the tools of these servers. Must be called inside a tokio runtime.
    pub fn new(config: &Config, servers: Arc<Servers>, entropy: Entropy) -> Self {
        let key = [entropy(), entropy()].concat();
        let inner = Arc::new(Inner {
            catalog: ArcSwap::from_pointee(Catalog::compile(
                &servers,
                &config.tool_access,
                &BTreeMap::new(),
            )),
            access: config.tool_access.clone(),
            max_request_bytes: usize::try_from(config.execution.max_response_bytes)
                .unwrap_or(usize::MAX),
            allowed_hosts: config.allowed_hosts.clone(),
            allowed_origins: config.allowed_origins.clone(),
            compiling: Mutex::new(()),
            changed: watch::Sender::new(0),
            first_lists: Instant::now() + config.first_list_wait,
            cursors: CursorKey::new(&key),
            sessions: Sessions::default(),
            entropy,
            server_info: RawJson::encode(&serde_json::json!({
                "name": "genlock", "title": "Genlock", "version": env!("CARGO_PKG_VERSION")
            })),
            draining: CancellationToken::new(),
            stopped: CancellationToken::new(),
            tasks: TaskTracker::new(),
            pipes: TaskTracker::new(),
            servers,
        });
        let front = Self { inner };
        front.watch_servers();
        front
    }

    /// Compiles the catalog anew whenever a server's tools or state change.
    fn watch_servers(&self) {
        let moved = Arc::new(Notify::new());
        for server in self.inner.servers.iter() {
            let (mut tools, mut states) = (server.watch_tools(), server.watch());
            let (moved, stopped) = (Arc::clone(&moved), self.inner.stopped.clone());
            self.inner.tasks.spawn(async move {
                loop {
                    let gone = tokio::select! {
                        () = stopped.cancelled() => return,
                        changed = tools.changed() => changed.is_err(),
                        changed = states.changed() => changed.is_err(),
                    };
                    if gone {
                        return;
                    }
                    moved.notify_one();
                }
            });
        }
        let front = self.clone();
        self.inner.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = front.inner.stopped.cancelled() => return,
                    () = moved.notified() => front.recompile(),
                }
            }
        });
        // What changed before the watches began.
        self.recompile();
    }

    fn recompile(&self) {
        let _one_at_a_time = self.inner.compiling.lock();
        let old = self.inner.catalog.load_full();
        let new = Catalog::compile(&self.inner.servers, &self.inner.access, &old.owners);
        for report in new
            .reports
            .iter()
            .filter(|report| !old.reports.contains(report))
        {
            tracing::warn!(report, "tool names");
        }
        let same = new.shows_the_same_as(&old);
        self.inner.catalog.store(Arc::new(new));
        if !same {
            self.inner.changed.send_modify(|number| *number += 1);
        }
    }

    /// Compiles the catalog anew where a server's tools have changed and the watch on them has not come round yet; tells
    /// whether that was so.
    fn catch_up(&self) -> bool {
        let behind = !self.inner.catalog.load().is_of_now(&self.inner.servers);
        if behind {
            self.recompile();
        }
        behind
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.inner.catalog.load_full()
    }

    /// Takes no new work from here on; what runs goes on.
    pub fn drain(&self) {
        self.inner.draining.cancel();
    }

    /// Ends the streams on which clients hear of changes; answers that are under way go on.
    pub fn end_streams(&self) {
        self.inner.stopped.cancel();
    }

    /// Waits until the clients on pipes have their answers, after [`Front::end_streams`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn pipes_ended(&self) {
        self.inner.pipes.close();
        self.inner.pipes.wait().await;
    }

    /// Ends all streams and waits for the tasks behind them.
    pub async fn stop(&self) {
        self.inner.draining.cancel();
        self.inner.stopped.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Answers a request.
    pub(crate) async fn handle(&self, request: Request, caller: Caller) -> Answer {
        let Request { id, method, params } = request;
        let result = match (method.as_str(), caller.era) {
            ("tools/call", _) => self.call(params, &caller).await,
            ("tools/list", _) => self.list(&params, &caller).await,
            ("server/discover", Era::Modern) => Ok(Outcome::Object(self.discovered())),
            ("ping", Era::Legacy) => Ok(Outcome::Object(RawObject::default())),
            _ => {
                let response = Response::error(id, &RpcError::method_not_found(&method));
                return Answer {
                    response,
                    unknown_method: true,
                };
            }
        };
        let outcome = result.unwrap_or_else(|error| Outcome::Error(error.to_raw()));
        Answer {
            response: Response { id, outcome },
            unknown_method: false,
        }
    }

    // === what the gateway says of itself ===

    fn discovered(&self) -> RawObject {
        let versions: Vec<_> = ProtocolVersion::SERVED
            .iter()
            .map(|version| version.as_str())
            .collect();
        let mut result: RawObject = [
            ("supportedVersions", RawJson::encode(&versions)),
            ("capabilities", capabilities()),
        ]
        .into_iter()
        .collect();
        if let Some(instructions) = self.instructions() {
            result.set("instructions", RawJson::string(&instructions));
        }
        self.finish_own(&mut result, Some(self.catalog().ttl_ms()), Era::Modern);
        result
    }

    /// Answers `initialize`: the revision and the result.
    pub(crate) fn initialized(
        &self,
        params: &RawObject,
    ) -> Result<(ProtocolVersion, RawObject), RpcError> {
        let asked = params.get_string("protocolVersion");
        let asked =
            asked.ok_or_else(|| RpcError::invalid_params("`protocolVersion` is required"))?;
        let version = ProtocolVersion::negotiate_legacy(&asked);
        let mut result: RawObject = [
            ("protocolVersion", RawJson::string(version.as_str())),
            ("capabilities", capabilities()),
            ("serverInfo", self.inner.server_info.clone()),
        ]
        .into_iter()
        .collect();
        if let Some(instructions) = self.instructions() {
            result.set("instructions", RawJson::string(&instructions));
        }
        Ok((version, result))
    }

    fn instructions(&self) -> Option<String> {
        let described = self
            .inner
            .servers
            .iter()
            .filter(|server| server.definition().enabled)
            .map(|server| match &server.definition().description {
                Some(description) => format!("- {}: {description}", server.name()),
                None => format!("- {}", server.name()),
            });
        let lines: Vec<_> = described.collect();
        (!lines.is_empty()).then(|| {
            format!(
                "Genlock serves the tools of these MCP servers:\n{}",
                lines.join("\n")
            )
        })
    }

    /// Adds to a result of the gateway's own what the era demands.
    fn finish_own(&self, result: &mut RawObject, ttl_ms: Option<u64>, era: Era) {
        if era == Era::Legacy {
            return;
        }
        result.set("resultType", RawJson::string("complete"));
        if let Some(ttl_ms) = ttl_ms {
            result.set("ttlMs", RawJson::encode(&ttl_ms));
            result.set("cacheScope", RawJson::string("private"));
        }
        let mut meta = result.get_object("_meta").unwrap_or_default();
        meta.set(meta::SERVER_INFO, self.inner.server_info.clone());
        result.set("_meta", meta.to_raw());
    }

    // === lists ===

    async fn list(&self, params: &RawObject, caller: &Caller) -> Result<Outcome, RpcError> {
        let cursor = match params.get("cursor").map(RawJson::as_string) {
            None => None,
            Some(Some(cursor)) => Some(cursor),
            Some(None) => return Err(RpcError::invalid_params("`cursor` must be a string")),
        };
        self.wait_for_first_lists().await;
        let catalog = self.catalog();
        let surface = catalog.surface(caller.surface);
        let version = *self.inner.changed.borrow();
        let number = match cursor {
            None => 0,
            Some(cursor) => self.inner.cursors.open(&cursor, version, surface)?,
        };
        let page = catalog
            .page(surface, number)
            .ok_or_else(|| RpcError::invalid_params("invalid cursor"))?;
        let mut result: RawObject = [("tools", page.clone())].into_iter().collect();
        if catalog.has_page(surface, number + 1) {
            let next = self.inner.cursors.seal(number + 1, version, surface);
            result.set("nextCursor", RawJson::string(&next));
        }
        if let Some(unavailable) = catalog.unavailable() {
            let meta: RawObject = [("genlock/unavailable", unavailable.clone())]
                .into_iter()
                .collect();
            result.set("_meta", meta.to_raw());
        }
        self.finish_own(&mut result, Some(catalog.ttl_ms()), caller.era);
        Ok(Outcome::Object(result))
    }

    /// Waits for servers that were never listed, at most until `first_list_wait_s` after the start. From then on no
    /// server delays a list: it is left out, named in the answer, and announced when it is there.
    async fn wait_for_first_lists(&self) {
        let until = self.inner.first_lists;
        if Instant::now() >= until {
            return;
        }
        let missing = self
            .inner
            .servers
            .iter()
            .filter(|server| server.definition().enabled && server.tools().is_none());
        let waits: Vec<_> = missing.map(first_attempt).collect();
        if waits.is_empty() {
            self.catch_up();
            return;
        }
        // Who is not there by then is left out.
        let _ = timeout_at(until, futures_util::future::join_all(waits)).await;
        self.recompile();
    }

    // === calls ===

    async fn call(&self, params: RawObject, caller: &Caller) -> Result<Outcome, RpcError> {
        let name = params
            .get_string("name")
            .ok_or_else(|| RpcError::invalid_params("`name` must be a string"))?;
        if params
            .get("arguments")
            .is_some_and(|arguments| !arguments.is_object())
        {
            return Err(RpcError::invalid_params("`arguments` must be an object"));
        }
        let found = match self.find(&name, caller.surface) {
            Some(target) => Ok(target),
            None => self.find_after_first_listing(&name, caller.surface).await,
        };
        match found {
            Ok(Target::Tool(entry)) => self.call_tool(&entry, params, caller).await,
            Ok(Target::Meta(tool)) => self.call_meta(tool, &params, caller).await,
            Err(Some(error)) => Ok(self.refused(&error, caller.era)),
            Err(None) => Err(RpcError::invalid_params(format!(
                "unknown tool: {}",
                escape_text(&name)
            ))),
        }
    }

    fn find(&self, name: &str, surface: Option<Surface>) -> Option<Target> {
        let catalog = self.inner.catalog.load();
        catalog.target(name, catalog.surface(surface))
    }

    /// A name that begins with the prefix of a server that was never listed may become known with its first listing.
    async fn find_after_first_listing(
        &self,
        name: &str,
        surface: Option<Surface>,
    ) -> Result<Target, Option<ServerError>> {
        if self.catch_up()
            && let Some(found) = self.find(name, surface)
        {
            return Ok(found);
        }
        let is_prefix = |server: &&Server| {
            let rest = name.strip_prefix(&server.definition().prefix);
            rest.is_some_and(|rest| rest.starts_with(SEPARATOR)) && server.definition().enabled
        };
        if self.catalog().surface(surface) == Surface::Meta {
            return Err(None);
        }
        let Some(server) = self
            .inner
            .servers
            .iter()
            .find(is_prefix)
            .filter(|server| server.tools().is_none())
        else {
            return Err(None);
        };
        let patience =
            Instant::now() + server.definition().connect_timeout + Duration::from_secs(30);
        let snapshot = match timeout_at(patience, server.settled()).await {
            Ok(snapshot) => snapshot,
            Err(_) => server.snapshot(),
        };
        self.recompile();
        self.find(name, surface).ok_or_else(|| {
            let listed = server.tools().is_some();
            (!listed).then_some(ServerError::NotConnected {
                server: snapshot.name,
                state: snapshot.state,
                reason: snapshot.reason,
            })
        })
    }

    async fn call_tool(
        &self,
        entry: &Entry,
        params: RawObject,
        caller: &Caller,
    ) -> Result<Outcome, RpcError> {
        let arguments = params.get("arguments");
        if let Some(headers) = &caller.headers {
            entry.tool.params.check(headers, arguments)?;
        }
        let param_headers = entry.tool.params.values(arguments);
        let log_level = caller
            .events
            .as_ref()
            .and_then(|_| params.get_object("_meta")?.get(meta::LOG_LEVEL).cloned());
        let mut call = tool_call(&entry.tool.name, params);
        call.param_headers = param_headers;
        call.capabilities = caller.capabilities.as_ref().map(answerable);
        call.log_level = log_level;
        call.events = caller.events.clone();
        match entry.server.call(call, None).await {
            Ok(outcome) => Ok(bridged(outcome, caller.era)),
            Err(error) => Ok(self.refused(&error, caller.era)),
        }
    }

    async fn call_meta(
        &self,
        tool: MetaTool,
        params: &RawObject,
        caller: &Caller,
    ) -> Result<Outcome, RpcError> {
        let arguments = params.get_object("arguments").unwrap_or_default();
        let mut result = match tool {
            MetaTool::List => list_servers(&self.inner.servers),
            MetaTool::Tools => {
                self.wait_for_first_lists().await;
                list_tools(&self.catalog(), &self.inner.servers, &arguments)?
            }
            MetaTool::Call => match Batch::parse(&self.new_id(), &arguments, &self.inner.servers) {
                Ok(batch) => batch.run(caller.events.clone()).await,
                Err(refused) => refused,
            },
        };
        self.finish_own(&mut result, None, caller.era);
        Ok(Outcome::Object(result))
    }

    /// Makes the result of a call that a visible tool did not answer.
    fn refused(&self, error: &ServerError, era: Era) -> Outcome {
        let content =
            RawJson::encode(&serde_json::json!([{"type": "text", "text": error.to_string()}]));
        let meta: RawObject = [
            ("genlock/reason", RawJson::string(error.code())),
            (
                "genlock/may_have_run",
                RawJson::encode(&error.may_have_run()),
            ),
        ]
        .into_iter()
        .collect();
        let mut result: RawObject = [
            ("content", content),
            ("isError", RawJson::encode(&true)),
            ("_meta", meta.to_raw()),
        ]
        .into_iter()
        .collect();
        self.finish_own(&mut result, None, era);
        Outcome::Object(result)
    }

    /// Makes an id that nobody can guess.
    pub(crate) fn new_id(&self) -> String {
        (self.inner.entropy)()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// Waits until a server was listed, or its first attempt has failed.
async fn first_attempt(server: &Server) {
    let mut watched = server.watch();
    // The sender lives as long as the server.
    let _ = watched
        .wait_for(|snapshot| snapshot.listed || snapshot.last_error.is_some())
        .await;
}

fn capabilities() -> RawJson {
    RawJson::encode(&serde_json::json!({"tools": {"listChanged": true}}))
}

/// Keeps of a client's capabilities what a server may use over this gateway: answers travel with a retried call, the
/// follow-up requests of extensions would not find their way.
fn answerable(capabilities: &RawJson) -> RawJson {
    match RawObject::parse(capabilities) {
        Ok(mut object) if object.get("extensions").is_some() => {
            object.remove("extensions");
            object.to_raw()
        }
        Ok(_) | Err(_) => capabilities.clone(),
    }
}

/// Gives a server's answer the form of the caller's era. An answer that has it already passes through as it is.
fn bridged(outcome: Outcome, era: Era) -> Outcome {
    let Outcome::Result(result) = outcome else {
        return outcome;
    };
    if !result.is_object() {
        return refused_by_gateway("bad_answer", "the server's result is no object");
    }
    let kind =
        RawObject::peek(&result, "resultType").map(|kind| kind.as_string().unwrap_or_default());
    match (era, kind.as_deref()) {
        (Era::Modern, Some(_)) | (Era::Legacy, None) => Outcome::Result(result),
        (Era::Modern, None) => changed(&result, |object| {
            object.set("resultType", RawJson::string("complete"));
        }),
        (Era::Legacy, Some("complete")) => changed(&result, |object| {
            object.remove("resultType");
        }),
        (Era::Legacy, Some(_)) => refused_by_gateway(
            "input_required",
            "the tool needs input that this protocol version cannot carry here",
        ),
    }
}

fn changed(result: &RawJson, change: impl FnOnce(&mut RawObject)) -> Outcome {
    match RawObject::parse(result) {
        Ok(mut object) => {
            change(&mut object);
            Outcome::Object(object)
        }
        Err(_) => refused_by_gateway("bad_answer", "the server's result has a key twice"),
    }
}

fn refused_by_gateway(reason: &str, message: &str) -> Outcome {
    let error =
        RpcError::new(code::GATEWAY, message).with_data(&serde_json::json!({ "reason": reason }));
    Outcome::Error(error.to_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bridge(text: &'static str, era: Era) -> String {
        let outcome = bridged(Outcome::Result(RawJson::parse(text).unwrap()), era);
        let wire = Response {
            id: RawJson::NULL,
            outcome,
        }
        .to_wire()
        .into_bytes();
        String::from_utf8(wire.to_vec()).unwrap()
    }

    #[test]
    fn a_result_that_has_the_form_of_the_era_keeps_every_byte() {
        let modern = r#"{ "resultType":"complete", "n": 1.0 }"#;
        assert_eq!(
            bridge(modern, Era::Modern),
            format!(r#"{{"jsonrpc":"2.0","id":null,"result":{modern}}}"#)
        );
        let legacy = r#"{ "content" : [ ] }"#;
        assert_eq!(
            bridge(legacy, Era::Legacy),
            format!(r#"{{"jsonrpc":"2.0","id":null,"result":{legacy}}}"#)
        );
    }

    #[test]
    fn a_result_of_the_other_era_is_given_its_form_and_keeps_its_values() {
        assert!(
            bridge(r#"{"n": 1.0}"#, Era::Modern).contains(r#"{"n":1.0,"resultType":"complete"}"#)
        );
        assert!(
            bridge(r#"{"resultType":"complete","n": 1.0}"#, Era::Legacy)
                .contains(r#""result":{"n":1.0}"#)
        );
        assert!(
            bridge(r#"{"resultType":"input_required"}"#, Era::Legacy)
                .contains(r#""reason":"input_required""#)
        );
        assert!(bridge("7", Era::Modern).contains(r#""reason":"bad_answer""#));
    }

    #[test]
    fn only_what_a_retried_call_can_answer_is_declared_to_a_server() {
        let declared = RawJson::parse(r#"{"sampling":{},"extensions":{"x":{}}}"#).unwrap();
        assert_eq!(answerable(&declared).as_bytes(), br#"{"sampling":{}}"#);
    }
}
