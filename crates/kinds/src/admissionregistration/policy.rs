//! The strategies for admission policies (upstream:
//! `pkg/registry/admissionregistration/{validating,mutating}admissionpolicy`). The validation of their specs is in
//! `policy_validation`.

use pintle_registry::{EscalationCheck, Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldPath, Value};

use super::field_ref;
use super::match_resources::set_match_defaults;
use super::policy_validation::{validate_mutating_policy, validate_validating_policy};
use super::reserved_names;
use crate::generic::{SPEC, SPEC_AND_METADATA, StatusStrategy, reset_status, set_generation};

fn set_policy_defaults(object: &mut Value) {
    if let Some(spec) = object.at_mut(&["spec"]) {
        spec.set_default("failurePolicy", "Fail");
        set_match_defaults(spec.get_mut("matchConstraints"));
    }
}

/// The strategy for ValidatingAdmissionPolicy.
pub(crate) struct ValidatingAdmissionPolicyStrategy;

static STATUS: StatusStrategy = StatusStrategy::new(|context, object, _| {
    let mut errors = Errors::new();
    let status = FieldPath::new("status");
    let types = status.child("typeChecking");
    let list = types.child("expressionWarnings");
    for (i, warning) in object.items_at(&["status", "typeChecking", "expressionWarnings"]).iter().enumerate() {
        let path = list.index(i);
        if warning.str_at(&["warning"]).is_empty() {
            errors.required(&path.child("warning"), "");
        }
        let reference = warning.str_at(&["fieldRef"]).trim();
        if reference.is_empty() {
            errors.required(&path.child("fieldRef"), "");
        } else if let Err(why) = field_ref::check(reference) {
            errors.invalid(&path.child("fieldRef"), reference, format!("invalid JSONPath: {why}"));
        }
    }
    let conditions = &object["status"]["conditions"];
    errors.append(pintle_value::metadata::validate_conditions(
        conditions,
        context.missing_fields(),
        &status.child("conditions"),
    ));
    errors
})
.preserving(SPEC_AND_METADATA);

/// The strategy for the status of a ValidatingAdmissionPolicy.
struct PolicyStatusStrategy;

impl SubresourceStrategy for PolicyStatusStrategy {
    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value) {
        STATUS.prepare_for_update(context, object, old);
    }

    fn validate_update(&self, context: &StrategyContext, object: &Value, old: &Value) -> Errors {
        STATUS.validate_update(context, object, old)
    }

    fn warnings(&self, context: &StrategyContext, object: &Value, old: &Value) -> Vec<String> {
        reserved_names::warnings(context, object, Some(old))
    }
}

impl Strategy for ValidatingAdmissionPolicyStrategy {
    fn defaults(&self, object: &mut Value) {
        set_policy_defaults(object);
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
        set_generation(object, old, SPEC);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = validate_validating_policy(object, old, context.gates.version());
        reserved_names::validate(&mut errors, context, object, old);
        errors
    }

    fn warnings(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        reserved_names::warnings(context, object, old)
    }

    fn escalation_check(&self) -> Option<EscalationCheck> {
        Some(EscalationCheck::ParamKind)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&PolicyStatusStrategy as &dyn SubresourceStrategy)
    }
}

/// The strategy for MutatingAdmissionPolicy.
pub(crate) struct MutatingAdmissionPolicyStrategy;

impl Strategy for MutatingAdmissionPolicyStrategy {
    fn defaults(&self, object: &mut Value) {
        set_policy_defaults(object);
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        set_generation(object, old, SPEC);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = validate_mutating_policy(object, old, context.gates.version());
        reserved_names::validate(&mut errors, context, object, old);
        errors
    }

    fn escalation_check(&self) -> Option<EscalationCheck> {
        Some(EscalationCheck::ParamKind)
    }

    fn warnings(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        reserved_names::warnings(context, object, old)
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn references_of_type_checks_are_json_paths() {
        let check = |reference: &str, expect: &[&str]| {
            let warning = object! {"fieldRef": reference, "warning": "w"};
            let types = object! {"expressionWarnings": vec![warning]};
            let policy = object! {"metadata": object! {"name": "p"}, "status": object! {"typeChecking": types}};
            let status = ValidatingAdmissionPolicyStrategy.subresource("status").expect("a status");
            assert_eq!(messages(&status.validate_update(&context(), &policy, &policy)), expect, "{reference}");
        };
        check("spec.validations[0].expression", &[]);
        check(" spec.validations[*].messageExpression ", &[]);
        let field = "status.typeChecking.expressionWarnings[0].fieldRef";
        check(" ", &[&format!("{field}: Required value")]);
        let invalid = format!("{field}: Invalid value: \"spec[x]\": invalid JSONPath: invalid array index x");
        check(" spec[x]", &[&invalid]);
    }

    #[test]
    fn generations_follow_the_spec() {
        let old = object(r#"{"metadata":{"generation":1},"spec":{"a":1}}"#);
        let mut new = object(r#"{"metadata":{"generation":1},"spec":{"a":2}}"#);
        MutatingAdmissionPolicyStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new.generation(), 2);
    }
}
