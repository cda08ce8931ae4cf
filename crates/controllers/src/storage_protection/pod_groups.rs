//! Which pod groups pods belong to (upstream: `pkg/controller/scheduling/podgroupprotection`). A pod that has ended
//! does not count.

use std::collections::BTreeSet;
use std::sync::Arc;

use memchr::memmem;
use pintle_cache::{Event, KeyRange, Object};
use pintle_registry::ApiError;
use pintle_value::{Str, Value};

use super::{Protection, readable};
use crate::ClusterClient;
use crate::objects::tree;

const PODS: (&str, &str) = ("", "pods");

/// Pod groups, to which pods belong.
pub(crate) static POD_GROUPS: Protection = Protection {
    controller: "podgroup-protection-controller",
    queue: "podgroup_protection",
    resource: ("scheduling.k8s.io", "podgroups"),
    finalizer: pintle_value::metadata::POD_GROUP_PROTECTION,
    adds_finalizer: false,
    users: &[PODS],
    released,
    used,
};

/// The group of a stored pod that has not ended. The pod is decoded only if it may have one.
fn group(pod: &Object) -> Option<Str> {
    let may_have_one = memmem::find(&pod.json, b"\"schedulingGroup\"").is_some();
    group_of(&may_have_one.then(|| tree(pod)).flatten()?)
}

fn group_of(pod: &Value) -> Option<Str> {
    let has_ended = matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed");
    let name = pod.str_at(&["spec", "schedulingGroup", "podGroupName"]);
    (!has_ended && !name.is_empty()).then(|| name.into())
}

/// The group to which a pod belonged before it changed.
fn released(event: &Event) -> Vec<(Str, Str)> {
    let previous = event.previous.as_ref().map(|pod| (Str::from(pod.namespace()), group(pod)));
    previous.and_then(|(namespace, group)| Some((namespace, group?))).into_iter().collect()
}

fn used(client: &Arc<dyn ClusterClient>, namespace: &str, _: &[Value]) -> Result<BTreeSet<Str>, ApiError> {
    let (pods, range) = readable(client, PODS, KeyRange::Namespace(namespace.into()))?;
    Ok(pods.objects(range).filter_map(|pod| group(&pod)).collect())
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    #[test]
    fn pods_belong_to_their_group_until_they_end() {
        let pod = |group: &str, phase: &str| {
            object! {
                "spec": object! { "schedulingGroup": object! { "podGroupName": group } },
                "status": object! { "phase": phase },
            }
        };
        for (phase, expect) in [("Pending", Some("g")), ("", Some("g")), ("Succeeded", None), ("Failed", None)] {
            assert_eq!(group_of(&pod("g", phase)).as_deref(), expect, "{phase}");
        }
        assert_eq!(group_of(&pod("", "Running")), None);
        assert_eq!(group_of(&Value::object()), None);
    }
}
