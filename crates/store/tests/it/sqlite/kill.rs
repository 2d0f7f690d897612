//! kill -9 at any moment: nothing that was acknowledged is lost, nothing is half there.

use std::time::{Duration, Instant};

use super::{
    Directory,
    child::{CONFIG_BYTES, Committer},
};
use crate::draft::{draft_of, number, profile, record};

/// Kills a committing process `kills` times over one store.
async fn survive(kills: u32) {
    let directory = Directory::with_generations(1, CONFIG_BYTES).await;
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let (mut acknowledged, mut unacknowledged, mut slowest) = (1, 0, Duration::ZERO);

    for round in 1..=kills {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(round.into());
        let mut child = Committer::start(Committer::command(), directory.database().as_str());
        let acks = 1 + (random >> 33) % 12;
        for _ in 0..acks {
            acknowledged = child.next("ack: ").unwrap().parse().unwrap();
        }
        tokio::time::sleep(Duration::from_micros((random >> 40) % 3000)).await;
        child.kill();
        while let Some(last) = child.next("ack: ") {
            acknowledged = last.parse().unwrap();
        }
        child.wait();

        let opened = Instant::now();
        let store = directory.store().await;
        let head = store.head(&profile()).await.unwrap().unwrap();
        slowest = slowest.max(opened.elapsed());

        let found = head.number.get();
        assert!(
            (acknowledged..=acknowledged + 1).contains(&found),
            "kill {round}: acknowledged {acknowledged}, found {found}"
        );
        unacknowledged += found - acknowledged;
        assert_eq!(store.verify().await.unwrap().generations, found);
        for stamp in found.saturating_sub(15).max(1)..=found {
            let stored = store.get(&profile(), number(stamp)).await.unwrap();
            let expected = record(&draft_of(stamp, CONFIG_BYTES), number(stamp));
            assert_eq!(stored, Some(expected));
        }
        acknowledged = found;
    }
    println!(
        "{kills} kills, {acknowledged} commits, 0 acknowledged ones lost, {unacknowledged} came \
         back unacknowledged; slowest recovery {slowest:?}"
    );
}

#[tokio::test]
async fn a_killed_process_loses_no_acknowledged_commit() {
    survive(30).await;
}

#[tokio::test]
#[ignore = "a minute"]
async fn a_process_killed_500_times_loses_no_acknowledged_commit() {
    survive(500).await;
}
