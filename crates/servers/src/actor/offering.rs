//! What a server offers beside tools: listed once it serves, and again when it says that it changed.
//!
//! None of it is needed to serve tools, so that nothing here delays or fails a connection.

use std::sync::{Arc, atomic::Ordering};

use tokio::time::Instant;

use super::Actor;
use crate::{
    offers::{Offering, Offers, list_offers},
    relist::{Listing, Verdict},
};

impl Actor {
    /// Begins to list, with a connection that was just made or after an announcement.
    pub(super) fn list_offers(&mut self) {
        if self.setting.tools_only {
            self.asked_for_offers = true;
            return self.set_offers(Offers::default());
        }
        let Some(live) = &mut self.live else { return };
        live.offers_relist.began(Instant::now());
        let connection = Arc::clone(&live.connection);
        let shared = &self.setting.shared;
        let before = shared.offers.borrow().clone();
        let deadline = Instant::now() + shared.definition.connect_timeout;
        self.under_way.offering = Some(Box::pin(async move {
            list_offers(&connection.client, before, deadline).await
        }));
    }

    /// Takes in what was listed; a list that failed is the last good one.
    pub(super) fn take_offers(&mut self, offering: Offering) {
        let Offering {
            offers,
            failed,
            left_out,
        } = offering;
        self.asked_for_offers = true;
        let server = self.setting.shared.definition.name.as_str();
        for reason in left_out {
            tracing::warn!(server, reason, "an offer was left out");
        }
        let kind = match &failed {
            Some(_) => Listing::Failed,
            None if offers.is_empty() => Listing::Empty,
            None => Listing::Some,
        };
        let had_some = {
            let before = self.setting.shared.offers.borrow();
            before.as_ref().is_some_and(|before| !before.is_empty())
        };
        let judged = self
            .live
            .as_mut()
            .map(|live| live.offers_relist.ended(kind, had_some, Instant::now()));
        match (failed, judged) {
            (Some(why), _) => {
                tracing::warn!(server, why, "the last list of offers stays");
                self.show_offers(offers);
            }
            (None, Some(Verdict::Replace)) => self.set_offers(offers),
            (None, Some(Verdict::Keep) | None) => {}
        }
        self.publish();
    }

    /// Shows offers, and keeps them over restarts.
    fn set_offers(&mut self, offers: Offers) {
        let shared = Arc::clone(&self.setting.shared);
        if let Some(cache) = self.setting.cache.clone() {
            let (key, entry) = (shared.cache_key.clone(), offers.to_cache());
            let number = shared.offer_lists.fetch_add(1, Ordering::SeqCst) + 1;
            self.setting.context.tasks.spawn_blocking(move || {
                let is_newest = || shared.offer_lists.load(Ordering::SeqCst) == number;
                if let Err(error) = cache.store_newest_offers(&key, entry, is_newest) {
                    tracing::warn!(%error, "the schema cache was not written");
                }
            });
        }
        self.show_offers(offers);
    }

    fn show_offers(&self, offers: Offers) {
        self.setting.shared.offers.send_if_modified(|current| {
            let differs = current.as_deref() != Some(&offers);
            if differs {
                *current = Some(Arc::new(offers));
            }
            differs
        });
    }
}
