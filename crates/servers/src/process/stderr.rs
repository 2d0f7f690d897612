//! [`LogRing`]: the last lines that a server wrote to its standard error, private values masked.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use genlock_mcp::lines::{Line, LineReader};
use parking_lot::Mutex;
use tokio::{io::AsyncRead, time::sleep};
use tokio_util::sync::CancellationToken;

/// How many lines are kept.
const LINES: usize = 200;
/// The longest line that is kept, in bytes.
const LONGEST: usize = 4 * 1024;
/// How long the last words of a server are read after it has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// What stands in the place of a private value.
const MASK: &str = "[private]";
/// Values shorter than this are too common to be masked, in bytes.
const SHORTEST: usize = 8;

/// The last lines of a server's standard error. A clone shares them.
#[derive(Clone, Default)]
pub(crate) struct LogRing {
    lines: Arc<Mutex<VecDeque<String>>>,
    private: Arc<[String]>,
}

impl LogRing {
    /// Begins an empty ring that masks these values.
    pub(crate) fn new(private: impl IntoIterator<Item = String>) -> Self {
        let mut private: Vec<_> = private
            .into_iter()
            .filter(|value| value.len() >= SHORTEST)
            .collect();
        // A value that contains another must go first, or its rest would stay.
        private.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self {
            lines: Arc::default(),
            private: private.into(),
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
                Ok(Some(Line::Whole(bytes))) => self.push(&bytes),
                Ok(Some(Line::TooLong(head))) => self.push(&head),
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn push(&self, line: &[u8]) {
        let mut text = String::from_utf8_lossy(line).trim_end().to_owned();
        for value in self.private.iter() {
            text = text.replace(value.as_str(), MASK);
        }
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
        assert_eq!((lines.len(), lines[0].as_str()), (LINES, "line 101"));
        assert_eq!(lines[LINES - 1], "auth [private] failed, short stays");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pipe_that_something_else_holds_open_is_let_go_when_the_server_is_gone() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let (ring, gone) = (LogRing::new([]), CancellationToken::new());
        tokio::io::AsyncWriteExt::write_all(
            &mut writer,
            b"last words
",
        )
        .await
        .unwrap();
        gone.cancel();

        ring.clone().drain(reader, gone).await;

        assert_eq!(ring.lines(), ["last words"]);
    }

    #[tokio::test]
    async fn an_endless_line_is_cut() {
        let ring = LogRing::new([]);
        ring.clone()
            .drain("x".repeat(1_000_000).as_bytes(), CancellationToken::new())
            .await;
        assert!(ring.lines()[0].len() <= LONGEST);
    }
}
