//! Which turn the worker has, as a pure machine: what comes in leads to what is sent and done.

use genlock_frames::{
    Adopt, Epoch, ExecutionId, Failure, Fault, Finished, Revoked, ToGateway, ToWorker, Turn,
    TurnOutcome, TurnResult,
};
use serde_json::value::RawValue;

/// Where the worker is with its turn.
#[derive(Debug)]
pub(crate) enum TurnState {
    /// It has none.
    Idle,
    /// It has asked whether the turn is its own; nothing runs.
    Adopting(Box<Order>),
    /// The turn runs.
    Running(ExecutionId),
    /// The result is sent; it waits until that is taken.
    Reporting(ExecutionId),
}

/// A turn to run.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) execution_id: ExecutionId,
    pub(crate) payload: Box<RawValue>,
    /// How long it may take from when it was received, in milliseconds.
    pub(crate) deadline_ms: Option<u64>,
    /// Whether it was interrupted before it began.
    pub(crate) interrupted: bool,
}

/// How the worker ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It was asked to, between turns.
    Retired,
    /// It was stopped.
    Stopped,
    /// The gateway sent what it must not.
    Violation,
}

/// What has to be done.
#[derive(Debug)]
pub(crate) enum TurnEffect {
    /// Send a frame.
    Send(ToGateway),
    /// Begin to run a turn.
    Begin(Box<Order>),
    /// Interrupt the turn that runs.
    Interrupt,
    /// Refuse what this names from now on, whatever runs.
    Revoke(Vec<Revoked>),
    /// End the worker.
    Leave(Leave),
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Turns {
    state: TurnState,
    /// The newest epoch that was seen.
    epoch: Epoch,
    /// What happens once the turn is over.
    leaving: Option<Leave>,
}

// === impl Turns ===

impl Turns {
    /// Begins without a turn, in the epoch of the bootstrap.
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self {
            state: TurnState::Idle,
            epoch,
            leaving: None,
        }
    }

    /// Returns the turn that runs.
    pub(crate) fn running(&self) -> Option<&ExecutionId> {
        match &self.state {
            TurnState::Running(execution) => Some(execution),
            TurnState::Idle | TurnState::Adopting(_) | TurnState::Reporting(_) => None,
        }
    }

    /// Takes a frame.
    pub(crate) fn frame(&mut self, frame: ToWorker) -> Vec<TurnEffect> {
        match frame {
            ToWorker::Heartbeat(_) => Vec::new(),
            ToWorker::Turn(turn) => self.turn(turn),
            ToWorker::Adopted(adopted) => self.adopted(&adopted.execution_id),
            ToWorker::Refused(refused) => self.refused(&refused.execution_id),
            ToWorker::Interrupt(interrupt) => self.interrupt(&interrupt.execution_id),
            ToWorker::Finish(finish) => self.finish(&finish.execution_id),
            ToWorker::Stop(_) => self.stop(),
            ToWorker::Retire(_) => self.retire(),
            ToWorker::Revocations(now) => vec![TurnEffect::Revoke(now.revoked)],
            // There is one per worker.
            ToWorker::Bootstrap(_) => vec![TurnEffect::Leave(Leave::Violation)],
        }
    }

    fn turn(&mut self, turn: Turn) -> Vec<TurnEffect> {
        if !matches!(self.state, TurnState::Idle) {
            let why = "the worker has a turn already";
            return vec![not_taken(turn.execution_id, "session_busy", why)];
        }
        if turn.epoch < self.epoch {
            let why = "the turn is of an older epoch than one before";
            return vec![not_taken(turn.execution_id, "stale_epoch", why)];
        }
        self.epoch = turn.epoch;
        let adopt = Adopt {
            execution_id: turn.execution_id.clone(),
            secret: turn.secret,
        };
        self.state = TurnState::Adopting(Box::new(Order {
            execution_id: turn.execution_id,
            payload: turn.payload,
            deadline_ms: turn.deadline_ms,
            interrupted: false,
        }));
        vec![TurnEffect::Send(ToGateway::Adopt(adopt))]
    }

    fn adopted(&mut self, execution: &ExecutionId) -> Vec<TurnEffect> {
        match std::mem::replace(&mut self.state, TurnState::Idle) {
            TurnState::Adopting(order) if order.execution_id == *execution => {
                self.state = TurnState::Running(execution.clone());
                vec![TurnEffect::Begin(order)]
            }
            TurnState::Adopting(_)
            | TurnState::Idle
            | TurnState::Running(_)
            | TurnState::Reporting(_) => vec![TurnEffect::Leave(Leave::Violation)],
        }
    }

    fn refused(&mut self, execution: &ExecutionId) -> Vec<TurnEffect> {
        match &self.state {
            TurnState::Adopting(order) if order.execution_id == *execution => self.idle(),
            TurnState::Adopting(_)
            | TurnState::Idle
            | TurnState::Running(_)
            | TurnState::Reporting(_) => vec![TurnEffect::Leave(Leave::Violation)],
        }
    }

    /// An interrupt may cross the result, so that one for another turn means nothing.
    fn interrupt(&mut self, execution: &ExecutionId) -> Vec<TurnEffect> {
        match &mut self.state {
            TurnState::Adopting(order) if order.execution_id == *execution => {
                order.interrupted = true;
                Vec::new()
            }
            TurnState::Running(running) if running == execution => vec![TurnEffect::Interrupt],
            TurnState::Adopting(_)
            | TurnState::Running(_)
            | TurnState::Idle
            | TurnState::Reporting(_) => Vec::new(),
        }
    }

    fn finish(&mut self, execution: &ExecutionId) -> Vec<TurnEffect> {
        match &self.state {
            TurnState::Reporting(reported) if reported == execution => {
                let execution_id = execution.clone();
                let mut effects = vec![TurnEffect::Send(ToGateway::Finished(Finished {
                    execution_id,
                }))];
                effects.extend(self.idle());
                effects
            }
            TurnState::Reporting(_)
            | TurnState::Adopting(_)
            | TurnState::Idle
            | TurnState::Running(_) => vec![TurnEffect::Leave(Leave::Violation)],
        }
    }

    /// Ends the worker as soon as a turn that runs has told how far it came.
    pub(crate) fn stop(&mut self) -> Vec<TurnEffect> {
        self.leaving = Some(Leave::Stopped);
        match &self.state {
            TurnState::Running(_) => vec![TurnEffect::Interrupt],
            TurnState::Adopting(order) => {
                let why = "the worker was stopped before the turn began";
                let not_taken = not_taken(order.execution_id.clone(), "draining", why);
                vec![not_taken, TurnEffect::Leave(Leave::Stopped)]
            }
            TurnState::Idle | TurnState::Reporting(_) => vec![TurnEffect::Leave(Leave::Stopped)],
        }
    }

    fn retire(&mut self) -> Vec<TurnEffect> {
        self.leaving.get_or_insert(Leave::Retired);
        match &self.state {
            TurnState::Idle => self.idle(),
            TurnState::Adopting(_) | TurnState::Running(_) | TurnState::Reporting(_) => Vec::new(),
        }
    }

    /// Takes the result of the turn that ran.
    pub(crate) fn ended(&mut self, outcome: TurnOutcome, report: Report) -> Vec<TurnEffect> {
        let TurnState::Running(execution) = std::mem::replace(&mut self.state, TurnState::Idle)
        else {
            return Vec::new();
        };
        let result = TurnResult {
            execution_id: execution.clone(),
            outcome,
            result: report.result,
            failure: report.failure,
        };
        self.state = TurnState::Reporting(execution);
        let mut effects = vec![TurnEffect::Send(ToGateway::Result(result))];
        if self.leaving == Some(Leave::Stopped) {
            effects.push(TurnEffect::Leave(Leave::Stopped));
        }
        effects
    }

    fn idle(&mut self) -> Vec<TurnEffect> {
        self.state = TurnState::Idle;
        self.leaving.map(TurnEffect::Leave).into_iter().collect()
    }
}

/// What a turn led to.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) result: Option<Box<RawValue>>,
    pub(crate) failure: Option<Fault>,
}

fn not_taken(execution_id: ExecutionId, code: &str, message: &str) -> TurnEffect {
    TurnEffect::Send(ToGateway::Failure(Failure {
        code: code.to_owned(),
        message: message.to_owned(),
        execution_id: Some(execution_id),
    }))
}

#[cfg(test)]
mod tests {
    use genlock_frames::{
        Adopted, ExecutionSecret, Finish, Heartbeat, Interrupt, Refused, Retire, Revocations, Stop,
    };
    use secrecy::SecretString;

    use super::*;

    fn id(text: &str) -> ExecutionId {
        ExecutionId::new(text).unwrap()
    }

    /// The frame or event of a word: `turn e1`, `adopted e1`, `ended`, …
    fn feed(turns: &mut Turns, input: &str) -> Vec<TurnEffect> {
        let (word, of) = input.split_once(' ').unwrap_or((input, "e1"));
        let execution_id = id(of);
        let turn = |epoch| {
            ToWorker::Turn(Turn {
                execution_id: id(of),
                secret: ExecutionSecret::new(SecretString::from("secret")),
                epoch: Epoch::new(epoch),
                payload: RawValue::from_string("{}".to_owned()).unwrap(),
                deadline_ms: None,
            })
        };
        let frame = match word {
            "turn" => turn(5),
            "stale" => turn(4),
            "newer" => turn(6),
            "adopted" => ToWorker::Adopted(Adopted { execution_id }),
            "refused" => ToWorker::Refused(Refused {
                execution_id,
                code: String::new(),
                message: String::new(),
            }),
            "interrupt" => ToWorker::Interrupt(Interrupt { execution_id }),
            "finish" => ToWorker::Finish(Finish { execution_id }),
            "stop" => ToWorker::Stop(Stop {}),
            "retire" => ToWorker::Retire(Retire {}),
            "revocations" => ToWorker::Revocations(Revocations { revoked: vec![] }),
            "heartbeat" => ToWorker::Heartbeat(Heartbeat { sequence: 1 }),
            "ended" => return turns.ended(TurnOutcome::Completed, Report::default()),
            other => panic!("{other}"),
        };
        turns.frame(frame)
    }

    fn words(effects: &[TurnEffect]) -> String {
        let word = |effect: &TurnEffect| match effect {
            TurnEffect::Send(ToGateway::Failure(failure)) => format!("failure:{}", failure.code),
            TurnEffect::Send(frame) => format!("{frame:?}"),
            TurnEffect::Begin(order) if order.interrupted => "begin:interrupted".to_owned(),
            TurnEffect::Begin(_) => "begin".to_owned(),
            TurnEffect::Interrupt => "interrupt".to_owned(),
            TurnEffect::Revoke(_) => "revoke".to_owned(),
            TurnEffect::Leave(leave) => format!("{leave:?}"),
        };
        effects.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_done_follows_from_what_came_before() {
        // What came before, what comes, what is done.
        let table = [
            ("", "turn", "adopt"),
            ("", "newer", "adopt"),
            ("", "stale", "failure:stale_epoch"),
            (
                "newer,adopted,ended,finish",
                "turn e2",
                "failure:stale_epoch",
            ),
            ("", "heartbeat", ""),
            ("", "revocations", "revoke"),
            ("", "adopted", "Violation"),
            ("", "refused", "Violation"),
            ("", "finish", "Violation"),
            ("", "interrupt", ""),
            ("", "retire", "Retired"),
            ("", "stop", "Stopped"),
            ("", "ended", ""),
            ("turn", "turn e2", "failure:session_busy"),
            ("turn", "adopted", "begin"),
            ("turn", "adopted e2", "Violation"),
            ("turn", "refused", ""),
            ("turn", "refused e2", "Violation"),
            ("turn,refused", "turn e2", "adopt"),
            ("turn", "finish", "Violation"),
            ("turn,interrupt", "adopted", "begin:interrupted"),
            ("turn,interrupt e2", "adopted", "begin"),
            ("turn", "stop", "failure:draining Stopped"),
            ("turn", "retire", ""),
            ("turn,retire", "refused", "Retired"),
            ("turn,adopted", "adopted", "Violation"),
            ("turn,adopted", "turn e2", "failure:session_busy"),
            ("turn,adopted", "interrupt", "interrupt"),
            ("turn,adopted", "revocations", "revoke"),
            ("turn,adopted,ended", "revocations", "revoke"),
            ("turn,adopted", "interrupt e2", ""),
            ("turn,adopted", "finish", "Violation"),
            ("turn,adopted", "retire", ""),
            ("turn,adopted", "stop", "interrupt"),
            ("turn,adopted", "ended", "result"),
            ("turn,adopted,stop", "ended", "result Stopped"),
            ("turn,adopted,stop,retire", "ended", "result Stopped"),
            ("turn,adopted,ended", "finish", "finished"),
            ("turn,adopted,ended", "finish e2", "Violation"),
            ("turn,adopted,ended", "interrupt", ""),
            ("turn,adopted,ended", "stop", "Stopped"),
            ("turn,adopted,ended", "turn e2", "failure:session_busy"),
            ("turn,adopted,retire,ended", "finish", "finished Retired"),
            ("turn,adopted,ended,finish", "turn e2", "adopt"),
            ("turn,adopted,ended,finish", "finish", "Violation"),
        ];
        for (before, input, expected) in table {
            let mut turns = Turns::new(Epoch::new(5));
            for input in before.split(',').filter(|input| !input.is_empty()) {
                feed(&mut turns, input);
            }
            let effects = feed(&mut turns, input);
            assert_eq!(words(&effects), expected, "{before} then {input}");
        }
    }
}
