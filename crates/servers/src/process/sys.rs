//! The few calls that no safe crate offers, each behind a safe function. The only file of the workspace with `unsafe`.
#![expect(
    unsafe_code,
    reason = "forking, and what is done between a fork and an exec, has no safe form"
)]

use std::{
    io,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::Command,
    ptr,
};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Which of two processes this is.
pub(super) enum Forked {
    /// The one that asked, with the pid of the new one.
    Parent(Pid),
    /// The new one.
    Child,
}

/// Forks a process that has one thread only; one with more is refused, since a lock of another thread could never be
/// released in the child.
pub(super) fn fork() -> io::Result<Forked> {
    require_one_thread()?;
    // SAFETY: the process has one thread, so that the child is a whole copy of it, with nothing half done.
    forked(i64::from(unsafe { libc::fork() }))
}

/// Forks into new user, mount and PID namespaces, where the child is the first process.
pub(super) fn fork_into_namespaces() -> io::Result<Forked> {
    require_one_thread()?;
    // SAFETY: all fields are integers, for which zero is a value, and the one that asks for nothing.
    let mut how: libc::clone_args = unsafe { std::mem::zeroed() };
    how.flags = bits(libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID);
    how.exit_signal = bits(libc::SIGCHLD);
    let size = size_of::<libc::clone_args>();
    // SAFETY: without CLONE_VM and without a stack this is a fork: the child goes on here with a copy of everything. The
    // struct is valid for `size` bytes, and the process has one thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, ptr::from_mut(&mut how), size) };
    forked(pid)
}

fn bits(flags: libc::c_int) -> libc::c_ulonglong {
    libc::c_ulonglong::from(flags.cast_unsigned())
}

fn forked(pid: i64) -> io::Result<Forked> {
    match pid {
        0 => Ok(Forked::Child),
        1.. => {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            pid.map(Forked::Parent)
                .ok_or_else(|| io::ErrorKind::Other.into())
        }
        _ => Err(io::Error::last_os_error()),
    }
}

fn require_one_thread() -> io::Result<()> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    match threads {
        1 => Ok(()),
        more => Err(io::Error::other(format!("{more} threads, expected one"))),
    }
}

/// Ends this process without any more ado, as a forked copy of another one should.
pub(super) fn end_at_once() -> ! {
    // SAFETY: never comes back, so that nothing can depend on what it leaves undone.
    unsafe { libc::_exit(1) }
}

/// Keeps SIGCHLD from interrupting, and returns what becomes readable when one came.
pub(super) fn child_events() -> io::Result<OwnedFd> {
    // SAFETY: an all-zero set is valid memory for `sigemptyset` to fill; the calls only write to it and read it.
    let fd = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened just now and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Blocks no signal any more, as a program expects to be started.
pub(super) fn unblock_signals() -> io::Result<()> {
    // SAFETY: an all-zero set is valid memory for `sigemptyset` to fill, and the calls only write to it and read it.
    let done = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut())
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes whatever this process inherited beside its standard input, output and error.
///
/// Only for the beginning of a process, before it has opened anything.
pub(super) fn close_inherited() -> io::Result<()> {
    // SAFETY: nothing of this process owns a descriptor beyond the first three yet, so that none is closed under its owner.
    match unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) } {
        0 => Ok(()),
        _ => close_one_by_one(),
    }
}

/// The same for kernels before 5.9.
fn close_one_by_one() -> io::Result<()> {
    let open = std::fs::read_dir("/proc/self/fd")?;
    let numbers: Vec<i32> = open
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // SAFETY: as above. The directory that was read is closed already, which only makes this one fail.
        unsafe { libc::close(number) };
    }
    Ok(())
}

/// Has the child of `command` killed by the kernel when the thread that starts it ends, and gives it no descriptors but
/// the first three.
pub(super) fn tie_to_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the signal was set.
        if getppid() != Some(parent) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        // Marked, not closed: the pipe through which a failed exec is told is among them.
        // SAFETY: sets flags of descriptors, in a process that is about to exec.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                3_u32,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
        Ok(())
    };
    // SAFETY: the closure makes system calls only; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(tie) };
}
