//! The kind Pod: what creating, updating and deleting one does (upstream: `pkg/registry/core/pod/strategy.go`).

use pintle_registry::{Behaviour, Context, Graceful, SubresourceRules};
use pintle_value::{Errors, Str, Value, names};

use super::annotations::copy_app_armor_annotations;
use super::defaults::each;
use super::disabled::drop_disabled_pod_fields;
use super::pod_defaults::pod_defaults;
use super::resize::ResizeRules;
use super::resources::qos_class;
use super::status::{StatusRules, set_condition};
use super::update::{validate_create, validate_ephemeral_update, validate_update};
use super::warnings::warnings_for_pod;
use super::{keep_metadata, set_generation};
use crate::strategy::keep;

/// The rules of pods.
pub(crate) struct Pod;

const SELECTABLE: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
    // Selectable by name only: upstream knows no value for it, and nothing matches but the empty string.
    "status.podIPs",
];

impl Behaviour for Pod {
    fn defaults(&self, pod: &mut Value) {
        pod_defaults(pod);
    }

    fn prepare_for_create(&self, context: &Context, pod: &mut Value) {
        pod.set_at(&["metadata", "generation"], 1);
        let mut status = Value::object();
        status.set("phase", "Pending");
        let asked = pod.str_at(&["status", "qosClass"]);
        // Upstream takes over a class that the client gave.
        let class = if asked.is_empty() { qos_class(&pod["spec"]) } else { asked };
        status.set("qosClass", class);
        pod.set("status", status);
        drop_disabled_pod_fields(pod, None);
        if !pod.items_at(&["spec", "schedulingGates"]).is_empty() {
            let mut condition = Value::object();
            condition.set("type", "PodScheduled");
            condition.set("status", "False");
            condition.set("reason", "SchedulingGated");
            condition.set("message", "Scheduling is blocked due to non-empty scheduling gates");
            set_condition(pod, condition, context.now);
        }
        merge_label_keys(pod);
        copy_app_armor_annotations(pod);
    }

    fn prepare_for_update(&self, _: &Context, pod: &mut Value, old: &Value) {
        keep(pod, old, &["status"]);
        drop_disabled_pod_fields(pod, Some(old));
        set_generation(pod, old);
    }

    fn validate(&self, _: &Context, pod: &Value) -> Errors {
        validate_create(pod)
    }

    fn validate_update(&self, _: &Context, pod: &Value, old: &Value) -> Errors {
        validate_update(pod, old)
    }

    fn warnings(&self, _: &Context, pod: &Value, old: Option<&Value>) -> Vec<String> {
        // Updates come from components mostly, so that upstream saves itself the cost.
        if old.is_some() {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        let wrong = names::dns1123_label(pod.name());
        if !wrong.is_empty() {
            warnings.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label \
                 is recommended: [{}]",
                wrong.join(" ")
            ));
        }
        warnings.extend(warnings_for_pod(pod));
        warnings
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceRules> {
        match name {
            "status" => Some(&StatusRules),
            "ephemeralcontainers" => Some(&EphemeralContainersRules),
            "resize" => Some(&ResizeRules),
            _ => None,
        }
    }

    fn selectable_fields(&self, pod: &Value) -> Vec<(&'static str, Str)> {
        SELECTABLE
            .iter()
            .map(|field| {
                let value = match *field {
                    "spec.hostNetwork" => {
                        if pod.bool_at(&["spec", "hostNetwork"]) {
                            "true"
                        } else {
                            "false"
                        }
                    }
                    "status.podIP" => pod["status"]["podIPs"][0].str_at(&["ip"]),
                    "status.podIPs" => "",
                    _ => field.split_once('.').map_or("", |(part, name)| pod.str_at(&[part, name])),
                };
                (*field, Str::from(value))
            })
            .collect()
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        SELECTABLE
    }

    fn indexed_field(&self) -> Option<&'static str> {
        Some("spec.nodeName")
    }

    fn graceful(&self) -> Option<&dyn Graceful> {
        Some(self)
    }
}

impl Graceful for Pod {
    fn grace_period(&self, pod: &Value, asked: Option<i64>) -> Option<i64> {
        let own = pod.int_at(&["spec", "terminationGracePeriodSeconds"]).unwrap_or(0);
        let ended = matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded");
        let scheduled = !pod.str_at(&["spec", "nodeName"]).is_empty();
        Some(match asked.unwrap_or(own) {
            _ if !scheduled || ended => 0,
            seconds if seconds < 0 => 1,
            seconds => seconds,
        })
    }
}

/// Adds the values of a pod's own labels to the selectors that ask for them by `matchLabelKeys`.
fn merge_label_keys(pod: &mut Value) {
    let labels = pod.at(&["metadata", "labels"]).cloned().unwrap_or_default();
    let merge = |term: &mut Value| {
        for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            let keys = term.items_at(&[field]).to_vec();
            // Without a selector the term matches nothing, and stays so.
            let Some(selector) = term.get_mut("labelSelector") else { return };
            for key in keys.iter().filter_map(Value::as_str) {
                let Some(value) = labels.get(key) else { continue };
                let mut expression = Value::object();
                expression.set("key", key);
                expression.set("operator", operator);
                expression.set("values", vec![value.clone()]);
                if selector.get("matchExpressions").is_none() {
                    selector.set("matchExpressions", Value::Array(Vec::new()));
                }
                if let Some(list) = selector.get_mut("matchExpressions").and_then(Value::as_array_mut) {
                    list.push(expression);
                }
            }
        }
    };
    for field in ["podAffinity", "podAntiAffinity"] {
        let preferred = ["spec", "affinity", field, "preferredDuringSchedulingIgnoredDuringExecution"];
        each(pod, &preferred, |weighted| {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                merge(term);
            }
        });
        each(pod, &["spec", "affinity", field, "requiredDuringSchedulingIgnoredDuringExecution"], merge);
    }
    each(pod, &["spec", "topologySpreadConstraints"], merge);
}

/// The rules of `pods/ephemeralcontainers`.
struct EphemeralContainersRules;

impl SubresourceRules for EphemeralContainersRules {
    fn prepare_for_update(&self, _: &Context, pod: &mut Value, old: &Value) {
        let containers = pod.at(&["spec", "ephemeralContainers"]).cloned();
        keep(pod, old, &["spec"]);
        match containers {
            Some(containers) => pod.set_at(&["spec", "ephemeralContainers"], containers),
            None => {
                pod.remove_at(&["spec", "ephemeralContainers"]);
            }
        }
        keep(pod, old, &["status"]);
        keep_metadata(pod, old);
        drop_disabled_pod_fields(pod, Some(old));
        set_generation(pod, old);
    }

    fn validate_update(&self, _: &Context, pod: &Value, old: &Value) -> Errors {
        validate_ephemeral_update(pod, old)
    }
}
