//! Services: their number, the load balancers and the node ports (upstream: `evaluator/core/services.go`).

use pintle_kinds::ResourceList;
use pintle_registry::GroupResource;
use pintle_value::Value;
use pintle_value::time::Time;

use crate::resource_list::count;
use crate::{Evaluator, QuotaContext, QuotaFeatures, QuotaWrite};

const COUNT: &str = "count/services";
const SERVICES: &str = "services";
const LOAD_BALANCERS: &str = "services.loadbalancers";
const NODE_PORTS: &str = "services.nodeports";

/// Measures services.
pub(crate) struct Services;

impl Evaluator for Services {
    fn resource(&self) -> GroupResource {
        GroupResource::new("", SERVICES)
    }

    /// Every update counts, because the type of a service may change.
    fn handles(&self, _: QuotaWrite<'_>) -> bool {
        true
    }

    fn counts(&self, name: &str, _: QuotaFeatures) -> bool {
        matches!(name, COUNT | SERVICES | LOAD_BALANCERS | NODE_PORTS)
    }

    fn usage(&self, service: &Value, _: &dyn QuotaContext) -> ResourceList {
        let ports = service.items_at(&["spec", "ports"]);
        let allocates = service.at(&["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool);
        let (load_balancers, node_ports) = match service.str_at(&["spec", "type"]) {
            "NodePort" => (0, ports.len()),
            // Without allocation, only explicit node ports are used.
            "LoadBalancer" if allocates == Some(false) => {
                (1, ports.iter().filter(|port| port.int_at(&["nodePort"]).is_some_and(|port| port != 0)).count())
            }
            "LoadBalancer" => (1, ports.len()),
            _ => (0, 0),
        };
        let node_ports = i64::try_from(node_ports).unwrap_or(i64::MAX);
        let usage = [(COUNT, 1), (SERVICES, 1), (LOAD_BALANCERS, load_balancers), (NODE_PORTS, node_ports)];
        usage.into_iter().map(|(name, number)| (name.to_owned(), count(number))).collect()
    }

    fn may_replenish(&self, _: &[u8]) -> bool {
        true
    }

    fn replenishes(&self, old: &Value, new: &Value, _: Time) -> bool {
        limited_type(old) != limited_type(new)
    }
}

/// The type of a service, if there are limits on its kind.
fn limited_type(service: &Value) -> &str {
    match service.str_at(&["spec", "type"]) {
        limited @ ("NodePort" | "LoadBalancer") => limited,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_counted, check_usage, json};

    #[test]
    fn services_use_ports_by_their_type() {
        let check = |spec: &str, load_balancers: i64, node_ports: i64| {
            let expect = format!(
                "count/services=1,services=1,services.loadbalancers={load_balancers},services.nodeports={node_ports}"
            );
            check_usage("", "services", &format!(r#"{{"spec":{{{spec}}}}}"#), &expect);
        };
        let ports = r#""ports":[{"port":1},{"port":2,"nodePort":30000}]"#;
        check(&format!(r#""type":"ClusterIP",{ports}"#), 0, 0);
        check(&format!(r#""type":"ExternalName",{ports}"#), 0, 0);
        check(&format!(r#""type":"NodePort",{ports}"#), 0, 2);
        check(&format!(r#""type":"LoadBalancer",{ports}"#), 1, 2);
        check(&format!(r#""type":"LoadBalancer","allocateLoadBalancerNodePorts":true,{ports}"#), 1, 2);
        check(&format!(r#""type":"LoadBalancer","allocateLoadBalancerNodePorts":false,{ports}"#), 1, 1);
        let counted = [COUNT, SERVICES, LOAD_BALANCERS, NODE_PORTS];
        check_counted("", "services", &counted, &["pods", "services.ports", "count/services.apps"]);
    }

    #[test]
    fn a_change_of_the_type_replenishes() {
        let check = |old: &str, new: &str, expect: bool| {
            let service = |kind: &str| json(&format!(r#"{{"spec":{{"type":"{kind}"}}}}"#));
            assert_eq!(Services.replenishes(&service(old), &service(new), Time::ZERO), expect, "{old} {new}");
        };
        check("NodePort", "ClusterIP", true);
        check("NodePort", "LoadBalancer", true);
        check("NodePort", "NodePort", false);
        check("ClusterIP", "ExternalName", false);
    }
}
