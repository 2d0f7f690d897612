//! What every backend has to do. A backend gives a [`Home`] and is held to the suite by
//! `conformance!`.

pub(crate) mod audit;
pub(crate) mod cancelled;
pub(crate) mod epochs;
pub(crate) mod fence;
pub(crate) mod history;
pub(crate) mod keys;
pub(crate) mod pages;
pub(crate) mod races;
pub(crate) mod records;
pub(crate) mod retention;
pub(crate) mod sessions;
pub(crate) mod turns;

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
            audit::records_of_the_audit_come_back_as_they_were_appended,
            audit::the_audit_is_filtered_and_listed_in_pages,
            audit::the_audit_is_pruned_from_its_oldest_record_on,
            audit::an_older_authority_appends_and_prunes_no_audit,
            cancelled::a_dropped_commit_is_whole_or_nothing,
            epochs::an_epoch_fences_the_one_before,
            epochs::a_profile_without_an_epoch_takes_no_commit,
            epochs::profiles_do_not_see_each_other,
            fence::random_histories_equal_the_model_of_the_fence,
            history::random_histories_equal_the_model,
            keys::keys_come_back_as_they_were_made,
            keys::a_key_is_revoked_once_and_for_good,
            keys::the_same_key_is_not_stored_twice,
            keys::an_older_authority_makes_and_revokes_no_key,
            keys::a_key_is_replaced_once_and_both_are_there,
            keys::a_rotation_that_fails_replaces_nothing,
            keys::the_last_use_of_a_key_is_noted_and_never_an_earlier_one,
            pages::a_history_is_listed_newest_first_in_pages,
            races::exactly_one_commit_wins_each_head,
            races::writers_that_retry_make_one_line,
            records::records_come_back_as_they_were,
            records::a_commit_names_both_heads_of_a_conflict,
            records::a_closed_store_says_so,
            retention::prune_spares_the_head_and_what_is_pinned,
            retention::prune_deletes_more_than_a_batch,
            retention::a_stale_epoch_prunes_nothing,
            sessions::a_session_is_created_once_for_a_request,
            sessions::a_transition_raises_the_policy_by_one_and_is_kept,
            sessions::a_transition_loses_to_a_turn_that_is_not_over,
            sessions::a_transition_for_another_policy_is_a_conflict,
            sessions::a_closed_session_takes_nothing_more,
            sessions::sessions_are_listed_newest_first_in_pages,
            sessions::what_an_open_session_pins_is_not_pruned,
            sessions::the_names_of_servers_are_remembered_for_good,
            sessions::a_token_is_rotated_by_its_counter,
            sessions::an_older_authority_moves_nothing,
            turns::turns_run_in_their_order_and_one_at_a_time,
            turns::a_submission_makes_one_turn,
            turns::a_lost_turn_pauses_its_session_until_it_is_resolved,
            turns::every_move_from_a_wrong_status_is_refused,
            turns::turns_come_back_as_they_were,
            turns::admissions_and_transitions_never_cross,
        }
    };
}
pub(crate) use conformance;
