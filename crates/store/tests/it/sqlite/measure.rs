//! What a commit costs. `cargo test --release -p genlock-store measure -- --ignored --nocapture`

use std::time::{Duration, Instant};

use super::Directory;
use crate::draft::{draft_of, number, profile};

/// A config of 1,000 servers is about this long.
const LARGE: usize = 300_000;

#[tokio::test]
#[ignore = "prints figures"]
async fn measure_commits() {
    for (bytes, commits) in [(2_000, 1000), (LARGE, 200)] {
        let directory = Directory::new();
        let store = directory.store().await;
        let epoch = store.take_epoch(&profile()).await.unwrap();
        let mut head = None;
        let mut times = Vec::new();
        for stamp in 1..=commits {
            let new = draft_of(stamp, bytes);
            let start = Instant::now();
            store.commit_generation(epoch, head, new).await.unwrap();
            times.push(start.elapsed());
            head = Some(number(stamp));
        }
        let total: Duration = times.iter().sum();
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        let per_second = commits as f64 / total.as_secs_f64();
        let (p50, p99, max) = (at(50), at(99), at(100));
        println!("{bytes} bytes: {per_second:.0} commits/s, p50 {p50:?}, p99 {p99:?}, max {max:?}");

        let start = Instant::now();
        for _ in 0..1000 {
            store.head(&profile()).await.unwrap();
        }
        println!("{bytes} bytes: head {:?}", start.elapsed() / 1000);
        store.close().await.unwrap();
        let start = Instant::now();
        let store = directory.store().await;
        println!("{bytes} bytes: open {:?}", start.elapsed());
        let start = Instant::now();
        store.verify().await.unwrap();
        println!("{bytes} bytes: verify {:?} for {commits}", start.elapsed());
    }
}
