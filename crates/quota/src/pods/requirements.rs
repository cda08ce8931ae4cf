//! The requests and limits of a pod (upstream: `PodRequests` and `PodLimits` of `component-helpers/resource`). While a
//! pod is being resized, the maximum of its past, present and future values counts.

use std::collections::BTreeMap;

use pintle_kinds::{ResourceList, aggregate_resources, is_pod_level, max_resource_list, resource_list};
use pintle_value::Value;

use super::{has_pod_level_resources, list_of};
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
    let mut resources = if features.sums_by_source {
        resources_by_source(pod, requirement, features)
    } else {
        resources_by_container(pod, requirement, features)
    };
    let mut overhead = resource_list(&pod["spec"], &["overhead"]);
    if requirement == Requirement::Limits {
        overhead.retain(|name, _| resources.get(name).is_some_and(|limit| !limit.is_zero()));
    }
    add(&mut resources, &overhead);
    resources
}

/// The maximum of the resources that the pod as a whole wants, has been allocated, and has. This is the computation since
/// 1.37.
fn resources_by_source(pod: &Value, requirement: Requirement, features: QuotaFeatures) -> ResourceList {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let is_infeasible = is_resize_infeasible(status);
    let wanted = |container: &Value| list_of(container, &["resources"], requirement);
    let mut resources = ResourceList::new();
    if !is_infeasible {
        resources = aggregate_resources(spec, |container, _| wanted(container));
    }
    let actual_of_pod = status.at(&["resources", requirement.field()]).is_some();
    let allocated_to_pod = status.get("allocatedResources").is_some() || requirement == Requirement::Limits;
    if features.pod_level_resize && actual_of_pod && allocated_to_pod {
        max_resource_list(&mut resources, &effective(ResourceList::new(), status, requirement, true));
    } else {
        // The first status with a name is valid.
        let statuses: BTreeMap<&str, &Value> = ["initContainerStatuses", "containerStatuses"]
            .iter()
            .flat_map(|list| status.items_at(&[list]).iter().rev())
            .map(|status| (status.str_at(&["name"]), status))
            .collect();
        // Each source replaces the wanted resources of the containers that have it.
        let sum = |sources: &[&[&str]]| {
            aggregate_resources(spec, |container, _| {
                let status = statuses.get(container.str_at(&["name"]));
                let found = status.and_then(|status| {
                    sources.iter().find(|path| status.at(path).is_some()).map(|path| (status, path))
                });
                match found {
                    Some((status, path)) => resource_list(status, path),
                    None if is_infeasible => ResourceList::new(),
                    None => wanted(container),
                }
            })
        };
        let (actual, allocated) = (["resources", requirement.field()], ["allocatedResources"]);
        if requirement == Requirement::Requests {
            max_resource_list(&mut resources, &sum(&[&allocated]));
            max_resource_list(&mut resources, &sum(&[&actual, &allocated]));
        } else {
            max_resource_list(&mut resources, &sum(&[&actual]));
        }
    }

    let own = list_of(spec, &["resources"], requirement);
    let has_own = match requirement {
        Requirement::Requests => own.keys().any(|name| is_pod_level(name)),
        Requirement::Limits => has_pod_level_resources(spec),
    };
    if features.pod_level_resources && has_own {
        let is_resized = features.pod_level_resize && status.get("resources").is_some();
        let own = if is_resized { effective(own, status, requirement, is_infeasible) } else { own };
        resources.extend(own.into_iter().filter(|(name, _)| is_pod_level(name)));
    }
    resources
}

/// The sum of the resources of containers. The maximum of the wanted, allocated and actual resources of a container
/// counts. This was the computation before 1.37.
fn resources_by_container(pod: &Value, requirement: Requirement, features: QuotaFeatures) -> ResourceList {
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
