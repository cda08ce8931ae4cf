//! The strategy for Eviction, whose status shows the progress of responders (upstream:
//! `ValidateEvictionStatusUpdate`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldPath, Value};

use super::responders::validate_responders;
use super::target_responders::validate_target_responders;
use super::{FINAL_CONDITIONS, is_true, validate_conditions};
use crate::generic::{SPEC, SPEC_AND_METADATA, StatusStrategy, reset_status, set_generation};

/// The strategy for Eviction.
pub(crate) struct EvictionStrategy;

static STATUS: StatusStrategy = StatusStrategy::new(validate_status).preserving(SPEC_AND_METADATA);

impl Strategy for EvictionStrategy {
    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
        set_generation(object, old, SPEC);
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

fn validate_status(context: &StrategyContext, object: &Value, old: &Value) -> Errors {
    let mut errors = validate_conditions(context, object);
    let conditions = &object["status"]["conditions"];
    let mut is_final = false;
    for condition in FINAL_CONDITIONS {
        let (is, was) = (is_true(object, condition), is_true(old, condition));
        if was && !is {
            let detail = format!("{condition} condition status cannot be reverted");
            errors.invalid(&FieldPath::new("status.conditions"), conditions.clone(), detail);
        }
        is_final |= is || was;
    }
    let (status, old_status) = (&object["status"], &old["status"]);
    validate_target_responders(&mut errors, status, old_status, is_final, context.now);
    validate_responders(&mut errors, status, old_status, context.now);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context_of, messages, object};

    #[test]
    fn an_ended_eviction_does_not_start_again() {
        let status = |condition: &str, value: &str| {
            let time = "2026-01-01T00:00:00Z";
            object(&format!(
                r#"{{"status":{{"conditions":[{{"type":"{condition}","status":"{value}","reason":"R","message":"","lastTransitionTime":"{time}"}}]}}}}"#
            ))
        };
        let context = context_of(37, &[("EvictionRequestAPI", true)]);
        let check = |new: &Value, old: &Value, expect: &[&str]| {
            let details: Vec<String> = messages(&validate_status(&context, new, old))
                .iter()
                .map(|text| text.rsplit_once(": ").map_or("", |(_, detail)| detail).to_owned())
                .collect();
            assert_eq!(details, expect);
        };
        check(&status("Failed", "True"), &status("Failed", "False"), &[]);
        check(&status("Failed", "False"), &status("Failed", "True"), &["Failed condition status cannot be reverted"]);
        check(
            &status("Failed", "True"),
            &status("TargetEvicted", "True"),
            &["TargetEvicted condition status cannot be reverted"],
        );
    }
}
