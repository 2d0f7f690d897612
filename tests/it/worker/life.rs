//! How a worker ends, and that nothing of it is left.

use genlock_frames::{Retire, Stop, ToGateway, ToWorker, TurnOutcome};
use genlock_testkit::harness::{Control, Scratch, eventually, is_locked};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::hand::{Hand, bootstrap, results, session, start, text};
use crate::stage::{DEADLINE, scratch, stdio};

/// A worker in the middle of a call to a server that does not want to end and has a grandchild that wants to even less.
fn busy(scratch: &Scratch) -> Hand {
    let control = Control::new(scratch, "control");
    let lock = scratch.join("lock");
    let flags = [
        "--ignore-term",
        "--detach-grandchild",
        "--control",
        control.arg(),
    ];
    let flags = [&flags[..], &["--alive-lock", lock.to_str().unwrap()]].concat();
    let mut hand = session(&json!({"a": stdio(&flags)}));
    let calls = json!([{"server": "a", "tool": "hold", "arguments": {"key": "k"}}]);
    hand.begin("e-1", &json!({"calls": calls}), None);
    let held = control.path().join("held.k");
    eventually(DEADLINE, "the call", || held.exists().then_some(()));
    hand
}

#[test]
fn nothing_is_left_when_the_worker_ends_whatever_the_reason() {
    type End = fn(&mut Hand);
    let ends: [(&str, End, i32); 4] = [
        ("the gateway is gone", Hand::hang_up, 69),
        ("stop", |hand| hand.send(ToWorker::Stop(Stop {})), 0),
        ("TERM", |hand| signal(hand, Signal::TERM), 0),
        ("nonsense", |hand| hand.raw(b"nonsense\n"), 70),
    ];
    std::thread::scope(|scope| {
        for (name, end, code) in ends {
            scope.spawn(move || ends_with_all(name, end, code));
        }
    });
}

fn ends_with_all(name: &str, end: fn(&mut Hand), code: i32) {
    let scratch = scratch();
    let lock = scratch.join("lock");
    let grandchild = scratch.join("lock.grandchild");
    let mut hand = busy(&scratch);
    assert!(is_locked(&lock) && is_locked(&grandchild), "{name}");

    end(&mut hand);

    assert_eq!(
        hand.wait_exit().code(),
        Some(code),
        "{name}: {}",
        hand.stderr()
    );
    assert!(!is_locked(&lock), "{name}: the server is left");
    assert!(!is_locked(&grandchild), "{name}: the grandchild is left");
}

fn signal(hand: &Hand, signal: Signal) {
    let pid = i32::try_from(hand.child.id()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn a_stopped_worker_tells_how_far_its_turn_came() {
    let scratch = scratch();
    let mut hand = busy(&scratch);
    hand.send(ToWorker::Stop(Stop {}));
    let result = hand.result();
    assert_eq!(result.outcome, TurnOutcome::Interrupted);
    assert_eq!(text(&results(&result)[0]), "outcome_unknown");
    assert!(hand.wait_exit().success());
}

#[test]
fn a_retired_worker_ends_after_its_turn() {
    let mut hand = session(&json!({"a": stdio(&[])}));
    let calls = json!([{"server": "a", "tool": "sleep", "arguments": {"ms": 200}}]);
    hand.begin("e-1", &json!({"calls": calls}), None);
    hand.send(ToWorker::Retire(Retire {}));
    assert_eq!(hand.result().outcome, TurnOutcome::Completed);
    hand.finish("e-1");
    assert!(hand.wait_exit().success());
}

#[test]
fn a_gateway_that_is_silent_for_too_long_is_left() {
    let mut hand = start();
    let mut bootstrap = bootstrap(&hand.hello, &json!({}), &[], "/");
    bootstrap.heartbeat_ms = 20;
    bootstrap.silence_ms = 200;
    hand.send(ToWorker::Bootstrap(Box::new(bootstrap)));
    assert_eq!(hand.wait_exit().code(), Some(69));
}

#[test]
fn a_worker_sends_heartbeats_and_goes_on_while_it_hears_some() {
    let mut hand = start();
    let mut bootstrap = bootstrap(&hand.hello, &json!({}), &[], "/");
    bootstrap.heartbeat_ms = 20;
    bootstrap.silence_ms = 5_000;
    hand.send(ToWorker::Bootstrap(Box::new(bootstrap)));
    let mut last = 0;
    while last < 20 {
        if let ToGateway::Heartbeat(heartbeat) = hand.any() {
            assert_eq!(heartbeat.sequence, last + 1);
            last = heartbeat.sequence;
            hand.send(ToWorker::Heartbeat(heartbeat));
        }
    }
    assert!(hand.child.try_wait().unwrap().is_none());
}

#[test]
fn a_worker_whose_parent_dies_ends() {
    let scratch = scratch();
    // A shell holds the worker's input open beyond its own death, so that only the signal tells.
    let fifo = scratch.join("in");
    let script = format!(
        "mkfifo {0}; sleep 60 >{0} & echo $! >{1}; {2} --stdio <{0} >{3} & echo $! >{4}; wait",
        fifo.display(),
        scratch.join("sleep.pid").display(),
        crate::stage::worker().display(),
        scratch.join("out").display(),
        scratch.join("worker.pid").display(),
    );
    let mut shell = std::process::Command::new("/bin/sh")
        .args(["-c", &script])
        .spawn()
        .unwrap();
    eventually(DEADLINE, "hello", || {
        scratch.read("out").contains("hello").then_some(())
    });
    let pid: u32 = scratch.read("worker.pid").trim().parse().unwrap();
    assert!(genlock_testkit::harness::is_alive(pid));

    shell.kill().unwrap();
    shell.wait().unwrap();

    eventually(DEADLINE, "the worker ends", || {
        (!genlock_testkit::harness::is_alive(pid)).then_some(())
    });
    let sleeper: i32 = scratch.read("sleep.pid").trim().parse().unwrap();
    kill_process(Pid::from_raw(sleeper).unwrap(), Signal::KILL).unwrap();
}
