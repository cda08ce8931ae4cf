//! Accessors for the fields of a service (upstream: `pkg/api/service/util.go` and the predicates of the strategy).

use pintle_value::Value;

use crate::validation::{str_field, strings_at};

/// The cluster IP of a headless service.
pub(super) const NONE: &str = "None";

/// Returns the type.
pub(super) fn kind(service: &Value) -> &str {
    service.str_at(&["spec", "type"])
}

/// Returns the primary cluster IP, or the empty string.
pub(super) fn cluster_ip(service: &Value) -> &str {
    service.str_at(&["spec", "clusterIP"])
}

/// Returns the cluster IPs, the primary one first.
pub(super) fn cluster_ips(service: &Value) -> Vec<&str> {
    strings_at(service, &["spec", "clusterIPs"])
}

/// Returns the cluster IPs as errors show them.
pub(super) fn shown_cluster_ips(service: &Value) -> Value {
    service["spec"]["clusterIPs"].clone()
}

/// Returns the IP families.
pub(super) fn families(service: &Value) -> Vec<&str> {
    strings_at(service, &["spec", "ipFamilies"])
}

/// Returns the IP family policy.
pub(super) fn family_policy(service: &Value) -> Option<&str> {
    str_field(&service["spec"], "ipFamilyPolicy")
}

/// Returns the IP family policy as errors show it.
pub(super) fn shown_policy(service: &Value) -> Value {
    service["spec"]["ipFamilyPolicy"].clone()
}

/// Returns the ports.
pub(super) fn ports(service: &Value) -> &[Value] {
    service.items_at(&["spec", "ports"])
}

/// Returns the ports for modification.
pub(super) fn ports_mut(service: &mut Value) -> &mut [Value] {
    service.at_mut(&["spec", "ports"]).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// Returns the node port of a port, or 0.
pub(super) fn node_port(port: &Value) -> i64 {
    port.int_at(&["nodePort"]).unwrap_or(0)
}

/// Returns the node ports that a service requests, in the order of its ports.
pub(super) fn node_ports(service: &Value) -> Vec<i64> {
    ports(service).iter().map(node_port).filter(|port| *port != 0).collect()
}

/// Returns the health check node port, or 0.
pub(super) fn health_check_node_port(service: &Value) -> i64 {
    service.int_at(&["spec", "healthCheckNodePort"]).unwrap_or(0)
}

/// Returns true for the types that have cluster IPs, including `None`.
pub(super) fn needs_cluster_ip(service: &Value) -> bool {
    kind(service) != "ExternalName"
}

/// Returns true if the service is headless.
pub(super) fn is_headless(service: &Value) -> bool {
    cluster_ips(service) == [NONE]
}

/// Returns true for a headless service whose endpoints are managed by the user.
pub(super) fn is_headless_without_selector(service: &Value) -> bool {
    cluster_ip(service) == NONE && service.entries_at(&["spec", "selector"]).next().is_none()
}

/// Returns true if the service is reachable from outside the cluster.
pub(super) fn is_externally_accessible(service: &Value) -> bool {
    match kind(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !service.items_at(&["spec", "externalIPs"]).is_empty(),
        _ => false,
    }
}

/// Returns true if a load balancer must find out which nodes have endpoints.
pub(super) fn needs_health_check(service: &Value) -> bool {
    kind(service) == "LoadBalancer" && service.str_at(&["spec", "externalTrafficPolicy"]) == "Local"
}

/// Returns true if node ports are allocated automatically.
pub(super) fn allocates_node_ports(service: &Value) -> bool {
    match kind(service) {
        "NodePort" => true,
        "LoadBalancer" => {
            service.at(&["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool).unwrap_or(true)
        }
        _ => false,
    }
}

/// Returns true for the types that may have node ports.
pub(super) fn can_have_node_ports(service: &Value) -> bool {
    matches!(kind(service), "NodePort" | "LoadBalancer")
}
