//! The echo server over a pipe with habits that no server should have.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{Echo, Message, Reply};
use crate::cli::OddArgs;

/// How much is read from the pipe at once: what a pipe holds.
const BUFFER: usize = 64 * 1024;
/// What stands between a text and the number of the process that says it.
pub(crate) const STAMP: &str = " from process ";
/// The text whose answer comes behind a line that never seems to end, and that says nothing.
pub(crate) const ENDLESS: &str = "behind an endless line";
/// The text whose own answer never seems to end.
pub(crate) const ENDLESS_ANSWER: &str = "an endless answer";

/// What it does.
#[derive(Debug, Clone, Default)]
struct Habits {
    /// Says in each text which process it is.
    stamp: Option<u64>,
    /// Answers what came together in the reverse order.
    reverse: bool,
    /// Lines of garbage before each answer to a call.
    garbage: usize,
    /// Bytes of an endless line.
    endless: usize,
}

/// An answer, with the garbage before it.
struct Answer {
    message: Message,
    garbage: usize,
    /// The beginning of an endless line that comes before it.
    endless: Option<Vec<u8>>,
}

/// Answers on stdout what comes on stdin, until stdin ends.
///
/// # Errors
/// Either end of the pipe fails.
pub(crate) fn run(args: &OddArgs) -> io::Result<()> {
    wait(args.slow_while.as_ref(), Duration::from_secs(args.slow));
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let habits = Habits {
        // Not its id, which may be the same in several namespaces.
        stamp: args.stamp.then(|| RandomState::new().hash_one(())),
        reverse: args.reverse,
        garbage: args.garbage,
        endless: args.endless,
    };
    let input = BufReader::with_capacity(BUFFER, input);
    converse(&Echo::new(args.tools), &habits, input, output)
}

/// Does nothing for a while, where the file is there.
#[expect(
    clippy::disallowed_methods,
    reason = "a process of its own that has nothing else to do"
)]
fn wait(file: Option<&PathBuf>, span: Duration) {
    if file.is_some_and(|file| file.exists()) {
        thread::sleep(span);
    }
}

/// Answers what came together, and writes before anything more is read.
fn converse(
    echo: &Echo,
    habits: &Habits,
    mut input: BufReader<impl io::Read>,
    mut output: impl Write,
) -> io::Result<()> {
    let (mut line, mut answers, mut pieces) = (Vec::new(), Vec::new(), Garbage::default());
    while input.read_until(b'\n', &mut line)? > 0 {
        answers.extend(answer(echo, habits, &line));
        line.clear();
        if !input.buffer().contains(&b'\n') {
            if habits.reverse {
                answers.reverse();
            }
            for answer in answers.drain(..) {
                write(&mut output, answer, habits, &mut pieces)?;
            }
        }
    }
    Ok(())
}

/// Makes the answer to a message, if it is a request.
fn answer(echo: &Echo, habits: &Habits, line: &[u8]) -> Option<Answer> {
    let mut request: Value = serde_json::from_slice(line).unwrap_or_default();
    let is_call = request["method"] == "tools/call";
    let text = &mut request["params"]["arguments"]["text"];
    let said = text.as_str().unwrap_or_default().to_owned();
    if let (true, Some(process)) = (text.is_string(), habits.stamp) {
        *text = Value::from(format!("{said}{STAMP}{process}"));
    }
    let message = match echo.answer(request.to_string().as_bytes()) {
        Reply::Answer(message) | Reply::UnknownMethod(message) | Reply::Malformed(message) => {
            message
        }
        Reply::None => return None,
    };
    let endless = match said.as_str() {
        ENDLESS => Some(Vec::new()),
        ENDLESS_ANSWER => Some(format!(r#"{{"jsonrpc":"2.0","id":{},"#, request["id"]).into()),
        _ => None,
    };
    Some(Answer {
        message,
        garbage: if is_call { habits.garbage } else { 0 },
        endless,
    })
}

fn write(
    output: &mut impl Write,
    answer: Answer,
    habits: &Habits,
    pieces: &mut Garbage,
) -> io::Result<()> {
    for _ in 0..answer.garbage {
        output.write_all(&pieces.line())?;
    }
    if let Some(head) = answer.endless {
        output.write_all(&head)?;
        let part = vec![b'x'; BUFFER];
        for _ in 0..habits.endless / BUFFER {
            output.write_all(&part)?;
        }
        output.write_all(b"\n")?;
    }
    let mut message = answer.message.concat();
    message.push(b'\n');
    output.write_all(&message)
}

/// Lines that are no MCP: bytes by chance, and what a program prints by mistake. The same in each process.
struct Garbage {
    state: u64,
    next: usize,
}

// === impl Garbage ===

impl Default for Garbage {
    fn default() -> Self {
        Self {
            state: 0x9e37_79b9_7f4a_7c15,
            next: 0,
        }
    }
}

impl Garbage {
    /// Returns the next line.
    fn line(&mut self) -> Vec<u8> {
        let deep = ["[".repeat(10_000), "]".repeat(10_000)].concat();
        let pieces = [
            "npm warn deprecated something@1.0.0".to_owned(),
            r#"{"jsonrpc":"2.0","id":"#.to_owned(),
            "[1,2,3]".to_owned(),
            "\"a text\"".to_owned(),
            "{}".to_owned(),
            "null".to_owned(),
            "\0\0\0".to_owned(),
            "y".repeat(100_000),
            deep,
        ];
        self.next += 1;
        // By chance every other time.
        let mut line = match pieces.into_iter().nth(self.next / 2 % 9) {
            Some(piece) if self.next.is_multiple_of(2) => piece.into_bytes(),
            Some(_) | None => self.bytes(),
        };
        line.push(b'\n');
        line
    }

    /// Returns 1 to 256 bytes, of which the first is no text and none ends a line.
    fn bytes(&mut self) -> Vec<u8> {
        let length = 1 + self.chance() % 256;
        let mut bytes: Vec<u8> = (0..length)
            .map(|_| u8::try_from(self.chance() % 256).unwrap_or(0))
            .map(|byte| if byte == b'\n' { b'\r' } else { byte })
            .collect();
        if let Some(first) = bytes.first_mut() {
            *first |= 0x80;
        }
        bytes
    }

    /// A xorshift generator.
    fn chance(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(habits: &Habits, texts: &[&str]) -> Vec<u8> {
        let line = |(id, text): (usize, &&str)| {
            let params = serde_json::json!({"name": "echo", "arguments": {"text": text}});
            let call = serde_json::json!({"id": id, "method": "tools/call", "params": params});
            format!("{call}\n")
        };
        let input: String = texts.iter().enumerate().map(line).collect();
        let mut output = Vec::new();
        let input = BufReader::new(input.as_bytes());
        converse(&Echo::new(2), habits, input, &mut output).unwrap();
        output
    }

    fn texts(output: &[u8]) -> Vec<Value> {
        let lines = output.split(|byte| *byte == b'\n');
        let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        let texts = messages.map(|message| message["result"]["content"][0]["text"].clone());
        texts.filter(|text| !text.is_null()).collect()
    }

    #[test]
    fn answers_come_in_reverse_and_say_who_gave_them() {
        let habits = Habits {
            stamp: Some(7),
            reverse: true,
            ..Habits::default()
        };
        assert_eq!(
            texts(&say(&habits, &["a", "b"])),
            ["b from process 7", "a from process 7"]
        );
    }

    #[test]
    fn garbage_and_endless_lines_come_before_the_answers() {
        let habits = Habits {
            garbage: 20,
            endless: 3 * BUFFER,
            ..Habits::default()
        };
        let output = say(&habits, &["a", ENDLESS, ENDLESS_ANSWER]);

        assert_eq!(texts(&output), ["a", ENDLESS, ENDLESS_ANSWER]);
        let lines: Vec<_> = output.split(|byte| *byte == b'\n').collect();
        let endless: Vec<_> = lines
            .iter()
            .filter(|line| line.len() >= 3 * BUFFER)
            .map(|line| line[0])
            .collect();
        assert_eq!((lines.len(), endless), (3 * 21 + 2 + 1, vec![b'x', b'{']));
    }
}
