use std::net::{IpAddr, Ipv4Addr};

use genlock_access::Attempts;

const GUESSER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 8));

fn fail(attempts: &Attempts, times: u32, at_ms: i64) {
    for _ in 0..times {
        attempts.failed(GUESSER, at_ms);
    }
}

#[test]
fn ten_failures_in_a_minute_lock_an_address_out_and_no_other() {
    let attempts = Attempts::default();

    fail(&attempts, 9, 0);
    assert_eq!(attempts.wait_s(GUESSER, 0), None);
    fail(&attempts, 1, 59_999);

    assert_eq!(attempts.wait_s(GUESSER, 59_999), Some(60));
    assert_eq!(attempts.wait_s(GUESSER, 119_998), Some(1));
    assert_eq!(attempts.wait_s(GUESSER, 119_999), None);
    assert_eq!(attempts.wait_s(OTHER, 59_999), None);
}

#[test]
fn failures_that_are_far_apart_lock_nobody_out() {
    let attempts = Attempts::default();

    for minute in 0..100 {
        fail(&attempts, 9, minute * 60_000);
        assert_eq!(attempts.wait_s(GUESSER, minute * 60_000), None);
    }
}

#[test]
fn each_lockout_is_twice_the_one_before_up_to_an_hour() {
    let attempts = Attempts::default();
    let mut now_ms = 0;

    let mut waits = Vec::new();
    for _ in 0..8 {
        fail(&attempts, 10, now_ms);
        let wait = attempts.wait_s(GUESSER, now_ms).unwrap();
        waits.push(wait);
        now_ms += i64::try_from(wait).unwrap() * 1000;
    }

    assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
}
