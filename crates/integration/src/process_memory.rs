//! The resident memory of a process, as Linux reports it.

/// The resident memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// The memory at the moment (`VmRSS`).
    pub resident: usize,
    /// The part of it that no file backs (`RssAnon`).
    pub anonymous: usize,
    /// The largest memory since the start of the process or the last reset (`VmHWM`).
    pub peak: usize,
}

impl ProcessMemory {
    /// The memory of the calling process. `None` if the system does not report it.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// The memory of a process by its ID. `None` if the system does not report it.
    #[must_use]
    pub fn of(process: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().trim_end_matches(" kB").parse::<usize>().ok().map(|kib| kib << 10)
        };
        Some(Self { resident: bytes("VmRSS:")?, anonymous: bytes("RssAnon:")?, peak: bytes("VmHWM:")? })
    }

    /// Resets the peak of the calling process. Not every system allows that. Without a reset, the peak includes all of
    /// the past.
    pub fn reset_own_peak() {
        let _ = std::fs::write("/proc/self/clear_refs", "5");
    }
}
