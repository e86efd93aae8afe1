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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_time_and_memory() {
        assert!(cpu_seconds().is_some_and(|seconds| seconds >= 0.0));
        assert!(peak_rss_mb().is_some_and(|megabytes| megabytes > 1.0));
    }
}
