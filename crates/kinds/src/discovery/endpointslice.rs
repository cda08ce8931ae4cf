//! The strategy for EndpointSlice (upstream: `pkg/apis/discovery/validation`, `pkg/apis/discovery/v1/defaults.go`,
//! `pkg/registry/discovery/endpointslice`).

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use pintle_registry::{Strategy, StrategyContext, UnservedVersion};
use pintle_value::ip::{ip_warnings, valid_ip};
use pintle_value::metadata::validate_labels;
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use crate::generic::{increment_generation, same, same_at, set_generation, validate_immutable_at};
use crate::networking::address::{AddressRules, parse_ip, validate_endpoint_ip};
use crate::validation::{invalid_each, require_one_of, str_field, strings_at};

/// The label of an endpoint slice with the name of its service.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

const MAX_ENDPOINTS: usize = 1000;
const MAX_PORTS: usize = 20_000;
const MAX_ADDRESSES: usize = 100;
const MAX_TOPOLOGY_LABELS: usize = 16;
const MAX_HINTS: usize = 8;

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The controllers whose addresses upstream does not warn about, because they copy addresses from other objects.
const CONTROLLERS: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// The strategy for EndpointSlice.
pub(crate) struct EndpointSliceStrategy;

/// The version in which the topology of endpoints is a map (upstream: `pkg/apis/discovery/v1beta1`).
const V1BETA1: UnservedVersion = UnservedVersion::read("discovery.k8s.io/v1beta1", |slice| {
    for endpoint in slice.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(mut topology) = endpoint.remove("topology").filter(|topology| !topology.is_empty()) else { continue };
        if let Some(zone) = topology.remove(ZONE) {
            endpoint.set("zone", zone);
        }
        if let Some(node) = topology.get(HOSTNAME).cloned() {
            endpoint.set_default("nodeName", node.clone());
            // Another name stays.
            if endpoint.get("nodeName") == Some(&node) {
                topology.remove(HOSTNAME);
            }
        }
        if !topology.is_empty() {
            endpoint.set("deprecatedTopology", topology);
        }
    }
});

impl Strategy for EndpointSliceStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &[V1BETA1]
    }

    fn defaults(&self, object: &mut Value) {
        for port in object.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.set_default("name", "");
            port.set_default("protocol", "TCP");
        }
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        let content = [&["addressType"][..], &["endpoints"], &["ports"]];
        set_generation(object, old, &content);
        if let Some(old) = old.filter(|old| !same_labels(object, old)) {
            increment_generation(object, old);
        }
        if old.is_none_or(|old| !same_at(object, old, &["endpoints"])) {
            drop_topology(object, old);
        }
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = check(AddressRules::of(&context.gates), object, old);
        validate_immutable_at(&mut errors, object, old, &["addressType"]);
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        // Upstream's path wrongly contains `spec`.
        if old.is_none() && object.str_at(&["addressType"]) == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        if object.label(MANAGED_BY).is_some_and(|by| CONTROLLERS.contains(&by)) {
            return warnings;
        }
        let path = FieldPath::new("endpoints");
        for (i, endpoint) in object.items_at(&["endpoints"]).iter().enumerate() {
            for (j, address) in strings_at(endpoint, &["addresses"]).into_iter().enumerate() {
                warnings.extend(ip_warnings(&path.index(i).child("addresses").index(j), address));
            }
        }
        warnings
    }
}

/// True if an endpoint of a slice is ready. An endpoint without this condition is ready, too.
#[must_use]
pub fn is_ready_endpoint(endpoint: &Value) -> bool {
    endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool) != Some(false)
}

/// Returns true if the labels are equal. Absence equals an empty map.
fn same_labels(a: &Value, b: &Value) -> bool {
    let labels = |object: &Value| object.at(&["metadata", "labels"]).filter(|labels| !labels.is_empty()).cloned();
    same(labels(a).as_ref(), labels(b).as_ref())
}

/// Removes the topology fields of `v1beta1`. Moves a node name that only they contain to `nodeName`.
fn drop_topology(object: &mut Value, old: Option<&Value>) {
    let node_of =
        |endpoint: &Value| str_field(&endpoint["deprecatedTopology"], HOSTNAME).unwrap_or_default().to_owned();
    let old_endpoints = old.map_or(&[][..], |old| old.items_at(&["endpoints"]));
    let known: HashSet<String> = old_endpoints.iter().map(node_of).filter(|node| !node.is_empty()).collect();
    for endpoint in object.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten() {
        let node = node_of(endpoint);
        if known.contains(&node) && names::dns1123_subdomain_name(&node, false).is_empty() {
            endpoint.set_default("nodeName", node);
        }
        endpoint.remove("deprecatedTopology");
    }
}

fn check(rules: AddressRules, slice: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    require_one_of(&mut errors, &FieldPath::new("addressType"), slice.str_at(&["addressType"]), &ADDRESS_TYPES);
    check_ports(&mut errors, &FieldPath::new("ports"), slice.items_at(&["ports"]));
    let mut endpoints = Errors::new();
    check_endpoints(rules, &mut endpoints, slice);
    // Unchanged endpoints are not validated, since an older server may have accepted them.
    if !old.is_some_and(|old| same_at(slice, old, &["endpoints"])) {
        errors.append(endpoints);
    }
    errors
}

fn check_ports(errors: &mut Errors, path: &FieldPath<'_>, ports: &[Value]) {
    if ports.len() > MAX_PORTS {
        errors.push(FieldError::too_many(path, ports.len(), MAX_PORTS));
        return;
    }
    let mut seen = std::collections::HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = port.str_at(&["name"]);
        if !name.is_empty() {
            invalid_each(errors, &path.child("name"), name, names::dns1123_label(name));
        }
        if !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        match str_field(port, "protocol") {
            None => errors.required(&path.child("protocol"), ""),
            Some(protocol) if !PROTOCOLS.contains(&protocol) => {
                errors.not_supported(&path.child("protocol"), protocol, &PROTOCOLS);
            }
            Some(_) => {}
        }
        if let Some(protocol) = str_field(port, "appProtocol") {
            invalid_each(errors, &path.child("appProtocol"), protocol, names::qualified_name(protocol));
        }
    }
}

fn check_endpoints(rules: AddressRules, errors: &mut Errors, slice: &Value) {
    let path = FieldPath::new("endpoints");
    let endpoints = slice.items_at(&["endpoints"]);
    if endpoints.len() > MAX_ENDPOINTS {
        errors.push(FieldError::too_many(&path, endpoints.len(), MAX_ENDPOINTS));
        return;
    }
    let kind = slice.str_at(&["addressType"]);
    for (i, endpoint) in endpoints.iter().enumerate() {
        let path = path.index(i);
        let addresses = strings_at(endpoint, &["addresses"]);
        let addresses_path = path.child("addresses");
        if addresses.is_empty() {
            errors.required(&addresses_path, "must contain at least 1 address");
        } else if addresses.len() > MAX_ADDRESSES {
            errors.push(FieldError::too_many(&addresses_path, addresses.len(), MAX_ADDRESSES));
        }
        for (i, address) in addresses.into_iter().enumerate() {
            check_address(rules, errors, &addresses_path, i, address, kind);
        }
        if let Some(node) = str_field(endpoint, "nodeName") {
            invalid_each(errors, &path.child("nodeName"), node, names::dns1123_subdomain_name(node, false));
        }
        check_topology(errors, &path.child("deprecatedTopology"), endpoint);
        if let Some(host) = str_field(endpoint, "hostname") {
            invalid_each(errors, &path.child("hostname"), host, names::dns1123_label(host));
        }
        if let Some(hints) = endpoint.get("hints") {
            check_hints(errors, &path.child("hints"), hints);
        }
    }
}

/// Validates one address. Ignores addresses of an unknown type.
fn check_address(rules: AddressRules, errors: &mut Errors, list: &FieldPath<'_>, i: usize, address: &str, kind: &str) {
    let path = list.index(i);
    let mut address_errors = Errors::new();
    let (right_family, complaint): (fn(&IpAddr) -> bool, _) = match kind {
        "IPv4" => {
            rules.validate_ip(&mut address_errors, &path, address, &BTreeSet::new());
            (IpAddr::is_ipv4, "must be an IPv4 address")
        }
        "IPv6" => {
            address_errors.append(valid_ip(&path, address));
            (IpAddr::is_ipv6, "must be an IPv6 address")
        }
        "FQDN" => {
            errors.append(names::fully_qualified_domain_name(&path, address));
            return;
        }
        _ => return,
    };
    if !address_errors.is_empty() {
        errors.append(address_errors);
        return;
    }
    if !parse_ip(address).as_ref().is_some_and(right_family) {
        errors.invalid(list, address, complaint);
    }
    validate_endpoint_ip(errors, &path, address);
}

fn check_topology(errors: &mut Errors, path: &FieldPath<'_>, endpoint: &Value) {
    let topology = endpoint.get("deprecatedTopology");
    let entries = topology.and_then(Value::as_object).map_or(0, pintle_value::Object::len);
    if entries > MAX_TOPOLOGY_LABELS {
        errors.push(FieldError::too_many(path, entries, MAX_TOPOLOGY_LABELS));
    }
    let Some(topology) = topology else { return };
    errors.append(validate_labels(topology, path));
    if topology.get(ZONE).is_some() {
        errors.push(FieldError::internal(&path.key(ZONE), "reserved key was not removed in conversion"));
    }
}

fn check_hints(errors: &mut Errors, path: &FieldPath<'_>, hints: &Value) {
    type NameRule = fn(&str) -> Vec<String>;
    let lists: [(&str, NameRule); 2] =
        [("forZones", names::label_value), ("forNodes", |node| names::dns1123_subdomain_name(node, false))];
    for (list, rule) in lists {
        let path = path.child(list);
        let items = hints.items_at(&[list]);
        if items.len() > MAX_HINTS {
            errors.push(FieldError::too_many(&path, items.len(), MAX_HINTS));
            return;
        }
        let mut seen = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let path = path.index(i);
            let path = path.child("name");
            let name = item.str_at(&["name"]);
            if seen.contains(&name) {
                errors.duplicate(&path, name);
            }
            seen.push(name);
            invalid_each(errors, &path, name, rule(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    fn check(json: &str, expect: &[&str]) {
        let mut slice = object(json);
        EndpointSliceStrategy.defaults(&mut slice);
        assert_eq!(messages(&EndpointSliceStrategy.validate(&context(), &slice)), expect, "{json}");
    }

    #[test]
    fn ports_are_defaulted() {
        let mut slice = object(r#"{"ports":[{"port":80},{"name":"x","protocol":"UDP"}]}"#);
        EndpointSliceStrategy.defaults(&mut slice);
        assert_eq!(
            slice,
            object(r#"{"ports":[{"name":"","port":80,"protocol":"TCP"},{"name":"x","protocol":"UDP"}]}"#)
        );
    }

    #[test]
    fn addresses_must_match_the_address_type() {
        check(r#"{"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}],"ports":[{"port":80}]}"#, &[]);
        check(r#"{"addressType":"","endpoints":[{"addresses":["?"]}]}"#, &["addressType: Required value"]);
        check(
            r#"{"addressType":"IPX"}"#,
            &["addressType: Unsupported value: \"IPX\": supported values: \"FQDN\", \"IPv4\", \"IPv6\""],
        );
        check(
            r#"{"addressType":"IPv4","endpoints":[{"addresses":["::1","x"]},{"addresses":[]}]}"#,
            &[
                "endpoints[0].addresses: Invalid value: \"::1\": must be an IPv4 address",
                "endpoints[0].addresses[0]: Invalid value: \"::1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                "endpoints[0].addresses[1]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "endpoints[1].addresses: Required value: must contain at least 1 address",
            ],
        );
        check(
            r#"{"addressType":"IPv6","endpoints":[{"addresses":["10.0.0.1"]}]}"#,
            &["endpoints[0].addresses: Invalid value: \"10.0.0.1\": must be an IPv6 address"],
        );
    }

    #[test]
    fn ports_and_hints() {
        check(
            r#"{"addressType":"IPv4","ports":[{},{},{"name":"A","protocol":"X","appProtocol":"a b"}]}"#,
            &[
                "ports[1].name: Duplicate value: \"\"",
                &format!("ports[2].name: Invalid value: \"A\": {}", names::dns1123_label("A")[0]),
                "ports[2].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                &format!("ports[2].appProtocol: Invalid value: \"a b\": {}", names::qualified_name("a b")[0]),
            ],
        );
        let hints = r#"{"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"],"hints":{"forZones":[{"name":"a"},{"name":"a"}]}}]}"#;
        check(hints, &["endpoints[0].hints.forZones[1].name: Duplicate value: \"a\""]);
    }

    #[test]
    fn updates() {
        let old = object(
            r#"{"metadata":{"generation":3},"addressType":"IPv4","endpoints":[{"addresses":["x"],"deprecatedTopology":{"kubernetes.io/hostname":"n1"}}]}"#,
        );
        // Unchanged endpoints are accepted.
        let mut new = old.clone();
        EndpointSliceStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new, old);
        assert!(EndpointSliceStrategy.validate_update(&context(), &new, &old).is_empty());
        let mut new = object(
            r#"{"metadata":{"generation":3},"addressType":"IPv6","endpoints":[{"addresses":["fd00::1"],"deprecatedTopology":{"kubernetes.io/hostname":"n1"}}]}"#,
        );
        EndpointSliceStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(
            new,
            object(
                r#"{"metadata":{"generation":4},"addressType":"IPv6","endpoints":[{"addresses":["fd00::1"],"nodeName":"n1"}]}"#
            )
        );
        assert_eq!(
            messages(&EndpointSliceStrategy.validate_update(&context(), &new, &old)),
            ["addressType: Invalid value: \"IPv6\": field is immutable",]
        );
        let mut relabelled = old.clone();
        relabelled.set_at(&["metadata", "labels", "a"], "b");
        EndpointSliceStrategy.prepare_for_update(&context(), &mut relabelled, &old);
        assert_eq!(relabelled.generation(), 4);
    }

    #[test]
    fn controllers_get_no_address_warnings() {
        let mut slice = object(r#"{"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.01"]}]}"#);
        assert_eq!(
            EndpointSliceStrategy.warnings(&context(), &slice, None),
            ["endpoints[0].addresses[0]: non-standard IP address \"10.0.0.01\" is invalid: use \"10.0.0.1\"",]
        );
        slice.set_at(&["metadata", "labels", MANAGED_BY], CONTROLLERS[0]);
        assert!(EndpointSliceStrategy.warnings(&context(), &slice, None).is_empty());
    }
}
