//! Validates a job's policies for pod failures, success and pod replacement (upstream: `validatePodFailurePolicy`,
//! `validateSuccessPolicy`, `validatePodReplacementPolicy`).

use std::collections::HashSet;

use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use super::indexes;
use crate::go_json::GoType;
use crate::validation::{invalid_each, reject_negative};

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_PATTERNS: usize = 20;
const MAX_INDEXES_LENGTH: usize = 64 * 1024;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// How a success policy prints.
pub(super) const SUCCESS_POLICY: GoType = GoType::Of("batch/v1.SuccessPolicy");

/// How a pod failure policy prints.
pub(super) const FAILURE_POLICY: GoType = GoType::Of("batch/v1.PodFailurePolicy");

/// Formats a list of known values like Go's `%q`.
fn listed(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn require_one_of(errors: &mut Errors, value: &str, known: &[&str], path: &FieldPath<'_>) {
    if value.is_empty() {
        errors.required(path, listed(known));
    } else if !known.contains(&value) {
        errors.not_supported(path, value, known);
    }
}

/// Validates `podFailurePolicy`.
pub(super) fn validate_failure_policy(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let rules_path = path.child("rules");
    let rules = spec.items_at(&["podFailurePolicy", "rules"]);
    if rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(&rules_path, rules.len(), MAX_RULES));
    }
    let lists = ["containers", "initContainers"].into_iter();
    let containers = lists.flat_map(|list| spec.items_at(&["template", "spec", list]));
    let containers: HashSet<&str> = containers.map(|container| container.str_at(&["name"])).collect();
    for (i, rule) in rules.iter().enumerate() {
        validate_failure_rule(errors, spec, &containers, rule, &rules_path.index(i));
    }
}

fn validate_failure_rule(
    errors: &mut Errors,
    spec: &Value,
    containers: &HashSet<&str>,
    rule: &Value,
    path: &FieldPath<'_>,
) {
    let action = rule.str_at(&["action"]);
    if action == "FailIndex" {
        if spec.get("backoffLimitPerIndex").is_none() {
            errors.invalid(&path.child("action"), action, "requires the backoffLimitPerIndex to be set");
        }
    } else {
        require_one_of(errors, action, &ACTIONS, &path.child("action"));
    }
    let codes = rule.get("onExitCodes");
    if let Some(codes) = codes {
        validate_exit_codes(errors, containers, codes, &path.child("onExitCodes"));
    }
    let patterns = rule.items_at(&["onPodConditions"]);
    validate_patterns(errors, patterns, &path.child("onPodConditions"));
    let text = match (codes.is_some(), !patterns.is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(FieldError::invalid(path, Value::Null, text).without_value());
}

fn validate_patterns(errors: &mut Errors, patterns: &[Value], path: &FieldPath<'_>) {
    if patterns.len() > MAX_PATTERNS {
        errors.push(FieldError::too_many(path, patterns.len(), MAX_PATTERNS));
    }
    for (i, pattern) in patterns.iter().enumerate() {
        let path = path.index(i);
        let kind = pattern.str_at(&["type"]);
        invalid_each(errors, &path.child("type"), kind, names::qualified_name(kind));
        require_one_of(errors, pattern.str_at(&["status"]), &STATUSES, &path.child("status"));
    }
}

fn validate_exit_codes(errors: &mut Errors, containers: &HashSet<&str>, codes: &Value, path: &FieldPath<'_>) {
    let operator = codes.str_at(&["operator"]);
    require_one_of(errors, operator, &OPERATORS, &path.child("operator"));
    if let Some(name) = codes.get("containerName").and_then(Value::as_str)
        && !containers.contains(name)
    {
        let text = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&path.child("containerName"), name, text);
    }
    let values_path = path.child("values");
    let values: Vec<i64> = codes.items_at(&["values"]).iter().filter_map(Value::as_int).collect();
    if values.is_empty() {
        errors.invalid(&values_path, codes["values"].clone(), "at least one value is required");
    } else if values.len() > MAX_EXIT_CODES {
        errors.push(FieldError::too_many(&values_path, values.len(), MAX_EXIT_CODES));
    }
    let mut seen = HashSet::new();
    for (i, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.invalid(&values_path.index(i), *value, "must not be 0 for the In operator");
        }
        if !seen.insert(*value) {
            errors.duplicate(&values_path.index(i), *value);
        }
    }
    if !values.is_sorted() {
        errors.invalid(&values_path, codes["values"].clone(), "must be ordered");
    }
}

/// Validates `successPolicy` of an Indexed job.
pub(super) fn validate_success_policy(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let rules_path = path.child("rules");
    let rules = spec.items_at(&["successPolicy", "rules"]);
    if rules.is_empty() {
        errors.required(&rules_path, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(&rules_path, rules.len(), MAX_RULES));
    }
    // Another rule rejects an Indexed job without completions; upstream panics here.
    let Some(completions) = spec.int_at(&["completions"]) else { return };
    for (i, rule) in rules.iter().enumerate() {
        validate_success_rule(errors, rule, completions, &rules_path.index(i));
    }
}

fn validate_success_rule(errors: &mut Errors, rule: &Value, completions: i64, path: &FieldPath<'_>) {
    let indexes = rule.get("succeededIndexes").and_then(Value::as_str);
    let count = rule.int_at(&["succeededCount"]);
    if indexes.is_none() && count.is_none() {
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let path = path.child("succeededIndexes");
        if indexes.len() > MAX_INDEXES_LENGTH {
            errors.push(FieldError::too_long(&path, MAX_INDEXES_LENGTH));
        }
        match indexes::count(indexes, completions) {
            Ok(count) => total = count,
            Err(e) => errors.invalid(&path, indexes, format!("error parsing succeededIndexes: {e}")),
        }
    }
    let Some(count) = count else { return };
    let path = path.child("succeededCount");
    reject_negative(errors, &path, count);
    if count > completions {
        let text = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.invalid(&path, count, text);
    }
    if indexes.is_some() && count > total {
        let text = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.invalid(&path, count, text);
    }
}

/// Validates `podReplacementPolicy`.
pub(super) fn validate_replacement_policy(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let Some(policy) = spec.get("podReplacementPolicy").and_then(Value::as_str) else { return };
    let known: &[&str] = match spec.get("podFailurePolicy") {
        Some(_) => &["Failed"],
        None => &["Failed", "TerminatingOrFailed"],
    };
    if !known.contains(&policy) {
        errors.not_supported(path, policy, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    fn check(validate: fn(&mut Errors, &Value, &FieldPath<'_>), spec: &str, expect: &[&str]) {
        let mut errors = Errors::new();
        validate(&mut errors, &object(spec), &FieldPath::new("p"));
        assert_eq!(messages(&errors), expect);
    }

    #[test]
    fn failure_policies_are_validated() {
        let check = |rule: &str, expect: &[&str]| {
            let spec = format!(
                r#"{{"template":{{"spec":{{"containers":[{{"name":"c"}}]}}}},"podFailurePolicy":{{"rules":[{rule}]}}}}"#
            );
            check(validate_failure_policy, &spec, expect);
        };
        check(r#"{"action":"FailJob","onExitCodes":{"containerName":"c","operator":"In","values":[1,2]}}"#, &[]);
        check(
            r#"{"action":"","onPodConditions":[{"type":"a b","status":"Maybe"}]}"#,
            &[
                "p.rules[0].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
                &format!(
                    "p.rules[0].onPodConditions[0].type: Invalid value: \"a b\": {}",
                    names::qualified_name("a b").join("")
                ),
                "p.rules[0].onPodConditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
            ],
        );
        check(
            r#"{"action":"FailIndex"}"#,
            &[
                "p.rules[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
                "p.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
            ],
        );
        check(
            r#"{"action":"Other","onExitCodes":{"containerName":"x","operator":"In","values":[3,0,3]},"onPodConditions":[{"type":"a","status":"True"}]}"#,
            &[
                "p.rules[0].action: Unsupported value: \"Other\": supported values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"",
                "p.rules[0].onExitCodes.containerName: Invalid value: \"x\": must be one of the container or initContainer names in the pod template",
                "p.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                "p.rules[0].onExitCodes.values[2]: Duplicate value: 3",
                "p.rules[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered",
                "p.rules[0]: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
            ],
        );
    }

    #[test]
    fn success_policies_are_validated() {
        let check = |rules: &str, expect: &[&str]| {
            let spec = format!(r#"{{"completions":5,"successPolicy":{{"rules":[{rules}]}}}}"#);
            check(validate_success_policy, &spec, expect);
        };
        check(r#"{"succeededIndexes":"0-2","succeededCount":2}"#, &[]);
        check(
            "",
            &["p.rules: Required value: at least one rules must be specified when the successPolicy is specified"],
        );
        check(
            "{}",
            &["p.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified"],
        );
        check(
            r#"{"succeededIndexes":"0-2,9"}"#,
            &[
                "p.rules[0].succeededIndexes: Invalid value: \"0-2,9\": error parsing succeededIndexes: too large index: \"9\"",
            ],
        );
        check(
            r#"{"succeededIndexes":"0-2","succeededCount":6}"#,
            &[
                "p.rules[0].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified completions)",
                "p.rules[0].succeededCount: Invalid value: 6: must be less than or equal to 3 (the number of indexes in the specified succeededIndexes field)",
            ],
        );
    }
}
