//! The strategy for the bindings of admission policies (upstream: `validateValidatingAdmissionPolicyBindingSpec` and
//! similar).

use std::collections::BTreeSet;

use pintle_registry::{EscalationCheck, Strategy, StrategyContext};
use pintle_value::{Errors, FieldPath, Value, names};

use super::match_resources::{MUTATING_OPERATIONS, set_match_defaults, validate_match, validate_operations};
use super::match_rules::require_field_one_of;
use super::reserved_names;
use crate::generic::{SPEC, set_generation};
use crate::labels::validate_selector;
use crate::validation::invalid_each;

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
const PARAMETER_ACTIONS: [&str; 2] = ["Deny", "Allow"];

/// The strategy for ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding.
pub(crate) struct PolicyBindingStrategy {
    /// True for bindings of validating policies, which have validation actions.
    pub(crate) validating: bool,
    /// True if a reference to parameters has a default action for missing parameters, as in v1alpha1.
    pub(crate) defaults_not_found_action: bool,
}

impl PolicyBindingStrategy {
    fn validate_spec(&self, object: &Value) -> Errors {
        let mut errors = Errors::new();
        let spec = &object["spec"];
        let path = FieldPath::new("spec");
        let policy = spec.str_at(&["policyName"]);
        if policy.is_empty() {
            errors.required(&path.child("policyName"), "");
        } else {
            invalid_each(&mut errors, &path.child("policyName"), policy, names::dns1123_subdomain_name(policy, false));
        }
        if let Some(reference) = spec.get("paramRef") {
            validate_param_ref(&mut errors, reference, &path.child("paramRef"));
        }
        if let Some(resources) = spec.get("matchResources") {
            let path = path.child("matchResources");
            validate_match(&mut errors, resources, &path);
            validate_operations(&mut errors, resources, (!self.validating).then_some(&MUTATING_OPERATIONS), &path);
        }
        if self.validating {
            validate_actions(&mut errors, spec, &path.child("validationActions"));
        }
        errors
    }
}

impl Strategy for PolicyBindingStrategy {
    fn defaults(&self, object: &mut Value) {
        set_match_defaults(object.at_mut(&["spec", "matchResources"]));
        if let Some(reference) = object.at_mut(&["spec", "paramRef"]).filter(|_| self.defaults_not_found_action) {
            reference.set_default("parameterNotFoundAction", "Deny");
        }
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        set_generation(object, old, SPEC);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = self.validate_spec(object);
        reserved_names::validate(&mut errors, context, object, old);
        errors
    }

    fn escalation_check(&self) -> Option<EscalationCheck> {
        let policies = if self.validating { "validatingadmissionpolicies" } else { "mutatingadmissionpolicies" };
        Some(EscalationCheck::ParamRef { policies })
    }

    fn warnings(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        reserved_names::warnings(context, object, old)
    }
}

fn validate_actions(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let actions: Vec<&str> = spec.items_at(&["validationActions"]).iter().filter_map(Value::as_str).collect();
    let mut seen = BTreeSet::new();
    for (i, action) in actions.iter().enumerate() {
        if !ACTIONS.contains(action) {
            errors.not_supported(&path.index(i), *action, &ACTIONS);
        }
        if !seen.insert(action) {
            errors.duplicate(&path.index(i), *action);
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                      response and headers serves no purpose)";
        errors.invalid(path, actions.clone(), detail);
    }
    if actions.is_empty() {
        errors.required(path, "at least one validation action is required");
    }
}

fn validate_param_ref(errors: &mut Errors, reference: &Value, path: &FieldPath<'_>) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let name = reference.str_at(&["name"]);
    let selector = reference.get("selector");
    let both = !name.is_empty() && selector.is_some();
    invalid_each(
        errors,
        &path.child("name"),
        name,
        names::path_segment_name(name, false).into_iter().filter(|_| !name.is_empty()),
    );
    if both {
        errors.forbidden(&path.child("name"), EXCLUSIVE);
    }
    errors.append(validate_selector(selector, false, &path.child("selector")));
    if both {
        errors.forbidden(&path.child("selector"), EXCLUSIVE);
    }
    if name.is_empty() && selector.is_none() {
        errors.required(path, "one of name or selector must be specified");
    }
    require_field_one_of(errors, reference, "parameterNotFoundAction", &PARAMETER_ACTIONS, path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn bindings() {
        let binding = PolicyBindingStrategy { validating: true, defaults_not_found_action: false };
        let check = |spec: &str, expect: &[&str]| {
            let mut new = object(&format!(r#"{{"spec":{{{spec}}}}}"#));
            binding.defaults(&mut new);
            assert_eq!(messages(&binding.validate(&context(), &new)), expect, "{spec}");
        };
        check(r#""policyName":"p","validationActions":["Deny","Audit"],"matchResources":{}"#, &[]);
        check(
            r#""paramRef":{},"validationActions":["Deny","Warn","Deny"]"#,
            &[
                "spec.policyName: Required value",
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
                "spec.validationActions[2]: Duplicate value: \"Deny\"",
                "spec.validationActions: Invalid value: [\"Deny\",\"Warn\",\"Deny\"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
            ],
        );
    }

    #[test]
    fn references_to_parameters_have_a_default_in_v1alpha1() {
        for (defaults_not_found_action, expect) in [(false, ""), (true, "Deny")] {
            let binding = PolicyBindingStrategy { validating: false, defaults_not_found_action };
            let mut found = object(r#"{"spec":{"paramRef":{"name":"p"}}}"#);
            binding.defaults(&mut found);
            assert_eq!(found.str_at(&["spec", "paramRef", "parameterNotFoundAction"]), expect);
            let mut without = object(r#"{"spec":{}}"#);
            binding.defaults(&mut without);
            assert_eq!(without, object(r#"{"spec":{}}"#));
        }
    }
}
