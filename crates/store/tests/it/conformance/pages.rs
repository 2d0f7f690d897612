use genlock_policy::GenerationNumber;

use super::Home;
use crate::draft::{draft, number, profile, record};

pub(crate) async fn a_history_is_listed_newest_first_in_pages(home: &dyn Home) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    for stamp in 1..=10 {
        let head = GenerationNumber::new(stamp - 1);
        store
            .commit_generation(epoch, head, draft(stamp))
            .await
            .unwrap();
    }

    let mut pages = Vec::new();
    let mut before = None;
    loop {
        let page = store.list(&profile(), before, 4).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.number);
        pages.push(page);
    }

    let expected = (1..=10)
        .rev()
        .map(|stamp| record(&draft(stamp), number(stamp)).summary());
    let expected: Vec<_> = expected.collect();
    assert_eq!(
        pages,
        expected.chunks(4).map(<[_]>::to_vec).collect::<Vec<_>>()
    );
    assert_eq!(store.list(&profile(), None, 0).await.unwrap(), []);
    let beyond = store.list(&profile(), Some(number(u64::MAX)), 1).await;
    assert_eq!(beyond.unwrap(), expected[..1]);
}
