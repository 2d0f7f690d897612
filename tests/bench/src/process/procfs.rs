//! What a process has used, by `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;

/// Resident memory of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Now.
    pub(crate) resident: u64,
    /// At the most since the start or the last reset.
    pub(crate) peak: u64,
}

/// Returns the user and system time of all threads of a process; children do not count.
///
/// # Errors
/// The process is gone.
pub(crate) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = read(pid, "stat")?;
    let ticks = parse_ticks(&stat).with_context(|| format!("read the times in `{stat}`"))?;
    Ok(Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second())?)
}

/// Returns the length of one tick, which is the grain of [`cpu_time`].
pub(crate) fn tick() -> Duration {
    let ticks = u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100);
    Duration::from_secs(1) / ticks.max(1)
}

/// Returns the resident memory of a process.
///
/// # Errors
/// The process is gone.
pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let status = read(pid, "status")?;
    let field = |name| {
        parse_field(&status, name).with_context(|| format!("no `{name}` in /proc/{pid}/status"))
    };
    Ok(Memory {
        resident: field("VmRSS:")?,
        peak: field("VmHWM:")?,
    })
}

/// Sets the peak of a process to what it uses now.
///
/// # Errors
/// The process is gone or another user's.
pub(crate) fn reset_peak(pid: u32) -> anyhow::Result<()> {
    let path = format!("/proc/{pid}/clear_refs");
    fs::write(&path, "5").with_context(|| format!("write {path}"))
}

/// Returns what the machine is, for the head of the report.
pub(crate) fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models: Vec<&str> = cpus
        .lines()
        .filter_map(|line| line.strip_prefix("model name\t: "))
        .collect();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let model = models.first().copied().unwrap_or("unknown CPU");
    format!("{} × {model}, Linux {}", models.len().max(1), kernel.trim())
}

/// Reads a file of a process.
fn read(pid: u32, name: &str) -> anyhow::Result<String> {
    let path = format!("/proc/{pid}/{name}");
    fs::read_to_string(&path).with_context(|| format!("read {path}"))
}

/// Adds `utime` and `stime`; the name before them is in brackets and may hold anything.
fn parse_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let (user, system) = (fields.next()?, fields.next()?);
    Some(user.parse::<u64>().ok()? + system.parse::<u64>().ok()?)
}

/// Reads a field of `status` that is given in kB.
fn parse_field(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_a_hostile_name() {
        let stat = "42 (a) b 1 2) S 1 2 3 4 5 6 7 8 9 10 111 222 13 14";

        assert_eq!(parse_ticks(stat), Some(333));
        assert_eq!(parse_ticks("42 (x) S 1"), None);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t    2184 kB\nVmRSS:\t      12 kB\n";

        assert_eq!(parse_field(status, "VmHWM:"), Some(2184 * 1024));
        assert_eq!(parse_field(status, "VmRSS:"), Some(12 * 1024));
        assert_eq!(parse_field(status, "VmSwap:"), None);
    }

    #[test]
    fn peak_follows_what_this_process_touches_after_a_reset() {
        let pid = std::process::id();
        reset_peak(pid).unwrap();
        let before = memory(pid).unwrap();

        drop(std::hint::black_box(vec![1_u8; 64 << 20]));

        assert!(memory(pid).unwrap().peak >= before.resident + (48 << 20));
    }
}
