//! Writes the metrics, under upstream's names, labels and help texts. Metrics that upstream hides because they are
//! deprecated are left out.

use std::cmp::Reverse;
use std::sync::Arc;

use hashbrown::HashMap;
use pintle_metrics::{Exposition, FamilyWriter, Kind, Stability};
use pintle_value::Str;

use super::{FlowControlMetrics, KindGauges, SchemaSeries};
use crate::Moment;
use crate::gauge::RatioGauge;
use crate::level::{Level, LevelState};
use crate::queue_set::{FlowUse, Phase, QueueSet, RejectReason};

/// The number of flows of a level whose use is a metric.
const SHOWN_FLOWS: usize = 10;

impl FlowControlMetrics {
    /// Writes the metrics of all levels.
    pub(crate) fn write(&self, levels: &[Arc<Level>], fair_fraction: f64, now: Moment, out: &mut Exposition) {
        let help = "Fair fraction of server's concurrency to allocate to each priority level that can use it";
        gauge(out, "apiserver_flowcontrol_seat_fair_frac", help).value(&[], fair_fraction);
        let help = "Observations, at the end of every nanosecond, of the number of requests (as a fraction of the \
                    relevant limit) waiting or in regular stage of execution";
        let name = "apiserver_flowcontrol_read_vs_write_current_requests";
        for (kind, gauges) in ["readOnly", "mutating"].into_iter().zip(&self.kinds) {
            let KindGauges { waiting, executing } = &mut *gauges.lock();
            for (phase, gauge) in [("waiting", waiting), ("executing", executing)] {
                timing(out, name, help, &[("phase", phase), ("request_kind", kind)], gauge, now);
            }
        }
        for level in levels {
            level.update(now, |state| {
                state.queues.advance(now);
                write_level(&level.name, state, now, out);
            });
        }
        let schemas = self.schemas.all();
        for ((level, _), series) in &schemas {
            write_schema(level, series, out);
        }
        write_requests(levels, &schemas, out);
    }
}

fn write_level(name: &str, state: &mut LevelState, now: Moment, out: &mut Exposition) {
    let LevelState { queues, limits, demand, target, gauges, .. } = state;
    let labels = [("priority_level", name)];
    let values = [
        (
            "apiserver_flowcontrol_lower_limit_seats",
            limits.min as f64,
            "Configured lower bound on number of execution seats available to each priority level",
        ),
        (
            "apiserver_flowcontrol_upper_limit_seats",
            limits.max as f64,
            "Configured upper bound on number of execution seats available to each priority level",
        ),
        (
            "apiserver_flowcontrol_current_limit_seats",
            queues.concurrency_limit() as f64,
            "current derived number of execution seats available to each priority level",
        ),
        (
            "apiserver_flowcontrol_demand_seats_high_watermark",
            demand.high_watermark as f64,
            "High watermark, over last adjustment period, of demand_seats",
        ),
        (
            "apiserver_flowcontrol_demand_seats_average",
            demand.average,
            "Time-weighted average, over last adjustment period, of demand_seats",
        ),
        (
            "apiserver_flowcontrol_demand_seats_stdev",
            demand.deviation,
            "Time-weighted standard deviation, over last adjustment period, of demand_seats",
        ),
        ("apiserver_flowcontrol_demand_seats_smoothed", demand.smoothed, "Smoothed seat demands"),
        ("apiserver_flowcontrol_target_seats", *target, "Seat allocation targets"),
        ("apiserver_flowcontrol_current_r", queues.current_r().as_f64(), "R(time of last change)"),
    ];
    for (name, value, help) in values {
        gauge(out, name, help).value(&labels, value);
    }
    let help = "Nominal number of execution seats configured for each priority level";
    let mut nominal = out.family("apiserver_flowcontrol_nominal_limit_seats", Kind::Gauge, Stability::Beta, help);
    nominal.value(&labels, limits.nominal as f64);
    write_last_dispatch(name, queues, out);
    let help = "Number of times the queueset's progress meter jumped backward";
    for (success, count) in ["false", "true"].into_iter().zip(queues.epoch_advances()).filter(|(_, count)| *count > 0) {
        let labels = [("priority_level", name), ("success", success)];
        counter(out, "apiserver_flowcontrol_epoch_advance_total", Stability::Alpha, help).value(&labels, count as f64);
    }
    let utilization = "apiserver_flowcontrol_priority_level_seat_utilization";
    let help = "Observations, at the end of every nanosecond, of utilization of seats for any stage of execution (but \
                only initial stage for WATCHes)";
    let labels = [("phase", "executing"), ("priority_level", name)];
    timing(out, utilization, help, &labels, &mut gauges.seats, now);
    let utilization = "apiserver_flowcontrol_priority_level_request_utilization";
    let help = "Observations, at the end of every nanosecond, of number of requests (as a fraction of the relevant \
                limit) waiting or in any stage of execution (but only initial stage for WATCHes)";
    timing(out, utilization, help, &labels, &mut gauges.executing, now);
    let labels = [("phase", "waiting"), ("priority_level", name)];
    timing(out, utilization, help, &labels, &mut gauges.waiting, now);
    let help = "Observations, at the end of every nanosecond, of (the number of seats each priority level could use) / \
                (nominal number of seats for that level)";
    let labels = [("priority_level", name)];
    timing(out, "apiserver_flowcontrol_demand_seats", help, &labels, &mut gauges.demand, now);
    write_flows(name, queues, out);
}

fn write_last_dispatch(name: &str, queues: &QueueSet, out: &mut Exposition) {
    let Some(last) = queues.last_dispatch() else { return };
    let labels = [("priority_level", name)];
    gauge(out, "apiserver_flowcontrol_dispatch_r", "R(time of last dispatch)").value(&labels, last.r.as_f64());
    let help = "S(most recently dispatched request)";
    gauge(out, "apiserver_flowcontrol_latest_s", help).value(&labels, last.start.as_f64());
    let ranges = [
        (
            "apiserver_flowcontrol_next_s_bounds",
            last.bounds,
            "min and max, over queues, of S(oldest waiting request in queue)",
        ),
        (
            "apiserver_flowcontrol_next_discounted_s_bounds",
            last.discounted,
            "min and max, over queues, of S(oldest waiting request in queue) - estimated work in progress",
        ),
    ];
    for (metric, range, help) in ranges {
        for (bound, reading) in ["min", "max"].into_iter().zip(range) {
            gauge(out, metric, help).value(&[("priority_level", name), ("bound", bound)], reading.as_f64());
        }
    }
}

/// Writes the use of seats of the flows of a level that have taken most. Upstream has no such metric.
fn write_flows(name: &str, queues: &QueueSet, out: &mut Exposition) {
    let mut flows: Vec<&FlowUse> = queues.flow_uses().filter(|flow| flow.executed > 0).collect();
    flows.sort_unstable_by_key(|flow| Reverse(flow.actual));
    let help = "Seat-seconds that the flow has taken, for the flows of each priority level that have taken most.";
    for flow in flows.into_iter().take(SHOWN_FLOWS) {
        let labels =
            [("priority_level", name), ("flow_schema", &flow.schema.name), ("flow_distinguisher", &flow.distinguisher)];
        let mut family = counter(out, "pintle_flowcontrol_flow_seat_seconds_total", Stability::Alpha, help);
        family.value(&labels, flow.actual.as_f64());
    }
}

fn write_schema(level: &str, series: &SchemaSeries, out: &mut Exposition) {
    let labels = [("priority_level", level), ("flow_schema", &series.name)];
    let help = "Number of requests rejected by API Priority and Fairness subsystem";
    for (reason, count) in RejectReason::ALL.into_iter().zip(&series.rejected).filter(|(_, count)| count.get() > 0) {
        let labels = [labels[0], labels[1], ("reason", reason.name())];
        let mut rejected = counter(out, "apiserver_flowcontrol_rejected_requests_total", Stability::Beta, help);
        rejected.value(&labels, count.get() as f64);
    }
    let counters = [
        (
            "apiserver_flowcontrol_dispatched_requests_total",
            Stability::Beta,
            &series.dispatched,
            "Number of requests executed by API Priority and Fairness subsystem",
        ),
        (
            "apiserver_flowcontrol_request_dispatch_no_accommodation_total",
            Stability::Alpha,
            &series.no_accommodation,
            "Number of times a dispatch attempt resulted in a non accommodation due to lack of available seats",
        ),
    ];
    for (name, stability, count, help) in counters.into_iter().filter(|(_, _, count, _)| count.get() > 0) {
        counter(out, name, stability, help).value(&labels, count.get() as f64);
    }
    let histograms = [
        (
            "apiserver_flowcontrol_request_queue_length_after_enqueue",
            &series.queue_length,
            "Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is enqueued",
        ),
        (
            "apiserver_flowcontrol_watch_count_samples",
            &series.watch_counts,
            "count of watchers for mutating requests in API Priority and Fairness",
        ),
        (
            "apiserver_flowcontrol_work_estimated_seats",
            &series.estimated_seats,
            "Number of estimated seats (maximum of initial and final seats) associated with requests in API Priority and Fairness",
        ),
    ];
    for (name, histogram, help) in histograms.into_iter().filter(|(_, histogram, _)| histogram.count() > 0) {
        out.family(name, Kind::Histogram, Stability::Alpha, help).histogram(&labels, histogram);
    }
    let name = "apiserver_flowcontrol_request_wait_duration_seconds";
    let help = "Length of time a request spent waiting in its queue";
    for (execute, waits) in ["false", "true"].into_iter().zip(&series.waits).filter(|(_, waits)| waits.count() > 0) {
        let labels = [labels[0], labels[1], ("execute", execute)];
        out.family(name, Kind::Histogram, Stability::Beta, help).histogram(&labels, waits);
    }
    let name = "apiserver_flowcontrol_request_execution_seconds";
    let help = "Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API \
                Priority and Fairness subsystem";
    let executions = ["regular", "watch"].into_iter().zip(&series.executions);
    for (kind, durations) in executions.filter(|(_, durations)| durations.count() > 0) {
        let labels = [labels[0], labels[1], ("type", kind)];
        out.family(name, Kind::Histogram, Stability::Alpha, help).histogram(&labels, durations);
    }
}

/// Waiting requests, waiting seats, executing requests, executing seats.
const REQUESTS: [(&str, Stability, &str); 4] = [
    (
        "apiserver_flowcontrol_current_inqueue_requests",
        Stability::Beta,
        "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
    ),
    (
        "apiserver_flowcontrol_current_inqueue_seats",
        Stability::Alpha,
        "Number of seats currently pending in queues of the API Priority and Fairness subsystem",
    ),
    (
        "apiserver_flowcontrol_current_executing_requests",
        Stability::Beta,
        "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness subsystem",
    ),
    (
        "apiserver_flowcontrol_current_executing_seats",
        Stability::Beta,
        "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in the API Priority and Fairness subsystem",
    ),
];

/// Writes the numbers of requests and seats by level and schema. A schema that has had requests stays, with zeros.
fn write_requests(levels: &[Arc<Level>], schemas: &[((Str, Str), Arc<SchemaSeries>)], out: &mut Exposition) {
    // A schema has a series for each level, so the series alone is the key.
    let mut numbers: HashMap<*const SchemaSeries, [usize; 4]> = HashMap::new();
    for level in levels {
        level.read(|state| {
            for (series, phase, seats) in state.queues.by_schema() {
                let counted = match phase {
                    Phase::Waiting => [1, seats, 0, 0],
                    Phase::Executing => [0, 0, 1, seats],
                    Phase::Lingering => [0, 0, 0, seats],
                };
                let numbers = numbers.entry(Arc::as_ptr(series)).or_default();
                numbers.iter_mut().zip(counted).for_each(|(number, counted)| *number += counted);
            }
        });
    }
    let has_had_requests = |series: &SchemaSeries| series.queue_length.count() + series.dispatched.get() > 0;
    for ((level, schema), series) in schemas.iter().filter(|(_, series)| has_had_requests(series)) {
        let numbers = numbers.get(&Arc::as_ptr(series)).copied().unwrap_or_default();
        let labels = [("priority_level", level.as_str()), ("flow_schema", schema.as_str())];
        for ((name, stability, help), number) in REQUESTS.into_iter().zip(numbers) {
            out.family(name, Kind::Gauge, stability, help).value(&labels, number as f64);
        }
    }
}

fn counter<'e>(out: &'e mut Exposition, name: &'static str, stability: Stability, help: &str) -> FamilyWriter<'e> {
    out.family(name, Kind::Counter, stability, help)
}

fn gauge<'e>(out: &'e mut Exposition, name: &'static str, help: &str) -> FamilyWriter<'e> {
    out.family(name, Kind::Gauge, Stability::Alpha, help)
}

/// Writes a histogram over time. Upstream's library puts a word before the level of stability.
fn timing(
    out: &mut Exposition,
    name: &'static str,
    help: &str,
    labels: &[(&'static str, &str)],
    gauge: &mut RatioGauge,
    now: Moment,
) {
    let help = format!("EXPERIMENTAL: [ALPHA] {help}");
    out.family(name, Kind::Histogram, Stability::None, &help).timing_histogram(labels, gauge.histogram(now));
}
