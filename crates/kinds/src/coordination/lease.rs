//! The strategy for Lease, including the fields of coordinated leader election, which is disabled by default (upstream:
//! `pkg/apis/coordination/validation`, `pkg/registry/coordination/lease`).

use pintle_registry::{Strategy, StrategyContext};
use pintle_value::{Errors, FieldPath, Value, names};

use crate::declarative::Rules;
use crate::gated::{Part, drop_disabled};
use crate::validation::invalid_each;

/// The strategies that Kubernetes defines.
pub(super) const STRATEGIES: [&str; 1] = ["OldestEmulationVersion"];

static RULES: Rules = Rules::own("coordination/v1", "LeaseSpec");

/// The strategy for Lease.
pub(crate) struct LeaseStrategy;

impl Strategy for LeaseStrategy {
    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        drop_disabled(&context.gates, Part::Lease, object, old);
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Errors {
        validate_spec(object)
    }
}

/// Validates a strategy: Kubernetes defines it, or its name has a domain. Upstream repeats the field in the path.
pub(super) fn validate_strategy(errors: &mut Errors, strategy: &str, path: &FieldPath<'_>) {
    let path = path.child("strategy");
    if strategy.contains('/') {
        invalid_each(errors, &path, strategy, names::qualified_name(strategy));
    } else if !STRATEGIES.contains(&strategy) {
        errors.not_supported(&path, strategy, &STRATEGIES);
    }
}

fn validate_spec(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    RULES.validate_part(&mut errors, &object["spec"], &path);
    let strategy = object.at(&["spec", "strategy"]).and_then(Value::as_str);
    if let Some(strategy) = strategy {
        validate_strategy(&mut errors, strategy, &path.child("strategy"));
    }
    if !object.str_at(&["spec", "preferredHolder"]).is_empty() && strategy.unwrap_or_default().is_empty() {
        errors.forbidden(&path.child("preferredHolder"), "may only be specified if `strategy` is defined");
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn numbers_are_in_range() {
        let check = |spec: &str, expect: &[&str]| {
            let mut lease = object(&format!(r#"{{"spec":{spec}}}"#));
            LeaseStrategy.prepare_for_create(&context(), &mut lease);
            assert_eq!(messages(&LeaseStrategy.validate(&context(), &lease)), expect);
        };
        check(r#"{"leaseDurationSeconds":15,"leaseTransitions":0,"holderIdentity":"x"}"#, &[]);
        check(
            r#"{"leaseDurationSeconds":0,"leaseTransitions":-1}"#,
            &[
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
        // The fields of a disabled feature are dropped.
        check(r#"{"strategy":"Other","preferredHolder":"x"}"#, &[]);
    }

    #[test]
    fn election_fields_in_use_are_validated() {
        let old = object(r#"{"spec":{"strategy":"OldestEmulationVersion","preferredHolder":"x"}}"#);
        let check = |spec: &str, expect: &[&str]| {
            let mut lease = object(&format!(r#"{{"spec":{spec}}}"#));
            LeaseStrategy.prepare_for_update(&context(), &mut lease, &old);
            assert_eq!(messages(&LeaseStrategy.validate_update(&context(), &lease, &old)), expect);
        };
        check(
            r#"{"strategy":"Other"}"#,
            &["spec.strategy.strategy: Unsupported value: \"Other\": supported values: \"OldestEmulationVersion\""],
        );
        check(r#"{"strategy":"example.com/own","preferredHolder":"y"}"#, &[]);
        check(
            r#"{"preferredHolder":"y"}"#,
            &["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"],
        );
    }
}
