//! ConfigMap: keys, size, and immutability (upstream: `ValidateConfigMap`, `ValidateConfigMapUpdate`).

use pintle_registry::{Strategy, StrategyContext};
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use super::secret::decoded_length;
use crate::validation::invalid_each;

/// The maximum total size of the data of a config map or a secret, in bytes (upstream: `MaxSecretSize`).
pub(super) const MAX_DATA_BYTES: usize = 1024 * 1024;

/// The strategy for ConfigMap.
pub(crate) struct ConfigMapStrategy;

impl Strategy for ConfigMapStrategy {
    // Upstream's default for `data`, an empty map, is not visible to clients because empty maps are omitted.

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        if let Some(old) = old {
            validate_unchanged_if_immutable(&mut errors, object, old, &["data", "binaryData"]);
        }
        let mut size = 0;
        let path = FieldPath::new("data");
        for (key, value) in object.entries_at(&["data"]) {
            validate_key(&mut errors, &path, key);
            if object.at(&["binaryData", key]).is_some() {
                errors.invalid(&path.key(key), key, "duplicate of key present in binaryData");
            }
            size += value.as_str().map_or(0, str::len);
        }
        let path = FieldPath::new("binaryData");
        for (key, value) in object.entries_at(&["binaryData"]) {
            validate_key(&mut errors, &path, key);
            size += decoded_length(value);
        }
        if size > MAX_DATA_BYTES {
            errors.push(FieldError::too_long(&FieldPath::new(""), MAX_DATA_BYTES));
        }
        errors
    }
}

/// Validates a key of a config map or a secret.
pub(super) fn validate_key(errors: &mut Errors, path: &FieldPath<'_>, key: &str) {
    invalid_each(errors, &path.key(key), key, names::config_map_key(key));
}

/// Once `validate_immutable` is set, neither it nor the data may change.
pub(super) fn validate_unchanged_if_immutable(errors: &mut Errors, object: &Value, old: &Value, fields: &[&str]) {
    const WHY: &str = "field is immutable when `immutable` is set";
    if !old.bool_at(&["immutable"]) {
        return;
    }
    if !object.bool_at(&["immutable"]) {
        errors.forbidden(&FieldPath::new("immutable"), WHY);
    }
    for field in fields {
        let entries =
            |object: &Value| object.entries_at(&[field]).map(|(k, v)| (k.to_owned(), v.clone())).collect::<Vec<_>>();
        if entries(object) != entries(old) {
            errors.forbidden(&FieldPath::new(field), WHY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check_validation;

    fn check(new: &str, old: Option<&str>, expect: &[&str]) {
        check_validation(&ConfigMapStrategy, new, old, expect);
    }

    #[test]
    fn keys_and_size() {
        check(r#"{"data":{"a.b_c-D":"1"},"binaryData":{"x":"AAAA"}}"#, None, &[]);
        check(
            r#"{"data":{"..":"1","a b":"2","x":"3"},"binaryData":{"x":"AAAA"}}"#,
            None,
            &[
                "data[..]: Invalid value: \"..\": must not be '..'",
                "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                "data[x]: Invalid value: \"x\": duplicate of key present in binaryData",
            ],
        );
        // The decoded length of base64 counts.
        let half = "a".repeat(MAX_DATA_BYTES / 2);
        let binary = format!("{}A==", "A".repeat(MAX_DATA_BYTES / 2 / 3 * 4 + 1));
        check(&format!(r#"{{"data":{{"a":"{half}"}},"binaryData":{{"b":"{}"}}}}"#, "AAAA".repeat(1000)), None, &[]);
        check(
            &format!(r#"{{"data":{{"a":"{half}","c":"{half}"}},"binaryData":{{"b":"{binary}"}}}}"#),
            None,
            &["[]: Too long: may not be more than 1048576 bytes"],
        );
    }

    #[test]
    fn immutable_data_cannot_change() {
        let old = r#"{"data":{"a":"1"},"immutable":true}"#;
        check(r#"{"data":{"a":"1"},"immutable":true,"metadata":{"labels":{"a":"b"}}}"#, Some(old), &[]);
        check(
            r#"{"data":{"a":"2"},"binaryData":{"b":""}}"#,
            Some(old),
            &[
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
                "binaryData: Forbidden: field is immutable when `immutable` is set",
            ],
        );
        check(r#"{"data":{"a":"2"},"immutable":true}"#, Some(r#"{"data":{"a":"1"}}"#), &[]);
    }
}
