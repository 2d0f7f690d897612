//! No process that this one starts outlives it, whatever it does.

use std::{fs, io, time::Duration};

use genlock_frames::{Birth, Pid, ProcessStat};
use rustix::process::{
    DumpableBehavior, Signal, getpid, kill_process, set_child_subreaper, set_dumpable_behavior,
    set_parent_process_death_signal,
};
use tokio::time::{Instant, sleep};

/// How long is looked for processes that are left.
const SEARCH: Duration = Duration::from_secs(2);
/// How often in a row nothing has to be seen: a process that is handed on to this one while `/proc` is read may stand below
/// a parent that is not there any more.
const LOOKS: u32 = 3;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Who this process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: Pid,
    pub(crate) birth: Birth,
}

impl Identity {
    /// Asks the system who this process is.
    pub(crate) fn own() -> io::Result<Self> {
        let stat = fs::read_to_string("/proc/self/stat")?;
        let stat = ProcessStat::parse(&stat)
            .ok_or_else(|| io::Error::other("/proc/self/stat cannot be read"))?;
        Ok(Self {
            pid: stat.pid,
            birth: stat.birth,
        })
    }
}

/// Makes this process one whose memory others cannot read, which is killed when the process that started it ends, and to
/// which the processes fall that lose their parent. Its servers end with it, each by a keeper of its own.
pub(crate) fn begin() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Kills everything that this process started, directly or not, in whatever group or session it is.
///
/// Servers were ended before, in their own time; this is for what they left behind.
pub(crate) async fn end(own: Pid) {
    let until = Instant::now() + SEARCH;
    let mut seen_none = 0;
    while seen_none < LOOKS && Instant::now() < until {
        let living: Vec<_> = ProcessStat::descendants(&processes(), own)
            .into_iter()
            .filter(|process| !process.has_ended)
            .collect();
        seen_none = if living.is_empty() { seen_none + 1 } else { 0 };
        for process in living {
            let pid = i32::try_from(process.pid.get()).ok();
            if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
                // One that is gone by now needs no signal; its id is not used again within a look.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        // What a killed process had started falls to this one, and is found by the next look.
        sleep(PAUSE).await;
    }
}

/// Everything that runs, as far as it may be seen.
fn processes() -> Vec<ProcessStat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
        })
        .filter_map(|entry| {
            ProcessStat::parse(&fs::read_to_string(entry.path().join("stat")).ok()?)
        })
        .collect()
}
