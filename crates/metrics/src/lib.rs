//! Counters, gauges and histograms, families of them by label, and the Prometheus text format that shows them.
//!
//! Recording is lock-free once a series is at hand, and finding a series allocates nothing. This crate has no global
//! registry and knows neither names nor meanings of metrics: whoever owns a number keeps it, and whoever serves
//! `/metrics` writes it into an [`Exposition`].

mod exposition;
mod family;
mod histogram;
mod scalar;
mod work_queue;

pub use exposition::{Exposition, FamilyWriter, Kind, Labels, Stability};
pub use family::Family;
pub use histogram::{Buckets, Histogram};
pub use scalar::{Counter, Gauge, GaugeGuard};
pub use work_queue::{StartedItem, WorkQueueMetrics};
