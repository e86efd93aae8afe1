//! What the operating system says of this process (Linux; elsewhere nothing is known).

/// Processor time used so far, user and system together, in seconds.
pub(super) fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command's name, in brackets, may hold spaces: fields are counted behind it. See proc_pid_stat(5).
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    // Linux counts these in hundredths of a second for every program, whatever the kernel's own tick.
    Some((user + system) / 100.0)
}

/// The most memory that was resident at once, in megabytes.
pub(super) fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0 / 1e6)
}

/// Keeps every thread of this process on one core, the first it may run on, from now on. Two threads that hand work to and fro
/// take three times as long over it when the scheduler puts them apart, and where it puts them stays as it is for minutes:
/// two databases in one process would be compared by that. Tells whether it was done.
#[cfg(target_os = "linux")]
pub(super) fn stay_on_one_core() -> bool {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;
    let one = || -> Option<()> {
        let may = sched_getaffinity(Pid::from_raw(0)).ok()?;
        let first = (0..CpuSet::count()).find(|&core| may.is_set(core) == Ok(true))?;
        let mut one = CpuSet::new();
        one.set(first).ok()?;
        for task in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
            // A thread that has ended meanwhile is none that could be elsewhere; those begun meanwhile start where theirs is.
            let _ = sched_setaffinity(Pid::from_raw(task.file_name().to_str()?.parse().ok()?), &one);
        }
        Some(())
    };
    one().is_some()
}

/// Elsewhere there is no way that all have.
#[cfg(not(target_os = "linux"))]
pub(super) const fn stay_on_one_core() -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_time_and_memory() {
        assert!(cpu_seconds().is_some_and(|seconds| seconds >= 0.0));
        assert!(peak_rss_mb().is_some_and(|megabytes| megabytes > 1.0));
    }
}
