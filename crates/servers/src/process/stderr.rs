//! [`LogRing`]: the last lines that a server wrote to its standard error, private values masked.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use genlock_mcp::lines::{Line, LineReader};
use parking_lot::Mutex;
use tokio::{io::AsyncRead, time::sleep};
use tokio_util::sync::CancellationToken;

use super::masks::Masks;

/// How many lines are kept.
const LINES: usize = 200;
/// The longest line that is kept, in bytes.
const LONGEST: usize = 4 * 1024;
/// How long the last words of a server are read after it has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The last lines of a server's standard error. A clone shares them.
#[derive(Clone)]
pub(crate) struct LogRing {
    lines: Arc<Mutex<VecDeque<String>>>,
    masks: Arc<Masks>,
}

impl LogRing {
    /// Begins an empty ring that masks these values.
    pub(crate) fn new(private: impl IntoIterator<Item = String>) -> Self {
        Self {
            lines: Arc::default(),
            masks: Arc::new(Masks::new(private)),
        }
    }

    /// Returns the lines, oldest first.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().iter().cloned().collect()
    }

    /// Reads until the server closes its standard error. It is read whatever it writes: a full pipe would stop it. Something
    /// that it started may hold the pipe open for longer, so this ends a moment after the server is `gone` as well.
    pub(crate) async fn drain<R: AsyncRead + Unpin>(self, stderr: R, gone: CancellationToken) {
        let mut reader = LineReader::new(stderr, LONGEST);
        let end = async {
            gone.cancelled().await;
            sleep(LAST_WORDS).await;
        };
        tokio::pin!(end);
        loop {
            let line = tokio::select! {
                biased;
                line = reader.next() => line,
                () = &mut end => return,
            };
            match line {
                Ok(Some(Line::Whole(bytes))) => self.push(&bytes, false),
                Ok(Some(Line::TooLong(head))) => self.push(&head, true),
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Keeps a line; `cut` where it went on.
    fn push(&self, line: &[u8], cut: bool) {
        let masked = self.masks.mask(line, cut);
        let text = String::from_utf8_lossy(&masked).trim_end().to_owned();
        let mut lines = self.lines.lock();
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(text);
    }
}

impl std::fmt::Debug for LogRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogRing({} lines)", self.lines.lock().len())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test]
    async fn the_newest_lines_are_kept_and_private_values_masked() {
        let ring = LogRing::new([
            "sekret-token".to_owned(),
            "sekret-token-2".to_owned(),
            "short".to_owned(),
        ]);
        let mut text: String = (0..300).map(|n| format!("line {n}\n")).collect();
        text.push_str("auth sekret-token-2 failed, short stays\n");

        ring.clone()
            .drain(text.as_bytes(), CancellationToken::new())
            .await;

        let lines = ring.lines();
        assert_eq!((lines.len(), lines[0].as_str()), (200, "line 101"));
        assert_eq!(lines[199], "auth [private] failed, short stays");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pipe_that_something_else_holds_open_is_let_go_when_the_server_is_gone() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let (ring, gone) = (LogRing::new([]), CancellationToken::new());
        tokio::io::AsyncWriteExt::write_all(&mut writer, b"last words\n")
            .await
            .unwrap();
        gone.cancel();
        let began = Instant::now();

        ring.clone().drain(reader, gone).await;

        assert_eq!(ring.lines(), ["last words"]);
        assert_eq!(began.elapsed(), Duration::from_millis(200));
    }

    #[tokio::test]
    async fn a_line_of_4_kib_is_kept_whole_and_a_longer_one_is_cut() {
        let ring = LogRing::new(["sekret-token".to_owned()]);
        let start = "x".repeat(4 * 1024 - 10);
        // The beginning of a private value is shown only where the line ends with it.
        let text = format!("{start}sekret-tok\n{start}sekret-toke\n");

        ring.clone()
            .drain(text.as_bytes(), CancellationToken::new())
            .await;

        assert_eq!(ring.lines(), [format!("{start}sekret-tok"), start]);
    }

    #[tokio::test]
    async fn an_endless_line_is_cut_and_tells_no_beginning_of_a_private_value() {
        let ring = LogRing::new(["sekret-token".to_owned()]);
        let mut text = "x".repeat(4 * 1024 - 10).into_bytes();
        text.extend(b"sekret-token");
        text.extend(b"y".repeat(1_000_000));
        // No text, and no end of the line.
        text.extend(b"\n\xff\xfe \x00 sekret-tok\xffen");

        ring.clone()
            .drain(text.as_slice(), CancellationToken::new())
            .await;

        let lines = ring.lines();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].len() <= 4 * 1024, "{}", lines[0].len());
        assert_eq!(lines[0].trim_start_matches('x'), "");
        assert_eq!(lines[1], "\u{fffd}\u{fffd} \0 sekret-tok\u{fffd}en");
    }
}
