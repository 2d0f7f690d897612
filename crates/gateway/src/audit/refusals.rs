//! How what a front refuses is recorded.

use std::sync::Arc;

use genlock_front::{Refusal, Target, Witness};
use genlock_policy::{Actor, Gate};

use super::{Act, Audit, Who, told, tool_of};

impl Audit {
    /// Returns who is told what the front of a session refuses. Who comes in there has shown the token of its owner.
    pub(crate) fn of_session(&self, session: &str, owner: &Actor) -> Arc<dyn Witness> {
        Arc::new(SessionDoor {
            audit: self.clone(),
            owner: owner.clone(),
            detail: format!("at the view of session {session}"),
        })
    }

    fn keep(&self, refusal: &Refusal<'_>, who: Who, detail: &str) {
        let (action, detail) = match refusal.gate {
            Gate::Host | Gate::Origin | Gate::Local => ("door.refused", detail.to_owned()),
            Gate::Credential => ("auth.refused", from(refusal, detail)),
            Gate::Permission => ("permission.refused", needs(refusal, detail)),
            Gate::Role => ("call.refused", needs(refusal, detail)),
            Gate::Tenant
            | Gate::Session
            | Gate::Server
            | Gate::Selection
            | Gate::PrivateValues
            | Gate::Revocation
            | Gate::Rules
            | Gate::TenantRules
            | Gate::Listing
            | Gate::Name
            | Gate::Surface
            | Gate::Tool
            | Gate::Arguments
            | Gate::Headers
            | Gate::Limits
            | Gate::Connection => ("call.refused", detail.to_owned()),
        };
        let mut act = Act::new(who, action)
            .under(refusal.generation)
            .detail(detail);
        act.target = match refusal.target {
            Target::Unseen => None,
            Target::Route(method, path) => Some(format!("{method} {path}")),
            Target::Name(name) => Some(told(name)),
            Target::Tool { server, tool } => Some(tool_of(server, tool)),
        };
        self.refused(act, Some(refusal.gate), refusal.code);
    }
}

impl Witness for Audit {
    fn refused(&self, refusal: &Refusal<'_>) {
        self.keep(refusal, Who::at_the_door(refusal), "");
    }
}

/// Is told what the front of one session refuses.
struct SessionDoor {
    audit: Audit,
    owner: Actor,
    detail: String,
}

impl Witness for SessionDoor {
    fn refused(&self, refusal: &Refusal<'_>) {
        let who = match refusal.visitor {
            Some(_) => Who::new(self.owner.clone()),
            None => Who::at_the_door(refusal),
        };
        self.audit.keep(refusal, who, &self.detail);
    }
}

/// Says where a key came from that is known.
fn from(refusal: &Refusal<'_>, detail: &str) -> String {
    match (refusal.visitor, refusal.address) {
        (Some(_), Some(address)) => format!("from {address}"),
        (Some(_), None) | (None, _) => detail.to_owned(),
    }
}

fn needs(refusal: &Refusal<'_>, detail: &str) -> String {
    match refusal.missing {
        Some(permission) => format!("needs {permission}"),
        None => detail.to_owned(),
    }
}
