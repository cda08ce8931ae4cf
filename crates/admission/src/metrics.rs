//! How long plugins and the phases of admission take (upstream: `admission/metrics`, `WithControllerMetrics` and
//! `WithStepMetrics`).

use std::sync::OnceLock;
use std::time::Duration;

use pintle_metrics::{Buckets, Exposition, Histogram, Kind, Stability};

use crate::AdmissionOperation;

const DURATIONS: Buckets = Buckets::seconds(&[0.005, 0.025, 0.1, 0.5, 1.0, 2.5]);

/// A phase of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Plugins may change the object.
    Mutating,
    /// Plugins see the object that would be stored.
    Validating,
}

const PHASES: [(Phase, &str); 2] = [(Phase::Mutating, "admit"), (Phase::Validating, "validate")];
const OPERATIONS: [AdmissionOperation; 4] =
    [AdmissionOperation::Create, AdmissionOperation::Update, AdmissionOperation::Delete, AdmissionOperation::Connect];
const REJECTED: [&str; 2] = ["false", "true"];

/// Durations by phase, operation and whether the write was rejected. A series is found without a lookup.
#[derive(Debug, Default)]
struct Durations([[[OnceLock<Histogram>; 2]; 4]; 2]);

impl Durations {
    fn observe(&self, phase: Phase, operation: AdmissionOperation, rejected: bool, took: Duration) {
        let series = &self.0[phase as usize][operation as usize][usize::from(rejected)];
        series.get_or_init(|| Histogram::new(DURATIONS)).observe(took);
    }

    /// Calls `write` with the labels of each series that exists.
    fn for_each(&self, mut write: impl FnMut([(&'static str, &'static str); 3], &Histogram)) {
        for (phase, step) in PHASES {
            for operation in OPERATIONS {
                for (series, rejected) in self.0[phase as usize][operation as usize].iter().zip(REJECTED) {
                    if let Some(series) = series.get() {
                        write([("type", step), ("operation", operation.text()), ("rejected", rejected)], series);
                    }
                }
            }
        }
    }
}

/// The metrics of a chain of plugins.
#[derive(Debug, Default)]
pub(crate) struct ChainMetrics {
    steps: Durations,
    /// The durations of each plugin, in the order of the chain.
    plugins: Vec<Durations>,
}

impl ChainMetrics {
    pub(crate) fn new(plugins: usize) -> Self {
        Self { steps: Durations::default(), plugins: (0..plugins).map(|_| Durations::default()).collect() }
    }

    /// Records the duration of a phase of all plugins.
    pub(crate) fn observe_step(&self, phase: Phase, operation: AdmissionOperation, rejected: bool, took: Duration) {
        self.steps.observe(phase, operation, rejected, took);
    }

    /// Records the duration of a phase of the plugin at a position.
    pub(crate) fn observe_plugin(
        &self,
        plugin: usize,
        phase: Phase,
        operation: AdmissionOperation,
        rejected: bool,
        took: Duration,
    ) {
        if let Some(durations) = self.plugins.get(plugin) {
            durations.observe(phase, operation, rejected, took);
        }
    }

    /// Writes the metrics. `names` are the names of the plugins.
    pub(crate) fn write<'n>(&self, names: impl Iterator<Item = &'n str>, out: &mut Exposition) {
        self.steps.for_each(|labels, durations| {
            let help = "Duration of the phases of admission in seconds, by operation and type (validate or admit).";
            let name = "apiserver_admission_step_admission_duration_seconds";
            out.family(name, Kind::Histogram, Stability::Stable, help).histogram(&labels, durations);
        });
        for (plugin, name) in self.plugins.iter().zip(names) {
            plugin.for_each(|[step, operation, rejected], durations| {
                let labels = [("name", name), step, operation, rejected];
                let help = "Duration of admission plugins in seconds, by name, operation and type (validate or admit).";
                let name = "apiserver_admission_controller_admission_duration_seconds";
                out.family(name, Kind::Histogram, Stability::Stable, help).histogram(&labels, durations);
            });
        }
    }
}
