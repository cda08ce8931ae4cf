//! The selectors of access reviews (KEP-4601; upstream: `pkg/apis/authorization/validation`,
//! `pkg/registry/authorization/util`). With them, a user may be allowed to list only the objects that a selector
//! selects.

use pintle_value::metadata::{LabelSelectorOptions, validate_label_requirement};
use pintle_value::{Errors, FieldPath, Value};

/// Validates the selectors of resource attributes.
pub(super) fn validate(attributes: &Value, path: &FieldPath<'_>) -> Errors {
    let mut errors = validate_selector(attributes, "fieldSelector", path, validate_field_requirement);
    errors.append(validate_selector(attributes, "labelSelector", path, |requirement, path| {
        // Clients may know operators that this server does not know.
        let options = LabelSelectorOptions { allow_invalid_values: false, allow_unknown_operators: true };
        validate_label_requirement(requirement, options, path)
    }));
    errors
}

fn validate_selector(
    attributes: &Value,
    field: &'static str,
    path: &FieldPath<'_>,
    validate_requirement: impl Fn(&Value, &FieldPath<'_>) -> Errors,
) -> Errors {
    let mut errors = Errors::new();
    let Some(selector) = attributes.get(field) else { return errors };
    let path = &path.child(field);
    let (raw, requirements) = (selector.str_at(&["rawSelector"]), selector.items_at(&["requirements"]));
    if !raw.is_empty() && !requirements.is_empty() {
        errors.invalid(&path.child("rawSelector"), raw, "may not specified at the same time as requirements");
    }
    if raw.is_empty() && requirements.is_empty() {
        let text = format!("when {path} is specified, requirements or rawSelector is required");
        errors.required(&path.child("requirements"), text);
    }
    let requirements_path = path.child("requirements");
    for (i, requirement) in requirements.iter().enumerate() {
        errors.append(validate_requirement(requirement, &requirements_path.index(i)));
    }
    errors
}

fn validate_field_requirement(requirement: &Value, path: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::new();
    if requirement.str_at(&["key"]).is_empty() {
        errors.required(&path.child("key"), "must be specified");
    }
    let has_values = !requirement.items_at(&["values"]).is_empty();
    match requirement.str_at(&["operator"]) {
        "In" | "NotIn" if !has_values => {
            errors.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if has_values => {
            let text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&path.child("values"), text);
        }
        _ => {}
    }
    errors
}

/// The field selector of resource attributes, in the form of a list's query. Requirements that this form cannot express
/// are left out. So the selector selects more objects, and an authorizer allows less.
pub(super) fn field_selector(attributes: &Value) -> String {
    text(&attributes["fieldSelector"], |requirement| {
        let key = requirement.str_at(&["key"]);
        if key.contains(['=', '!', ',', '\\']) {
            return None;
        }
        let [value] = requirement.items_at(&["values"]) else { return None };
        let value = escape(value.as_str()?);
        match requirement.str_at(&["operator"]) {
            "In" => Some(format!("{key}={value}")),
            "NotIn" => Some(format!("{key}!={value}")),
            _ => None,
        }
    })
}

/// The label selector of resource attributes, in the same way as [`field_selector`].
pub(super) fn label_selector(attributes: &Value) -> String {
    text(&attributes["labelSelector"], |requirement| {
        let key = requirement.str_at(&["key"]);
        let values: Option<Vec<&str>> = requirement.items_at(&["values"]).iter().map(Value::as_str).collect();
        let values = values?.join(",");
        match requirement.str_at(&["operator"]) {
            "In" => Some(format!("{key} in ({values})")),
            "NotIn" => Some(format!("{key} notin ({values})")),
            "Exists" => Some(key.to_owned()),
            "DoesNotExist" => Some(format!("!{key}")),
            _ => None,
        }
    })
}

fn text(selector: &Value, requirement: impl Fn(&Value) -> Option<String>) -> String {
    let raw = selector.str_at(&["rawSelector"]);
    if !raw.is_empty() {
        return raw.to_owned();
    }
    let requirements: Vec<_> = selector.items_at(&["requirements"]).iter().filter_map(requirement).collect();
    requirements.join(",")
}

/// Escapes a value of a field selector (upstream: `fields.EscapeValue`).
fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(json: &str) -> Value {
        pintle_codec::json::decode(json.as_bytes(), pintle_codec::json::DecodeOptions::default()).unwrap().value
    }

    #[test]
    fn selectors_are_validated_as_upstream_does() {
        for (json, expect) in [
            ("{}", ""),
            (r#"{"fieldSelector":{"rawSelector":"!"},"labelSelector":{"rawSelector":"!!"}}"#, ""),
            (
                r#"{"fieldSelector":{}}"#,
                "a.fieldSelector.requirements: Required value: when a.fieldSelector is specified, requirements or \
                 rawSelector is required",
            ),
            (
                r#"{"labelSelector":{"rawSelector":"a","requirements":[{"key":"b","operator":"Exists"}]}}"#,
                "a.labelSelector.rawSelector: Invalid value: \"a\": may not specified at the same time as requirements",
            ),
            (
                r#"{"fieldSelector":{"requirements":[{"operator":"In"},{"key":"k","operator":"Exists","values":["v"]}]}}"#,
                "a.fieldSelector.requirements[0].key: Required value: must be specified; \
                 a.fieldSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or \
                 'NotIn'; a.fieldSelector.requirements[1].values: Forbidden: may not be specified when `operator` is \
                 'Exists' or 'DoesNotExist'",
            ),
            (
                r#"{"labelSelector":{"requirements":[{"key":"k","operator":"NotIn"},{"key":"k","operator":"Future"}]}}"#,
                "a.labelSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or \
                 'NotIn'",
            ),
        ] {
            let errors = validate(&attributes(json), &FieldPath::new("a"));
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors.join("; "), expect, "{json}");
        }
    }

    #[test]
    fn requirements_become_the_text_of_a_query() {
        for (json, fields, labels) in [
            (r#"{"fieldSelector":{"rawSelector":"a=b"},"labelSelector":{"rawSelector":"c"}}"#, "a=b", "c"),
            (
                r#"{"fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["b,="]},
                    {"key":"c","operator":"NotIn","values":["d"]},{"key":"e","operator":"In","values":["f","g"]},
                    {"key":"h","operator":"Exists"},{"key":"i=j,k","operator":"In","values":["l"]}]},
                    "labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b","c"]},
                    {"key":"d","operator":"NotIn","values":["e"]},{"key":"f","operator":"Exists"},
                    {"key":"g","operator":"DoesNotExist"},{"key":"h","operator":"Future"}]}}"#,
                r"a=b\,\=,c!=d",
                "a in (b,c),d notin (e),f,!g",
            ),
        ] {
            let attributes = attributes(json);
            assert_eq!((&*field_selector(&attributes), &*label_selector(&attributes)), (fields, labels));
        }
    }
}
