//! The requests and limits of a pod (upstream: `PodRequests` and `PodLimits` of `component-helpers/resource`). While a
//! pod is being resized, the maximum of its past, present and future values counts.

use pintle_kinds::{ResourceList, aggregate_resources, is_pod_level, max_resource_list, resource_list};
use pintle_value::Value;

use super::list_of;
use crate::QuotaFeatures;
use crate::resource_list::add;

/// The kind of a pod's resource requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requirement {
    Requests,
    Limits,
}

impl Requirement {
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

/// The requests or the limits of a pod.
pub(super) fn pod_resources(pod: &Value, requirement: Requirement, features: QuotaFeatures) -> ResourceList {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let is_infeasible = is_resize_infeasible(status);
    let statuses = ["containerStatuses", "initContainerStatuses"];
    let mut resources = aggregate_resources(spec, |container, is_resizable| {
        let own = list_of(container, &["resources"], requirement);
        let name = container.str_at(&["name"]);
        // As in a Go map, the last status with a name is valid.
        let status = statuses.iter().flat_map(|field| status.items_at(&[field])).rfind(|s| s.str_at(&["name"]) == name);
        match status {
            Some(status) if is_resizable && status.get("resources").is_some() => {
                effective(own, status, requirement, is_infeasible)
            }
            _ => own,
        }
    });
    let own = list_of(spec, &["resources"], requirement);
    if features.pod_level_resources && own.keys().any(|name| is_pod_level(name)) {
        let actual = status.get("resources").filter(|_| features.pod_level_resize);
        let resized = actual.map(|_| effective(own.clone(), status, requirement, is_infeasible));
        for (name, quantity) in own.into_iter().filter(|(name, _)| is_pod_level(name)) {
            let resized = resized.as_ref().map(|resized| resized.get(&name).cloned().unwrap_or_default());
            resources.insert(name, resized.unwrap_or(quantity));
        }
    }
    let mut overhead = resource_list(spec, &["overhead"]);
    if requirement == Requirement::Limits {
        overhead.retain(|name, _| resources.get(name).is_some_and(|limit| !limit.is_zero()));
    }
    add(&mut resources, &overhead);
    resources
}

/// The requirement of a container or pod, whose status has its actual resources (upstream:
/// `determineEffectiveRequests`).
fn effective(wanted: ResourceList, status: &Value, requirement: Requirement, is_infeasible: bool) -> ResourceList {
    let mut effective = if is_infeasible { ResourceList::new() } else { wanted };
    max_resource_list(&mut effective, &list_of(status, &["resources"], requirement));
    if requirement == Requirement::Requests {
        max_resource_list(&mut effective, &resource_list(status, &["allocatedResources"]));
    }
    effective
}

/// True if the node of a pod cannot do the wanted resize.
fn is_resize_infeasible(status: &Value) -> bool {
    let mut conditions = status.items_at(&["conditions"]).iter();
    let pending = conditions.find(|condition| condition.str_at(&["type"]) == "PodResizePending");
    pending.is_some_and(|condition| condition.str_at(&["reason"]) == "Infeasible")
}
