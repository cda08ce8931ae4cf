//! The strategy for Node: taints, resources, addresses and fields that are set once (upstream:
//! `pkg/registry/core/node`, `ValidateNode`, `ValidateNodeUpdate`).

use std::collections::BTreeSet;

use pintle_codec::json;
use pintle_gates::Gates;
use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{ErrorKind, Errors, FieldError, FieldPath, Str, Value, names};

use crate::core::pod::defaults::round_resource_list;
use crate::core::pod::resources::{quantity, validate_quantity};
use crate::declarative::Rules;
use crate::gated::{Part, drop_disabled};
use crate::generic::{is_enabled_or_used, keep_old, same_at};
use crate::go_json::{self, GoType};
use crate::networking::address::{AddressRules, add_cidr_warnings};
use crate::validation::invalid_each;

const TAINTS_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/taints";
const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const MAX_FEATURE_NAME: usize = 253;

static CONFIG: Rules = Rules::own("core/v1", "ConfigMapNodeConfigSource");

/// The strategy for Node.
pub(crate) struct NodeStrategy;

impl Strategy for NodeStrategy {
    fn defaults(&self, object: &mut Value) {
        sync_pod_cidrs(object);
        let capacity = object.at(&["status", "capacity"]).cloned();
        if let (Some(capacity), Some(status)) = (capacity, object.at_mut(&["status"])) {
            status.set_default("allocatable", capacity);
        }
        round_resource_list(object, &["status", "capacity"]);
        round_resource_list(object, &["status", "allocatable"]);
    }

    fn prepare_for_create(&self, context: &StrategyContext, object: &mut Value) {
        // Kubelets create nodes together with their status. Dynamic kubelet configuration no longer exists.
        object.remove_at(&["spec", "configSource"]);
        object.remove_at(&["status", "config"]);
        drop_disabled(&context.gates, Part::Node, object, None);
    }

    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value) {
        keep_old(object, old, &["status"]);
        if old.at(&["spec", "configSource"]).is_none() {
            object.remove_at(&["spec", "configSource"]);
        }
        drop_disabled(&context.gates, Part::Node, object, Some(old));
    }

    fn has_option(&self, gates: &Gates, option: &str, old: Option<&Value>) -> bool {
        const FEATURE: &str = "InPlacePodVerticalScalingSchedulerPreemption";
        is_enabled_or_used(gates, option, old, (FEATURE, &["spec", "podPreemptionPolicy"]))
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        validate_taints_of(&mut errors, object);
        validate_taints(&mut errors, object.items_at(&["spec", "taints"]), &FieldPath::new("metadata.taints"));
        validate_resources(&mut errors, object);
        if let Some(swap) = object.int_at(&["status", "nodeInfo", "swap", "capacity"]).filter(|swap| *swap <= 0) {
            // Upstream uses this path.
            let path = FieldPath::new("metadata.nodeSwapStatus");
            errors.invalid(&path.child("capacity"), swap, "must be greater than zero");
        }
        validate_features(&mut errors, object);
        validate_pod_cidrs(AddressRules::of(&context.gates), &mut errors, object);
        if let Some(old) = old {
            errors.append(validate_change(object, old));
        }
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if object.at(&["spec", "configSource"]).is_some() {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !object.str_at(&["spec", "externalID"]).is_empty() {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        let list = FieldPath::new("spec.podCIDRs");
        for (i, cidr) in object.items_at(&["spec", "podCIDRs"]).iter().enumerate() {
            add_cidr_warnings(&mut warnings, &list.index(i), cidr.as_str().unwrap_or_default());
        }
        warnings
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&NodeStatusStrategy as &dyn SubresourceStrategy)
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        &["spec.unschedulable"]
    }

    fn is_selectable_by_namespace(&self) -> bool {
        false
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, Str)> {
        let unschedulable = if object.bool_at(&["spec", "unschedulable"]) { "true" } else { "false" };
        vec![("spec.unschedulable", unschedulable.into())]
    }
}

/// The strategy for the `status` subresource.
struct NodeStatusStrategy;

impl SubresourceStrategy for NodeStatusStrategy {
    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value) {
        keep_old(object, old, &["spec"]);
        if old.at(&["status", "config"]).is_none() {
            object.remove_at(&["status", "config"]);
        }
        drop_disabled(&context.gates, Part::Node, object, Some(old));
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        validate_change(object, old)
    }
}

/// Synchronizes `podCIDR` and `podCIDRs`. If they differ, `podCIDR` takes precedence.
fn sync_pod_cidrs(object: &mut Value) {
    let Some(spec) = object.at_mut(&["spec"]) else { return };
    let one = Str::from(spec.str_at(&["podCIDR"]));
    let first = spec.items_at(&["podCIDRs"]).first().and_then(Value::as_str).map(Str::from);
    match first {
        Some(first) if one.is_empty() => spec.set("podCIDR", first),
        Some(first) if first == one => {}
        _ if one.is_empty() => {}
        _ => spec.set("podCIDRs", vec![one]),
    }
}

fn validate_taints_of(errors: &mut Errors, object: &Value) {
    let Some(text) = object.annotation(TAINTS_ANNOTATION).filter(|text| !text.is_empty()) else { return };
    let path = FieldPath::new("metadata.annotations");
    match json::decode(text.as_bytes(), json::DecodeOptions::default()) {
        Ok(taints) => validate_taints(errors, taints.value.items_at(&[]), &path.child(TAINTS_ANNOTATION)),
        Err(error) => errors.invalid(&path, TAINTS_ANNOTATION, error.to_string()),
    }
}

fn validate_taints(errors: &mut Errors, taints: &[Value], list: &FieldPath<'_>) {
    /// How upstream's internal type prints a taint.
    const TAINT: GoType = GoType::Of("core/v1.Taint");
    let mut seen = BTreeSet::new();
    for (i, taint) in taints.iter().enumerate() {
        let path = list.index(i);
        let (key, value, effect) = (taint.str_at(&["key"]), taint.str_at(&["value"]), taint.str_at(&["effect"]));
        invalid_each(errors, &path.child("key"), key, names::label_key(key));
        let problems = names::label_value(value);
        if !problems.is_empty() {
            errors.invalid(&path.child("value"), value, problems.join(";"));
        }
        if effect.is_empty() {
            errors.required(&path.child("effect"), "");
        } else if !TAINT_EFFECTS.contains(&effect) {
            errors.not_supported(&path.child("effect"), effect, &TAINT_EFFECTS);
        }
        if !seen.insert((effect, key)) {
            let detail = "taints must be unique by key and effect pair";
            let error = FieldError::new(ErrorKind::Duplicate, &path, taint.clone(), detail);
            errors.push(error.showing(go_json::internal(Some(taint), &TAINT)));
        }
    }
}

fn validate_resources(errors: &mut Errors, object: &Value) {
    let status = FieldPath::new("status");
    for list in ["capacity", "allocatable"] {
        let path = status.child(list);
        for (name, amount) in object.entries_at(&["status", list]) {
            validate_quantity(errors, name, &quantity(amount), &path.child(name));
        }
    }
}

/// Validates that declared features are valid names, sorted and unique.
fn validate_features(errors: &mut Errors, object: &Value) {
    let status = FieldPath::new("status");
    let list = status.child("declaredFeatures");
    let features: Vec<&str> =
        object.items_at(&["status", "declaredFeatures"]).iter().filter_map(Value::as_str).collect();
    for (i, feature) in features.iter().enumerate() {
        if feature.len() > MAX_FEATURE_NAME {
            let detail =
                format!("invalid feature name {feature:?}: must be no more than {MAX_FEATURE_NAME} characters");
            errors.invalid(&list.index(i), *feature, detail);
        } else if !is_feature_name(feature) {
            let detail = format!(
                "invalid feature name {feature:?}: must start with an UpperCamelCase segment, with subsequent segments \
                 separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters \
                 and slashes"
            );
            errors.invalid(&list.index(i), *feature, detail);
        }
        match features.get(i + 1) {
            Some(next) if next == feature => errors.duplicate(&list.index(i + 1), *next),
            Some(next) if next < feature => {
                errors.invalid(&list.index(i + 1), *next, "list must be sorted alphabetically");
            }
            _ => {}
        }
    }
}

fn is_feature_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.split('/').all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.chars().all(|c| c.is_ascii_alphanumeric())
        })
}

fn validate_pod_cidrs(rules: AddressRules, errors: &mut Errors, object: &Value) {
    let list = FieldPath::new("spec.podCIDRs");
    let cidrs: Vec<&str> = object.items_at(&["spec", "podCIDRs"]).iter().filter_map(Value::as_str).collect();
    for (i, cidr) in cidrs.iter().enumerate() {
        rules.validate_cidr(errors, &list.index(i), cidr, &BTreeSet::new());
    }
    if cidrs.len() > 1 {
        let six = cidrs.iter().filter(|cidr| cidr.contains(':')).count();
        let both = six > 0 && six < cidrs.len();
        if !both || cidrs.len() > 2 {
            let detail = "may specify no more than one CIDR for each IP family";
            errors.invalid(&list, cidrs.clone(), detail);
        }
    }
}

/// Repeats the validation of `ValidateNodeUpdate`. For an update of the node itself, this repeats some earlier checks.
fn validate_change(object: &Value, old: &Value) -> Errors {
    /// How upstream's internal type prints an address.
    const ADDRESS: GoType = GoType::Of("core/v1.NodeAddress");
    let mut errors = Errors::new();
    validate_taints_of(&mut errors, object);
    validate_resources(&mut errors, object);
    validate_features(&mut errors, object);
    let list = FieldPath::new("status.addresses");
    let mut seen = BTreeSet::new();
    for (i, address) in object.items_at(&["status", "addresses"]).iter().enumerate() {
        if !seen.insert((address.str_at(&["type"]), address.str_at(&["address"]))) {
            let error = FieldError::duplicate(&list.index(i), address.clone());
            errors.push(error.showing(go_json::internal(Some(address), &ADDRESS)));
        }
    }
    let cidrs = |node: &Value| node.items_at(&["spec", "podCIDRs"]).to_vec();
    let (before, after) = (cidrs(old), cidrs(object));
    if !before.is_empty() && before.len() != after.len() {
        add_cidr_immutable_error(&mut errors);
    } else {
        for _ in before.iter().zip(&after).filter(|(before, after)| before != after) {
            add_cidr_immutable_error(&mut errors);
        }
    }
    let provider = ["spec", "providerID"];
    if !old.str_at(&provider).is_empty() && old.str_at(&provider) != object.str_at(&provider) {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(&FieldPath::new("spec.providerID"), detail);
    }
    if let Some(source) = object.at(&["spec", "configSource"]) {
        validate_config_source(&mut errors, source, &FieldPath::new("spec.configSource"), false);
    }
    let config = FieldPath::new("status.config");
    for field in ["assigned", "active", "lastKnownGood"] {
        if let Some(source) = object.at(&["status", "config", field]) {
            validate_config_source(&mut errors, source, &config.child(field), true);
        }
    }
    validate_taints(&mut errors, object.items_at(&["spec", "taints"]), &FieldPath::new("metadata.taints"));
    if !same_at(object, old, &["spec", "externalID"]) {
        errors.forbidden(&FieldPath::new("spec.externalID"), "may not be updated");
    }
    errors
}

/// Validates a source of the dynamic kubelet configuration, which nodes may still have (upstream:
/// `validateNodeConfigSourceSpec`, `validateNodeConfigSourceStatus`). A source in the status names one version of a
/// ConfigMap.
fn validate_config_source(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, is_status: bool) {
    /// How upstream's internal type prints a source without a ConfigMap.
    const SOURCE: GoType = GoType::Of("core/v1.NodeConfigSource");
    let Some(map) = source.get("configMap") else {
        errors.push(go_json::invalid(path, source, &SOURCE, "exactly one reference subfield must be non-nil"));
        return;
    };
    let path = path.child("configMap");
    for field in ["uid", "resourceVersion"] {
        match map.str_at(&[field]).is_empty() {
            true if is_status => errors.required(&path.child(field), format!("{field} must be set in status")),
            false if !is_status => errors.forbidden(&path.child(field), format!("{field} must not be set in spec")),
            _ => {}
        }
    }
    CONFIG.validate_part(errors, map, &path);
}

fn add_cidr_immutable_error(errors: &mut Errors) {
    let detail = "node updates may not change podCIDR except from \"\" to valid";
    errors.forbidden(&FieldPath::new("spec.podCIDRs"), detail);
}

/// Returns the warning about a deprecated node label (upstream: `GetNodeLabelDeprecatedMessage`).
pub(crate) fn deprecated_node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#,
        "beta.kubernetes.io/os" => r#"deprecated since v1.14; use "kubernetes.io/os" instead"#,
        "failure-domain.beta.kubernetes.io/region" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#
        }
        "beta.kubernetes.io/instance-type" => {
            r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => r#"use "node-role.kubernetes.io/control-plane" instead"#,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn defaults() {
        let check = |given: &str, expect: &str| {
            let mut node = object(given);
            NodeStrategy.defaults(&mut node);
            assert_eq!(node, object(expect));
        };
        check(
            r#"{"spec":{"podCIDR":"10.0.0.0/24"}}"#,
            r#"{"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"]}}"#,
        );
        check(
            r#"{"spec":{"podCIDRs":["10.0.0.0/24","fd00::/64"]}}"#,
            r#"{"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24","fd00::/64"]}}"#,
        );
        check(
            r#"{"spec":{"podCIDR":"10.1.0.0/24","podCIDRs":["10.0.0.0/24","fd00::/64"]}}"#,
            r#"{"spec":{"podCIDR":"10.1.0.0/24","podCIDRs":["10.1.0.0/24"]}}"#,
        );
        check(
            r#"{"status":{"capacity":{"cpu":"2"}}}"#,
            r#"{"status":{"capacity":{"cpu":"2"},"allocatable":{"cpu":"2"}}}"#,
        );
    }

    #[test]
    fn nodes() {
        let check = |node: &str, expect: &[&str]| {
            assert_eq!(messages(&NodeStrategy.validate(&context(), &object(node))), expect, "{node}");
        };
        check(r#"{"spec":{"taints":[{"key":"a","effect":"NoSchedule"},{"key":"a","effect":"NoExecute"}]}}"#, &[]);
        check(
            r#"{"spec":{"taints":[{"key":"a","effect":"NoSchedule"},{"key":"a","value":"b","effect":"NoSchedule"},{"key":"c","effect":"x"},{"key":"d"}]}}"#,
            &[
                "metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"b\",\"Effect\":\"NoSchedule\",\"TimeAdded\":null}: taints must be unique by key and effect pair",
                "metadata.taints[2].effect: Unsupported value: \"x\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                "metadata.taints[3].effect: Required value",
            ],
        );
        check(
            r#"{"status":{"capacity":{"cpu":"-1","pods":"1500m"},"declaredFeatures":["B","A","a/"]}}"#,
            &[
                "status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
                "status.capacity.pods: Invalid value: \"1500m\": must be an integer",
                "status.declaredFeatures[1]: Invalid value: \"A\": list must be sorted alphabetically",
                "status.declaredFeatures[2]: Invalid value: \"a/\": invalid feature name \"a/\": must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
            ],
        );
        check(
            r#"{"spec":{"podCIDRs":["10.0.0.0/24","10.1.0.0/24"]}}"#,
            &[
                "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one CIDR for each IP family",
            ],
        );
    }

    #[test]
    fn fields_that_are_set_once_are_immutable() {
        let old = object(r#"{"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"],"providerID":"p"}}"#);
        let mut new = old.clone();
        assert!(NodeStrategy.validate_update(&context(), &new, &old).is_empty());
        new.set_at(&["spec", "podCIDRs"], vec!["10.1.0.0/24"]);
        new.set_at(&["spec", "providerID"], "q");
        assert_eq!(
            messages(&NodeStrategy.validate_update(&context(), &new, &old)),
            [
                "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
                "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
            ]
        );
        let status = NodeStrategy.subresource("status").expect("status");
        let doubled = object(
            r#"{"status":{"addresses":[{"type":"InternalIP","address":"a"},{"type":"InternalIP","address":"a"}]}}"#,
        );
        assert_eq!(
            messages(&status.validate_update(&context(), &doubled, &Value::object())),
            ["status.addresses[1]: Duplicate value: {\"Type\":\"InternalIP\",\"Address\":\"a\"}"]
        );
    }

    #[test]
    fn sources_of_the_kubelet_configuration_are_validated() {
        let check = |node: &str, expect: &[&str]| {
            let old = object(r#"{"spec":{"configSource":{}},"status":{"config":{}}}"#);
            assert_eq!(messages(&NodeStrategy.validate_update(&context(), &object(node), &old)), expect);
        };
        let map = r#""namespace":"a","name":"b","kubeletConfigKey":"c""#;
        let version = r#""uid":"d","resourceVersion":"1""#;
        check(&format!(r#"{{"spec":{{"configSource":{{"configMap":{{{map}}}}}}}}}"#), &[]);
        check(&format!(r#"{{"status":{{"config":{{"active":{{"configMap":{{{map},{version}}}}}}}}}}}"#), &[]);
        check(
            &format!(
                r#"{{"spec":{{"configSource":{{"configMap":{{{version},"namespace":"A","name":"b","kubeletConfigKey":".."}}}}}},
                    "status":{{"config":{{"assigned":{{}},"lastKnownGood":{{"configMap":{{"name":"b"}}}}}}}}}}"#
            ),
            &[
                "spec.configSource.configMap.uid: Forbidden: uid must not be set in spec",
                "spec.configSource.configMap.resourceVersion: Forbidden: resourceVersion must not be set in spec",
                "spec.configSource.configMap.namespace: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.configSource.configMap.kubeletConfigKey: Invalid value: \"..\": must not be '..'",
                "status.config.assigned: Invalid value: {\"ConfigMap\":null}: exactly one reference subfield must be non-nil",
                "status.config.lastKnownGood.configMap.uid: Required value: uid must be set in status",
                "status.config.lastKnownGood.configMap.resourceVersion: Required value: resourceVersion must be set in status",
                "status.config.lastKnownGood.configMap.namespace: Required value: namespace must be set",
                "status.config.lastKnownGood.configMap.kubeletConfigKey: Required value: kubeletConfigKey must be set",
            ],
        );
    }
}
