//! Strategies of the group `resource.k8s.io` (dynamic resource allocation): defaults and the status. Rules for requests
//! and devices beyond their schema are not implemented.

mod stored;

use std::sync::Arc;

use pintle_gates::Feature;
use pintle_registry::{ResetFields, Strategy, StrategyContext, SubresourceStrategy, UnservedVersion};
use pintle_value::{Errors, FieldPath, Object, Value};

use crate::generic::{
    SPEC_AND_METADATA_PATHS, StatusStrategy, keep_old, no_preparation, no_validation, reset_fields_with_metadata,
    validate_immutable,
};

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    Some(match plural {
        "deviceclasses" => Arc::new(DeviceClassStrategy),
        "resourceclaims" => Arc::new(ResourceClaimStrategy),
        "resourceclaimtemplates" => Arc::new(ResourceClaimTemplateStrategy),
        "resourceslices" => Arc::new(ResourceSliceStrategy),
        _ => return None,
    })
}

/// Sets the defaults of the device requests in a claim's spec: exactly one device.
fn set_request_defaults(spec: Option<&mut Value>) {
    let requests = spec.and_then(|spec| spec.at_mut(&["devices", "requests"])).and_then(Value::as_array_mut);
    for request in requests.into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly") {
            set_count_defaults(exactly);
        }
        let alternatives = request.get_mut("firstAvailable").and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(set_count_defaults);
    }
}

fn set_count_defaults(request: &mut Value) {
    if request.str_at(&["allocationMode"]).is_empty() {
        request.set("allocationMode", "ExactCount");
    }
    if request.str_at(&["allocationMode"]) == "ExactCount" && request.int_at(&["count"]).unwrap_or(0) == 0 {
        request.set("count", 1);
    }
}

/// The strategy for DeviceClass.
struct DeviceClassStrategy;

impl Strategy for DeviceClassStrategy {
    fn prepare_for_create(&self, _: &StrategyContext, object: &mut Value) {
        crate::generic::set_first_generation(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
        crate::generic::increment_generation_on_spec_change(object, old);
    }
}

/// The strategy for ResourceClaim, whose spec is immutable.
struct ResourceClaimStrategy;

static CLAIM_STATUS: StatusStrategy =
    StatusStrategy { preserved_paths: SPEC_AND_METADATA_PATHS, prepare: no_preparation, validate: no_validation };

impl Strategy for ResourceClaimStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &stored::CLAIMS
    }

    fn defaults(&self, object: &mut Value) {
        set_request_defaults(object.at_mut(&["spec"]));
    }

    fn prepare_for_create(&self, _: &StrategyContext, object: &mut Value) {
        object.set("status", Value::object());
    }

    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
        keep_old(object, old, &["status"]);
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        validate_immutable(&mut errors, object.get("spec"), old.get("spec"), &FieldPath::new("spec"));
        errors
    }

    fn reset_fields(&self, subresource: &str) -> ResetFields {
        reset_fields_with_metadata(subresource)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&CLAIM_STATUS as &dyn SubresourceStrategy)
    }
}

/// The strategy for ResourceClaimTemplate, whose spec is immutable.
struct ResourceClaimTemplateStrategy;

impl Strategy for ResourceClaimTemplateStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &stored::CLAIM_TEMPLATES
    }

    fn defaults(&self, object: &mut Value) {
        set_request_defaults(object.at_mut(&["spec", "spec"]));
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        validate_immutable(&mut errors, object.get("spec"), old.get("spec"), &FieldPath::new("spec"));
        errors
    }
}

/// The strategy for ResourceSlice.
struct ResourceSliceStrategy;

impl Strategy for ResourceSliceStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &stored::SLICES
    }

    fn prepare_for_create(&self, context: &StrategyContext, object: &mut Value) {
        crate::generic::set_first_generation(object);
        drop_disabled(context, object, None);
        set_taint_times(context, object);
    }

    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value) {
        drop_disabled(context, object, Some(old));
        set_taint_times(context, object);
        crate::generic::increment_generation_on_spec_change(object, old);
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        &["spec.nodeName", "spec.driver"]
    }

    fn is_selectable_by_namespace(&self) -> bool {
        false
    }

    fn unsupported_field_message(&self, field: &str) -> String {
        format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}")
    }

    fn indexed_field(&self) -> Option<&'static str> {
        Some("spec.nodeName")
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, pintle_value::Str)> {
        vec![
            ("spec.nodeName", object.str_at(&["spec", "nodeName"]).into()),
            ("spec.driver", object.str_at(&["spec", "driver"]).into()),
        ]
    }
}

/// The list types of device attributes.
const LISTS: [&str; 4] = ["ints", "bools", "strings", "versions"];

/// The field of `DRANodeAllocatableResources`, a feature that is not implemented.
const MAPPINGS: &str = "nodeAllocatableResourceMappings";

/// Drops the fields of disabled features, unless the old slice uses them.
fn drop_disabled(context: &StrategyContext, slice: &mut Value, old: Option<&Value>) {
    let used = |has: fn(&Value) -> bool| old.is_some_and(|old| old.items_at(&["spec", "devices"]).iter().any(has));
    let lists = context.gates.is_enabled(Feature::DRA_LIST_TYPE_ATTRIBUTES)
        || used(|device| {
            device.entries_at(&["attributes"]).any(|(_, value)| LISTS.iter().any(|list| value.get(list).is_some()))
        });
    let mappings = used(|device| device.get(MAPPINGS).is_some());
    let devices = slice.at_mut(&["spec", "devices"]).and_then(Value::as_array_mut);
    for device in devices.into_iter().flatten() {
        if !mappings {
            device.remove(MAPPINGS);
        }
        let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
        for (_, attribute) in attributes.into_iter().filter(|_| !lists).flat_map(Object::iter_mut) {
            for list in LISTS {
                attribute.remove(list);
            }
        }
    }
}

/// Sets the time of taints without one to now. Upstream does so when it sets defaults, but Pintle's defaults have no
/// clock.
fn set_taint_times(context: &StrategyContext, slice: &mut Value) {
    let devices = slice.at_mut(&["spec", "devices"]).and_then(Value::as_array_mut);
    for device in devices.into_iter().flatten() {
        let taints = device.get_mut("taints").and_then(Value::as_array_mut);
        for taint in taints.into_iter().flatten() {
            taint.set_default("timeAdded", context.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn device_requests_default_to_one_device() {
        let mut claim = object(
            r#"{"spec":{"devices":{"requests":[{"exactly":{}},{"firstAvailable":[{"allocationMode":"All"},{"count":2}]}]}}}"#,
        );
        ResourceClaimStrategy.defaults(&mut claim);
        assert_eq!(
            claim,
            object(
                r#"{"spec":{"devices":{"requests":[{"exactly":{"allocationMode":"ExactCount","count":1}},
                    {"firstAvailable":[{"allocationMode":"All"},{"allocationMode":"ExactCount","count":2}]}]}}}"#
            )
        );
    }

    #[test]
    fn specs_of_claims_are_immutable() {
        let errors = ResourceClaimStrategy.validate_update(
            &context(),
            &object(r#"{"spec":{"a":1}}"#),
            &object(r#"{"spec":{}}"#),
        );
        assert_eq!(messages(&errors), ["spec: Invalid value: {\"a\":1}: field is immutable"]);
    }

    #[test]
    fn taints_without_a_time_get_one() {
        let mut slice = object(r#"{"spec":{"devices":[{"taints":[{"key":"a"}]}]}}"#);
        ResourceSliceStrategy.prepare_for_create(&context(), &mut slice);
        assert_eq!(slice["spec"]["devices"][0]["taints"][0].str_at(&["timeAdded"]), "2023-11-14T22:13:20Z");
        assert_eq!(slice.generation(), 1);
    }
}
