//! A server in user, mount and PID namespaces of its own, whose first process ends with the keeper and takes all along.

use std::{
    ffi::CString,
    fs,
    io::{self, Write as _},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{FileTypeExt as _, MetadataExt as _},
            net::UnixStream,
        },
    },
    path::Path,
};

use rustix::{
    fs::inotify::{self, WatchFlags},
    io::Errno,
    mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_remount},
    process::{
        DumpableBehavior, Pid, Signal, WaitOptions, set_dumpable_behavior,
        set_parent_process_death_signal, waitpid,
    },
    thread::{CapabilitySet, remove_capability_from_bounding_set},
};

use super::{
    Descriptors,
    sys::{self, Forked},
    watch_over,
    wire::{Message, Program, Stage},
    write_once,
};

/// The mode of a directory that covers another; that of the gateway's is its owner's alone.
const COVER: u32 = 0o555;

/// What went wrong, and at what.
type Failure = (Stage, io::Error);

/// Runs a server in namespaces of its own.
pub(super) fn run(
    socket: UnixStream,
    program: Program,
    descriptors: Descriptors,
) -> io::Result<()> {
    let inside = |socket: &UnixStream| {
        let hide = |error| (Stage::Hide, error);
        let hidden = program.hidden.clone();
        // Watched before it is covered, so that nothing is put into its place unseen.
        let places = watch_places(&hidden).map_err(hide)?;
        cover(&hidden).map_err(hide)?;
        // An editor that saves puts another file into the place of the one that is covered.
        let again = || cover(&hidden);
        watch_over(socket, program, descriptors, Some((&places, &again)))
            .map_err(|error| (Stage::Prepare, error))
    };
    enter(socket, |socket| {
        // The kernel kills whatever else is in the namespace when this process ends.
        let message = match inside(socket) {
            Ok(None) => return,
            Ok(Some(status)) => Message::Ended(status),
            Err((stage, error)) => failed(stage, &error),
        };
        // A gateway that is gone needs no message.
        let _ = message.send(socket);
    })
}

/// Tries to make namespaces and says what came of it.
pub(super) fn probe(socket: &UnixStream) -> io::Result<()> {
    enter(socket.try_clone()?, |socket| {
        let proc = has_own_proc();
        let _ = Message::Possible { proc }.send(socket);
    })
}

/// Makes namespaces, has `inside` done in them by their first process, and waits for its end.
fn enter(socket: UnixStream, inside: impl FnOnce(&UnixStream)) -> io::Result<()> {
    let (mut go, mut going) = io::pipe()?;
    // Dying is this thread's to tell: the process has no other.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Its files in `/proc` belong to nobody who may write them while it is not dumpable.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let first = match sys::fork_into_namespaces() {
        Ok(Forked::Parent(first)) => first,
        Ok(Forked::Child) => {
            drop(going);
            if let Err((stage, error)) = settle(&mut go) {
                let _ = failed(stage, &error).send(&socket);
            } else {
                inside(&socket);
            }
            sys::end_at_once()
        }
        Err(error) => return failed(Stage::Namespace, &error).send(&socket),
    };
    // What the server needs is in the first process alone from here on.
    drop((go, inside));
    let mapped = map_ids(first);
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    match mapped {
        // Refused only where the first process is gone, which is waited for below.
        Ok(()) => drop(going.write_all(b"!")),
        Err(error) => failed(Stage::Ids, &error).send(&socket)?,
    }
    // The gateway's end must close when the first process ends, not when this one does.
    drop((going, socket));
    while let Err(rustix::io::Errno::INTR) = waitpid(Some(first), WaitOptions::empty()) {}
    Ok(())
}

fn failed(stage: Stage, error: &io::Error) -> Message {
    Message::Failed(stage, error.raw_os_error().unwrap_or(0))
}

/// Makes the first process of the namespaces ready.
fn settle(go: &mut impl io::Read) -> Result<(), Failure> {
    let prepare = |error: io::Error| (Stage::Prepare, error);
    // The kernel ends this process with its parent; the pipe covers the moment before, the socket all of it once more.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| prepare(error.into()))?;
    let mut byte = [0];
    go.read_exact(&mut byte).map_err(prepare)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| prepare(error.into()))?;
    let down = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", down).map_err(|error| (Stage::Namespace, error.into()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // Refused where the host shows only a part of `/proc`; that one stays then.
    let _ = mount("proc", "/proc", "proc", flags, None);
    Ok(())
}

fn has_own_proc() -> bool {
    fs::read_link("/proc/self").is_ok_and(|pid| pid == Path::new("1"))
}

/// Maps ids into the user namespace of `first`: all of them where this process may, else only its own to itself.
fn map_ids(first: Pid) -> io::Result<()> {
    let of = |file: &str| format!("/proc/{}/{file}", first.as_raw_nonzero());
    let all = |file: &str| -> io::Result<()> {
        let known = fs::read_to_string(format!("/proc/self/{file}"))?;
        write_once(&of(file), &identity(&known))
    };
    if all("uid_map").is_ok() && all("gid_map").is_ok() {
        return Ok(());
    }
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    // A map of uids that was written stays.
    let only = |file: &str, id: u32| match write_once(&of(file), &format!("{id} {id} 1\n")) {
        Err(_) if !fs::read_to_string(of(file))?.trim().is_empty() => Ok(()),
        written => written,
    };
    only("uid_map", uid.as_raw())?;
    // Without this the kernel lets nobody map groups.
    write_once(&of("setgroups"), "deny")?;
    only("gid_map", gid.as_raw())
}

/// Makes the map under which each id that is known here is itself.
fn identity(known: &str) -> String {
    let lines = known.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (id, _, count) = (fields.next()?, fields.next()?, fields.next()?);
        Some(format!("{id} {id} {count}\n"))
    });
    lines.collect()
}

/// Returns what becomes readable when a file is put into the place of another beside one of `hidden`.
fn watch_places(hidden: &[String]) -> io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    for path in hidden {
        let parent = Path::new(path).parent();
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        let events = WatchFlags::MOVED_TO | WatchFlags::CREATE;
        // A directory that is not there has nothing put into it.
        let _ = inotify::add_watch(&watch, parent.unwrap_or(Path::new(".")), events);
    }
    Ok(watch)
}

/// Covers directories by empty ones and files by an empty one, where they are not yet.
fn cover(hidden: &[String]) -> io::Result<()> {
    for path in hidden {
        match fs::metadata(path) {
            // The mode of the cover.
            Ok(metadata) if metadata.is_dir() && metadata.mode() & 0o7777 == COVER => {}
            Ok(metadata) if metadata.is_dir() => cover_directory(path)?,
            Ok(metadata) if metadata.file_type().is_char_device() => {}
            Ok(_) => cover_file(path)?,
            // What is not there needs no cover; what cannot be looked at cannot be looked at by the server either.
            Err(_) => {}
        }
    }
    Ok(())
}

fn cover_file(path: &str) -> io::Result<()> {
    match mount_bind("/dev/null", path) {
        // The file was replaced at this very moment, which is told as the next change.
        Err(Errno::NOENT) => Ok(()),
        covered => Ok(covered?),
    }
}

fn cover_directory(path: &str) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let small = CString::new(format!("size=4k,mode={COVER:o}"))?;
    mount("none", path, "tmpfs", flags, small.as_c_str())?;
    Ok(mount_remount(
        path,
        flags | MountFlags::RDONLY,
        small.as_c_str(),
    )?)
}

/// Takes from this process and all that it becomes what would lift a cover.
pub(super) fn give_up_mounting() -> io::Result<()> {
    Ok(remove_capability_from_bounding_set(
        CapabilitySet::SYS_ADMIN,
    )?)
}

#[cfg(test)]
mod tests {
    use super::identity;

    #[test]
    fn every_known_id_is_mapped_to_itself() {
        let known = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!(identity(known), "0 0 1\n1 1 65536\n");
        assert_eq!(identity(""), "");
    }
}
