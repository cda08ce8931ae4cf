//! The strategies for StorageClass and VolumeAttributesClass, whose parameters are immutable (upstream:
//! `pkg/apis/storage/validation`).

use std::collections::{BTreeMap, BTreeSet};

use pintle_registry::{Strategy, StrategyContext};
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use crate::core::node::deprecated_node_label;
use crate::declarative::Rules;
use crate::generic::{same_at, validate_immutable_at};
use crate::validation::{MAX_REPEATED_ERRORS, invalid_each};

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 * 1024;

static CLASS: Rules = Rules::own("storage/v1", "StorageClass");

/// The strategy for StorageClass.
pub(crate) struct StorageClassStrategy;

const IMMUTABLE: [&str; 4] = ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"];

impl Strategy for StorageClassStrategy {
    fn defaults(&self, object: &mut Value) {
        object.set_default("reclaimPolicy", "Delete");
        object.set_default("volumeBindingMode", "Immediate");
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        validate_provisioner(&mut errors, object, "provisioner");
        validate_parameters(&mut errors, object, true);
        CLASS.validate_part(&mut errors, object, &FieldPath::root());
        validate_topologies(&mut errors, object.items_at(&["allowedTopologies"]));
        for field in IMMUTABLE {
            validate_immutable_at(&mut errors, object, old, &[field]);
        }
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let list = FieldPath::new("allowedTopologies");
        for (i, term) in object.items_at(&["allowedTopologies"]).iter().enumerate() {
            for (j, expression) in term.items_at(&["matchLabelExpressions"]).iter().enumerate() {
                if let Some(text) = deprecated_node_label(expression.str_at(&["key"])) {
                    let path = list.index(i);
                    let path = path.child("matchLabelExpressions");
                    warnings.push(format!("{}: {text}", path.index(j).child("key")));
                }
            }
        }
        warnings
    }
}

/// The strategy for VolumeAttributesClass.
pub(crate) struct VolumeAttributesClassStrategy;

impl Strategy for VolumeAttributesClassStrategy {
    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        for field in ["driverName", "parameters"] {
            if old.is_some_and(|old| !same_at(object, old, &[field])) {
                errors.forbidden(&FieldPath::new(field), format!("updates to {field} are forbidden."));
            }
        }
        validate_provisioner(&mut errors, object, "driverName");
        validate_parameters(&mut errors, object, false);
        errors
    }
}

fn validate_provisioner(errors: &mut Errors, object: &Value, field: &str) {
    let name = object.str_at(&[field]);
    let path = FieldPath::new(field);
    if name.is_empty() {
        errors.required(&path, "");
        return;
    }
    // Upstream validates and shows the name in lower case.
    let name = name.to_lowercase();
    invalid_each(errors, &path, &name, names::qualified_name(&name));
}

fn validate_parameters(errors: &mut Errors, object: &Value, may_be_empty: bool) {
    let path = FieldPath::new("parameters");
    let (mut count, mut size) = (0, 0);
    let mut name_errors = Errors::new();
    for (key, value) in object.entries_at(&["parameters"]) {
        if key.is_empty() {
            name_errors.invalid(&path, key, "field can not be empty.");
        }
        count += 1;
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if count > MAX_PARAMETERS {
        errors.push(FieldError::too_long(&path, MAX_PARAMETERS));
        return;
    }
    errors.append(name_errors);
    if size > MAX_PARAMETER_BYTES {
        errors.push(FieldError::too_long(&path, MAX_PARAMETER_BYTES));
    }
    if count == 0 && !may_be_empty {
        errors.required(&path, "must contain at least one key/value pair");
    }
}

fn validate_topologies(errors: &mut Errors, topologies: &[Value]) {
    let list = FieldPath::new("allowedTopologies");
    // Upstream also compares each term with one empty term per item of the list, so each empty term is reported that
    // often as a duplicate.
    let mut seen: BTreeMap<BTreeMap<&str, BTreeSet<&str>>, usize> = BTreeMap::new();
    for (i, term) in topologies.iter().enumerate() {
        let path = list.index(i);
        let path = path.child("matchLabelExpressions");
        let mut keys: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (j, expression) in term.items_at(&["matchLabelExpressions"]).iter().enumerate() {
            let path = path.index(j);
            let values_path = path.child("values");
            let key = expression.str_at(&["key"]);
            let mut values = BTreeSet::new();
            if expression.items_at(&["values"]).is_empty() {
                errors.required(&values_path, "");
            }
            for (k, value) in expression.items_at(&["values"]).iter().filter_map(Value::as_str).enumerate() {
                if !values.insert(value) {
                    errors.push(FieldError::duplicate(&values_path.index(k), value));
                }
            }
            invalid_each(errors, &path.child("key"), key, names::label_key(key));
            if keys.insert(key, values).is_some() {
                errors.push(FieldError::duplicate(&path.child("key"), key));
            }
        }
        let empty = if keys.is_empty() { topologies.len() } else { 0 };
        let equal = seen.entry(keys).or_default();
        for _ in 0..(*equal + empty).min(MAX_REPEATED_ERRORS) {
            errors.push(FieldError::duplicate(&path, ""));
        }
        *equal += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation as check, context, object};

    #[test]
    fn storage_classes() {
        let mut class = object(r#"{"provisioner":"p"}"#);
        StorageClassStrategy.defaults(&mut class);
        assert_eq!(class, object(r#"{"provisioner":"p","reclaimPolicy":"Delete","volumeBindingMode":"Immediate"}"#));
        check(
            &StorageClassStrategy,
            r#"{"provisioner":"kubernetes.io/no-provisioner","parameters":{"a":"b"}}"#,
            None,
            &[],
        );
        check(
            &StorageClassStrategy,
            r#"{"parameters":{"":"b"},"reclaimPolicy":"Recycle","volumeBindingMode":"x"}"#,
            None,
            &[
                "provisioner: Required value",
                "parameters: Invalid value: \"\": field can not be empty.",
                "reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\"",
                "volumeBindingMode: Unsupported value: \"x\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
            ],
        );
        check(
            &StorageClassStrategy,
            r#"{"provisioner":"q","allowVolumeExpansion":true}"#,
            Some(r#"{"provisioner":"p","reclaimPolicy":"Retain","volumeBindingMode":"Immediate"}"#),
            &[
                "provisioner: Invalid value: \"q\": field is immutable",
                "reclaimPolicy: Invalid value: \"Delete\": field is immutable",
            ],
        );
    }

    #[test]
    fn duplicate_topologies_are_rejected() {
        let term = |values: &str| format!(r#"{{"matchLabelExpressions":[{{"key":"zone","values":[{values}]}}]}}"#);
        let class = |terms: &[String]| format!(r#"{{"provisioner":"p","allowedTopologies":[{}]}}"#, terms.join(","));
        check(&StorageClassStrategy, &class(&[term(r#""a""#), term(r#""b""#)]), None, &[]);
        check(
            &StorageClassStrategy,
            &class(&[term(r#""a","b""#), term(r#""b","a""#), term("")]),
            None,
            &[
                "allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\"",
                "allowedTopologies[2].matchLabelExpressions[0].values: Required value",
            ],
        );
        let old =
            r#"{"allowedTopologies":[{"matchLabelExpressions":[{"key":"failure-domain.beta.kubernetes.io/zone"}]}]}"#;
        assert_eq!(
            StorageClassStrategy.warnings(&context(), &object(old), None),
            [
                "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
            ]
        );
    }

    #[test]
    fn volume_attributes_classes() {
        let class = r#"{"driverName":"d.example.com","parameters":{"a":"b"}}"#;
        check(&VolumeAttributesClassStrategy, class, None, &[]);
        check(&VolumeAttributesClassStrategy, class, Some(class), &[]);
        check(
            &VolumeAttributesClassStrategy,
            r#"{"driverName":"e"}"#,
            Some(class),
            &[
                "driverName: Forbidden: updates to driverName are forbidden.",
                "parameters: Forbidden: updates to parameters are forbidden.",
                "parameters: Required value: must contain at least one key/value pair",
            ],
        );
    }
}
