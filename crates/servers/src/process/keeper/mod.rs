//! The keeper: a small process between the gateway and one server, which ends everything the server started.
//!
//! It is the host's own program, started again: a host that wants its servers kept asks [`role`] first thing in `main`.
//! A keeper has one thread, knows its one server and nothing else of the gateway, and lives exactly as long as both. The
//! gateway holds the other end of its socket; when that closes, for whatever reason, everything below the keeper is
//! killed. See `docs/design/003-containment.md`.

mod namespace;
mod tree;
pub(crate) mod wire;

use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    pipe::{PipeFlags, pipe_with},
    process::{
        DumpableBehavior, Pid, Signal, WaitOptions, kill_process_group, set_child_subreaper,
        set_dumpable_behavior, set_parent_process_death_signal, setpgid,
    },
};
use wire::{Message, Order, Program, Stage};

use super::sys::{self, Forked};

/// What a keeper is called: its first argument.
pub(crate) const NAME: &str = "genlock-keeper";
/// Where the program of this process is, whatever became of its file.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// What this process was started as.
#[derive(Debug)]
pub enum Role {
    /// As a keeper, which has done its work: `main` returns this.
    Keeper(ExitCode),
    /// As the host's own program, whose gateways can start keepers with this.
    Host(Keeper),
}

/// A program that can be started as a keeper.
///
/// Only [`role`] makes one, so that no program is started as a keeper that does not know how to be one.
#[derive(Debug, Clone)]
pub struct Keeper {
    pub(crate) program: PathBuf,
}

/// Tells what this process was started as, and does a keeper's work. To be called first thing in `main`, with the first
/// argument of the process: a keeper must have one thread, and inherits nothing that the host opens before.
///
/// ```no_run
/// # use std::process::ExitCode;
/// use genlock_servers::{Role, role};
///
/// fn main() -> ExitCode {
///     match role(std::env::args_os().next().as_deref()) {
///         Role::Keeper(code) => code,
///         Role::Host(keeper) => run(keeper),
///     }
/// }
/// # fn run(_: genlock_servers::Keeper) -> ExitCode { ExitCode::SUCCESS }
/// ```
pub fn role(first_argument: Option<&OsStr>) -> Role {
    if first_argument == Some(OsStr::new(NAME)) {
        // Whom could it tell? The gateway sees the socket close.
        return Role::Keeper(keep().unwrap_or(ExitCode::FAILURE));
    }
    Role::Host(Keeper {
        program: Path::new(THIS_PROGRAM).to_owned(),
    })
}

/// What becomes readable when something is to be covered again, and what covers it.
type Places<'a> = (&'a OwnedFd, &'a dyn Fn() -> io::Result<()>);

/// What a server starts with: its three standard descriptors.
type Descriptors = [OwnedFd; 3];

fn keep() -> io::Result<ExitCode> {
    sys::close_inherited()?;
    // Its program's file has a name that says nothing.
    rustix::thread::set_name(c"genlock-keeper")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let mut socket = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let (order, descriptors) = wire::receive(&mut socket)?;
    match order {
        Order::Probe => namespace::probe(&socket)?,
        Order::Run(program) => {
            let descriptors =
                Descriptors::try_from(descriptors).map_err(|_| io::ErrorKind::InvalidInput)?;
            match program.namespace {
                true => namespace::run(socket, program, descriptors)?,
                false => run_in_group(&socket, program, descriptors)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a server without a namespace. What it detaches from itself comes back to this process, which ends it.
fn run_in_group(socket: &UnixStream, program: Program, descriptors: Descriptors) -> io::Result<()> {
    set_child_subreaper(Some(rustix::process::getpid()))?;
    // A server that has stopped this process must not keep it from seeing that the gateway is gone.
    set_parent_process_death_signal(Some(Signal::CONT))?;
    let ended = watch_over(socket, program, descriptors, None);
    if let Ok(Some(status)) = ended {
        // Said before the rest is ended, which may take a moment. A gateway that is gone needs no message.
        let _ = Message::Ended(status).send(socket);
    }
    tree::kill_all();
    ended.map(drop)
}

/// Starts the server and watches over it until it has ended or is not wanted any more. Returns how it ended.
fn watch_over(
    socket: &UnixStream,
    program: Program,
    descriptors: Descriptors,
    places: Option<Places<'_>>,
) -> io::Result<Option<i32>> {
    let events = sys::child_events()?;
    let Some(server) = start(socket, program, descriptors)? else {
        return Ok(None);
    };
    loop {
        let mut ready = [
            PollFd::new(&events, PollFlags::IN),
            PollFd::new(socket, PollFlags::IN),
            // Without places this is asked for nothing.
            match places {
                Some((places, _)) => PollFd::new(places, PollFlags::IN),
                None => PollFd::new(socket, PollFlags::empty()),
            },
        ];
        match poll(&mut ready, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [child, order, place] = ready.map(|ready| !ready.revents().is_empty());
        if let (Some((places, cover)), true) = (places, place) {
            drain(places);
            cover()?;
        }
        if child {
            // What it says is only that somebody ended; who did, `wait` tells.
            drain(&events);
            if let Some(status) = reap(server)? {
                return Ok(Some(status));
            }
        }
        if order && !obey(socket, server)? {
            return Ok(None);
        }
    }
}

/// Reads all that there is, which says nothing more than that there was something.
fn drain(events: &OwnedFd) {
    let mut note = [0; 4096];
    while rustix::io::read(events, &mut note).is_ok() {}
}

/// Reaps whoever has ended, and returns how the server did if it is among them.
fn reap(server: Pid) -> io::Result<Option<i32>> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == server => return Ok(Some(status.as_raw())),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Does what the gateway asks; returns whether it still wants the server.
fn obey(mut socket: &UnixStream, server: Pid) -> io::Result<bool> {
    let mut order = [0];
    match socket.read(&mut order) {
        Ok(0) => Ok(false),
        Ok(_) => {
            if order == [wire::TERMINATE] {
                // An error means that the group is gone, which is what was asked for.
                let _ = kill_process_group(server, Signal::TERM);
            }
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        // The gateway died with something unread.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
        Err(error) => Err(error),
    }
}

/// Starts the server's program and says so; `None` where it could not be started, which was said.
fn start(
    socket: &UnixStream,
    program: Program,
    descriptors: Descriptors,
) -> io::Result<Option<Pid>> {
    let (failed, failing) = pipe_with(PipeFlags::CLOEXEC)?;
    let server = match sys::fork()? {
        Forked::Child => become_server(socket, &program, descriptors, failing),
        Forked::Parent(server) => server,
    };
    // What the server was started with is the server's alone from here on.
    drop((failing, descriptors, program));
    // Both do it, so that the group is there whoever comes first; the second is refused.
    let _ = setpgid(Some(server), Some(server));
    let mut failure = [0; wire::MESSAGE];
    match File::from(failed).read_exact(&mut failure) {
        // Closed by the exec.
        Err(_) => {
            Message::Running.send(socket)?;
            Ok(Some(server))
        }
        Ok(()) => {
            let failure = Message::decode(failure).unwrap_or(Message::Failed(Stage::Execute, 0));
            failure.send(socket)?;
            Ok(None)
        }
    }
}

/// Goes on as the server's program. Never comes back: where that fails it says why and ends.
fn become_server(
    socket: &UnixStream,
    program: &Program,
    descriptors: Descriptors,
    failing: OwnedFd,
) -> ! {
    let (stage, error) = execute(socket, program, descriptors);
    let message = Message::Failed(stage, error.raw_os_error().unwrap_or(0));
    // The reader waits for this or for the end of this process.
    let _ = rustix::io::write(failing, &message.encode());
    sys::end_at_once()
}

fn execute(
    socket: &UnixStream,
    program: &Program,
    [stdin, stdout, stderr]: Descriptors,
) -> (Stage, io::Error) {
    if let Err(error) = tie(socket, program.namespace) {
        return (Stage::Prepare, error);
    }
    if let Some(cwd) = &program.cwd
        && let Err(error) = rustix::process::chdir(cwd.as_str())
    {
        return (Stage::Directory, error.into());
    }
    let mut command = Command::new(&program.path);
    command
        .args(&program.args)
        .env_clear()
        .envs(
            program
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr));
    (Stage::Execute, command.exec())
}

/// Ties the server to this keeper before it runs.
fn tie(socket: &UnixStream, namespace: bool) -> io::Result<()> {
    setpgid(None, None)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if namespace {
        namespace::give_up_mounting()?;
    }
    sys::unblock_signals()?;
    Message::Born.send(socket)
}

/// Opens a file of `/proc` for one write.
fn write_once(path: &str, text: &str) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    rustix::io::write(file.as_fd(), text.as_bytes())?;
    Ok(())
}
