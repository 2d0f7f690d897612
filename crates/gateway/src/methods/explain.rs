//! The control method `explain`: why a session, or the caller with a key, has a tool or not.

use genlock_authority::{SessionPolicy, SessionView};
use genlock_config::ServerDefinition;
use genlock_frames::ServerView;
use genlock_front::{Front, walk_connection};
use genlock_mcp::{RawObject, RpcError};
use genlock_policy::{
    Explanation, Gate, Generation, Selection, SelectionRule, ServerVerdict, Stopped, ToolPlace,
    Walk,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Methods, Peer, params::read, refusal, refused};

/// The gates between a session and a tool.
const GATES: [Gate; 14] = [
    Gate::Session,
    Gate::Server,
    Gate::Selection,
    Gate::PrivateValues,
    Gate::Rules,
    Gate::TenantRules,
    Gate::Listing,
    Gate::Name,
    Gate::Surface,
    Gate::Revocation,
    Gate::Arguments,
    Gate::Headers,
    Gate::Limits,
    Gate::Connection,
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    session_id: Option<String>,
    key_id: Option<String>,
    tool: String,
}

/// Answers `explain`.
///
/// # Errors
/// `invalid_params`, or `not_found` where there is no such session or key.
pub(super) async fn answer(
    methods: &Methods,
    peer: &Peer,
    params: &RawObject,
) -> Result<Value, RpcError> {
    let params: Params = read(params)?;
    let explanation = match (&params.session_id, &params.key_id) {
        (Some(session), None) => of_session(methods, peer, session, &params.tool).await?,
        (None, Some(key)) => {
            let explained = methods.status.front.explain_key(key, &params.tool);
            let missing = || {
                refusal(
                    "not_found",
                    "there is no key with this id: see `genlock keys list`",
                )
            };
            explained.ok_or_else(missing)?
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(refusal(
                "invalid_params",
                "one of `session_id` and `key_id` says whose view is explained",
            ));
        }
    };
    Ok(json!(explanation))
}

async fn of_session(
    methods: &Methods,
    peer: &Peer,
    id: &str,
    tool: &str,
) -> Result<Explanation, RpcError> {
    let view = methods.authority()?.view(&peer.caller(), id).await;
    let view = view.map_err(|error| refused(&error))?;
    let mut walk = Walk::new(&GATES);
    if view.session.closed_ms.is_some() {
        let remedy = "create another: a closed session stays closed";
        let _ = walk.stop(Gate::Session, "the session is closed", remedy);
        return Ok(walk.end());
    }
    if let Some(revocation) = &view.revoked {
        let remedy = format!("`genlock revoke --lift {}`", revocation.number);
        let _ = walk.stop(Gate::Session, revocation.to_string(), remedy);
        return Ok(walk.end());
    }
    let doors = methods.doors.as_ref();
    let doors = doors.ok_or_else(|| refusal("not_found", "this gateway has no sessions"))?;
    let looked = doors.look(id).await;
    let (front, policy) =
        looked.ok_or_else(|| refusal("not_found", "the session has just ended"))?;
    let asked = Asked {
        front: &front,
        policy: &policy,
        view: &view,
        head: &methods.reloader()?.head(),
    };
    // Whether it was stopped is in the walk.
    let _ = asked.walk(&mut walk, tool);
    Ok(walk.end())
}

/// A session whose tools are asked about.
struct Asked<'a> {
    front: &'a Front,
    policy: &'a SessionPolicy,
    view: &'a SessionView,
    /// What a transition would move it to.
    head: &'a Generation,
}

impl Asked<'_> {
    fn walk(&self, walk: &mut Walk, tool: &str) -> Result<(), Stopped> {
        let session = &self.policy.session;
        let (seq, generation) = (session.policy_seq, self.pinned().number);
        walk.pass(
            Gate::Session,
            format!("open, runs policy {seq} of generation {generation}"),
        );
        if let Some(own) = self.front.explain_own(walk, tool) {
            return own;
        }
        let shown = self.front.place_of_shown(tool);
        let place = shown
            .or_else(|| ToolPlace::read(tool, &self.pinned().config))
            .or_else(|| ToolPlace::read(tool, &self.head.config));
        let Some(place) = place else {
            return walk.stop(
                Gate::Server,
                "no server of the session goes with this name",
                "name it as `server/tool`",
            );
        };
        self.walk_selection(walk, &place.server)?;
        self.walk_private_values(walk, &place.server)?;
        let server = self.front.explain_pinned(walk, &place, tool)?;
        let workers = self.view.servers.iter().flatten();
        match workers.into_iter().find(|seen| seen.name == place.server) {
            // Its turns run there.
            Some(seen) => connection_of_worker(walk, seen),
            None => walk_connection(walk, &server.snapshot()),
        }
    }

    fn pinned(&self) -> &Generation {
        &self.policy.pinned.generation
    }

    fn walk_selection(&self, walk: &mut Walk, server: &str) -> Result<(), Stopped> {
        let (config, selection) = (&self.pinned().config, &self.policy.session.selection);
        let generation = self.pinned().number;
        match selection.explain(server, config) {
            ServerVerdict::NotConfigured => walk.stop(
                Gate::Server,
                format!("generation {generation}, which the session runs, has no server `{server}`"),
                self.how_to_get(server, "add it to `mcp_servers`"),
            ),
            ServerVerdict::Disabled => walk.stop(
                Gate::Server,
                format!("server `{server}` is disabled in generation {generation}, which the session runs"),
                self.how_to_get(server, "set `enabled: true`"),
            ),
            ServerVerdict::LeftOut(rule) => {
                walk.pass(Gate::Server, format!("generation {generation} has it enabled"));
                let (why, remedy) = left_out(rule, selection, server, &self.policy.session.source);
                walk.stop(Gate::Selection, why, remedy)
            }
            ServerVerdict::Selected => {
                walk.pass(Gate::Server, format!("generation {generation} has it enabled"));
                walk.pass(Gate::Selection, "the session's policy selects it");
                Ok(())
            }
        }
    }

    /// Says how a session comes to a server that its generation does not have: by moving, where the head has it.
    fn how_to_get(&self, server: &str, edit: &str) -> String {
        let id = &self.policy.session.id;
        let is_it = |definition: &&ServerDefinition| definition.name.as_str() == server;
        let in_head = self.head.config.servers.values().find(is_it);
        match in_head.filter(|definition| definition.enabled) {
            Some(_) => format!(
                "generation {} has it: `genlock sessions resume {id}` moves the session there",
                self.head.number
            ),
            None => format!("{edit}, then `genlock sessions resume {id}`"),
        }
    }

    fn walk_private_values(&self, walk: &mut Walk, server: &str) -> Result<(), Stopped> {
        match self.policy.pinned.missing.get(server) {
            None => {
                walk.pass(Gate::PrivateValues, "those that the session pins are there");
                Ok(())
            }
            Some(pointers) => walk.stop(
                Gate::PrivateValues,
                format!(
                    "not to be had as the session pins them: {}",
                    pointers.join(", ")
                ),
                format!(
                    "`genlock sessions resume {}` moves the session to those of now",
                    self.policy.session.id
                ),
            ),
        }
    }
}

/// Says why a selection leaves a server out, and what helps.
fn left_out(
    rule: SelectionRule,
    selection: &Selection,
    server: &str,
    source: &str,
) -> (String, String) {
    let selected: Vec<&str> = selection.servers.iter().map(String::as_str).collect();
    let selected = match selected.is_empty() {
        true => "none".to_owned(),
        false => selected.join(", "),
    };
    let another =
        format!("a pick stays what it was: create a session whose `toolsets` name `{server}`");
    let list =
        format!("add `{server}` to `platform_toolsets.{source}`, reload, and resume the session");
    match rule {
        SelectionRule::Pick => (
            format!(
                "the session picked its servers, and `{server}` is none of them; selected: {selected}"
            ),
            another,
        ),
        SelectionRule::PickNoMcp => ("the session picked `no_mcp`".to_owned(), another),
        SelectionRule::Platform => (
            format!(
                "`platform_toolsets.{source}` names servers, and `{server}` is none of them; selected: {selected}"
            ),
            list,
        ),
        SelectionRule::PlatformNoMcp => {
            (format!("`platform_toolsets.{source}` says `no_mcp`"), list)
        }
        SelectionRule::All => (
            "the session runs every server that was enabled".to_owned(),
            "resume the session".to_owned(),
        ),
    }
}

fn connection_of_worker(walk: &mut Walk, seen: &ServerView) -> Result<(), Stopped> {
    let ServerView { name, state, .. } = seen;
    let why = format!("server `{name}` of the session's worker is {state}");
    let reason = seen.reason.as_deref().or(seen.last_error.as_deref());
    match (seen.ready, state.as_str(), reason) {
        (true, ..) => walk.pass(Gate::Connection, why),
        // A turn waits for the first attempt, and for no other.
        (false, "connecting", None) => {
            walk.depends(Gate::Connection, format!("{why}: a turn waits for it"));
        }
        (false, _, reason) => {
            let why = reason.map_or_else(|| why.clone(), |reason| format!("{why}: {reason}"));
            return walk.stop(
                Gate::Connection,
                why,
                "mend what it says; the next worker of the session connects anew",
            );
        }
    }
    Ok(())
}
