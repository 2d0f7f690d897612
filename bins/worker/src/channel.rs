//! The pipe or socket to the gateway: frames in, frames out.

use std::{io, os::fd::OwnedFd, path::Path};

use genlock_frames::{Decoder, FrameError, ToGateway, ToWorker, encode};
use rustix::io::fcntl_dupfd_cloexec;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{
        UnixStream,
        unix::pipe::{Receiver, Sender},
    },
    sync::mpsc,
};
use tokio_util::task::TaskTracker;

/// How many frames wait in each direction. A full channel makes who fills it wait.
const FRAMES: usize = 64;
/// How many bytes are read at once.
const PIECE: usize = 64 * 1024;

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// What comes from the gateway.
pub(crate) enum Received {
    /// A frame.
    Frame(ToWorker),
    /// Something that is none; nothing follows.
    Bad(FrameError),
    /// The gateway is gone; nothing follows.
    Gone,
}

/// Both directions.
pub(crate) struct Channel {
    pub(crate) received: mpsc::Receiver<Received>,
    pub(crate) sent: mpsc::Sender<ToGateway>,
    pub(crate) tasks: TaskTracker,
}

/// Takes standard input and output for the frames. From here on, whatever is printed goes to standard error.
pub(crate) fn stdio() -> io::Result<(Reader, Writer)> {
    let input = fcntl_dupfd_cloexec(std::io::stdin(), 3)?;
    let output = fcntl_dupfd_cloexec(std::io::stdout(), 3)?;
    rustix::stdio::dup2_stdout(std::io::stderr())?;
    let reader: Reader = match Receiver::from_owned_fd(input.try_clone()?) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(file(input)),
    };
    let writer: Writer = match Sender::from_owned_fd(output.try_clone()?) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(file(output)),
    };
    Ok((reader, writer))
}

fn file(fd: OwnedFd) -> tokio::fs::File {
    tokio::fs::File::from_std(fd.into())
}

/// Dials in to a gateway.
pub(crate) async fn dial(path: &Path) -> io::Result<(Reader, Writer)> {
    let (reader, writer) = UnixStream::connect(path).await?.into_split();
    Ok((Box::new(reader), Box::new(writer)))
}

/// Begins to read and to write.
pub(crate) fn open(reader: Reader, writer: Writer) -> Channel {
    let tasks = TaskTracker::new();
    let (sender, received) = mpsc::channel(FRAMES);
    let (sent, to_write) = mpsc::channel(FRAMES);
    tasks.spawn(read(reader, sender));
    tasks.spawn(write(writer, to_write));
    Channel {
        received,
        sent,
        tasks,
    }
}

async fn read(mut reader: Reader, to: mpsc::Sender<Received>) {
    let mut decoder = Decoder::<ToWorker>::new();
    let mut piece = vec![0; PIECE];
    loop {
        loop {
            let received = match decoder.next() {
                Ok(None) => break,
                Ok(Some(frame)) => Received::Frame(frame),
                Err(error) => {
                    let _ = to.send(Received::Bad(error)).await;
                    return;
                }
            };
            if to.send(received).await.is_err() {
                return;
            }
        }
        match reader.read(&mut piece).await {
            Ok(0) | Err(_) => {
                let _ = to.send(Received::Gone).await;
                return;
            }
            Ok(read) => decoder.push(&piece[..read]),
        }
    }
}

/// Writes until nobody sends any more, or the gateway is gone; the reader notices that as well.
async fn write(mut writer: Writer, mut frames: mpsc::Receiver<ToGateway>) {
    let mut stream = 0;
    while let Some(frame) = frames.recv().await {
        let lines = match encode(&frame, stream) {
            Ok(lines) => lines,
            Err(error) => {
                // Whoever makes frames keeps them below the bound.
                tracing::error!(%error, "a frame was not sent");
                return;
            }
        };
        stream += 1;
        for line in lines {
            if writer.write_all(&line).await.is_err() {
                return;
            }
        }
        if writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}
