//! What is served beside tools: resources, resource templates, prompts and completion.

use genlock_config::Mode;
use genlock_mcp::{Outcome, RawJson, RawObject, RpcError, error::escape_text};
use genlock_servers::Server;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::{
    Exchange, Receiver,
    asking::{Asking, not_answered, not_found_code, refused},
};
use crate::{
    catalog::{PAGE, page_of},
    resources::{
        links::Link,
        shelf::{NoPlace, Place},
    },
    tenant::Sight,
};

/// One of the lists that are served here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfferList {
    Resources,
    Templates,
    Prompts,
}

impl OfferList {
    fn field(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }
}

impl Exchange {
    fn sight(&self) -> Sight<'_> {
        self.world.sight()
    }

    fn links(&self) -> Vec<Link> {
        let most = self.world.config.max_resource_links;
        let links = &self.front.inner.links;
        links.of(self.world.tenant().as_ref(), most)
    }

    // === lists ===

    pub(super) async fn list_offers(
        &mut self,
        list: OfferList,
        params: &RawObject,
    ) -> Result<Outcome, RpcError> {
        let cursor = super::cursor(params)?;
        self.wait_for_first_offers().await;
        let entries = self.entries(list);
        let (number, next) = self.page_place(list, &entries, cursor.as_deref())?;
        let page = entries.chunks(PAGE).nth(number).unwrap_or_default();
        let mut result: RawObject = [(list.field(), page_of(page))].into_iter().collect();
        if let Some(next) = next {
            result.set("nextCursor", RawJson::string(&next));
        }
        let catalog = &self.world.catalog;
        if let Some(unavailable) = catalog.unavailable().filter(|_| self.sight().is_open()) {
            let meta: RawObject = [("genlock/unavailable", unavailable.clone())]
                .into_iter()
                .collect();
            result.set("_meta", meta.to_raw());
        }
        let unknown = |server: &Server| server.definition().enabled && server.offers().is_none();
        let ttl_ms = match self.world.servers.iter().any(unknown) {
            true => 0,
            false => {
                let own = self.world.shelf.ttl_ms();
                own.map_or(catalog.ttl_ms(), |own| own.min(catalog.ttl_ms()))
            }
        };
        self.front
            .finish_own(&mut result, Some(ttl_ms), self.caller.era);
        Ok(Outcome::Object(result))
    }

    fn entries(&self, list: OfferList) -> Vec<RawJson> {
        let (shelf, sight) = (&self.world.shelf, self.sight());
        match list {
            OfferList::Resources => {
                shelf.resources(sight, &self.links(), self.world.config.resource_uris)
            }
            OfferList::Templates => shelf.templates(sight),
            OfferList::Prompts => shelf.prompts(sight),
        }
    }

    /// Returns which page a cursor leads to, and the cursor of the one behind it.
    ///
    /// A cursor belongs to the whole list as this caller was shown it: where that changed, no page is missed.
    fn page_place(
        &self,
        list: OfferList,
        entries: &[RawJson],
        cursor: Option<&str>,
    ) -> Result<(usize, Option<String>), RpcError> {
        if cursor.is_none() && entries.len() <= PAGE {
            return Ok((0, None));
        }
        let cursors = &self.front.inner.cursors;
        let tenant = self.world.tenant();
        let view = format!(
            "{} {}",
            list.field(),
            tenant.as_ref().map_or("", |tenant| tenant.as_str())
        );
        let version = version_of(entries);
        let number = match cursor {
            None => 0,
            Some(cursor) => cursors.open_of(view.as_bytes(), cursor, version)?,
        };
        let more = (number + 1) * PAGE < entries.len();
        let next = more.then(|| cursors.seal_of(view.as_bytes(), number + 1, version));
        Ok((number, next))
    }

    /// As [`Exchange::wait_for_first_lists`], for what is offered beside tools.
    async fn wait_for_first_offers(&mut self) {
        if !self.sight().is_open() {
            // Who is shown nothing starts nothing either.
            return;
        }
        let (boot, wait) = (self.world.first_lists, self.world.config.first_list_wait);
        let servers = self.world.servers.clone();
        let waits: Vec<_> = servers
            .iter()
            .filter_map(|server| {
                let until = server.wanted_in_offers(boot, wait)?;
                Some(timeout_at(until, first_offers(server)))
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

    // === prompts ===

    pub(super) async fn get_prompt(mut self, mut params: RawObject) -> Result<Outcome, RpcError> {
        let name = params
            .get_string("name")
            .ok_or_else(|| RpcError::invalid_params("`name` must be a string"))?;
        let arguments = params.get("arguments");
        if arguments.is_some_and(|arguments| !arguments.is_object()) {
            return Err(RpcError::invalid_params("`arguments` must be an object"));
        }
        let arguments = arguments.map_or(&b"{}"[..], RawJson::as_bytes);
        if let Err(denied) = self.world.gates.admit(arguments) {
            return Err(refused(denied.code(), denied.to_string()));
        }
        if self.world.shelf.prompt(&name, self.sight()).is_none() {
            self.wait_for_first_offers().await;
            self.catch_up();
        }
        let prompt = self.world.shelf.prompt(&name, self.sight()).cloned();
        let prompt = prompt.ok_or_else(|| {
            RpcError::invalid_params(format!("unknown prompt: {}", escape_text(&name)))
        })?;
        params.set("name", RawJson::string(&prompt.name));
        let asking = self.released();
        asking.prompt(&prompt.server, prompt.name, params).await
    }

    // === resources ===

    pub(super) async fn read(mut self, mut params: RawObject) -> Result<Outcome, RpcError> {
        let wanted = params
            .get_string("uri")
            .ok_or_else(|| RpcError::invalid_params("`uri` must be a string"))?;
        let place = match self.place(&wanted) {
            Err(NoPlace::Unknown) => {
                self.wait_for_first_offers().await;
                self.catch_up();
                self.place(&wanted)
            }
            found => found,
        };
        let place = place.map_err(|none| self.no_place(&wanted, &none))?;
        params.set("uri", RawJson::string(&place.uri));
        self.released().resource(&wanted, &place, params).await
    }

    fn place(&self, wanted: &str) -> Result<Place, NoPlace> {
        let config = &self.world.config;
        let trusts = match config.tool_access.mode {
            Mode::Egress => true,
            Mode::FrontDoor => false,
        };
        let shelf = &self.world.shelf;
        shelf.place(
            wanted,
            self.sight(),
            &self.links(),
            (config.resource_uris, trusts),
        )
    }

    fn no_place(&self, wanted: &str, none: &NoPlace) -> RpcError {
        let mut message = format!("unknown resource: {}", escape_text(wanted));
        match none {
            NoPlace::Unknown => {}
            NoPlace::Ambiguous(names) => {
                let names = escape_text(&names.join(", "));
                message = format!("{message}; several servers offer it: {names}");
            }
        }
        RpcError::new(not_found_code(self.caller.era), message).with_data(&json!({"uri": wanted}))
    }

    // === completion ===

    pub(super) async fn complete(mut self, mut params: RawObject) -> Result<Outcome, RpcError> {
        let mut reference = params
            .get_object("ref")
            .ok_or_else(|| RpcError::invalid_params("`ref` must be an object"))?;
        if self.referred(&reference).is_none() {
            self.wait_for_first_offers().await;
            self.catch_up();
        }
        let (server, key, own) = self
            .referred(&reference)
            .ok_or_else(|| RpcError::invalid_params("unknown `ref`"))?;
        server.admit(None).map_err(|error| not_answered(&error))?;
        let completes = server.offers().is_some_and(|offers| offers.completes);
        if !completes {
            // A server that does not complete is not asked.
            let none = json!({"values": [], "total": 0, "hasMore": false});
            let mut result = [("completion", RawJson::encode(&none))]
                .into_iter()
                .collect();
            self.front.finish_own(&mut result, None, self.caller.era);
            return Ok(Outcome::Object(result));
        }
        reference.set(key, RawJson::string(&own));
        params.set("ref", reference.to_raw());
        self.released().completion(&server, params).await
    }

    /// Lets the world go: only one server is needed from here on, the others need not wait for its answer.
    fn released(self) -> Asking {
        Asking {
            receiver: self.receiver(),
            caller: self.caller,
        }
    }

    /// Returns whom results are for.
    pub(super) fn receiver(&self) -> Receiver {
        Receiver {
            front: self.front.clone(),
            config: std::sync::Arc::clone(&self.world.config),
            tenant: self.world.tenant(),
            visitor: self.caller.visitor.clone(),
            generation: self.world.generation,
        }
    }

    /// Returns the server of a reference, the key that names what it refers to, and the server's own word for that.
    fn referred(&self, reference: &RawObject) -> Option<(Server, &'static str, String)> {
        let (shelf, sight) = (&self.world.shelf, self.sight());
        match reference.get_string("type")?.as_str() {
            "ref/prompt" => {
                let prompt = shelf.prompt(&reference.get_string("name")?, sight)?;
                Some((prompt.server.clone(), "name", prompt.name.clone()))
            }
            "ref/resource" => {
                let wanted = reference.get_string("uri")?;
                let template = shelf.template(&wanted, sight);
                let place = template.or_else(|| self.place(&wanted).ok())?;
                Some((place.server, "uri", place.uri))
            }
            _ => None,
        }
    }
}

/// Waits until it is known what a server offers beside tools, or its first attempt has failed.
async fn first_offers(server: &Server) {
    let mut watched = server.watch();
    // The sender lives as long as the server.
    let _ = watched
        .wait_for(|snapshot| snapshot.offered || snapshot.last_error.is_some())
        .await;
}

/// Tells one whole list from another.
fn version_of(entries: &[RawJson]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for entry in entries {
        hasher.update(entry.as_bytes());
    }
    let mut number = [0; 8];
    hasher.finalize_xof().fill(&mut number);
    u64::from_le_bytes(number)
}
