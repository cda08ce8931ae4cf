//! The strategy for Endpoints (upstream: `ValidateEndpoints` in `pkg/apis/core/validation`,
//! `pkg/registry/core/endpoint`).

use std::collections::BTreeSet;

use pintle_registry::{Strategy, StrategyContext};
use pintle_value::ip::ip_warnings;
use pintle_value::{Errors, FieldPath, Value, names};

use crate::declarative::Rules;
use crate::generic::same_at;
use crate::networking::address::{AddressRules, validate_endpoint_ip};
use crate::validation::invalid_each;

static ADDRESS: Rules = Rules::own("core/v1", "EndpointAddress");
static PORT: Rules = Rules::own("core/v1", "EndpointPort");

const ADDRESS_LISTS: [&str; 2] = ["addresses", "notReadyAddresses"];

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpoint-controller";

/// The strategy for Endpoints.
pub(crate) struct EndpointsStrategy;

impl Strategy for EndpointsStrategy {
    fn defaults(&self, object: &mut Value) {
        for subset in object.get_mut("subsets").and_then(Value::as_array_mut).into_iter().flatten() {
            for port in subset.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                if port.str_at(&["protocol"]).is_empty() {
                    port.set("protocol", "TCP");
                }
            }
        }
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let rules = AddressRules::of(&context.gates);
        let mut errors = Errors::new();
        // Unchanged subsets are not validated, since an older server may have accepted them.
        if old.is_some_and(|old| same_at(object, old, &["subsets"])) {
            return errors;
        }
        let path = FieldPath::new("subsets");
        for (i, subset) in object.items_at(&["subsets"]).iter().enumerate() {
            check_subset(rules, &mut errors, &path.index(i), subset);
        }
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if object.label(MANAGED_BY) == Some(CONTROLLER) {
            return warnings;
        }
        let path = FieldPath::new("subsets");
        for (i, subset) in object.items_at(&["subsets"]).iter().enumerate() {
            for list in ADDRESS_LISTS {
                for (j, address) in subset.items_at(&[list]).iter().enumerate() {
                    let path = path.index(i);
                    let path = path.child(list);
                    warnings.extend(ip_warnings(&path.index(j).child("ip"), address.str_at(&["ip"])));
                }
            }
        }
        warnings
    }
}

fn check_subset(rules: AddressRules, errors: &mut Errors, path: &FieldPath<'_>, subset: &Value) {
    if ADDRESS_LISTS.iter().all(|list| subset.items_at(&[list]).is_empty()) {
        errors.required(path, "must specify `addresses` or `notReadyAddresses`");
    }
    for list in ADDRESS_LISTS {
        let path = path.child(list);
        for (i, address) in subset.items_at(&[list]).iter().enumerate() {
            check_address(rules, errors, &path.index(i), address);
        }
    }
    let ports = subset.items_at(&["ports"]);
    let path = path.child("ports");
    for (i, port) in ports.iter().enumerate() {
        check_port(errors, &path.index(i), port, ports.len() > 1);
    }
}

fn check_address(rules: AddressRules, errors: &mut Errors, path: &FieldPath<'_>, address: &Value) {
    let ip = address.str_at(&["ip"]);
    rules.validate_ip(errors, &path.child("ip"), ip, &BTreeSet::new());
    ADDRESS.validate_part(errors, address, path);
    validate_endpoint_ip(errors, &path.child("ip"), ip);
}

fn check_port(errors: &mut Errors, path: &FieldPath<'_>, port: &Value, needs_name: bool) {
    let name = port.str_at(&["name"]);
    if !name.is_empty() {
        invalid_each(errors, &path.child("name"), name, names::dns1123_label(name));
    } else if needs_name {
        errors.required(&path.child("name"), "");
    }
    PORT.validate_part(errors, port, path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn subsets() {
        let check = |subset: &str, expect: &[&str]| {
            let mut endpoints = object(&format!(r#"{{"subsets":[{subset}]}}"#));
            EndpointsStrategy.defaults(&mut endpoints);
            assert_eq!(messages(&EndpointsStrategy.validate(&context(), &endpoints)), expect, "{subset}");
        };
        check(r#"{"addresses":[{"ip":"10.0.0.1"}],"ports":[{"port":80}]}"#, &[]);
        check(
            r#"{"ports":[{"port":80},{"name":"b","port":0,"protocol":"X"}]}"#,
            &[
                "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
                "subsets[0].ports[0].name: Required value",
                "subsets[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "subsets[0].ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ],
        );
        check(
            r#"{"notReadyAddresses":[{"ip":"127.0.0.1"},{"ip":"x"}]}"#,
            &[
                "subsets[0].notReadyAddresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                "subsets[0].notReadyAddresses[1].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "subsets[0].notReadyAddresses[1].ip: Invalid value: \"x\": must be a valid IP address",
            ],
        );
    }

    #[test]
    fn unchanged_subsets_are_tolerated() {
        let old = object(r#"{"subsets":[{"addresses":[{"ip":"127.0.0.1"}]}]}"#);
        assert!(EndpointsStrategy.validate_update(&context(), &old, &old).is_empty());
        let new = object(r#"{"subsets":[{"addresses":[{"ip":"127.0.0.2"}]}]}"#);
        assert_eq!(EndpointsStrategy.validate_update(&context(), &new, &old).count(), 1);
    }
}
