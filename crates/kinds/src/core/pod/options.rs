//! Options that relax the validation of pods on update (upstream: `PodValidationOptions`). An object that was stored
//! under older, looser rules must remain updatable.

use pintle_registry::StrategyContext;
use pintle_value::{Errors, FieldPath, Value, names};

use super::visitor::all_containers;
use super::{resources, scheduling, security, volumes};

/// The annotation with the deletion cost of a pod for its controller.
pub(crate) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// How strict the validation of a pod or a pod template is. [`PodOptions::default`] is the strictest, for templates.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodOptions {
    /// True for a pod, false for a template.
    pub(crate) is_pod: bool,
    /// True if containers may be privileged.
    pub(crate) privileged: bool,
    pub(crate) any_deletion_cost: bool,
    pub(crate) any_selector_value: bool,
    pub(crate) any_required_affinity_value: bool,
    pub(crate) any_spread_selector: bool,
    pub(crate) legacy_match_label_keys: bool,
    pub(crate) indivisible_huge_pages: bool,
    pub(crate) any_token_path: bool,
    pub(crate) host_sysctls: bool,
    pub(crate) any_selinux_change_policy: bool,
    pub(crate) restarting_init_resize: bool,
    pub(crate) user_namespaces_with_devices: bool,
    pub(crate) user_namespaces_with_host_network: bool,
    pub(crate) comparing_tolerations: bool,
}

impl PodOptions {
    /// The options for a pod template, with the old template on update.
    pub(crate) fn for_template(context: &StrategyContext, old: Option<&Value>) -> Self {
        let privileged = context.allow_privileged;
        let Some(old) = old else { return Self { privileged, ..Self::default() } };
        let empty = Value::object();
        let spec = old.get("spec").unwrap_or(&empty);
        Self {
            is_pod: false,
            privileged,
            any_deletion_cost: deletion_cost(old).is_err(),
            any_selector_value: scheduling::has_invalid_affinity_selector(spec),
            any_required_affinity_value: has_invalid_required_affinity(spec),
            any_spread_selector: scheduling::has_invalid_spread_selector(spec),
            legacy_match_label_keys: scheduling::has_invalid_match_label_keys(spec),
            indivisible_huge_pages: resources::has_indivisible_huge_pages(spec),
            any_token_path: volumes::has_non_local_token_path(spec),
            host_sysctls: security::has_host_sysctl(spec),
            any_selinux_change_policy: spec.at(&["securityContext", "seLinuxChangePolicy"]).is_some(),
            restarting_init_resize: has_restarting_init_resize(spec),
            user_namespaces_with_devices: user_namespaces(spec)
                && all_containers(spec).any(|c| !c.items_at(&["volumeDevices"]).is_empty()),
            user_namespaces_with_host_network: user_namespaces(spec) && spec.bool_at(&["hostNetwork"]),
            comparing_tolerations: spec
                .items_at(&["tolerations"])
                .iter()
                .any(|t| matches!(t.str_at(&["operator"]), "Lt" | "Gt")),
        }
    }

    /// The options for a pod, with the old pod on update.
    pub(crate) fn for_pod(context: &StrategyContext, old: Option<&Value>) -> Self {
        Self { is_pod: true, ..Self::for_template(context, old) }
    }
}

/// Parses the annotation with the deletion cost of a pod.
pub(crate) fn deletion_cost(object: &Value) -> Result<i32, ()> {
    let Some(text) = object.annotation(DELETION_COST) else { return Ok(0) };
    // Rust's parser accepts a plus sign and leading zeros, upstream does not.
    let well_formed = text == "0" || text.starts_with(|c: char| c == '-' || ('1'..='9').contains(&c));
    if well_formed { text.parse().map_err(|_| ()) } else { Err(()) }
}

/// Returns true if the pod has a user namespace of its own.
pub(crate) fn user_namespaces(spec: &Value) -> bool {
    spec.get("hostUsers").and_then(Value::as_bool) == Some(false)
}

/// Returns true for an init container that keeps running beside the containers.
#[must_use]
pub fn is_sidecar(container: &Value) -> bool {
    container.str_at(&["restartPolicy"]) == "Always"
}

fn has_restarting_init_resize(spec: &Value) -> bool {
    spec.items_at(&["initContainers"])
        .iter()
        .filter(|c| !is_sidecar(c))
        .any(|c| c.items_at(&["resizePolicy"]).iter().any(|p| p.str_at(&["restartPolicy"]) == "RestartContainer"))
}

fn has_invalid_required_affinity(spec: &Value) -> bool {
    spec.items_at(&["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"])
        .iter()
        .flat_map(|term| term.items_at(&["matchExpressions"]))
        .flat_map(|expression| expression.items_at(&["values"]))
        .any(|value| !names::label_value(value.as_str().unwrap_or_default()).is_empty())
}

/// Returns true if a check of the old value reports no error.
pub(crate) fn has_no_errors(check: impl FnOnce(&mut Errors, &FieldPath<'_>)) -> bool {
    let mut errors = Errors::new();
    check(&mut errors, &FieldPath::root());
    errors.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn deletion_costs_are_plain_32_bit_integers() {
        let check = |text: &str, valid: bool| {
            let pod = object(&format!(r#"{{"metadata":{{"annotations":{{"{DELETION_COST}":"{text}"}}}}}}"#));
            assert_eq!(deletion_cost(&pod).is_ok(), valid, "{text}");
        };
        for valid in ["0", "-1", "10", "2147483647"] {
            check(valid, true);
        }
        for invalid in ["", "+1", "01", "x", "2147483648", "1.5"] {
            check(invalid, false);
        }
        assert!(deletion_cost(&object("{}")).is_ok());
    }
}
