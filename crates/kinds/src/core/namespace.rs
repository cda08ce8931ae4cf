//! The strategy for Namespace: the name label, the finalizer `kubernetes`, and the subresources `status` and `finalize`
//! (upstream: `pkg/registry/core/namespace`, `ValidateNamespace...`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy, TwoPhaseDeletion};
use pintle_value::metadata::is_standard_or_qualified_finalizer;
use pintle_value::{Errors, FieldPath, Str, Value, names, object};

use crate::generic::{StatusStrategy, keep_old};
use crate::validation::invalid_each;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const FINALIZER: &str = "kubernetes";

/// The strategy for Namespace.
pub(crate) struct NamespaceStrategy;

impl Strategy for NamespaceStrategy {
    fn two_phase_deletion(&self) -> Option<&dyn TwoPhaseDeletion> {
        Some(self)
    }

    fn is_finalized(&self, object: &Value) -> bool {
        object.items_at(&["spec", "finalizers"]).is_empty()
    }

    fn defaults(&self, object: &mut Value) {
        label_with_name(object);
        if object.str_at(&["status", "phase"]).is_empty() {
            object.set_at(&["status", "phase"], "Active");
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext, object: &mut Value) {
        object.set("status", object! { "phase": "Active" });
        let finalizers = object.items_at(&["spec", "finalizers"]);
        if finalizers.iter().all(|f| f.as_str() != Some(FINALIZER)) {
            let mut finalizers = finalizers.to_vec();
            finalizers.push(FINALIZER.into());
            object.set_at(&["spec", "finalizers"], finalizers);
        }
    }

    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
        keep_old(object, old, &["spec", "finalizers"]);
        keep_old(object, old, &["status"]);
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        let spec = FieldPath::new("spec");
        for finalizer in finalizers(object) {
            validate_finalizer(&mut errors, finalizer, &spec.child("finalizers"));
        }
        errors
    }

    fn canonicalize(&self, object: &mut Value) {
        // The defaults were set before the name was generated.
        label_with_name(object);
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        names::namespace_name(name, prefix)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        match name {
            "status" => Some(&STATUS),
            "finalize" => Some(&FINALIZE),
            _ => None,
        }
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        &["status.phase"]
    }

    fn is_selectable_by_namespace(&self) -> bool {
        false
    }
}

impl TwoPhaseDeletion for NamespaceStrategy {
    fn mark_terminating(&self, object: &mut Value) {
        object.set_at(&["status", "phase"], "Terminating");
    }

    fn sets_propagation_finalizers(&self) -> bool {
        true
    }

    fn is_deletion_pending(&self, object: &Value) -> bool {
        !self.is_finalized(object)
    }
}

static STATUS: StatusStrategy = StatusStrategy::new(validate_status);
static FINALIZE: StatusStrategy = StatusStrategy::new(validate_finalize).preserving(&[&["status"]]);

fn label_with_name(object: &mut Value) {
    let name = Str::from(object.name());
    if !name.is_empty() {
        object.set_at(&["metadata", "labels", NAME_LABEL], name);
    }
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object.items_at(&["spec", "finalizers"]).iter().filter_map(Value::as_str)
}

fn validate_finalizer(errors: &mut Errors, finalizer: &str, path: &FieldPath<'_>) {
    invalid_each(errors, path, finalizer, names::qualified_name(finalizer));
    if !is_standard_or_qualified_finalizer(finalizer) {
        errors.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

fn validate_status(_: &StrategyContext, object: &Value, _: &Value) -> Errors {
    let mut errors = Errors::new();
    let (phase, condition) = if object.is_terminating() { ("Terminating", "not ") } else { ("Active", "") };
    let given = object.str_at(&["status", "phase"]);
    if given != phase {
        // Upstream writes the field name like this.
        let detail = format!("may only be '{phase}' if `deletionTimestamp` is {condition}empty");
        errors.invalid(&FieldPath::new("status.Phase"), given, detail);
    }
    errors
}

fn validate_finalize(_: &StrategyContext, object: &Value, _: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldPath::new("spec");
    let path = spec.child("finalizers");
    for (i, finalizer) in finalizers(object).enumerate() {
        validate_finalizer(&mut errors, finalizer, &path.index(i));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn a_new_namespace_is_active_and_has_the_finalizer_kubernetes() {
        let mut namespace = object(r#"{"metadata":{"name":"a"},"spec":{"finalizers":["x/y"]},"status":{}}"#);
        NamespaceStrategy.defaults(&mut namespace);
        NamespaceStrategy.prepare_for_create(&context(), &mut namespace);
        let expect = object(
            r#"{"metadata":{"name":"a","labels":{"kubernetes.io/metadata.name":"a"}},
                "spec":{"finalizers":["x/y","kubernetes"]},"status":{"phase":"Active"}}"#,
        );
        assert_eq!(namespace, expect);
        let mut unnamed = object(r#"{"metadata":{"generateName":"a-"}}"#);
        NamespaceStrategy.defaults(&mut unnamed);
        assert_eq!(unnamed.label("kubernetes.io/metadata.name"), None);
        unnamed.set_at(&["metadata", "name"], "a-b");
        NamespaceStrategy.canonicalize(&mut unnamed);
        assert_eq!(unnamed.label("kubernetes.io/metadata.name"), Some("a-b"));
    }

    #[test]
    fn an_update_keeps_finalizers_and_status() {
        let old = object(r#"{"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}"#);
        let mut new = object(r#"{"spec":{},"status":{"phase":"Active"}}"#);
        NamespaceStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new, old);
    }

    #[test]
    fn subresources() {
        let status = NamespaceStrategy.subresource("status").expect("status");
        let check = |new: &str, expect: &[&str]| {
            let errors = status.validate_update(&context(), &object(new), &Value::Null);
            assert_eq!(messages(&errors), expect);
        };
        check(r#"{"status":{"phase":"Active"}}"#, &[]);
        check(
            r#"{"status":{"phase":"Terminating"}}"#,
            &["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"],
        );
        let finalize = NamespaceStrategy.subresource("finalize").expect("finalize");
        let old = object(r#"{"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}"#);
        let mut new = object(r#"{"spec":{"finalizers":["mine"]}}"#);
        finalize.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new.str_at(&["status", "phase"]), "Terminating");
        assert_eq!(
            messages(&finalize.validate_update(&context(), &new, &old)),
            [
                "spec.finalizers[0]: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully qualified"
            ]
        );
    }
}
