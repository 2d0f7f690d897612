//! One client of the control socket.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// A connection to the control socket.
pub(crate) struct Control {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
    next_id: u64,
}

// === impl Control ===

impl Control {
    /// Connects to a gateway's socket.
    ///
    /// # Errors
    /// Nobody listens there.
    pub(crate) async fn open(socket: &Path) -> anyhow::Result<Self> {
        let (reader, writer) = UnixStream::connect(socket).await?.into_split();
        Ok(Self {
            lines: BufReader::new(reader).lines(),
            writer,
            next_id: 1,
        })
    }

    /// Calls a method and returns its result.
    ///
    /// # Errors
    /// It is refused, or the connection ends.
    pub(crate) async fn ask(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.writer
            .write_all(format!("{request}\n").as_bytes())
            .await?;
        let line = self
            .lines
            .next_line()
            .await?
            .context("the connection ended")?;
        let mut answer: Value = serde_json::from_str(&line)?;
        ensure!(answer["id"] == id, "{method}: {answer}");
        let result = answer["result"].take();
        ensure!(!result.is_null(), "{method}: {answer}");
        Ok(result)
    }
}
