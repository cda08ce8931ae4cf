//! The strategy for Service: defaults, fields that the server sets and clears, field selectors and warnings (upstream:
//! `pkg/apis/core/v1/defaults.go`, `pkg/registry/core/service/strategy.go`, `pkg/api/service/warnings.go`).

use pintle_gates::{Feature, Gates};
use pintle_registry::{AllocationHooks, Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::ip::{cidr_warnings, ip_warnings};
use pintle_value::{Errors, FieldPath, Str, Value, names};

use super::accessors::{NONE, cluster_ip, cluster_ips, is_externally_accessible, kind};
use super::allocation::Allocator;
use super::dependent_fields::{align_cluster_ips, copy_allocated, drop_type_dependent};
use super::network::ServiceNetwork;
use super::validation;
use crate::generic::reset_status;
use crate::networking::address::AddressRules;
use crate::networking::load_balancer::empty_status;
use crate::validation::strings_at;

/// The default timeout of client IP affinity: three hours.
const AFFINITY_SECONDS: i64 = 10_800;

const OLD_TOPOLOGY: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY: &str = "service.kubernetes.io/topology-mode";

/// The strategy for Service, with the allocator for the services of the cluster.
#[derive(Debug)]
pub(super) struct ServiceStrategy {
    allocator: Allocator,
}

impl ServiceStrategy {
    pub(super) fn new(network: ServiceNetwork) -> Self {
        Self { allocator: Allocator::new(&network) }
    }
}

impl Strategy for ServiceStrategy {
    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = object.or_object() {
            spec_defaults(spec.entry("spec"));
        }
        if kind(object) == "LoadBalancer" {
            let addresses = object.at_mut(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array_mut);
            for address in addresses.into_iter().flatten().filter(|a| !a.str_at(&["ip"]).is_empty()) {
                address.set_default("ipMode", "VIP");
            }
        }
        if is_externally_accessible(object) && object.str_at(&["spec", "externalTrafficPolicy"]).is_empty() {
            object.set_at(&["spec", "externalTrafficPolicy"], "Cluster");
        }
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, empty_status());
        if let Some(old) = old {
            copy_allocated(object, old);
        }
        align_cluster_ips(object, old);
        if let Some(old) = old {
            drop_type_dependent(object, old);
        }
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let rules = AddressRules::of(&context.gates);
        match old {
            None => validation::check(rules, object, None),
            Some(old) => validation::check_update(rules, object, old),
        }
    }

    fn canonicalize(&self, object: &mut Value) {
        // Upstream stores the policy of `ExternalName` services but never shows it.
        if kind(object) == "ExternalName" {
            object.remove_at(&["spec", "internalTrafficPolicy"]);
        }
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Vec<String> {
        warnings(object)
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        names::dns1123_label_name(name, prefix)
    }

    fn validate_object_name(&self, gates: &Gates, _: &Value, name: &str, prefix: bool) -> Vec<String> {
        match gates.is_enabled(Feature::RELAXED_SERVICE_NAME_VALIDATION) {
            true => self.validate_name(name, prefix),
            false => names::dns1035_label_name(name, prefix),
        }
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&validation::STATUS as &dyn SubresourceStrategy)
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, Str)> {
        vec![("spec.clusterIP", Str::from(cluster_ip(object))), ("spec.type", Str::from(kind(object)))]
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        &["spec.clusterIP", "spec.type"]
    }

    fn allocation(&self) -> Option<&dyn AllocationHooks> {
        Some(&self.allocator)
    }
}

fn spec_defaults(spec: &mut Value) {
    if spec.str_at(&["sessionAffinity"]).is_empty() {
        spec.set("sessionAffinity", "None");
    }
    match spec.str_at(&["sessionAffinity"]) {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let timeout = ["sessionAffinityConfig", "clientIP", "timeoutSeconds"];
            if spec.at(&timeout).is_none() {
                spec.remove("sessionAffinityConfig");
                spec.set_at(&timeout, AFFINITY_SECONDS);
            }
        }
        _ => {}
    }
    if spec.str_at(&["type"]).is_empty() {
        spec.set("type", "ClusterIP");
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if port.str_at(&["protocol"]).is_empty() {
            port.set("protocol", "TCP");
        }
        if port.get("targetPort").is_none_or(Value::is_empty) {
            let number = port.int_at(&["port"]).unwrap_or(0);
            port.set("targetPort", number);
        }
    }
    if matches!(spec.str_at(&["type"]), "NodePort" | "LoadBalancer" | "ClusterIP") {
        spec.set_default("internalTrafficPolicy", "Cluster");
    }
    if spec.str_at(&["type"]) == "LoadBalancer" {
        spec.set_default("allocateLoadBalancerNodePorts", true);
    }
}

fn warnings(service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = FieldPath::new("spec");
    if service.annotation(OLD_TOPOLOGY).is_some() {
        warnings.push(format!("annotation {OLD_TOPOLOGY} is deprecated, please use {TOPOLOGY} instead"));
    }
    let ip = cluster_ip(service);
    if !ip.is_empty() && ip != NONE {
        for (i, ip) in cluster_ips(service).into_iter().enumerate() {
            warnings.extend(ip_warnings(&spec.child("clusterIPs").index(i), ip));
        }
    }
    let headless = kind(service) == "ClusterIP" && ip == NONE;
    let balancer_ip = service.str_at(&["spec", "loadBalancerIP"]);
    let external_ips = strings_at(service, &["spec", "externalIPs"]);
    if headless {
        let ignored = [
            (!balancer_ip.is_empty(), "loadBalancerIP"),
            (!external_ips.is_empty(), "externalIPs"),
            (service.str_at(&["spec", "sessionAffinity"]) != "None", "SessionAffinity"),
        ];
        let ignored = ignored.into_iter().filter(|(set, _)| *set);
        warnings.extend(ignored.map(|(_, field)| format!("spec.{field} is ignored for headless services")));
    }
    for (i, ip) in external_ips.iter().enumerate() {
        warnings.extend(ip_warnings(&spec.child("externalIPs").index(i), ip));
    }
    let external_name = kind(service) == "ExternalName";
    if !external_ips.is_empty() && !headless && !external_name {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if !balancer_ip.is_empty() {
        warnings.extend(ip_warnings(&spec.child("loadBalancerIP"), balancer_ip));
    }
    for (i, range) in strings_at(service, &["spec", "loadBalancerSourceRanges"]).into_iter().enumerate() {
        warnings.extend(cidr_warnings(&spec.child("loadBalancerSourceRanges").index(i), range));
    }
    if external_name && !external_ips.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !external_name && !service.str_at(&["spec", "externalName"]).is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if service.str_at(&["spec", "trafficDistribution"]) == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, object};

    fn service() -> ServiceStrategy {
        ServiceStrategy::new(ServiceNetwork::default())
    }

    #[test]
    fn defaults() {
        let check = |json: &str, expect: &str| {
            let mut object_ = object(json);
            for _ in 0..2 {
                service().defaults(&mut object_);
                assert_eq!(object_, object(expect));
            }
        };
        check(
            r#"{"spec":{"ports":[{"port":80,"targetPort":0},{"port":81,"targetPort":"http","protocol":"UDP"}],"sessionAffinityConfig":{}},"status":{"loadBalancer":{}}}"#,
            r#"{"spec":{"ports":[{"port":80,"targetPort":80,"protocol":"TCP"},{"port":81,"targetPort":"http","protocol":"UDP"}],
                "sessionAffinity":"None","type":"ClusterIP","internalTrafficPolicy":"Cluster"},"status":{"loadBalancer":{}}}"#,
        );
        check(
            r#"{"spec":{"type":"LoadBalancer","sessionAffinity":"ClientIP"},"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"},{"hostname":"x"}]}}}"#,
            r#"{"spec":{"type":"LoadBalancer","sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":10800}},
                "internalTrafficPolicy":"Cluster","externalTrafficPolicy":"Cluster","allocateLoadBalancerNodePorts":true},
                "status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4","ipMode":"VIP"},{"hostname":"x"}]}}}"#,
        );
        check(
            r#"{"spec":{"type":"ExternalName","externalName":"a.b"}}"#,
            r#"{"spec":{"type":"ExternalName","externalName":"a.b","sessionAffinity":"None"}}"#,
        );
        check(
            r#"{"spec":{"externalIPs":["1.2.3.4"]}}"#,
            r#"{"spec":{"externalIPs":["1.2.3.4"],"type":"ClusterIP","sessionAffinity":"None","internalTrafficPolicy":"Cluster","externalTrafficPolicy":"Cluster"}}"#,
        );
    }

    #[test]
    fn status_and_spec_are_written_separately() {
        let mut new =
            object(r#"{"spec":{"clusterIP":"None"},"status":{"loadBalancer":{"ingress":[{}]},"conditions":[]}}"#);
        service().prepare_for_create(&context(), &mut new);
        assert_eq!(new, object(r#"{"spec":{"clusterIP":"None","clusterIPs":["None"]},"status":{"loadBalancer":{}}}"#));
        let old =
            object(r#"{"spec":{"type":"LoadBalancer"},"status":{"loadBalancer":{"ingress":[{"hostname":"a"}]}}}"#);
        let mut new = object(r#"{"spec":{"type":"LoadBalancer"},"status":{"loadBalancer":{}}}"#);
        service().prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new, old);
        let mut new = object(r#"{"spec":{"type":"ClusterIP"},"status":{}}"#);
        service().prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new, object(r#"{"spec":{"type":"ClusterIP"},"status":{"loadBalancer":{}}}"#));
        let mut external = object(r#"{"spec":{"type":"ExternalName","internalTrafficPolicy":"Local"}}"#);
        service().canonicalize(&mut external);
        assert_eq!(external, object(r#"{"spec":{"type":"ExternalName"}}"#));
    }

    #[test]
    fn fields_and_names() {
        let fields = service().selectable_fields(&object(r#"{"spec":{"type":"NodePort","clusterIP":"10.0.0.1"}}"#));
        assert_eq!(fields, [("spec.clusterIP", Str::from("10.0.0.1")), ("spec.type", Str::from("NodePort"))]);
        assert!(service().validate_name("1-digit-first", false).is_empty());
        assert!(!service().validate_name("a.b", false).is_empty());
    }

    #[test]
    fn service_warnings() {
        let check = |json: &str, expect: &[&str]| assert_eq!(warnings(&object(json)), expect, "{json}");
        check(r#"{"spec":{"type":"ClusterIP","sessionAffinity":"None"}}"#, &[]);
        check(
            r#"{"metadata":{"annotations":{"service.kubernetes.io/topology-aware-hints":"auto"}},"spec":{"type":"ClusterIP","trafficDistribution":"PreferClose","externalName":"x"}}"#,
            &[
                "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
                "spec.externalName is ignored when spec.type is not \"ExternalName\"",
                "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
            ],
        );
        check(
            r#"{"spec":{"type":"ClusterIP","clusterIP":"None","sessionAffinity":"ClientIP","externalIPs":["1.2.3.4"],"loadBalancerIP":"1.2.3.4"}}"#,
            &[
                "spec.loadBalancerIP is ignored for headless services",
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
            ],
        );
        check(
            r#"{"spec":{"type":"NodePort","externalIPs":["1.2.3.4"]}}"#,
            &["spec.externalIPs is deprecated and may no longer be implemented in some clusters"],
        );
    }
}
