//! Validates a service in upstream's order (upstream: `ValidateServiceCreate`, `ValidateServiceUpdate` and
//! `ValidateServiceStatusUpdate` in `pkg/apis/core/validation`).

use std::collections::{BTreeSet, HashSet};

use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::metadata::validate_labels;
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use super::accessors::{
    cluster_ips as ips_of, health_check_node_port, is_externally_accessible, is_headless, kind, needs_health_check,
    node_port, ports,
};
use super::cluster_ips;
use crate::declarative::Rules;
use crate::generic::same_at;
use crate::networking::address::{AddressRules, validate_endpoint_ip};
use crate::networking::load_balancer::LoadBalancerStatusStrategy;
use crate::validation::{invalid_each, require_one_of, str_field, strings_at};

static PORT: Rules = Rules::own("core/v1", "ServicePort");

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const AFFINITIES: [&str; 2] = ["ClientIP", "None"];
const TRAFFIC_POLICIES: [&str; 2] = ["Cluster", "Local"];
const TRAFFIC_DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const IP_MODES: [&str; 2] = ["Proxy", "VIP"];
const MAX_AFFINITY_SECONDS: i64 = 86_400;

const OLD_TOPOLOGY: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

const ONLY_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// Validates an update of a service.
pub(super) fn check_update(rules: AddressRules, service: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    cluster_ips::check_address_change(&mut errors, service, old);
    cluster_ips::check_family_change(&mut errors, service, old);
    check_class(&mut errors, service, Some(old));
    if needs_health_check(old)
        && needs_health_check(service)
        && health_check_node_port(old) != health_check_node_port(service)
    {
        errors.forbidden(&FieldPath::new("spec.healthCheckNodePort"), IMMUTABLE_TEXT);
    }
    errors.append(check(rules, service, Some(old)));
    errors
}

/// Validates a whole service. Values of the old service that are no longer valid are accepted unchanged.
pub(super) fn check(rules: AddressRules, service: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldPath::new("spec");
    check_topology(&mut errors, service);
    if ports(service).is_empty() && !is_headless(service) && kind(service) != "ExternalName" {
        errors.required(&spec.child("ports"), "");
    }
    check_type_fields(&mut errors, &spec, service);
    check_ports(&mut errors, &spec.child("ports"), service);
    if let Some(selector) = service.at(&["spec", "selector"]) {
        errors.append(validate_labels(selector, &spec.child("selector")));
    }
    check_affinity(&mut errors, &spec, service);
    errors.append(cluster_ips::check(rules, service, old));
    check_external_ips(rules, &mut errors, &spec.child("externalIPs"), service, old);
    require_one_of(&mut errors, &spec.child("type"), kind(service), &TYPES);
    check_port_pairs(&mut errors, &spec.child("ports"), service);
    check_source_ranges(rules, &mut errors, &spec, service, old);
    let allocates = service.at(&["spec", "allocateLoadBalancerNodePorts"]).is_some();
    match (kind(service) == "LoadBalancer", allocates) {
        (false, true) => errors.forbidden(&spec.child("allocateLoadBalancerNodePorts"), ONLY_BALANCERS),
        // Upstream omits `spec` from this path.
        (true, false) => errors.required(&FieldPath::new("allocateLoadBalancerNodePorts"), ""),
        _ => {}
    }
    check_class(&mut errors, service, None);
    check_traffic(&mut errors, &spec, service);
    errors
}

fn check_topology(errors: &mut Errors, service: &Value) {
    if let (Some(old), Some(mode)) = (service.annotation(OLD_TOPOLOGY), service.annotation(TOPOLOGY))
        && old != mode
    {
        let annotations = FieldPath::new("metadata.annotations");
        let problem = format!("must match annotations[{OLD_TOPOLOGY}] when both are specified");
        errors.invalid(&annotations.key(TOPOLOGY), mode, problem);
    }
}

fn check_type_fields(errors: &mut Errors, spec: &FieldPath<'_>, service: &Value) {
    match kind(service) {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(service) => {
            let problem = format!("may not be set to 'None' for {kind} services");
            errors.invalid(&spec.child("clusterIPs").index(0), "None", problem);
        }
        "ExternalName" => {
            let detail = "may not be set for ExternalName services";
            if !ips_of(service).is_empty() {
                errors.forbidden(&spec.child("clusterIPs"), detail);
            }
            if !service.items_at(&["spec", "ipFamilies"]).is_empty() {
                errors.forbidden(&spec.child("ipFamilies"), detail);
            }
            if service.at(&["spec", "ipFamilyPolicy"]).is_some() {
                errors.forbidden(&spec.child("ipFamilyPolicy"), detail);
            }
            let name = service.str_at(&["spec", "externalName"]);
            let name = name.strip_suffix('.').unwrap_or(name);
            let path = spec.child("externalName");
            if name.is_empty() {
                errors.required(&path, "");
            } else {
                invalid_each(errors, &path, name, names::dns1123_subdomain(name));
            }
        }
        _ => {}
    }
}

fn check_ports(errors: &mut Errors, path: &FieldPath<'_>, service: &Value) {
    let ports = ports(service);
    let mut seen = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = port.str_at(&["name"]);
        if !name.is_empty() {
            invalid_each(errors, &path.child("name"), name, names::dns1123_label(name));
            if !seen.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
        } else if ports.len() > 1 {
            errors.required(&path.child("name"), "");
        }
        PORT.validate_part(errors, port, &path);
    }
}

fn check_affinity(errors: &mut Errors, spec: &FieldPath<'_>, service: &Value) {
    let affinity = service.str_at(&["spec", "sessionAffinity"]);
    require_one_of(errors, &spec.child("sessionAffinity"), affinity, &AFFINITIES);
    let path = spec.child("sessionAffinityConfig");
    let config = service.at(&["spec", "sessionAffinityConfig"]);
    match (affinity, config) {
        ("None", Some(_)) => errors.forbidden(&path, "must not be set when session affinity is None"),
        ("ClientIP", config) => {
            let needed = "when session affinity type is ClientIP";
            let client = path.child("clientIP");
            let timeout_path = client.child("timeoutSeconds");
            let Some(config) = config else { return errors.required(&path, needed) };
            let Some(config) = config.get("clientIP") else { return errors.required(&client, needed) };
            let Some(timeout) = config.int_at(&["timeoutSeconds"]) else {
                return errors.required(&timeout_path, needed);
            };
            if !(1..=MAX_AFFINITY_SECONDS).contains(&timeout) {
                let problem = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
                errors.invalid(&timeout_path, timeout, problem);
            }
        }
        _ => {}
    }
}

fn check_external_ips(
    rules: AddressRules,
    errors: &mut Errors,
    path: &FieldPath<'_>,
    service: &Value,
    old: Option<&Value>,
) {
    let list = ["spec", "externalIPs"];
    let existing: BTreeSet<&str> = old.into_iter().flat_map(|old| strings_at(old, &list)).collect();
    for (i, ip) in strings_at(service, &list).into_iter().enumerate() {
        let before = errors.count();
        rules.validate_ip(errors, &path.index(i), ip, &existing);
        if errors.count() == before {
            validate_endpoint_ip(errors, &path.index(i), ip);
        }
    }
}

/// Validates that ports do not conflict with each other.
fn check_port_pairs(errors: &mut Errors, path: &FieldPath<'_>, service: &Value) {
    let ports = ports(service);
    if kind(service) == "ClusterIP" {
        for (i, _) in ports.iter().enumerate().filter(|(_, port)| node_port(port) != 0) {
            errors.forbidden(&path.index(i).child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = HashSet::new();
    for (i, port) in ports.iter().enumerate().filter(|(_, port)| node_port(port) != 0) {
        if !seen.insert((port.str_at(&["protocol"]), node_port(port))) {
            errors.duplicate(&path.index(i).child("nodePort"), node_port(port));
        }
    }
    let mut seen = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let (protocol, number) = (port.str_at(&["protocol"]), port.int_at(&["port"]).unwrap_or(0));
        if !seen.insert((protocol, number)) {
            // Upstream prints its internal struct with only these two fields set.
            let protocol = pintle_value::field::quote(protocol);
            let shown = format!(
                r#"{{"Name":"","Protocol":{protocol},"AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#
            );
            errors.push(FieldError::duplicate(&path.index(i), Value::Null).showing(shown));
        }
    }
}

fn check_source_ranges(
    rules: AddressRules,
    errors: &mut Errors,
    spec: &FieldPath<'_>,
    service: &Value,
    old: Option<&Value>,
) {
    let list = ["spec", "loadBalancerSourceRanges"];
    let trimmed = |service: &Value| -> Vec<String> {
        strings_at(service, &list).into_iter().map(|range| range.trim().to_owned()).collect()
    };
    let balancer = kind(service) == "LoadBalancer";
    let ranges = trimmed(service);
    if !ranges.is_empty() {
        // Upstream writes this path with a capital letter.
        let path = spec.child("LoadBalancerSourceRanges");
        if !balancer {
            errors.forbidden(&path, ONLY_BALANCERS);
        }
        let existing = old.map(trimmed).unwrap_or_default();
        let existing: BTreeSet<&str> = existing.iter().map(String::as_str).collect();
        for (i, range) in ranges.iter().enumerate() {
            rules.validate_cidr(errors, &path.index(i), range, &existing);
        }
    } else if let Some(annotation) = service.annotation(SOURCE_RANGES) {
        let annotations = FieldPath::new("metadata.annotations");
        let path = annotations.key(SOURCE_RANGES);
        if !balancer {
            errors.forbidden(&path, ONLY_BALANCERS);
        }
        let unchanged = old.is_some_and(|old| old.annotation(SOURCE_RANGES).unwrap_or_default() == annotation);
        if !unchanged && !annotation.trim().is_empty() {
            for range in annotation.trim().split(',') {
                rules.validate_cidr(errors, &path, range.trim(), &BTreeSet::new());
            }
        }
    }
}

/// Validates the load balancer class, and on update that it did not change.
fn check_class(errors: &mut Errors, service: &Value, old: Option<&Value>) {
    let path = FieldPath::new("spec.loadBalancerClass");
    let field = ["spec", "loadBalancerClass"];
    let class = str_field(&service["spec"], "loadBalancerClass");
    let balancer = kind(service) == "LoadBalancer";
    if balancer && old.is_some_and(|old| kind(old) == "LoadBalancer" && !same_at(service, old, &field)) {
        errors.invalid(&path, class.map_or(Value::Null, Value::from), "may not change once set");
    }
    match class {
        Some(class) if balancer => invalid_each(errors, &path, class, names::qualified_name(class)),
        Some(_) => errors.forbidden(&path, ONLY_BALANCERS),
        None => {}
    }
}

fn check_traffic(errors: &mut Errors, spec: &FieldPath<'_>, service: &Value) {
    let external = service.str_at(&["spec", "externalTrafficPolicy"]);
    let path = spec.child("externalTrafficPolicy");
    if is_externally_accessible(service) {
        require_one_of(errors, &path, external, &TRAFFIC_POLICIES);
    } else if !external.is_empty() {
        errors.invalid(&path, external, "may only be set for externally-accessible services");
    }
    let port = health_check_node_port(service);
    let path = spec.child("healthCheckNodePort");
    match (needs_health_check(service), port) {
        (false, 0) => {}
        (false, _) => {
            let problem = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&path, port, problem);
        }
        (true, 0) => errors.required(&path, ""),
        (true, _) => invalid_each(errors, &path, port, names::port_number(port)),
    }
    let path = spec.child("internalTrafficPolicy");
    match str_field(&service["spec"], "internalTrafficPolicy") {
        None if matches!(kind(service), "NodePort" | "LoadBalancer" | "ClusterIP") => errors.required(&path, ""),
        Some(policy) if !TRAFFIC_POLICIES.contains(&policy) => errors.not_supported(&path, policy, &TRAFFIC_POLICIES),
        _ => {}
    }
    if let Some(distribution) = str_field(&service["spec"], "trafficDistribution")
        && !TRAFFIC_DISTRIBUTIONS.contains(&distribution)
    {
        errors.not_supported(&spec.child("trafficDistribution"), distribution, &TRAFFIC_DISTRIBUTIONS);
    }
}

/// The strategy for the `status` subresource.
pub(super) static STATUS: LoadBalancerStatusStrategy = LoadBalancerStatusStrategy {
    forbidden_reason: |service| {
        (kind(service) != "LoadBalancer").then_some("may only be used when `spec.type` is 'LoadBalancer'")
    },
    check_ingress_point: check_ip_mode,
};

fn check_ip_mode(errors: &mut Errors, path: &FieldPath<'_>, point: &Value) {
    let path = path.child("ipMode");
    match (str_field(point, "ipMode"), point.str_at(&["ip"]).is_empty()) {
        (None, false) => errors.required(&path, "must be specified when `ip` is set"),
        (Some(_), true) => errors.forbidden(&path, "may not be specified when `ip` is not set"),
        (Some(mode), false) if !IP_MODES.contains(&mode) => errors.not_supported(&path, mode, &IP_MODES),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_registry::SubresourceStrategy;

    use crate::testing::{context, messages, object};

    /// A minimal service with these fields added or replaced.
    fn service(fields: &str) -> Value {
        let mut service = object(
            r#"{"metadata":{"name":"s"},"spec":{"type":"ClusterIP","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"],
                "ipFamilyPolicy":"SingleStack","ports":[{"port":80,"protocol":"TCP","targetPort":80}],"sessionAffinity":"None",
                "internalTrafficPolicy":"Cluster"}}"#,
        );
        for (field, value) in object(fields).entries_at(&[]) {
            if value.is_empty() && value.as_array().is_none() {
                service.remove_at(&["spec", field]);
            } else {
                service.set_at(&["spec", field], value.clone());
            }
        }
        service
    }

    #[track_caller]
    fn check(fields: &str, expect: &[&str]) {
        assert_eq!(messages(&super::check(AddressRules::Strict, &service(fields), None)), expect, "{fields}");
    }

    #[test]
    fn ports() {
        check("{}", &[]);
        check(r#"{"ports":[]}"#, &["spec.ports: Required value"]);
        check(r#"{"ports":[],"clusterIP":"None","clusterIPs":["None"]}"#, &[]);
        check(
            r#"{"ports":[{"port":0,"protocol":"ICMP","targetPort":70000,"appProtocol":"a b"}]}"#,
            &[
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                "spec.ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                &format!("spec.ports[0].appProtocol: Invalid value: \"a b\": {}", names::qualified_name("a b")[0]),
            ],
        );
        check(
            r#"{"ports":[{"port":80,"protocol":"TCP","targetPort":80},{"name":"a","port":80,"protocol":"TCP","targetPort":80},{"name":"a","port":80,"protocol":"UDP","targetPort":80}]}"#,
            &[
                "spec.ports[0].name: Required value",
                "spec.ports[2].name: Duplicate value: \"a\"",
                r#"spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#,
            ],
        );
        check(
            r#"{"ports":[{"port":80,"protocol":"TCP","targetPort":80,"nodePort":30000}]}"#,
            &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        );
    }

    #[test]
    fn types() {
        check(
            r#"{"type":"Internal"}"#,
            &[
                "spec.type: Unsupported value: \"Internal\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
            ],
        );
        check(
            r#"{"type":"ExternalName"}"#,
            &[
                "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
                "spec.ipFamilies: Forbidden: may not be set for ExternalName services",
                "spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services",
                "spec.externalName: Required value",
            ],
        );
        check(
            r#"{"type":"NodePort","clusterIP":"None","clusterIPs":["None"]}"#,
            &[
                "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
                "spec.externalTrafficPolicy: Required value",
            ],
        );
        check(
            r#"{"type":"LoadBalancer","externalTrafficPolicy":"Local","loadBalancerClass":"a b"}"#,
            &[
                "allocateLoadBalancerNodePorts: Required value",
                &format!("spec.loadBalancerClass: Invalid value: \"a b\": {}", names::qualified_name("a b")[0]),
                "spec.healthCheckNodePort: Required value",
            ],
        );
        check(
            r#"{"allocateLoadBalancerNodePorts":true,"loadBalancerClass":"a.b/c","loadBalancerSourceRanges":["x"],"healthCheckNodePort":1,"externalTrafficPolicy":"Local"}"#,
            &[
                "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
                "spec.LoadBalancerSourceRanges[0]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
                "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
                "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
                "spec.healthCheckNodePort: Invalid value: 1: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
            ],
        );
    }

    #[test]
    fn traffic_and_affinity() {
        check(
            r#"{"internalTrafficPolicy":"","trafficDistribution":"Near","sessionAffinity":"ClientIP"}"#,
            &[
                "spec.sessionAffinityConfig: Required value: when session affinity type is ClientIP",
                "spec.internalTrafficPolicy: Required value",
                "spec.trafficDistribution: Unsupported value: \"Near\": supported values: \"PreferClose\", \"PreferSameZone\", \"PreferSameNode\"",
            ],
        );
        check(
            r#"{"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":86401}}}"#,
            &[
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400",
            ],
        );
        check(
            r#"{"sessionAffinity":"Always","selector":{"a b":"c"}}"#,
            &[
                &format!("spec.selector: Invalid value: \"a b\": {}", names::qualified_name("a b")[0]),
                "spec.sessionAffinity: Unsupported value: \"Always\": supported values: \"ClientIP\", \"None\"",
            ],
        );
        check(
            r#"{"externalIPs":["127.0.0.1","x"],"externalTrafficPolicy":"Cluster"}"#,
            &[
                "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                "spec.externalIPs[1]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ],
        );
    }

    #[test]
    fn changes() {
        let old = service(
            r#"{"type":"LoadBalancer","allocateLoadBalancerNodePorts":true,"loadBalancerClass":"a.b/c","externalTrafficPolicy":"Local","healthCheckNodePort":30001}"#,
        );
        let mut new = old.clone();
        assert!(check_update(AddressRules::Strict, &new, &old).is_empty());
        new.set_at(&["spec", "loadBalancerClass"], "a.b/d");
        new.set_at(&["spec", "healthCheckNodePort"], 30002);
        new.set_at(&["spec", "clusterIPs"], vec![Value::from("10.0.0.2")]);
        new.set_at(&["spec", "clusterIP"], "10.0.0.2");
        assert_eq!(
            messages(&check_update(AddressRules::Strict, &new, &old)),
            [
                "spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set",
                "spec.loadBalancerClass: Invalid value: \"a.b/d\": may not change once set",
                "spec.healthCheckNodePort: Forbidden: field is immutable",
            ]
        );
    }

    #[test]
    fn status() {
        let check = |kind: &str, addresses: &str, expect: &[&str]| {
            let json =
                format!(r#"{{"spec":{{"type":"{kind}"}},"status":{{"loadBalancer":{{"ingress":{addresses}}}}}}}"#);
            assert_eq!(
                messages(&STATUS.validate_update(&context(), &object(&json), &Value::object())),
                expect,
                "{addresses}"
            );
        };
        check(
            "ClusterIP",
            r#"[{"ip":"1.2.3.4"}]"#,
            &["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"],
        );
        check("LoadBalancer", r#"[{"ip":"1.2.3.4","ipMode":"VIP"},{"hostname":"a.b"}]"#, &[]);
        check(
            "LoadBalancer",
            r#"[{"ip":"1.2.3.4"},{"ipMode":"VIP"},{"ip":"x","ipMode":"Y"},{"hostname":"1.2.3.4"}]"#,
            &[
                "status.loadBalancer.ingress[0].ipMode: Required value: must be specified when `ip` is set",
                "status.loadBalancer.ingress[1].ipMode: Forbidden: may not be specified when `ip` is not set",
                "status.loadBalancer.ingress[2].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "status.loadBalancer.ingress[2].ipMode: Unsupported value: \"Y\": supported values: \"Proxy\", \"VIP\"",
                "status.loadBalancer.ingress[3].hostname: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address",
            ],
        );
    }
}
