//! What a worker may say when, and what follows, as a pure machine.
//!
//! No clock, no process and no pipe in here: the actor tells what happened, and performs the effects. Everything that a
//! worker says out of its place is a lie, and the first lie ends it.

use std::time::Duration;

use genlock_frames::{
    Adopt, Adopted, Birth, Event, EventKind, ExecutionId, Failure, Finish, Hello, Interrupt, Pid,
    REVOCATIONS_SINCE, Retire, Revocations, Revoked, ServerView, Stop, ToGateway, ToWorker,
    TurnOutcome, TurnResult, common_version,
};

use super::{
    error::{Loss, SpawnError},
    order::{SecretDigest, TurnEnd, TurnEvent, TurnOrder, WorkerEnd, secret_digest},
};

/// The most events of one turn.
pub(crate) const MOST_EVENTS: u64 = 100_000;

/// Who the worker has to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) pid: Pid,
    pub(crate) birth: Birth,
    /// The gateway itself, which no worker can be.
    pub(crate) gateway: Pid,
}

/// Where a worker is.
#[derive(Debug)]
enum Phase {
    /// It has to say who it is.
    Greeting,
    /// It has its bootstrap and has to say that it is ready.
    Preparing,
    /// It waits for a turn.
    Idle,
    /// It was given a turn and has to prove that it was.
    Offered(ExecutionId, SecretDigest),
    /// It runs the turn.
    Running {
        execution: ExecutionId,
        events: u64,
        interrupted: bool,
    },
    /// It gave the result and has to forget the turn.
    Finishing(ExecutionId),
    /// It was told to end. Nothing it says counts any more.
    Leaving(Asked),
    /// It is over.
    Ended,
}

/// What a worker was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Retire,
    Stop,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// The worker sent a frame.
    Frame(ToGateway),
    /// A turn has to be run. Only where [`Machine::takes_turn`].
    Run(TurnOrder, Option<Duration>),
    /// This turn has to end.
    Interrupt(ExecutionId),
    /// This is revoked from now on, and nothing else.
    Revoked(Vec<Revoked>),
    /// The worker has to end between turns.
    Retire,
    /// The worker has to end now.
    Stop,
    /// What [`Machine::wait`] names took too long.
    Overdue(Wait),
    /// The worker is gone, or no worker any more.
    Gone(Loss),
}

/// What the gateway waits for, and for how long at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Hello,
    Ready,
    Adopt,
    /// The end of a turn, by its deadline.
    Turn(Duration),
    Interrupted,
    Finished,
    Retired,
    /// The end of the worker from the first stop on: later ones do not begin it again.
    Stopped,
}

/// What has to be done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Send a frame.
    Send(ToWorker),
    /// Send the bootstrap, in this version.
    Bootstrap(u32),
    /// The worker is ready.
    Opened(Vec<ServerView>),
    /// There is no worker.
    NotOpened(SpawnError),
    /// Its servers changed.
    Servers(Vec<ServerView>),
    /// Something happened in the turn.
    Event(TurnEvent),
    /// The turn is over.
    TurnEnd(TurnEnd),
    /// The worker is over: kill what is left. Comes once, as the last effect of all.
    End(WorkerEnd),
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Machine {
    expected: Expected,
    phase: Phase,
    /// How long the turn may take.
    turn: Option<Duration>,
    asked: Option<Asked>,
}

type Effects = Vec<Effect>;

// === impl Machine ===

impl Machine {
    pub(crate) fn new(expected: Expected) -> Self {
        Self {
            expected,
            phase: Phase::Greeting,
            turn: None,
            asked: None,
        }
    }

    /// Tells whether a turn may be given.
    pub(crate) fn takes_turn(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Tells whether the worker is on its way out, and may take its time between closing its pipe and its end.
    pub(crate) fn is_leaving(&self) -> bool {
        match &self.phase {
            Phase::Leaving(_) => true,
            Phase::Finishing(_) => self.asked == Some(Asked::Stop),
            Phase::Greeting
            | Phase::Preparing
            | Phase::Idle
            | Phase::Offered(..)
            | Phase::Running { .. }
            | Phase::Ended => false,
        }
    }

    /// Returns what is waited for now.
    pub(crate) fn wait(&self) -> Option<Wait> {
        if self.asked == Some(Asked::Stop) && !matches!(self.phase, Phase::Ended) {
            return Some(Wait::Stopped);
        }
        match &self.phase {
            Phase::Greeting => Some(Wait::Hello),
            Phase::Preparing => Some(Wait::Ready),
            Phase::Offered(..) => Some(Wait::Adopt),
            Phase::Running {
                interrupted: true, ..
            } => Some(Wait::Interrupted),
            Phase::Running { .. } => self.turn.map(Wait::Turn),
            Phase::Finishing(_) => Some(Wait::Finished),
            Phase::Leaving(Asked::Retire) => Some(Wait::Retired),
            Phase::Leaving(Asked::Stop) => Some(Wait::Stopped),
            Phase::Idle | Phase::Ended => None,
        }
    }

    /// Takes the next step.
    pub(crate) fn step(&mut self, input: Input) -> Effects {
        match input {
            Input::Frame(frame) => self.frame(frame),
            Input::Run(order, within) => self.run(order, within),
            Input::Interrupt(execution) => self.interrupt(&execution),
            Input::Revoked(revoked) => self.revoked(revoked),
            Input::Retire => self.retire(),
            Input::Stop => self.stop(),
            Input::Overdue(wait) => self.overdue(wait),
            Input::Gone(loss) => self.gone(loss),
        }
    }

    fn frame(&mut self, frame: ToGateway) -> Effects {
        match (&self.phase, frame) {
            (Phase::Ended | Phase::Leaving(_), _) => Vec::new(),
            (Phase::Greeting, ToGateway::Hello(hello)) => self.hello(&hello),
            (Phase::Greeting, _) => self.lie("something before its hello"),
            (_, ToGateway::Hello(_)) => self.lie("a second hello"),
            (_, ToGateway::Heartbeat(_)) => Vec::new(),
            (Phase::Preparing, ToGateway::Ready(ready)) => {
                self.becomes_idle(Effect::Opened(ready.servers))
            }
            (_, ToGateway::Ready(_)) => self.lie("ready out of its place"),
            (_, ToGateway::Failure(failure)) => self.failure(failure),
            (Phase::Preparing, _) => self.lie("something before it was ready"),
            (_, ToGateway::Servers(changed)) => vec![Effect::Servers(changed.servers)],
            (_, ToGateway::Adopt(adopt)) => self.adopt(&adopt),
            (_, ToGateway::Event(event)) => self.event(event),
            (_, ToGateway::Result(result)) => self.result(result),
            (Phase::Finishing(execution), ToGateway::Finished(finished))
                if *execution == finished.execution_id =>
            {
                self.idle()
            }
            (_, ToGateway::Finished(_)) => self.lie("finished out of its place"),
        }
    }

    fn hello(&mut self, hello: &Hello) -> Effects {
        let version = common_version(hello.version).filter(|version| *version >= REVOCATIONS_SINCE);
        let wrong = if hello.pid == self.expected.gateway {
            Some(("pid", "is the gateway itself"))
        } else if hello.pid != self.expected.pid {
            Some(("pid", "is not the process that was started"))
        } else if hello.birth != self.expected.birth {
            Some(("birth", "is not that of the process that was started"))
        } else {
            None
        };
        let (field, what) = match (wrong, version) {
            (None, Some(version)) => {
                self.phase = Phase::Preparing;
                return vec![Effect::Bootstrap(version)];
            }
            (None, None) => ("version", "is older than what this gateway speaks"),
            (Some(wrong), _) => wrong,
        };
        let loss = Loss::Lied("a hello that is not its own");
        self.not_opened(SpawnError::Hello { field, what }, loss)
    }

    /// A worker that gives up, or does not take a turn.
    fn failure(&mut self, failure: Failure) -> Effects {
        let Failure {
            code,
            message,
            execution_id,
        } = failure;
        match (&self.phase, execution_id) {
            (Phase::Preparing, None) => {
                let loss = Loss::Failed {
                    code: code.clone(),
                    message: message.clone(),
                };
                self.not_opened(SpawnError::Refused { code, message }, loss)
            }
            (Phase::Offered(offered, _), Some(execution)) if *offered == execution => {
                self.becomes_idle(Effect::TurnEnd(TurnEnd::Rejected { code, message }))
            }
            (_, Some(_)) => self.lie("a failure of a turn that was not offered"),
            (_, None) => self.gone(Loss::Failed { code, message }),
        }
    }

    fn run(&mut self, order: TurnOrder, within: Option<Duration>) -> Effects {
        if !self.takes_turn() {
            return vec![Effect::TurnEnd(TurnEnd::Rejected {
                code: "session_busy".to_owned(),
                message: "the worker has a turn".to_owned(),
            })];
        }
        let execution_id = order.execution_id;
        self.turn = within;
        self.phase = Phase::Offered(execution_id.clone(), secret_digest(&order.secret));
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        vec![Effect::Send(ToWorker::Turn(genlock_frames::Turn {
            execution_id,
            secret: order.secret,
            epoch: order.epoch,
            payload: order.payload,
            deadline_ms: within.map(millis),
        }))]
    }

    fn adopt(&mut self, adopt: &Adopt) -> Effects {
        match &self.phase {
            Phase::Offered(execution, digest)
                if *execution == adopt.execution_id && *digest == secret_digest(&adopt.secret) =>
            {
                let execution = execution.clone();
                self.phase = Phase::Running {
                    execution: execution.clone(),
                    events: 0,
                    interrupted: false,
                };
                let execution_id = execution;
                vec![
                    Effect::Send(ToWorker::Adopted(Adopted { execution_id })),
                    Effect::Event(TurnEvent::Adopted),
                ]
            }
            Phase::Offered(..) => self.lie("another secret than that of its turn"),
            Phase::Greeting
            | Phase::Preparing
            | Phase::Idle
            | Phase::Running { .. }
            | Phase::Finishing(_)
            | Phase::Leaving(_)
            | Phase::Ended => self.lie("an adoption of nothing"),
        }
    }

    fn event(&mut self, event: Event) -> Effects {
        let Phase::Running {
            execution, events, ..
        } = &mut self.phase
        else {
            return self.lie("an event without a turn");
        };
        if *execution != event.execution_id {
            return self.lie("an event of another turn");
        }
        *events += 1;
        if event.sequence != *events {
            return self.lie("events out of their order");
        }
        if *events > MOST_EVENTS {
            return self.lie("more events than a turn may have");
        }
        match told(event) {
            Some(event) => vec![Effect::Event(event)],
            None => self.lie("an event without what belongs to it"),
        }
    }

    fn result(&mut self, result: TurnResult) -> Effects {
        let execution_id = match &self.phase {
            Phase::Running { execution, .. } if *execution == result.execution_id => {
                execution.clone()
            }
            Phase::Running { .. } => return self.lie("the result of another turn"),
            Phase::Greeting
            | Phase::Preparing
            | Phase::Idle
            | Phase::Offered(..)
            | Phase::Finishing(_)
            | Phase::Leaving(_)
            | Phase::Ended => return self.lie("a result without a turn"),
        };
        let end = match (result.outcome, result.result, result.failure) {
            (TurnOutcome::Completed, Some(result), None) => TurnEnd::Completed { result },
            (TurnOutcome::Failed, result, Some(fault)) => TurnEnd::Failed {
                code: fault.code,
                message: fault.message,
                result,
            },
            (TurnOutcome::Interrupted, result, None) => TurnEnd::Interrupted { result },
            (TurnOutcome::Completed | TurnOutcome::Failed | TurnOutcome::Interrupted, _, _) => {
                return self.lie("a result that does not go with its outcome");
            }
        };
        self.phase = Phase::Finishing(execution_id.clone());
        vec![
            Effect::TurnEnd(end),
            Effect::Send(ToWorker::Finish(Finish { execution_id })),
        ]
    }

    fn interrupt(&mut self, wanted: &ExecutionId) -> Effects {
        let execution_id = match &mut self.phase {
            Phase::Offered(execution, _) if execution == wanted => execution.clone(),
            Phase::Running {
                execution,
                interrupted,
                ..
            } if execution == wanted && !*interrupted => {
                *interrupted = true;
                execution.clone()
            }
            Phase::Offered(..)
            | Phase::Running { .. }
            | Phase::Greeting
            | Phase::Preparing
            | Phase::Idle
            | Phase::Finishing(_)
            | Phase::Leaving(_)
            | Phase::Ended => return Vec::new(),
        };
        vec![Effect::Send(ToWorker::Interrupt(Interrupt {
            execution_id,
        }))]
    }

    /// Whatever the worker does: its bootstrap says the same, so that nothing is told before it.
    fn revoked(&self, revoked: Vec<Revoked>) -> Effects {
        match &self.phase {
            Phase::Preparing
            | Phase::Idle
            | Phase::Offered(..)
            | Phase::Running { .. }
            | Phase::Finishing(_) => {
                vec![Effect::Send(ToWorker::Revocations(Revocations { revoked }))]
            }
            Phase::Greeting | Phase::Leaving(_) | Phase::Ended => Vec::new(),
        }
    }

    fn retire(&mut self) -> Effects {
        self.asked.get_or_insert(Asked::Retire);
        if self.takes_turn() {
            self.idle()
        } else {
            Vec::new()
        }
    }

    /// Latched: a second stop changes nothing.
    fn stop(&mut self) -> Effects {
        if matches!(self.phase, Phase::Ended) || self.asked == Some(Asked::Stop) {
            return Vec::new();
        }
        self.asked = Some(Asked::Stop);
        let stop = Effect::Send(ToWorker::Stop(Stop {}));
        match &self.phase {
            Phase::Greeting | Phase::Preparing => {
                self.phase = Phase::Leaving(Asked::Stop);
                vec![stop, Effect::NotOpened(SpawnError::Stopped)]
            }
            Phase::Idle | Phase::Finishing(_) | Phase::Leaving(_) => {
                self.phase = Phase::Leaving(Asked::Stop);
                vec![stop]
            }
            // The worker says how far the turn came, and ends then.
            Phase::Offered(..) | Phase::Running { .. } => vec![stop],
            Phase::Ended => Vec::new(),
        }
    }

    fn overdue(&mut self, wait: Wait) -> Effects {
        let what = match wait {
            Wait::Turn(_) => return self.turn_overdue(),
            Wait::Hello => "say who it is",
            Wait::Ready => "get ready",
            Wait::Adopt => "take its turn",
            Wait::Interrupted => "end an interrupted turn",
            Wait::Finished => "finish its turn",
            Wait::Retired => "retire",
            Wait::Stopped => "stop",
        };
        self.gone(Loss::Overdue(what))
    }

    /// The worker knows the deadline as well, so that it should not come to this.
    fn turn_overdue(&mut self) -> Effects {
        match &self.phase {
            Phase::Running { execution, .. } => {
                let execution = execution.clone();
                self.interrupt(&execution)
            }
            Phase::Greeting
            | Phase::Preparing
            | Phase::Idle
            | Phase::Offered(..)
            | Phase::Finishing(_)
            | Phase::Leaving(_)
            | Phase::Ended => Vec::new(),
        }
    }

    /// The worker is over. Whatever it had is decided here, and once.
    fn gone(&mut self, loss: Loss) -> Effects {
        let before = std::mem::replace(&mut self.phase, Phase::Ended);
        let retired = matches!(before, Phase::Leaving(Asked::Retire));
        let orderly = match &loss {
            Loss::Exited(status) => status.success(),
            // Nobody is told how a process ended that dialled in.
            Loss::Closed => true,
            Loss::Lied(_)
            | Loss::NoFrame(_)
            | Loss::Overdue(_)
            | Loss::Silent
            | Loss::Stalled
            | Loss::Failed { .. } => false,
        };
        let end = match self.asked {
            // However it ends: it was to end.
            Some(Asked::Stop) => WorkerEnd::Stopped,
            Some(Asked::Retire) if retired && orderly => WorkerEnd::Retired,
            Some(Asked::Retire) | None => WorkerEnd::Lost(loss.clone()),
        };
        let first = match before {
            Phase::Ended => return Vec::new(),
            Phase::Greeting | Phase::Preparing => Some(Effect::NotOpened(SpawnError::Lost(loss))),
            Phase::Offered(..) | Phase::Running { .. } => Some(Effect::TurnEnd(TurnEnd::Lost {
                reserved: true,
                loss,
            })),
            Phase::Idle | Phase::Finishing(_) | Phase::Leaving(_) => None,
        };
        first.into_iter().chain([Effect::End(end)]).collect()
    }

    fn not_opened(&mut self, error: SpawnError, loss: Loss) -> Effects {
        self.phase = Phase::Ended;
        vec![Effect::NotOpened(error), Effect::End(WorkerEnd::Lost(loss))]
    }

    fn lie(&mut self, what: &'static str) -> Effects {
        self.gone(Loss::Lied(what))
    }

    fn becomes_idle(&mut self, first: Effect) -> Effects {
        let mut effects = vec![first];
        effects.extend(self.idle());
        effects
    }

    /// The worker has no turn; what it was asked for meanwhile happens now.
    fn idle(&mut self) -> Effects {
        self.turn = None;
        match self.asked {
            None => {
                self.phase = Phase::Idle;
                Vec::new()
            }
            Some(Asked::Retire) => {
                self.phase = Phase::Leaving(Asked::Retire);
                vec![Effect::Send(ToWorker::Retire(Retire {}))]
            }
            // It has been told already.
            Some(Asked::Stop) => {
                self.phase = Phase::Leaving(Asked::Stop);
                Vec::new()
            }
        }
    }
}

/// Reads an event; `None` where something is missing from it.
fn told(event: Event) -> Option<TurnEvent> {
    let call = event.call;
    Some(match event.kind {
        EventKind::CallStarted => TurnEvent::CallStarted {
            call,
            server: event.server?,
            tool: event.tool?,
        },
        EventKind::Progress => TurnEvent::Progress {
            call,
            data: event.data?,
        },
        EventKind::CallEnded => TurnEvent::CallEnded {
            call,
            code: event.code,
            elapsed: Duration::from_millis(event.elapsed_ms?),
        },
    })
}

#[cfg(test)]
mod tests;
