//! Options that relax the validation of pods on update (upstream: `PodValidationOptions`). An object that was stored
//! under older, looser rules must remain updatable.

use pintle_gates::{Change, Feature};
use pintle_registry::StrategyContext;
use pintle_value::{Errors, FieldPath, Value, names};

use super::visitor::all_containers;
use super::{resources, scheduling, security, volumes};
use crate::networking::address::AddressRules;

/// The annotation with the deletion cost of a pod for its controller.
pub(crate) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The action of a restart rule that restarts the whole pod in place.
pub(crate) const RESTART_ALL_CONTAINERS: &str = "RestartAllContainers";

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
    pub(crate) match_label_keys: LabelKeyRules,
    pub(crate) indivisible_huge_pages: bool,
    pub(crate) any_token_path: bool,
    pub(crate) host_sysctls: bool,
    pub(crate) any_selinux_change_policy: bool,
    pub(crate) restarting_init_resize: bool,
    pub(crate) user_namespaces_with_devices: bool,
    pub(crate) user_namespaces_with_host_network: bool,
    pub(crate) comparing_tolerations: bool,
    /// True if an image volume may have no reference.
    pub(crate) any_image_reference: bool,
    /// True if a security context may add CAP_SYS_ADMIN and forbid the escalation of privileges.
    pub(crate) any_sys_admin: bool,
    /// True if pod-level resources are not validated.
    pub(crate) any_pod_resources: bool,
    pub(crate) address_rules: AddressRules,
    /// True if a rule may not restart all containers of a pod.
    pub(crate) no_restart_of_all: bool,
}

/// The rules for `matchLabelKeys` of topology spread constraints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LabelKeyRules {
    /// The rules of 1.34, which adds the keys to the selector.
    #[default]
    Merged,
    /// The rules before 1.34.
    Legacy,
    /// No rules.
    Any,
}

impl PodOptions {
    /// The options for a pod template, with the old template on update.
    pub(crate) fn for_template(context: &StrategyContext, old: Option<&Value>) -> Self {
        let gates = &context.gates;
        let is_enabled = |feature| gates.is_enabled(feature);
        let images_have_references = gates.has(Change::IMAGE_VOLUMES_OF_TEMPLATES_HAVE_REFERENCES);
        let (spreads, merges) = (Feature::MATCH_LABEL_KEYS_IN_SPREAD, Feature::MATCH_LABEL_KEYS_IN_SPREAD_SELECTORS);
        let by_gates = Self {
            privileged: context.allow_privileged,
            any_deletion_cost: !is_enabled(Feature::POD_DELETION_COST),
            match_label_keys: match (is_enabled(spreads), is_enabled(merges)) {
                (true, true) => LabelKeyRules::Merged,
                (true, false) => LabelKeyRules::Legacy,
                (false, _) => LabelKeyRules::Any,
            },
            any_selinux_change_policy: is_enabled(Feature::SELINUX_MOUNT),
            user_namespaces_with_host_network: is_enabled(Feature::USER_NAMESPACES_HOST_NETWORK_SUPPORT),
            comparing_tolerations: is_enabled(Feature::TAINT_TOLERATION_COMPARISON_OPERATORS),
            address_rules: AddressRules::of(gates),
            any_image_reference: !images_have_references,
            any_pod_resources: !is_enabled(Feature::POD_LEVEL_RESOURCES),
            no_restart_of_all: !is_enabled(Feature::RESTART_ALL_CONTAINERS_ON_CONTAINER_EXITS),
            ..Self::default()
        };
        let Some(old) = old else { return by_gates };
        let spec = &old["spec"];
        Self {
            any_deletion_cost: by_gates.any_deletion_cost || deletion_cost(old).is_err(),
            any_selector_value: scheduling::has_invalid_affinity_selector(spec),
            any_required_affinity_value: has_invalid_required_affinity(spec),
            any_spread_selector: scheduling::has_invalid_spread_selector(spec),
            match_label_keys: scheduling::rules_for_label_keys(by_gates.match_label_keys, spec),
            indivisible_huge_pages: resources::has_indivisible_huge_pages(spec),
            any_token_path: volumes::has_non_local_token_path(spec),
            host_sysctls: security::has_host_sysctl(spec),
            any_selinux_change_policy: by_gates.any_selinux_change_policy
                || spec.at(&["securityContext", "seLinuxChangePolicy"]).is_some(),
            restarting_init_resize: has_restarting_init_resize(spec),
            user_namespaces_with_devices: user_namespaces(spec)
                && all_containers(spec).any(|c| !c.items_at(&["volumeDevices"]).is_empty()),
            user_namespaces_with_host_network: by_gates.user_namespaces_with_host_network
                || user_namespaces(spec) && spec.bool_at(&["hostNetwork"]),
            comparing_tolerations: by_gates.comparing_tolerations
                || spec.items_at(&["tolerations"]).iter().any(|t| matches!(t.str_at(&["operator"]), "Lt" | "Gt")),
            any_image_reference: by_gates.any_image_reference || volumes::has_image_without_reference(spec),
            any_sys_admin: gates.has(Change::UNCHANGED_SYS_ADMIN_IS_VALID)
                && security::has_sys_admin_without_escalation(spec),
            no_restart_of_all: by_gates.no_restart_of_all && !restarts_all_containers(spec),
            ..by_gates
        }
    }

    /// The options for a pod, with the old pod on update.
    pub(crate) fn for_pod(context: &StrategyContext, old: Option<&Value>) -> Self {
        let options = Self::for_template(context, old);
        // Before the change, the rule held for pods only, and old pods were no exception.
        let any_image_reference =
            options.any_image_reference && context.gates.has(Change::IMAGE_VOLUMES_OF_TEMPLATES_HAVE_REFERENCES);
        Self { is_pod: true, any_image_reference, ..options }
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

/// Returns true if a container has a rule that restarts all containers, or a sidecar has rules.
fn restarts_all_containers(spec: &Value) -> bool {
    let rules = |container: &Value| container.items_at(&["restartPolicyRules"]).to_vec();
    ["containers", "initContainers"]
        .iter()
        .flat_map(|list| spec.items_at(&[list]))
        .any(|container| rules(container).iter().any(|rule| rule.str_at(&["action"]) == RESTART_ALL_CONTAINERS))
        || spec
            .items_at(&["initContainers"])
            .iter()
            .any(|container| is_sidecar(container) && !rules(container).is_empty())
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
    use crate::testing::{context_of, gated_context, object};

    #[test]
    fn label_keys_follow_the_rules_of_their_gates() {
        let merged = r#"{"maxSkew":1,"labelSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]},
            "matchLabelKeys":["a"]}"#;
        let template = object(&format!(r#"{{"spec":{{"topologySpreadConstraints":[{merged}]}}}}"#));
        let (fields, selectors) =
            ("MatchLabelKeysInPodTopologySpread", "MatchLabelKeysInPodTopologySpreadSelectorMerge");
        let check = |off: &[&str], old: Option<&Value>, expect: LabelKeyRules| {
            let off: Vec<_> = off.iter().map(|gate| (*gate, false)).collect();
            let found = PodOptions::for_template(&gated_context(&off), old).match_label_keys;
            assert_eq!(found, expect, "{off:?}");
        };
        check(&[], None, LabelKeyRules::Merged);
        check(&[], Some(&template), LabelKeyRules::Merged);
        check(&[selectors], None, LabelKeyRules::Legacy);
        // The old object has a key both in the list and in the selector, which the old rules forbid.
        check(&[selectors], Some(&template), LabelKeyRules::Merged);
        check(&[fields, selectors], Some(&template), LabelKeyRules::Any);
    }

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

    #[test]
    fn images_without_references_are_kept() {
        let old = object(r#"{"spec":{"volumes":[{"name":"v","image":{}}]}}"#);
        let check = |minor: u8, old: Option<&Value>, template: bool, pod: bool| {
            let context = context_of(minor, &[]);
            assert_eq!(PodOptions::for_template(&context, old).any_image_reference, template, "{minor}");
            assert_eq!(PodOptions::for_pod(&context, old).any_image_reference, pod, "{minor}");
        };
        check(36, None, true, false);
        check(36, Some(&old), true, false);
        check(37, None, false, false);
        check(37, Some(&old), true, true);
    }

    #[test]
    fn sys_admin_without_escalation_is_kept() {
        let context = r#"{"allowPrivilegeEscalation":false,"capabilities":{"add":["CAP_SYS_ADMIN"]}}"#;
        let old = object(&format!(r#"{{"spec":{{"initContainers":[{{"securityContext":{context}}}]}}}}"#));
        for (minor, kept) in [(36, false), (37, true)] {
            let context = context_of(minor, &[]);
            assert!(!PodOptions::for_template(&context, None).any_sys_admin, "{minor}");
            assert_eq!(PodOptions::for_template(&context, Some(&old)).any_sys_admin, kept, "{minor}");
        }
    }
}
