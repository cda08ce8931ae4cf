//! The strategy for ResourceSlice.

use pintle_gates::{Change, Gates};
use pintle_registry::{Strategy, StrategyContext};
use pintle_value::print::quote;
use pintle_value::{Errors, Object, Value};

use super::slice_validation::validate_slice_spec;
use super::v1beta1::{self, ApiVersion};
use crate::gated::{Part, drop_disabled};
use crate::generic::{SPEC, is_enabled_or_used, set_generation};

/// The lists of an attribute, of which it has one at most.
pub(super) const ATTRIBUTE_LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];

const MAPPINGS: &str = "nodeAllocatableResourceMappings";

/// The strategy for ResourceSlice.
pub(crate) struct ResourceSliceStrategy {
    version: ApiVersion,
    selects_pools: bool,
}

impl ResourceSliceStrategy {
    /// The strategy of a version, on a server with these feature gates.
    pub(crate) fn new(version: ApiVersion, gates: &Gates) -> Self {
        Self { version, selects_pools: gates.has(Change::SLICES_ARE_SELECTED_BY_POOL) }
    }
}

impl Strategy for ResourceSliceStrategy {
    fn defaults(&self, object: &mut Value) {
        for device in devices_mut(object) {
            let fields = if self.version == ApiVersion::V1Beta1 { device.get_mut("basic") } else { Some(device) };
            for mapping in fields.into_iter().flat_map(|fields| map_values_mut(fields, MAPPINGS)) {
                mapping.set_default("allocationMultiplier", "1");
            }
        }
    }

    fn convert_to_hub(&self, object: &mut Value) {
        if self.version == ApiVersion::V1Beta1 {
            v1beta1::slice_to_v1(object);
        }
    }

    fn inlined_fields(&self) -> &'static [&'static str] {
        v1beta1::INLINED
    }

    fn convert_from_hub(&self, object: &mut Value) {
        if self.version == ApiVersion::V1Beta1 {
            v1beta1::slice_from_v1(object);
        }
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        set_taint_times(context, object);
        // As upstream, fields that an update drops are a change, too.
        set_generation(object, old, SPEC);
        drop_disabled(&context.gates, Part::ResourceSlice, object, old);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        validate_slice_spec(&context.gates, &object["spec"], old.map(|old| &old["spec"]))
    }

    fn has_option(&self, gates: &Gates, option: &str, old: Option<&Value>) -> bool {
        is_enabled_or_used(gates, option, old, ("DRAPartitionableDevicesType", &["spec", "partitionTypeAttribute"]))
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Vec<String> {
        let driver = object.str_at(&["spec", "driver"]);
        if driver == driver.to_lowercase() {
            return Vec::new();
        }
        let driver = quote(driver);
        vec![format!("spec.driver: driver names should be lowercase; {driver} contains uppercase characters")]
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        if self.selects_pools {
            return &["spec.nodeName", "spec.driver", "spec.pool.name"];
        }
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
}

fn devices_mut(slice: &mut Value) -> impl Iterator<Item = &mut Value> {
    slice.at_mut(&["spec", "devices"]).and_then(Value::as_array_mut).into_iter().flatten()
}

fn map_values_mut<'v>(object: &'v mut Value, field: &str) -> impl Iterator<Item = &'v mut Value> {
    let map = object.get_mut(field).and_then(Value::as_object_mut);
    map.into_iter().flat_map(Object::iter_mut).map(|(_, value)| value)
}

/// True if an attribute is a list.
pub(super) fn is_list(attribute: &Value) -> bool {
    ATTRIBUTE_LISTS.iter().any(|list| attribute.get(list).is_some())
}

/// Sets the time of taints without one to now. Upstream does so when it sets defaults, but Pintle's defaults have no
/// clock.
fn set_taint_times(context: &StrategyContext, slice: &mut Value) {
    for device in devices_mut(slice) {
        let taints = device.get_mut("taints").and_then(Value::as_array_mut);
        for taint in taints.into_iter().flatten() {
            taint.set_default("timeAdded", context.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, context_of, gated_context, object};

    #[test]
    fn mappings_without_a_multiplier_get_one() {
        for (version, device) in
            [(ApiVersion::V1, r#"{"name":"a",M}"#), (ApiVersion::V1Beta1, r#"{"name":"a","basic":{M}}"#)]
        {
            let slice = |mappings: &str| {
                let mappings = format!("\"nodeAllocatableResourceMappings\":{mappings}");
                object(&format!(r#"{{"spec":{{"devices":[{}]}}}}"#, device.replace('M', &mappings)))
            };
            let mut found = slice(r#"{"cpu":{"capacityKey":"k"},"memory":{"allocationMultiplier":"2"}}"#);
            ResourceSliceStrategy::new(version, &Gates::default()).defaults(&mut found);
            let expect =
                r#"{"cpu":{"capacityKey":"k","allocationMultiplier":"1"},"memory":{"allocationMultiplier":"2"}}"#;
            assert_eq!(found, slice(expect));
        }
    }

    #[test]
    fn taints_without_a_time_get_one() {
        let mut slice = object(r#"{"spec":{"devices":[{"taints":[{"key":"a"}]}]}}"#);
        ResourceSliceStrategy::new(ApiVersion::V1, &Gates::default()).prepare_for_create(&context(), &mut slice);
        assert_eq!(slice["spec"]["devices"][0]["taints"][0].str_at(&["timeAdded"]), "2023-11-14T22:13:20Z");
        assert_eq!(slice.generation(), 1);
    }

    #[test]
    fn the_generation_follows_what_was_sent() {
        let old = object(r#"{"metadata":{"generation":3},"spec":{"devices":[{"name":"a"}]}}"#);
        let check = |spec: &str, expect: i64| {
            let mut new = object(&format!(r#"{{"metadata":{{"generation":3}},"spec":{spec}}}"#));
            ResourceSliceStrategy::new(ApiVersion::V1, &Gates::default()).prepare_for_update(
                &context(),
                &mut new,
                &old,
            );
            assert_eq!(new.generation(), expect, "{spec}");
        };
        check(r#"{"devices":[{"name":"a"}]}"#, 3);
        check(r#"{"devices":[{"name":"b"}]}"#, 4);
        check(r#"{"devices":[{"name":"a","nodeAllocatableResourceMappings":{"cpu":{}}}]}"#, 4);
    }

    #[test]
    fn slices_are_selected_by_pool_since_1_37() {
        let names = |minor: u8| {
            let strategy = ResourceSliceStrategy::new(ApiVersion::V1, &context_of(minor, &[]).gates);
            strategy.selectable_field_names().join(",")
        };
        assert_eq!(names(36), "spec.nodeName,spec.driver");
        assert_eq!(names(37), "spec.nodeName,spec.driver,spec.pool.name");
    }

    #[test]
    fn drivers_in_upper_case_are_warned_about() {
        let check = |driver: &str, expect: &[&str]| {
            let slice = object(&format!(r#"{{"spec":{{"driver":"{driver}"}}}}"#));
            assert_eq!(
                ResourceSliceStrategy::new(ApiVersion::V1, &Gates::default()).warnings(&context(), &slice, None),
                expect
            );
        };
        check("d.example.com", &[]);
        check(
            "D.example.com",
            &["spec.driver: driver names should be lowercase; \"D.example.com\" contains uppercase characters"],
        );
    }

    #[test]
    fn fields_of_disabled_features_are_dropped_unless_they_are_in_use() {
        let full = object(
            r#"{"spec":{"sharedCounters":[{}],"perDeviceNodeSelection":true,"devices":[{"name":"a","taints":[{"timeAdded":"t"}],
                "consumesCounters":[{}],"nodeName":"n","nodeSelector":{},"allNodes":true,
                "bindingConditions":["a"],"bindingFailureConditions":["b"],"bindsToNode":true,
                "allowMultipleAllocations":true,"capacity":{"m":{"value":"1","requestPolicy":{}}},
                "attributes":{"a":{"ints":[1],"bools":[true],"strings":["a"],"versions":["1.0.0"]}},
                "nodeAllocatableResourceMappings":{"cpu":{}}}]}}"#,
        );
        // Later settings of a gate win.
        let all_on = [("DRAListTypeAttributes", true), ("DRANodeAllocatableResources", true)];
        let prepared = |gates: &[(&str, bool)], old: Option<&str>| {
            let context = gated_context(&[&all_on, gates].concat());
            let mut new = full.clone();
            match old.map(object) {
                None => {
                    ResourceSliceStrategy::new(ApiVersion::V1, &Gates::default()).prepare_for_create(&context, &mut new)
                }
                Some(old) => ResourceSliceStrategy::new(ApiVersion::V1, &Gates::default())
                    .prepare_for_update(&context, &mut new, &old),
            }
            new.remove("metadata");
            new
        };
        assert_eq!(prepared(&[], None), full);
        let in_device = |field: &str| format!("/spec/devices/0/{field}");
        let device_status_off = [
            ("DRAResourceClaimDeviceStatus", false),
            ("DRADeviceBindingConditions", false),
            ("DRAResourceClaimGranularStatusAuthorization", false),
        ];
        let check = |gates: &[(&str, bool)], dropped: &[String], used: &[&str]| {
            let mut expect = full.clone();
            for field in dropped {
                let removed = match field.strip_prefix("/spec/devices/0/") {
                    Some(field) => devices_mut(&mut expect)
                        .next()
                        .and_then(|device| device.remove_at(&field.split('/').collect::<Vec<_>>())),
                    None => expect.remove_at(&field.trim_start_matches('/').split('/').collect::<Vec<_>>()),
                };
                assert!(removed.is_some(), "{field}");
            }
            assert_eq!(prepared(gates, None), expect, "{gates:?}");
            assert_eq!(prepared(gates, Some(r#"{"spec":{"devices":[{}]}}"#)), expect, "{gates:?}");
            for device in used {
                let old = format!(r#"{{"spec":{{"devices":[{device}]}}}}"#);
                assert_eq!(prepared(gates, Some(&old)), full, "{gates:?} {device}");
            }
        };
        check(&[("DRADeviceTaints", false)], &[in_device("taints")], &[r#"{"taints":[{}]}"#]);
        check(
            &[("DRAPartitionableDevices", false)],
            &[
                "/spec/sharedCounters".to_owned(),
                "/spec/perDeviceNodeSelection".to_owned(),
                in_device("consumesCounters"),
                in_device("nodeName"),
                in_device("nodeSelector"),
                in_device("allNodes"),
            ],
            &[r#"{"consumesCounters":[{}]}"#, r#"{"nodeName":"n"}"#, r#"{"nodeSelector":{}}"#, r#"{"allNodes":true}"#],
        );
        check(
            &[("DRADeviceBindingConditions", false)],
            &[in_device("bindingConditions"), in_device("bindingFailureConditions"), in_device("bindsToNode")],
            &[r#"{"bindingConditions":["a"]}"#, r#"{"bindsToNode":false}"#],
        );
        check(
            &device_status_off,
            &[in_device("bindingConditions"), in_device("bindingFailureConditions"), in_device("bindsToNode")],
            &[r#"{"bindingFailureConditions":["a"]}"#],
        );
        check(
            &[("DRAConsumableCapacity", false)],
            &[in_device("allowMultipleAllocations"), in_device("capacity/m/requestPolicy")],
            &[r#"{"allowMultipleAllocations":false}"#, r#"{"capacity":{"x":{"requestPolicy":{}}}}"#],
        );
        check(
            &[("DRANodeAllocatableResources", false)],
            &[in_device("nodeAllocatableResourceMappings")],
            &[r#"{"nodeAllocatableResourceMappings":{"memory":{}}}"#],
        );
        check(
            &[("DRAListTypeAttributes", false)],
            &[
                in_device("attributes/a/ints"),
                in_device("attributes/a/bools"),
                in_device("attributes/a/strings"),
                in_device("attributes/a/versions"),
            ],
            &[r#"{"attributes":{"x":{"versions":["1.0.0"]}}}"#],
        );
        for used in [r#"{"spec":{"sharedCounters":[{}]}}"#, r#"{"spec":{"perDeviceNodeSelection":false}}"#] {
            assert_eq!(prepared(&[("DRAPartitionableDevices", false)], Some(used)), full);
        }
    }
}
