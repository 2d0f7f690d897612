use std::sync::Arc;

use genlock_policy::GenerationNumber;
use genlock_store::{CommitError, Epoch, Store};
use tokio::task::JoinSet;

use super::Home;
use crate::draft::{draft, number, profile, record};

const HANDLES: usize = 3;
const TASKS: u64 = 24;
const ROUNDS: u64 = 15;

/// Opens the store several times, as several processes would.
async fn handles(home: &dyn Home) -> (Vec<Arc<dyn Store>>, Epoch) {
    let mut stores = Vec::new();
    for _ in 0..HANDLES {
        stores.push(home.open().await);
    }
    let epoch = stores[0].take_epoch(&profile()).await.unwrap();
    (stores, epoch)
}

pub(crate) async fn exactly_one_commit_wins_each_head(home: &dyn Home) {
    let (stores, epoch) = handles(home).await;

    for round in 1..=ROUNDS {
        let expected = GenerationNumber::new(round - 1);
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let store = Arc::clone(&stores[usize::try_from(task).unwrap() % HANDLES]);
            let new = draft(round * 1000 + task);
            tasks.spawn(async move {
                let committed = store.commit_generation(epoch, expected, new.clone()).await;
                (new, committed)
            });
        }

        let mut winners = Vec::new();
        for (new, committed) in tasks.join_all().await {
            match committed {
                Ok(committed) => winners.push((new, committed)),
                Err(CommitError::Conflict { expected: e, found }) => {
                    assert_eq!((e, found), (expected, Some(number(round))));
                }
                Err(other) => panic!("{other:?}"),
            }
        }

        let [(new, winner)] = &winners[..] else {
            panic!("winners of head {expected:?}: {winners:?}")
        };
        assert_eq!(winner, &record(new, number(round)));
        for store in &stores {
            let head = store.head(&profile()).await.unwrap();
            assert_eq!(head.as_ref(), Some(winner));
        }
    }
}

pub(crate) async fn writers_that_retry_make_one_line(home: &dyn Home) {
    let (stores, epoch) = handles(home).await;

    let mut tasks = JoinSet::new();
    for task in 0..6 {
        let store = Arc::clone(&stores[task % HANDLES]);
        tasks.spawn(async move {
            let mut won = Vec::new();
            while won.len() < 5 {
                let head = store.head(&profile()).await.unwrap();
                let expected = head.map(|head| head.number);
                match store.commit_generation(epoch, expected, draft(7)).await {
                    Ok(committed) => won.push(committed.number.get()),
                    Err(CommitError::Conflict { .. }) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
            won
        });
    }
    let mut numbers = tasks.join_all().await.concat();

    numbers.sort_unstable();
    assert_eq!(numbers, (1..=30).collect::<Vec<_>>());
}
