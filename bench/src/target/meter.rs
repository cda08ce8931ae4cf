//! Reads the CPU time, resident memory and peak memory of a server's processes from `/proc`. A remote server has no
//! local processes, and so none of these numbers.

use std::fmt::Display;
use std::time::Duration;

use crate::Result;

/// The processes of a server, including those of its store.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessMeter {
    processes: Vec<u32>,
}

impl ProcessMeter {
    /// Creates a meter for the sum of these processes.
    pub(crate) fn new(processes: Vec<u32>) -> Self {
        Self { processes }
    }

    /// The CPU time used so far in user and kernel mode, with the resolution of the kernel's clock ticks.
    pub(crate) fn cpu_time(&self) -> Result<Option<Duration>> {
        let ticks = self.sum("stat", |stat| {
            // The command's name in parentheses may contain spaces, so fields are counted after it.
            let (_, fields) = stat.rsplit_once(')')?;
            let mut times = fields.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
            Some(times.next()? + times.next()?)
        })?;
        let second = rustix::param::clock_ticks_per_second() as f64;
        Ok(ticks.map(|ticks| Duration::from_secs_f64(ticks as f64 / second)))
    }

    /// The CPU time used since `before`, a result of [`ProcessMeter::cpu_time`].
    pub(crate) fn cpu_time_since(&self, before: Option<Duration>) -> Result<Option<Duration>> {
        Ok(self.cpu_time()?.zip(before).map(|(after, before)| after.saturating_sub(before)))
    }

    /// The resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<Option<u64>> {
        self.sum("status", |status| kib(status, "VmRSS:"))
    }

    /// The peak resident memory in bytes since the start or [`ProcessMeter::reset_peak`].
    pub(crate) fn peak_resident_bytes(&self) -> Result<Option<u64>> {
        self.sum("status", |status| kib(status, "VmHWM:"))
    }

    /// Resets the peak resident memory.
    pub(crate) fn reset_peak(&self) -> Result<()> {
        for process in &self.processes {
            let path = format!("/proc/{process}/clear_refs");
            std::fs::write(&path, "5").map_err(|error| with_path(&path, error))?;
        }
        Ok(())
    }

    fn sum(&self, file: &str, number: fn(&str) -> Option<u64>) -> Result<Option<u64>> {
        let mut sum = None;
        for process in &self.processes {
            let path = format!("/proc/{process}/{file}");
            let text = std::fs::read_to_string(&path).map_err(|error| with_path(&path, error))?;
            let number = number(&text).ok_or_else(|| with_path(&path, "unexpected format"))?;
            sum = Some(sum.unwrap_or_default() + number);
        }
        Ok(sum)
    }
}

/// Parses a line of `/proc/PID/status` in KiB and returns bytes.
fn kib(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

fn with_path(path: &str, why: impl Display) -> String {
    format!("{path}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_known_for_a_process_and_unknown_without_one() {
        let meter = ProcessMeter::new(vec![std::process::id()]);
        // Other tests allocate concurrently, so only an inequality holds.
        let resident_bytes = meter.resident_bytes().unwrap();
        assert!(resident_bytes > Some(0));
        assert!(meter.peak_resident_bytes().unwrap() >= resident_bytes);
        assert!(meter.cpu_time().unwrap().is_some());
        assert_eq!(ProcessMeter::default().resident_bytes().unwrap(), None);
    }

    #[test]
    fn status_lines_are_parsed() {
        assert_eq!(kib("VmHWM:\t  12 kB\nVmRSS:\t 7 kB\n", "VmRSS:"), Some(7 * 1024));
        assert_eq!(kib("Name: x\n", "VmRSS:"), None);
    }
}
