//! Random histories against a model in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    sync::Arc,
};

use genlock_config::ProfileId;
use genlock_policy::GenerationNumber;
use genlock_store::{Epoch, GenerationRecord, NewGeneration, Store};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use super::Home;
use crate::draft::{draft, number, record};

const HISTORIES: usize = 12;

#[derive(Debug, Clone)]
enum Step {
    Commit {
        new: NewGeneration,
        stale_head: bool,
        stale_epoch: bool,
    },
    TakeEpoch,
    Prune {
        keep: u32,
        pinned: BTreeSet<GenerationNumber>,
    },
    Reopen,
}

/// What one profile should hold.
#[derive(Default)]
struct Model {
    epoch: u64,
    head: Option<GenerationNumber>,
    generations: BTreeMap<GenerationNumber, GenerationRecord>,
}

fn new_generation() -> impl Strategy<Value = NewGeneration> {
    let texts = ("[^\0]{0,40}", "[^\0]{0,400}", "[^\0]{0,12}");
    (any::<u16>(), texts, any::<i64>()).prop_map(|(stamp, texts, at_ms)| NewGeneration {
        overlay: texts.0,
        config: texts.1,
        reason: Some(texts.2).filter(|reason| !reason.is_empty()),
        at_ms,
        ..draft(u64::from(stamp))
    })
}

fn step() -> impl Strategy<Value = Step> {
    let commit = (new_generation(), 0..6_u8).prop_map(|(new, luck)| Step::Commit {
        new,
        stale_head: luck == 0,
        stale_epoch: luck == 1,
    });
    let pinned = prop::collection::btree_set((1..30_u64).prop_map(number), 0..4);
    let prune = (1..8_u32, pinned).prop_map(|(keep, pinned)| Step::Prune { keep, pinned });
    prop_oneof![
        10 => commit,
        1 => Just(Step::TakeEpoch),
        1 => prune,
        1 => Just(Step::Reopen),
    ]
}

/// The same histories in each run, each over profiles of its own. A failure is not made
/// smaller: the seed is fixed and the histories are short.
pub(crate) async fn random_histories_equal_the_model(home: &dyn Home) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let steps = prop::collection::vec((0..2_usize, step()), 1..50);
    for history in 0..HISTORIES {
        let steps = steps.new_tree(&mut runner).unwrap().current();
        let profiles = ["a", "b"].map(|name| ProfileId::new(format!("{name}{history}")).unwrap());
        let mut models = [Model::default(), Model::default()];
        let mut store = home.open().await;
        for (at, step) in steps {
            let profile = &profiles[at];
            models[at].apply(&mut store, home, profile, step).await;
            models[at].compare(&*store, profile).await;
        }
    }
}

// === impl Model ===

impl Model {
    async fn apply(
        &mut self,
        store: &mut Arc<dyn Store>,
        home: &dyn Home,
        profile: &ProfileId,
        step: Step,
    ) {
        match step {
            Step::Commit {
                new,
                stale_head,
                stale_epoch,
            } => {
                let new = NewGeneration {
                    profile: profile.clone(),
                    ..new
                };
                self.commit(&**store, new, stale_head, stale_epoch).await;
            }
            Step::TakeEpoch => {
                self.epoch += 1;
                let epoch = store.take_epoch(profile).await.unwrap();
                assert_eq!(epoch.get(), self.epoch);
            }
            Step::Prune { keep, pinned } => self.prune(&**store, profile, keep, &pinned).await,
            Step::Reopen => {
                store.close().await.unwrap();
                *store = home.open().await;
            }
        }
    }

    async fn commit(
        &mut self,
        store: &dyn Store,
        new: NewGeneration,
        stale_head: bool,
        stale_epoch: bool,
    ) {
        let epoch = Epoch::new(self.epoch + u64::from(stale_epoch)).or(Epoch::new(1));
        let next = self.head.map_or(number(1), GenerationNumber::next);
        let expected = if stale_head { Some(next) } else { self.head };

        let committed = store
            .commit_generation(epoch.unwrap(), expected, new.clone())
            .await;

        if self.epoch == 0 || stale_epoch {
            assert_eq!(committed.unwrap_err().code(), "store.stale_epoch");
        } else if stale_head {
            assert_eq!(committed.unwrap_err().code(), "store.conflict");
        } else {
            let record = record(&new, next);
            assert_eq!(committed.unwrap(), record);
            self.head = Some(next);
            self.generations.insert(next, record);
        }
    }

    async fn prune(
        &mut self,
        store: &dyn Store,
        profile: &ProfileId,
        keep: u32,
        pinned: &BTreeSet<GenerationNumber>,
    ) {
        let Some(epoch) = Epoch::new(self.epoch) else {
            return;
        };
        let keep = NonZeroU32::new(keep).unwrap();
        let newest = self.head.map_or(0, GenerationNumber::get);
        let given_up = |number: &GenerationNumber| {
            number.get() + u64::from(keep.get()) <= newest && !pinned.contains(number)
        };
        let expected: Vec<_> = self.generations.keys().copied().filter(given_up).collect();

        let pruned = store.prune(epoch, profile, keep, pinned).await.unwrap();

        assert_eq!(pruned, expected);
        self.generations
            .retain(|number, _| !expected.contains(number));
    }

    async fn compare(&self, store: &dyn Store, profile: &ProfileId) {
        let head = self.head.and_then(|head| self.generations.get(&head));
        assert_eq!(store.head(profile).await.unwrap().as_ref(), head);
        let listed = store.list(profile, None, 1000).await.unwrap();
        let expected: Vec<_> = self
            .generations
            .values()
            .rev()
            .map(|g| g.summary())
            .collect();
        assert_eq!(listed, expected);
        for number in (1..=newest(self)).map(number) {
            let stored = store.get(profile, number).await.unwrap();
            assert_eq!(stored.as_ref(), self.generations.get(&number));
        }
    }
}

fn newest(model: &Model) -> u64 {
    model.head.map_or(0, GenerationNumber::get)
}
