//! The strategy for ResourcePoolStatusRequest, a question about the pools of a driver that a controller answers once
//! (upstream: `pkg/registry/resource/resourcepoolstatusrequest`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldPath, Value, metadata};

use crate::declarative::Rules;
use crate::generic::{SPEC_AND_METADATA, StatusStrategy, keep_old, validate_immutable};

static RULES: Rules = Rules::enforced("resource/v1alpha3", "ResourcePoolStatusRequest");

/// The strategy for ResourcePoolStatusRequest.
pub(crate) struct ResourcePoolStatusRequestStrategy;

impl Strategy for ResourcePoolStatusRequestStrategy {
    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        // A new request has no status.
        keep_old(object, old.unwrap_or(&Value::Null), &["status"]);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        RULES.validate(&context.gates, object, old)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

static STATUS: StatusStrategy = StatusStrategy::new(|context, object, old| {
    let mut errors = Errors::new();
    let path = FieldPath::new("status");
    // A request that is answered is not answered again.
    if let Some(answered) = old.get("status").filter(|status| !status.is_null()) {
        validate_immutable(&mut errors, object.get("status"), Some(answered), &path);
    } else {
        errors.append(metadata::validate_conditions(
            &object["status"]["conditions"],
            context.missing_fields(),
            &path.child("conditions"),
        ));
    }
    errors.append(RULES.validate(&context.gates, object, Some(old)));
    errors
})
.preserving(SPEC_AND_METADATA);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation, context, messages, object};

    #[test]
    fn the_filter_is_valid_and_immutable() {
        let request = |spec: &str| format!(r#"{{"spec":{spec}}}"#);
        let check = |new: &str, old: Option<&str>, expect: &[&str]| {
            let old = old.map(request);
            check_validation(&ResourcePoolStatusRequestStrategy, &request(new), old.as_deref(), expect);
        };
        check(r#"{"driver":"D.example.com","poolName":"a/b.c","limit":1000}"#, None, &[]);
        check(
            r#"{"driver":"","poolName":"a//","limit":0}"#,
            None,
            &[
                "spec.driver: Required value",
                "spec.poolName: Invalid value: \"a//\": segment 1: must not be empty",
                "spec.poolName: Invalid value: \"a//\": segment 2: must not be empty",
                "spec.limit: Invalid value: 0: must be greater than or equal to 1",
            ],
        );
        check(
            r#"{"driver":"d","limit":1001}"#,
            None,
            &["spec.limit: Invalid value: 1001: must be less than or equal to 1000"],
        );
        check(r#"{"driver":"d"}"#, Some(r#"{"driver":"e"}"#), &["spec: Invalid value: null: field is immutable"]);
    }

    #[test]
    fn an_answer_is_complete_and_final() {
        let request = |status: &str| object(&format!(r#"{{"spec":{{"driver":"d"}}{status}}}"#));
        let check = |new: &str, old: &str, expect: &[&str]| {
            assert_eq!(messages(&STATUS.validate_update(&context(), &request(new), &request(old))), expect, "{new}");
        };
        let answer = r#","status":{"poolCount":1,"pools":[{"driver":"d","poolName":"p","generation":1,"resourceSliceCount":1,"totalDevices":0,"nodeName":"n"}]}"#;
        check("", "", &[]);
        check(answer, "", &[]);
        check(answer, answer, &[]);
        check(
            r#","status":{"pools":[{"driver":"","poolName":"","generation":-1,"resourceSliceCount":0,"allocatedDevices":-1}]}"#,
            "",
            &[
                "status.poolCount: Required value",
                "status.pools[0].driver: Required value",
                "status.pools[0].poolName: Required value",
                "status.pools[0].generation: Invalid value: -1: must be greater than or equal to 0",
                "status.pools[0].resourceSliceCount: Invalid value: 0: must be greater than or equal to 1",
                "status.pools[0].allocatedDevices: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
        // Upstream checks conditions by hand before it checks the tags of the types.
        let condition =
            r#"{"type":"Complete","status":"True","reason":"R","lastTransitionTime":"2026-01-01T00:00:00Z"}"#;
        check(
            &format!(r#","status":{{"poolCount":-1,"conditions":[{condition},{condition}]}}"#),
            "",
            &[
                "status.conditions[1].type: Duplicate value: \"Complete\"",
                "status.poolCount: Invalid value: -1: must be greater than or equal to 0",
                r#"status.conditions[1]: Duplicate value: {"lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R","status":"True","type":"Complete"}"#,
            ],
        );
        let other = r#","status":{"poolCount":2}"#;
        check(other, answer, &[r#"status: Invalid value: {"poolCount":2}: field is immutable"#]);
    }
}
