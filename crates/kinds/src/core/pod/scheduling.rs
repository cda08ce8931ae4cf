//! Validates scheduling constraints: node selectors and affinity, pod affinity, tolerations, topology spread,
//! scheduling gates (upstream: `validateAffinity`, `ValidateTolerations`, `validateTopologySpreadConstraints`).

use std::collections::{BTreeMap, BTreeSet};

use pintle_value::print::quote;
use pintle_value::{Errors, FieldPath, Value, metadata, names};

use super::options::{LabelKeyRules, PodOptions, has_no_errors};
use crate::declarative::Rules;
use crate::labels::{self, validate_selector};
use crate::validation::{invalid_each, require_positive, strings_at, validate_one_of, validate_qualified_name};

static SPREAD: Rules = Rules::own("core/v1", "TopologySpreadConstraint");
static WEIGHT: Rules = Rules::own("core/v1", "WeightedPodAffinityTerm");

/// Validates the keys and values of labels.
pub(crate) fn validate_labels(errors: &mut Errors, labels: Option<&Value>, path: &FieldPath<'_>) {
    errors.append(metadata::validate_labels(labels.unwrap_or(&Value::Null), path));
}

/// Validates the affinity of a pod.
pub(crate) fn validate_affinity(errors: &mut Errors, affinity: &Value, options: &PodOptions, path: &FieldPath<'_>) {
    if let Some(node) = affinity.get("nodeAffinity") {
        validate_node_affinity(errors, node, options, &path.child("nodeAffinity"));
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = affinity.get(field) else { continue };
        let path = path.child(field);
        let list = path.child("requiredDuringSchedulingIgnoredDuringExecution");
        for (i, term) in affinity.items_at(&["requiredDuringSchedulingIgnoredDuringExecution"]).iter().enumerate() {
            validate_pod_affinity_term(errors, term, options, &list.index(i));
        }
        let list = path.child("preferredDuringSchedulingIgnoredDuringExecution");
        for (i, weighted) in affinity.items_at(&["preferredDuringSchedulingIgnoredDuringExecution"]).iter().enumerate()
        {
            let path = list.index(i);
            WEIGHT.validate_part(errors, weighted, &path);
            validate_pod_affinity_term(errors, &weighted["podAffinityTerm"], options, &path.child("podAffinityTerm"));
        }
    }
}

fn validate_node_affinity(errors: &mut Errors, affinity: &Value, options: &PodOptions, path: &FieldPath<'_>) {
    if let Some(selector) = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") {
        let path = path.child("requiredDuringSchedulingIgnoredDuringExecution");
        validate_node_selector(errors, selector, options.any_required_affinity_value, &path);
    }
    let list = path.child("preferredDuringSchedulingIgnoredDuringExecution");
    for (i, term) in affinity.items_at(&["preferredDuringSchedulingIgnoredDuringExecution"]).iter().enumerate() {
        let path = list.index(i);
        WEIGHT.validate_part(errors, term, &path);
        // Upstream always tolerated malformed label values in preferences.
        validate_node_selector_term(errors, &term["preference"], true, &path.child("preference"));
    }
}

/// Validates a `NodeSelector`.
pub(crate) fn validate_node_selector(errors: &mut Errors, selector: &Value, any_value: bool, path: &FieldPath<'_>) {
    let list = path.child("nodeSelectorTerms");
    let terms = selector.items_at(&["nodeSelectorTerms"]);
    if terms.is_empty() {
        errors.required(&list, "must have at least one node selector term");
    }
    for (i, term) in terms.iter().enumerate() {
        validate_node_selector_term(errors, term, any_value, &list.index(i));
    }
}

fn validate_node_selector_term(errors: &mut Errors, term: &Value, any_value: bool, path: &FieldPath<'_>) {
    let list = path.child("matchExpressions");
    for (i, requirement) in term.items_at(&["matchExpressions"]).iter().enumerate() {
        validate_node_requirement(errors, requirement, any_value, &list.index(i));
    }
    let list = path.child("matchFields");
    for (i, requirement) in term.items_at(&["matchFields"]).iter().enumerate() {
        validate_node_field(errors, requirement, &list.index(i));
    }
}

fn validate_node_requirement(errors: &mut Errors, requirement: &Value, any_value: bool, path: &FieldPath<'_>) {
    let values = requirement.items_at(&["values"]);
    let values_path = path.child("values");
    let operator = requirement.str_at(&["operator"]);
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&values_path, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&values_path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.required(&values_path, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.invalid(&path.child("operator"), operator, "not a valid selector operator"),
    }
    let key = requirement.str_at(&["key"]);
    invalid_each(errors, &path.child("key"), key, names::label_key(key));
    if !any_value {
        for (i, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            invalid_each(errors, &values_path.index(i), value, names::label_value(value));
        }
    }
}

fn validate_node_field(errors: &mut Errors, requirement: &Value, path: &FieldPath<'_>) {
    let values = requirement.items_at(&["values"]);
    let operator = requirement.str_at(&["operator"]);
    let values_path = path.child("values");
    match operator {
        "In" | "NotIn" => {
            if values.len() != 1 {
                let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.required(&values_path, detail);
            }
        }
        _ => errors.invalid(&path.child("operator"), operator, "not a valid selector operator"),
    }
    let key = requirement.str_at(&["key"]);
    if key != "metadata.name" {
        errors.invalid(&path.child("key"), key, "not a valid field selector key");
        return;
    }
    for (i, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        invalid_each(errors, &values_path.index(i), value, names::dns1123_subdomain_name(value, false));
    }
}

fn validate_pod_affinity_term(errors: &mut Errors, term: &Value, options: &PodOptions, path: &FieldPath<'_>) {
    for field in ["labelSelector", "namespaceSelector"] {
        if let Some(selector) = term.get(field) {
            errors.append(validate_selector(Some(selector), options.any_selector_value, &path.child(field)));
        }
    }
    for namespace in term.items_at(&["namespaces"]) {
        let namespace = namespace.as_str().unwrap_or_default();
        invalid_each(errors, &path.child("namespace"), namespace, names::namespace_name(namespace, false));
    }
    validate_match_label_keys(errors, term, path);
    let key = term.str_at(&["topologyKey"]);
    if key.is_empty() {
        errors.required(&path.child("topologyKey"), "can not be empty");
    }
    invalid_each(errors, &path.child("topologyKey"), key, names::label_key(key));
}

/// Validates the `matchLabelKeys` of a term, after their values were added to the selector.
fn validate_match_label_keys(errors: &mut Errors, term: &Value, path: &FieldPath<'_>) {
    let selector = term.get("labelSelector");
    let keys = strings_at(term, &["matchLabelKeys"]);
    let mismatch = strings_at(term, &["mismatchLabelKeys"]);
    for (field, keys) in [("matchLabelKeys", &keys), ("mismatchLabelKeys", &mismatch)] {
        let list = path.child(field);
        if !keys.is_empty() && selector.is_none() {
            errors.forbidden(&list, "must not be specified when labelSelector is not set");
            continue;
        }
        for (i, key) in keys.iter().enumerate() {
            invalid_each(errors, &list.index(i), *key, names::label_key(key));
        }
    }
    if let Some(selector) = selector {
        // If the selector contains a key in addition to the requirement that was generated from it, it contained the
        // key before.
        let last: BTreeMap<&str, usize> = keys.iter().enumerate().map(|(i, key)| (*key, i)).collect();
        let mut seen: BTreeSet<&str> = selector.entries_at(&["matchLabels"]).map(|(key, _)| key).collect();
        for expression in selector.items_at(&["matchExpressions"]) {
            let key = expression.str_at(&["key"]);
            let repeated = !seen.insert(key);
            if let Some(i) = last.get(key).filter(|_| repeated) {
                errors.invalid(&path.index(*i), key, "exists in both matchLabelKeys and labelSelector");
            }
        }
    }
    let list = path.child("matchLabelKeys");
    let mismatch: BTreeSet<&str> = mismatch.into_iter().collect();
    for (i, key) in keys.iter().enumerate().filter(|(_, key)| mismatch.contains(*key)) {
        errors.invalid(&list.index(i), *key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// The check of Kubernetes before 1.34, which did not add label keys to the selector.
fn validate_legacy_match_label_keys(errors: &mut Errors, constraint: &Value, path: &FieldPath<'_>) {
    let keys = strings_at(constraint, &["matchLabelKeys"]);
    if keys.is_empty() {
        return;
    }
    let list = path.child("matchLabelKeys");
    let mut used = BTreeSet::new();
    match constraint.get("labelSelector") {
        Some(selector) => {
            used.extend(selector.entries_at(&["matchLabels"]).map(|(key, _)| key));
            used.extend(selector.items_at(&["matchExpressions"]).iter().map(|e| e.str_at(&["key"])));
        }
        None => errors.forbidden(&list, "must not be specified when labelSelector is not set"),
    }
    for (i, key) in keys.into_iter().enumerate() {
        invalid_each(errors, &list.index(i), key, names::label_key(key));
        if used.contains(key) {
            errors.invalid(&list.index(i), key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

/// Validates the topology spread constraints of a pod.
pub(crate) fn validate_spread<'s>(errors: &mut Errors, spec: &'s Value, options: &PodOptions, list: &FieldPath<'_>) {
    let constraints = spec.items_at(&["topologySpreadConstraints"]);
    let kind = |constraint: &'s Value| (constraint.str_at(&["topologyKey"]), constraint.str_at(&["whenUnsatisfiable"]));
    let last: BTreeMap<(&str, &str), usize> =
        constraints.iter().enumerate().map(|(i, constraint)| (kind(constraint), i)).collect();
    for (i, constraint) in constraints.iter().enumerate() {
        let path = list.index(i);
        let (key, action) = kind(constraint);
        SPREAD.validate_part(errors, constraint, &path);
        if last.get(&(key, action)).is_some_and(|last| *last > i) {
            errors.duplicate(&path.child("{topologyKey, whenUnsatisfiable}"), format!("{{{key}, {action}}}"));
        }
        if let Some(domains) = constraint.int_at(&["minDomains"]) {
            let path = path.child("minDomains");
            require_positive(errors, &path, domains);
            if action != "DoNotSchedule" {
                let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(&path, domains, detail);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.get(field).and_then(Value::as_str);
            validate_one_of(errors, &path.child(field), policy, &["Honor", "Ignore"]);
        }
        match options.match_label_keys {
            LabelKeyRules::Merged => validate_match_label_keys(errors, constraint, &path),
            LabelKeyRules::Legacy => validate_legacy_match_label_keys(errors, constraint, &path),
            LabelKeyRules::Any => {}
        }
        if let Some(selector) = constraint.get("labelSelector").filter(|_| !options.any_spread_selector) {
            errors.append(validate_selector(Some(selector), false, &path.child("labelSelector")));
        }
    }
}

/// Returns true if a spread constraint has a selector that new objects may not have.
pub(crate) fn has_invalid_spread_selector(spec: &Value) -> bool {
    spec.items_at(&["topologySpreadConstraints"])
        .iter()
        .filter_map(|c| c.get("labelSelector"))
        .any(labels::is_invalid_selector)
}

/// Returns the rules for the label keys of an update. If the old spec violates the rules of new objects, the other
/// rules apply.
pub(crate) fn rules_for_label_keys(rules: LabelKeyRules, old: &Value) -> LabelKeyRules {
    let constraints = old.items_at(&["topologySpreadConstraints"]);
    let any_violates = |validate: fn(&mut Errors, &Value, &FieldPath<'_>)| {
        constraints.iter().any(|constraint| !has_no_errors(|errors, path| validate(errors, constraint, path)))
    };
    match rules {
        LabelKeyRules::Merged if any_violates(validate_match_label_keys) => LabelKeyRules::Legacy,
        LabelKeyRules::Legacy if any_violates(validate_legacy_match_label_keys) => LabelKeyRules::Merged,
        rules => rules,
    }
}

/// Returns true if a pod affinity term has a selector that new objects may not have.
pub(crate) fn has_invalid_affinity_selector(spec: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().filter_map(|field| spec.at(&["affinity", field])).any(|affinity| {
        let required = affinity.items_at(&["requiredDuringSchedulingIgnoredDuringExecution"]).iter();
        let preferred = affinity.items_at(&["preferredDuringSchedulingIgnoredDuringExecution"]).iter();
        required.chain(preferred.map(|term| &term["podAffinityTerm"])).any(|term| {
            ["labelSelector", "namespaceSelector"].iter().filter_map(|f| term.get(f)).any(labels::is_invalid_selector)
        })
    })
}

/// Validates a list of tolerations outside of a pod.
#[must_use]
pub fn validate_toleration_list(tolerations: &[Value], list: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::new();
    validate_tolerations(&mut errors, tolerations, &PodOptions { is_pod: true, ..PodOptions::default() }, list);
    errors
}

/// Validates the tolerations of a pod.
pub(crate) fn validate_tolerations(
    errors: &mut Errors,
    tolerations: &[Value],
    options: &PodOptions,
    list: &FieldPath<'_>,
) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let path = list.index(i);
        let operator_path = path.child("operator");
        let key = toleration.str_at(&["key"]);
        let operator = toleration.str_at(&["operator"]);
        let value = toleration.str_at(&["value"]);
        let effect = toleration.str_at(&["effect"]);
        if !key.is_empty() {
            invalid_each(errors, &path.child("key"), key, names::label_key(key));
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&operator_path, operator, detail);
        }
        if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&path.child("effect"), effect, detail);
        }
        match operator {
            "" | "Equal" => {
                let problems = names::label_value(value);
                if !problems.is_empty() {
                    errors.invalid(&operator_path, value, problems.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    errors.invalid(&operator_path, value, "value must be empty when `operator` is 'Exists'");
                }
            }
            "Lt" | "Gt" if options.comparing_tolerations => {
                invalid_each(errors, &path.child("value"), value, names::decimal_integer(value));
                if value.parse::<i64>().is_err() {
                    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
                    let number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
                    let why = if number { "value out of range" } else { "invalid syntax" };
                    let detail = format!("strconv.ParseInt: parsing {}: {why}", quote(value));
                    errors.invalid(&path.child("value"), value, detail);
                }
            }
            // While the feature is disabled, upstream rejects these operators but still lists them as supported.
            "Lt" | "Gt" => errors.not_supported(&operator_path, operator, &["Equal", "Exists", "Lt", "Gt"]),
            _ => errors.not_supported(&operator_path, operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            let effects = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
            validate_one_of(errors, &path.child("effect"), Some(effect), effects);
        }
    }
}

/// Validates scheduling gates.
pub(crate) fn validate_gates(errors: &mut Errors, gates: &[Value], list: &FieldPath<'_>) {
    let mut seen = BTreeSet::new();
    for (i, gate) in gates.iter().enumerate() {
        let name = gate.str_at(&["name"]);
        validate_qualified_name(errors, &list.index(i), name);
        if !seen.insert(name) {
            errors.duplicate(&list.index(i), name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    #[test]
    fn tolerations() {
        let check = |toleration: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            let items = [object(toleration)];
            validate_tolerations(&mut errors, &items, &PodOptions::default(), &FieldPath::new("t"));
            assert_eq!(messages(&errors), expect, "{toleration}");
        };
        check(r#"{"operator":"Exists"}"#, &[]);
        check(r#"{"key":"a","value":"b","effect":"NoExecute","tolerationSeconds":1}"#, &[]);
        check(
            r#"{"effect":"NoSchedule","tolerationSeconds":1}"#,
            &[
                "t[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all \
                 values and all keys\"",
                "t[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            ],
        );
        check(
            r#"{"key":"a","operator":"Gt","effect":"X"}"#,
            &[
                "t[0].operator: Unsupported value: \"Gt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
                "t[0].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            ],
        );
    }

    #[test]
    fn spread() {
        let check = |constraints: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            let spec = object(&format!(r#"{{"topologySpreadConstraints":{constraints}}}"#));
            validate_spread(&mut errors, &spec, &PodOptions::default(), &FieldPath::new("s"));
            assert_eq!(messages(&errors), expect, "{constraints}");
        };
        check(r#"[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule","minDomains":1}]"#, &[]);
        check(
            r#"[{"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway","minDomains":1},
                {"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway","matchLabelKeys":["a"]}]"#,
            &[
                "s[0].maxSkew: Invalid value: 0: must be greater than zero",
                "s[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{zone, ScheduleAnyway}\"",
                "s[0].minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not \
                 ScheduleAnyway",
                "s[1].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
            ],
        );
    }

    #[test]
    fn affinity() {
        let check = |affinity: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            validate_affinity(&mut errors, &object(affinity), &PodOptions::default(), &FieldPath::new("a"));
            assert_eq!(messages(&errors), expect, "{affinity}");
        };
        check(
            r#"{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{},
                "preferredDuringSchedulingIgnoredDuringExecution":[{"weight":101,"preference":{"matchExpressions":[
                {"key":"a","operator":"In"},{"key":"b","operator":"Gt","values":["1","2"]}],
                "matchFields":[{"key":"x","operator":"Exists"}]}}]}}"#,
            &[
                "a.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have \
                 at least one node selector term",
                "a.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in \
                 the range 1-100",
                "a.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values: \
                 Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "a.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[1].values: \
                 Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
                "a.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields[0].operator: \
                 Invalid value: \"Exists\": not a valid selector operator",
                "a.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields[0].key: Invalid \
                 value: \"x\": not a valid field selector key",
            ],
        );
        check(
            r#"{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone",
                "labelSelector":{"matchExpressions":[{"key":"k","operator":"Exists"},
                {"key":"k","operator":"In","values":["v"]}]},"matchLabelKeys":["k"],"mismatchLabelKeys":["k"]}]}}"#,
            &[
                "a.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0][0]: Invalid value: \"k\": exists in both \
                 matchLabelKeys and labelSelector",
                "a.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys[0]: Invalid value: \"k\": \
                 exists in both matchLabelKeys and mismatchLabelKeys",
            ],
        );
    }
}
