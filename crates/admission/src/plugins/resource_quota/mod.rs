//! The plugin `ResourceQuota` (upstream: `apiserver/pkg/admission/plugin/resourcequota`): refuses writes that exceed the
//! quotas of their namespace, and charges the others.
//!
//! - `configuration`: resources that nobody may use without a quota.
//! - `batches`: concurrent writes of a namespace are decided together.
//! - `charges`: charges quotas, and gives back the charges of failed writes.

mod batches;
mod charges;
mod configuration;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use pintle_gates::Gates;
use pintle_metrics::{StartedItem, WorkQueueMetrics};
use pintle_quota::{
    LimitedResource, MeasuredWrite, QuotaContext, QuotaFeatures, QuotaRefusal, QuotaWrite, evaluator_of,
    handles_updates, is_ignored,
};
use pintle_registry::{ApiError, BoxFuture, GroupResource, ObjectClient, Scope};
use pintle_value::Value;
use pintle_value::time::Time;

use self::batches::{Batches, TimedOut};
use self::charges::{ChargedWrite, Decision, NamespaceQuotas, QuotaError, read_quotas};
use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin, Phase, PluginError};

/// The admission plugin `ResourceQuota`.
pub(crate) struct ResourceQuota {
    limited: Vec<LimitedResource>,
    features: QuotaFeatures,
    batches: Batches<ChargedWrite, Decision>,
    /// Upstream queues the namespaces whose writes are to be decided.
    queue: WorkQueueMetrics,
}

impl Default for ResourceQuota {
    fn default() -> Self {
        Self {
            limited: Vec::new(),
            features: QuotaFeatures::default(),
            batches: Batches::default(),
            queue: WorkQueueMetrics::without_retries("admission_quota_controller"),
        }
    }
}

/// A write that waits to be charged, or is being charged, in the metrics of the queue.
struct QueuedWrite<'q> {
    queue: &'q WorkQueueMetrics,
    queued: Instant,
    started: OnceLock<StartedItem>,
}

impl<'q> QueuedWrite<'q> {
    fn new(queue: &'q WorkQueueMetrics) -> Self {
        queue.adds.inc();
        queue.depth.add(1);
        Self { queue, queued: Instant::now(), started: OnceLock::new() }
    }

    /// Records that the turn of the write has come.
    fn start(&self) {
        self.queue.depth.add(-1);
        self.queue.queue_durations.observe(self.queued.elapsed());
        let _ = self.started.set(self.queue.started(Instant::now()));
    }
}

impl Drop for QueuedWrite<'_> {
    fn drop(&mut self) {
        match self.started.get() {
            Some(started) => self.queue.finished(started, Instant::now()),
            // The write was decided with another one, or was given up.
            None => self.queue.depth.add(-1),
        }
    }
}

/// The cluster as evaluators see it during admission.
struct AdmissionContext<'a> {
    client: &'a dyn ObjectClient,
    features: QuotaFeatures,
    /// The first error. After an error, the measured usage is incomplete.
    failed: OnceLock<ApiError>,
}

impl QuotaContext for AdmissionContext<'_> {
    fn features(&self) -> QuotaFeatures {
        self.features
    }

    fn now(&self) -> Time {
        SystemTime::now().into()
    }

    fn extended_resource_of(&self, device_class: &str) -> Option<String> {
        let classes = GroupResource::new("resource.k8s.io", "deviceclasses");
        let class = match self.client.get(&classes, "", device_class) {
            Ok(class) => class?,
            Err(error) => {
                let _ = self.failed.set(error);
                return None;
            }
        };
        class.at(&["spec", "extendedResourceName"]).and_then(Value::as_str).map(str::to_owned)
    }
}

impl ResourceQuota {
    /// The plugin with a configuration in YAML or JSON.
    ///
    /// # Errors
    /// The configuration is malformed or invalid.
    pub(crate) fn from_text(text: Option<&[u8]>, gates: &Gates) -> Result<Self, PluginError> {
        let (limited, features) = (configuration::limited_resources(text)?, QuotaFeatures::of(gates));
        Ok(Self { limited, features, ..Self::default() })
    }

    async fn check(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
        let queued = QueuedWrite::new(&self.queue);
        let refuse = |error| match error {
            QuotaError::Refused(QuotaRefusal::Forbidden(why)) => attributes.forbidden(object, why),
            QuotaError::Refused(QuotaRefusal::Unclassified(why)) => ApiError::Unclassified(why),
            QuotaError::Failed(error) => error,
        };
        let write = match self.measure(attributes, object) {
            Ok(Some(write)) => write,
            // Most writes are decided without waiting for others.
            decided => {
                queued.start();
                return decided.map(drop).map_err(refuse);
            }
        };
        attributes.reservations.add(write.clone());
        let (client, namespace) = (attributes.client, attributes.namespace);
        let charge = |writes| {
            queued.start();
            charges::charge(client, &self.limited, writes)
        };
        match self.batches.decide(namespace, write, charge).await {
            Ok(decision) => decision.map_err(refuse),
            Err(TimedOut) => Err(ApiError::Internal("resource quota evaluation timed out".to_owned())),
        }
    }

    /// Measures a write. `None` if no quota is charged for it.
    ///
    /// # Errors
    /// The present quotas refuse the write, or something cannot be read.
    fn measure(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &Value,
    ) -> Result<Option<Arc<ChargedWrite>>, QuotaError> {
        let (client, namespace) = (attributes.client, attributes.namespace);
        if !attributes.dry_run {
            // The controller waits for writes that have not seen a new quota, too.
            attributes.reservations.begin();
        }
        // Most namespaces have no quota.
        let present = read_quotas(client, namespace).map_err(QuotaError::Failed)?;
        if self.limited.is_empty() && present.is_empty() {
            return Ok(None);
        }
        let evaluator = evaluator_of(&attributes.resource.group, &attributes.resource.plural);
        let old = attributes.old.filter(|_| attributes.operation == AdmissionOperation::Update);
        let write = QuotaWrite { subresource: attributes.subresource, object, old };
        if !evaluator.handles(write) {
            return Ok(None);
        }
        let context = AdmissionContext { client, features: self.features, failed: OnceLock::new() };
        let measured = MeasuredWrite::of(evaluator, write, &context);
        if let Some(error) = context.failed.into_inner() {
            return Err(QuotaError::Failed(error));
        }
        let write = Arc::new(ChargedWrite::new(namespace, measured));
        let present = NamespaceQuotas::decode(present).map_err(QuotaError::Failed)?;
        let charges = write.check(&present.quotas, &self.limited).map_err(QuotaError::Refused)?;
        Ok((!charges.is_empty() && !attributes.dry_run).then_some(write))
    }
}

impl AdmissionPlugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Validating]
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let AdmissionAttributes { operation, resource, subresource, .. } = attributes;
        let may_change_usage = match operation {
            AdmissionOperation::Create => subresource.is_empty(),
            AdmissionOperation::Update => handles_updates(&resource.group, &resource.plural),
            AdmissionOperation::Delete | AdmissionOperation::Connect => false,
        };
        may_change_usage && resource.scope == Scope::Namespaced && !is_ignored(&resource.group, &resource.plural)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.check(attributes, object))
    }

    fn work_queue(&self) -> Option<&WorkQueueMetrics> {
        Some(&self.queue)
    }
}
