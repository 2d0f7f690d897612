//! [`Receiver`]: whom the result of a server is for, and how its URIs are shown there.

use std::sync::Arc;

use genlock_config::Config;
use genlock_mcp::Outcome;
use genlock_servers::Server;

use crate::{
    front::Front,
    resources::{
        links::Link,
        rewrite::{Found, Rewrite},
    },
    tenant::Tenant,
};

/// Whom results are for. Every way to a server's results goes through it, so that none shows other URIs than the lists.
pub(crate) struct Receiver {
    pub(crate) front: Front,
    pub(crate) config: Arc<Config>,
    pub(crate) tenant: Option<Tenant>,
}

impl Receiver {
    /// Takes the result of a `tools/call`.
    pub(crate) fn of_call(&self, server: &Server, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Result(result) => {
                let found = Rewrite::of(server, &self.config).content(&result);
                Outcome::Result(self.keep(server, found).unwrap_or(result))
            }
            Outcome::Object(_) | Outcome::Error(_) => outcome,
        }
    }

    /// Takes the result of a `prompts/get`.
    pub(crate) fn of_prompt(&self, server: &Server, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Result(result) => {
                let found = Rewrite::of(server, &self.config).messages(&result);
                Outcome::Result(self.keep(server, found).unwrap_or(result))
            }
            Outcome::Object(_) | Outcome::Error(_) => outcome,
        }
    }

    /// Keeps the links in a result for the tenant, and returns the result anew where it changes.
    fn keep(&self, server: &Server, found: Found) -> Option<genlock_mcp::RawJson> {
        if !found.links.is_empty() {
            let links = found.links.iter();
            let links = links.filter_map(|link| Link::new(server, link)).collect();
            self.front.inner.links.hand_out(
                self.tenant.as_ref(),
                links,
                self.config.max_resource_links,
            );
        }
        found.result
    }
}
