//! What a server's processes take, as the kernel counts it: CPU time, resident memory and its peak. A server that is
//! measured from afar has no processes here, and so no such numbers.

use std::fmt::Display;
use std::time::Duration;

use crate::Result;

/// The processes of a server; several where it has its store beside it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    processes: Vec<u32>,
}

impl Meter {
    /// Measures these processes together.
    pub(crate) fn new(processes: Vec<u32>) -> Self {
        Self { processes }
    }

    /// The CPU time used so far, in user and kernel mode, as exact as the kernel's clock ticks.
    pub(crate) fn cpu(&self) -> Result<Option<Duration>> {
        let ticks = self.sum("stat", |stat| {
            // The command's name, in brackets, may hold spaces: the fields are counted from behind it.
            let (_, fields) = stat.rsplit_once(')')?;
            let mut times = fields.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
            Some(times.next()? + times.next()?)
        })?;
        let second = rustix::param::clock_ticks_per_second() as f64;
        Ok(ticks.map(|ticks| Duration::from_secs_f64(ticks as f64 / second)))
    }

    /// The CPU time used since [`Meter::cpu`] gave `before`.
    pub(crate) fn cpu_since(&self, before: Option<Duration>) -> Result<Option<Duration>> {
        Ok(self.cpu()?.zip(before).map(|(after, before)| after.saturating_sub(before)))
    }

    /// The resident memory in bytes.
    pub(crate) fn resident(&self) -> Result<Option<u64>> {
        self.sum("status", |status| kib(status, "VmRSS:"))
    }

    /// The most memory that was resident since the start or [`Meter::forget_peak`], in bytes.
    pub(crate) fn peak(&self) -> Result<Option<u64>> {
        self.sum("status", |status| kib(status, "VmHWM:"))
    }

    /// Lets the peak begin anew.
    pub(crate) fn forget_peak(&self) -> Result<()> {
        for process in &self.processes {
            let path = format!("/proc/{process}/clear_refs");
            std::fs::write(&path, "5").map_err(|error| explain(&path, error))?;
        }
        Ok(())
    }

    fn sum(&self, file: &str, number: fn(&str) -> Option<u64>) -> Result<Option<u64>> {
        let mut sum = None;
        for process in &self.processes {
            let path = format!("/proc/{process}/{file}");
            let text = std::fs::read_to_string(&path).map_err(|error| explain(&path, error))?;
            let number = number(&text).ok_or_else(|| explain(&path, "not understood"))?;
            sum = Some(sum.unwrap_or_default() + number);
        }
        Ok(sum)
    }
}

/// The bytes that a line of a process's status names in KiB.
fn kib(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

fn explain(path: &str, why: impl Display) -> String {
    format!("{path}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_no_process_has_none() {
        let meter = Meter::new(vec![std::process::id()]);
        // Other tests take memory meanwhile: the peak is that of all the time until it is read.
        let resident = meter.resident().unwrap();
        assert!(resident > Some(0));
        assert!(meter.peak().unwrap() >= resident);
        assert!(meter.cpu().unwrap().is_some());
        assert_eq!(Meter::default().resident().unwrap(), None);
    }

    #[test]
    fn status_lines() {
        assert_eq!(kib("VmHWM:\t  12 kB\nVmRSS:\t 7 kB\n", "VmRSS:"), Some(7 * 1024));
        assert_eq!(kib("Name: x\n", "VmRSS:"), None);
    }
}
