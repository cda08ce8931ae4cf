//! The strategy of custom resources of one version: validation by its schema, and the rules that all custom resources
//! share (upstream: `registry/customresource`).

use std::collections::HashSet;
use std::sync::Arc;

use pintle_registry::{CostBudget, GroupVersion, GroupVersionKind, Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::metadata::{MANAGED_FIELDS, is_standard_or_qualified_finalizer};
use pintle_value::{Errors, FieldPath, Str, Value, names};

use crate::lazy_schema::LazySchema;
use crate::rules::LazyCelValidator;
use crate::scale::ScaleValidator;
use crate::schema::StructuralSchema;
use crate::selectable_fields::SelectableFields;

/// The strategy of a custom resource at one version (upstream: `customResourceStrategy`).
pub(crate) struct CustomResourceStrategy {
    pub(crate) schema: Arc<LazySchema>,
    validator: Arc<CustomResourceValidator>,
    /// True if the status is written only through its subresource.
    has_status: bool,
    status: StatusStrategy,
    selectable_fields: SelectableFields,
}

impl CustomResourceStrategy {
    pub(crate) fn new(
        kind: GroupVersionKind,
        schema: Arc<LazySchema>,
        has_status: bool,
        scale: Option<ScaleValidator>,
        selectable_fields: SelectableFields,
    ) -> Self {
        let validator = Arc::new(CustomResourceValidator { kind, rules: LazyCelValidator::default(), scale });
        let status = StatusStrategy { schema: schema.clone(), validator: validator.clone() };
        Self { status, schema, validator, has_status, selectable_fields }
    }
}

/// Validation beyond the schema: the type, CEL rules and the scale subresource.
struct CustomResourceValidator {
    kind: GroupVersionKind,
    rules: LazyCelValidator,
    scale: Option<ScaleValidator>,
}

impl CustomResourceValidator {
    /// Validates kind and apiVersion (upstream: `ValidateTypeMeta`).
    fn validate_type(&self, object: &Value) -> Errors {
        let mut errors = Errors::new();
        let api_version = self.kind.group_version().to_string();
        for (key, found, expected) in
            [("kind", object.kind(), self.kind.kind.as_str()), ("apiVersion", object.api_version(), &api_version)]
        {
            if found != expected {
                errors.invalid(&FieldPath::new(key), found, format!("must be {expected}"));
            }
        }
        errors
    }

    fn validate_scale(&self, object: &Value, errors: &mut Errors) {
        if let Some(scale) = &self.scale {
            scale.validate_spec(object, errors);
            scale.validate_status(object, errors);
        }
    }
}

/// Removes the fields that a version without a schema does not know: everything except the type and the metadata. Such
/// an object is refused, but upstream first names its unknown fields.
fn prune_all(object: &mut Value) -> Vec<String> {
    let is_known = |key: &str| matches!(key, "apiVersion" | "kind" | "metadata");
    let unknown: Vec<String> =
        object.entries_at(&[]).map(|(key, _)| key.to_owned()).filter(|key| !is_known(key)).collect();
    for key in &unknown {
        object.remove(key);
    }
    unknown
}

impl Strategy for CustomResourceStrategy {
    fn prune_unknown_fields(&self, object: &mut Value) -> Result<Vec<String>, String> {
        let kind = &self.validator.kind;
        let GroupVersion { group, version } = GroupVersion::parse(object.api_version()).unwrap_or_default();
        // As in upstream, the schema says nothing about other kinds, which validation rejects.
        let is_own_kind = object.kind() == kind.kind && group == kind.group;
        let decoded = if is_own_kind && version == kind.version {
            self.schema.conform(object)
        } else {
            let unknown = if is_own_kind { prune_all(object) } else { Vec::new() };
            StructuralSchema::conform_metadata(object).map(|in_metadata| [in_metadata, unknown].concat())
        };
        decoded.map_err(|error| error.to_string())
    }

    fn decode_merged(&self, object: &mut Value) -> Result<(), String> {
        self.schema.conform_merged(object).map_err(|error| error.to_string())
    }

    fn defaults(&self, object: &mut Value) {
        // As in upstream, the schema says nothing about other kinds, which validation rejects.
        let kind = &self.validator.kind;
        if object.kind() == kind.kind
            && GroupVersion::parse(object.api_version())
                .is_some_and(|found| found.group == kind.group && found.version == kind.version)
        {
            self.schema.default(object);
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext, object: &mut Value) {
        if self.has_status {
            object.remove("status");
        }
        object.set_at(&["metadata", "generation"], 1);
    }

    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
        if self.has_status {
            restore_status(object, old);
        }
        if differs_beyond_metadata(object, old) {
            object.set_at(&["metadata", "generation"], old.generation().saturating_add(1));
        }
    }

    fn validate(&self, context: &StrategyContext, object: &Value) -> Errors {
        let mut errors = self.validator.validate_type(object);
        if errors.is_empty() {
            errors = self.schema.validate(object);
            self.validator.validate_scale(object, &mut errors);
        }
        errors.append(self.schema.validate_embedded(object, context.missing_fields()));
        errors.append(self.schema.validate_lists(object));
        errors
    }

    fn has_valid_type(&self, object: &Value) -> bool {
        self.validator.validate_type(object).is_empty()
    }

    fn validate_update(&self, context: &StrategyContext, object: &Value, old: &Value) -> Errors {
        let mut errors = self.validator.validate_type(object);
        if errors.is_empty() {
            errors = self.schema.validate_update(object, old);
            self.validator.validate_scale(object, &mut errors);
        }
        errors.append(self.schema.validate_embedded(object, context.missing_fields()));
        errors.append(validate_changed_lists(&self.schema, object, old));
        errors
    }

    fn validate_expensive(
        &self,
        object: &Value,
        old: Option<&Value>,
        found: &mut Errors,
        budget: CostBudget,
    ) -> Option<Vec<String>> {
        self.validator.rules.validate(&self.schema, object, old, found, budget)
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        let before = old.map_or(&[][..], |old| old.items_at(&["metadata", "finalizers"]));
        let before: HashSet<&str> = before.iter().filter_map(Value::as_str).collect();
        let mut added: Vec<&str> = object
            .items_at(&["metadata", "finalizers"])
            .iter()
            .filter_map(Value::as_str)
            .filter(|finalizer| !before.contains(finalizer))
            .collect();
        added.sort_unstable();
        added.dedup();
        added.into_iter().flat_map(finalizer_warnings).collect()
    }

    fn selectable_field_values(&self, object: &Value) -> Vec<Str> {
        self.selectable_fields.values(object)
    }

    fn selectable_field_sources(&self) -> Vec<&str> {
        self.selectable_fields.sources()
    }

    fn is_selectable_by_namespace(&self) -> bool {
        self.selectable_fields.namespaced
    }

    fn unsupported_field_message(&self, field: &str) -> String {
        format!("field label not supported: {field}")
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status" && self.has_status).then_some(&self.status as &dyn SubresourceStrategy)
    }
}

/// The strategy of the status subresource (upstream: `statusStrategy`).
struct StatusStrategy {
    schema: Arc<LazySchema>,
    validator: Arc<CustomResourceValidator>,
}

impl SubresourceStrategy for StatusStrategy {
    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
        let is_decoded = object.kind() == self.validator.kind.kind;
        let (status, owners) = (object.remove("status"), object.remove_at(&MANAGED_FIELDS));
        let version = object.remove_at(&["metadata", "resourceVersion"]);
        *object = old.clone();
        for (path, value) in
            [(&["status"][..], status), (&MANAGED_FIELDS[..], owners), (&["metadata", "resourceVersion"], version)]
        {
            match value {
                Some(value) => object.set_at(path, value),
                None => drop(object.remove_at(path)),
            }
        }
        if !is_decoded {
            // The status of an object of another kind was not decoded by the schema.
            self.schema.repair(object);
        }
    }

    /// Fields outside the status are unchanged and not validated again. CEL rules still run on the whole object,
    /// because they may compare other fields with the status.
    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        let mut errors = match (self.schema.root().property("status"), object.get("status")) {
            (Some(node), Some(status)) => node.validate_update(Some("status"), status, old.get("status")),
            _ => Errors::new(),
        };
        if let Some(scale) = &self.validator.scale {
            scale.validate_status(object, &mut errors);
        }
        errors.append(validate_changed_lists(&self.schema, object, old));
        errors
    }

    fn validate_expensive(
        &self,
        object: &Value,
        old: &Value,
        found: &mut Errors,
        budget: CostBudget,
    ) -> Option<Vec<String>> {
        self.validator.rules.validate(&self.schema, object, Some(old), found, budget)
    }
}

/// Reports duplicates in lists unless the old object has duplicates.
fn validate_changed_lists(schema: &StructuralSchema, object: &Value, old: &Value) -> Errors {
    if schema.validate_lists(old).is_empty() { schema.validate_lists(object) } else { Errors::new() }
}

fn restore_status(object: &mut Value, old: &Value) {
    match old.get("status") {
        Some(status) => object.set("status", status.clone()),
        None => drop(object.remove("status")),
    }
}

/// True if two objects differ outside their metadata.
fn differs_beyond_metadata(a: &Value, b: &Value) -> bool {
    let rest = |object: &Value| object.entries_at(&[]).filter(|(key, _)| *key != "metadata").count();
    rest(a) != rest(b) || a.entries_at(&[]).any(|(key, value)| key != "metadata" && b.get(key) != Some(value))
}

/// Returns the warnings about a finalizer name that may conflict with other names (upstream:
/// `validateKubeFinalizerName`).
fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let path = FieldPath::new("metadata");
    let (path, shown) = (path.child("finalizers").to_string(), pintle_value::field::quote(finalizer));
    let mut warnings: Vec<String> =
        names::qualified_name(finalizer).into_iter().map(|why| format!("{path}: {shown}: {why}")).collect();
    if !is_standard_or_qualified_finalizer(finalizer) {
        let including = if finalizer.contains('.') { " including a path (/)" } else { "" };
        warnings.push(format!(
            "{path}: {shown}: prefer a domain-qualified finalizer name{including} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    warnings
}
