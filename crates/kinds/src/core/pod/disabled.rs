//! Drops the fields of features that are disabled by default in Kubernetes 1.36 from new objects. Objects that use the
//! fields keep them (upstream: `DropDisabledPodFields`, `DropDisabledTemplateFields`).

use pintle_gates::Feature;
use pintle_registry::StrategyContext;
use pintle_value::Value;

use super::defaults::for_each_item;
use super::visitor::{CONTAINER_LISTS, all_containers};

/// The projected sources of features that are disabled by default, with their gates. `PodCertificateRequest` is disabled always.
const PROJECTIONS: [(&str, Option<Feature>); 2] =
    [("clusterTrustBundle", Some(Feature::CLUSTER_TRUST_BUNDLE_PROJECTION)), ("podCertificate", None)];

/// The lists of container statuses in a pod's status.
pub(crate) const STATUS_LISTS: [&str; 3] = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];

/// Drops disabled fields from a pod template, or from the spec of a pod.
pub(crate) fn drop_disabled_template_fields(context: &StrategyContext, template: &mut Value, old: Option<&Value>) {
    let empty = Value::object();
    let old_spec = old.and_then(|old| old.get("spec")).unwrap_or(&empty);
    let Some(spec) = template.get_mut("spec") else { return };

    let is_enabled = |gate: &Option<Feature>| gate.is_some_and(|gate| context.gates.is_enabled(gate));
    for (projection, _) in PROJECTIONS.into_iter().filter(|(_, gate)| !is_enabled(gate)) {
        let in_use = old_spec
            .items_at(&["volumes"])
            .iter()
            .flat_map(|volume| volume.items_at(&["projected", "sources"]))
            .any(|source| source.get(projection).is_some());
        if !in_use {
            for_each_item(spec, &["volumes"], |volume| {
                for_each_item(volume, &["projected", "sources"], |source| {
                    source.remove(projection);
                });
            });
        }
    }
    // GenericWorkload.
    if old_spec.get("schedulingGroup").is_none() {
        spec.remove("schedulingGroup");
    }
    // Also drop a lifecycle that had no other field.
    let signals = context.gates.is_enabled(Feature::CONTAINER_STOP_SIGNALS);
    if !signals && !all_containers(old_spec).any(|c| c.at(&["lifecycle", "stopSignal"]).is_some()) {
        for list in CONTAINER_LISTS {
            for_each_item(spec, &[list], |container| {
                let signal = container.remove_at(&["lifecycle", "stopSignal"]);
                if signal.is_some() && container.get("lifecycle").is_some_and(Value::is_empty) {
                    container.remove("lifecycle");
                }
            });
        }
    }
}

/// Drops disabled fields from a pod.
pub(crate) fn drop_disabled_pod_fields(context: &StrategyContext, pod: &mut Value, old: Option<&Value>) {
    drop_disabled_template_fields(context, pod, old);
    let empty = Value::object();
    let old_status = old.and_then(|old| old.get("status")).unwrap_or(&empty);
    let Some(status) = pod.get_mut("status") else { return };
    // ImageVolumeWithDigest.
    let in_use = STATUS_LISTS
        .iter()
        .flat_map(|list| old_status.items_at(&[list]))
        .flat_map(|container| container.items_at(&["volumeMounts"]))
        .any(|mount| mount.get("volumeStatus").is_some());
    if !in_use {
        for list in STATUS_LISTS {
            for_each_item(status, &[list], |container| {
                for_each_item(container, &["volumeMounts"], |mount| {
                    mount.remove("volumeStatus");
                });
            });
        }
    }
    // DRANodeAllocatableResources.
    if old_status.items_at(&["nodeAllocatableResourceClaimStatuses"]).is_empty() {
        status.remove("nodeAllocatableResourceClaimStatuses");
    }
}

#[cfg(test)]
mod tests {
    use pintle_gates::Gates;

    use super::*;
    use crate::testing::{context, object};

    #[test]
    fn disabled_fields_are_dropped_unless_in_use() {
        let given = r#"{"spec":{"schedulingGroup":{},"containers":[{"lifecycle":{"stopSignal":"SIGHUP"}}],
            "volumes":[{"projected":{"sources":[{"podCertificate":{}}]}}]},
            "status":{"containerStatuses":[{"volumeMounts":[{"volumeStatus":{}}]}]}}"#;
        let check = |old: Option<&str>, expect: &str| {
            let mut pod = object(given);
            drop_disabled_pod_fields(&context(), &mut pod, old.map(object).as_ref());
            assert_eq!(pod, object(expect));
        };
        check(
            None,
            r#"{"spec":{"containers":[{}],"volumes":[{"projected":{"sources":[{}]}}]},
                "status":{"containerStatuses":[{"volumeMounts":[{}]}]}}"#,
        );
        check(Some(given), given);
    }

    #[test]
    fn trust_bundles_stay_if_their_feature_is_enabled() {
        let given =
            r#"{"spec":{"volumes":[{"projected":{"sources":[{"clusterTrustBundle":{"name":"a","path":"b"}}]}}]}}"#;
        let features = ["ClusterTrustBundle", "ClusterTrustBundleProjection"];
        let overrides = features.map(|feature| (feature.to_owned(), true)).into();
        let (gates, _) = Gates::with_overrides(&overrides).expect("feature gates");
        let mut pod = object(given);
        drop_disabled_pod_fields(&StrategyContext { gates: gates.into(), ..context() }, &mut pod, None);
        assert_eq!(pod, object(given));
        drop_disabled_pod_fields(&context(), &mut pod, None);
        assert_eq!(pod, object(r#"{"spec":{"volumes":[{"projected":{"sources":[{}]}}]}}"#));
    }
}
