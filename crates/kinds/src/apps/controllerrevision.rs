//! The strategy for ControllerRevision, an immutable snapshot (upstream: `ValidateControllerRevisionCreate` and
//! `...Update`).

use pintle_registry::{Strategy, StrategyContext};
use pintle_value::{Errors, FieldPath, Value};

use crate::generic::validate_immutable_at;
use crate::validation::reject_negative;

/// The strategy for ControllerRevision.
pub(crate) struct ControllerRevisionStrategy;

impl Strategy for ControllerRevisionStrategy {
    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        reject_negative(&mut errors, &FieldPath::new("revision"), object.int_at(&["revision"]));
        let path = FieldPath::new("data");
        match (object.get("data"), old) {
            (_, Some(_)) => validate_immutable_at(&mut errors, object, old, &["data"]),
            (None, _) => errors.required(&path, "data is mandatory"),
            (Some(Value::Object(_)), _) => {}
            (Some(_), _) => errors.required(&path, "data must be a valid JSON object"),
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn data_must_be_an_object_and_is_immutable() {
        let check = |json: &str, expect: &[&str]| {
            assert_eq!(messages(&ControllerRevisionStrategy.validate(&context(), &object(json))), expect);
        };
        check(r#"{"data":{"a":1},"revision":1}"#, &[]);
        check(
            r#"{"data":null,"revision":-1}"#,
            &[
                "revision: Invalid value: -1: must be greater than or equal to 0",
                "data: Required value: data is mandatory",
            ],
        );
        check(r#"{"data":[1],"revision":1}"#, &["data: Required value: data must be a valid JSON object"]);
        let (old, new) = (object(r#"{"data":{"a":1}}"#), object(r#"{"data":{"a":2},"revision":3}"#));
        assert_eq!(
            messages(&ControllerRevisionStrategy.validate_update(&context(), &new, &old)),
            ["data: Invalid value: {\"a\":2}: field is immutable",]
        );
    }
}
