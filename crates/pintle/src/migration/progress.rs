//! Logs the progress of the long steps of a migration.

use std::time::{Duration, Instant};

/// The interval between messages.
const INTERVAL: Duration = Duration::from_secs(5);

/// The progress of one step.
pub(super) struct ProgressLogger {
    step: &'static str,
    started: Instant,
    last_logged: Instant,
    done: u64,
}

impl ProgressLogger {
    pub(super) fn start(step: &'static str) -> Self {
        let now = Instant::now();
        Self { step, started: now, last_logged: now, done: 0 }
    }

    /// Logs the progress, but at most once per interval.
    pub(super) fn log(&mut self, done: u64, total: u64) {
        self.done = done;
        if self.last_logged.elapsed() >= INTERVAL {
            self.last_logged = Instant::now();
            let per_second = self.per_second();
            tracing::info!(target: "pintle::start", step = self.step, done, total, per_second, "Migrating objects");
        }
    }

    /// Logs the end of the step.
    pub(super) fn end(mut self, done: u64) {
        self.done = done;
        let (per_second, seconds) = (self.per_second(), self.started.elapsed().as_secs_f64());
        tracing::info!(target: "pintle::start", step = self.step, done, per_second, seconds, "Finished a step of the migration");
    }

    fn per_second(&self) -> u64 {
        (self.done as f64 / self.started.elapsed().as_secs_f64().max(1e-6)) as u64
    }
}
