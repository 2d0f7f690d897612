use std::collections::BTreeMap;

use genlock_policy::Actor;
use genlock_store::{CommitError, NewGeneration, PrivateFingerprint, Verified};

use super::Home;
use crate::draft::{draft, draft_of, number, profile, record};

pub(crate) async fn records_come_back_as_they_were(home: &dyn Home) {
    let drafts = [
        draft(1),
        NewGeneration {
            config: String::new(),
            fingerprints: BTreeMap::new(),
            overlay: String::new(),
            actor: Actor::new(""),
            reason: Some(String::new()),
            at_ms: i64::MIN,
            ..draft(2)
        },
        NewGeneration {
            config: "{\"a\":\"\u{1f4a9}e\u{301}\u{202e}\\u0000\"}\r\n\t ".to_owned(),
            fingerprints: (0..=255)
                .map(|byte| {
                    (
                        format!("/a~1b/\"{byte}"),
                        PrivateFingerprint::new([byte; 32]),
                    )
                })
                .collect(),
            reason: Some("'; DROP TABLE generation; --\n\u{7f}".to_owned()),
            at_ms: i64::MAX,
            ..draft(3)
        },
        draft_of(4, 2_000_000),
    ];
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();

    let mut head = None;
    for new in &drafts {
        let committed = store
            .commit_generation(epoch, head, new.clone())
            .await
            .unwrap();
        head = Some(committed.number);
    }
    store.close().await.unwrap();
    let again = home.open().await;

    for (at, new) in (1..).zip(&drafts) {
        let stored = again.get(&profile(), number(at)).await.unwrap();
        assert_eq!(stored, Some(record(new, number(at))));
    }
    let last = record(&drafts[3], number(4));
    assert_eq!(again.head(&profile()).await.unwrap(), Some(last));
    let all = Verified {
        profiles: 1,
        generations: 4,
        sessions: 0,
        turns: 0,
        keys: 0,
        audit: 0,
    };
    assert_eq!(again.verify().await.unwrap(), all);
}

pub(crate) async fn a_commit_names_both_heads_of_a_conflict(home: &dyn Home) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    store
        .commit_generation(epoch, None, draft(1))
        .await
        .unwrap();

    for expected in [None, Some(number(2))] {
        let lost = store
            .commit_generation(epoch, expected, draft(2))
            .await
            .unwrap_err();

        assert_eq!(lost.code(), "store.conflict");
        let CommitError::Conflict { expected: e, found } = lost else {
            panic!("{lost:?}")
        };
        assert_eq!((e, found), (expected, Some(number(1))));
    }
}

pub(crate) async fn a_closed_store_says_so(home: &dyn Home) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();

    store.close().await.unwrap();
    store.close().await.unwrap();

    let read = store.head(&profile()).await.unwrap_err();
    let write = store
        .commit_generation(epoch, None, draft(1))
        .await
        .unwrap_err();
    assert_eq!(
        (read.code(), write.code()),
        ("store.closed", "store.closed")
    );
}
