//! Validates the OpenAPI schema of a version (upstream: `validateCustomResourceDefinitionValidation` of
//! apiextensions-apiserver's `pkg/apis/apiextensions/validation`, and its `pkg/apiserver/schema`). Works on the JSON of
//! the schema. Values and expressions are delegated, see [`validator`].

mod complete;
mod costs;
pub(super) mod defaults;
mod expressions;
pub(super) mod field_path;
mod go_types;
mod junctors;
pub(super) mod lists;
mod node;
pub(super) mod openapi;
mod rules;
pub(super) mod structural;
pub(super) mod unsupported;
pub(crate) mod validator;

use pintle_value::{Errors, FieldPath, Value};

pub(super) use go_types::SCHEMA;
pub(super) use node::Node;

use super::validation_options::ValidationOptions;
use crate::go_json;
use validator::SchemaValidator;

/// The keywords that the root of a schema may use if the status subresource is enabled. The schema of the status is
/// extracted from the root.
const ALLOWED_WITH_STATUS: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// A schema and how to validate it.
pub(super) struct VersionSchema<'a> {
    /// The `schema` of a version, which contains `openAPIV3Schema`.
    pub(super) validation: &'a Value,
    /// True if the status subresource is enabled.
    pub(super) status: bool,
    /// True if the schema did not change.
    pub(super) unchanged_schemas: bool,
}

/// Validates a schema. With `structural`, it must be structural.
pub(super) fn validate(
    subject: &VersionSchema<'_>,
    options: &ValidationOptions,
    structural: bool,
    validator: &dyn SchemaValidator,
    path: &FieldPath<'_>,
) -> Errors {
    let mut errors = Errors::new();
    let Some(root) = subject.validation.get("openAPIV3Schema").map(Node) else { return errors };
    let path = path.child("openAPIV3Schema");
    if subject.status {
        validate_keywords_beside_status(&mut errors, root, &path);
    }
    if root.flag("nullable") {
        errors.forbidden(&path.child("nullable"), "nullable cannot be true at the root");
    }
    let mut fault = None;
    let mut rules = false;
    if structural {
        fault = unsupported::fault(root);
        if fault.is_none() {
            let mut found = structural::validate(root, &path);
            if found.is_empty() {
                found = defaults::validate(root, options.require_pruned_defaults, validator, &path);
            }
            rules = found.is_empty();
            errors.append(found);
        }
    }
    let found = openapi::validate(root, options, rules, &path);
    errors.append(found.errors);
    let totals =
        expressions::validate(&mut errors, root, &found.ruled, &found.contexts, subject.unchanged_schemas, validator);
    // The earlier checks have reported the same fault.
    if let Some(fault) = fault.filter(|_| errors.is_empty()) {
        errors.invalid(&path, "", fault);
    }
    totals.validate(&mut errors, &path);
    errors
}

fn validate_keywords_beside_status(errors: &mut Errors, root: Node<'_>, path: &FieldPath<'_>) {
    for (name, _) in go_types::keywords().filter(|(_, keyword)| root.keyword(keyword).is_some()) {
        if name == "Type" && root.type_name() != "object" {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                          enabled";
            return errors.invalid(&path.child("type"), root.type_name(), detail);
        }
        if !ALLOWED_WITH_STATUS.contains(&name) {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                ALLOWED_WITH_STATUS.join(" ")
            );
            return errors.push(go_json::invalid(path, root.0, &SCHEMA, &detail));
        }
    }
}
