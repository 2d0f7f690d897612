use genlock_policy::{Actor, GenerationNumber};
use genlock_store::{
    AuditFilter, AuditNumber, AuditOutcome, AuditRecord, Epoch, NewAudit, Store, WriteFault,
};

use super::Home;
use crate::draft::profile;

/// A record whose every value follows from `stamp`.
fn entry(stamp: u64) -> NewAudit {
    let odd = !stamp.is_multiple_of(2);
    NewAudit {
        at_ms: i64::try_from(stamp).unwrap() * 10,
        actor: Actor::new(["key:svc:a", "uid:7", "svc:a"][usize::try_from(stamp % 3).unwrap()]),
        key: odd.then(|| format!("key_{stamp}")),
        tenant: odd.then(|| "tenant:a".to_owned()),
        action: ["key.create", "key.revoke", "keys", "call.refused"]
            [usize::try_from(stamp % 4).unwrap()]
        .to_owned(),
        target: odd.then(|| format!("target {stamp}")),
        generation: odd.then_some(GenerationNumber::FIRST),
        gate: odd.then(|| "tool".to_owned()),
        outcome: AuditOutcome::ALL[usize::from(odd)],
        code: odd.then(|| "unknown_tool".to_owned()),
        count: stamp,
        detail: format!("detail {stamp}"),
    }
}

fn at(number: u64) -> AuditNumber {
    AuditNumber::new(number).unwrap()
}

fn stored(number: u64) -> AuditRecord {
    AuditRecord {
        number: at(number),
        entry: entry(number),
    }
}

/// Appends records in two batches; the number of each is its stamp.
async fn filled(home: &dyn Home, last: u64) -> (std::sync::Arc<dyn Store>, Epoch) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    for stamps in [1..=last / 2, last / 2 + 1..=last] {
        let entries = stamps.map(entry).collect();
        store
            .append_audit(epoch, &profile(), entries)
            .await
            .unwrap();
    }
    (store, epoch)
}

async fn numbers(store: &dyn Store, filter: &AuditFilter, limit: u32) -> Vec<u64> {
    let found = store.audit(&profile(), filter, limit).await.unwrap();
    found.iter().map(|record| record.number.get()).collect()
}

pub(crate) async fn records_of_the_audit_come_back_as_they_were_appended(home: &dyn Home) {
    let (store, epoch) = filled(home, 8).await;
    let none = store.append_audit(epoch, &profile(), Vec::new()).await;
    let next = store.append_audit(epoch, &profile(), vec![entry(9)]).await;

    assert_eq!((none.unwrap(), next.unwrap()), (Some(at(8)), Some(at(9))));
    let again = home.open().await;
    let found = again.audit(&profile(), &AuditFilter::default(), 100).await;
    assert_eq!(
        found.unwrap(),
        (1..=9).rev().map(stored).collect::<Vec<_>>()
    );
    assert_eq!(again.verify().await.unwrap().audit, 9);
}

pub(crate) async fn the_audit_is_filtered_and_listed_in_pages(home: &dyn Home) {
    let (store, _) = filled(home, 12).await;
    let all = AuditFilter::default;

    let table = [
        (all(), (1..=12).rev().collect()),
        (
            AuditFilter {
                since_ms: Some(100),
                ..all()
            },
            vec![12, 11, 10],
        ),
        (
            AuditFilter {
                until_ms: Some(30),
                ..all()
            },
            vec![2, 1],
        ),
        (
            AuditFilter {
                subject: Some("svc:a".to_owned()),
                ..all()
            },
            vec![12, 11, 9, 8, 6, 5, 3, 2],
        ),
        (
            AuditFilter {
                subject: Some("key:svc:a".to_owned()),
                ..all()
            },
            vec![12, 9, 6, 3],
        ),
        (
            AuditFilter {
                tenant: Some("tenant:a".to_owned()),
                ..all()
            },
            vec![11, 9, 7, 5, 3, 1],
        ),
        (
            AuditFilter {
                action: Some("key".to_owned()),
                ..all()
            },
            vec![12, 9, 8, 5, 4, 1],
        ),
        (
            AuditFilter {
                action: Some("key.revoke".to_owned()),
                ..all()
            },
            vec![9, 5, 1],
        ),
        (
            AuditFilter {
                outcome: Some(AuditOutcome::Done),
                after: Some(at(3)),
                before: Some(at(11)),
                ..all()
            },
            vec![10, 8, 6, 4],
        ),
        (
            AuditFilter {
                action: Some("%".to_owned()),
                ..all()
            },
            vec![],
        ),
    ];
    for (filter, expected) in table {
        assert_eq!(numbers(&*store, &filter, 100).await, expected, "{filter:?}");
    }
    let mut page = all();
    page.before = Some(at(10));
    assert_eq!(numbers(&*store, &page, 4).await, [9, 8, 7, 6]);
    assert_eq!(numbers(&*store, &page, 0).await, [0; 0]);
}

pub(crate) async fn the_audit_is_pruned_from_its_oldest_record_on(home: &dyn Home) {
    let (store, epoch) = filled(home, 1_300).await;
    // Appended later than it happened: it keeps nothing, and nothing is deleted beyond it.
    let late = NewAudit {
        at_ms: 5,
        ..entry(1_301)
    };
    store
        .append_audit(epoch, &profile(), vec![late])
        .await
        .unwrap();

    let pruned = store.prune_audit(epoch, &profile(), 12_010).await.unwrap();
    let again = store.prune_audit(epoch, &profile(), 12_010).await.unwrap();

    assert_eq!((pruned, again), (1_200, 0));
    let all = AuditFilter::default();
    let left: Vec<u64> = (1_201..=1_301).rev().collect();
    assert_eq!(numbers(&*store, &all, 2_000).await, left);
    assert_eq!(store.verify().await.unwrap().audit, 101);
    // The newest stays, whatever its age, and numbers go on after it.
    let rest = store
        .prune_audit(epoch, &profile(), i64::MAX)
        .await
        .unwrap();
    let next = store.append_audit(epoch, &profile(), vec![entry(1)]).await;
    assert_eq!((rest, next.unwrap()), (100, Some(at(1_302))));
    assert_eq!(numbers(&*store, &all, 10).await, [1_302, 1_301]);
}

pub(crate) async fn an_older_authority_appends_and_prunes_no_audit(home: &dyn Home) {
    let (store, old) = filled(home, 4).await;
    store.take_epoch(&profile()).await.unwrap();

    let appended = store.append_audit(old, &profile(), vec![entry(5)]).await;
    let pruned = store.prune_audit(old, &profile(), i64::MAX).await;

    assert!(matches!(appended, Err(WriteFault::StaleEpoch { .. })));
    assert!(matches!(pruned, Err(WriteFault::StaleEpoch { .. })));
    let all = AuditFilter::default();
    assert_eq!(numbers(&*store, &all, 10).await, [4, 3, 2, 1]);
}
