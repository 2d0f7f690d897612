//! What the gateway and a keeper tell each other over their socket.
//!
//! The gateway sends one [`Order`] with the server's standard descriptors, then at most [`TERMINATE`]; that it closes the
//! socket, or dies, is the order to end everything. The keeper answers with [`Message`]s.

use std::{
    io::{self, IoSlice, IoSliceMut, Read as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

/// Asks the keeper to send SIGTERM to the server's group.
pub(crate) const TERMINATE: u8 = b'T';
/// How many bytes a message takes.
pub(crate) const MESSAGE: usize = 6;
/// The longest order that is read, in bytes: beyond what the kernel lets a program be started with.
const LONGEST: u32 = 64 * 1024 * 1024;

/// What a keeper is to do. Holds private values, so it has no `Debug`.
#[derive(Serialize, Deserialize)]
pub(crate) enum Order {
    /// Try a namespace, say what came of it, and end.
    Probe,
    /// Run a server.
    Run(Program),
}

/// How a server is started. Forgotten without a trace when dropped.
#[derive(Serialize, Deserialize)]
pub(crate) struct Program {
    /// Where the program is.
    pub(crate) path: String,
    /// Its arguments.
    pub(crate) args: Vec<String>,
    /// All of its environment.
    pub(crate) environment: Vec<(String, String)>,
    /// The directory it runs in; the gateway's without.
    pub(crate) cwd: Option<String>,
    /// Whether it gets namespaces of its own.
    pub(crate) namespace: bool,
    /// What it must not see, where it has a namespace.
    pub(crate) hidden: Vec<String>,
}

/// What a keeper tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// The server's process exists. It sends this itself, so that the kernel says its pid.
    Born,
    /// The server's program runs.
    Running,
    /// It does not.
    Failed(Stage, i32),
    /// The server ended, with this status as `wait` gives it.
    Ended(i32),
    /// A namespace can be had; with a `/proc` of its own or not.
    Possible {
        /// Whether it has a `/proc` of its own.
        proc: bool,
    },
}

/// What a keeper was doing when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Making itself ready.
    Prepare,
    /// Making the namespaces.
    Namespace,
    /// Mapping the ids into the user namespace.
    Ids,
    /// Hiding what the server must not see.
    Hide,
    /// Changing into the directory.
    Directory,
    /// Starting the program.
    Execute,
}

const STAGES: [Stage; 6] = [
    Stage::Prepare,
    Stage::Namespace,
    Stage::Ids,
    Stage::Hide,
    Stage::Directory,
    Stage::Execute,
];

// === impl Program ===

impl Drop for Program {
    fn drop(&mut self) {
        self.path.zeroize();
        self.args.zeroize();
        for (_, value) in &mut self.environment {
            value.zeroize();
        }
    }
}

// === impl Stage ===

impl Stage {
    /// Says what was being done, to go on with `: why`.
    pub(crate) fn doing(self) -> &'static str {
        match self {
            Self::Prepare => "prepare the keeper",
            Self::Namespace => "make user, mount and PID namespaces",
            Self::Ids => "map the ids into a user namespace",
            Self::Hide => "hide the state directory and the config",
            Self::Directory => "change the directory",
            Self::Execute => "execute the program",
        }
    }
}

// === impl Message ===

impl Message {
    /// Returns the bytes of the message.
    pub(crate) fn encode(self) -> [u8; MESSAGE] {
        let (tag, stage, value) = match self {
            Self::Born => (b'B', 0, 0),
            Self::Running => (b'R', 0, 0),
            Self::Failed(stage, errno) => (b'F', stage as u8, errno),
            Self::Ended(status) => (b'E', 0, status),
            Self::Possible { proc } => (b'P', u8::from(proc), 0),
        };
        let [a, b, c, d] = value.to_be_bytes();
        [tag, stage, a, b, c, d]
    }

    /// Reads a message; `None` where it is none.
    pub(crate) fn decode([tag, stage, a, b, c, d]: [u8; MESSAGE]) -> Option<Self> {
        let value = i32::from_be_bytes([a, b, c, d]);
        match tag {
            b'B' => Some(Self::Born),
            b'R' => Some(Self::Running),
            b'F' => Some(Self::Failed(*STAGES.get(usize::from(stage))?, value)),
            b'E' => Some(Self::Ended(value)),
            b'P' => Some(Self::Possible { proc: stage != 0 }),
            _ => None,
        }
    }

    /// Sends the message.
    pub(super) fn send(self, socket: impl AsFd) -> io::Result<()> {
        // One write of a few bytes is not split. A gateway that is gone must not end this process by a signal.
        rustix::net::send(socket, &self.encode(), SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// Writes an order down: its length, then itself. The bytes hold private values.
pub(crate) fn encode(order: &Order) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; 4]);
    serde_json::to_writer(&mut *bytes, order)?;
    let length = u32::try_from(bytes.len() - 4).ok();
    let length = length.filter(|length| *length <= LONGEST);
    let length = length.ok_or(io::ErrorKind::ArgumentListTooLong)?;
    for (place, byte) in bytes.iter_mut().zip(length.to_be_bytes()) {
        *place = byte;
    }
    Ok(bytes)
}

/// Sends the beginning of an order with the descriptors; returns how many bytes of it went.
pub(crate) fn send_first(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let slices = [IoSlice::new(bytes)];
    Ok(sendmsg(socket, &slices, &mut control, SendFlags::NOSIGNAL)?)
}

/// Reads an order and the descriptors that came with it.
pub(super) fn receive(socket: &mut UnixStream) -> io::Result<(Order, Vec<OwnedFd>)> {
    let mut length = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let slices = &mut [IoSliceMut::new(&mut length)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    if recvmsg(&*socket, slices, &mut control, flags)?.bytes != length.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(found) = message {
            descriptors.extend(found);
        }
    }
    let length = u32::from_be_bytes(length);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let length = usize::try_from(length).map_err(io::Error::other)?;
    let mut bytes = Zeroizing::new(vec![0; length]);
    socket.read_exact(&mut bytes)?;
    Ok((serde_json::from_slice(&bytes)?, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_read_as_it_was_written() {
        let mut messages = vec![
            Message::Born,
            Message::Running,
            Message::Ended(-7),
            Message::Ended(256),
            Message::Possible { proc: true },
            Message::Possible { proc: false },
        ];
        messages.extend(STAGES.map(|stage| Message::Failed(stage, 13)));

        for message in messages {
            assert_eq!(Message::decode(message.encode()), Some(message));
        }
        assert_eq!(Message::decode(*b"x\0\0\0\0\0"), None);
        assert_eq!(Message::decode(*b"F\x06\0\0\0\0"), None);
    }

    #[test]
    fn an_order_travels_with_its_descriptors() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let order = Order::Run(Program {
            path: "/bin/server".to_owned(),
            args: vec!["a b".to_owned(), "ü\n".to_owned()],
            environment: vec![("K".to_owned(), "v=1".to_owned())],
            cwd: None,
            namespace: true,
            hidden: vec!["/state".to_owned()],
        });
        let bytes = encode(&order).unwrap();

        let sent = send_first(&ours, &bytes, &[ours.as_fd(), theirs.as_fd()]).unwrap();
        let (read, descriptors) = receive(&mut theirs).unwrap();

        assert_eq!((sent, descriptors.len()), (bytes.len(), 2));
        assert_eq!(
            serde_json::to_string(&read).unwrap(),
            serde_json::to_string(&order).unwrap()
        );
    }
}
