//! Validates the environment of a container, and references to fields and resources of the pod (upstream:
//! `ValidateEnv`, `ValidateEnvFrom`, `validateObjectFieldSelector`, `validateContainerResourceFieldSelector`).

use pintle_value::{Errors, FieldPath, Value, names};

use crate::declarative::Rules;
use crate::validation::{invalid_each, validate_qualified_name};

static KEY: Rules = Rules::own("core/v1", "ConfigMapKeySelector");
static FILE_KEY: Rules = Rules::own("core/v1", "FileKeySelector");
static ENV_SOURCE: Rules = Rules::own("core/v1", "ConfigMapEnvSource");

/// The pod fields that environment variables may refer to.
const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The pod fields that files of a downward API volume may refer to.
pub(crate) const VOLUME_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Further valid field labels of pods, which neither variables nor volumes may refer to.
const OTHER_FIELDS: &[&str] = &["spec.restartPolicy", "spec.schedulerName", "status.phase"];

const RESOURCE_FIELDS: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGE_PREFIXES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];
const BYTE_DIVISORS: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Validates the environment variables of a container.
pub(crate) fn validate_env(errors: &mut Errors, variables: &[Value], path: &FieldPath<'_>) {
    for (i, variable) in variables.iter().enumerate() {
        let path = path.index(i);
        let name = variable.str_at(&["name"]);
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            invalid_each(errors, &path.child("name"), name, names::relaxed_env_var_name(name));
        }
        if let Some(source) = variable.get("valueFrom") {
            let has_value = !variable.str_at(&["value"]).is_empty();
            validate_value_from(errors, source, has_value, &path.child("valueFrom"));
        }
    }
}

fn validate_value_from(errors: &mut Errors, source: &Value, has_value: bool, path: &FieldPath<'_>) {
    let mut sources = 0;
    if let Some(field) = source.get("fieldRef") {
        sources += 1;
        validate_field_ref(errors, field, ENV_FIELDS, &path.child("fieldRef"));
    }
    if let Some(resource) = source.get("resourceFieldRef") {
        sources += 1;
        validate_resource_ref(errors, resource, false, &path.child("resourceFieldRef"));
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = source.get(name) {
            sources += 1;
            KEY.validate_part(errors, reference, &path.child(name));
        }
    }
    if let Some(file) = source.get("fileKeyRef") {
        sources += 1;
        FILE_KEY.validate_part(errors, file, &path.child("fileKeyRef"));
    }
    if sources == 0 {
        errors.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        );
    } else if has_value {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

/// Validates the `envFrom` sources of a container.
pub(crate) fn validate_env_from(errors: &mut Errors, sources: &[Value], path: &FieldPath<'_>) {
    for (i, source) in sources.iter().enumerate() {
        let item = path.index(i);
        let prefix = source.str_at(&["prefix"]);
        if !prefix.is_empty() {
            invalid_each(errors, &item.child("prefix"), prefix, names::relaxed_env_var_name(prefix));
        }
        let mut found = 0;
        for name in ["configMapRef", "secretRef"] {
            let Some(reference) = source.get(name) else { continue };
            found += 1;
            ENV_SOURCE.validate_part(errors, reference, &item.child(name));
        }
        // Upstream reports both errors at the list, not at the item.
        if found == 0 {
            errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if found > 1 {
            errors.invalid(path, "", "may not have more than one field specified at a time");
        }
    }
}

/// Validates a reference to a field of the pod.
pub(crate) fn validate_field_ref(errors: &mut Errors, reference: &Value, known: &[&str], path: &FieldPath<'_>) {
    let version = reference.str_at(&["apiVersion"]);
    let label = reference.str_at(&["fieldPath"]);
    for (value, field) in [(version, "apiVersion"), (label, "fieldPath")] {
        if value.is_empty() {
            errors.required(&path.child(field), "");
            return;
        }
    }
    let field_path = path.child("fieldPath");
    let unconverted = |errors: &mut Errors, why: String| {
        errors.invalid(&field_path, label, format!("error converting fieldPath: {why}"));
    };
    if version != "v1" {
        return unconverted(errors, format!("unsupported pod version: {version}"));
    }
    if let Some((map, key)) = split_subscript(label) {
        match map {
            "metadata.annotations" => validate_qualified_name(errors, path, &key.to_lowercase()),
            "metadata.labels" => validate_qualified_name(errors, path, key),
            _ => unconverted(errors, format!("field label does not support subscript: {label}")),
        }
        return;
    }
    // `spec.host` is the legacy label of the node name.
    let field = if label == "spec.host" { "spec.nodeName" } else { label };
    if known.contains(&field) {
        return;
    }
    if [ENV_FIELDS, VOLUME_FIELDS, OTHER_FIELDS].iter().any(|fields| fields.contains(&field)) {
        errors.not_supported(&field_path, field, known);
    } else {
        unconverted(errors, format!("field label not supported: {label}"));
    }
}

/// Splits `metadata.labels['key']`.
fn split_subscript(label: &str) -> Option<(&str, &str)> {
    let (map, key) = label.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, key))
}

/// Validates a reference to a resource of a container. A reference in a volume names the container.
pub(crate) fn validate_resource_ref(errors: &mut Errors, reference: &Value, in_volume: bool, path: &FieldPath<'_>) {
    let resource = reference.str_at(&["resource"]);
    let is_huge_page = HUGE_PAGE_PREFIXES.iter().any(|prefix| resource.starts_with(prefix));
    if in_volume && reference.str_at(&["containerName"]).is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !RESOURCE_FIELDS.contains(&resource) && !is_huge_page {
        errors.not_supported(&path.child("resource"), resource, RESOURCE_FIELDS);
    }

    let divisor = reference.str_at(&["divisor"]);
    if matches!(divisor, "" | "0") {
        return;
    }
    let bytes = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    let (known, values, what): (&[&str], &str, &str) = match resource {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"], "1m and 1", "cpu"),
        "limits.memory" | "requests.memory" => (BYTE_DIVISORS, bytes, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (BYTE_DIVISORS, bytes, "local ephemeral storage"),
        _ if is_huge_page => (BYTE_DIVISORS, bytes, "hugepages"),
        _ => return,
    };
    if !known.contains(&divisor) {
        let detail = format!("only divisor's values {values} are supported with the {what} resource");
        errors.invalid(&path.child("divisor"), resource, detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    fn check(variable: &str, expect: &[&str]) {
        let mut errors = Errors::new();
        validate_env(&mut errors, &[object(variable)], &FieldPath::new("env"));
        assert_eq!(messages(&errors), expect, "{variable}");
    }

    #[test]
    fn variables() {
        check(r#"{"name":"A b","value":"x"}"#, &[]);
        check(r#"{}"#, &["env[0].name: Required value"]);
        check(
            r#"{"name":"A","valueFrom":{}}"#,
            &["env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, \
               `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"],
        );
        check(
            r#"{"name":"A","value":"x","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}"#,
            &["env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty"],
        );
        check(
            r#"{"name":"A","valueFrom":{"secretKeyRef":{"name":"s"},"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.uid"}}}"#,
            &[
                "env[0].valueFrom.secretKeyRef.key: Required value",
                "env[0].valueFrom: Invalid value: \"\": may not have more than one field specified at a time",
            ],
        );
    }

    #[test]
    fn references_to_fields() {
        let check = |field: &str, expect: &[&str]| {
            let json =
                format!(r#"{{"name":"A","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"{field}"}}}}}}"#);
            check(&json, expect);
        };
        check("spec.host", &[]);
        check("metadata.labels['a/b']", &[]);
        check(
            "spec.x",
            &[
                "env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.x\": error converting fieldPath: field label \
               not supported: spec.x",
            ],
        );
        check(
            "metadata.labels",
            &["env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \
               \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \
               \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\""],
        );
        check(
            "spec.nodeName['a']",
            &[
                "env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.nodeName['a']\": error converting fieldPath: \
               field label does not support subscript: spec.nodeName['a']",
            ],
        );
    }

    #[test]
    fn references_to_resources() {
        let check = |json: &str, expect: &[&str]| {
            check(&format!(r#"{{"name":"A","valueFrom":{{"resourceFieldRef":{json}}}}}"#), expect);
        };
        check(r#"{"resource":"limits.cpu","divisor":"1m"}"#, &[]);
        check(r#"{"resource":"requests.hugepages-2Mi","divisor":"0"}"#, &[]);
        check(
            r#"{"resource":"limits.cpu","divisor":"2"}"#,
            &[
                "env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 \
               are supported with the cpu resource",
            ],
        );
    }
}
