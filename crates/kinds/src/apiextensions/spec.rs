//! Validates the spec of a CustomResourceDefinition (upstream: `validateCustomResourceDefinitionSpec` and
//! `...SpecUpdate`).
//!
//! Upstream validates an internal version. In it, fields that are the same in all versions stand beside the versions:
//! `validation` (the schema), `subresources`, `additionalPrinterColumns` and `selectableFields`. The field paths and
//! the order of the errors follow from that.

use std::collections::{HashMap, HashSet};

use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::{Errors, FieldPath, Value, names};

use super::schema::validator::SchemaValidator;
use super::schema::{self, Node, SCHEMA, VersionSchema, unsupported};
use super::validation_options::ValidationOptions;
use super::{conversion, selectable_fields, versions};
use crate::generic::validate_immutable;
use crate::go_json::{self, GoType};
use crate::validation::require_one_of;

const SCOPES: [&str; 2] = ["Cluster", "Namespaced"];
const EXTENSIONS: [&str; 4] = [
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
];

/// How errors print versions. Fields that stand beside the versions are removed before.
const VERSIONS: GoType = GoType::List(&GoType::Struct(&[
    ("Name", "name", GoType::STRING),
    ("Served", "served", GoType::Plain("false")),
    ("Storage", "storage", GoType::Plain("false")),
    ("Deprecated", "deprecated", GoType::Plain("false")),
    ("DeprecationWarning", "deprecationWarning", GoType::NULLABLE),
    (
        "Schema",
        "schema",
        GoType::Pointer(&GoType::Struct(&[("OpenAPIV3Schema", "openAPIV3Schema", GoType::Pointer(&SCHEMA))])),
    ),
    ("Subresources", "subresources", GoType::Pointer(&SUBRESOURCES)),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", GoType::List(&COLUMN)),
    (
        "SelectableFields",
        "selectableFields",
        GoType::List(&GoType::Struct(&[("JSONPath", "jsonPath", GoType::STRING)])),
    ),
]));

const SUBRESOURCES: GoType = GoType::Of("apiextensions/v1.CustomResourceSubresources");

const COLUMN: GoType = GoType::Of("apiextensions/v1.CustomResourceColumnDefinition");

/// The fields of a version that stand beside the versions if they are the same in all of them.
const COMMON: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];

/// Returns the versions of a CRD.
pub(super) fn versions(object: &Value) -> &[Value] {
    object.items_at(&["spec", "versions"])
}

/// Returns the schemas of all versions that have one.
pub(super) fn schemas(object: &Value) -> impl Iterator<Item = Node<'_>> {
    versions(object).iter().filter_map(|version| version.at(&["schema", "openAPIV3Schema"])).map(Node)
}

/// Returns true if a field is the same in all versions.
pub(super) fn is_common(versions: &[Value], field: &str) -> bool {
    versions.iter().all(|version| pintle_value::same(version.get(field), versions[0].get(field)))
}

/// Returns true if a CRD is established.
pub(super) fn is_established(object: &Value) -> bool {
    let conditions = object.items_at(&["status", "conditions"]);
    let found = conditions.iter().find(|condition| condition.str_at(&["type"]) == "Established");
    found.is_some_and(|condition| condition.str_at(&["status"]) == "True")
}

/// Validates the spec of a CRD.
pub(super) fn validate(object: &Value, options: &ValidationOptions, validator: &dyn SchemaValidator) -> Errors {
    let mut errors = Errors::new();
    let spec = &object["spec"];
    let path = FieldPath::new("spec");
    validate_group(&mut errors, spec.str_at(&["group"]), &path.child("group"));
    require_one_of(&mut errors, &path.child("scope"), spec.str_at(&["scope"]), &SCOPES);

    let check = SpecValidator::of(object, options, validator);
    check.validate_presence_of_schemas(&mut errors, &path);
    let list = path.child("versions");
    for (i, version) in check.versions.iter().enumerate() {
        let problems = names::dns1035_label(version.str_at(&["name"]));
        if !problems.is_empty() {
            errors.invalid(&list.index(i).child("name"), version.str_at(&["name"]), problems.join(","));
        }
        check.validate_version(&mut errors, version, &list.index(i));
    }
    check.validate_all_versions(&mut errors, &list);
    let first = check.versions.first().map_or("", |version| version.str_at(&["name"]));
    let problems = names::dns1035_label(first);
    if !first.is_empty() && !problems.is_empty() {
        errors.invalid(&path.child("version"), first, problems.join(","));
    }

    let path_of_names = path.child("names");
    for field in ["plural", "singular", "kind", "listKind"] {
        if spec.str_at(&["names", field]).is_empty() {
            errors.required(&path_of_names.child(field), "");
        }
    }
    super::names::validate(&mut errors, &spec["names"], &path_of_names);
    check.validate_common_fields(&mut errors, &path);
    conversion::validate(&mut errors, spec, options, &path.child("conversion"));
    errors
}

/// Validates the immutable fields of the spec. The rules for the spec itself are in [`validate`].
pub(super) fn validate_change(errors: &mut Errors, object: &Value, old: &Value, options: &ValidationOptions) {
    let spec = FieldPath::new("spec");
    let names = spec.child("names");
    if options.require_immutable_names {
        // The storage path of the custom resources depends on these fields.
        let path = ["spec", "scope"];
        validate_immutable(errors, object.at(&path), old.at(&path), &spec.child("scope"));
    }
    let mut same = |path: &[&str], shown: &FieldPath<'_>| {
        let new = object["spec"].str_at(path);
        if new != old["spec"].str_at(path) {
            errors.invalid(shown, new, IMMUTABLE_TEXT);
        }
    };
    if options.require_immutable_names {
        same(&["names", "kind"], &names.child("kind"));
    }
    same(&["group"], &spec.child("group"));
    same(&["names", "plural"], &names.child("plural"));
}

fn validate_group(errors: &mut Errors, group: &str, path: &FieldPath<'_>) {
    let problems = names::dns1123_subdomain(group);
    if group.is_empty() {
        errors.required(path, "");
    } else if !problems.is_empty() {
        errors.invalid(path, group, problems.join(","));
    } else if !group.contains('.') {
        errors.invalid(path, group, "should be a domain with at least one dot");
    }
}

/// Validates a spec in the form of upstream's internal version.
struct SpecValidator<'a> {
    versions: &'a [Value],
    /// The versions as the client wrote them, for error messages. They may be absent.
    shown: &'a Value,
    common: HashSet<&'static str>,
    /// Whether versions have a status, by name. If several versions have the same name, the first one decides.
    with_status: HashMap<&'a str, bool>,
    preserves_unknown: bool,
    has_defaults: bool,
    structural: bool,
    options: &'a ValidationOptions,
    validator: &'a dyn SchemaValidator,
}

impl<'a> SpecValidator<'a> {
    fn of(object: &'a Value, options: &'a ValidationOptions, validator: &'a dyn SchemaValidator) -> Self {
        let versions = versions(object);
        let preserves_unknown = object["spec"].bool_at(&["preserveUnknownFields"]);
        let any = |is: &mut dyn FnMut(Node<'_>) -> bool| schemas(object).any(|schema| schema.any(is));
        let has_defaults = any(&mut |node| node.keyword("default").is_some());
        let extended = || {
            any(&mut |node| {
                EXTENSIONS.iter().any(|keyword| node.has(keyword))
                    || node.keyword("x-kubernetes-preserve-unknown-fields").is_some()
                    || node.keyword("x-kubernetes-list-type").is_some()
            })
        };
        Self {
            versions,
            shown: &object["spec"]["versions"],
            common: COMMON.into_iter().filter(|field| is_common(versions, field)).collect(),
            with_status: {
                let status = |version: &'a Value| version.at(&["subresources", "status"]).is_some();
                versions.iter().rev().map(|version| (version.str_at(&["name"]), status(version))).collect()
            },
            preserves_unknown,
            has_defaults,
            structural: options.require_structural_schemas || !preserves_unknown || has_defaults || extended(),
            options,
            validator,
        }
    }

    /// Returns a field of a version unless it is the same in all versions.
    fn own_field<'v>(&self, version: &'v Value, field: &str) -> Option<&'v Value> {
        version.get(field).filter(|_| !self.common.contains(field))
    }

    /// Returns a field that is the same in all versions.
    fn common_field(&self, field: &str) -> Option<&'a Value> {
        self.versions.first()?.get(field).filter(|_| self.common.contains(field))
    }

    fn validate_presence_of_schemas(&self, errors: &mut Errors, path: &FieldPath<'_>) {
        let list = path.child("versions");
        for (i, version) in self.versions.iter().enumerate() {
            if version.at(&["schema", "openAPIV3Schema"]).is_some() {
                continue;
            }
            let version_path = list.index(i);
            let path = version_path.child("schema");
            let path = path.child("openAPIV3Schema");
            if self.options.require_schemas {
                errors.required(&path, "");
            } else if !self.preserves_unknown && version.bool_at(&["served"]) {
                errors.required(&path, "because otherwise all fields are pruned");
            }
        }
        if self.has_defaults && self.preserves_unknown {
            let detail = "must be false in order to use defaults in the schema";
            errors.invalid(&path.child("preserveUnknownFields"), true, detail);
        }
    }

    fn validate_version(&self, errors: &mut Errors, version: &Value, path: &FieldPath<'_>) {
        versions::validate_deprecation(errors, version, path);
        let name = version.str_at(&["name"]);
        let validation = self.own_field(version, "schema");
        if let Some(validation) = validation {
            let status = self.with_status.get(name).copied().unwrap_or_default();
            self.validate_schema(errors, validation, status, name, &path.child("schema"));
        }
        versions::validate_subresources(errors, self.own_field(version, "subresources"), &path.child("subresources"));
        if let Some(columns) = self.own_field(version, "additionalPrinterColumns") {
            versions::validate_columns(errors, columns.items_at(&[]), &path.child("additionalPrinterColumns"));
        }
        let fields = self.own_field(version, "selectableFields").map_or(&[][..], |fields| fields.items_at(&[]));
        if fields.is_empty() {
            return;
        }
        match validation.and_then(|validation| validation.get("openAPIV3Schema")) {
            None => {
                let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
                errors.invalid(&path.child("selectableFields"), "", detail);
            }
            Some(schema) => self.validate_selectable_fields(errors, fields, schema, name, path),
        }
    }

    /// Validates the versions against each other.
    fn validate_all_versions(&self, errors: &mut Errors, path: &FieldPath<'_>) {
        let mut seen = HashSet::new();
        let repeated = !self.versions.iter().all(|version| seen.insert(version.str_at(&["name"])));
        let stored = self.versions.iter().filter(|version| version.bool_at(&["storage"])).count();
        let mut invalid = |detail: &str| {
            let mut shown = self.shown.clone();
            for version in shown.as_array_mut().into_iter().flatten() {
                for field in &self.common {
                    version.remove(field);
                }
            }
            errors.push(go_json::invalid(path, &shown, &VERSIONS, detail));
        };
        if repeated {
            invalid("must contain unique version names");
        }
        if stored != 1 {
            invalid("must have exactly one version marked as storage version");
        }
    }

    /// Validates the fields that stand beside the versions.
    fn validate_common_fields(&self, errors: &mut Errors, path: &FieldPath<'_>) {
        if let Some(validation) = self.common_field("schema") {
            let status = self.versions.iter().any(|version| version.at(&["subresources", "status"]).is_some());
            let first = self.versions[0].str_at(&["name"]);
            self.validate_schema(errors, validation, status, first, &path.child("validation"));
        }
        versions::validate_subresources(errors, self.common_field("subresources"), &path.child("subresources"));
        if let Some(columns) = self.common_field("additionalPrinterColumns") {
            versions::validate_columns(errors, columns.items_at(&[]), &path.child("additionalPrinterColumns"));
        }
        let fields = self.common_field("selectableFields").map_or(&[][..], |fields| fields.items_at(&[]));
        if fields.is_empty() {
            return;
        }
        // Upstream reports this for schemas that differ, too.
        match self.common_field("schema") {
            None => {
                let detail = "may only be set when validations.schema is included";
                errors.invalid(&path.child("selectableFields"), "", detail);
            }
            Some(validation) => {
                self.validate_selectable_fields(errors, fields, &validation["openAPIV3Schema"], "", path)
            }
        }
    }

    fn validate_schema(&self, errors: &mut Errors, validation: &Value, status: bool, name: &str, path: &FieldPath<'_>) {
        let unchanged_schemas = self.options.unchanged_schemas.contains(name);
        let subject = VersionSchema { validation, status, unchanged_schemas };
        errors.append(schema::validate(&subject, self.options, self.structural, self.validator, path));
    }

    fn validate_selectable_fields(
        &self,
        errors: &mut Errors,
        fields: &[Value],
        schema: &Value,
        name: &str,
        path: &FieldPath<'_>,
    ) {
        if let Some(fault) = unsupported::fault(Node(schema)) {
            errors.invalid(&path.child("schema.openAPIV3Schema"), "", fault);
        }
        let too_many = self.options.too_many_selectable_fields.contains(name);
        selectable_fields::validate(errors, fields, Node(schema), too_many, &path.child("selectableFields"));
    }
}
