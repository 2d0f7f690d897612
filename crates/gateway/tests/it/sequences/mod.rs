//! Random edits and reloads against a model: what becomes a generation, under which number, and what does not.
//!
//! At most one generation for an edit that changes the meaning, none for any other save, and never a change of what is in
//! force without one.

mod file;
mod model;

use axum::http::StatusCode;
use serde_json::{Value, json};

use self::{
    file::Meaning,
    model::{Expected, Model, Wish},
};
use crate::{
    random::Random,
    stage::{Answer, Stage},
};

/// How many sequences a run has, and how many steps each.
const SEQUENCES: u64 = 40;
const STEPS: usize = 30;

/// What is done in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The meaning changes.
    Edit,
    /// The same meaning in other words.
    Rewrite,
    /// Nothing is written.
    Nothing,
    /// A save that is no config.
    Invalid,
    /// A save of which only the beginning is there.
    Torn,
    /// The last servers are removed.
    RemoveAll,
    /// An edit by somebody who has seen an older generation, or one that is not there yet.
    Stale,
    /// An edit by somebody who has seen the head.
    Matched,
    /// An edit that two ask to be reloaded at once.
    Twice,
    /// The same, where both have seen the head.
    TwiceMatched,
    /// An edit that is only tried.
    DryRun,
}

impl Step {
    const ALL: [Self; 11] = [
        Self::Edit,
        Self::Rewrite,
        Self::Nothing,
        Self::Invalid,
        Self::Torn,
        Self::RemoveAll,
        Self::Stale,
        Self::Matched,
        Self::Twice,
        Self::TwiceMatched,
        Self::DryRun,
    ];
}

/// One sequence: a gateway, its model, and what stands in the file.
struct Sequence {
    stage: Stage,
    model: Model,
    /// What the file means; `None` where it is no config.
    file: Option<Meaning>,
    random: Random,
}

impl Sequence {
    async fn begin(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let meaning = Meaning::default().edited(&mut random);
        let stage = Stage::boot("genlock.yaml", &meaning.text(&mut random)).await;
        Self {
            stage,
            model: Model::new(meaning.clone()),
            file: Some(meaning),
            random,
        }
    }

    async fn take(&mut self, step: Step) {
        let mut wish = Wish::default();
        match step {
            Step::Nothing => {}
            Step::Rewrite => {
                // Of what is in force, whatever stands in the file.
                self.save(self.model.in_force().clone());
            }
            Step::Invalid => self.spoil(file::invalid),
            Step::Torn => self.spoil(file::torn),
            Step::RemoveAll => {
                self.save(self.model.in_force().without_servers());
                wish.confirm = self.random.one_in(2);
            }
            Step::Stale => {
                self.edit();
                let others = [self.model.head() - 1, self.model.head() + 1, 1 << 40];
                wish.expected = Some(self.random.pick(&others).max(1))
                    .filter(|number| *number != self.model.head());
            }
            Step::DryRun => {
                self.edit();
                wish.dry_run = true;
            }
            Step::Edit | Step::Twice => self.edit(),
            Step::Matched | Step::TwiceMatched => {
                self.edit();
                wish.expected = Some(self.model.head());
            }
        }
        match step {
            Step::Twice | Step::TwiceMatched => self.reload_twice(wish).await,
            Step::Edit
            | Step::Rewrite
            | Step::Nothing
            | Step::Invalid
            | Step::Torn
            | Step::RemoveAll
            | Step::Stale
            | Step::Matched
            | Step::DryRun => self.reload(wish).await,
        }
        self.check().await;
    }

    fn edit(&mut self) {
        let edited = self.model.in_force().edited(&mut self.random);
        self.save(edited);
    }

    fn save(&mut self, meaning: Meaning) {
        self.stage.write(&meaning.text(&mut self.random));
        self.file = Some(meaning);
    }

    fn spoil(&mut self, spoil: fn(&Meaning, &mut Random) -> String) {
        let edited = self.model.in_force().edited(&mut self.random);
        self.stage.write(&spoil(&edited, &mut self.random));
        self.file = None;
    }

    async fn ask(&self, wish: Wish) -> Answer {
        let body = json!({"dry_run": wish.dry_run, "confirm_mass_removal": wish.confirm});
        self.stage.reload(&body, wish.expected).await
    }

    async fn reload(&mut self, wish: Wish) {
        let answer = self.ask(wish).await;
        let expected = self.model.reload(self.file.as_ref(), wish);
        assert_eq!(outcome(&answer), expected);
    }

    async fn reload_twice(&mut self, wish: Wish) {
        let (one, other) = tokio::join!(self.ask(wish), self.ask(wish));
        let first = self.model.reload(self.file.as_ref(), wish);
        let second = self.model.reload(self.file.as_ref(), wish);
        let (one, other) = (outcome(&one), outcome(&other));
        // Whichever came first.
        let is_as_expected =
            (&one, &other) == (&first, &second) || (&one, &other) == (&second, &first);
        assert!(
            is_as_expected,
            "{one:?} and {other:?}, not {first:?} and {second:?}"
        );
    }

    /// Compares what is told besides with the model.
    async fn check(&self) {
        let status = self.stage.get("/api/status").await;
        assert_eq!(status["generation"], self.model.head());
        assert_eq!(status["degraded"]["code"], json!(self.model.degraded()));
        let list = self.stage.get("/api/generations").await;
        let stored: Vec<_> = list["generations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| &entry["number"])
            .collect();
        let numbers: Vec<_> = (1..=self.model.head()).rev().map(Value::from).collect();
        assert_eq!(stored, numbers.iter().collect::<Vec<_>>());
    }

    /// Compares every stored generation with what the file held when it was committed.
    async fn check_history(&self) {
        for (number, meaning) in self.model.history() {
            let stored = self.stage.get(&format!("/api/generations/{number}")).await;
            assert_eq!(
                Meaning::of_stored(&stored["config"]),
                *meaning,
                "generation {number}"
            );
        }
    }
}

/// What a report or a refusal says, as far as the model foretells it.
fn outcome(answer: &Answer) -> Expected {
    let body = &answer.body;
    if answer.status != StatusCode::OK {
        let code = body["error"]["code"].as_str().unwrap();
        return Expected::Refused(answer.status.as_u16(), code.to_owned());
    }
    let names = |key: &str| {
        let names = body["servers"][key].as_array().unwrap().iter();
        names
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    };
    Expected::Report {
        generation: body["generation"].as_u64().unwrap(),
        changed: body["changed"].as_bool().unwrap(),
        added: names("added"),
        servers_changed: names("changed"),
        removed: names("removed"),
        unchanged: body["servers"]["unchanged"].as_u64().unwrap(),
        sections: !body["sections"].as_array().unwrap().is_empty(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_commit_what_the_model_foretells_and_nothing_else() {
    let (mut taken, mut generations) = (std::collections::BTreeMap::<Step, u64>::new(), 0);
    for seed in 0..SEQUENCES {
        let mut sequence = Sequence::begin(seed).await;
        let mut steps = Vec::new();
        for _ in 0..STEPS {
            let step = sequence.random.pick(&Step::ALL);
            steps.push(step);
            *taken.entry(step).or_default() += 1;
            // Shown where the step fails.
            println!("seed {seed}: {step:?}");
            sequence.take(step).await;
        }
        sequence.check_history().await;
        generations += sequence.model.head();
        sequence.stage.gateway.stop().await;
    }
    println!("{SEQUENCES} sequences of {STEPS} steps, {taken:?}, {generations} generations");
    assert!(Step::ALL.iter().all(|step| taken[step] > 20), "{taken:?}");
}

#[tokio::test]
async fn a_model_that_foretells_something_else_is_found() {
    let mut found = 0;
    for seed in 0..10 {
        let mut sequence = Sequence::begin(seed).await;
        sequence.save(sequence.model.in_force().clone());
        // As if another spelling were a change.
        let wrong = sequence.model.in_force().edited(&mut sequence.random);
        let answer = sequence.ask(Wish::default()).await;
        let expected = sequence.model.reload(Some(&wrong), Wish::default());
        found += u64::from(outcome(&answer) != expected);
        sequence.stage.gateway.stop().await;
    }
    assert_eq!(found, 10);
}
