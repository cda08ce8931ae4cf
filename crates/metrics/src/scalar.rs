//! Counters and gauges.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Increments the number.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds a number.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The number so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Resets the number to zero.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A number that grows and shrinks.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds a number, which may be negative.
    pub fn add(&self, difference: i64) {
        self.0.fetch_add(difference, Ordering::Relaxed);
    }

    /// Replaces the number.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The current number.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Increments a gauge of a value, and decrements it when the guard is dropped.
pub struct GaugeGuard<T> {
    owner: Arc<T>,
    gauge: fn(&T) -> &Gauge,
}

impl<T> GaugeGuard<T> {
    /// Increments a gauge of `owner`.
    #[must_use]
    pub fn new(owner: Arc<T>, gauge: fn(&T) -> &Gauge) -> Self {
        gauge(&owner).add(1);
        Self { owner, gauge }
    }
}

impl<T> Drop for GaugeGuard<T> {
    fn drop(&mut self) {
        (self.gauge)(&self.owner).add(-1);
    }
}

impl<T> std::fmt::Debug for GaugeGuard<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GaugeGuard")
    }
}
