//! A gateway by hand, that may lie.

use std::{
    io::Write as _,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use genlock_config::{Variables, parse};
use genlock_frames::{
    Adopted, Bootstrap, Decoder, Epoch, ExecutionId, ExecutionSecret, Finish, Hello, Interrupt,
    Policy, PolicySeq, PrivateValue, SelectedServer, ServerView, SessionId, ToGateway, ToWorker,
    Turn, TurnOutcome, TurnResult, VERSION, encode,
};
use genlock_testkit::harness::{Scratch, eventually, path};
use secrecy::SecretString;
use serde_json::{Value, json, value::to_raw_value};

use crate::stage::{DEADLINE, scratch, worker};

/// A worker whose gateway is the test.
pub(crate) struct Hand {
    pub(crate) scratch: Scratch,
    pub(crate) child: Child,
    pub(crate) hello: Hello,
    stdin: Option<ChildStdin>,
    frames: mpsc::Receiver<ToGateway>,
}

/// Starts a worker and takes its `hello`.
pub(crate) fn start() -> Hand {
    let scratch = scratch();
    let mut child = Command::new(worker())
        .arg("--stdio")
        .env_clear()
        .env("PATH", path())
        .env("GENLOCK_LOG", "info")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(scratch.join("worker.stderr")).unwrap())
        .spawn()
        .unwrap();
    let frames = listen(child.stdout.take().unwrap());
    let Ok(ToGateway::Hello(hello)) = frames.recv_timeout(DEADLINE) else {
        panic!("no hello: {}", scratch.read("worker.stderr"));
    };
    Hand {
        scratch,
        stdin: child.stdin.take(),
        child,
        hello,
        frames,
    }
}

/// Reads what a worker writes. Anything but frames ends the test.
pub(crate) fn listen(mut from: impl std::io::Read + Send + 'static) -> mpsc::Receiver<ToGateway> {
    let (to, frames) = mpsc::channel();
    thread::spawn(move || {
        let mut decoder = Decoder::<ToGateway>::new();
        let mut piece = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut piece) {
            decoder.push(&piece[..read]);
            while let Some(frame) = decoder.next().expect("a worker writes frames only") {
                if to.send(frame).is_err() {
                    return;
                }
            }
        }
        decoder.end().expect("a worker ends between frames");
    });
    frames
}

/// A bootstrap for the process of a `hello`: a session with these servers, of which those that are named are selected.
pub(crate) fn bootstrap(hello: &Hello, servers: &Value, selected: &[&str], cwd: &str) -> Bootstrap {
    bootstrap_with(hello, servers, &json!({}), selected, cwd)
}

/// The same with further sections.
fn bootstrap_with(
    hello: &Hello,
    servers: &Value,
    sections: &Value,
    selected: &[&str],
    cwd: &str,
) -> Bootstrap {
    let mut text = sections.clone();
    text["mcp_servers"] = servers.clone();
    let text = text.to_string();
    let config = parse(&text, "genlock.json".into(), &Variables::empty())
        .unwrap()
        .config;
    let (form, private) = config.split();
    let framed = |value: &genlock_config::PrivateValue| PrivateValue {
        value: value.value().cloned(),
        secrets: value.secrets().to_vec(),
    };
    Bootstrap {
        version: VERSION,
        profile_id: "default".to_owned(),
        session_id: SessionId::new("s-1").unwrap(),
        generation: 1,
        policy_seq: PolicySeq::new(1),
        pid: hello.pid,
        birth: hello.birth,
        epoch: Epoch::new(1),
        heartbeat_ms: 1_000,
        silence_ms: 600_000,
        policy: Policy {
            config: to_raw_value(&form).unwrap(),
            servers: selected
                .iter()
                .map(|name| SelectedServer {
                    name: (*name).to_owned(),
                })
                .collect(),
            cwd: cwd.to_owned(),
        },
        private: private
            .iter()
            .map(|(pointer, value)| (pointer.to_owned(), framed(value)))
            .collect(),
        revoked: Vec::new(),
    }
}

/// A worker that has taken this session, all servers selected.
pub(crate) fn session(servers: &Value) -> Hand {
    session_with(servers, &json!({}))
}

/// The same with further sections in its config.
pub(crate) fn session_with(servers: &Value, sections: &Value) -> Hand {
    let mut hand = start();
    let cwd = hand.scratch.path().to_str().unwrap().to_owned();
    let names: Vec<_> = servers
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let bootstrap = bootstrap_with(&hand.hello, servers, sections, &names, &cwd);
    hand.send(ToWorker::Bootstrap(Box::new(bootstrap)));
    assert!(matches!(hand.next(), ToGateway::Ready(_)));
    hand
}

pub(crate) fn id(text: &str) -> ExecutionId {
    ExecutionId::new(text).unwrap()
}

impl Hand {
    pub(crate) fn send(&mut self, frame: ToWorker) {
        self.raw(&encode(&frame, 1).unwrap().concat());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        // A worker that has ended already is as good as told.
        let _ = self.stdin.as_mut().unwrap().write_all(bytes);
    }

    /// Closes the worker's input, as a gateway that dies does.
    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// The next frame, heartbeats and news of servers left out.
    pub(crate) fn next(&mut self) -> ToGateway {
        loop {
            match self.any() {
                ToGateway::Heartbeat(_) | ToGateway::Servers(_) => {}
                frame => return frame,
            }
        }
    }

    /// The next frame.
    pub(crate) fn any(&mut self) -> ToGateway {
        let frame = self.frames.recv_timeout(DEADLINE);
        frame.unwrap_or_else(|error| panic!("{error}: {}", self.stderr()))
    }

    /// Waits for news of servers that satisfy the test.
    pub(crate) fn servers(&mut self, wanted: impl Fn(&[ServerView]) -> bool) -> Vec<ServerView> {
        loop {
            if let ToGateway::Servers(changed) = self.any()
                && wanted(&changed.servers)
            {
                return changed.servers;
            }
        }
    }

    /// Orders a turn and has it adopted.
    pub(crate) fn begin(&mut self, execution: &str, payload: &Value, deadline_ms: Option<u64>) {
        self.order(execution, payload, deadline_ms);
        match self.next() {
            ToGateway::Adopt(adopt) => {
                assert_eq!(adopt.secret.expose(), format!("secret of {execution}"));
            }
            other => panic!("{other:?}"),
        }
        let execution_id = id(execution);
        self.send(ToWorker::Adopted(Adopted { execution_id }));
    }

    pub(crate) fn order(&mut self, execution: &str, payload: &Value, deadline_ms: Option<u64>) {
        self.send(ToWorker::Turn(Turn {
            execution_id: id(execution),
            secret: ExecutionSecret::new(SecretString::from(format!("secret of {execution}"))),
            epoch: Epoch::new(1),
            payload: to_raw_value(payload).unwrap(),
            deadline_ms,
        }));
    }

    pub(crate) fn interrupt(&mut self, execution: &str) {
        let execution_id = id(execution);
        self.send(ToWorker::Interrupt(Interrupt { execution_id }));
    }

    /// Waits for the result, events left out.
    pub(crate) fn result(&mut self) -> TurnResult {
        loop {
            match self.next() {
                ToGateway::Result(result) => return result,
                ToGateway::Event(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) fn finish(&mut self, execution: &str) {
        let execution_id = id(execution);
        self.send(ToWorker::Finish(Finish { execution_id }));
        assert!(matches!(self.next(), ToGateway::Finished(_)));
    }

    /// Runs calls one after the other, and gives what they led to.
    pub(crate) fn calls(&mut self, execution: &str, calls: &Value) -> Value {
        self.begin(execution, &json!({"calls": calls}), None);
        let result = self.result();
        assert_eq!(result.outcome, TurnOutcome::Completed);
        self.finish(execution);
        results(&result)
    }

    pub(crate) fn wait_exit(&mut self) -> ExitStatus {
        eventually(DEADLINE, "the worker ends", || {
            self.child.try_wait().unwrap()
        })
    }

    pub(crate) fn stderr(&self) -> String {
        self.scratch.read("worker.stderr")
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.stdin = None;
        let until = std::time::Instant::now() + Duration::from_secs(15);
        while std::time::Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::yield_now();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The list of results in a turn's result.
pub(crate) fn results(result: &TurnResult) -> Value {
    let raw = result.result.as_ref().expect("a result");
    serde_json::from_str::<Value>(raw.get()).unwrap()["results"].clone()
}

/// The text of a call's result, or the code of its error.
pub(crate) fn text(result: &Value) -> &str {
    let text = result["result"]["content"][0]["text"].as_str();
    text.or(result["error"]["code"].as_str())
        .unwrap_or_else(|| panic!("{result}"))
}

/// The text or code of each.
pub(crate) fn texts(results: &Value) -> Vec<&str> {
    results.as_array().unwrap().iter().map(text).collect()
}
