//! The strategy for CustomResourceDefinition: preparation, status and stored versions (upstream:
//! apiextensions-apiserver's `pkg/registry/customresourcedefinition`).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use pintle_gates::{Change, Gates};
use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy, TwoPhaseDeletion, UnservedVersion};
use pintle_value::field::quote;
use pintle_value::{Errors, FieldPath, Value, object};

use super::ratcheting::options_for_update;
use super::schema::defaults::has_unpruned_defaults;
use super::schema::validator::SchemaValidator;
use super::validation_options::ValidationOptions;
use super::{approval, formats, spec, status};
use crate::generic::{SPEC, StatusStrategy, reset_status, set_generation, set_if_empty};

/// The finalizer that keeps a CustomResourceDefinition until its custom resources are deleted.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

const DEFAULT_PORT: i64 = 443;

/// The strategy for CustomResourceDefinition.
pub(super) struct CustomResourceDefinitionStrategy {
    /// Validates default values and CEL expressions.
    pub(super) validator: Arc<dyn SchemaValidator>,
}

impl Strategy for CustomResourceDefinitionStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &[super::stored::V1BETA1]
    }

    fn two_phase_deletion(&self) -> Option<&dyn TwoPhaseDeletion> {
        Some(self)
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(names) = object.at_mut(&["spec", "names"]) {
            let kind = names.str_at(&["kind"]).to_owned();
            if !kind.is_empty() {
                set_if_empty(names, "singular", &kind.to_lowercase());
                set_if_empty(names, "listKind", &format!("{kind}List"));
            }
        }
        if object.at(&["spec", "conversion"]).is_none() {
            object.set_at(&["spec", "conversion"], object! { "strategy": "None" });
        }
        if let Some(service) = object.at_mut(&["spec", "conversion", "webhook", "clientConfig", "service"]) {
            service.set_default("port", DEFAULT_PORT);
        }
        if object.items_at(&["status", "storedVersions"]).is_empty() {
            add_stored_version(object);
        }
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        let empty = object! {
            "conditions": Value::Null,
            "acceptedNames": object! { "plural": "", "kind": "" },
            "storedVersions": Value::Null,
        };
        reset_status(object, old, empty);
        set_generation(object, old, SPEC);
        add_stored_version(object);
    }

    fn validate_object_name(&self, _: &Gates, object: &Value, name: &str, prefix: bool) -> Vec<String> {
        let mut problems = self.validate_name(name, prefix);
        let required = format!("{}.{}", object.str_at(&["spec", "names", "plural"]), object.str_at(&["spec", "group"]));
        if name != required {
            problems.push(r#"must be spec.names.plural+"."+spec.group"#.to_owned());
        }
        problems
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let options = old.map_or_else(ValidationOptions::for_create, |old| ValidationOptions {
            require_pruned_defaults: !spec::schemas(old).any(|schema| has_unpruned_defaults(schema, &*self.validator)),
            ..options_for_update(object, old)
        });
        let mut errors = spec::validate(object, &options, &*self.validator);
        if let Some(old) = old {
            spec::validate_change(&mut errors, object, old, &options);
        }
        validate_status_and_conversion(&mut errors, object, old);
        errors
    }

    fn warnings(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        let before: HashSet<&str> = old.into_iter().flat_map(formats::unrecognized_formats).collect();
        let new = formats::unrecognized_formats(object).into_iter().filter(|format| !before.contains(*format));
        let mut warnings: Vec<_> = new.map(|format| format!("unrecognized format {}", quote(format))).collect();
        if context.gates.has(Change::WARNING_ABOUT_SETS_OF_OBJECTS) {
            warnings.extend(warnings_about_sets(object, old));
        }
        warnings
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

impl TwoPhaseDeletion for CustomResourceDefinitionStrategy {
    fn failed_precondition(&self, gates: &Gates) -> &'static str {
        if gates.has(Change::DEFINITION_PRECONDITION_TEXT) { "precondition failed" } else { "Precondition failed" }
    }

    fn mark_terminating(&self, object: &mut Value) {
        let finalizers = object.items_at(&["metadata", "finalizers"]);
        if finalizers.iter().all(|finalizer| finalizer.as_str() != Some(CLEANUP_FINALIZER)) {
            let all = finalizers.iter().cloned().chain([CLEANUP_FINALIZER.into()]);
            object.set_at(&["metadata", "finalizers"], all.collect::<Vec<_>>());
        }
        let conditions = object.items_at(&["status", "conditions"]);
        let is_terminating =
            conditions.iter().any(|c| c.str_at(&["type"]) == "Terminating" && c.str_at(&["status"]) == "True");
        let Some(now) = object.at(&["metadata", "deletionTimestamp"]).filter(|_| !is_terminating) else { return };
        let pending = object! {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": now.clone(),
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        };
        let others = conditions.iter().filter(|c| c.str_at(&["type"]) != "Terminating").cloned();
        object.set_at(&["status", "conditions"], others.chain([pending]).collect::<Vec<_>>());
    }
}

/// Warnings about sets whose items are no scalars, unless the old object has such a set.
fn warnings_about_sets(object: &Value, old: Option<&Value>) -> impl Iterator<Item = String> {
    let before = old.map(types_of_set_items).unwrap_or_default();
    let new = types_of_set_items(object).into_iter().filter(move |item_type| !before.contains(item_type));
    new.map(|item_type| {
        format!(
            "x-kubernetes-list-type: set for items of type {} is not supported by server-side apply or CEL validation rules",
            quote(item_type)
        )
    })
}

/// The types of the items of sets in the schemas of a CRD, except scalars (upstream: `getNonScalarListTypeSetWarnings`).
fn types_of_set_items(object: &Value) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for schema in spec::schemas(object) {
        schema.any(&mut |node| {
            if node.text("x-kubernetes-list-type") == "set" {
                let item_type = node.keyword("items").map_or("", |items| items.str_at(&["type"]));
                found.extend(["array", "object"].into_iter().find(|known| *known == item_type));
            }
            false
        });
    }
    found
}

const STATUS: StatusStrategy = StatusStrategy::new(|_, object, _| status::validate(object));

/// Adds the storage version to `status.storedVersions` unless it is listed.
fn add_stored_version(object: &mut Value) {
    let versions = object.items_at(&["spec", "versions"]);
    let Some(storage) = versions.iter().find(|version| version.bool_at(&["storage"])) else { return };
    let name = storage.str_at(&["name"]).to_owned();
    let mut stored: Vec<Value> = object.items_at(&["status", "storedVersions"]).to_vec();
    if !stored.iter().any(|version| version.as_str() == Some(name.as_str())) {
        stored.push(name.into());
        object.set_at(&["status", "storedVersions"], stored);
    }
}

/// Validates everything beside the spec, and the settings that an update may not turn on.
fn validate_status_and_conversion(errors: &mut Errors, object: &Value, old: Option<&Value>) {
    errors.append(status::validate(object));
    status::validate_stored_versions(errors, object);
    approval::validate(errors, object, old);
    let preserves = |object: &Value| object.bool_at(&["spec", "preserveUnknownFields"]);
    if preserves(object) && !old.is_some_and(preserves) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.invalid(&FieldPath::new("spec.preserveUnknownFields"), true, detail);
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::validator::NoopSchemaValidator;
    use super::*;
    use crate::testing::{context, object};

    const WIDGETS: &str = r#"{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com",
        "names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1"},{"name":"v2","storage":true}]}}"#;

    fn strategy() -> CustomResourceDefinitionStrategy {
        CustomResourceDefinitionStrategy { validator: Arc::new(NoopSchemaValidator) }
    }

    #[test]
    fn a_new_crd_has_defaulted_names_and_a_stored_version() {
        let mut found = object(WIDGETS);
        found.set_at(&["status", "storedVersions"], vec!["v0"]);
        strategy().defaults(&mut found);
        strategy().prepare_for_create(&context(), &mut found);
        assert_eq!(found["spec"]["names"]["singular"], Value::from("widget"));
        assert_eq!(found["spec"]["names"]["listKind"], Value::from("WidgetList"));
        assert_eq!(found["spec"]["conversion"], object(r#"{"strategy":"None"}"#));
        assert_eq!(found["status"]["storedVersions"], object(r#"["v2"]"#));
    }

    #[test]
    fn a_changed_storage_version_is_recorded_and_increments_the_generation() {
        let mut old = object(WIDGETS);
        strategy().defaults(&mut old);
        strategy().prepare_for_create(&context(), &mut old);
        let mut new = old.clone();
        new.set_at(&["spec", "versions"], object(r#"[{"name":"v3","storage":true}]"#));
        new.remove_at(&["status"]);
        strategy().prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new["status"]["storedVersions"], object(r#"["v2","v3"]"#));
        assert_eq!(new.generation(), 2);
    }
}
