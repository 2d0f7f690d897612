//! What may come when, and what follows.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus};

use genlock_frames::{
    Epoch, ExecutionSecret, Fault, Finished, Heartbeat, Ready, ServersChanged, VERSION,
};
use secrecy::SecretString;
use serde_json::value::RawValue;

use super::*;

const PID: u32 = 71;
const GATEWAY: u32 = 7;

fn machine() -> Machine {
    Machine::new(Expected {
        pid: Pid::new(PID),
        birth: Birth::new(9001),
        gateway: Pid::new(GATEWAY),
    })
}

fn id(text: &str) -> ExecutionId {
    ExecutionId::new(text).unwrap()
}

fn secret(text: &str) -> ExecutionSecret {
    ExecutionSecret::new(SecretString::from(text))
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn hello(change: impl FnOnce(&mut Hello)) -> ToGateway {
    let mut hello = Hello {
        pid: Pid::new(PID),
        birth: Birth::new(9001),
        version: VERSION,
    };
    change(&mut hello);
    ToGateway::Hello(hello)
}

fn event(sequence: u64, change: impl FnOnce(&mut Event)) -> ToGateway {
    let mut event = Event {
        execution_id: id("e-1"),
        sequence,
        kind: EventKind::CallStarted,
        call: 0,
        server: Some("a".to_owned()),
        tool: Some("t".to_owned()),
        code: None,
        elapsed_ms: None,
        data: None,
    };
    change(&mut event);
    ToGateway::Event(event)
}

fn result(outcome: TurnOutcome, change: impl FnOnce(&mut TurnResult)) -> ToGateway {
    let mut result = TurnResult {
        execution_id: id("e-1"),
        outcome,
        result: Some(raw("{}")),
        failure: None,
    };
    change(&mut result);
    ToGateway::Result(result)
}

fn fault() -> Option<Fault> {
    Some(Fault {
        code: "code".to_owned(),
        message: "words".to_owned(),
    })
}

fn failure(execution: Option<&str>) -> ToGateway {
    ToGateway::Failure(Failure {
        code: "code".to_owned(),
        message: "words".to_owned(),
        execution_id: execution.map(id),
    })
}

fn adopt(execution: &str, text: &str) -> ToGateway {
    ToGateway::Adopt(Adopt {
        execution_id: id(execution),
        secret: secret(text),
    })
}

fn finished(execution: &str) -> ToGateway {
    let execution_id = id(execution);
    ToGateway::Finished(Finished { execution_id })
}

fn run(execution: &str) -> Input {
    let order = TurnOrder {
        execution_id: id(execution),
        secret: secret("secret"),
        epoch: Epoch::new(1),
        payload: raw("{}"),
        deadline: None,
    };
    Input::Run(order, Some(Duration::from_secs(60)))
}

fn frame(word: &str) -> Option<ToGateway> {
    use TurnOutcome::{Completed, Failed, Interrupted};
    Some(match word {
        "hello" => hello(|_| {}),
        "hello:pid" => hello(|hello| hello.pid = Pid::new(72)),
        "hello:gateway" => hello(|hello| hello.pid = Pid::new(GATEWAY)),
        "hello:birth" => hello(|hello| hello.birth = Birth::new(9002)),
        "hello:old" => hello(|hello| hello.version = 0),
        "hello:heedless" => hello(|hello| hello.version = REVOCATIONS_SINCE - 1),
        "hello:newer" => hello(|hello| hello.version = VERSION + 3),
        "ready" => ToGateway::Ready(Ready { servers: vec![] }),
        "servers" => ToGateway::Servers(ServersChanged { servers: vec![] }),
        "heartbeat" => ToGateway::Heartbeat(Heartbeat { sequence: 1 }),
        "failure" => failure(None),
        "failure:turn" => failure(Some("e-1")),
        "failure:other" => failure(Some("e-2")),
        "adopt" => adopt("e-1", "secret"),
        "adopt:secret" => adopt("e-1", "other"),
        "adopt:other" => adopt("e-2", "secret"),
        "event1" => event(1, |_| {}),
        "event2" => event(2, |_| {}),
        "event1:other" => event(1, |event| event.execution_id = id("e-2")),
        "event1:bare" => event(1, |event| event.tool = None),
        "event1:progress" => event(1, |event| {
            event.kind = EventKind::Progress;
            event.data = Some(raw("1"));
        }),
        "event1:ended" => event(1, |event| {
            event.kind = EventKind::CallEnded;
            event.elapsed_ms = Some(7);
        }),
        "event1:ended-bare" => event(1, |event| event.kind = EventKind::CallEnded),
        "result" => result(Completed, |_| {}),
        "result:other" => result(Completed, |result| result.execution_id = id("e-2")),
        "result:bare" => result(Completed, |result| result.result = None),
        "result:fault" => result(Completed, |result| result.failure = fault()),
        "result:failed" => result(Failed, |result| result.failure = fault()),
        "result:failed-bare" => result(Failed, |_| {}),
        "result:interrupted" => result(Interrupted, |result| result.result = None),
        "finished" => finished("e-1"),
        "finished:other" => finished("e-2"),
        _ => return None,
    })
}

fn input(word: &str, machine: &Machine) -> Input {
    if let Some(frame) = frame(word) {
        return Input::Frame(frame);
    }
    match word {
        "run" => run("e-1"),
        "run2" => run("e-2"),
        "interrupt" => Input::Interrupt(id("e-1")),
        "interrupt:other" => Input::Interrupt(id("e-2")),
        "revoked" => Input::Revoked(Vec::new()),
        "retire" => Input::Retire,
        "stop" => Input::Stop,
        "overdue" => Input::Overdue(machine.wait().expect("something to wait for")),
        "exit0" => Input::Gone(Loss::Exited(ExitStatus::from_raw(0))),
        "exit1" => Input::Gone(Loss::Exited(ExitStatus::from_raw(1 << 8))),
        "closed" => Input::Gone(Loss::Closed),
        "silent" => Input::Gone(Loss::Silent),
        other => panic!("{other}"),
    }
}

fn word(effect: &Effect) -> String {
    let lost = |loss: &Loss| match loss {
        Loss::Exited(_) => "exited",
        Loss::Closed => "closed",
        Loss::Lied(_) => "lied",
        Loss::NoFrame(_) => "no-frame",
        Loss::Overdue(_) => "overdue",
        Loss::Silent => "silent",
        Loss::Stalled => "stalled",
        Loss::Failed { .. } => "failed",
    };
    match effect {
        Effect::Send(frame) => format!("{frame:?}"),
        Effect::Bootstrap(version) => format!("bootstrap{version}"),
        Effect::Opened(_) => "opened".to_owned(),
        Effect::NotOpened(error) => match error {
            SpawnError::Hello { field, .. } => format!("no:{field}"),
            SpawnError::Refused { .. } => "no:refused".to_owned(),
            SpawnError::Lost(loss) => format!("no:{}", lost(loss)),
            SpawnError::Stopped => "no:stopped".to_owned(),
            SpawnError::Start { .. }
            | SpawnError::Identify { .. }
            | SpawnError::Bootstrap { .. } => "no".to_owned(),
        },
        Effect::Servers(_) => "servers".to_owned(),
        Effect::Event(TurnEvent::Adopted) => "told:adopted".to_owned(),
        Effect::Event(TurnEvent::CallStarted { .. }) => "told:started".to_owned(),
        Effect::Event(TurnEvent::Progress { .. }) => "told:progress".to_owned(),
        Effect::Event(TurnEvent::CallEnded { .. }) => "told:ended".to_owned(),
        Effect::TurnEnd(end) => match end {
            TurnEnd::Completed { .. } => "turn:completed".to_owned(),
            TurnEnd::Failed { .. } => "turn:failed".to_owned(),
            TurnEnd::Interrupted { .. } => "turn:interrupted".to_owned(),
            TurnEnd::Rejected { .. } => "turn:rejected".to_owned(),
            TurnEnd::Lost { reserved: true, .. } => "turn:unknown".to_owned(),
            TurnEnd::Lost {
                reserved: false, ..
            } => "turn:not-sent".to_owned(),
        },
        Effect::End(WorkerEnd::Retired) => "end:retired".to_owned(),
        Effect::End(WorkerEnd::Stopped) => "end:stopped".to_owned(),
        Effect::End(WorkerEnd::Lost(loss)) => format!("end:{}", lost(loss)),
    }
}

fn feed(machine: &mut Machine, next: &str) -> String {
    let input = input(next, machine);
    let effects = machine.step(input);
    effects.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// What came before, each line with what comes then and what follows from it.
fn check(before: &str, table: &[(&str, &str)]) {
    for (next, expected) in table {
        let mut machine = machine();
        for earlier in before.split_whitespace() {
            feed(&mut machine, earlier);
        }
        assert_eq!(feed(&mut machine, next), *expected, "{before} then {next}");
    }
}

const READY: &str = "hello ready";

fn after(more: &str) -> String {
    format!("{READY} {more}")
}

#[test]
fn a_worker_says_who_it_is_before_anything_else() {
    check(
        "",
        &[
            ("hello", "bootstrap2"),
            ("hello:newer", "bootstrap2"),
            // It could not be told of a revocation.
            ("hello:heedless", "no:version end:lied"),
            ("hello:pid", "no:pid end:lied"),
            ("hello:gateway", "no:pid end:lied"),
            ("hello:birth", "no:birth end:lied"),
            ("hello:old", "no:version end:lied"),
            ("ready", "no:lied end:lied"),
            ("heartbeat", "no:lied end:lied"),
            ("servers", "no:lied end:lied"),
            ("failure", "no:lied end:lied"),
            ("adopt", "no:lied end:lied"),
            ("result", "no:lied end:lied"),
            ("overdue", "no:overdue end:overdue"),
            ("exit0", "no:exited end:exited"),
            ("closed", "no:closed end:closed"),
            ("interrupt", ""),
            ("retire", ""),
            ("stop", "stop no:stopped"),
        ],
    );
}

#[test]
fn a_worker_is_told_of_revocations_from_its_bootstrap_to_its_end() {
    check("", &[("revoked", "")]);
    check("hello", &[("revoked", "revocations")]);
    for more in ["", "run", "run adopt", "run adopt result"] {
        check(&after(more), &[("revoked", "revocations")]);
    }
    check(&after("retire"), &[("revoked", "")]);
    check(&after("exit0"), &[("revoked", "")]);
}

#[test]
fn a_worker_with_its_bootstrap_says_that_it_is_ready() {
    check(
        "hello",
        &[
            ("ready", "opened"),
            ("heartbeat", ""),
            ("hello", "no:lied end:lied"),
            ("servers", "no:lied end:lied"),
            ("failure", "no:refused end:failed"),
            ("failure:turn", "no:lied end:lied"),
            ("adopt", "no:lied end:lied"),
            ("event1", "no:lied end:lied"),
            ("result", "no:lied end:lied"),
            ("finished", "no:lied end:lied"),
            ("overdue", "no:overdue end:overdue"),
            ("exit0", "no:exited end:exited"),
            ("silent", "no:silent end:silent"),
            ("stop", "stop no:stopped"),
        ],
    );
    check("hello retire", &[("ready", "opened retire")]);
}

#[test]
fn an_idle_worker_has_nothing_to_say_of_turns() {
    check(
        READY,
        &[
            ("run", "turn"),
            ("servers", "servers"),
            ("heartbeat", ""),
            ("hello", "end:lied"),
            ("ready", "end:lied"),
            ("adopt", "end:lied"),
            ("event1", "end:lied"),
            ("result", "end:lied"),
            ("finished", "end:lied"),
            ("failure", "end:failed"),
            ("failure:turn", "end:lied"),
            ("interrupt", ""),
            ("retire", "retire"),
            ("stop", "stop"),
            ("exit0", "end:exited"),
            ("exit1", "end:exited"),
            ("silent", "end:silent"),
        ],
    );
}

#[test]
fn a_turn_is_the_workers_once_it_has_proved_that_it_was_given_to_it() {
    check(
        &after("run"),
        &[
            ("adopt", "adopted told:adopted"),
            ("adopt:secret", "turn:unknown end:lied"),
            ("adopt:other", "turn:unknown end:lied"),
            ("failure:turn", "turn:rejected"),
            ("failure:other", "turn:unknown end:lied"),
            ("failure", "turn:unknown end:failed"),
            ("event1", "turn:unknown end:lied"),
            ("result", "turn:unknown end:lied"),
            ("finished", "turn:unknown end:lied"),
            ("servers", "servers"),
            ("heartbeat", ""),
            ("run2", "turn:rejected"),
            ("interrupt", "interrupt"),
            ("interrupt:other", ""),
            ("retire", ""),
            ("stop", "stop"),
            ("overdue", "turn:unknown end:overdue"),
            ("exit0", "turn:unknown end:exited"),
            ("closed", "turn:unknown end:closed"),
        ],
    );
    check(&after("run stop"), &[("failure:turn", "turn:rejected")]);
    check(
        &after("run retire"),
        &[("failure:turn", "turn:rejected retire")],
    );
    check(&after("run failure:turn"), &[("run2", "turn")]);
}

#[test]
fn a_turn_that_runs_ends_with_its_result_or_nobody_knows_how() {
    check(
        &after("run adopt"),
        &[
            ("event1", "told:started"),
            ("event1:progress", "told:progress"),
            ("event1:ended", "told:ended"),
            ("event2", "turn:unknown end:lied"),
            ("event1:other", "turn:unknown end:lied"),
            ("event1:bare", "turn:unknown end:lied"),
            ("event1:ended-bare", "turn:unknown end:lied"),
            ("result", "turn:completed finish"),
            ("result:failed", "turn:failed finish"),
            ("result:interrupted", "turn:interrupted finish"),
            ("result:other", "turn:unknown end:lied"),
            ("result:bare", "turn:unknown end:lied"),
            ("result:fault", "turn:unknown end:lied"),
            ("result:failed-bare", "turn:unknown end:lied"),
            ("adopt", "turn:unknown end:lied"),
            ("finished", "turn:unknown end:lied"),
            ("failure", "turn:unknown end:failed"),
            ("failure:turn", "turn:unknown end:lied"),
            ("servers", "servers"),
            ("heartbeat", ""),
            ("interrupt", "interrupt"),
            ("interrupt:other", ""),
            ("retire", ""),
            ("stop", "stop"),
            // Its time is over.
            ("overdue", "interrupt"),
            ("exit0", "turn:unknown end:exited"),
            ("silent", "turn:unknown end:silent"),
        ],
    );
    check(
        &after("run adopt event1"),
        &[
            ("event2", "told:started"),
            ("event1", "turn:unknown end:lied"),
        ],
    );
    check(
        &after("run adopt interrupt"),
        &[
            ("interrupt", ""),
            ("result:interrupted", "turn:interrupted finish"),
            ("result", "turn:completed finish"),
            ("overdue", "turn:unknown end:overdue"),
        ],
    );
    check(
        &after("run adopt stop"),
        &[
            ("stop", ""),
            ("result:interrupted", "turn:interrupted finish"),
            ("exit0", "turn:unknown end:stopped"),
            ("overdue", "turn:unknown end:stopped"),
        ],
    );
    check(
        &after("run adopt retire"),
        &[("exit0", "turn:unknown end:exited")],
    );
}

#[test]
fn a_result_that_is_there_stays_whatever_becomes_of_the_worker() {
    check(
        &after("run adopt result"),
        &[
            ("finished", ""),
            ("finished:other", "end:lied"),
            ("result", "end:lied"),
            ("event1", "end:lied"),
            ("overdue", "end:overdue"),
            ("exit0", "end:exited"),
            ("stop", "stop"),
            ("run2", "turn:rejected"),
            ("interrupt", ""),
        ],
    );
    check(
        &after("run adopt result finished"),
        &[("run2", "turn"), ("finished", "end:lied")],
    );
    check(&after("run adopt retire result"), &[("finished", "retire")]);
    check(
        &after("run adopt stop result"),
        &[("exit0", "end:stopped"), ("finished", "")],
    );
}

#[test]
fn a_worker_that_was_told_to_end_is_not_listened_to_and_ends_once() {
    check(
        &after("retire"),
        &[
            ("exit0", "end:retired"),
            ("exit1", "end:exited"),
            ("closed", "end:retired"),
            ("overdue", "end:overdue"),
            ("result", ""),
            ("hello", ""),
            ("stop", "stop"),
            ("run", "turn:rejected"),
        ],
    );
    check(
        &after("stop"),
        &[
            ("exit0", "end:stopped"),
            ("exit1", "end:stopped"),
            ("overdue", "end:stopped"),
            ("result", ""),
            ("stop", ""),
            ("retire", ""),
            ("run", "turn:rejected"),
        ],
    );
    check(
        &after("exit0"),
        &[
            ("exit0", ""),
            ("result", ""),
            ("stop", ""),
            ("closed", ""),
            ("retire", ""),
        ],
    );
    check(
        "stop",
        &[("hello", ""), ("ready", ""), ("exit0", "end:stopped")],
    );
}

#[test]
fn the_time_to_stop_is_that_of_the_first_stop_whatever_happens_then() {
    for before in [
        "",
        "hello",
        READY,
        "hello ready run",
        "hello ready run adopt",
        "hello ready run adopt result",
    ] {
        let mut machine = machine();
        for earlier in before.split_whitespace() {
            feed(&mut machine, earlier);
        }
        feed(&mut machine, "stop");
        for later in ["adopt", "interrupt", "retire", "stop", "heartbeat"] {
            assert_eq!(machine.wait(), Some(Wait::Stopped), "{before}");
            if machine
                .step(input(later, &machine))
                .iter()
                .any(|effect| matches!(effect, Effect::End(_)))
            {
                break;
            }
        }
    }
}

#[test]
fn a_turn_has_as_many_events_as_anybody_can_look_at() {
    let mut machine = machine();
    for earlier in after("run adopt").split_whitespace() {
        feed(&mut machine, earlier);
    }
    for sequence in 1..=MOST_EVENTS {
        let effects = machine.step(Input::Frame(event(sequence, |_| {})));
        assert!(matches!(effects[..], [Effect::Event(_)]));
    }
    let effects = machine.step(Input::Frame(event(MOST_EVENTS + 1, |_| {})));
    assert!(matches!(
        effects[..],
        [
            Effect::TurnEnd(TurnEnd::Lost { reserved: true, .. }),
            Effect::End(_)
        ]
    ));
}

/// Every word there is.
const WORDS: [&str; 39] = [
    "hello",
    "hello:pid",
    "hello:birth",
    "hello:old",
    "ready",
    "servers",
    "heartbeat",
    "failure",
    "failure:turn",
    "failure:other",
    "adopt",
    "adopt:secret",
    "adopt:other",
    "event1",
    "event2",
    "event1:other",
    "event1:bare",
    "result",
    "result:other",
    "result:bare",
    "result:fault",
    "result:failed",
    "result:failed-bare",
    "result:interrupted",
    "finished",
    "finished:other",
    "run",
    "run2",
    "interrupt",
    "interrupt:other",
    "retire",
    "stop",
    "exit0",
    "exit1",
    "closed",
    "silent",
    "hello",
    "ready",
    "adopt",
];

proptest::proptest! {
    #[test]
    fn whatever_a_worker_does_each_turn_and_the_worker_end_once(
        picks in proptest::collection::vec(0..WORDS.len(), 0..60),
        good in 0..8usize,
    ) {
        // A good beginning, so that later phases are reached as well.
        let beginning = "hello ready run adopt event1 result finished run2".split(' ').take(good);
        let mut machine = machine();
        let (mut running, mut ended) = (false, false);
        for word in beginning.chain(picks.iter().map(|pick| WORDS[*pick])) {
            let takes = machine.takes_turn();
            let input = input(word, &machine);
            if matches!(input, Input::Run(..)) {
                // The actor asks before.
                if !takes {
                    continue;
                }
                running = true;
            }
            for effect in machine.step(input) {
                assert!(!ended, "nothing follows the end");
                match effect {
                    Effect::TurnEnd(_) => {
                        assert!(running, "a turn ends once");
                        running = false;
                    }
                    Effect::End(_) => {
                        assert!(!running, "no turn is left");
                        ended = true;
                    }
                    Effect::Send(_) | Effect::Bootstrap(_) | Effect::Opened(_) | Effect::NotOpened(_)
                    | Effect::Servers(_) | Effect::Event(_) => {}
                }
            }
        }
    }
}
