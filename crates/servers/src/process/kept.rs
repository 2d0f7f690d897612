//! The gateway's side of a keeper: it is started, told what to run, and held by a line whose end is its end.

use std::{
    io::{self, IoSliceMut, PipeReader, PipeWriter},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process::Stdio,
    time::Duration,
};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, Shutdown,
    SocketFlags, SocketType, recvmsg, shutdown, socketpair, sockopt,
};
use tokio::{
    io::unix::AsyncFd,
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{
    child::{Child, Hold, Pipes},
    keeper::{
        Keeper, NAME,
        wire::{self, MESSAGE, Message, Order, Program, Stage},
    },
    program::SpawnError,
    spawner::Spawner,
    start::Plan,
};

/// How long a keeper may take to try a namespace.
const PROBE: Duration = Duration::from_secs(5);

/// The gateway's end of the socket to a keeper.
#[derive(Debug)]
pub(super) struct Line(AsyncFd<OwnedFd>);

/// What a keeper said, and who of its processes did.
type Said = (Message, Option<u32>);

// === impl Line ===

impl Line {
    /// Starts a keeper that is called after what it is for.
    async fn open(
        keeper: &Keeper,
        name: &str,
        spawner: &Spawner,
    ) -> io::Result<(Self, tokio::process::Child)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        sockopt::set_socket_passcred(&ours, true)?;
        let mut command = Command::new(&keeper.program);
        command
            .arg0(NAME)
            .arg(name)
            .env_clear()
            .process_group(0)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = spawner.spawn(command).await?;
        Ok((Self(new_async(ours)?), process))
    }

    async fn send(&self, order: &Order, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = wire::encode(order)?;
        let mut rest = bytes.as_slice();
        let mut descriptors = descriptors;
        while !rest.is_empty() {
            let mut guard = self.0.writable().await?;
            let sent = guard.try_io(|line| wire::send_first(line, rest, descriptors));
            match sent {
                Ok(sent) => {
                    rest = rest.get(sent?..).unwrap_or_default();
                    // They went with the first byte.
                    descriptors = &[];
                }
                Err(_would_block) => {}
            }
        }
        Ok(())
    }

    /// Waits for the next message; an error where the keeper ends without one.
    async fn next(&self) -> io::Result<Said> {
        loop {
            let mut guard = self.0.readable().await?;
            match guard.try_io(|line| receive(line.as_fd())) {
                Ok(said) => return said,
                Err(_would_block) => {}
            }
        }
    }

    /// Asks for a SIGTERM to the server's group.
    pub(super) fn terminate(&self) {
        // A keeper that is gone has ended the server.
        let _ = rustix::net::send(&self.0, &[wire::TERMINATE], SendFlags::NOSIGNAL);
    }

    /// Asks for the end of everything. What was said can still be read.
    pub(super) fn hang_up(&self) {
        // An error means that the keeper is gone.
        let _ = shutdown(&self.0, Shutdown::Write);
    }

    /// Returns how the server ended, where its keeper said so before it ended itself.
    pub(super) fn last_status(&self) -> Option<i32> {
        loop {
            match receive(self.0.as_fd()) {
                Ok((Message::Ended(status), _)) => return Some(status),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "an `OwnedFd` stays the same open descriptor, which is what the successor asks for"
)]
fn new_async(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(fd)
}

fn receive(line: BorrowedFd<'_>) -> io::Result<Said> {
    let mut bytes = [0; MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let slices = &mut [IoSliceMut::new(&mut bytes)];
    let read = recvmsg(line, slices, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    if read == 0 {
        return Err(io::Error::other("the keeper ended"));
    }
    let mut sender = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmCredentials(credentials) = message {
            sender = u32::try_from(credentials.pid.as_raw_nonzero().get()).ok();
        }
    }
    let message = Message::decode(bytes).filter(|_| read == MESSAGE);
    let message = message.ok_or_else(|| io::Error::other("the keeper said something else"))?;
    Ok((message, sender))
}

/// Asks a keeper whether there can be namespaces, and whether with a `/proc` of their own; or why not.
///
/// # Errors
/// Where there can be no keeper.
pub(super) async fn probe(keeper: &Keeper, spawner: &Spawner) -> io::Result<Result<bool, String>> {
    let probing = async {
        let (line, mut process) = Line::open(keeper, "probe", spawner).await?;
        line.send(&Order::Probe, &[]).await?;
        let said = line.next().await;
        // It has nothing more to do.
        process.wait().await?;
        Ok::<_, io::Error>(said?.0)
    };
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    match timeout(PROBE, probing).await.map_err(late)?? {
        Message::Possible { proc } => Ok(Ok(proc)),
        Message::Failed(stage, errno) => Ok(Err(format!("{}: {}", stage.doing(), why(errno)))),
        Message::Born | Message::Running | Message::Ended(_) => {
            Err(io::Error::other("the keeper said something else"))
        }
    }
}

fn why(errno: i32) -> io::Error {
    match errno {
        0 => io::Error::other("no reason given"),
        errno => io::Error::from_raw_os_error(errno),
    }
}

/// Starts the program under a keeper.
///
/// # Cancel safety
/// A dropped start ends the keeper, and with it whatever it has started.
pub(super) async fn start(
    plan: &Plan<'_>,
    keeper: &Keeper,
    spawner: &Spawner,
    namespace: Option<&[String]>,
) -> Result<(Child, Pipes), SpawnError> {
    let refused = |source| SpawnError::Keeper {
        command: plan.shown.clone(),
        doing: "start the keeper",
        source,
    };
    let (line, process) = Line::open(keeper, &plan.name, spawner)
        .await
        .map_err(refused)?;
    // Before the server runs, which may knock at the gateway's door at once.
    let leader = spawner.leaders().enter(process.id());
    let order = Order::Run(Program {
        path: plan.program.to_string_lossy().into_owned(),
        args: plan.args().map(str::to_owned).collect(),
        environment: plan.environment.clone().into_iter().collect(),
        cwd: plan.cwd().map(str::to_owned),
        namespace: namespace.is_some(),
        hidden: namespace.unwrap_or_default().to_vec(),
    });
    let (pipes, theirs) = pipes().map_err(refused)?;
    let descriptors = theirs.each_ref().map(AsFd::as_fd);
    line.send(&order, &descriptors).await.map_err(refused)?;
    drop((order, theirs));
    let server = running(plan, &line).await?;
    let hold = Hold::Keeper {
        line,
        server,
        namespace: namespace.is_some(),
    };
    Ok((Child::new(process, hold, leader, spawner.clone()), pipes))
}

/// Waits until the program runs, and returns its pid.
async fn running(plan: &Plan<'_>, line: &Line) -> Result<Option<u32>, SpawnError> {
    let mut server = None;
    loop {
        let said = line.next().await.map_err(|source| SpawnError::Keeper {
            command: plan.shown.clone(),
            doing: "wait for the program to run",
            source,
        })?;
        match said {
            (Message::Born, pid) => server = pid,
            (Message::Running, _) => return Ok(server),
            (Message::Failed(stage, errno), _) => return Err(failed(plan, stage, why(errno))),
            // Neither comes before the program runs.
            (Message::Ended(_) | Message::Possible { .. }, _) => {}
        }
    }
}

fn failed(plan: &Plan<'_>, stage: Stage, source: io::Error) -> SpawnError {
    match stage {
        Stage::Execute => SpawnError::not_executed(&plan.shown, source),
        Stage::Directory => SpawnError::NoDirectory {
            cwd: plan.shown_cwd(),
        },
        Stage::Prepare | Stage::Namespace | Stage::Ids | Stage::Hide => SpawnError::Keeper {
            command: plan.shown.clone(),
            doing: stage.doing(),
            source,
        },
    }
}

/// Makes the server's three pipes: our ends and its own.
fn pipes() -> io::Result<(Pipes, [OwnedFd; 3])> {
    let (its_stdin, stdin): (PipeReader, PipeWriter) = io::pipe()?;
    let (stdout, its_stdout) = io::pipe()?;
    let (stderr, its_stderr) = io::pipe()?;
    let pipes = Pipes {
        stdin: ChildStdin::from_std(OwnedFd::from(stdin).into())?,
        stdout: ChildStdout::from_std(OwnedFd::from(stdout).into())?,
        stderr: ChildStderr::from_std(OwnedFd::from(stderr).into())?,
    };
    let theirs = [its_stdin.into(), its_stdout.into(), its_stderr.into()];
    Ok((pipes, theirs))
}
