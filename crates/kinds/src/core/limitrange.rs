//! The strategy for LimitRange: defaults of container limits, and the order of minimum, default and maximum (upstream:
//! `SetDefaults_LimitRangeItem`, `ValidateLimitRange`).

use std::collections::BTreeSet;

use pintle_registry::{Strategy, StrategyContext};
use pintle_value::quantity::Quantity;
use pintle_value::{Errors, FieldPath, Str, Value, names};

use crate::core::pod::defaults::round_resource_list;
use crate::core::pod::resources::{
    ResourceList, is_overcommit_allowed, resource_list, validate_container_resource_name, validate_name,
};
use crate::validation::invalid_each;

const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];
const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

/// Above this value, ratios are computed in whole numbers (upstream: `resource.MaxMilliValue`).
const MAX_MILLI: i64 = i64::MAX / 1000;

/// The strategy for LimitRange.
pub(crate) struct LimitRangeStrategy;

impl Strategy for LimitRangeStrategy {
    fn defaults(&self, object: &mut Value) {
        let limits = object.at_mut(&["spec", "limits"]).and_then(Value::as_array_mut);
        for limit in limits.into_iter().flatten() {
            if limit.str_at(&["type"]) == "Container" {
                // A limit defaults to the maximum; a request defaults to the limit, then to the minimum.
                copy_missing(limit, "default", "max");
                copy_missing(limit, "defaultRequest", "default");
                copy_missing(limit, "defaultRequest", "min");
            }
            for list in LISTS {
                round_resource_list(limit, &[list]);
            }
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext, object: &mut Value) {
        // Upstream generates a name for a limit range without one; any unique name will do, so use the uid.
        if object.name().is_empty() {
            let uid = Str::from(object.uid());
            object.set_at(&["metadata", "name"], uid);
        }
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        let list = FieldPath::new("spec.limits");
        let mut types = BTreeSet::new();
        for (i, limit) in object.items_at(&["spec", "limits"]).iter().enumerate() {
            let path = list.index(i);
            let kind = limit.str_at(&["type"]);
            validate_type(&mut errors, kind, &path.child("type"));
            if !types.insert(kind) {
                errors.duplicate(&path.child("type"), kind);
            }
            validate_limit(&mut errors, limit, &path);
        }
        errors
    }
}

/// Copies the entries of the list `from` that the list `to` lacks.
fn copy_missing(limit: &mut Value, to: &str, from: &str) {
    let entries: Vec<(Str, Value)> = limit.entries_at(&[from]).map(|(k, v)| (k.into(), v.clone())).collect();
    for (name, amount) in entries {
        if limit.at(&[to, &name]).is_none() {
            limit.set_at(&[to, &name], amount);
        }
    }
}

fn validate_type(errors: &mut Errors, kind: &str, path: &FieldPath<'_>) {
    let problems = names::qualified_name(kind);
    if problems.is_empty() && !kind.contains('/') && !TYPES.contains(&kind) {
        errors.invalid(path, kind, "must be a standard limit type or fully qualified");
    }
    invalid_each(errors, path, kind, problems);
}

/// The resource lists of one limit.
struct LimitBounds {
    min: ResourceList,
    max: ResourceList,
    limit: ResourceList,
    request: ResourceList,
    ratio: ResourceList,
}

fn validate_limit(errors: &mut Errors, limit: &Value, path: &FieldPath<'_>) {
    let kind = limit.str_at(&["type"]);
    let of_pods = kind == "Pod";
    let check_names = |errors: &mut Errors, list: &str| {
        let path = path.child(list);
        for (name, _) in limit.entries_at(&[list]) {
            if of_pods || kind == "Container" {
                validate_container_resource_name(errors, name, &path.key(name));
            } else {
                validate_name(errors, name, &path.key(name));
            }
        }
    };
    check_names(errors, "max");
    check_names(errors, "min");
    for list in ["default", "defaultRequest"] {
        if !of_pods {
            check_names(errors, list);
        } else if limit.entries_at(&[list]).next().is_some() {
            errors.forbidden(&path.child(list), "may not be specified when `type` is 'Pod'");
        }
    }
    if kind == "PersistentVolumeClaim" && ["min", "max"].iter().all(|list| limit.at(&[list, "storage"]).is_none()) {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(&path.child("limits"), detail);
    }
    check_names(errors, "maxLimitRequestRatio");

    let list = |name: &str| {
        if of_pods && name.starts_with("default") { ResourceList::new() } else { resource_list(limit, &[name]) }
    };
    let bounds = LimitBounds {
        min: list("min"),
        max: list("max"),
        limit: list("default"),
        request: list("defaultRequest"),
        ratio: list("maxLimitRequestRatio"),
    };
    let lists = [&bounds.min, &bounds.max, &bounds.limit, &bounds.request, &bounds.ratio];
    let names: BTreeSet<&String> = lists.into_iter().flat_map(ResourceList::keys).collect();
    for name in names {
        validate_order(errors, &bounds, name, path);
    }
}

/// Validates the bounds of one resource against each other.
fn validate_order(errors: &mut Errors, bounds: &LimitBounds, name: &str, path: &FieldPath<'_>) {
    let (min, max) = (bounds.min.get(name), bounds.max.get(name));
    let (limit, request, ratio) = (bounds.limit.get(name), bounds.request.get(name), bounds.ratio.get(name));
    // The lower and the upper bound with their names, the path of the error, and the value that it shows.
    let orders = [
        ((min, "min value"), (max, "max value"), "min", min),
        ((min, "min value"), (request, "default request value"), "defaultRequest", request),
        ((request, "default request value"), (max, "max value"), "defaultRequest", request),
        ((request, "default request value"), (limit, "default limit value"), "defaultRequest", request),
        ((min, "min value"), (limit, "default value"), "default", min),
        ((limit, "default value"), (max, "max value"), "default", max),
    ];
    for ((low, low_name), (high, high_name), list, shown) in orders {
        let (Some(low), Some(high), Some(shown)) = (low, high, shown) else { continue };
        if low > high {
            let detail = format!("{low_name} {low} is greater than {high_name} {high}");
            errors.invalid(&path.child(list).key(name), shown.to_string(), detail);
        }
    }
    if let Some(ratio) = ratio {
        let path = path.child("maxLimitRequestRatio");
        if ratio.cmp_int(1).is_lt() {
            errors.invalid(&path.key(name), ratio.to_string(), format!("ratio {ratio} is less than 1"));
        }
        if let (Some(min), Some(max)) = (min, max) {
            let (ratio_value, limit) = ratios(ratio, min, max);
            if ratio_value > limit {
                let detail = format!("ratio {ratio} is greater than max/min = {limit:.6}");
                errors.invalid(&path.key(name), ratio.to_string(), detail);
            }
        }
    }
    if let (Some(limit), Some(request)) = (limit, request)
        && !is_overcommit_allowed(name)
        && limit != request
    {
        let detail = format!("default value {limit} must equal to defaultRequest value {request} in {name}");
        errors.invalid(&path.child("defaultRequest").key(name), request.to_string(), detail);
    }
}

/// Returns the ratio as a number, and the maximum.
#[allow(clippy::cast_precision_loss)] // as upstream reckons
fn ratios(ratio: &Quantity, min: &Quantity, max: &Quantity) -> (f64, f64) {
    if [ratio, min, max].iter().all(|quantity| quantity.value() < MAX_MILLI) {
        (ratio.milli_value() as f64 / 1000.0, max.milli_value() as f64 / min.milli_value() as f64)
    } else {
        (ratio.value() as f64, max.value() as f64 / min.value() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn defaults_of_containers() {
        let mut range = object(
            r#"{"spec":{"limits":[{"type":"Container","max":{"cpu":"2","memory":"1Gi"},"min":{"cpu":"100m","storage":"1"},"default":{"cpu":"1"}},
                {"type":"Pod","max":{"cpu":"2"}}]}}"#,
        );
        LimitRangeStrategy.defaults(&mut range);
        assert_eq!(
            range,
            object(
                r#"{"spec":{"limits":[{"type":"Container","max":{"cpu":"2","memory":"1Gi"},"min":{"cpu":"100m","storage":"1"},
                    "default":{"cpu":"1","memory":"1Gi"},"defaultRequest":{"cpu":"1","memory":"1Gi","storage":"1"}},
                    {"type":"Pod","max":{"cpu":"2"}}]}}"#
            )
        );
    }

    #[test]
    fn minimum_default_and_maximum_must_be_in_order() {
        let check = |limit: &str, expect: &[&str]| {
            let range = object(&format!(r#"{{"spec":{{"limits":[{limit}]}}}}"#));
            assert_eq!(messages(&LimitRangeStrategy.validate(&context(), &range)), expect, "{limit}");
        };
        check(
            r#"{"type":"Container","max":{"cpu":"2"},"min":{"cpu":"1"},"default":{"cpu":"2"},"defaultRequest":{"cpu":"1"}}"#,
            &[],
        );
        check(
            r#"{"type":"Pod","default":{"cpu":"1"}}"#,
            &["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
        );
        check(
            r#"{"type":"PersistentVolumeClaim"}"#,
            &[
                "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
            ],
        );
        check(
            r#"{"type":"Container","max":{"cpu":"1"},"min":{"cpu":"2"},"default":{"cpu":"3"},"maxLimitRequestRatio":{"cpu":"4"}}"#,
            &[
                "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
                "spec.limits[0].default[cpu]: Invalid value: \"1\": default value 3 is greater than max value 1",
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"4\": ratio 4 is greater than max/min = 0.500000",
            ],
        );
        check(
            r#"{"type":"Container","default":{"example.com/gpu":"2"},"defaultRequest":{"example.com/gpu":"1"}},{"type":"Container"},{"type":"x"}"#,
            &[
                "spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: \"1\": default value 2 must equal to defaultRequest value 1 in example.com/gpu",
                "spec.limits[1].type: Duplicate value: \"Container\"",
                "spec.limits[2].type: Invalid value: \"x\": must be a standard limit type or fully qualified",
            ],
        );
    }
}
