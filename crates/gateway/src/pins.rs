//! [`Pins`]: the generations that sessions pin, private values included.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use genlock_authority::{Generations, GenerationsError, Pending, Pinned};
use genlock_config::Config;
use genlock_policy::{Generation, GenerationNumber};
use parking_lot::Mutex;

use crate::{
    history::{History, generation, stored_overlay, stored_snapshot},
    reload::Reloader,
    source::ConfigSource,
};

/// The generations that were in force in this process and that an open session still pins. Only they have the private values
/// of their time; whatever else is asked for is read anew, and gets those of now that have its fingerprints.
pub(crate) struct Pins {
    kept: Mutex<BTreeMap<GenerationNumber, Arc<Generation>>>,
}

/// What [`Generations`] are found by.
pub(crate) struct PinnedGenerations(pub(crate) Arc<Reloader>);

// === impl Pins ===

impl Pins {
    /// Begins with the generation that is in force.
    pub(crate) fn of(head: Generation) -> Self {
        let kept = [(head.number, Arc::new(head))];
        Self {
            kept: Mutex::new(kept.into()),
        }
    }

    /// Keeps a generation that was put in force, and lets go of those that nobody pins any more.
    pub(crate) async fn keep(&self, generation: Arc<Generation>, history: &History) {
        self.kept.lock().insert(generation.number, generation);
        match history.pinned().await {
            Ok(pinned) => self.let_go(&pinned),
            // Kept longer than needed, and let go with the next one.
            Err(error) => tracing::warn!(%error, "the pins of sessions were not read"),
        }
    }

    fn let_go(&self, pinned: &BTreeSet<GenerationNumber>) {
        let mut kept = self.kept.lock();
        // The last two: a session may be about to pin the head of a moment ago.
        let newest: Vec<GenerationNumber> = kept.keys().rev().take(2).copied().collect();
        let gone = kept.extract_if(.., |number, _| {
            !pinned.contains(number) && !newest.contains(number)
        });
        let gone: Vec<_> = gone.collect();
        // To take a large one apart needs milliseconds, which no reload has to wait for.
        drop(tokio::task::spawn_blocking(move || drop(gone)));
    }

    fn get(&self, number: GenerationNumber) -> Option<Arc<Generation>> {
        self.kept.lock().get(&number).cloned()
    }
}

// === impl PinnedGenerations ===

impl PinnedGenerations {
    async fn find(&self, number: GenerationNumber) -> Result<Pinned, String> {
        let reloader = &self.0;
        let kept = reloader
            .pins()
            .get(number)
            .filter(|kept| missing(&kept.config).is_empty());
        if let Some(generation) = kept {
            let missing = BTreeMap::new();
            return Ok(Pinned {
                generation,
                missing,
            });
        }
        let history = reloader.history();
        let record = history
            .get(number)
            .await
            .map_err(|error| error.to_string())?;
        let record = record.ok_or("is not stored")?;
        let head = reloader.head();
        if record.digest == head.snapshot.digest() {
            // The same meaning and the same private values under another number.
            let snapshot = stored_snapshot(&record).map_err(|error| error.to_string())?;
            let overlay = stored_overlay(&record).map_err(|error| error.to_string())?;
            let config = Arc::clone(&head.config);
            let generation = generation(&record, Arc::new(snapshot), Arc::new(overlay), config);
            return Ok(pinned(generation));
        }
        let values = reloader.read(ConfigSource::private_values).await;
        let restored = history.restore(&record, &values);
        let (generation, _) = restored.map_err(|error| error.to_string())?;
        Ok(pinned(generation))
    }
}

impl Generations for PinnedGenerations {
    fn pinned(&self, number: GenerationNumber) -> Pending<'_, Result<Pinned, GenerationsError>> {
        Box::pin(async move {
            let found = self.find(number).await;
            found.map_err(|why| GenerationsError { number, why })
        })
    }
}

fn pinned(generation: Generation) -> Pinned {
    Pinned {
        missing: missing(&generation.config),
        generation: Arc::new(generation),
    }
}

/// Returns where private values are missing, by server.
fn missing(config: &Config) -> BTreeMap<String, Vec<String>> {
    let values = config.private_values();
    let names = config.servers.keys();
    let of_server = names.filter_map(|name| {
        let values = values.of_server(name);
        let missing = values.iter().filter(|(_, value)| value.is_missing());
        let pointers: Vec<String> = missing.map(|(at, _)| at.to_owned()).collect();
        (!pointers.is_empty()).then(|| (name.as_str().to_owned(), pointers))
    });
    of_server.collect()
}
