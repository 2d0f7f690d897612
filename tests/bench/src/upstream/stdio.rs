//! The echo server over a pipe: one JSON message a line, blocking, no runtime.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd as _;

use super::{Echo, Reply};

/// How much is read from the pipe at once: what a pipe holds.
const BUFFER: usize = 64 * 1024;

/// Answers on stdout what comes on stdin, until stdin ends.
///
/// # Errors
/// Either end of the pipe fails.
pub(crate) fn run(tools: usize) -> io::Result<()> {
    // The descriptors themselves: the standard library's own handles flush at every line.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    converse(
        &Echo::new(tools),
        BufReader::with_capacity(BUFFER, input),
        output,
    )
}

/// Answers line by line, and writes whenever no whole line is left to read.
fn converse(
    echo: &Echo,
    mut input: BufReader<impl io::Read>,
    mut output: impl Write,
) -> io::Result<()> {
    let (mut line, mut answers) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line)? > 0 {
        match echo.answer(&line) {
            Reply::Answer(body) | Reply::UnknownMethod(body) | Reply::Malformed(body) => {
                body.iter().for_each(|part| answers.extend_from_slice(part));
                answers.push(b'\n');
            }
            Reply::None => {}
        }
        line.clear();
        if !input.buffer().contains(&b'\n') {
            output.write_all(&answers)?;
            answers.clear();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_gets_one_line_in_order() {
        let input = "{\"id\":1,\"method\":\"ping\"}\n{\"method\":\"notifications/x\"}\n{\"id\":2,\"method\":\"ping\"}\n";

        let mut output = Vec::new();
        converse(&Echo::new(2), BufReader::new(input.as_bytes()), &mut output).unwrap();

        let expected = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n";
        assert_eq!(String::from_utf8(output).unwrap(), expected);
    }
}
