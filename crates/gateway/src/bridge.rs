//! The bridge of `genlock serve --stdio`: one client on standard input and output, and whichever gateway serves it.
//!
//! The gateway may go away while the client stays: it belonged to another window, or was restarted. The bridge then asks
//! for another one, repeats the client's handshake there, and answers what was in flight with `outcome_unknown`. The
//! client sees errors for those calls and nothing else.

use std::collections::HashSet;

use bytes::Bytes;
use genlock_mcp::{
    Message, Notification, RawJson, RawObject, Request, RequestId, Response, RpcError, Wire,
    error::code,
    lines::{Line, LineReader},
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// The longest message on the pipe, in bytes; the gateway behind it has its own, lower limits.
const LONGEST_LINE: usize = 1024 * 1024 * 1024;

/// The two directions of a connection to a gateway.
pub struct Backend {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Backend {
    /// Takes the two directions.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            reader: Box::new(reader),
            writer: Box::new(writer),
        }
    }
}

/// Serves a client until it closes its input and all its requests are answered. `connect` finds a gateway, and another
/// one whenever that goes away; its error ends the bridge.
///
/// # Errors
/// Where no gateway can be found any more.
///
/// # Cancel safety
/// A dropped bridge drops its gateway connection, which cancels what is in flight.
pub async fn bridge<R, W, E>(
    reader: R,
    writer: W,
    mut connect: impl AsyncFnMut() -> Result<Backend, E>,
) -> Result<(), E>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut bridge = Bridge {
        client: LineReader::new(reader, LONGEST_LINE),
        writer,
        initialize: None,
        initialized: false,
        in_flight: HashSet::new(),
        client_done: false,
        unsent: None,
    };
    let mut first = true;
    loop {
        let backend = connect().await?;
        match bridge.run(backend, !first).await {
            Ended::Client => return Ok(()),
            Ended::Gateway => {
                let done = bridge.client_done && bridge.unsent.is_none();
                if bridge.fail_in_flight().await.is_err() || done {
                    return Ok(());
                }
            }
        }
        first = false;
    }
}

struct Bridge<R, W> {
    client: LineReader<R>,
    writer: W,
    /// The client's handshake, to be repeated.
    initialize: Option<Request>,
    initialized: bool,
    in_flight: HashSet<RequestId>,
    client_done: bool,
    /// A line that no gateway has read.
    unsent: Option<Bytes>,
}

enum Ended {
    Client,
    Gateway,
}

/// The id of the repeated handshake, whose answer the client must not see.
const REPEATED: &str = "\"genlock-bridge-handshake\"";

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Bridge<R, W> {
    async fn run(&mut self, backend: Backend, repeat: bool) -> Ended {
        let Backend { reader, mut writer } = backend;
        let mut gateway = LineReader::new(reader, LONGEST_LINE);
        if repeat && self.repeat_handshake(&mut writer).await.is_err() {
            return Ended::Gateway;
        }
        let mut open = Some(writer);
        if let Some(line) = self.unsent.take()
            && !self.forward(line, &mut open).await
        {
            return Ended::Gateway;
        }
        loop {
            tokio::select! {
                // The end of the gateway is seen before another line is given to it.
                biased;
                line = gateway.next() => match line {
                    Ok(Some(Line::Whole(line))) => {
                        if self.deliver(line).await.is_err() {
                            return Ended::Client;
                        }
                    }
                    Ok(Some(Line::TooLong(_))) => {}
                    Ok(None) | Err(_) if self.client_done => return Ended::Client,
                    Ok(None) | Err(_) => return Ended::Gateway,
                },
                line = self.client.next(), if !self.client_done => match line {
                    Ok(Some(Line::Whole(line))) => {
                        if !self.forward(line, &mut open).await {
                            return Ended::Gateway;
                        }
                    }
                    Ok(Some(Line::TooLong(_))) => {}
                    Ok(None) | Err(_) => {
                        self.client_done = true;
                        // The gateway answers what it has and closes its side. Dropping would not tell it: the other
                        // half may hold the connection open.
                        if let Some(mut writer) = open.take() {
                            let _ = writer.shutdown().await;
                        }
                    }
                },
            }
        }
    }

    /// Gives a line of the client to the gateway. One that could not be written was read by nobody: it is kept for the next
    /// gateway.
    async fn forward(
        &mut self,
        line: Bytes,
        open: &mut Option<Box<dyn AsyncWrite + Send + Unpin>>,
    ) -> bool {
        let written = match open {
            Some(writer) => write_line(writer, &line).await.is_ok(),
            None => false,
        };
        if written {
            self.note(&line);
        } else {
            self.unsent = Some(line);
        }
        written
    }

    /// Remembers of a client's message what another gateway would have to know.
    fn note(&mut self, line: &Bytes) {
        match Message::parse(line.clone()) {
            Ok(Message::Request(request)) => {
                self.in_flight.insert(request.id.detached());
                if request.method == "initialize" {
                    self.initialize = Some(request);
                }
            }
            Ok(Message::Notification(notification)) => match notification.method.as_str() {
                "notifications/initialized" => self.initialized = true,
                "notifications/cancelled" => {
                    if let Some(id) = notification.params.get("requestId") {
                        self.in_flight.remove(id);
                    }
                }
                _ => {}
            },
            // The gateway says what is wrong with it.
            Ok(Message::Response(_)) | Err(_) => {}
        }
    }

    async fn deliver(&mut self, line: Bytes) -> std::io::Result<()> {
        if let Ok(Message::Response(response)) = Message::parse(line.clone()) {
            if response.id.as_bytes() == REPEATED.as_bytes() {
                return Ok(());
            }
            self.in_flight.remove(&response.id);
        }
        write_line(&mut self.writer, &line).await
    }

    async fn repeat_handshake(
        &self,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> std::io::Result<()> {
        let Some(initialize) = &self.initialize else {
            return Ok(());
        };
        let id = RawJson::encode(&REPEATED.trim_matches('"'));
        let again = Request {
            id,
            ..initialize.clone()
        };
        write_wire(writer, again.to_wire()).await?;
        if self.initialized {
            let initialized = Notification::new("notifications/initialized", RawObject::default());
            write_wire(writer, initialized.to_wire()).await?;
        }
        Ok(())
    }

    /// Answers what the gateway that went away left unanswered, and tells the client to look at its tools anew.
    async fn fail_in_flight(&mut self) -> std::io::Result<()> {
        let error = RpcError::new(
            code::GATEWAY,
            "the gateway went away before it answered; the call may have run",
        )
        .with_data(&serde_json::json!({"reason": "outcome_unknown"}));
        for id in std::mem::take(&mut self.in_flight) {
            write_wire(&mut self.writer, Response::error(id, &error).to_wire()).await?;
        }
        if self.initialized {
            let changed =
                Notification::new("notifications/tools/list_changed", RawObject::default());
            write_wire(&mut self.writer, changed.to_wire()).await?;
        }
        Ok(())
    }
}

async fn write_line(writer: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> std::io::Result<()> {
    writer.write_all(line).await?;
    writer.write_all(b"\n").await?;
    writer.flush().await
}

async fn write_wire(writer: &mut (impl AsyncWrite + Unpin), wire: Wire) -> std::io::Result<()> {
    for part in wire.into_line() {
        writer.write_all(&part).await?;
    }
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, ReadHalf, duplex, split};

    use super::*;

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;

    async fn line(reader: &mut BufReader<ReadHalf<DuplexStream>>) -> String {
        let mut text = String::new();
        reader.read_line(&mut text).await.unwrap();
        text.trim_end().to_owned()
    }

    #[tokio::test]
    async fn a_client_that_closes_its_input_gets_its_answers_and_ends_the_bridge() {
        let (client, ours) = duplex(4096);
        let (our_reader, our_writer) = split(ours);
        let (near, far) = duplex(4096);
        let mut gateways = vec![near];
        let bridging = bridge(our_reader, our_writer, async || {
            let (reader, writer) = split(gateways.pop().ok_or(())?);
            Ok::<_, ()>(Backend::new(reader, writer))
        });
        let playing = async move {
            let (client_reader, mut client_writer) = split(client);
            let (far_reader, mut far_writer) = split(far);
            let (mut client_reader, mut far_reader) =
                (BufReader::new(client_reader), BufReader::new(far_reader));
            let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#;
            client_writer
                .write_all(format!("{call}\n").as_bytes())
                .await
                .unwrap();
            client_writer.shutdown().await.unwrap();
            assert_eq!(line(&mut far_reader).await, call);
            // The end of the client's input has come through.
            assert_eq!(line(&mut far_reader).await, "");

            let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
            far_writer
                .write_all(format!("{answer}\n").as_bytes())
                .await
                .unwrap();
            far_writer.shutdown().await.unwrap();

            assert_eq!(line(&mut client_reader).await, answer);
        };
        let (ended, ()) = tokio::join!(bridging, playing);
        assert_eq!(ended, Ok(()));
    }

    #[tokio::test]
    async fn a_client_outlives_its_gateway() {
        let (client, ours) = duplex(4096);
        let (our_reader, our_writer) = split(ours);
        let (first, first_far) = duplex(4096);
        let (second, second_far) = duplex(4096);
        let mut gateways = vec![second, first];
        let bridging = bridge(our_reader, our_writer, async || {
            let (reader, writer) = split(gateways.pop().ok_or(())?);
            Ok::<_, ()>(Backend::new(reader, writer))
        });
        let playing = async move {
            let (client_reader, mut client_writer) = split(client);
            let mut client_reader = BufReader::new(client_reader);
            let (far_reader, far_writer) = split(first_far);
            let mut far_reader = BufReader::new(far_reader);
            let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            let call = r#"{"jsonrpc":"2.0","id":"c","method":"tools/call"}"#;
            client_writer
                .write_all(format!("{INITIALIZE}\n{initialized}\n{call}\n").as_bytes())
                .await
                .unwrap();
            assert_eq!(line(&mut far_reader).await, INITIALIZE);
            assert_eq!(line(&mut far_reader).await, initialized);
            assert_eq!(line(&mut far_reader).await, call);

            drop((far_reader, far_writer));

            let mut told = vec![
                line(&mut client_reader).await,
                line(&mut client_reader).await,
                line(&mut client_reader).await,
            ];
            told.sort();
            assert!(
                told[0].contains(r#""id":"c""#) && told[0].contains("outcome_unknown"),
                "{told:?}"
            );
            assert!(
                told[1].contains(r#""id":1"#) && told[2].contains("list_changed"),
                "{told:?}"
            );

            let (second_reader, mut second_writer) = split(second_far);
            let mut second_reader = BufReader::new(second_reader);
            let repeated = INITIALIZE.replace("\"id\":1", &format!("\"id\":{REPEATED}"));
            assert_eq!(line(&mut second_reader).await, repeated);
            assert_eq!(line(&mut second_reader).await, initialized);
            let hidden = format!("{{\"jsonrpc\":\"2.0\",\"id\":{REPEATED},\"result\":{{}}}}\n");
            let shown = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
            second_writer
                .write_all(format!("{hidden}{shown}\n").as_bytes())
                .await
                .unwrap();
            assert_eq!(line(&mut client_reader).await, shown);
        };
        let (ended, ()) = tokio::join!(bridging, playing);
        assert_eq!(ended, Ok(()));
    }
}
