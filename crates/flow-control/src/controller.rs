//! The controller of flow control (upstream: `apf_controller.go`, `apf_filter.go`): the configuration from the objects,
//! the schemas of requests, and the periodic adjustment of limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pintle_locks::{Mutex, RwLock};
use pintle_metrics::{Exposition, Watermark};
use pintle_value::{Str, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::Moment;
use crate::admission::Class;
use crate::borrowing::{LevelDemand, borrow_seats};
use crate::flow_schema::{CATCH_ALL, DanglingCondition, Distinguisher, EXEMPT, FlowSchema};
use crate::level::{Level, Schedule};
use crate::matching::{MatchIndex, RequestAttributes};
use crate::metrics::{FlowControlMetrics, SchemaSeries};
use crate::priority_level::PriorityLevel;
use crate::queue_set::LimitResponse;
use crate::watch_tracker::WatchTracker;

/// The time between two adjustments of the limits of priority levels.
const ADJUSTMENT_PERIOD: Duration = Duration::from_secs(10);

/// The options of flow control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowControlOptions {
    /// The number of requests that the server handles at the same time. Priority levels share it.
    pub server_concurrency_limit: usize,
    /// Whether the real use of seats and processors limits a flow. Work beyond the estimates delays later requests of the
    /// flow, bodies take seats by their size, and no flow gets the last free seats. Without it, flows are treated as in
    /// upstream.
    pub charges_actual_cost: bool,
}

/// The parts of a controller that requests need until their ends.
#[derive(Debug)]
pub(crate) struct Shared {
    started: Instant,
    /// The wall time of the start, since the Unix epoch.
    started_at: Duration,
    schedule: Arc<Schedule>,
    /// The seats of the server for each of its processors.
    pub(crate) seats_per_processor: f64,
    pub(crate) metrics: FlowControlMetrics,
    /// Notified when a level that is to be removed has no more requests.
    pub(crate) drained: Notify,
}

impl Shared {
    /// The time since the start of the controller.
    pub(crate) fn now(&self) -> Moment {
        self.started.elapsed().into()
    }

    /// A time in Unix time.
    pub(crate) fn unix_time(&self, now: Moment) -> Duration {
        self.started_at + now.since(Moment::START)
    }
}

/// A flow schema and its priority level.
#[derive(Debug)]
pub(crate) struct ConfiguredSchema {
    pub(crate) name: Str,
    pub(crate) uid: Str,
    pub(crate) level_uid: Str,
    pub(crate) level: Arc<Level>,
    pub(crate) is_exempt: bool,
    /// The maximum number of seats of a request; zero without limit.
    pub(crate) max_seats: u64,
    /// `None` if the level has no queues to choose from.
    pub(crate) distinguisher: Option<Distinguisher>,
    pub(crate) series: Arc<SchemaSeries>,
    pub(crate) shared: Arc<Shared>,
}

#[derive(Clone, Debug)]
struct ConfiguredLevel {
    spec: PriorityLevel,
    level: Arc<Level>,
}

/// A snapshot of the configuration.
#[derive(Debug)]
struct Configuration {
    index: MatchIndex,
    /// In the order of matching.
    schemas: Vec<Arc<ConfiguredSchema>>,
    catch_all: Arc<ConfiguredSchema>,
    levels: BTreeMap<Str, ConfiguredLevel>,
}

/// The objects of the present configuration.
#[derive(Debug, Default)]
struct Objects {
    schemas: Vec<FlowSchema>,
    levels: Vec<PriorityLevel>,
    /// The fair fraction of the last adjustment.
    fair_fraction: f64,
}

/// Classifies requests, and lets each begin when its priority level has seats for it.
#[derive(Debug)]
pub struct FlowController {
    options: FlowControlOptions,
    shared: Arc<Shared>,
    configuration: RwLock<Arc<Configuration>>,
    /// Held during a change of the configuration.
    objects: Mutex<Objects>,
    watches: WatchTracker,
}

impl FlowController {
    /// A controller with the mandatory schemas and levels.
    #[must_use]
    pub fn new(options: FlowControlOptions) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            started: Instant::now(),
            started_at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            schedule: Arc::new(Schedule::new()),
            seats_per_processor: options.server_concurrency_limit as f64 / processors as f64,
            metrics: FlowControlMetrics::new(Moment::START),
            drained: Notify::new(),
        });
        let mut objects = Objects::default();
        let (configuration, _) = digest(options, &shared, &mut objects, &BTreeMap::new());
        Self {
            options,
            shared,
            configuration: RwLock::new(Arc::new(configuration)),
            objects: Mutex::new(objects),
            watches: WatchTracker::default(),
        }
    }

    pub(crate) fn charges_actual_cost(&self) -> bool {
        self.options.charges_actual_cost
    }

    /// Replaces the configuration by all FlowSchema and PriorityLevelConfiguration objects. Requests that wait keep their
    /// places. Returns the conditions that the schemas should have and have not.
    pub fn configure<'v>(
        &self,
        flow_schemas: impl IntoIterator<Item = &'v Value>,
        priority_levels: impl IntoIterator<Item = &'v Value>,
    ) -> Vec<DanglingCondition> {
        let decode = |object: &Value| {
            let decoded = PriorityLevel::decode(object);
            if let Err(error) = &decoded {
                let name = object.name();
                tracing::warn!(name, error, "Ignoring PriorityLevelConfiguration object because its spec is broken");
            }
            decoded.ok()
        };
        let mut objects = self.objects.lock();
        objects.schemas = flow_schemas.into_iter().map(FlowSchema::decode).collect();
        objects.levels = priority_levels.into_iter().filter_map(decode).collect();
        self.digest(&mut objects)
    }

    fn digest(&self, objects: &mut Objects) -> Vec<DanglingCondition> {
        let old = self.configuration.read().clone();
        let (configuration, conditions) = digest(self.options, &self.shared, objects, &old.levels);
        *self.configuration.write() = Arc::new(configuration);
        conditions
    }

    /// Removes the levels without requests whose objects were deleted.
    fn remove_drained(&self) {
        let mut objects = self.objects.lock();
        let is_drained = |level: &ConfiguredLevel| level.level.read(|state| state.is_useless());
        if self.configuration.read().levels.values().any(is_drained) {
            self.digest(&mut objects);
        }
    }

    /// Waits until a change of the configuration that is under way is in force.
    pub(crate) fn wait_for_configuration(&self) {
        drop(self.objects.lock());
    }

    /// Finds the flow schema of a request and its priority level.
    #[must_use]
    pub fn classify<'r>(&self, attributes: &'r RequestAttributes<'r>) -> Class<'r> {
        let configuration = self.configuration.read();
        let found = configuration.index.find(attributes).and_then(|place| configuration.schemas.get(place));
        let schema = found.unwrap_or(&configuration.catch_all).clone();
        Class { schema, attributes, is_unmatched: found.is_none() }
    }

    /// The watches that writes wake.
    #[must_use]
    pub fn watches(&self) -> &WatchTracker {
        &self.watches
    }

    /// Adjusts the limits of the levels every ten seconds, lets requests that wait have the seats of requests that
    /// linger, and removes levels. Never ends.
    pub async fn run(&self) {
        let Shared { started, schedule, drained, .. } = &*self.shared;
        let mut next_adjustment = Instant::now();
        loop {
            let due =
                schedule.due().map_or(next_adjustment, |due| next_adjustment.min(*started + due.since(Moment::START)));
            tokio::select! {
                () = sleep_until(due) => {
                    if Instant::now() >= next_adjustment {
                        self.adjust_limits();
                        next_adjustment = Instant::now() + ADJUSTMENT_PERIOD;
                    }
                    schedule.reset();
                    self.advance();
                }
                () = schedule.changed.notified() => {}
                () = drained.notified() => self.remove_drained(),
            }
        }
    }

    /// Adjusts the limits of the levels to their demands. [`FlowController::run`] calls this.
    pub fn adjust_limits(&self) {
        let mut objects = self.objects.lock();
        let configuration = self.configuration.read().clone();
        objects.fair_fraction =
            adjust(configuration.levels.values(), self.options.server_concurrency_limit, self.shared.now());
    }

    /// Releases the seats of the requests that have lingered long enough.
    fn advance(&self) {
        let now = self.shared.now();
        for level in self.levels() {
            level.update(now, |state| state.queues.advance(now));
        }
    }

    /// The levels by name.
    pub(crate) fn levels(&self) -> Vec<Arc<Level>> {
        self.configuration.read().levels.values().map(|level| level.level.clone()).collect()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The highest number of requests in queues in the last second: of requests that read, and of requests that write.
    #[must_use]
    pub fn highest_waiting(&self) -> [u64; 2] {
        self.shared.metrics.waiting.each_ref().map(Watermark::highest)
    }

    /// Writes the metrics.
    pub fn write_metrics(&self, exposition: &mut Exposition) {
        let fair_fraction = self.objects.lock().fair_fraction;
        self.shared.metrics.write(&self.levels(), fair_fraction, self.shared.now(), exposition);
    }
}

/// Makes a configuration from the objects and the levels of the configuration before.
fn digest(
    options: FlowControlOptions,
    shared: &Arc<Shared>,
    objects: &mut Objects,
    old: &BTreeMap<Str, ConfiguredLevel>,
) -> (Configuration, Vec<DanglingCondition>) {
    let now = shared.now();
    let mut specs: BTreeMap<Str, PriorityLevel> =
        objects.levels.iter().map(|level| (level.name.clone(), level.clone())).collect();
    let exists = |schema: &&FlowSchema| specs.contains_key(&schema.priority_level);
    let conditions = objects.schemas.iter().filter_map(|schema| schema.dangling_condition(!exists(&schema))).collect();
    let schemas = in_order(objects.schemas.iter().filter(exists).cloned().collect());
    let undesired: Vec<_> = old.iter().filter(|(name, _)| !specs.contains_key(*name)).collect();
    let mut quiescing = Vec::new();
    for (name, ConfiguredLevel { spec, level }) in undesired {
        let is_mandatory = [EXEMPT, CATCH_ALL].contains(&name.as_str());
        // A level with requests keeps its share until they have ended.
        if is_mandatory || !level.remove_if_idle() {
            specs.insert(name.clone(), spec.clone());
            quiescing.extend((!is_mandatory).then(|| name.clone()));
        }
    }
    specs.entry(EXEMPT.into()).or_insert_with(PriorityLevel::exempt);
    let catch_all = specs.remove(CATCH_ALL).unwrap_or_else(PriorityLevel::catch_all);
    let shares = specs.values().chain([&catch_all]).map(PriorityLevel::shares).sum();
    let level = |spec: PriorityLevel| {
        let limits = spec.seat_limits(options.server_concurrency_limit, shares);
        let new = || Arc::new(Level::new(&spec, limits, options.charges_actual_cost, shared.schedule.clone(), now));
        let level = old.get(&spec.name).map_or_else(new, |old| old.level.clone());
        let is_useless = level.update(now, |state| {
            state.limits = limits;
            state.limit_response = spec.limit_response;
            state.is_quiescing = quiescing.contains(&spec.name);
            state.is_useless()
        });
        // Its last request may have ended before the level was told.
        if is_useless {
            shared.drained.notify_one();
        }
        ConfiguredLevel { spec, level }
    };
    let catch_all = level(catch_all);
    let mut levels: BTreeMap<Str, ConfiguredLevel> =
        specs.into_iter().map(|(name, spec)| (name, level(spec))).collect();
    levels.insert(CATCH_ALL.into(), catch_all.clone());
    objects.fair_fraction = adjust(levels.values(), options.server_concurrency_limit, now);
    set_limits_of_kinds(levels.values(), shared, now);
    let with_level = |schema: FlowSchema| levels.get(&schema.priority_level).map(|level| (schema, level));
    let schemas: Vec<_> = schemas.into_iter().filter_map(with_level).collect();
    let index = MatchIndex::new(schemas.iter().map(|(schema, _)| schema));
    let schemas: Vec<_> =
        schemas.into_iter().map(|(schema, level)| Arc::new(ConfiguredSchema::new(schema, level, shared))).collect();
    let mandatory = || Arc::new(ConfiguredSchema::new(FlowSchema::catch_all(), &catch_all, shared));
    let catch_all = schemas.iter().find(|schema| schema.name == CATCH_ALL).cloned().unwrap_or_else(mandatory);
    (Configuration { index, schemas, catch_all, levels }, conditions)
}

/// Sorts schemas in the order of matching, and adds the mandatory schemas.
fn in_order(mut schemas: Vec<FlowSchema>) -> Vec<FlowSchema> {
    schemas.sort_by(|one, other| (one.precedence, &one.name).cmp(&(other.precedence, &other.name)));
    let has = |name: &str| schemas.iter().any(|schema| schema.name == name);
    let exempt = (!has(EXEMPT)).then(FlowSchema::exempt);
    let catch_all = (!has(CATCH_ALL)).then(FlowSchema::catch_all);
    exempt.into_iter().chain(schemas).chain(catch_all).collect()
}

impl ConfiguredSchema {
    fn new(schema: FlowSchema, level: &ConfiguredLevel, shared: &Arc<Shared>) -> Self {
        let ConfiguredLevel { spec, level } = level;
        let has_choice = matches!(spec.limit_response, LimitResponse::Queue { dealer, .. } if dealer.deck_size() > 1);
        let nominal = level.read(|state| state.limits.nominal);
        Self {
            series: shared.metrics.schema(&level.name, &schema.name),
            name: schema.name,
            uid: schema.uid,
            level_uid: spec.uid.clone(),
            level: level.clone(),
            is_exempt: spec.limit_response == LimitResponse::Exempt,
            max_seats: spec.max_seats(nominal),
            distinguisher: schema.distinguisher.filter(|_| has_choice),
            shared: shared.clone(),
        }
    }
}

/// Adjusts the limits of levels to their demands since the last adjustment. Returns the fair fraction.
fn adjust<'l>(
    levels: impl Iterator<Item = &'l ConfiguredLevel> + Clone,
    server_concurrency_limit: usize,
    now: Moment,
) -> f64 {
    let demand = |level: &ConfiguredLevel| {
        level.level.update(now, |state| {
            state.queues.advance(now);
            let period = state.gauges.demand.next_period(now);
            state.demand.update(&period);
            LevelDemand {
                is_exempt: state.limit_response == LimitResponse::Exempt,
                nominal: state.limits.nominal,
                min: state.limits.min,
                max: state.limits.max,
                current: state.queues.concurrency_limit(),
                high_watermark: state.demand.high_watermark,
                smoothed: state.demand.smoothed,
            }
        })
    };
    let demands: Vec<_> = levels.clone().map(demand).collect();
    let borrowed = borrow_seats(&demands);
    let without_limit = (server_concurrency_limit as f64 / 10.0).round().max(1.0) as usize;
    for (level, (limit, target)) in levels.zip(borrowed.limits.iter().zip(&borrowed.targets)) {
        let denominator = if *limit > 0 { *limit } else { without_limit };
        level.level.update(now, |state| {
            state.target = *target;
            state.apply_limit(*limit, denominator, now);
        });
    }
    borrowed.fair_fraction
}

/// Sets the limits of the requests that read and of the requests that write.
fn set_limits_of_kinds<'l>(levels: impl Iterator<Item = &'l ConfiguredLevel>, shared: &Shared, now: Moment) {
    let (mut waiting, mut executing) = (0, 0);
    for ConfiguredLevel { spec, level } in levels {
        executing += level.read(|state| state.limits.nominal);
        if let LimitResponse::Queue { dealer, queue_length_limit } = spec.limit_response {
            waiting += dealer.deck_size() * queue_length_limit;
        }
    }
    for kind in &shared.metrics.kinds {
        let mut kind = kind.lock();
        kind.waiting.set_limit(waiting, now);
        kind.executing.set_limit(executing, now);
    }
}

#[cfg(test)]
mod tests;
