//! The metrics of reads, watches and commits by group and resource (upstream: `storage/cacher/metrics`,
//! `storage/etcd3/metrics`, and the watch metrics of `endpoints/metrics`).

use std::sync::Arc;
use std::time::Duration;

use hashbrown::Equivalent;
use pintle_metrics::{Buckets, Counter, Exposition, Family, Gauge, GaugeGuard, Histogram, Kind, Stability};
use pintle_registry::Resource;
use pintle_value::Str;

const READ_WAITS: Buckets = Buckets::seconds(&[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0]);
const STORAGE_DURATIONS: Buckets = Buckets::seconds(&[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
]);
const EVENT_SIZES: Buckets = Buckets::bytes(&[1024.0, 2048.0, 4096.0, 8192.0, 16_384.0, 32_768.0, 65_536.0, 131_072.0]);

/// Labels in this order.
type Texts<const N: usize> = [Str; N];

/// Labels that borrow from the registry.
#[derive(Clone, Copy, Debug, Hash)]
struct Borrowed<'r, const N: usize>([&'r str; N]);

impl<const N: usize> Equivalent<Texts<N>> for Borrowed<'_, N> {
    fn equivalent(&self, labels: &Texts<N>) -> bool {
        self.0.iter().zip(labels).all(|(own, other)| own == other)
    }
}

impl<const N: usize> From<&Borrowed<'_, N>> for [Str; N] {
    fn from(labels: &Borrowed<'_, N>) -> Self {
        labels.0.map(Str::from)
    }
}

/// The operation of a commit, as `etcd_request_duration_seconds` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageOperation {
    Create,
    Update,
    Delete,
}

impl StorageOperation {
    const ALL: [StorageOperation; 3] = [StorageOperation::Create, StorageOperation::Update, StorageOperation::Delete];

    const fn name(self) -> &'static str {
        match self {
            StorageOperation::Create => "create",
            StorageOperation::Update => "update",
            StorageOperation::Delete => "delete",
        }
    }
}

/// Lists through one index.
#[derive(Debug, Default)]
struct IndexSeries {
    lists: Counter,
    fetched: Counter,
}

/// The series of the objects of a resource, whatever its version.
#[derive(Debug)]
pub(crate) struct CollectionSeries {
    /// By the name of the index; empty without one.
    indexes: Family<Texts<1>, IndexSeries>,
    returned: Counter,
    initial_events: Counter,
    consistent_reads: [Counter; 2],
    read_waits: Histogram,
    terminated_watchers: Counter,
    /// Watches of parts of the collection: the number of open watches and the total number.
    sharded_watches: Gauge,
    sharded_watches_started: Counter,
    filtered_events: Arc<Counter>,
    commits: [Histogram; 3],
    commit_errors: [Counter; 3],
}

impl Default for CollectionSeries {
    fn default() -> Self {
        Self {
            indexes: Family::default(),
            returned: Counter::default(),
            initial_events: Counter::default(),
            consistent_reads: Default::default(),
            read_waits: Histogram::new(READ_WAITS),
            terminated_watchers: Counter::default(),
            sharded_watches: Gauge::default(),
            sharded_watches_started: Counter::default(),
            filtered_events: Arc::default(),
            commits: [(); 3].map(|()| Histogram::new(STORAGE_DURATIONS)),
            commit_errors: Default::default(),
        }
    }
}

impl CollectionSeries {
    /// Records a list. `index` is the name of the field whose index the list used, or empty. `fetched` and `returned`
    /// count the objects that were read and returned.
    pub(crate) fn record_list(&self, index: &str, fetched: u64, returned: u64) {
        let series = self.indexes.get(&Borrowed([index]), IndexSeries::default);
        series.lists.inc();
        series.fetched.add(fetched);
        self.returned.add(returned);
    }

    /// Records a list of the newest state, and whether it succeeded.
    pub(crate) fn record_consistent_read(&self, success: bool) {
        self.consistent_reads[usize::from(success)].inc();
    }

    /// Records how long a list waited for its revision.
    pub(crate) fn record_read_wait(&self, waited: Duration) {
        self.read_waits.observe(waited);
    }

    /// Records objects that were sent to a new watcher because they existed before.
    pub(crate) fn record_initial_events(&self, count: u64) {
        self.initial_events.add(count);
    }

    /// Records a watch that ended because its client was too slow.
    pub(crate) fn record_terminated_watcher(&self) {
        self.terminated_watchers.inc();
    }

    /// Counts a watch of a part of the collection for as long as the guard lives.
    pub(super) fn begin_sharded_watch(self: Arc<Self>) -> GaugeGuard<Self> {
        self.sharded_watches_started.inc();
        GaugeGuard::new(self, |series| &series.sharded_watches)
    }

    /// Counts the objects that watches of parts of the collection do not select.
    pub(crate) fn filtered_events(&self) -> &Arc<Counter> {
        &self.filtered_events
    }

    /// Records a commit of one object.
    pub(crate) fn record_commit(&self, operation: StorageOperation, took: Duration, failed: bool) {
        self.commits[operation as usize].observe(took);
        if failed {
            self.commit_errors[operation as usize].inc();
        }
    }
}

/// The series of the watches of one version of a resource.
#[derive(Debug)]
pub(crate) struct WatchSeries {
    events: Histogram,
}

impl WatchSeries {
    /// Records an event that is sent to a client.
    pub(crate) fn record_event(&self, bytes: usize) {
        self.events.observe_bytes(bytes as u64);
    }
}

/// The series of all collections.
#[derive(Debug, Default)]
pub(super) struct Collections {
    by_resource: Family<Texts<2>, CollectionSeries>,
    watches: Family<Texts<3>, WatchSeries>,
}

impl Collections {
    pub(super) fn collection(&self, resource: &Resource) -> Arc<CollectionSeries> {
        self.by_resource.get(&Borrowed([&*resource.group, &*resource.plural]), CollectionSeries::default)
    }

    pub(super) fn watch(&self, resource: &Resource) -> Arc<WatchSeries> {
        let labels = Borrowed([&*resource.group, &*resource.version, &*resource.plural]);
        self.watches.get(&labels, || WatchSeries { events: Histogram::new(EVENT_SIZES) })
    }

    pub(super) fn clear(&self) {
        self.by_resource.clear();
        self.watches.clear();
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        for ([group, resource], series) in self.by_resource.all() {
            write_collection([("group", &*group), ("resource", &*resource)], &series, out);
        }
        for ([group, version, resource], series) in self.watches.all() {
            let labels = [("group", &*group), ("version", &*version), ("resource", &*resource)];
            let help = "Events sent to watching clients.";
            out.family("apiserver_watch_events_total", Kind::Counter, Stability::Alpha, help)
                .value(&labels, series.events.count() as f64);
            let help = "Size of watch events in bytes.";
            out.family("apiserver_watch_events_sizes", Kind::Histogram, Stability::Alpha, help)
                .histogram(&labels, &series.events);
        }
    }
}

fn write_collection(labels: [(&'static str, &str); 2], series: &CollectionSeries, out: &mut Exposition) {
    let indexes = series.indexes.all();
    for ([index], series) in &indexes {
        let labels = [&labels[..], &[("index", &**index)]].concat();
        for (name, help, counter) in [
            ("apiserver_cache_list_total", "Lists served from the watch cache.", &series.lists),
            (
                "apiserver_cache_list_fetched_objects_total",
                "Objects read from the watch cache to serve lists.",
                &series.fetched,
            ),
        ] {
            out.family(name, Kind::Counter, Stability::Alpha, help).value(&labels, counter.get() as f64);
        }
        // Since 1.37, the lists of watch caches and of etcd have metrics together. All lists come from watch caches here.
        let labels = [&labels[..], &[("storage", "watchcache")]].concat();
        for (name, help, counter) in [
            ("apiserver_storage_list_total", "Lists served from storage.", &series.lists),
            (
                "apiserver_storage_list_fetched_objects_total",
                "Objects read from storage to serve lists.",
                &series.fetched,
            ),
        ] {
            out.family(name, Kind::Counter, Stability::Alpha, help).value(&labels, counter.get() as f64);
        }
    }
    if !indexes.is_empty() {
        let labels = [&labels[..], &[("storage", "watchcache")]].concat();
        let help = "Objects returned by lists from storage.";
        out.family("apiserver_storage_list_returned_objects_total", Kind::Counter, Stability::Alpha, help)
            .value(&labels, series.returned.get() as f64);
        // As in upstream, the selectors of watch caches are not counted.
        let help = "Objects that selectors of lists from storage were compared with.";
        out.family("apiserver_storage_list_evaluated_objects_total", Kind::Counter, Stability::Alpha, help)
            .value(&labels, 0.0);
    }
    let mut counter = |name, help, counter: &Counter, is_shown: bool| {
        if is_shown {
            out.family(name, Kind::Counter, Stability::Alpha, help).value(&labels, counter.get() as f64);
        }
    };
    counter(
        "apiserver_cache_list_returned_objects_total",
        "Objects returned by lists from the watch cache.",
        &series.returned,
        !indexes.is_empty(),
    );
    let initial_events = &series.initial_events;
    counter(
        "apiserver_init_events_total",
        "Existing objects sent to new watchers by the watch cache, by resource.",
        initial_events,
        initial_events.get() > 0,
    );
    let terminated = &series.terminated_watchers;
    counter(
        "apiserver_terminated_watchers_total",
        "Watchers that were closed because they were too slow, by resource.",
        terminated,
        terminated.get() > 0,
    );
    let filtered = &series.filtered_events;
    counter(
        "apiserver_watch_filtered_events_total",
        "Events that watches of a part of a collection did not select, by resource.",
        filtered,
        filtered.get() > 0,
    );
    if series.sharded_watches_started.get() > 0 {
        let help = "Watches of a part of a collection at present, by resource.";
        out.family("apiserver_watch_shards_total", Kind::Gauge, Stability::Alpha, help)
            .value(&labels, series.sharded_watches.get() as f64);
    }
    for (success, reads) in ["false", "true"].into_iter().zip(&series.consistent_reads).filter(|(_, c)| c.get() > 0) {
        let help = "Consistent reads from the watch cache.";
        out.family("apiserver_watch_cache_consistent_read_total", Kind::Counter, Stability::Alpha, help)
            .value(&[labels[0], labels[1], ("success", success), ("fallback", "false")], reads.get() as f64);
    }
    if series.read_waits.count() > 0 {
        let help = "Time that reads waited for the watch cache to become fresh, in seconds.";
        out.family("apiserver_watch_cache_read_wait_seconds", Kind::Histogram, Stability::Alpha, help)
            .histogram(&labels, &series.read_waits);
    }
    for operation in StorageOperation::ALL {
        let (commits, errors) = (&series.commits[operation as usize], &series.commit_errors[operation as usize]);
        let labels = [labels[0], labels[1], ("operation", operation.name())];
        if commits.count() > 0 {
            let help = "Latency of storage requests in seconds, by operation and resource.";
            out.family("etcd_request_duration_seconds", Kind::Histogram, Stability::Alpha, help)
                .histogram(&labels, commits);
            let help = "Storage requests by operation and resource.";
            out.family("etcd_requests_total", Kind::Counter, Stability::Alpha, help)
                .value(&labels, commits.count() as f64);
        }
        if errors.get() > 0 {
            let help = "Failed storage requests by operation and resource.";
            out.family("etcd_request_errors_total", Kind::Counter, Stability::Alpha, help)
                .value(&labels, errors.get() as f64);
        }
    }
}
