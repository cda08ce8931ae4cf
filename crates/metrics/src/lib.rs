//! Counters, gauges and histograms, families of metrics by label, and the Prometheus text format.
//!
//! Recording is lock-free once the caller has the series, and finding a series allocates nothing. This crate has no
//! global registry and knows neither names nor meanings of metrics. The owner of a number keeps it, and the handler of
//! `/metrics` writes it into an [`Exposition`].
//!
//! ```
//! use pintle_metrics::{Counter, Exposition, Family, Kind, Stability};
//!
//! let requests: Family<String, Counter> = Family::default();
//! requests.get("get", Counter::default).inc();
//! requests.get("get", Counter::default).inc();
//!
//! let mut exposition = Exposition::default();
//! let mut writer = exposition.family("requests_total", Kind::Counter, Stability::Stable, "Number of requests.");
//! for (verb, count) in requests.all() {
//!     writer.value(&[("verb", &verb)], count.get() as f64);
//! }
//! assert!(exposition.into_text().contains("\nrequests_total{verb=\"get\"} 2\n"));
//! ```

mod exposition;
mod family;
mod histogram;
mod scalar;
mod timing_histogram;
mod watermark;
mod work_queue;

pub use exposition::{Exposition, FamilyChange, FamilyChanges, FamilyWriter, Kind, Labels, Stability};
pub use family::Family;
pub use histogram::{Buckets, Histogram};
pub use scalar::{Counter, Gauge, GaugeGuard};
pub use timing_histogram::TimingHistogram;
pub use watermark::Watermark;
pub use work_queue::{StartedItem, WorkQueueMetrics};
