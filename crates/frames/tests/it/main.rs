//! Frames as they go over the pipe.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do"
)]

mod codec;
mod compatible;
mod schema;

use genlock_frames::{Decoder, Frame, FrameError, ToGateway, ToWorker, VERSION, encode};

/// Every frame of version 1 as it was written when that version was made: they must be read for good.
const V1: &str = include_str!("../vectors/v1.jsonl");
/// What version 2 added, in the same way.
const V2: &str = include_str!("../vectors/v2.jsonl");

/// The lines of all versions.
fn lines() -> impl Iterator<Item = &'static str> {
    V1.lines().chain(V2.lines())
}

/// A line of an earlier version as this one writes it: only the number differs.
fn of_now(line: &str) -> String {
    line.replacen("{\"v\":1,", &format!("{{\"v\":{VERSION},"), 1)
}

/// A frame of either side.
#[derive(Debug)]
enum Any {
    ToWorker(ToWorker),
    ToGateway(ToGateway),
}

impl Any {
    /// Reads a line for the side that knows its tag; `heartbeat` is the same in both.
    fn read(line: &str) -> Result<Self, FrameError> {
        match one::<ToGateway>(line) {
            Err(FrameError::UnknownTag { .. }) => one(line).map(Self::ToWorker),
            other => other.map(Self::ToGateway),
        }
    }

    fn write(&self) -> Vec<Vec<u8>> {
        match self {
            Self::ToWorker(frame) => encode(frame, 0),
            Self::ToGateway(frame) => encode(frame, 0),
        }
        .unwrap()
    }
}

/// Reads one line.
fn one<F: Frame>(line: &str) -> Result<F, FrameError> {
    let mut decoder = Decoder::<F>::new();
    decoder.push(line.as_bytes());
    decoder.push(b"\n");
    let frame = decoder.next()?;
    decoder.end()?;
    Ok(frame.expect("a line is a frame"))
}
