//! JSON-RPC over a Unix socket, one message per line: the control socket.

use std::{
    io,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use tokio::{
    io::AsyncWriteExt as _,
    net::{UnixStream, unix::OwnedWriteHalf},
    sync::Mutex,
    task::JoinSet,
};

use super::{
    answer::Answer,
    message,
    stdio::{find_answer, read_lines},
    transcript::Transcript,
};

/// A connection, closed when this is dropped.
#[derive(Debug)]
pub struct ControlClient {
    writer: Mutex<OwnedWriteHalf>,
    transcript: Transcript,
    next_id: AtomicU64,
    _reader: JoinSet<()>,
}

// === impl ControlClient ===

impl ControlClient {
    /// Connects to a socket.
    ///
    /// # Errors
    /// Where nobody listens, or the caller may not connect.
    pub async fn connect(path: &Path) -> io::Result<Self> {
        let (reader, writer) = UnixStream::connect(path).await?.into_split();
        let transcript = Transcript::default();
        let mut readers = JoinSet::new();
        readers.spawn(read_lines(reader, transcript.clone()));
        Ok(Self {
            writer: Mutex::new(writer),
            transcript,
            next_id: AtomicU64::new(0),
            _reader: readers,
        })
    }

    /// Everything that came so far, notifications included.
    #[must_use]
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Sends a request and waits for its answer; `params` is a JSON object.
    ///
    /// # Panics
    /// Where the connection ends or the deadline passes first.
    pub async fn request(&self, method: &str, params: &str) -> Answer {
        let id = self.start(method, params).await;
        self.answer(&id).await
    }

    /// Sends a request and gives its id.
    pub async fn start(&self, method: &str, params: &str) -> String {
        let id = (self.next_id.fetch_add(1, Ordering::Relaxed) + 1).to_string();
        self.send_line(&message(Some(&id), method, params)).await;
        id
    }

    /// Waits for the answer to a request that was started.
    ///
    /// # Panics
    /// Where the connection ends or the deadline passes first.
    pub async fn answer(&self, id: &str) -> Answer {
        let answer = find_answer(&self.transcript, id).await;
        answer.unwrap_or_else(|| panic!("no answer to {id}: {:#?}", self.transcript.messages()))
    }

    /// Writes a line, whatever it is. A peer that no longer reads is no failure here.
    pub async fn send_line(&self, line: &str) {
        let _ = self
            .writer
            .lock()
            .await
            .write_all(format!("{line}\n").as_bytes())
            .await;
    }
}
