//! The status of what has a load balancer (Service, Ingress): whose addresses it shows, and the warnings about them.

use pintle_registry::{StrategyContext, SubresourceStrategy};
use pintle_value::ip::ip_warnings;
use pintle_value::{Errors, FieldPath, Value, names};

use super::address::{legacy_ip, parse_ip};
use crate::strategy::keep;

/// The points where a load balancer takes traffic in.
const POINTS: [&str; 3] = ["status", "loadBalancer", "ingress"];

/// Checks one point of a kind beyond its address and host name.
pub(crate) type CheckPoint = fn(&mut Errors, &FieldPath<'_>, &Value);

/// The rules of a `status` subresource that shows a load balancer.
pub(crate) struct BalancerStatus {
    /// What forbids that there is a load balancer at all.
    pub(crate) forbidden: fn(&Value) -> Option<&'static str>,
    /// Checks a point, between its address and its host name.
    pub(crate) check_point: CheckPoint,
}

impl SubresourceStrategy for BalancerStatus {
    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
        keep(object, old, &["spec"]);
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = FieldPath::new("status.loadBalancer.ingress");
        let points = object.items_at(&POINTS);
        if let Some(why) = (self.forbidden)(object).filter(|_| !points.is_empty()) {
            errors.forbidden(&path, why);
            return errors;
        }
        // Addresses that are there already are accepted as they are.
        let existing = old.items_at(&POINTS).iter().map(|point| point.str_at(&["ip"]));
        let existing: Vec<&str> = existing.filter(|ip| !ip.is_empty()).collect();
        for (i, point) in points.iter().enumerate() {
            let path = path.index(i);
            let ip = point.str_at(&["ip"]);
            if !ip.is_empty() {
                legacy_ip(&mut errors, &path.child("ip"), ip, &existing);
            }
            (self.check_point)(&mut errors, &path, point);
            check_host(&mut errors, &path.child("hostname"), point.str_at(&["hostname"]));
        }
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, _: &Value) -> Vec<String> {
        let path = FieldPath::new("status.loadBalancer.ingress");
        let points = object.items_at(&POINTS).iter().enumerate();
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

/// The status of a new object.
pub(crate) fn no_balancer() -> Value {
    let mut status = Value::object();
    status.set("loadBalancer", Value::object());
    status
}
