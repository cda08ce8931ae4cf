//! The strategy for StorageVersionMigration, a request to write all objects of a resource again (upstream:
//! `pkg/apis/storagemigration/validation`, `pkg/registry/storagemigration/storagemigration`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::metadata::{self, IMMUTABLE_TEXT};
use pintle_value::{Errors, FieldPath, Value, names, object};

use crate::generic::{SPEC_AND_METADATA, StatusStrategy, reset_status, same_at};
use crate::go_json::{self, GoType};

const RESOURCE: [&str; 2] = ["spec", "resource"];

/// How upstream's internal type prints the spec.
const SPEC: GoType = GoType::Of("storagemigration/v1beta1.StorageVersionMigrationSpec");

/// The strategy for StorageVersionMigration.
pub(crate) struct StorageVersionMigrationStrategy;

static STATUS: StatusStrategy = StatusStrategy::new(validate_status).preserving(SPEC_AND_METADATA);

impl Strategy for StorageVersionMigrationStrategy {
    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = validate_resource(object);
        if old.is_some_and(|old| !same_at(object, old, &["spec"])) {
            errors.push(go_json::invalid(&FieldPath::new("spec"), &object["spec"], &SPEC, IMMUTABLE_TEXT));
        }
        errors
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

fn validate_resource(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec.resource");
    let named = object.at(&RESOURCE).cloned().unwrap_or_else(|| object! {});
    let mut reject = |field: &str, problems: Vec<String>| {
        if !problems.is_empty() {
            errors.invalid(&path.child(field), named.str_at(&[field]), problems.join(","));
        }
    };
    let (group, resource) = (named.str_at(&["group"]), named.str_at(&["resource"]));
    let group_problems = if group.is_empty() { Vec::new() } else { names::dns1123_subdomain(group) };
    if !resource.is_empty() {
        reject("resource", names::dns1035_label(resource));
        reject("group", group_problems);
        return errors;
    }
    errors.required(&path.child("resource"), "resource is required to be set");
    if !group_problems.is_empty() {
        errors.invalid(&path.child("group"), group, group_problems.join(","));
    }
    errors
}

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object.items_at(&["status", "conditions"]).iter();
    let mut found = conditions.filter(|found| found.str_at(&["type"]) == condition);
    found.next().is_some_and(|found| found.str_at(&["status"]) == "True")
}

fn validate_status(context: &StrategyContext, object: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("status");
    let (new_version, old_version) =
        (object.str_at(&["status", "resourceVersion"]), old.str_at(&["status", "resourceVersion"]));
    let version_path = path.child("resourceVersion");
    let is_well_formed = !new_version.is_empty()
        && !new_version.starts_with('0')
        && new_version.bytes().all(|byte| byte.is_ascii_digit());
    if !is_well_formed {
        let detail = format!("resource version is not well formed: {new_version}");
        errors.invalid(&version_path, new_version, detail);
    }
    let conditions_path = path.child("conditions");
    let conditions = &object["status"]["conditions"];
    errors.append(metadata::validate_conditions(conditions, context.missing_fields(), &conditions_path));
    if !old_version.is_empty() && old_version != new_version {
        errors.invalid(&version_path, new_version, IMMUTABLE_TEXT);
    }
    let (succeeded, failed, running) =
        (is_true(object, "Succeeded"), is_true(object, "Failed"), is_true(object, "Running"));
    for (is_wrong, detail) in [
        (succeeded && failed, "Both success and failed conditions cannot be true at the same time"),
        (succeeded && running, "Running condition cannot be true when success condition is true"),
        (failed && running, "Running condition cannot be true when failed condition is true"),
        (is_true(old, "Succeeded") && !succeeded, "Success condition cannot be set to false once it is true"),
        (is_true(old, "Failed") && !failed, "Failed condition cannot be set to false once it is true"),
    ] {
        if is_wrong {
            errors.invalid(&conditions_path, conditions.clone(), detail);
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation, context, messages, object};

    #[test]
    fn the_resource_is_named_and_immutable() {
        let migration = |resource: &str| format!(r#"{{"spec":{{"resource":{resource}}}}}"#);
        let check = |new: &str, old: Option<&str>, expect: &[&str]| {
            let old = old.map(migration);
            check_validation(&StorageVersionMigrationStrategy, &migration(new), old.as_deref(), expect);
        };
        let pods = r#"{"group":"","resource":"pods"}"#;
        check(pods, None, &[]);
        check(pods, Some(pods), &[]);
        check(
            r#"{"group":"A","resource":""}"#,
            None,
            &[
                "spec.resource.resource: Required value: resource is required to be set",
                "spec.resource.group: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        );
        check(
            r#"{"group":"","resource":"Pods"}"#,
            None,
            &[
                "spec.resource.resource: Invalid value: \"Pods\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            ],
        );
        check(
            r#"{"group":"apps","resource":"deployments"}"#,
            Some(pods),
            &[r#"spec: Invalid value: {"Resource":{"group":"apps","resource":"deployments"}}: field is immutable"#],
        );
    }

    /// Conditions as `TYPE=STATUS`.
    fn status(version: &str, conditions: &str) -> Value {
        let condition = |text: &str| {
            let (kind, status) = text.split_once('=').expect("a condition");
            object! { "type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R", "message": "" }
        };
        let conditions: Vec<Value> = conditions.split_whitespace().map(condition).collect();
        object! { "status": object! { "conditions": conditions, "resourceVersion": version } }
    }

    #[test]
    fn a_migration_ends_once() {
        let check = |new: (&str, &str), old: (&str, &str), expect: &[&str]| {
            let (new, old) = (status(new.0, new.1), status(old.0, old.1));
            let found = messages(&validate_status(&context(), &new, &old));
            let cut = |text: &String| match text.rsplit_once(": ") {
                Some((head, detail)) => format!("{}: {detail}", head.split(':').next().unwrap_or_default()),
                None => text.clone(),
            };
            assert_eq!(found.iter().map(cut).collect::<Vec<_>>(), expect, "{new:?}");
        };
        check(("5", "Running=True"), ("", ""), &[]);
        check(("5", "Succeeded=True Running=False"), ("5", "Running=True"), &[]);
        check(("6", ""), ("5", ""), &["status.resourceVersion: field is immutable"]);
        check(("", ""), ("", ""), &["status.resourceVersion: "]);
        check(("05", ""), ("", ""), &["status.resourceVersion: 05"]);
        check(
            ("5", "Succeeded=True Failed=True Running=True"),
            ("5", ""),
            &[
                "status.conditions: Both success and failed conditions cannot be true at the same time",
                "status.conditions: Running condition cannot be true when success condition is true",
                "status.conditions: Running condition cannot be true when failed condition is true",
            ],
        );
        check(
            ("5", ""),
            ("5", "Succeeded=True Failed=True"),
            &[
                "status.conditions: Success condition cannot be set to false once it is true",
                "status.conditions: Failed condition cannot be set to false once it is true",
            ],
        );
    }

    #[test]
    fn the_status_is_written_separately() {
        let mut new = object(r#"{"spec":{"resource":{"resource":"pods"}},"status":{"resourceVersion":"1"}}"#);
        StorageVersionMigrationStrategy.prepare_for_create(&context(), &mut new);
        assert_eq!(new, object(r#"{"spec":{"resource":{"resource":"pods"}},"status":{}}"#));
    }
}
