//! [`Receiver`]: whom the result of a server is for, and how its URIs are shown there.

use std::sync::Arc;

use genlock_access::Visitor;
use genlock_config::Config;
use genlock_mcp::Outcome;
use genlock_policy::{Gate, GenerationNumber};
use genlock_servers::{Server, Slot};
use tokio::time::Instant;

use crate::{
    front::Front,
    limits::Exceeded,
    resources::{
        links::Link,
        rewrite::{Found, Rewrite},
    },
    tenant::Tenant,
    witness::{Refusal, Target},
};

/// Whom results are for. Every way to a server's results goes through it, so that none shows other URIs than the lists.
pub(crate) struct Receiver {
    pub(crate) front: Front,
    pub(crate) config: Arc<Config>,
    pub(crate) tenant: Option<Tenant>,
    pub(crate) visitor: Visitor,
    pub(crate) generation: Option<GenerationNumber>,
}

impl Receiver {
    /// Waits until the tenant may make a call; what is returned is held while it runs.
    ///
    /// # Errors
    /// Where the tenant makes too many until the deadline of the call; it did not run.
    pub(crate) async fn enter(&self, deadline: Instant) -> Result<Option<Slot>, Exceeded> {
        let tenant = self.tenant.as_ref().map(Tenant::as_str);
        self.front.inner.limits.enter(tenant, deadline).await
    }

    /// Tells that a call of theirs was refused.
    pub(crate) fn tell_refused(&self, gate: Gate, code: &str, target: Target<'_>) {
        self.front.tell_refused(&Refusal {
            gate,
            code,
            visitor: Some(&self.visitor),
            address: None,
            generation: self.generation,
            target,
            missing: None,
        });
    }

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
