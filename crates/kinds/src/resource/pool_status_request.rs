//! The strategy for ResourcePoolStatusRequest, a question about the pools of a driver that a controller answers once
//! (upstream: `pkg/registry/resource/resourcepoolstatusrequest`).

use pintle_registry::{ResetFields, Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldError, FieldPath, Value, metadata, names};

use crate::declarative::{
    require_format, validate_format, validate_max_items, validate_range, validate_unchanged, validate_unique,
};
use crate::generic::{
    SPEC_AND_METADATA_PATHS, StatusStrategy, keep_old, no_preparation, reset_fields_with_metadata, validate_immutable,
};
use crate::validation::str_field;

const MAX_LIMIT: i64 = 1000;
const MAX_POOLS: usize = 1000;
const MAX_CONDITIONS: usize = 10;
const MAX_POOL_NAME: usize = 253;
const MAX_PROBLEM: usize = 256;

/// The strategy for ResourcePoolStatusRequest.
pub(super) struct ResourcePoolStatusRequestStrategy;

static STATUS: StatusStrategy =
    StatusStrategy { preserved_paths: SPEC_AND_METADATA_PATHS, prepare: no_preparation, validate: validate_status };

impl Strategy for ResourcePoolStatusRequestStrategy {
    fn prepare_for_create(&self, _: &StrategyContext, object: &mut Value) {
        object.remove("status");
    }

    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
        keep_old(object, old, &["status"]);
    }

    fn validate(&self, _: &StrategyContext, object: &Value) -> Errors {
        let mut errors = Errors::new();
        let (spec, path) = (&object["spec"], FieldPath::new("spec"));
        require_format(&mut errors, spec, "driver", names::long_name_caseless, &path);
        validate_pool_name(&mut errors, str_field(spec, "poolName"), &path);
        validate_range(&mut errors, spec, "limit", (1, Some(MAX_LIMIT)), &path);
        errors
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        validate_unchanged(&mut errors, object.get("spec"), old.get("spec"), &FieldPath::new("spec"));
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn reset_fields(&self, subresource: &str) -> ResetFields {
        reset_fields_with_metadata(subresource)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

/// Validates the name of a pool if it is there (`format=k8s-resource-pool-name`): DNS subdomains separated by slashes.
fn validate_pool_name(errors: &mut Errors, name: Option<&str>, path: &FieldPath<'_>) {
    let (Some(name), path) = (name, path.child("poolName")) else { return };
    if name.len() > MAX_POOL_NAME {
        errors.push(FieldError::too_long(&path, MAX_POOL_NAME));
    }
    for (i, part) in name.split('/').enumerate() {
        if part.is_empty() {
            errors.invalid(&path, name, format!("segment {i}: must not be empty"));
            continue;
        }
        for problem in names::long_name(part) {
            errors.invalid(&path, part, format!("segment {i}: {problem}"));
        }
    }
}

fn validate_status(object: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("status");
    // A request that is answered is not answered again.
    if let Some(answered) = old.get("status").filter(|status| !status.is_null()) {
        validate_immutable(&mut errors, object.get("status"), Some(answered), &path);
        return errors;
    }
    let Some(status) = object.get("status").filter(|status| !status.is_null()) else { return errors };
    errors.append(metadata::validate_conditions(&status["conditions"], &path.child("conditions")));
    if status.int_at(&["poolCount"]).is_none() {
        errors.required(&path.child("poolCount"), "");
    }
    validate_range(&mut errors, status, "poolCount", (0, None), &path);
    let (pools, list) = (status.items_at(&["pools"]), path.child("pools"));
    if validate_max_items(&mut errors, pools, MAX_POOLS, &list) {
        for (i, pool) in pools.iter().enumerate() {
            validate_pool(&mut errors, pool, &list.index(i));
        }
    }
    let (conditions, list) = (status.items_at(&["conditions"]), path.child("conditions"));
    if validate_max_items(&mut errors, conditions, MAX_CONDITIONS, &list) {
        validate_unique(&mut errors, conditions, "type", &list);
    }
    errors
}

fn validate_pool(errors: &mut Errors, pool: &Value, path: &FieldPath<'_>) {
    require_format(errors, pool, "driver", names::long_name_caseless, path);
    match pool.str_at(&["poolName"]) {
        "" => errors.required(&path.child("poolName"), ""),
        name => validate_pool_name(errors, Some(name), path),
    }
    validate_range(errors, pool, "generation", (0, None), path);
    validate_range(errors, pool, "resourceSliceCount", (1, None), path);
    for field in ["totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices"] {
        validate_range(errors, pool, field, (0, None), path);
    }
    validate_format(errors, pool, "nodeName", names::long_name, path);
    if str_field(pool, "validationError").is_some_and(|text| text.len() > MAX_PROBLEM) {
        errors.push(FieldError::too_long(&path.child("validationError"), MAX_PROBLEM));
    }
}

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
        check(r#"{"driver":"d"}"#, Some(r#"{"driver":"e"}"#), &["spec: Invalid value: \"null\": field is immutable"]);
    }

    #[test]
    fn an_answer_is_complete_and_final() {
        let request = |status: &str| object(&format!(r#"{{"spec":{{"driver":"d"}}{status}}}"#));
        let check = |new: &str, old: &str, expect: &[&str]| {
            assert_eq!(messages(&STATUS.validate_update(&context(), &request(new), &request(old))), expect, "{new}");
        };
        let answer = r#","status":{"poolCount":1,"pools":[{"driver":"d","poolName":"p","generation":0,"resourceSliceCount":1,"totalDevices":0,"nodeName":"n"}]}"#;
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
