//! What every backend has to do. A backend gives a [`Home`] and is held to the suite by
//! `conformance!`.

pub(crate) mod cancelled;
pub(crate) mod epochs;
pub(crate) mod history;
pub(crate) mod pages;
pub(crate) mod races;
pub(crate) mod records;
pub(crate) mod retention;

use std::sync::Arc;

use genlock_store::{Pending, Store};

/// A place with one store in it, empty at first.
pub(crate) trait Home: Sync {
    /// Opens the store, also beside itself, as another process would.
    fn open(&self) -> Pending<'_, Arc<dyn Store>>;
}

/// Makes one test of each function of the suite.
macro_rules! conformance {
    ($home:expr; $($area:ident :: $name:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let home = $home;
                crate::conformance::$area::$name(&home).await;
            }
        )+
    };
    ($home:expr) => {
        conformance! { $home;
            cancelled::a_dropped_commit_is_whole_or_nothing,
            epochs::an_epoch_fences_the_one_before,
            epochs::a_profile_without_an_epoch_takes_no_commit,
            epochs::profiles_do_not_see_each_other,
            history::random_histories_equal_the_model,
            pages::a_history_is_listed_newest_first_in_pages,
            races::exactly_one_commit_wins_each_head,
            races::writers_that_retry_make_one_line,
            records::records_come_back_as_they_were,
            records::a_commit_names_both_heads_of_a_conflict,
            records::a_closed_store_says_so,
            retention::prune_spares_the_head_and_what_is_pinned,
            retention::prune_deletes_more_than_a_batch,
            retention::a_stale_epoch_prunes_nothing,
        }
    };
}
pub(crate) use conformance;
