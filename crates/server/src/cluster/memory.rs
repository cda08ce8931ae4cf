//! The memory budget of the process. While memory is short, the server first gives up cached encodings, then history.
//! Then it refuses large writes, and finally all writes that add stored data. It never gives up objects, and reads,
//! deletes and watches continue.

use std::fmt;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use pintle_locks::Mutex;
use pintle_registry::ApiError;
use tokio::time::Instant;

use super::{Cluster, Storage};

/// The name of the task that measures memory.
const MEMORY_TASK: &str = "memory-budget";
/// The interval between measurements of the memory in use.
const MEASURE_INTERVAL: Duration = Duration::from_millis(250);
/// The time between two reductions of the history. The allocator returns freed memory after a second.
const HISTORY_INTERVAL: Duration = Duration::from_secs(2);
/// The share of the limit that the history always keeps. Without history, each interrupted watch would have to list
/// again, which takes memory, too.
const MIN_HISTORY_SHARE: u64 = 64;
/// The hysteresis of levels, in percent of the limit. A level ends when the memory in use is this far below its
/// threshold.
const HYSTERESIS_PERCENT: u64 = 5;
/// The number of bytes by which an update may enlarge an object while writes are refused. Counters in leases and
/// heartbeats grow by a digit now and then.
const ALLOWED_GROWTH: usize = 64;
/// The allowed growth in bytes for an object that is being deleted. A write that brings the deletion to its end may
/// enlarge it first. Examples are the last status of a pod and the removal of one of several finalizers by a new
/// manager.
const ALLOWED_GROWTH_OF_TERMINATING: usize = 4096;
/// The time after which a client may repeat a refused write, in seconds.
const RETRY_AFTER: u32 = 1;

/// Measures how much memory the process uses.
pub trait MemoryUsage: fmt::Debug + Send + Sync + 'static {
    /// The memory in use, in bytes.
    ///
    /// # Errors
    /// The memory in use cannot be measured.
    fn used_bytes(&self) -> io::Result<u64>;
}

/// The anonymous resident memory of this process, from `/proc`. Resident pages of files, such as the files of the
/// store, do not count: the kernel takes them back when it needs them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResidentMemory;

impl MemoryUsage for ResidentMemory {
    fn used_bytes(&self) -> io::Result<u64> {
        let status = fs::read_to_string("/proc/self/status")?;
        anonymous_bytes(&status).ok_or_else(|| io::Error::other("/proc/self/status has no RssAnon"))
    }
}

fn anonymous_bytes(status: &str) -> Option<u64> {
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?.split_whitespace().next()?;
    Some(kilobytes.parse::<u64>().ok()? * 1024)
}

/// The limit of the process's memory, and its measurement.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    /// The limit in bytes.
    pub limit: u64,
    /// Measures the memory in use.
    pub usage: Arc<dyn MemoryUsage>,
}

/// The pressure on memory. Each level also gives up everything that the levels before it give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum MemoryPressure {
    None,
    /// No encodings and no compressed parts of responses are cached. Converted objects are dropped at each measurement.
    Encodings,
    /// The history is halved again and again.
    History,
    /// Writes that add stored data are refused.
    Writes,
}

impl MemoryPressure {
    /// The levels and their thresholds, in percent of the limit.
    const LEVELS: [(Self, u64); 3] = [(Self::Writes, 95), (Self::History, 85), (Self::Encodings, 75)];

    /// The level after a measurement.
    fn next(self, used: u64, limit: u64) -> Self {
        let is_reached = |level: Self, percent: u64| {
            let percent = if level <= self { percent - HYSTERESIS_PERCENT } else { percent };
            u128::from(used) * 100 >= u128::from(limit) * u128::from(percent)
        };
        let reached = Self::LEVELS.into_iter().find(|(level, percent)| is_reached(*level, *percent));
        reached.map_or(Self::None, |(level, _)| level)
    }

    fn of(level: u8) -> Self {
        Self::LEVELS.into_iter().map(|(known, _)| known).find(|known| *known as u8 == level).unwrap_or(Self::None)
    }

    /// The effect of this level on the server, for the log.
    fn effect(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Encodings => "no encodings are cached",
            Self::History => "the watch history is shortened and large writes are refused",
            Self::Writes => "writes that add objects or make them larger are refused",
        }
    }
}

/// The state of the memory budget. Without a budget it never changes.
#[derive(Debug)]
pub(crate) struct MemoryGuard {
    budget: Option<MemoryBudget>,
    pressure: AtomicU8,
    /// The last measurement, in bytes.
    used: AtomicU64,
    history_given_up_at: Mutex<Option<Instant>>,
}

impl MemoryGuard {
    pub(crate) fn new(budget: Option<MemoryBudget>) -> Self {
        let pressure = AtomicU8::new(MemoryPressure::None as u8);
        Self { budget, pressure, used: AtomicU64::new(0), history_given_up_at: Mutex::default() }
    }

    /// The limit in bytes, if there is one.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.budget.as_ref().map(|budget| budget.limit)
    }

    /// The memory in use when it was measured last, in bytes.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The number of the level, for metrics.
    pub(crate) fn level(&self) -> u8 {
        self.pressure.load(Ordering::Relaxed)
    }

    fn pressure(&self) -> MemoryPressure {
        MemoryPressure::of(self.level())
    }

    /// Checks that there is memory for another object.
    ///
    /// # Errors
    /// Memory is short.
    pub(crate) fn check_create(&self) -> Result<(), ApiError> {
        if self.pressure() < MemoryPressure::Writes {
            return Ok(());
        }
        let message = "the server is short of memory and accepts only deletes and updates that make no object larger";
        Err(ApiError::ShortOfMemory { message: message.to_owned(), retry_after: RETRY_AFTER })
    }

    /// Checks that there is memory for an object of `new` bytes in place of an object of `old` bytes.
    ///
    /// # Errors
    /// Memory is short, and the object becomes larger.
    pub(crate) fn check_update(&self, old: usize, new: usize, is_terminating: bool) -> Result<(), ApiError> {
        let growth = if is_terminating { ALLOWED_GROWTH_OF_TERMINATING } else { ALLOWED_GROWTH };
        if new <= old.saturating_add(growth) { Ok(()) } else { self.check_create() }
    }
}

/// Starts the task that keeps a cluster within its memory budget, if it has one. It ends when the server shuts down.
pub(crate) fn start_memory_task(cluster: &Arc<Cluster>) {
    if cluster.limits.memory.budget.is_none() {
        return;
    }
    let task = cluster.lifecycle.background_tasks.task(MEMORY_TASK);
    let weak = Arc::downgrade(cluster);
    let reported = task.clone();
    let start = move || {
        let (weak, task) = (weak.clone(), reported.clone());
        async move {
            let mut interval = tokio::time::interval(MEASURE_INTERVAL);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                interval.tick().await;
                let Some(cluster) = weak.upgrade() else { return Ok(()) };
                cluster.relieve_memory().await?;
                task.report_success();
            }
        }
    };
    let weak = Arc::downgrade(cluster);
    let is_over = move || weak.strong_count() == 0;
    cluster.spawn_until_shutdown(async move { task.supervise(start, is_over).await });
}

impl Cluster {
    /// Measures the memory in use, and gives up memory as the level of pressure requires.
    ///
    /// # Errors
    /// Memory cannot be measured.
    async fn relieve_memory(&self) -> Result<(), String> {
        let Some(MemoryBudget { limit, usage }) = &self.limits.memory.budget else { return Ok(()) };
        let used = usage.used_bytes().map_err(|error| format!("failed to measure the memory in use: {error}"))?;
        self.limits.memory.used.store(used, Ordering::Relaxed);
        let before = self.limits.memory.pressure();
        let now = before.next(used, *limit);
        if now != before {
            let (used_mib, limit_mib, effect) = (used >> 20, limit >> 20, now.effect());
            if now > before {
                tracing::warn!(level = now as u8, used_mib, limit_mib, effect, "Memory pressure has increased");
            } else {
                tracing::info!(level = now as u8, used_mib, limit_mib, effect, "Memory pressure has decreased");
            }
            self.limits.memory.pressure.store(now as u8, Ordering::Relaxed);
            self.limits.work_memory.set_short(now >= MemoryPressure::History);
            self.storages().for_each(|storage| storage.cache.set_encodings_cached(now < MemoryPressure::Encodings));
            if now < MemoryPressure::History {
                self.storages().for_each(|storage| storage.cache.restore_history());
                *self.limits.memory.history_given_up_at.lock() = None;
            }
        }
        if now >= MemoryPressure::Encodings {
            self.outbound.conversion_cache.clear();
        }
        if now >= MemoryPressure::History && self.limits.memory.is_history_due() {
            let min_bytes = usize::try_from(limit / MIN_HISTORY_SHARE).unwrap_or(usize::MAX);
            for Storage { store, cache, .. } in self.storages() {
                let evicted_to = cache.halve_history(min_bytes);
                if store.keeps_history_in_memory() {
                    // The store may have been compacted further already.
                    let _ = store.compact(pintle_store::Revision(evicted_to)).await;
                }
            }
        }
        Ok(())
    }
}

impl MemoryGuard {
    /// True if history may be given up now. Then the next time is [`HISTORY_INTERVAL`] later.
    fn is_history_due(&self) -> bool {
        let mut last = self.history_given_up_at.lock();
        let is_due = last.is_none_or(|last| last.elapsed() >= HISTORY_INTERVAL);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_left_only_well_below_its_threshold() {
        let mut pressure = MemoryPressure::None;
        let mut levels = String::new();
        for percent in [74, 75, 84, 85, 94, 95, 90, 89, 80, 79, 70, 69, 74, 200, 0, 86, 81, 94, 96, 72] {
            pressure = pressure.next(percent * 1000, 100_000);
            levels += &format!("{percent}:{} ", pressure as u8);
        }
        let expect =
            "74:0 75:1 84:1 85:2 94:2 95:3 90:3 89:2 80:2 79:1 70:1 69:0 74:0 200:3 0:0 86:2 81:2 94:2 96:3 72:1 ";
        assert_eq!(levels, expect);
        assert_eq!(MemoryPressure::None.next(u64::MAX, u64::MAX), MemoryPressure::Writes);
    }

    #[test]
    fn updates_that_make_no_object_larger_are_accepted_while_memory_is_short() {
        let guard = MemoryGuard::new(None);
        assert!(guard.check_create().is_ok() && guard.check_update(0, 1 << 20, false).is_ok());
        guard.pressure.store(MemoryPressure::Writes as u8, Ordering::Relaxed);
        assert!(guard.check_create().is_err());
        let is_accepted = |old, new| guard.check_update(old, new, false).is_ok();
        assert!(is_accepted(1000, 1000) && is_accepted(1000, 10) && is_accepted(1024, 1025));
        assert!(is_accepted(1000, 1064) && !is_accepted(1000, 1065));
        assert!(guard.check_update(1000, 5000, true).is_ok() && guard.check_update(1000, 5097, true).is_err());
    }

    #[test]
    fn only_anonymous_memory_counts() {
        let status = "Name:\tpintle\nVmRSS:\t  300 kB\nRssAnon:\t     100 kB\nRssFile:\t     200 kB\n";
        assert_eq!((anonymous_bytes(status), anonymous_bytes("VmRSS: 1 kB")), (Some(102_400), None));
    }
}
