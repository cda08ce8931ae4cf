//! Metrics of flow control (upstream: `util/flowcontrol/metrics`). Numbers that the state of a level has are read from
//! there when metrics are written.

mod write;

use std::sync::Arc;

use pintle_locks::Mutex;
use pintle_metrics::{Buckets, Counter, Family, Histogram, Watermark};
use pintle_value::Str;

use crate::Moment;
use crate::gauge::RatioGauge;
use crate::queue_set::RejectReason;

const DURATIONS: Buckets = Buckets::seconds(&[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0]);
const QUEUE_LENGTHS: Buckets = Buckets::bytes(&[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0]);
const WATCH_COUNTS: Buckets = Buckets::bytes(&[0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0]);
const ESTIMATED_SEATS: Buckets = Buckets::bytes(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0]);
const SEAT_UTILIZATION: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const REQUEST_UTILIZATION: &[f64] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const READ_VS_WRITE: &[f64] = &[0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const SEAT_DEMAND: &[f64] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];

/// The metrics of a flow schema at a priority level.
#[derive(Debug)]
pub struct SchemaSeries {
    pub(crate) name: Str,
    pub(crate) dispatched: Counter,
    /// By [`RejectReason`].
    pub(crate) rejected: [Counter; RejectReason::ALL.len()],
    pub(crate) no_accommodation: Counter,
    pub(crate) queue_length: Histogram,
    /// By the label `execute`.
    pub(crate) waits: [Histogram; 2],
    /// By whether the request is a watch.
    pub(crate) executions: [Histogram; 2],
    pub(crate) watch_counts: Histogram,
    pub(crate) estimated_seats: Histogram,
}

impl SchemaSeries {
    /// The metrics of a schema.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let durations = || [Histogram::new(DURATIONS), Histogram::new(DURATIONS)];
        Self {
            name: name.into(),
            dispatched: Counter::default(),
            rejected: Default::default(),
            no_accommodation: Counter::default(),
            queue_length: Histogram::new(QUEUE_LENGTHS),
            waits: durations(),
            executions: durations(),
            watch_counts: Histogram::new(WATCH_COUNTS),
            estimated_seats: Histogram::new(ESTIMATED_SEATS),
        }
    }
}

/// The gauges of a level.
#[derive(Debug)]
pub(crate) struct LevelGauges {
    pub(crate) waiting: RatioGauge,
    pub(crate) executing: RatioGauge,
    pub(crate) seats: RatioGauge,
    pub(crate) demand: RatioGauge,
}

impl LevelGauges {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            waiting: RatioGauge::new(REQUEST_UTILIZATION, now),
            executing: RatioGauge::new(REQUEST_UTILIZATION, now),
            seats: RatioGauge::new(SEAT_UTILIZATION, now),
            demand: RatioGauge::new(SEAT_DEMAND, now),
        }
    }
}

/// The requests of all levels that read, or that write.
#[derive(Debug)]
pub(crate) struct KindGauges {
    pub(crate) waiting: RatioGauge,
    pub(crate) executing: RatioGauge,
}

/// The metrics that are not a part of a level.
#[derive(Debug)]
pub(crate) struct FlowControlMetrics {
    /// By the names of the level and the schema.
    schemas: Family<(Str, Str), SchemaSeries>,
    /// Requests that read, and requests that write.
    pub(crate) kinds: [Mutex<KindGauges>; 2],
    /// The requests that wait and only read, and the requests that wait and write.
    pub(crate) waiting: [Watermark; 2],
}

/// The names of a level and a schema.
#[derive(Hash)]
struct SchemaNames<'n>(&'n str, &'n str);

impl hashbrown::Equivalent<(Str, Str)> for SchemaNames<'_> {
    fn equivalent(&self, (level, schema): &(Str, Str)) -> bool {
        self.0 == level && self.1 == schema
    }
}

impl From<&SchemaNames<'_>> for (Str, Str) {
    fn from(names: &SchemaNames<'_>) -> Self {
        (names.0.into(), names.1.into())
    }
}

impl FlowControlMetrics {
    pub(crate) fn new(now: Moment) -> Self {
        let kind = || {
            let [waiting, executing] = [READ_VS_WRITE; 2].map(|bounds| RatioGauge::new(bounds, now));
            Mutex::new(KindGauges { waiting, executing })
        };
        Self { schemas: Family::default(), kinds: [kind(), kind()], waiting: Default::default() }
    }

    pub(crate) fn schema(&self, level: &str, schema: &str) -> Arc<SchemaSeries> {
        self.schemas.get(&SchemaNames(level, schema), || SchemaSeries::new(schema))
    }
}
