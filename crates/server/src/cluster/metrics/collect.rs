//! The metrics that other components keep: watch caches, the store, admission plugins, and the controllers' work
//! queues.

use std::collections::HashSet;

use pintle_audit::AuditMetrics;
use pintle_auth::node::NodeAuthorizer;
use pintle_cache::HistoryStats;
use pintle_metrics::{Counter, Exposition, Kind, Stability, WorkQueueMetrics};
use pintle_store::StoreMetrics;
use pintle_value::Value;

use crate::cluster::Cluster;

/// Resource versions are shown modulo this, as a number that a float holds exactly (upstream:
/// `RecordResourceVersion`).
const RESOURCE_VERSION_MODULUS: u64 = 1_000_000_000_000_000;

impl Cluster {
    /// The metrics of `/metrics`. `version` is the document of `/version`.
    pub(crate) fn metrics_text(&self, version: &Value) -> String {
        let mut out = self.metrics.exposition();
        self.metrics.write(version, &mut out);
        self.write_watch_caches(&mut out);
        self.write_history(&mut out);
        self.write_store(&mut out);
        self.write_memory(&mut out);
        self.write_background_tasks(&mut out);
        self.write_node_authorizer(&mut out);
        self.write_api_services(&mut out);
        self.outbound.egress.write_metrics(&mut out);
        match &self.audit {
            Some(audit) => audit.metrics().write(&mut out),
            None => AuditMetrics::default().write(&mut out),
        }
        self.encryption.metrics().write(&mut out);
        if let Some(flow_control) = &self.flow_control {
            let controller = flow_control.last();
            controller.write_metrics(&mut out);
            for (kind, highest) in ["readOnly", "mutating"].into_iter().zip(controller.highest_waiting()) {
                let help = "Highest number of requests in queues in the last second, by kind.";
                out.family("apiserver_current_inqueue_requests", Kind::Gauge, Stability::Alpha, help)
                    .value(&[("request_kind", kind)], highest as f64);
            }
        }
        let admission = self.admission();
        admission.write_metrics(&mut out);
        admission.work_queues().for_each(|queue| write_work_queue(queue, &mut out));
        self.metrics.work_queues.all().iter().for_each(|queue| write_work_queue(queue, &mut out));
        out.into_text()
    }

    /// The changes of the node authorizer's graph.
    fn write_node_authorizer(&self, out: &mut Exposition) {
        let durations = self.last_node_authorizer().into_iter().flat_map(NodeAuthorizer::graph_durations);
        for (operation, durations) in durations.filter(|(_, durations)| durations.count() > 0) {
            let help = "Duration of changes of the node authorizer's graph in seconds, by operation.";
            out.family("node_authorizer_graph_actions_duration_seconds", Kind::Histogram, Stability::Alpha, help)
                .histogram(&[("operation", operation)], durations);
        }
    }

    /// The watch caches of all served resources.
    fn write_watch_caches(&self, out: &mut Exposition) {
        let registry = self.registry();
        let mut seen = HashSet::new();
        for hub in registry.hubs() {
            let Some(collection) = hub.collection() else { continue };
            // Each version of a custom resource is a hub.
            let cache = self.storage_of(&collection.prefix).cache;
            let Some(watch_cache) = cache.watch_cache(&collection.prefix) else { continue };
            if !seen.insert(collection.prefix.clone()) {
                continue;
            }
            let stats = watch_cache.stats();
            let labels = [("group", &*hub.group), ("resource", &*hub.plural)];
            let objects = Some(stats.objects as f64).filter(|_| self.settings.storage_metrics.objects);
            if let Some(objects) = objects {
                out.family(
                    "apiserver_storage_objects",
                    Kind::Gauge,
                    Stability::Stable,
                    "(Deprecated since 1.34.0) Stored objects by resource. apiserver_resource_objects replaces it.",
                )
                .value(&[("resource", &hub.group_resource().to_string())], objects);
                out.family(
                    "apiserver_resource_objects",
                    Kind::Gauge,
                    Stability::Alpha,
                    "Stored objects by group and resource.",
                )
                .value(&labels, objects);
            }
            let mut counter = |name, stability, help, count: u64| {
                out.family(name, Kind::Counter, stability, help).value(&labels, count as f64);
            };
            counter(
                "apiserver_watch_cache_events_received_total",
                Stability::Alpha,
                "Changes that the watch cache received, by resource.",
                stats.received,
            );
            counter(
                "apiserver_watch_cache_events_dispatched_total",
                Stability::Alpha,
                "Events that the watch cache dispatched, by resource.",
                stats.dispatched,
            );
            counter(
                "apiserver_storage_events_received_total",
                Stability::Beta,
                "Changes received from the store, by resource.",
                stats.received,
            );
            counter(
                "apiserver_watch_cache_initializations_total",
                Stability::Alpha,
                "How often the watch cache was filled from the store, by resource.",
                stats.initializations,
            );
            let revision = stats.newest_revision.max(cache.applied_revision()) % RESOURCE_VERSION_MODULUS;
            out.family(
                "apiserver_watch_cache_resource_version",
                Kind::Gauge,
                Stability::Alpha,
                "Resource version of the watch cache by resource, truncated to its 15 last digits.",
            )
            .value(&labels, revision as f64);
            out.family(
                "pintle_watch_cache_events",
                Kind::Gauge,
                Stability::Alpha,
                "Events that the watch cache keeps, by resource.",
            )
            .value(&labels, stats.events as f64);
        }
    }

    /// The history that all watch caches keep together.
    fn write_history(&self, out: &mut Exposition) {
        let history = self.storages().map(|storage| storage.cache.history_stats()).reduce(|one, other| HistoryStats {
            events: one.events + other.events,
            retained_bytes: one.retained_bytes + other.retained_bytes,
            oldest_age: one.oldest_age.max(other.oldest_age),
        });
        let history = history.unwrap_or_default();
        for (name, help, value) in [
            ("pintle_watch_cache_history_events", "Events in the watch history.", history.events as f64),
            (
                "pintle_watch_cache_history_bytes",
                "Size of the objects that only the watch history keeps, in bytes.",
                history.retained_bytes as f64,
            ),
            (
                "pintle_watch_cache_history_oldest_event_age_seconds",
                "Age of the oldest event in the watch history, in seconds; 0 if there is none.",
                history.oldest_age.as_secs_f64(),
            ),
            (
                "pintle_encoding_cache_bytes",
                "Size of the cache of encodings other than JSON, in bytes.",
                self.stores.cache.encoding_cache().size() as f64,
            ),
            (
                "pintle_compressed_blocks_bytes",
                "Size of the parts of compressed responses that are kept for later responses, in bytes.",
                self.stores.cache.encoding_cache().compressed_blocks().size() as f64,
            ),
        ] {
            out.family(name, Kind::Gauge, Stability::Alpha, help).value(&[], value);
        }
    }

    /// The bodies of requests, and the memory budget if there is one.
    fn write_memory(&self, out: &mut Exposition) {
        let help = "Bytes of request bodies that are held in memory.";
        let held = self.limits.bodies.held() as f64;
        out.family("pintle_request_body_bytes", Kind::Gauge, Stability::Alpha, help).value(&[], held);
        let help = "Bytes of memory that large writes have taken from what all writes share.";
        let taken = self.limits.work_memory.taken() as f64;
        out.family("pintle_write_memory_bytes", Kind::Gauge, Stability::Alpha, help).value(&[], taken);
        let Some(limit) = self.limits.memory.limit() else { return };
        let help = "Memory that the process may use, in bytes (--memory-limit-mib).";
        out.family("pintle_memory_limit_bytes", Kind::Gauge, Stability::Alpha, help).value(&[], limit as f64);
        let help = "Memory that counts against the limit, in bytes: resident, without pages of files.";
        let used = self.limits.memory.used() as f64;
        out.family("pintle_memory_used_bytes", Kind::Gauge, Stability::Alpha, help).value(&[], used);
        let help = "How short memory is: 0 not, 1 no encodings are cached, 2 the watch history is shortened, 3 writes that \
                    add objects or make them larger are refused.";
        let level = f64::from(self.limits.memory.level());
        out.family("pintle_memory_pressure_level", Kind::Gauge, Stability::Alpha, help).value(&[], level);
    }

    /// Writes which background tasks work at present, to explain the load of a server without requests.
    fn write_background_tasks(&self, out: &mut Exposition) {
        let help = "Time for which a background task has kept a thread busy, in seconds.";
        for task in self.lifecycle.background_tasks.all() {
            out.family("pintle_background_task_busy_seconds_total", Kind::Counter, Stability::Alpha, help)
                .value(&[("task", task.name())], task.busy_time().as_secs_f64());
        }
    }

    fn write_store(&self, out: &mut Exposition) {
        for (index, storage) in self.storages().enumerate().filter(|_| self.settings.storage_metrics.size) {
            let Some(bytes) = storage.store.size_bytes() else { continue };
            let help = "Size of the storage file in bytes.";
            out.family("apiserver_storage_size_bytes", Kind::Gauge, Stability::Stable, help)
                .value(&[("storage_cluster_id", &format!("etcd-{index}"))], bytes as f64);
        }
        let all: Vec<&StoreMetrics> = self.storages().filter_map(|storage| storage.store.metrics()).collect();
        if all.is_empty() {
            return;
        }
        let sum =
            |counter: fn(&StoreMetrics) -> &Counter| all.iter().map(|metrics| counter(metrics).get()).sum::<u64>();
        for (name, help, count) in [
            ("pintle_store_changes_total", "Changes that were committed to the store.", sum(|m| &m.changes)),
            ("pintle_store_commit_errors_total", "Commits of the store that failed.", sum(|m| &m.commit_errors)),
        ] {
            out.family(name, Kind::Counter, Stability::Alpha, help).value(&[], count as f64);
        }
        let Some(metrics) = self.stores.main.metrics() else { return };
        let help =
            "Duration of a commit of the store in seconds, in which the changes of many requests are synced at once.";
        out.family("pintle_store_commit_duration_seconds", Kind::Histogram, Stability::Alpha, help)
            .histogram(&[], &metrics.commit_durations);
    }
}

/// The name of the metric that queues without retries do not have.
const RETRIES: &str = "workqueue_retries_total";

/// The metrics of a work queue (upstream: `component-base/metrics/prometheus/workqueue`).
fn write_work_queue(queue: &WorkQueueMetrics, out: &mut Exposition) {
    let labels = [("name", queue.name())];
    let (unfinished, longest) = queue.running(tokio::time::Instant::now().into_std());
    for (name, kind, help, value) in [
        ("workqueue_depth", Kind::Gauge, "Items in the work queue.", queue.depth.get() as f64),
        ("workqueue_adds_total", Kind::Counter, "Items added to the work queue.", queue.adds.get() as f64),
        (RETRIES, Kind::Counter, "Retries of items of the work queue.", queue.retries.get() as f64),
        (
            "workqueue_unfinished_work_seconds",
            Kind::Gauge,
            "Total time of the work that is in progress, in seconds. Large values indicate that it is stuck.",
            unfinished.as_secs_f64(),
        ),
        (
            "workqueue_longest_running_processor_seconds",
            Kind::Gauge,
            "Time of the longest work that is in progress, in seconds.",
            longest.as_secs_f64(),
        ),
    ] {
        if name != RETRIES || queue.has_retries() {
            out.family(name, kind, Stability::Beta, help).value(&labels, value);
        }
    }
    for (name, help, histogram) in [
        (
            "workqueue_queue_duration_seconds",
            "How long an item waits in the work queue, in seconds.",
            &queue.queue_durations,
        ),
        (
            "workqueue_work_duration_seconds",
            "How long the processing of an item takes, in seconds.",
            &queue.work_durations,
        ),
    ] {
        out.family(name, Kind::Histogram, Stability::Beta, help).histogram(&labels, histogram);
    }
}
