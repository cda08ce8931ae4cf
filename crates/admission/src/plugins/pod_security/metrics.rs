//! The metrics of the plugin (upstream: `pod-security-admission/metrics`).

use pintle_metrics::{Counter, Exposition, Family, Kind, Stability};
use pintle_value::Str;

use super::policy::{Level, LevelVersion, Version};
use super::target::Target;
use crate::{AdmissionAttributes, AdmissionOperation};

/// The minor version of Kubernetes that the server implements. Policies may name newer ones.
const SERVER_VERSION: Version = Version::Minor(36);

/// The mode for which a policy is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Enforce,
    Audit,
    Warn,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Audit => "audit",
            Mode::Warn => "warn",
        }
    }
}

/// The labels of a write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WriteLabels {
    operation: &'static str,
    resource: &'static str,
    subresource: Str,
}

impl WriteLabels {
    fn of(attributes: &AdmissionAttributes<'_>) -> Self {
        let operation = match attributes.operation {
            AdmissionOperation::Create => "create",
            AdmissionOperation::Update => "update",
            AdmissionOperation::Delete => "delete",
            AdmissionOperation::Connect => "connect",
        };
        let resource = match Target::of(attributes.resource) {
            Some(Target::Pod) => "pod",
            Some(Target::Namespace) => "namespace",
            Some(Target::Template(_)) | None => "controller",
        };
        Self { operation, resource, subresource: attributes.subresource.into() }
    }

    const fn create_or_update(operation: &'static str, resource: &'static str) -> Self {
        Self { operation, resource, subresource: Str::const_new("") }
    }

    fn pairs(&self) -> [(&'static str, &str); 3] {
        [("request_operation", self.operation), ("resource", self.resource), ("subresource", &self.subresource)]
    }
}

impl From<&WriteLabels> for WriteLabels {
    fn from(labels: &WriteLabels) -> Self {
        labels.clone()
    }
}

/// The labels of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EvaluationLabels {
    decision: &'static str,
    level: &'static str,
    version: Str,
    mode: &'static str,
    write: WriteLabels,
}

impl From<&EvaluationLabels> for EvaluationLabels {
    fn from(labels: &EvaluationLabels) -> Self {
        labels.clone()
    }
}

/// The labels of an error.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ErrorLabels {
    is_fatal: bool,
    write: WriteLabels,
}

impl From<&ErrorLabels> for ErrorLabels {
    fn from(labels: &ErrorLabels) -> Self {
        labels.clone()
    }
}

/// The metrics of the plugin.
#[derive(Debug)]
pub(super) struct PodSecurityMetrics {
    evaluations: Family<EvaluationLabels, Counter>,
    exemptions: Family<WriteLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
}

/// As in upstream, the series of usual writes are there from the start.
impl Default for PodSecurityMetrics {
    fn default() -> Self {
        let metrics = Self { evaluations: Family::default(), exemptions: Family::default(), errors: Family::default() };
        for operation in ["create", "update"] {
            let write = WriteLabels::create_or_update(operation, "pod");
            metrics.exemptions.get(&write, Counter::default);
            metrics.exemptions.get(&WriteLabels::create_or_update(operation, "controller"), Counter::default);
            let labels = EvaluationLabels::new(true, LevelVersion::PRIVILEGED, Mode::Enforce, write);
            metrics.evaluations.get(&labels, Counter::default);
        }
        metrics
    }
}

impl EvaluationLabels {
    fn new(is_allowed: bool, policy: LevelVersion, mode: Mode, write: WriteLabels) -> Self {
        let version = match policy {
            // The versions of this level do not differ.
            LevelVersion { level: Level::Privileged, .. } | LevelVersion { version: Version::Latest, .. } => {
                Str::const_new("latest")
            }
            LevelVersion { version, .. } if version > SERVER_VERSION => Str::const_new("future"),
            LevelVersion { version, .. } => version.to_string().into(),
        };
        let decision = if is_allowed { "allow" } else { "deny" };
        Self { decision, level: policy.level.name(), version, mode: mode.name(), write }
    }
}

impl PodSecurityMetrics {
    /// Counts the evaluation of a policy.
    pub(super) fn evaluation(
        &self,
        attributes: &AdmissionAttributes<'_>,
        mode: Mode,
        policy: LevelVersion,
        is_allowed: bool,
    ) {
        let labels = EvaluationLabels::new(is_allowed, policy, mode, WriteLabels::of(attributes));
        self.evaluations.get(&labels, Counter::default).inc();
    }

    /// Counts an exempt write.
    pub(super) fn exemption(&self, attributes: &AdmissionAttributes<'_>) {
        self.exemptions.get(&WriteLabels::of(attributes), Counter::default).inc();
    }

    /// Counts an error. It is fatal if nothing was evaluated.
    pub(super) fn error(&self, attributes: &AdmissionAttributes<'_>, is_fatal: bool) {
        let labels = ErrorLabels { is_fatal, write: WriteLabels::of(attributes) };
        self.errors.get(&labels, Counter::default).inc();
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        for (EvaluationLabels { decision, level, version, mode, write }, count) in self.evaluations.all() {
            let [operation, resource, subresource] = write.pairs();
            let labels = [
                ("decision", decision),
                ("policy_level", level),
                ("policy_version", &*version),
                ("mode", mode),
                operation,
                resource,
                subresource,
            ];
            let help = "Evaluations of Pod Security policies. Ignored and exempt requests are not counted.";
            out.family("pod_security_evaluations_total", Kind::Counter, Stability::Alpha, help)
                .value(&labels, count.get() as f64);
        }
        for (write, count) in self.exemptions.all() {
            let help = "Requests that are exempt from Pod Security policies. Ignored requests are not counted.";
            out.family("pod_security_exemptions_total", Kind::Counter, Stability::Alpha, help)
                .value(&write.pairs(), count.get() as f64);
        }
        for (ErrorLabels { is_fatal, write }, count) in self.errors.all() {
            let [operation, resource, subresource] = write.pairs();
            let labels = [("fatal", if is_fatal { "true" } else { "false" }), operation, resource, subresource];
            let help = "Errors that prevented a normal evaluation of Pod Security policies. After one that is not fatal, \
                        the latest restricted policy may have been evaluated.";
            out.family("pod_security_errors_total", Kind::Counter, Stability::Alpha, help)
                .value(&labels, count.get() as f64);
        }
    }
}
