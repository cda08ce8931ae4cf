//! Synchronizes fields of a service: `clusterIP` with `clusterIPs`, allocated values that an update omits, and fields
//! that a change of the type invalidates. (Upstream: `dropTypeDependentFields` in
//! `pkg/registry/core/service/strategy.go`, `normalizeClusterIPs` and `patchAllocatedValues` in `storage.go`.) All
//! three functions are idempotent.

use std::collections::{BTreeSet, HashMap};

use pintle_value::Value;

use super::accessors::{
    allocates_node_ports, can_have_node_ports, cluster_ip, cluster_ips, families, family_policy,
    health_check_node_port, is_externally_accessible, kind, needs_cluster_ip, needs_health_check, node_port,
    node_ports, ports, ports_mut,
};
use crate::generic::{keep_old, same_at};

/// Synchronizes `clusterIPs` with `clusterIP`, for clients that only know the latter.
pub(super) fn align_cluster_ips(service: &mut Value, old: Option<&Value>) {
    let singular = cluster_ip(service).to_owned();
    let Some(old) = old else {
        if !singular.is_empty() && cluster_ips(service).is_empty() {
            set_only_cluster_ip(service, &singular);
        }
        return;
    };
    if cluster_ips(service).is_empty() && !cluster_ips(old).is_empty() && cluster_ip(old) == singular {
        keep_old(service, old, &["spec", "clusterIPs"]);
    }
    if cluster_ip(old) != singular && cluster_ips(old) == cluster_ips(service) {
        if singular.is_empty() {
            service.remove_at(&["spec", "clusterIPs"]);
        } else {
            set_only_cluster_ip(service, &singular);
        }
    }
}

fn set_only_cluster_ip(service: &mut Value, ip: &str) {
    service.set_at(&["spec", "clusterIPs"], vec![Value::from(ip)]);
}

/// Copies allocated values of the old object that the new one omits, so that the original manifest of a service can be
/// applied again.
pub(super) fn copy_allocated(service: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(service) {
        if cluster_ip(service).is_empty() && !cluster_ip(old).is_empty() {
            keep_old(service, old, &["spec", "clusterIP"]);
        }
        if cluster_ips(service).is_empty() && !cluster_ips(old).is_empty() {
            keep_old(service, old, &["spec", "clusterIPs"]);
        }
    }
    if allocates_node_ports(old) && allocates_node_ports(service) {
        let still_used: BTreeSet<i64> = {
            let new: BTreeSet<i64> = node_ports(service).into_iter().collect();
            node_ports(old).into_iter().filter(|port| new.contains(port)).collect()
        };
        let by_name: HashMap<&str, i64> = ports(old).iter().map(|p| (p.str_at(&["name"]), node_port(p))).collect();
        for port in ports_mut(service) {
            let in_range = by_name.get(port.str_at(&["name"])).copied().unwrap_or(0);
            if node_port(port) == 0 && in_range != 0 && !still_used.contains(&in_range) {
                port.set("nodePort", in_range);
            }
        }
    }
    if needs_health_check(old) && needs_health_check(service) && health_check_node_port(service) == 0 {
        keep_old(service, old, &["spec", "healthCheckNodePort"]);
    }
}

/// Clears the fields that no longer apply after a change of the type, if the client left them unchanged. Validation
/// rejects such fields if the client changed them.
pub(super) fn drop_type_dependent(service: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && !needs_cluster_ip(service) {
        if cluster_ip(old) == cluster_ip(service) && cluster_ips(old) == cluster_ips(service) {
            service.remove_at(&["spec", "clusterIP"]);
            service.remove_at(&["spec", "clusterIPs"]);
        }
        if families(old) == families(service) {
            service.remove_at(&["spec", "ipFamilies"]);
        }
        if family_policy(old) == family_policy(service) {
            service.remove_at(&["spec", "ipFamilyPolicy"]);
        }
    }
    let same = |service: &Value, field: &str| same_at(old, service, &["spec", field]);
    if can_have_node_ports(old) && !can_have_node_ports(service) {
        let before: BTreeSet<i64> = node_ports(old).into_iter().collect();
        if node_ports(service).iter().all(|port| before.contains(port)) {
            for port in ports_mut(service) {
                port.remove("nodePort");
            }
        }
    }
    if needs_health_check(old)
        && !needs_health_check(service)
        && health_check_node_port(old) == health_check_node_port(service)
    {
        service.remove_at(&["spec", "healthCheckNodePort"]);
    }
    if kind(old) == "LoadBalancer" && kind(service) != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(service, field) {
                service.remove_at(&["spec", field]);
            }
        }
    }
    if is_externally_accessible(old) && !is_externally_accessible(service) && same(service, "externalTrafficPolicy") {
        service.remove_at(&["spec", "externalTrafficPolicy"]);
    }
    if kind(service) != "LoadBalancer" && service.at(&["status", "loadBalancer"]).is_some() {
        service.set_at(&["status", "loadBalancer"], Value::object());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    fn service(spec: &str) -> Value {
        object(&format!(r#"{{"spec":{spec}}}"#))
    }

    #[test]
    fn cluster_ips_follow_cluster_ip() {
        let check = |old: Option<&str>, new: &str, expect: &str| {
            let mut new = service(new);
            let old = old.map(service);
            for _ in 0..2 {
                align_cluster_ips(&mut new, old.as_ref());
                assert_eq!(new, service(expect));
            }
        };
        check(None, r#"{"clusterIP":"10.0.0.1"}"#, r#"{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"]}"#);
        check(None, "{}", "{}");
        let old = Some(r#"{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","fd00::1"]}"#);
        check(old, r#"{"clusterIP":"10.0.0.1"}"#, r#"{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","fd00::1"]}"#);
        check(
            old,
            r#"{"clusterIP":"10.0.0.2","clusterIPs":["10.0.0.1","fd00::1"]}"#,
            r#"{"clusterIP":"10.0.0.2","clusterIPs":["10.0.0.2"]}"#,
        );
        check(old, r#"{"clusterIPs":["10.0.0.1","fd00::1"]}"#, "{}");
    }

    #[test]
    fn updates_keep_allocated_values() {
        let old = service(
            r#"{"type":"NodePort","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ports":[{"name":"a","port":1,"nodePort":30001},{"name":"b","port":2,"nodePort":30002}]}"#,
        );
        let check = |new: &str, expect: &str| {
            let mut new = service(new);
            for _ in 0..2 {
                copy_allocated(&mut new, &old);
                assert_eq!(new, service(expect));
            }
        };
        check(
            r#"{"type":"NodePort","ports":[{"name":"a","port":3},{"name":"c","port":4,"nodePort":30002},{"name":"b","port":2}]}"#,
            r#"{"type":"NodePort","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ports":[{"name":"a","port":3,"nodePort":30001},{"name":"c","port":4,"nodePort":30002},{"name":"b","port":2}]}"#,
        );
        check(r#"{"type":"ExternalName"}"#, r#"{"type":"ExternalName"}"#);
    }

    #[test]
    fn a_change_of_type_clears_dependent_fields() {
        let old = service(
            r#"{"type":"LoadBalancer","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",
                "ports":[{"port":1,"nodePort":30001}],"externalTrafficPolicy":"Local","healthCheckNodePort":30002,
                "allocateLoadBalancerNodePorts":true,"loadBalancerClass":"a.b/c"}"#,
        );
        let check = |change: &dyn Fn(&mut Value), expect: &str| {
            let mut new = old.clone();
            change(&mut new);
            drop_type_dependent(&mut new, &old);
            assert_eq!(new, service(expect));
        };
        check(
            &|s| s.set_at(&["spec", "type"], "ClusterIP"),
            r#"{"type":"ClusterIP","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","ports":[{"port":1}]}"#,
        );
        check(&|s| s.set_at(&["spec", "type"], "ExternalName"), r#"{"type":"ExternalName","ports":[{"port":1}]}"#);
        check(
            &|s| {
                s.set_at(&["spec", "type"], "ExternalName");
                s.set_at(&["spec", "clusterIP"], "10.0.0.9");
                s.set_at(&["spec", "healthCheckNodePort"], 30009);
                ports_mut(s)[0].set("nodePort", 30009);
            },
            r#"{"type":"ExternalName","clusterIP":"10.0.0.9","clusterIPs":["10.0.0.1"],"ports":[{"port":1,"nodePort":30009}],"healthCheckNodePort":30009}"#,
        );
    }
}
