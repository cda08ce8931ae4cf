//! Version v1beta1 of requests and devices, which is stored, but not served here: what is in `exactly` and around `basic` since
//! (upstream: `pkg/apis/resource/v1beta1`).

use pintle_registry::UnservedVersion;
use pintle_value::Value;

use super::claim_spec::set_count_defaults;

const V1BETA1: &str = "resource.k8s.io/v1beta1";

pub(super) const CLAIMS: [UnservedVersion; 1] =
    [UnservedVersion::read(V1BETA1, |claim| convert_requests(claim.at_mut(&["spec"])))];

pub(super) const CLAIM_TEMPLATES: [UnservedVersion; 1] =
    [UnservedVersion::read(V1BETA1, |template| convert_requests(template.at_mut(&["spec", "spec"])))];

pub(super) const SLICES: [UnservedVersion; 1] = [UnservedVersion::read(V1BETA1, |slice| {
    for device in slice.at_mut(&["spec", "devices"]).and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(Value::Object(basic)) = device.remove("basic") else { continue };
        for (field, value) in basic.iter() {
            device.set(field, value.clone());
        }
    }
})];

/// The fields of a request that names one class. Those of requests with alternatives have none of them.
const EXACT_FIELDS: [&str; 7] =
    ["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"];

fn convert_requests(spec: Option<&mut Value>) {
    let requests = spec.and_then(|spec| spec.at_mut(&["devices", "requests"])).and_then(Value::as_array_mut);
    for request in requests.into_iter().flatten() {
        if !request.str_at(&["deviceClassName"]).is_empty() {
            set_count_defaults(request);
        }
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

/// True if a field of a Go struct is set: for booleans and structs, these are pointers.
fn is_set(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Object(_)) || !value.is_empty()
}
