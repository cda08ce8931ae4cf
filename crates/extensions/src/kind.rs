//! What objects of a definition's version are held to (upstream: `registry/customresource`): its schema, and the rules
//! that all custom kinds share.

use std::sync::Arc;

use pintle_registry::{CostBudget, Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::metadata::{MANAGED_FIELDS, is_standard_or_qualified_finalizer};
use pintle_value::{Errors, FieldPath, Str, Value, names};

use crate::lazy::LazySchema;
use crate::rules::LazyRules;
use crate::scale::Scaled;
use crate::schema::Schema;
use crate::selectable::Selectable;

/// A custom kind at one version.
pub(crate) struct Custom {
    pub(crate) schema: Arc<LazySchema>,
    held: Arc<Held>,
    /// True if the status is written through its subresource alone.
    has_status: bool,
    status: Status,
    selectable: Selectable,
}

impl Custom {
    pub(crate) fn new(
        schema: Arc<LazySchema>,
        has_status: bool,
        scale: Option<Scaled>,
        selectable: Selectable,
    ) -> Self {
        let held = Arc::new(Held { rules: LazyRules::default(), scale });
        let status = Status { schema: schema.clone(), held: held.clone() };
        Self { status, schema, held, has_status, selectable }
    }
}

/// What objects are held to beside the schema.
struct Held {
    rules: LazyRules,
    scale: Option<Scaled>,
}

impl Held {
    fn validate_scale(&self, object: &Value, errors: &mut Errors) {
        if let Some(scale) = &self.scale {
            scale.validate_spec(object, errors);
            scale.validate_status(object, errors);
        }
    }
}

impl Strategy for Custom {
    fn conform(&self, object: &mut Value) -> Result<Vec<String>, String> {
        self.schema.conform(object).map_err(|error| error.to_string())
    }

    fn defaults(&self, object: &mut Value) {
        self.schema.default(object);
    }

    fn prepare_for_create(&self, _: &StrategyContext, object: &mut Value) {
        if self.has_status {
            object.remove("status");
        }
        object.set_at(&["metadata", "generation"], 1);
    }

    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
        if self.has_status {
            keep_status(object, old);
        }
        if differs(object, old) {
            object.set_at(&["metadata", "generation"], old.generation().saturating_add(1));
        }
    }

    fn validate(&self, _: &StrategyContext, object: &Value) -> Errors {
        let mut errors = self.schema.validate(object);
        self.held.validate_scale(object, &mut errors);
        errors.append(self.schema.validate_embedded(object));
        errors.append(self.schema.validate_lists(object));
        errors
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        let mut errors = self.schema.validate_update(object, old);
        self.held.validate_scale(object, &mut errors);
        errors.append(self.schema.validate_embedded(object));
        errors.append(changed_lists(&self.schema, object, old));
        errors
    }

    fn validate_expensive(
        &self,
        object: &Value,
        old: Option<&Value>,
        found: &mut Errors,
        budget: CostBudget,
    ) -> Option<Vec<String>> {
        self.held.rules.judge(&self.schema, object, old, found, budget)
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        let before = old.map_or(&[][..], |old| old.items_at(&["metadata", "finalizers"]));
        let mut added: Vec<&str> = object
            .items_at(&["metadata", "finalizers"])
            .iter()
            .filter(|finalizer| !before.contains(finalizer))
            .filter_map(Value::as_str)
            .collect();
        added.sort_unstable();
        added.dedup();
        added.into_iter().flat_map(finalizer_warnings).collect()
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn selected_values(&self, object: &Value) -> Vec<Str> {
        self.selectable.values(object)
    }

    fn selectable_field_sources(&self) -> Vec<&str> {
        self.selectable.sources()
    }

    fn is_selected_by_namespace(&self) -> bool {
        self.selectable.namespaced
    }

    fn field_not_supported(&self, field: &str) -> String {
        format!("field label not supported: {field}")
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status" && self.has_status).then_some(&self.status as &dyn SubresourceStrategy)
    }
}

/// The rules of a custom kind's status.
struct Status {
    schema: Arc<LazySchema>,
    held: Arc<Held>,
}

impl SubresourceStrategy for Status {
    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
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
    }

    /// What is not in the status is as it was, and so is not judged anew; but rules may compare it to the status.
    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        let mut errors = match (self.schema.root().property("status"), object.get("status")) {
            (Some(part), Some(status)) => part.validate_update(Some("status"), status, old.get("status")),
            _ => Errors::new(),
        };
        if let Some(scale) = &self.held.scale {
            scale.validate_status(object, &mut errors);
        }
        errors.append(changed_lists(&self.schema, object, old));
        errors
    }

    fn validate_expensive(
        &self,
        object: &Value,
        old: &Value,
        found: &mut Errors,
        budget: CostBudget,
    ) -> Option<Vec<String>> {
        self.held.rules.judge(&self.schema, object, Some(old), found, budget)
    }
}

/// What stands twice in lists, unless that was so before.
fn changed_lists(schema: &Schema, object: &Value, old: &Value) -> Errors {
    if schema.validate_lists(old).is_empty() { schema.validate_lists(object) } else { Errors::new() }
}

fn keep_status(object: &mut Value, old: &Value) {
    match old.get("status") {
        Some(status) => object.set("status", status.clone()),
        None => drop(object.remove("status")),
    }
}

/// True if two objects differ in more than their metadata.
fn differs(a: &Value, b: &Value) -> bool {
    let rest = |object: &Value| object.entries_at(&[]).filter(|(key, _)| *key != "metadata").count();
    rest(a) != rest(b) || a.entries_at(&[]).any(|(key, value)| key != "metadata" && b.get(key) != Some(value))
}

/// What is said of a finalizer that others may use too (upstream: `validateKubeFinalizerName`).
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
