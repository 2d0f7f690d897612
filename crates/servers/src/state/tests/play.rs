//! When a server is started, over minutes and hours.

use super::*;

/// What becomes of one start.
#[derive(Debug, Clone, Copy)]
pub(super) enum Start {
    /// It does not connect.
    Fails,
    /// It cannot connect, whatever time passes.
    FailsForGood,
    /// It ends when it is asked for its era. Asked a second time, it connects and ends at once.
    EndsOnProbe,
    /// It serves this long and ends.
    Serves(Duration),
}

/// Plays a server's life, calls at these times included, and returns when it was started.
pub(super) fn play(
    mut next: impl FnMut(usize) -> Start,
    calls: &[Duration],
    chance: f64,
    until: Duration,
) -> Vec<Duration> {
    let start = Instant::now();
    let mut calls: Vec<Instant> = calls.iter().map(|after| start + *after).collect();
    calls.sort_unstable();
    calls.reverse();
    let mut now = start;
    let mut starts = Vec::new();
    let mut was_probed = false;
    let mut ends: Option<Instant> = None;
    let (mut state, mut effects) = ServerState::initial(true, false);
    loop {
        if effects.contains(&ServerEffect::Connect) {
            starts.push(now - start);
            let event = match next(starts.len() - 1) {
                Start::Fails => failed(false),
                Start::FailsForGood => failed(true),
                Start::EndsOnProbe if !was_probed => {
                    was_probed = true;
                    ended_on_probe()
                }
                Start::EndsOnProbe => {
                    ends = Some(now);
                    ServerEvent::Connected
                }
                Start::Serves(time) => {
                    ends = Some(now + time);
                    ServerEvent::Connected
                }
            };
            (state, effects) = state.step(event, now, chance);
            continue;
        }
        let own = ends.or(state.due_at());
        let (at, event) = match (own, calls.last().copied()) {
            (Some(own), Some(call)) if call < own => (call, ServerEvent::Use),
            (None, Some(call)) => (call, ServerEvent::Use),
            (Some(own), _) => (own, ends.map_or(ServerEvent::Due, |_| lost())),
            (None, None) => return starts,
        };
        if at - start >= until {
            return starts;
        }
        if event == ServerEvent::Use {
            calls.pop();
        } else {
            ends = None;
        }
        now = now.max(at);
        (state, effects) = state.step(event, now, chance);
    }
}

fn seconds(starts: &[Duration]) -> Vec<u64> {
    starts.iter().map(Duration::as_secs).collect()
}

pub(super) fn between(starts: &[Duration], from: u64, to: u64) -> usize {
    let window = Duration::from_secs(from)..Duration::from_secs(to);
    starts.iter().filter(|at| window.contains(*at)).count()
}

const MINUTES: fn(u64) -> Duration = |minutes| Duration::from_secs(60 * minutes);

#[test]
fn a_first_connect_has_four_attempts_and_then_cooldowns_that_double() {
    let starts = play(|_| Start::Fails, &[], 0.0, MINUTES(45));
    assert_eq!(
        seconds(&starts),
        [0, 1, 3, 7, 37, 97, 217, 457, 937, 1537, 2137]
    );
}

#[test]
fn a_permanent_failure_parks_at_once_and_probes_itself() {
    let starts = play(|_| Start::FailsForGood, &[], 0.0, MINUTES(20));
    assert_eq!(seconds(&starts), [0, 30, 90, 210, 450, 750, 1050]);
}

#[test]
fn a_server_that_handshakes_and_exits_is_started_six_times_in_the_first_minute() {
    let starts = play(|_| Start::Serves(Duration::ZERO), &[], 0.0, MINUTES(180));
    assert_eq!(
        seconds(&starts)[..10],
        [0, 1, 3, 7, 15, 31, 61, 121, 241, 481]
    );
    assert_eq!(between(&starts, 0, 60), 6);
    assert_eq!(between(&starts, 0, 3600), 15);
    assert_eq!(between(&starts, 3600, 7200), 6);
}

#[test]
fn a_server_that_ends_on_the_probe_as_well_is_started_no_oftener() {
    let starts = play(|_| Start::EndsOnProbe, &[], 0.0, MINUTES(2));
    assert_eq!(seconds(&starts), [0, 0, 2, 6, 14, 30, 60]);
}

#[test]
fn calls_to_a_server_that_only_ends_start_it_no_oftener() {
    let calls: Vec<_> = (0..1200).map(|n| Duration::from_millis(50 * n)).collect();
    let starts = play(|_| Start::Serves(Duration::ZERO), &calls, 0.0, MINUTES(2));
    assert_eq!(seconds(&starts), [0, 0, 2, 6, 14, 30, 60]);
}

#[test]
fn uptime_resets_the_ladder_and_a_handshake_does_not() {
    let uptimes = [0, 0, 599, 0, 600, 0].map(Duration::from_secs);
    let next = |n: usize| uptimes.get(n).copied().map_or(Start::Fails, Start::Serves);

    let starts = play(next, &[], 0.0, MINUTES(30));

    let pauses: Vec<u64> = starts
        .windows(2)
        .zip(uptimes)
        .map(|(pair, up)| (pair[1] - pair[0] - up).as_secs())
        .collect();
    assert_eq!(pauses, [1, 2, 4, 8, 1, 2]);
}

#[test]
fn chance_lengthens_a_pause_by_a_quarter_at_most() {
    let second = |chance| play(|_| Start::Fails, &[], chance, MINUTES(1))[1];
    assert_eq!(
        [0.0, 0.5, 1.0, 7.0].map(second),
        [1000, 1125, 1250, 1250].map(Duration::from_millis)
    );
}
