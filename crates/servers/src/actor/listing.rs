//! The lists of tools, and which of them is believed.

use std::sync::{Arc, atomic::Ordering};

use genlock_mcp::client::ListError;
use tokio::time::Instant;

use super::Actor;
use crate::{
    link::list_tools,
    relist::{Listing, Relist, Verdict},
    tools::ToolSet,
};

impl Actor {
    /// Takes note of what the server says of its lists. From here to the next good listing nobody can say whether a tool is
    /// still as it was listed.
    pub(super) fn take_note(&mut self) {
        let Some(live) = &mut self.live else { return };
        let now = *live.announced.borrow_and_update();
        let before = std::mem::replace(&mut live.noted, now);
        if now.tools != before.tools {
            self.setting.shared.stale.store(true, Ordering::Release);
            live.relist.announced(Instant::now());
        }
        if now.offers != before.offers {
            live.offers_relist.announced(Instant::now());
        }
    }

    pub(super) fn list_again(&mut self) {
        let Some(live) = &mut self.live else { return };
        live.relist.began(Instant::now());
        let connection = Arc::clone(&live.connection);
        let deadline = Instant::now() + self.setting.shared.definition.connect_timeout;
        self.under_way.listing = Some(Box::pin(async move {
            list_tools(&connection.client, deadline).await
        }));
    }

    pub(super) fn take_list(&mut self, listed: Result<Arc<ToolSet>, ListError>) {
        if let Some(mut live) = self.live.take() {
            self.judge_list(&mut live.relist, listed);
            self.live = Some(live);
        }
        self.publish();
    }

    /// Takes a new listing in, unless it must not take the place of the last good one.
    pub(super) fn judge_list(
        &mut self,
        relist: &mut Relist,
        listed: Result<Arc<ToolSet>, ListError>,
    ) {
        let had_tools = {
            let last = self.setting.shared.tools.borrow();
            last.as_ref().is_some_and(|tools| !tools.is_empty())
        };
        let kind = match &listed {
            Ok(tools) if tools.is_empty() => Listing::Empty,
            Ok(_) => Listing::Some,
            Err(_) => Listing::Failed,
        };
        let why = match (relist.ended(kind, had_tools, Instant::now()), listed) {
            (Verdict::Replace, Ok(tools)) => return self.set_tools(tools),
            (Verdict::Replace | Verdict::Keep, Err(error)) => error.to_string(),
            (Verdict::Keep, Ok(_)) => {
                "the server lists no tools any more; the last list stays until it says so again"
                    .to_owned()
            }
        };
        let shared = &self.setting.shared;
        shared.stale.store(true, Ordering::Release);
        let server = shared.definition.name.as_str();
        tracing::warn!(server, why, "the last list of tools stays");
        self.last_error = Some(why);
    }

    fn set_tools(&self, tools: Arc<ToolSet>) {
        let shared = &self.setting.shared;
        for reason in &tools.left_out {
            let server = shared.definition.name.as_str();
            tracing::warn!(server, reason, "a tool was left out");
        }
        if let Some(cache) = &self.setting.cache {
            let (cache, key, entries) = (cache.clone(), shared.cache_key.clone(), tools.entries());
            let shared = Arc::clone(shared);
            let number = shared.lists.fetch_add(1, Ordering::SeqCst) + 1;
            self.setting.context.tasks.spawn_blocking(move || {
                let is_newest = || shared.lists.load(Ordering::SeqCst) == number;
                if let Err(error) = cache.store_newest(&key, &entries, is_newest) {
                    tracing::warn!(%error, "the schema cache was not written");
                }
            });
        }
        shared.own_list.store(true, Ordering::Release);
        shared.stale.store(false, Ordering::Release);
        shared.tools.send_if_modified(|current| {
            let differs = current.as_ref() != Some(&tools);
            if differs {
                *current = Some(tools);
            }
            differs
        });
    }
}
