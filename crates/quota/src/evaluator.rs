//! Evaluators: the rules by which quotas count the objects of a kind.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use pintle_kinds::ResourceList;
use pintle_registry::GroupResource;
use pintle_value::Value;
use pintle_value::time::Time;

use crate::object_count::{COUNT_PREFIX, ObjectCount};
use crate::persistent_volume_claims::PersistentVolumeClaims;
use crate::pods::Pods;
use crate::resource_claims::ResourceClaims;
use crate::services::Services;
use crate::{ObjectScopes, QuotaFeatures};

/// The data of the cluster that an evaluator needs.
pub trait QuotaContext: Sync {
    /// The enabled features.
    fn features(&self) -> QuotaFeatures;

    /// The current time.
    fn now(&self) -> Time;

    /// The extended resource that stands for the devices of a class (`spec.extendedResourceName`).
    fn extended_resource_of(&self, device_class: &str) -> Option<String>;
}

/// A create or update.
#[derive(Clone, Copy)]
pub struct QuotaWrite<'a> {
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The new object.
    pub object: &'a Value,
    /// The object before an update; `None` for a create.
    pub old: Option<&'a Value>,
}

/// The containers that lack a value, by the resource that they lack.
pub type UnsetResources = BTreeMap<&'static str, BTreeSet<String>>;

/// Measures the objects of a kind (upstream: `quota.Evaluator`).
pub trait Evaluator: Send + Sync {
    /// The kind.
    fn resource(&self) -> GroupResource;

    /// True if updates may change the usage of an object.
    fn handles_updates(&self) -> bool {
        true
    }

    /// True if a write may change the usage of the object.
    fn handles(&self, write: QuotaWrite<'_>) -> bool;

    /// True if objects of the kind count towards the limit with this name.
    fn counts(&self, name: &str, features: QuotaFeatures) -> bool;

    /// The usage of an object.
    fn usage(&self, object: &Value, context: &dyn QuotaContext) -> ResourceList;

    /// The usage of each object, if it is the same for all objects.
    fn constant_usage(&self) -> Option<ResourceList> {
        None
    }

    /// The fields that usage and scopes depend on, as paths (`spec.containers.resources`). If there are none, the whole object
    /// matters.
    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// The scopes that an object is in.
    fn scopes(&self, _object: &Value) -> ObjectScopes {
        ObjectScopes::default()
    }

    /// The resources that an object does not set, although it must set them if they are limited.
    fn unset_resources(&self, _object: &Value, _features: QuotaFeatures) -> UnsetResources {
        UnsetResources::new()
    }

    /// True if a change to an object may reduce its usage. This is a cheap test of the new JSON.
    fn may_replenish(&self, _json: &[u8]) -> bool {
        false
    }

    /// True if a change of an object reduces its usage (upstream: `DefaultUpdateFilter`).
    fn replenishes(&self, _old: &Value, _new: &Value, _now: Time) -> bool {
        false
    }
}

/// The evaluators of kinds with more limits than a count, or with a short name for the count.
static EVALUATORS: [(&str, &str, &dyn Evaluator); 8] = [
    ("", "pods", &Pods),
    ("", "services", &Services),
    ("", "persistentvolumeclaims", &PersistentVolumeClaims),
    ("resource.k8s.io", "resourceclaims", &ResourceClaims),
    ("", "configmaps", &ObjectCount::with_alias("configmaps")),
    ("", "replicationcontrollers", &ObjectCount::with_alias("replicationcontrollers")),
    ("", "resourcequotas", &ObjectCount::with_alias("resourcequotas")),
    ("", "secrets", &ObjectCount::with_alias("secrets")),
];

/// Kinds that quotas ignore: kinds that are not stored, and events.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];

/// True if quotas ignore the kind.
#[must_use]
pub fn is_ignored(group: &str, plural: &str) -> bool {
    IGNORED.contains(&(group, plural))
}

/// The evaluator of a kind.
pub enum EvaluatorRef {
    /// The evaluator of a kind with rules of its own.
    Known(&'static dyn Evaluator),
    /// The evaluator of any other kind.
    Count(ObjectCount),
}

impl Deref for EvaluatorRef {
    type Target = dyn Evaluator;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Known(evaluator) => *evaluator,
            Self::Count(evaluator) => evaluator,
        }
    }
}

fn known(group: &str, plural: &str) -> Option<&'static dyn Evaluator> {
    let mut known = EVALUATORS.iter();
    known.find(|(of_group, name, _)| (*of_group, *name) == (group, plural)).map(|(_, _, evaluator)| *evaluator)
}

/// True if an update of an object of this kind may change its usage.
#[must_use]
pub fn handles_updates(group: &str, plural: &str) -> bool {
    known(group, plural).is_some_and(Evaluator::handles_updates)
}

/// The evaluator of a kind. Kinds without rules are counted.
#[must_use]
pub fn evaluator_of(group: &str, plural: &str) -> EvaluatorRef {
    match known(group, plural) {
        Some(evaluator) => EvaluatorRef::Known(evaluator),
        None => EvaluatorRef::Count(ObjectCount::of(group, plural)),
    }
}

/// The kinds whose objects count towards the limit with this name. The kinds need not be served.
#[must_use]
pub fn counted_resources(name: &str, features: QuotaFeatures) -> Vec<GroupResource> {
    let counting = EVALUATORS.iter().filter(|(_, _, evaluator)| evaluator.counts(name, features));
    let mut resources: Vec<_> = counting.map(|(group, plural, _)| GroupResource::new(*group, *plural)).collect();
    if resources.is_empty()
        && let Some(kind) = name.strip_prefix(COUNT_PREFIX)
    {
        let (plural, group) = kind.split_once('.').unwrap_or((kind, ""));
        if !is_ignored(group, plural) {
            resources.push(GroupResource::new(group, plural));
        }
    }
    resources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_counted() {
        let check_with = |features: QuotaFeatures, name: &str, expect: &[&str]| {
            let found: Vec<String> = counted_resources(name, features).iter().map(ToString::to_string).collect();
            assert_eq!(found, expect, "{name}");
        };
        let check = |name: &str, expect: &[&str]| check_with(QuotaFeatures::default(), name, expect);
        let disabled = QuotaFeatures { extended_resources_of_classes: false, ..QuotaFeatures::default() };
        check_with(disabled, "requests.example.com/gpu", &["pods"]);
        check_with(disabled, "tpu.deviceclass.resource.k8s.io/devices", &["resourceclaims.resource.k8s.io"]);
        check("cpu", &["pods"]);
        check("count/pods", &["pods"]);
        check("services.nodeports", &["services"]);
        check("gold.storageclass.storage.k8s.io/requests.storage", &["persistentvolumeclaims"]);
        check("requests.example.com/gpu", &["pods", "resourceclaims.resource.k8s.io"]);
        check("configmaps", &["configmaps"]);
        check("count/configmaps", &["configmaps"]);
        check("count/deployments.apps", &["deployments.apps"]);
        check("count/widgets.sub.example.com", &["widgets.sub.example.com"]);
        check("count/events", &[]);
        check("deployments", &[]);
    }
}
