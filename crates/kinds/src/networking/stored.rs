//! The versions that are stored, but not served any more (upstream: `pkg/apis/networking/v1beta1`,
//! `pkg/apis/extensions/v1beta1`).

use pintle_registry::UnservedVersion;
use pintle_value::{Value, object};

use super::networkpolicy::set_policy_types;

/// Backends name a service and its port in two fields.
pub(super) const INGRESSES: [UnservedVersion; 2] = [
    UnservedVersion::read("extensions/v1beta1", convert_ingress),
    UnservedVersion::read("networking.k8s.io/v1beta1", convert_ingress),
];

/// Ports have no default protocol: upstream sets it on copies of them.
pub(super) const NETWORK_POLICIES: [UnservedVersion; 1] =
    [UnservedVersion::read_without_defaults("extensions/v1beta1", set_policy_types)];

fn convert_ingress(ingress: &mut Value) {
    let Some(spec) = ingress.get_mut("spec") else { return };
    if let Some(mut backend) = spec.remove("backend").filter(|backend| !backend.is_null()) {
        convert_backend(&mut backend);
        spec.set("defaultBackend", backend);
    }
    for rule in spec.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        let paths = rule.at_mut(&["http", "paths"]).and_then(Value::as_array_mut);
        for path in paths.into_iter().flatten() {
            path.set_default("pathType", "ImplementationSpecific");
            if let Some(backend) = path.get_mut("backend") {
                convert_backend(backend);
            }
        }
    }
}

fn convert_backend(backend: &mut Value) {
    let name = backend.remove("serviceName").unwrap_or_default();
    let port = match backend.remove("servicePort") {
        Some(Value::String(name)) => object! { "name": name },
        Some(Value::Int(number)) if number != 0 => object! { "number": number },
        _ if name.is_empty() => return,
        _ => Value::object(),
    };
    backend.set("service", object! { "name": name, "port": port });
}
