//! Version v1beta1 of claims and slices (upstream: `pkg/apis/resource/v1beta1`). The fields that v1 has in `exactly` of
//! a request are in the request itself. The fields of a device are in its `basic`. Version v1beta2 has the fields of
//! v1.

use pintle_value::Value;

use super::claim_spec::set_count_defaults;

/// The version of a resource's strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiVersion {
    /// `v1beta1`.
    V1Beta1,
    /// `v1`, or `v1beta2` with the same fields.
    V1,
}

impl ApiVersion {
    pub(crate) fn named(version: &str) -> Self {
        if version == "v1beta1" { Self::V1Beta1 } else { Self::V1 }
    }
}

/// The fields of a request that names one class. A request with alternatives has none of them.
const EXACT_FIELDS: [&str; 8] = [
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
];

/// The fields of only one of the versions whose members the other version has in the owner of the field.
pub(super) const INLINED: &[&str] = &["exactly", "basic"];

/// The fields of a slice that are no pointers in v1beta1.
const NODE_FIELDS: [&str; 2] = ["nodeName", "allNodes"];

fn requests_of(spec: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    let requests = spec.and_then(|spec| spec.at_mut(&["devices", "requests"])).and_then(Value::as_array_mut);
    requests.into_iter().flatten()
}

fn devices_of(slice: &mut Value) -> impl Iterator<Item = &mut Value> {
    slice.at_mut(&["spec", "devices"]).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets the defaults of requests that name one class. Upstream assumes that a request without a class has alternatives.
pub(super) fn set_request_defaults(spec: Option<&mut Value>) {
    for request in requests_of(spec) {
        if !request.str_at(&["deviceClassName"]).is_empty() {
            set_count_defaults(request);
        }
        let alternatives = request.get_mut("firstAvailable").and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(set_count_defaults);
    }
}

/// Converts the requests of a claim's spec to v1.
pub(super) fn requests_to_v1(spec: Option<&mut Value>) {
    for request in requests_of(spec) {
        let mut exactly = Value::object();
        for field in EXACT_FIELDS {
            if let Some(value) = request.remove(field).filter(is_set) {
                exactly.set(field, value);
            }
        }
        if !exactly.is_empty() {
            request.set("exactly", exactly);
        }
    }
}

/// Converts the requests of a claim's spec from v1.
pub(super) fn requests_from_v1(spec: Option<&mut Value>) {
    for request in requests_of(spec) {
        // The class is written in any case.
        request.set("deviceClassName", "");
        let Some(Value::Object(exactly)) = request.remove("exactly") else { continue };
        for (field, value) in exactly.iter() {
            request.set(field, value.clone());
        }
    }
}

/// Converts the devices of a slice to v1.
pub(super) fn slice_to_v1(slice: &mut Value) {
    if let Some(spec) = slice.get_mut("spec") {
        drop_zero_nodes(spec);
    }
    for device in devices_of(slice) {
        let Some(Value::Object(basic)) = device.remove("basic") else { continue };
        for (field, value) in basic.iter() {
            device.set(field, value.clone());
        }
    }
}

/// Converts the devices of a slice from v1. Each has a `basic`, empty or not.
pub(super) fn slice_from_v1(slice: &mut Value) {
    if let Some(spec) = slice.get_mut("spec") {
        drop_zero_nodes(spec);
    }
    for device in devices_of(slice) {
        let Some(fields) = device.as_object() else { continue };
        let mut basic = Value::object();
        for (field, value) in fields.iter().filter(|(field, _)| *field != "name") {
            basic.set(field, value.clone());
        }
        *device = pintle_value::object! { "name": device.str_at(&["name"]), "basic": basic };
    }
}

/// Drops the fields whose zero values are not written, and mean nothing.
fn drop_zero_nodes(spec: &mut Value) {
    for field in NODE_FIELDS {
        if matches!(spec.get(field), Some(Value::Bool(false))) || spec.get(field).is_some_and(Value::is_empty) {
            spec.remove(field);
        }
    }
}

/// True if a field of a Go struct is set: for booleans and structs, these are pointers.
fn is_set(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Object(_)) || !value.is_empty()
}

#[cfg(test)]
mod tests {
    use pintle_gates::Gates;
    use pintle_registry::Strategy;

    use super::super::claim::{ResourceClaimStrategy, ResourceClaimTemplateStrategy};
    use super::super::slice::ResourceSliceStrategy;
    use super::*;
    use crate::testing::object;

    const VERSION: ApiVersion = ApiVersion::V1Beta1;

    /// Converts an object to v1 after defaulting, and back.
    fn check(strategy: &dyn Strategy, beta: &str, v1: &str, back: &str) {
        let mut found = object(beta);
        strategy.defaults(&mut found);
        strategy.convert_to_hub(&mut found);
        assert_eq!(found, object(v1), "{beta}");
        strategy.convert_from_hub(&mut found);
        assert_eq!(found, object(back), "{beta}");
    }

    #[test]
    fn requests_are_converted() {
        let claim = |requests: &str| format!(r#"{{"spec":{{"devices":{{"requests":[{requests}]}}}}}}"#);
        for (beta, v1, back) in [
            (
                r#"{"name":"a","deviceClassName":"c","adminAccess":false}"#,
                r#"{"name":"a","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1,"adminAccess":false}}"#,
                r#"{"name":"a","deviceClassName":"c","allocationMode":"ExactCount","count":1,"adminAccess":false}"#,
            ),
            (
                r#"{"name":"a","deviceClassName":"c","allocationMode":"All","selectors":[{"cel":{"expression":"true"}}]}"#,
                r#"{"name":"a","exactly":{"deviceClassName":"c","selectors":[{"cel":{"expression":"true"}}],"allocationMode":"All"}}"#,
                r#"{"name":"a","deviceClassName":"c","allocationMode":"All","selectors":[{"cel":{"expression":"true"}}]}"#,
            ),
            (
                r#"{"name":"a","deviceClassName":"","firstAvailable":[{"name":"s","deviceClassName":"c"}]}"#,
                r#"{"name":"a","firstAvailable":[{"name":"s","deviceClassName":"c","allocationMode":"ExactCount","count":1}]}"#,
                r#"{"name":"a","firstAvailable":[{"name":"s","deviceClassName":"c","allocationMode":"ExactCount","count":1}],"deviceClassName":""}"#,
            ),
            (
                r#"{"name":"a","deviceClassName":"","count":2}"#,
                r#"{"name":"a","exactly":{"count":2}}"#,
                r#"{"name":"a","deviceClassName":"","count":2}"#,
            ),
            (r#"{"name":"a","deviceClassName":""}"#, r#"{"name":"a"}"#, r#"{"name":"a","deviceClassName":""}"#),
        ] {
            let (beta, v1, back) = (claim(beta), claim(v1), claim(back));
            check(&ResourceClaimStrategy { version: VERSION }, &beta, &v1, &back);
            let template = |claim: &str| format!(r#"{{"spec":{claim}}}"#);
            let templates = ResourceClaimTemplateStrategy { version: VERSION };
            check(&templates, &template(&beta), &template(&v1), &template(&back));
        }
    }

    #[test]
    fn devices_are_converted() {
        let strategy = ResourceSliceStrategy::new(VERSION, &Gates::default());
        check(
            &strategy,
            r#"{"spec":{"nodeName":"n","allNodes":false,"devices":[{"name":"d","basic":{"allNodes":true,"attributes":{"a":{"int":1}}}},{"name":"e","basic":{}},{"name":"f"}]}}"#,
            r#"{"spec":{"nodeName":"n","devices":[{"name":"d","allNodes":true,"attributes":{"a":{"int":1}}},{"name":"e"},{"name":"f"}]}}"#,
            r#"{"spec":{"nodeName":"n","devices":[{"name":"d","basic":{"allNodes":true,"attributes":{"a":{"int":1}}}},{"name":"e","basic":{}},{"name":"f","basic":{}}]}}"#,
        );
        let text = r#"{"spec":{"allNodes":true,"devices":[]}}"#;
        check(&strategy, text, text, text);
    }
}
