//! The strategy for IngressClass (upstream: `pkg/apis/networking/validation`, `pkg/registry/networking/ingressclass`).

use pintle_registry::{Strategy, StrategyContext};
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use super::REFERENCE;
use crate::generic::{SPEC, set_generation, validate_immutable_at};
use crate::validation::{invalid_each, str_field};

const MAX_CONTROLLER_LENGTH: usize = 250;
const SCOPES: [&str; 2] = ["Cluster", "Namespace"];

/// The strategy for IngressClass.
pub(crate) struct IngressClassStrategy;

impl Strategy for IngressClassStrategy {
    fn defaults(&self, object: &mut Value) {
        if let Some(parameters) = object.at_mut(&["spec", "parameters"]) {
            parameters.set_default("scope", "Cluster");
        }
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        set_generation(object, old, SPEC);
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        validate_immutable_at(&mut errors, object, old, &["spec", "controller"]);
        let spec = FieldPath::new("spec");
        let path = spec.child("controller");
        let controller = object.str_at(&["spec", "controller"]);
        if controller.len() > MAX_CONTROLLER_LENGTH {
            errors.push(FieldError::too_long(&path, MAX_CONTROLLER_LENGTH));
        }
        errors.append(names::domain_prefixed_path(&path, controller));
        if let Some(parameters) = object.at(&["spec", "parameters"]) {
            check_parameters(&mut errors, &spec.child("parameters"), parameters);
        }
        errors
    }
}

fn check_parameters(errors: &mut Errors, path: &FieldPath<'_>, parameters: &Value) {
    REFERENCE.validate_part(errors, parameters, path);
    let namespace = str_field(parameters, "namespace");
    let namespace_path = path.child("namespace");
    match (str_field(parameters, "scope"), namespace) {
        (None, _) => errors.required(&path.child("scope"), ""),
        (Some("Namespace"), None) => errors.required(&namespace_path, "`parameters.scope` is set to 'Namespace'"),
        (Some("Namespace"), Some(name)) => {
            invalid_each(errors, &namespace_path, name, names::namespace_name(name, false));
        }
        (Some("Cluster"), Some(_)) => errors.forbidden(&namespace_path, "`parameters.scope` is set to 'Cluster'"),
        (Some("Cluster"), None) => {}
        (Some(scope), _) => errors.not_supported(&path.child("scope"), scope, &SCOPES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn parameters_require_a_scope() {
        let check = |parameters: &str, expect: &[&str]| {
            let json = format!(r#"{{"spec":{{"controller":"example.com/c","parameters":{parameters}}}}}"#);
            let mut class = object(&json);
            IngressClassStrategy.defaults(&mut class);
            assert_eq!(messages(&IngressClassStrategy.validate(&context(), &class)), expect, "{json}");
        };
        check(r#"{"kind":"K","name":"n"}"#, &[]);
        check(
            r#"{"kind":"K","name":"n","namespace":"x"}"#,
            &["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
        );
        check(
            r#"{"kind":"","name":"n","scope":"Namespace"}"#,
            &[
                "spec.parameters.kind: Required value",
                "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
            ],
        );
        check(
            r#"{"kind":"K","name":"n","scope":"Galaxy"}"#,
            &["spec.parameters.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespace\""],
        );
    }

    #[test]
    fn the_controller_is_immutable() {
        let old = object(r#"{"spec":{"controller":"example.com/a"}}"#);
        let new = object(r#"{"spec":{"controller":"example.com/b"}}"#);
        assert_eq!(
            messages(&IngressClassStrategy.validate_update(&context(), &new, &old)),
            ["spec.controller: Invalid value: \"example.com/b\": field is immutable",]
        );
    }
}
