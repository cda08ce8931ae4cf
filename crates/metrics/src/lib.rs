//! Counters, gauges and histograms, families of metrics by label, and the Prometheus text format.
//!
//! Recording is lock-free once the caller has the series, and finding a series allocates nothing. This crate has no
//! global registry and knows neither names nor meanings of metrics. The owner of a number keeps it, and the handler of
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
