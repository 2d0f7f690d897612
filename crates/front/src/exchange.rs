//! [`Exchange`]: the handling of one request, under the world of its admission.

mod asking;
mod offers;
mod receiver;

use std::sync::Arc;

use genlock_access::Visitor;
use genlock_config::Surface;
use genlock_mcp::{
    Era, Notification, Outcome, ProtocolVersion, RawJson, RawObject, Request, Response, RpcError,
    error::escape_text, headers::mismatch, meta,
};
use genlock_policy::{Gate, Gates};
use genlock_servers::{Server, ServerError};
use http::HeaderMap;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use self::offers::OfferList;
pub(crate) use self::receiver::Receiver;
use crate::{
    catalog::{Entry, Target as Found},
    era::{answerable, bridged},
    front::Front,
    meta_tools::{self, Batch, MetaTool, list_servers, list_tools, tool_call},
    naming::SEPARATOR,
    witness::{Refusal, Target},
    world::World,
};

/// Who asks, and what the answer may use.
pub(crate) struct Caller {
    /// Who it is.
    pub(crate) visitor: Visitor,
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

impl Caller {
    /// Returns the level from which it wants log messages.
    fn log_level(&self, params: &RawObject) -> Option<RawJson> {
        self.events
            .as_ref()
            .and_then(|_| params.get_object("_meta")?.get(meta::LOG_LEVEL).cloned())
    }
}

/// An answer, and whether its method is one that is served.
pub(crate) struct Answer {
    pub(crate) response: Response,
    pub(crate) unknown_method: bool,
}

/// One request under way.
struct Exchange {
    front: Front,
    /// Taken at admission. It is only ever replaced by the same configuration, compiled anew after servers were listed, and
    /// given back once it is clear which server is called.
    world: Arc<World>,
    caller: Caller,
}

impl Front {
    /// Answers a request, under the world of its admission.
    pub(crate) async fn handle(
        &self,
        world: Arc<World>,
        request: Request,
        caller: Caller,
    ) -> Answer {
        let exchange = Exchange {
            front: self.clone(),
            world,
            caller,
        };
        exchange.answer(request).await
    }

    /// Answers `initialize`: the revision and the result.
    pub(crate) fn initialized(
        &self,
        world: &World,
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
        if let Some(instructions) = world.instructions() {
            result.set("instructions", RawJson::string(&instructions));
        }
        Ok((version, result))
    }

    /// Returns the largest request that is taken now, in bytes.
    pub(crate) fn request_limit(&self) -> usize {
        usize::try_from(self.world().config.execution.max_response_bytes).unwrap_or(usize::MAX)
    }
}

// === what a call needs besides its server ===

impl Front {
    async fn call_tool(
        &self,
        entry: &Entry,
        params: RawObject,
        gates: &Gates,
        receiver: &Receiver,
        caller: &Caller,
    ) -> Result<Outcome, RpcError> {
        let arguments = params.get("arguments");
        let target = Target::Tool {
            server: entry.server.name(),
            tool: &entry.tool.name,
        };
        if let Err(revoked) = entry.server.admit(Some(&entry.tool.name)) {
            receiver.tell_refused(Gate::Revocation, revoked.code(), target);
            return Ok(self.not_answered(&revoked, caller.era));
        }
        if let Err(denied) = gates.admit(arguments.map_or(b"{}", RawJson::as_bytes)) {
            receiver.tell_refused(Gate::Arguments, denied.code(), target);
            return Ok(self.refused(&denied.to_string(), denied.code(), false, caller.era));
        }
        if let Some(headers) = &caller.headers {
            if receiver.config.param_validation_required && entry.server.is_stale() {
                receiver.tell_refused(Gate::Headers, "headers_unchecked", target);
                return Err(unchecked(entry));
            }
            let checked = entry.tool.params.check(headers, arguments);
            checked.inspect_err(|_| {
                receiver.tell_refused(Gate::Headers, "header_mismatch", target);
            })?;
        }
        let deadline = Instant::now() + entry.server.definition().timeout;
        let _slot = match receiver.enter(deadline).await {
            Ok(slot) => slot,
            Err(exceeded) => {
                let (message, reason) = (exceeded.to_string(), exceeded.code());
                receiver.tell_refused(Gate::Limits, reason, target);
                return Ok(self.refused(&message, reason, false, caller.era));
            }
        };
        let param_headers = entry.tool.params.values(arguments);
        let log_level = caller.log_level(&params);
        let mut call = tool_call(&entry.tool.name, params);
        call.param_headers = param_headers;
        call.capabilities = caller.capabilities.as_ref().map(answerable);
        call.log_level = log_level;
        call.events = caller.events.clone();
        match entry.server.call(call, Some(deadline)).await {
            Ok(outcome) => {
                let outcome = receiver.of_call(&entry.server, outcome);
                Ok(bridged(outcome, caller.era))
            }
            Err(error) => {
                if let ServerError::Revoked { .. } = &error {
                    receiver.tell_refused(Gate::Revocation, error.code(), target);
                }
                Ok(self.not_answered(&error, caller.era))
            }
        }
    }

    /// Makes the result of a call that a server did not answer.
    fn not_answered(&self, error: &ServerError, era: Era) -> Outcome {
        self.refused(&error.to_string(), error.code(), error.may_have_run(), era)
    }

    /// Makes the result of a call of a visible tool that is refused here.
    fn refused(&self, message: &str, reason: &str, may_have_run: bool, era: Era) -> Outcome {
        let content = RawJson::encode(&serde_json::json!([{"type": "text", "text": message}]));
        let meta: RawObject = [
            ("genlock/reason", RawJson::string(reason)),
            ("genlock/may_have_run", RawJson::encode(&may_have_run)),
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
}

impl Exchange {
    /// Answers a request.
    async fn answer(mut self, request: Request) -> Answer {
        let Request { id, method, params } = request;
        let result = match (method.as_str(), self.caller.era) {
            ("tools/call", _) => self.call(params).await,
            ("tools/list", _) => self.list(&params).await,
            ("resources/list", _) => self.list_offers(OfferList::Resources, &params).await,
            ("resources/templates/list", _) => {
                self.list_offers(OfferList::Templates, &params).await
            }
            ("prompts/list", _) => self.list_offers(OfferList::Prompts, &params).await,
            ("resources/read", _) => self.read(params).await,
            ("prompts/get", _) => self.get_prompt(params).await,
            ("completion/complete", _) => self.complete(params).await,
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
        if let Some(instructions) = self.world.instructions() {
            result.set("instructions", RawJson::string(&instructions));
        }
        self.front
            .finish_own(&mut result, Some(self.world.catalog.ttl_ms()), Era::Modern);
        result
    }

    // === lists ===

    async fn list(&mut self, params: &RawObject) -> Result<Outcome, RpcError> {
        let cursor = cursor(params)?;
        self.wait_for_first_lists().await;
        let world = Arc::clone(&self.world);
        let catalog = &world.catalog;
        let surface = catalog.surface(self.caller.surface);
        let version = self.world.version;
        let number = match cursor {
            None => 0,
            Some(cursor) => self.front.inner.cursors.open(&cursor, version, surface)?,
        };
        let page = catalog
            .page(surface, number)
            .ok_or_else(|| RpcError::invalid_params("invalid cursor"))?;
        let mut result: RawObject = [("tools", page.clone())].into_iter().collect();
        if catalog.has_page(surface, number + 1) {
            let next = self.front.inner.cursors.seal(number + 1, version, surface);
            result.set("nextCursor", RawJson::string(&next));
        }
        if let Some(unavailable) = catalog.unavailable() {
            let meta: RawObject = [("genlock/unavailable", unavailable.clone())]
                .into_iter()
                .collect();
            result.set("_meta", meta.to_raw());
        }
        self.front
            .finish_own(&mut result, Some(catalog.ttl_ms()), self.caller.era);
        Ok(Outcome::Object(result))
    }

    /// Waits for servers that were never listed, at most until `first_list_wait_s` after the start, or, for a lazy one, after
    /// the first list that asked for it and so had it started. From then on no server delays a list: it is left out, named
    /// in the answer, and announced when it is there.
    async fn wait_for_first_lists(&mut self) {
        let (boot, wait) = (self.world.first_lists, self.world.config.first_list_wait);
        let servers = self.world.servers.clone();
        let waits: Vec<_> = servers
            .iter()
            .filter_map(|server| {
                let until = server.wanted_in_list(boot, wait)?;
                Some(timeout_at(until, first_attempt(server)))
            })
            .collect();
        if !waits.is_empty() {
            // Who is not there by then is left out.
            futures_util::future::join_all(waits).await;
            self.recompile();
        } else if Instant::now() < boot {
            self.catch_up();
        }
    }

    // === calls ===

    async fn call(mut self, params: RawObject) -> Result<Outcome, RpcError> {
        let name = params
            .get_string("name")
            .ok_or_else(|| RpcError::invalid_params("`name` must be a string"))?;
        if params
            .get("arguments")
            .is_some_and(|arguments| !arguments.is_object())
        {
            return Err(RpcError::invalid_params("`arguments` must be an object"));
        }
        let unknown = self.world.unknown_tool();
        let found = match self.find(&name) {
            Some(target) => Ok(target),
            None => self.find_after_first_listing(&name).await,
        };
        match found {
            Ok(Found::Tool(entry)) => {
                let (gates, receiver) = (Arc::clone(&self.world.gates), self.receiver());
                let Self {
                    front,
                    world,
                    caller,
                } = self;
                // Only this server is needed from here on: the others need not wait for its answer.
                drop(world);
                front
                    .call_tool(&entry, params, &gates, &receiver, &caller)
                    .await
            }
            Ok(Found::Meta(tool)) => self.call_meta(tool, &params).await,
            Err(Some(error)) => Ok(self.front.not_answered(&error, self.caller.era)),
            Err(None) => {
                self.tell_unknown(&name);
                let message = format!("unknown tool: {}", escape_text(&name));
                Err(RpcError::new(unknown, message))
            }
        }
    }

    /// Tells that a tool was asked for that is not there, or not for who asks. The answer is the same; what is kept is not.
    fn tell_unknown(&self, name: &str) {
        let world = &self.world;
        let (gate, code, missing) = world.why_nothing(&self.caller.visitor);
        let hidden = world.hidden(name);
        let (code, target) = match hidden {
            Some((server, tool)) if gate == Gate::Tool => {
                ("tool_not_allowed", Target::Tool { server, tool })
            }
            Some(_) | None => (code, Target::Name(name)),
        };
        self.front.tell_refused(&Refusal {
            gate,
            code,
            visitor: Some(&self.caller.visitor),
            address: None,
            generation: world.generation,
            target,
            missing,
        });
    }

    fn find(&self, name: &str) -> Option<Found> {
        let catalog = &self.world.catalog;
        catalog.target(name, catalog.surface(self.caller.surface))
    }

    /// Compiles the same configuration anew where servers were listed or revoked meanwhile; tells whether that was so.
    fn catch_up(&mut self) -> bool {
        let behind = !self.world.is_of_now(&self.front.revoked());
        if behind {
            self.recompile();
        }
        behind
    }

    fn recompile(&mut self) {
        self.front.refresh();
        let now = self.front.world_for(&self.world.audience);
        // What was published meanwhile is not for this request.
        self.world = if now.is_of_the_same_config(&self.world) {
            now
        } else {
            Arc::new(self.world.recompiled(&self.front.revoked()))
        };
    }

    /// A name that begins with the prefix of a server that was never listed may become known with its first listing.
    async fn find_after_first_listing(&mut self, name: &str) -> Result<Found, Option<ServerError>> {
        if self.catch_up()
            && let Some(found) = self.find(name)
        {
            return Ok(found);
        }
        let world = Arc::clone(&self.world);
        let is_prefix = |server: &&Server| {
            let rest = name.strip_prefix(&server.definition().prefix);
            let tool = rest.and_then(|rest| rest.strip_prefix(SEPARATOR));
            server.definition().enabled && tool.is_some_and(|tool| world.shows(server.name(), tool))
        };
        if self.world.catalog.surface(self.caller.surface) == Surface::Meta {
            return Err(None);
        }
        let servers = self.world.servers.clone();
        let Some(server) = servers
            .iter()
            .find(is_prefix)
            .filter(|server| !server.is_listed())
        else {
            return Err(None);
        };
        // It would be found once the server is listed, which it is not while it is revoked.
        server.admit(None).map_err(Some)?;
        let snapshot = server.listed().await;
        self.recompile();
        self.find(name).ok_or_else(|| {
            let listed = server.is_listed();
            (!listed).then_some(ServerError::NotConnected {
                server: snapshot.name,
                state: snapshot.state,
                reason: snapshot.reason,
            })
        })
    }

    async fn call_meta(mut self, tool: MetaTool, params: &RawObject) -> Result<Outcome, RpcError> {
        let arguments = params.get_object("arguments").unwrap_or_default();
        let mut result = match tool {
            MetaTool::List => list_servers(&self.world.servers),
            MetaTool::Tools => {
                self.wait_for_first_lists().await;
                list_tools(&self.world.catalog, &self.world.servers, &arguments)?
            }
            MetaTool::Call => {
                let receiver = self.receiver();
                let id = self.front.new_id();
                let batch = Batch::parse(&id, &arguments, &self.world, &receiver);
                let Self {
                    front,
                    world,
                    caller,
                } = self;
                // The batch holds the servers that it names.
                drop(world);
                let mut result = match batch {
                    Ok(batch) => batch.run(caller.events.clone(), &receiver).await,
                    Err(refused) => refused,
                };
                front.finish_own(&mut result, None, caller.era);
                return Ok(Outcome::Object(result));
            }
            MetaTool::Explain => {
                meta_tools::explain(&self.front, &self.caller.visitor, &arguments)?
            }
            MetaTool::Status => {
                meta_tools::status(&self.front, &self.caller.visitor, &arguments).await?
            }
            MetaTool::Reload => {
                let Self {
                    front,
                    world,
                    caller,
                } = self;
                // A reload waits for the servers that it removes, which a world keeps running.
                drop(world);
                let mut result = meta_tools::reload(&front, &caller.visitor, &arguments).await?;
                front.finish_own(&mut result, None, caller.era);
                return Ok(Outcome::Object(result));
            }
        };
        self.front.finish_own(&mut result, None, self.caller.era);
        Ok(Outcome::Object(result))
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

/// Reads the cursor of a list request.
fn cursor(params: &RawObject) -> Result<Option<String>, RpcError> {
    match params.get("cursor").map(RawJson::as_string) {
        None => Ok(None),
        Some(Some(cursor)) => Ok(Some(cursor)),
        Some(None) => Err(RpcError::invalid_params("`cursor` must be a string")),
    }
}

/// Refuses a call whose headers cannot be checked: nobody knows whether the tool is still as it was listed.
fn unchecked(entry: &Entry) -> RpcError {
    mismatch(format!(
        "the headers cannot be checked: the tools of server `{}` changed and were not listed since",
        entry.server.name()
    ))
}

/// What is served, whatever the servers offer now: they may offer more at any time.
fn capabilities() -> RawJson {
    RawJson::encode(&serde_json::json!({
        "tools": {"listChanged": true},
        "resources": {"listChanged": true},
        "prompts": {"listChanged": true},
        "completions": {},
    }))
}
