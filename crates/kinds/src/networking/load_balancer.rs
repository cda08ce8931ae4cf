//! The `status` subresource of kinds with a load balancer (Service, Ingress): validation of and warnings about its
//! addresses.

use std::collections::BTreeSet;

use pintle_registry::{StrategyContext, SubresourceStrategy};
use pintle_value::ip::ip_warnings;
use pintle_value::{Errors, FieldPath, Value, names};

use super::address::{AddressRules, parse_ip};
use crate::generic::keep_old;

/// The ingress points of the load balancer.
const INGRESS_POINTS: [&str; 3] = ["status", "loadBalancer", "ingress"];

/// Validates further fields of an ingress point.
pub(crate) type IngressPointCheck = fn(&mut Errors, &FieldPath<'_>, &Value);

/// The strategy for a `status` subresource with a load balancer.
pub(crate) struct LoadBalancerStatusStrategy {
    /// Returns the error message if the object must not have a load balancer.
    pub(crate) forbidden_reason: fn(&Value) -> Option<&'static str>,
    /// Validates further fields of an ingress point, after its address and before its host name.
    pub(crate) check_ingress_point: IngressPointCheck,
}

impl SubresourceStrategy for LoadBalancerStatusStrategy {
    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
        keep_old(object, old, &["spec"]);
    }

    fn validate_update(&self, context: &StrategyContext, object: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = FieldPath::new("status.loadBalancer.ingress");
        let points = object.items_at(&INGRESS_POINTS);
        if let Some(why) = (self.forbidden_reason)(object).filter(|_| !points.is_empty()) {
            errors.forbidden(&path, why);
            return errors;
        }
        // Addresses of the old status are accepted.
        let existing = old.items_at(&INGRESS_POINTS).iter().map(|point| point.str_at(&["ip"]));
        let existing: BTreeSet<&str> = existing.filter(|ip| !ip.is_empty()).collect();
        for (i, point) in points.iter().enumerate() {
            let path = path.index(i);
            let ip = point.str_at(&["ip"]);
            if !ip.is_empty() {
                AddressRules::of(&context.gates).validate_ip(&mut errors, &path.child("ip"), ip, &existing);
            }
            (self.check_ingress_point)(&mut errors, &path, point);
            check_host(&mut errors, &path.child("hostname"), point.str_at(&["hostname"]));
        }
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, _: &Value) -> Vec<String> {
        let path = FieldPath::new("status.loadBalancer.ingress");
        let points = object.items_at(&INGRESS_POINTS).iter().enumerate();
        points.flat_map(|(i, point)| ip_warnings(&path.index(i), point.str_at(&["ip"]))).collect()
    }
}

fn check_host(errors: &mut Errors, path: &FieldPath<'_>, host: &str) {
    if host.is_empty() {
        return;
    }
    for problem in names::dns1123_subdomain(host) {
        errors.invalid(path, host, problem);
    }
    if parse_ip(host).is_some() {
        errors.invalid(path, host, "must be a DNS name, not an IP address");
    }
}

/// Returns the status of a new object.
pub(crate) fn empty_status() -> Value {
    let mut status = Value::object();
    status.set("loadBalancer", Value::object());
    status
}
