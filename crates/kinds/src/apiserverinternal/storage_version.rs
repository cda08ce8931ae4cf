//! The strategy for StorageVersion, in which servers say how they store a resource (upstream:
//! `pkg/apis/apiserverinternal/validation`, `pkg/registry/apiserverinternal/storageversion`).

use std::collections::HashMap;

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use crate::generic::{SPEC_AND_METADATA, StatusStrategy, reset_status};
use crate::validation::{invalid_each, str_field, strings_at};

/// The strategy for StorageVersion.
pub(crate) struct StorageVersionStrategy;

static STATUS: StatusStrategy =
    StatusStrategy::new(|_, object, _| validate_status(&object["status"])).preserving(SPEC_AND_METADATA);

impl Strategy for StorageVersionStrategy {
    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        // An update changes neither the spec, which is empty, nor the status.
        if old.is_none() { validate_status(&object["status"]) } else { Errors::new() }
    }

    fn validate_name(&self, name: &str, _: bool) -> Vec<String> {
        let Some((group, resource)) = name.rsplit_once('.') else {
            return vec!["name must be in the form of <group>.<resource>".to_owned()];
        };
        let group = names::dns1123_subdomain(group).into_iter().map(|why| format!("the group segment {why}"));
        let resource = names::dns1035_label(resource).into_iter().map(|why| format!("the resource segment {why}"));
        group.chain(resource).collect()
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

fn validate_status(status: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("status");
    let versions = status.items_at(&["storageVersions"]);
    for (i, version) in versions.iter().enumerate() {
        validate_server(&mut errors, version, &path.child("storageVersions").index(i));
    }
    validate_common_version(&mut errors, status, versions, &path);
    validate_conditions(&mut errors, status.items_at(&["conditions"]), &path);
    errors
}

/// Validates the record of one server.
fn validate_server(errors: &mut Errors, version: &Value, path: &FieldPath<'_>) {
    let id = version.str_at(&["apiServerID"]);
    invalid_each(errors, &path.child("apiServerID"), id, names::dns1123_subdomain_name(id, false));
    let encoding = version.str_at(&["encodingVersion"]);
    let mut validate_version = |text: &str, path: &FieldPath<'_>| {
        let problems = api_version_problems(text);
        if !problems.is_empty() {
            errors.invalid(path, text, problems.join(","));
        }
    };
    validate_version(encoding, &path.child("encodingVersion"));
    let decodable = strings_at(version, &["decodableVersions"]);
    let list = path.child("decodableVersions");
    for (i, text) in decodable.iter().enumerate() {
        validate_version(text, &list.index(i));
    }
    if !decodable.contains(&encoding) {
        let detail = format!("decodableVersions must include encodingVersion {encoding}");
        errors.invalid(&list, version.get("decodableVersions").cloned().unwrap_or_default(), detail);
    }
}

/// Requires a common version exactly if all servers encode objects in the same version.
fn validate_common_version(errors: &mut Errors, status: &Value, versions: &[Value], path: &FieldPath<'_>) {
    let mut encodings = versions.iter().map(|version| version.str_at(&["encodingVersion"]));
    let actual = encodings.next().filter(|first| encodings.all(|other| other == *first));
    let path = path.child("commonEncodingVersion");
    match (actual, str_field(status, "commonEncodingVersion")) {
        (None, None) => {}
        (None, Some(common)) => {
            let detail = "should be nil if servers do not agree on the same encoding version, or if there is no server \
                          reporting the supported versions yet";
            errors.invalid(&path, common, detail);
        }
        (Some(actual), None) => {
            let detail = format!("the common encoding version is {actual}");
            errors.push(FieldError::invalid(&path, Value::Null, detail).showing("null"));
        }
        (Some(actual), Some(common)) if actual != common => {
            errors.invalid(&path, common, format!("the actual common encoding version is {actual}"));
        }
        _ => {}
    }
}

/// Validates conditions. Upstream's paths name items of the status, and it shows the type where the status is wrong.
fn validate_conditions(errors: &mut Errors, conditions: &[Value], path: &FieldPath<'_>) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        let name = condition.str_at(&["type"]);
        if let Some(other) = seen.insert(name, i) {
            let detail = format!("the type of the condition is not unique, it also appears in conditions[{other}]");
            errors.invalid(&path.child("type"), name, detail);
        }
        invalid_each(errors, &path.child("type"), name, names::qualified_name(name));
        let status = condition.str_at(&["status"]);
        invalid_each(errors, &path.child("status"), name, names::qualified_name(status));
        for field in ["reason", "message"] {
            if condition.str_at(&[field]).is_empty() {
                errors.required(&path.child(field), format!("{field} cannot be empty"));
            }
        }
    }
}

/// The errors in an `apiVersion`.
fn api_version_problems(text: &str) -> Vec<String> {
    const EMPTY: &str = "must be non-empty";
    let mut problems = Vec::new();
    let version = match text.split('/').collect::<Vec<_>>()[..] {
        [version] => version,
        [group, version] => {
            let found = if group.is_empty() { vec![EMPTY.to_owned()] } else { names::dns1123_subdomain(group) };
            problems.extend(found.into_iter().map(|why| format!("group part: {why}")));
            version
        }
        _ => {
            let what = "a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an \
                        alphabetic character, and end with an alphanumeric character";
            let label = names::format_text(what, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]);
            let optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')";
            return vec![format!("an apiVersion is {label} {optional}")];
        }
    };
    let found = if version.is_empty() { vec![EMPTY.to_owned()] } else { names::dns1035_label(version) };
    problems.extend(found.into_iter().map(|why| format!("version part: {why}")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    fn check(status: &str, expect: &[&str]) {
        let found = object(&format!(r#"{{"status":{{{status}}}}}"#));
        assert_eq!(messages(&STATUS.validate_update(&context(), &found, &found)), expect, "{status}");
    }

    #[test]
    fn servers_agree_on_the_common_version() {
        let server = |id: &str, version: &str| {
            format!(r#"{{"apiServerID":"{id}","encodingVersion":"{version}","decodableVersions":["{version}","v9"]}}"#)
        };
        let (a, b, other) = (server("a", "apps/v1"), server("b", "apps/v1"), server("b", "v1"));
        check("", &[]);
        check(&format!(r#""storageVersions":[{a},{b}],"commonEncodingVersion":"apps/v1""#), &[]);
        check(&format!(r#""storageVersions":[{a},{other}]"#), &[]);
        check(
            &format!(r#""storageVersions":[{a}]"#),
            &["status.commonEncodingVersion: Invalid value: null: the common encoding version is apps/v1"],
        );
        check(
            &format!(r#""storageVersions":[{a}],"commonEncodingVersion":"v1""#),
            &["status.commonEncodingVersion: Invalid value: \"v1\": the actual common encoding version is apps/v1"],
        );
        check(
            r#""commonEncodingVersion":"v1""#,
            &[
                "status.commonEncodingVersion: Invalid value: \"v1\": should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet",
            ],
        );
    }

    #[test]
    fn versions_are_api_versions() {
        check(
            r#""storageVersions":[{"apiServerID":"a","encodingVersion":"/","decodableVersions":["a/b/c"]},
                {"apiServerID":"b","encodingVersion":"v1","decodableVersions":["v1"]}]"#,
            &[
                "status.storageVersions[0].encodingVersion: Invalid value: \"/\": group part: must be non-empty,version part: must be non-empty",
                "status.storageVersions[0].decodableVersions[0]: Invalid value: \"a/b/c\": an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')",
                "status.storageVersions[0].decodableVersions: Invalid value: [\"a/b/c\"]: decodableVersions must include encodingVersion /",
            ],
        );
    }

    #[test]
    fn conditions_are_unique_and_complete() {
        check(
            r#""conditions":[{"type":"A","status":"True","reason":"r","message":"m"},{"type":"A","status":"a b"}]"#,
            &[
                "status[1].type: Invalid value: \"A\": the type of the condition is not unique, it also appears in conditions[0]",
                "status[1].status: Invalid value: \"A\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "status[1].reason: Required value: reason cannot be empty",
                "status[1].message: Required value: message cannot be empty",
            ],
        );
    }

    #[test]
    fn names_have_a_group_and_a_resource() {
        let check = |name: &str, expect: usize| {
            assert_eq!(StorageVersionStrategy.validate_name(name, false).len(), expect, "{name}");
        };
        check("core.pods", 0);
        check("example.com.things", 0);
        check("pods", 1);
        check("A.1", 2);
    }
}
