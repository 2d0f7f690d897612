//! Damaged files: whatever is read from one is right, or is an error.

use std::{collections::BTreeMap, fs};

use camino::Utf8Path;
use genlock_store::{Fault, GenerationRecord, OpenError, Options, Store};

use super::Directory;
use crate::draft::{draft_of, number, profile, record};

const GENERATIONS: u64 = 3;
const CONFIG_BYTES: usize = 6000;

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_kept() {
    for length in [1, 16, 100, 511, 512, 513, 4095, 4096, 4097, 20_000] {
        let directory = Directory::new();
        let text = &"mcp_servers: {}\n".repeat(2000)[..length];
        fs::write(directory.database(), text).unwrap();

        let foreign = directory.refusal(&Options::default()).await;
        let unmarked = !directory.beside(".present").exists();
        fs::write(directory.beside(".present"), "").unwrap();
        let corrupt = directory.refusal(&Options::default()).await;

        assert_eq!(foreign.code(), "store.foreign", "{length} bytes");
        assert_eq!(corrupt.code(), "store.corrupt", "{length} bytes");
        assert!(unmarked, "{length} bytes");
        assert_eq!(fs::read_to_string(directory.database()).unwrap(), text);
    }
}

#[tokio::test]
async fn a_directory_in_place_of_the_database_is_refused() {
    let directory = Directory::new();
    fs::create_dir(directory.database()).unwrap();

    let refusal = directory.refusal(&Options::default()).await;

    assert_eq!(refusal.code(), "store.file");
}

#[tokio::test]
async fn a_truncated_database_is_refused() {
    let whole = Directory::with_generations(GENERATIONS, CONFIG_BYTES).await;
    let bytes = fs::read(whole.database()).unwrap();

    let odd = (1..bytes.len()).step_by(701);
    let pages = (4096..bytes.len()).step_by(4096);
    let cuts: Vec<usize> = odd
        .chain(pages)
        .chain([1, 15, 16, 99, 100, 511, 512])
        .collect();
    for cut in cuts {
        fs::write(whole.database(), &bytes[..cut]).unwrap();

        let refusal = whole.refusal(&Options::default()).await;

        assert_eq!(refusal.code(), "store.corrupt", "cut at {cut}: {refusal:?}");
    }
}

#[tokio::test]
async fn a_flipped_bit_is_never_read_as_a_policy() {
    let directory = Directory::with_generations(GENERATIONS, CONFIG_BYTES).await;
    let whole = fs::read(directory.database()).unwrap();
    let (mut found, mut harmless) = (0, 0);

    for (round, at) in (0..whole.len()).step_by(127).enumerate() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (round % 8);
        remove(&directory.beside("-wal"));
        remove(&directory.beside("-shm"));
        fs::write(directory.database(), &flipped).unwrap();

        match directory.try_open(&Options::default()).await {
            Ok(store) => {
                let whole = reads_right_or_not_at_all(&*store, at).await;
                if whole {
                    harmless += 1;
                } else {
                    found += 1;
                }
                // The next round writes over the files.
                let _ = store.close().await;
            }
            Err(error) => {
                assert!(is_refusal(&error), "byte {at}: {error:?}");
                found += 1;
            }
        }
    }

    println!("{found} flips found, {harmless} harmless");
    assert!(found > 50, "{found}");
}

/// Reads everything; returns whether the store took itself for whole.
async fn reads_right_or_not_at_all(store: &dyn Store, at: usize) -> bool {
    let expected: BTreeMap<u64, GenerationRecord> = (1..=GENERATIONS)
        .map(|stamp| (stamp, record(&draft_of(stamp, CONFIG_BYTES), number(stamp))))
        .collect();
    let verified = store.verify().await;
    if let Ok(head) = &store.head(&profile()).await {
        assert!(head.as_ref() == expected.get(&GENERATIONS), "byte {at}");
    }
    for (stamp, expected) in &expected {
        match store.get(&profile(), number(*stamp)).await {
            Ok(Some(stored)) => assert!(&stored == expected, "byte {at}"),
            // An index that lost an entry cannot be told from a pruned one by a read alone.
            Ok(None) => assert!(verified.is_err(), "byte {at}: generation {stamp} is gone"),
            Err(error) => assert!(is_fault_of_damage(&error), "byte {at}: {error:?}"),
        }
    }
    if let Ok(listed) = store.list(&profile(), None, 10).await {
        let summaries: Vec<_> = expected.values().rev().map(|g| g.summary()).collect();
        assert!(listed == summaries || verified.is_err(), "byte {at}");
        assert!(
            listed.iter().all(|one| summaries.contains(one)),
            "byte {at}"
        );
    }
    verified.is_ok()
}

fn is_refusal(error: &OpenError) -> bool {
    if let OpenError::Fault(fault) = error {
        return is_fault_of_damage(fault);
    }
    // The header holds the version and whose file it is.
    ["store.newer", "store.foreign", "store.missing"].contains(&error.code())
}

fn is_fault_of_damage(fault: &Fault) -> bool {
    // A flip in the schema's text is an error of SQL, one in the file format's version a file
    // that must not be written.
    ["store.corrupt", "store.unavailable", "store.read_only"].contains(&fault.code())
}

fn remove(path: &Utf8Path) {
    let _ = fs::remove_file(path);
}
