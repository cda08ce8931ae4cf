//! A service as its rules read it (upstream: `pkg/api/service/util.go` and the predicates of the strategy).

use pintle_value::Value;

use crate::rules::{strings, text};

/// The cluster IP of a service that has none on purpose.
pub(super) const NONE: &str = "None";

/// The type.
pub(super) fn kind(service: &Value) -> &str {
    service.str_at(&["spec", "type"])
}

/// The primary cluster IP; may be empty.
pub(super) fn cluster_ip(service: &Value) -> &str {
    service.str_at(&["spec", "clusterIP"])
}

/// The cluster IPs, of which the first is the primary one.
pub(super) fn cluster_ips(service: &Value) -> Vec<&str> {
    strings(service, &["spec", "clusterIPs"])
}

/// The cluster IPs as an error shows them.
pub(super) fn shown_cluster_ips(service: &Value) -> Value {
    service["spec"]["clusterIPs"].clone()
}

/// The families of the cluster IPs.
pub(super) fn families(service: &Value) -> Vec<&str> {
    strings(service, &["spec", "ipFamilies"])
}

/// How many families the service is to have.
pub(super) fn family_policy(service: &Value) -> Option<&str> {
    text(&service["spec"], "ipFamilyPolicy")
}

/// The family policy as an error shows it.
pub(super) fn shown_policy(service: &Value) -> Value {
    service["spec"]["ipFamilyPolicy"].clone()
}

/// The ports.
pub(super) fn ports(service: &Value) -> &[Value] {
    service.items_at(&["spec", "ports"])
}

/// The ports to change.
pub(super) fn ports_mut(service: &mut Value) -> &mut [Value] {
    service.at_mut(&["spec", "ports"]).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// The node port of a port; 0 for none.
pub(super) fn node_port(port: &Value) -> i64 {
    port.int_at(&["nodePort"]).unwrap_or(0)
}

/// The node ports that a service names, in the order of its ports.
pub(super) fn node_ports(service: &Value) -> Vec<i64> {
    ports(service).iter().map(node_port).filter(|port| *port != 0).collect()
}

/// The health check node port; 0 for none.
pub(super) fn health_check_node_port(service: &Value) -> i64 {
    service.int_at(&["spec", "healthCheckNodePort"]).unwrap_or(0)
}

/// True for the types that have cluster IPs, if only `None`.
pub(super) fn needs_cluster_ip(service: &Value) -> bool {
    kind(service) != "ExternalName"
}

/// True for a service without a cluster IP on purpose.
pub(super) fn is_headless(service: &Value) -> bool {
    cluster_ips(service) == [NONE]
}

/// True for a headless service whose endpoints someone else maintains.
pub(super) fn is_headless_without_selector(service: &Value) -> bool {
    cluster_ip(service) == NONE && service.entries_at(&["spec", "selector"]).next().is_none()
}

/// True if traffic from outside the cluster reaches it.
pub(super) fn is_externally_accessible(service: &Value) -> bool {
    match kind(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !service.items_at(&["spec", "externalIPs"]).is_empty(),
        _ => false,
    }
}

/// True if a load balancer must find out which nodes have endpoints.
pub(super) fn needs_health_check(service: &Value) -> bool {
    kind(service) == "LoadBalancer" && service.str_at(&["spec", "externalTrafficPolicy"]) == "Local"
}

/// True if ports without a node port get one.
pub(super) fn allocates_node_ports(service: &Value) -> bool {
    match kind(service) {
        "NodePort" => true,
        "LoadBalancer" => {
            service.at(&["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool).unwrap_or(true)
        }
        _ => false,
    }
}

/// True for the types that may have node ports.
pub(super) fn may_have_node_ports(service: &Value) -> bool {
    matches!(kind(service), "NodePort" | "LoadBalancer")
}
