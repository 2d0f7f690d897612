//! The process: how it starts, what it leaves behind, what it ignores and how it ends.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::fs::FlockOperation;
use tokio::signal::unix::{SignalKind, signal};

use crate::flags::{Flags, Sleeper};

/// Stubborn processes end by themselves, so that a failed run leaves nothing behind for long.
const STUBBORN_LIFETIME: Duration = Duration::from_secs(180);

/// Ends the process at once.
#[expect(
    clippy::disallowed_methods,
    reason = "the fake ends in the middle of a call on purpose"
)]
pub(crate) fn end(code: u8) -> ! {
    std::process::exit(i32::from(code))
}

/// Says something on stderr.
pub(crate) fn complain(text: &str) {
    // Nobody may be reading.
    let _ = writeln!(io::stderr(), "fake server: {text}");
}

/// An id that is new at every start.
pub(crate) fn fresh_instance() -> io::Result<String> {
    let mut bytes = [0_u8; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:016x}", u64::from_be_bytes(bytes)))
}

/// Appends one line to a file, in one write.
pub(crate) fn append_line(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// Writes `bytes` bytes to stderr, in lines.
pub(crate) fn chatter(bytes: usize) -> io::Result<()> {
    let line = b"the fake server has a lot to say about nothing at all\n";
    let block: Vec<u8> = line.repeat(1024);
    let mut left = bytes;
    while left > 0 {
        let part = block.get(..left.min(block.len())).unwrap_or_default();
        io::stderr().write_all(part)?;
        left -= part.len();
    }
    Ok(())
}

/// Holds an exclusive lock on the file until the process is gone.
pub(crate) fn lock_for_life(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Makes TERM, INT and HUP do nothing.
pub(crate) fn ignore_signals() -> io::Result<()> {
    for kind in [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ] {
        // The handler stays installed for the life of the process, whether or not anybody listens.
        drop(signal(kind)?);
    }
    Ok(())
}

/// Ends a stubborn process after a while.
pub(crate) async fn outlive() -> u8 {
    tokio::time::sleep(STUBBORN_LIFETIME).await;
    0
}

/// Writes to standard output without end, whatever becomes of it.
pub(crate) fn spin() -> u8 {
    let start = Instant::now();
    while start.elapsed() < STUBBORN_LIFETIME {
        // That it fails is what the caller wants to see survived.
        let _ = rustix::io::write(rustix::stdio::stdout(), b"x\n");
    }
    0
}

/// Starts the processes that `--fork-burst` asks for, while the server goes on.
pub(crate) fn burst(flags: &Flags) -> io::Result<()> {
    let (count, Some(path)) = (flags.fork_burst, &flags.alive_lock) else {
        return Ok(());
    };
    if count == 0 {
        return Ok(());
    }
    let mut name = path.clone().into_os_string();
    name.push(".burst");
    // All of them have it as their output, so that it is locked while any of them lives.
    let lock = lock_for_life(Path::new(&name))?;
    let spawn_all = move || {
        for _ in 0..count {
            let spawned = lock.try_clone().and_then(|lock| {
                Command::new("/bin/sh")
                    .args(["-c", "setsid sleep 150 & exec sleep 150"])
                    .stdin(Stdio::null())
                    .stdout(lock)
                    .stderr(Stdio::null())
                    .spawn()
            });
            if let Err(error) = spawned {
                complain(&format!("burst: {error}"));
            }
        }
    };
    std::thread::Builder::new().spawn(spawn_all)?;
    Ok(())
}

fn grandchild_lock(flags: &Flags) -> Option<PathBuf> {
    flags.alive_lock.as_ref().map(|path| {
        let mut name = path.clone().into_os_string();
        name.push(".grandchild");
        PathBuf::from(name)
    })
}

/// Starts the grandchild that the flags ask for and gives its pid (in this process's PID namespace).
pub(crate) fn spawn_grandchild(flags: &Flags) -> io::Result<Option<u32>> {
    let mode = match (flags.detach_grandchild, flags.spawn_grandchild) {
        (true, _) => "middle",
        (false, true) => "plain",
        (false, false) => return Ok(None),
    };
    start_sleeper(mode, grandchild_lock(flags)).map(Some)
}

fn start_sleeper(mode: &str, lock: Option<PathBuf>) -> io::Result<u32> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--sleeper", mode])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if let Some(lock) = lock {
        command.arg("--alive-lock").arg(lock);
    }
    let mut child = command.spawn()?;
    let mut pid = String::new();
    // The sleeper prints its pid, then closes its stdout.
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut pid)?;
    }
    if mode == "middle" {
        child.wait()?;
    }
    pid.trim().parse().map_err(io::Error::other)
}

/// What a grandchild does.
pub(crate) async fn run_sleeper(mode: Sleeper, lock: Option<PathBuf>) -> io::Result<u8> {
    if mode == Sleeper::Middle {
        let pid = start_sleeper("detached", lock)?;
        writeln!(io::stdout(), "{pid}")?;
        return Ok(0);
    }
    if mode == Sleeper::Detached {
        rustix::process::setsid()?;
        ignore_signals()?;
    }
    let _lock = lock.as_deref().map(lock_for_life).transpose()?;
    writeln!(io::stdout(), "{}", std::process::id())?;
    close_stdout()?;
    Ok(outlive().await)
}

/// Lets the reader of the pid see the end of the file.
fn close_stdout() -> io::Result<()> {
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}
