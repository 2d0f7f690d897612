//! A loss of power at any moment, as what it leaves: a WAL that ends, or goes on with something
//! else, at any byte; a database that a checkpoint has written in part.

use std::fs;

use genlock_store::{GenerationSummary, Store};
use sqlx::Connection;

use super::Directory;
use crate::draft::{draft_of, number, profile, record};

const CONFIG_BYTES: usize = 9000;

/// How far apart cuts are where nothing is special.
const STEP: usize = 400;

/// The files of a store in whose WAL are two commits.
struct Recording {
    database: Vec<u8>,
    wal: Vec<u8>,
    /// How long the WAL was when each generation was acknowledged; the first is in the database.
    acknowledged: [usize; 3],
    /// The database after the WAL was folded in.
    folded: Vec<u8>,
}

/// What comes after the cut.
#[derive(Debug, Clone, Copy)]
enum Tail {
    Nothing,
    Zeros,
    Garbage,
}

// === impl Recording ===

impl Recording {
    async fn new() -> Self {
        let directory = Directory::with_generations(1, CONFIG_BYTES).await;
        let database = fs::read(directory.database()).unwrap();
        let store = directory.store().await;
        let epoch = genlock_store::Epoch::new(1).unwrap();
        let mut acknowledged = [0; 3];
        for stamp in [2, 3] {
            let new = draft_of(stamp, CONFIG_BYTES);
            let head = Some(number(stamp - 1));
            store.commit_generation(epoch, head, new).await.unwrap();
            let wal = fs::metadata(directory.beside("-wal")).unwrap();
            acknowledged[usize::try_from(stamp - 1).unwrap()] = wal.len().try_into().unwrap();
        }
        let wal = fs::read(directory.beside("-wal")).unwrap();
        assert_eq!(fs::read(directory.database()).unwrap(), database);
        store.close().await.unwrap();
        let folded = fs::read(directory.database()).unwrap();
        Self {
            database,
            wal,
            acknowledged,
            folded,
        }
    }

    fn cut(&self, at: usize, tail: Tail) -> Vec<u8> {
        let mut wal = self.wal[..at].to_vec();
        let rest = self.wal.len() - at;
        match tail {
            Tail::Nothing => {}
            Tail::Zeros => wal.extend(std::iter::repeat_n(0, rest)),
            Tail::Garbage => wal.extend((0..rest).map(|n| (n * 37 % 251) as u8 ^ 0x5a)),
        }
        wal
    }

    /// Opens the store as it is after a cut, and says what is wrong with it.
    async fn check_cut(&self, at: usize, tail: Tail) -> Result<(), String> {
        let place = format!("cut at {at} of {}, then {tail:?}", self.wal.len());
        let durable = self.acknowledged.iter().filter(|end| **end <= at).count() as u64;
        self.check(&self.database, &self.cut(at, tail), durable, &place)
            .await
    }

    async fn check(
        &self,
        database: &[u8],
        wal: &[u8],
        durable: u64,
        place: &str,
    ) -> Result<(), String> {
        let directory = Directory::new();
        fs::write(directory.database(), database).unwrap();
        fs::write(directory.beside("-wal"), wal).unwrap();
        let options = genlock_store::Options::default();
        let store = directory
            .try_open(&options)
            .await
            .map_err(|error| format!("{place}: {error:?}"))?;
        let found = observed(&*store)
            .await
            .map_err(|fault| format!("{place}: {fault:?}"))?;
        let expected: Vec<_> = (1..=durable)
            .rev()
            .map(|stamp| record(&draft_of(stamp, CONFIG_BYTES), number(stamp)).summary())
            .collect();
        if found == expected {
            return Ok(());
        }
        let numbers: Vec<u64> = found.iter().map(|one| one.number.get()).collect();
        Err(format!(
            "{place}: {durable} acknowledged, found {numbers:?}"
        ))
    }

    /// Every byte at both ends of each frame, and `step` bytes apart in between.
    fn points(&self, step: usize) -> Vec<usize> {
        const HEADER: usize = 32;
        const FRAME: usize = 24 + 4096;
        let near = |at: usize| at.saturating_sub(2)..(at + 3).min(self.wal.len() + 1);
        let ends = (HEADER..=self.wal.len()).step_by(FRAME).flat_map(near);
        let between = (0..=self.wal.len()).step_by(step);
        let mut points: Vec<_> = ends.chain(between).collect();
        points.sort_unstable();
        points.dedup();
        points
    }
}

/// The whole history, read in each way there is.
async fn observed(store: &dyn Store) -> Result<Vec<GenerationSummary>, genlock_store::Fault> {
    let listed = store.list(&profile(), None, 100).await?;
    let head = store.head(&profile()).await?.map(|head| head.summary());
    assert_eq!(head.as_ref(), listed.first());
    for one in &listed {
        let stored = store.get(&profile(), one.number).await?;
        assert_eq!(stored.map(|stored| stored.summary()).as_ref(), Some(one));
    }
    Ok(listed)
}

/// Cuts every `step` bytes, and every [`STEP`] with something else after the cut.
async fn check_all_cuts(step: usize) {
    let recording = Recording::new().await;
    let mut points = 0;
    for (tail, step) in [
        (Tail::Nothing, step),
        (Tail::Zeros, STEP),
        (Tail::Garbage, STEP),
    ] {
        for at in recording.points(step) {
            recording.check_cut(at, tail).await.unwrap();
            points += 1;
        }
    }
    let length = recording.wal.len();
    println!("{points} crash points of a WAL of {length} bytes");
    assert!(points >= 500, "{points}");
}

#[tokio::test]
async fn a_wal_cut_anywhere_opens_to_an_acknowledged_state() {
    check_all_cuts(STEP).await;
}

#[tokio::test]
#[ignore = "minutes"]
async fn a_wal_cut_at_every_byte_opens_to_an_acknowledged_state() {
    check_all_cuts(1).await;
}

#[tokio::test]
async fn a_checkpoint_cut_anywhere_loses_nothing() {
    let recording = Recording::new().await;
    let (before, after) = (&recording.database, &recording.folded);

    for at in (0..=after.len()).step_by(512) {
        let mut torn = after[..at].to_vec();
        torn.extend(before.iter().skip(at));

        let place = format!("checkpoint cut at {at} of {}", after.len());
        let checked = recording.check(&torn, &recording.wal, 3, &place).await;

        checked.unwrap();
    }
}

#[tokio::test]
async fn an_acknowledgement_before_the_last_byte_is_found() {
    let mut recording = Recording::new().await;
    recording.acknowledged[1] -= 1;

    let found = recording
        .check_cut(recording.acknowledged[1], Tail::Nothing)
        .await;

    assert!(found.unwrap_err().ends_with("2 acknowledged, found [1]"));
}

/// Plants a commit in two transactions, and sees that some cut shows it.
#[tokio::test]
async fn a_commit_in_two_transactions_is_found() {
    let recording = planted().await;

    let mut found = Vec::new();
    for at in recording.points(STEP) {
        found.extend(recording.check_cut(at, Tail::Nothing).await.err());
    }

    assert!(!found.is_empty());
}

async fn planted() -> Recording {
    let whole = Directory::with_generations(2, CONFIG_BYTES).await;
    let directory = Directory::with_generations(1, CONFIG_BYTES).await;
    let database = fs::read(directory.database()).unwrap();
    // Holds the WAL while the other connections come and go.
    let keeper = directory.store().await;
    let mut raw = directory.raw().await;
    let attach = format!("ATTACH '{}' AS whole", whole.database());
    for sql in [
        "PRAGMA foreign_keys = OFF",
        attach.as_str(),
        // The constraints do not let it happen otherwise.
        "PRAGMA writable_schema = ON",
        "DELETE FROM main.sqlite_schema WHERE name = 'generation_follows_the_head'",
        "PRAGMA writable_schema = RESET",
        "INSERT INTO main.generation SELECT * FROM whole.generation WHERE number = 2",
        "UPDATE main.profile SET head = 2",
    ] {
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        sqlx::raw_sql(sql).execute(&mut raw).await.unwrap();
    }
    let wal = fs::read(directory.beside("-wal")).unwrap();
    raw.close().await.unwrap();
    drop(keeper);
    Recording {
        acknowledged: [0, wal.len(), usize::MAX],
        database,
        wal,
        folded: Vec::new(),
    }
}
