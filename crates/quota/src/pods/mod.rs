//! Pods: their number and the resources that they request (upstream: `evaluator/core/pods.go`). A pod that has ended is
//! only counted as an object.
//!
//! - `requirements`: the requests and limits of a pod.

mod requirements;
#[cfg(test)]
mod tests;

use memchr::memmem;
use pintle_gates::Gates;
use pintle_kinds::{ResourceList, is_extended, is_native, is_pod_level, qos_class, resource_list};
use pintle_registry::GroupResource;
use pintle_value::time::{Duration, Time};
use pintle_value::{Str, Value};

use self::requirements::{Requirement, pod_resources};
use crate::evaluator::UnsetResources;
use crate::resource_list::{add, count};
use crate::{Evaluator, ObjectScopes, QuotaContext, QuotaFeatures, QuotaWrite};

const COUNT: &str = "count/pods";
const PODS: &str = "pods";
const REQUESTS_PREFIX: &str = "requests.";
const HUGE_PAGES_PREFIX: &str = "hugepages-";
const REQUESTS_HUGE_PAGES_PREFIX: &str = "requests.hugepages-";
/// The prefix of the name of a device class's implicit extended resource.
const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";
const REQUESTS_DEVICE_CLASS_PREFIX: &str = "requests.deviceclass.resource.kubernetes.io/";

/// The limits on resources that each container must set. Each has the list and the name under which the container sets
/// the resource. Upstream adds no further limits to this rule.
const REQUIRED: [(&str, &str, &str); 6] = [
    ("cpu", "requests", "cpu"),
    ("limits.cpu", "limits", "cpu"),
    ("limits.memory", "limits", "memory"),
    ("memory", "requests", "memory"),
    ("requests.cpu", "requests", "cpu"),
    ("requests.memory", "requests", "memory"),
];

/// The fields that the usage and the scopes of a pod depend on.
const FIELDS: [&str; 25] = [
    "metadata.deletionGracePeriodSeconds",
    "metadata.deletionTimestamp",
    "spec.activeDeadlineSeconds",
    "spec.affinity.podAffinity",
    "spec.affinity.podAntiAffinity",
    "spec.containers.name",
    "spec.containers.resources",
    "spec.initContainers.name",
    "spec.initContainers.resources",
    "spec.initContainers.restartPolicy",
    "spec.overhead",
    "spec.priorityClassName",
    "spec.resources",
    "status.allocatedResources",
    "status.conditions.reason",
    "status.conditions.type",
    "status.containerStatuses.allocatedResources",
    "status.containerStatuses.name",
    "status.containerStatuses.resources",
    "status.initContainerStatuses.allocatedResources",
    "status.initContainerStatuses.name",
    "status.initContainerStatuses.resources",
    "status.phase",
    "status.qosClass",
    "status.resources",
];

/// True for a limit on an extended resource: `requests.example.com/gpu`.
pub(crate) fn is_limit_on_extended_resource(name: &str) -> bool {
    name.starts_with(REQUESTS_PREFIX) && (!is_native(name) || name.starts_with(REQUESTS_DEVICE_CLASS_PREFIX))
}

/// Measures pods.
pub(crate) struct Pods;

impl Evaluator for Pods {
    fn resource(&self) -> GroupResource {
        GroupResource::new("", PODS)
    }

    fn handles(&self, write: QuotaWrite<'_>) -> bool {
        match (write.subresource, write.old) {
            ("", None) | ("resize", Some(_)) => true,
            // The update may move the pod from one scope to another.
            ("", Some(old)) => has_deadline(old) != has_deadline(write.object),
            _ => false,
        }
    }

    fn counts(&self, name: &str, _: QuotaFeatures) -> bool {
        let resource = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
        matches!(name, COUNT | PODS)
            || matches!(resource, "cpu" | "memory" | "ephemeral-storage")
            || name.starts_with(HUGE_PAGES_PREFIX)
            || name.starts_with(REQUESTS_HUGE_PAGES_PREFIX)
            || is_limit_on_extended_resource(name)
    }

    fn usage(&self, pod: &Value, context: &dyn QuotaContext) -> ResourceList {
        let mut usage = ResourceList::from([(COUNT.to_owned(), count(1))]);
        if is_active(pod, context.now()) {
            let requests = pod_resources(pod, Requirement::Requests, context.features());
            let limits = pod_resources(pod, Requirement::Limits, context.features());
            add(&mut usage, &compute_usage(&requests, &limits));
        }
        usage
    }

    fn fields(&self) -> &'static [&'static str] {
        &FIELDS
    }

    fn scopes(&self, pod: &Value) -> ObjectScopes {
        let spec = &pod["spec"];
        // Every pod that a strategy has prepared has a class.
        let qos = match pod.str_at(&["status", "qosClass"]) {
            "" => qos_class(&Gates::default(), spec),
            qos => qos,
        };
        let (has_deadline, is_best_effort) = (has_deadline(pod), qos == "BestEffort");
        let flags = vec![
            ("Terminating", has_deadline),
            ("NotTerminating", !has_deadline),
            ("BestEffort", is_best_effort),
            ("NotBestEffort", !is_best_effort),
            ("CrossNamespacePodAffinity", uses_cross_namespace_affinity(spec)),
        ];
        let class = spec.str_at(&["priorityClassName"]);
        let classes = if class.is_empty() { Vec::new() } else { vec![Str::from(class)] };
        ObjectScopes { flags, names: vec![("PriorityClass", classes)] }
    }

    fn unset_resources(&self, pod: &Value, features: QuotaFeatures) -> UnsetResources {
        let spec = &pod["spec"];
        let mut unset = UnsetResources::new();
        if features.pod_level_resources && has_pod_level_resources(spec) {
            return unset;
        }
        for container in ["containers", "initContainers"].iter().flat_map(|field| spec.items_at(&[field])) {
            for (limit, kind, resource) in REQUIRED {
                if container.at(&["resources", kind, resource]).is_none() {
                    unset.entry(limit).or_default().insert(container.str_at(&["name"]).to_owned());
                }
            }
        }
        unset
    }

    fn may_replenish(&self, json: &[u8]) -> bool {
        [&b"\"Succeeded\""[..], b"\"Failed\"", b"\"deletionTimestamp\""]
            .iter()
            .any(|sign| memmem::find(json, sign).is_some())
    }

    fn replenishes(&self, old: &Value, new: &Value, now: Time) -> bool {
        is_active(old, now) && !is_active(new, now)
    }
}

/// True if a pod has not ended (upstream: `QuotaV1Pod`). A pod whose deletion is overdue does not count either, because
/// its node may be gone.
fn is_active(pod: &Value, now: Time) -> bool {
    if matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded") {
        return false;
    }
    let grace_period = pod.int_at(&["metadata", "deletionGracePeriodSeconds"]);
    let deletion = pod.time_at(&["metadata", "deletionTimestamp"]).zip(grace_period);
    deletion.is_none_or(|(time, seconds)| now <= time.plus(Duration::from_seconds(seconds)))
}

/// True for pods with a time limit.
fn has_deadline(pod: &Value) -> bool {
    pod.int_at(&["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0)
}

fn has_pod_level_resources(spec: &Value) -> bool {
    ["requests", "limits"].iter().any(|kind| spec.entries_at(&["resources", kind]).any(|(name, _)| is_pod_level(name)))
}

/// The usage that results from requests and limits (upstream: `podComputeUsageHelper`).
fn compute_usage(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut usage = ResourceList::from([(PODS.to_owned(), count(1))]);
    let mut charge = |name: String, quantity: &pintle_value::quantity::Quantity| usage.insert(name, quantity.clone());
    for (name, quantity) in requests {
        let is_measured = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
        if is_measured || name.starts_with(HUGE_PAGES_PREFIX) {
            charge(name.clone(), quantity);
        }
        if is_measured
            || name.starts_with(HUGE_PAGES_PREFIX)
            || name.starts_with(DEVICE_CLASS_PREFIX)
            || is_extended(name)
        {
            charge(format!("{REQUESTS_PREFIX}{name}"), quantity);
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(quantity) = limits.get(name) {
            charge(format!("limits.{name}"), quantity);
        }
    }
    usage
}

/// True if a pod has affinity or anti-affinity terms for pods of other namespaces.
fn uses_cross_namespace_affinity(spec: &Value) -> bool {
    let crosses = |term: &Value| !term.items_at(&["namespaces"]).is_empty() || term.get("namespaceSelector").is_some();
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let terms = |field: &str| spec.items_at(&["affinity", kind, field]).iter();
        terms("requiredDuringSchedulingIgnoredDuringExecution").any(crosses)
            || terms("preferredDuringSchedulingIgnoredDuringExecution").any(|term| crosses(&term["podAffinityTerm"]))
    })
}

/// The resource list of a container, or of another object with requests and limits.
fn list_of(object: &Value, path: &[&str], requirement: Requirement) -> ResourceList {
    let path: Vec<&str> = path.iter().copied().chain([requirement.field()]).collect();
    resource_list(object, &path)
}
