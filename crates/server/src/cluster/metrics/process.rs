//! The metrics of the process, as client_golang's process collector has them. They are read from `/proc`; on platforms
//! without it there are none.

use std::fs;

use pintle_metrics::{Exposition, Kind, Stability};

/// Clock ticks per second in `/proc`. Linux has the same number on every platform.
const TICKS_PER_SECOND: f64 = 100.0;

/// Writes the metrics of this process.
pub(super) fn write(out: &mut Exposition) {
    let mut write = |name, kind, help, value: Option<f64>| {
        if let Some(value) = value {
            out.family(name, kind, Stability::None, help).value(&[], value);
        }
    };
    let stat = read("/proc/self/stat");
    let limits = read("/proc/self/limits");
    write(
        "process_cpu_seconds_total",
        Kind::Counter,
        "Total user and system CPU time spent in seconds.",
        stat_field(&stat, 14).zip(stat_field(&stat, 15)).map(|(user, system)| (user + system) / TICKS_PER_SECOND),
    );
    write("process_open_fds", Kind::Gauge, "Number of open file descriptors.", open_files());
    write(
        "process_max_fds",
        Kind::Gauge,
        "Maximum number of open file descriptors.",
        soft_limit(&limits, "Max open files"),
    );
    write("process_virtual_memory_bytes", Kind::Gauge, "Virtual memory size in bytes.", stat_field(&stat, 23));
    write(
        "process_virtual_memory_max_bytes",
        Kind::Gauge,
        "Maximum amount of virtual memory available in bytes.",
        soft_limit(&limits, "Max address space"),
    );
    write("process_resident_memory_bytes", Kind::Gauge, "Resident memory size in bytes.", resident_bytes());
    write(
        "process_start_time_seconds",
        Kind::Gauge,
        "Start time of the process since the Unix epoch in seconds.",
        start_time(),
    );
}

/// Writes the start time of this process.
pub(super) fn write_start_time(out: &mut Exposition) {
    if let Some(start) = start_time() {
        let help = "Start time of the process since the Unix epoch in seconds.";
        out.family("process_start_time_seconds", Kind::Gauge, Stability::Alpha, help).value(&[], start);
    }
}

/// The start time of the process, in seconds since the Unix epoch.
pub(super) fn start_time() -> Option<f64> {
    let since_boot = stat_field(&read("/proc/self/stat"), 22)? / TICKS_PER_SECOND;
    let boot = read("/proc/stat").lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok())?;
    Some(boot + since_boot)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// A field of `/proc/self/stat`, counted from 1 as in its documentation. The second field is the name of the command,
/// which may contain anything.
fn stat_field(stat: &str, field: usize) -> Option<f64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(field.checked_sub(3)?)?.parse().ok()
}

fn soft_limit(limits: &str, name: &str) -> Option<f64> {
    let value = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
    // client_golang reports "unlimited" as the largest 64 bit number.
    if value == "unlimited" { Some(u64::MAX as f64) } else { value.parse().ok() }
}

fn open_files() -> Option<f64> {
    // The open directory itself is one of the files.
    fs::read_dir("/proc/self/fd").ok().map(|files| files.count().saturating_sub(1) as f64)
}

fn resident_bytes() -> Option<f64> {
    let status = read("/proc/self/status");
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?;
    Some(kilobytes.parse::<f64>().ok()? * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_limits_are_found() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) b (c) {}", fields.join(" "));
        assert_eq!(
            (stat_field(&stat, 14), stat_field(&stat, 52), stat_field(&stat, 53)),
            (Some(14.0), Some(52.0), None)
        );
        let limits = "Limit   Soft Limit  Hard Limit Units\nMax open files   1024   4096   files\nMax x  unlimited u\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(soft_limit(limits, "Max x"), Some(u64::MAX as f64));
        assert_eq!(soft_limit(limits, "Max y"), None);
    }
}
