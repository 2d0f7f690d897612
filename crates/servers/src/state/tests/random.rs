//! What holds whatever happens.

use proptest::prelude::*;

use super::{
    play::{Start, between, play},
    *,
};

fn start() -> impl Strategy<Value = Start> {
    prop_oneof![
        Just(Start::Fails),
        Just(Start::FailsForGood),
        Just(Start::EndsOnProbe),
        Just(Start::Serves(Duration::ZERO)),
        // Anything below the uptime that makes troubles forgotten.
        (0_u64..599_999).prop_map(|millis| Start::Serves(Duration::from_millis(millis))),
    ]
}

fn event() -> impl Strategy<Value = ServerEvent> {
    (0..events().len()).prop_map(|index| events().swap_remove(index).1)
}

proptest! {
    #[test]
    fn a_server_that_does_not_last_is_started_six_times_a_minute_at_most_and_later_twelve_an_hour(
        fates in prop::collection::vec(start(), 1..20),
        calls in prop::collection::vec(0_u64..14_400_000, 0..40),
        chance in 0.0..1.0,
    ) {
        let calls: Vec<_> = calls.into_iter().map(Duration::from_millis).collect();
        let starts = play(
            |n| fates[n % fates.len()],
            &calls,
            chance,
            Duration::from_secs(14_400),
        );
        prop_assert!(between(&starts, 0, 60) <= 6, "{starts:?}");
        // One that is parked probes itself every 5 minutes, and has a ladder before it once it serves for a moment.
        let parks = fates.iter().any(|fate| matches!(fate, Start::FailsForGood));
        let most = if parks { 12 + 5 } else { 12 };
        for hour in 1..4 {
            prop_assert!(between(&starts, 3600 * hour, 3600 * (hour + 1)) <= most, "{starts:?}");
        }
    }

    #[test]
    fn at_most_one_attempt_runs_and_none_beside_a_connection(
        lazy in any::<bool>(),
        events in prop::collection::vec(event(), 0..80),
    ) {
        let now = Instant::now();
        let (mut state, effects) = ServerState::initial(true, lazy);
        let mut runs = effects.contains(&ServerEffect::Connect);
        for event in events {
            let ends = matches!(
                event,
                ServerEvent::Connected
                    | ServerEvent::ConnectFailed { .. }
                    | ServerEvent::EndedOnProbe { .. }
            );
            if ends && !runs {
                continue;
            }
            runs &= !ends;
            let effects;
            (state, effects) = state.step(event, now, 0.5);
            for effect in effects {
                match effect {
                    ServerEffect::Connect => {
                        prop_assert!(!runs, "{state:?}");
                        runs = true;
                    }
                    ServerEffect::Abandon => runs = false,
                    ServerEffect::Disconnect | ServerEffect::Cut => {}
                }
            }
            let may_run = matches!(
                state,
                ServerState::Connecting(_) | ServerState::Reconnecting(_) | ServerState::Probing(_)
            );
            prop_assert!(!runs || may_run, "{state:?}");
            prop_assert!(state != ServerState::Closed || !runs);
        }
    }

    #[test]
    fn a_revoked_server_is_not_started_whatever_happens_before_that_is_lifted(
        lazy in any::<bool>(),
        before in prop::collection::vec(event(), 0..40),
        after in prop::collection::vec(event(), 0..40),
    ) {
        let now = Instant::now();
        let (mut state, _) = ServerState::initial(true, lazy);
        for event in before {
            (state, _) = state.step(event, now, 0.5);
        }
        let why = "leaked".to_owned();
        (state, _) = state.step(ServerEvent::Revoke { why }, now, 0.5);
        for event in after {
            if matches!(event, ServerEvent::Lift { .. }) {
                continue;
            }
            let effects;
            (state, effects) = state.step(event, now, 0.5);
            prop_assert_eq!(&effects, &vec![], "{:?}", state);
            prop_assert!(state.up().is_none() && state.due_at().is_none());
        }
    }

    #[test]
    fn a_reload_or_a_call_starts_neither_what_rests_nor_what_cools_down(
        failures in 0_u32..8, rests in 0_u32..8, wait in 0_u64..600,
    ) {
        let now = Instant::now();
        let until = now + Duration::from_secs(wait);
        let cooling = ServerState::Cooldown(rest(troubles(failures, rests), until, "why"));
        let parked = ServerState::Parked(rest(troubles(failures, rests), until, "why"));
        for event in [ServerEvent::Wake, ServerEvent::Use, ServerEvent::Keep, ServerEvent::Retire] {
            prop_assert_eq!(cooling.clone().step(event, now, 0.0), (cooling.clone(), vec![]));
        }
        prop_assert_eq!(parked.clone().step(ServerEvent::Use, now, 0.0), (parked, vec![]));
    }
}
