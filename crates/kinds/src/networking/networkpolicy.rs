//! The strategy for NetworkPolicy (upstream: `pkg/apis/networking/validation`, `pkg/apis/networking/v1/defaults.go`,
//! `pkg/registry/networking/networkpolicy`).

use std::collections::BTreeSet;

use pintle_registry::{Strategy, StrategyContext, UnservedVersion};
use pintle_value::ip::{Cidr, cidr_warnings};
use pintle_value::{Errors, FieldPath, Value, names};

use super::address::AddressRules;
use super::stored;
use crate::generic::{SPEC, set_generation};
use crate::labels::{self, validate_selector};
use crate::validation::{invalid_each, str_field, strings_at};

/// The fields with the rules of each direction, and the name of their peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];
const POLICY_TYPES: [&str; 2] = ["Ingress", "Egress"];
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// Sets the directions of a policy that does not name them.
pub(super) fn set_policy_types(object: &mut Value) {
    if object.items_at(&["spec", "policyTypes"]).is_empty() {
        let egress = !object.items_at(&["spec", "egress"]).is_empty();
        let types: Vec<Value> = POLICY_TYPES.into_iter().take(if egress { 2 } else { 1 }).map(Value::from).collect();
        object.set_at(&["spec", "policyTypes"], types);
    }
}

/// The strategy for NetworkPolicy.
pub(crate) struct NetworkPolicyStrategy;

impl Strategy for NetworkPolicyStrategy {
    fn defaults(&self, object: &mut Value) {
        for (direction, _) in DIRECTIONS {
            let rules = object.at_mut(&["spec", direction]).and_then(Value::as_array_mut);
            for rule in rules.into_iter().flatten() {
                for port in rule.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                    port.set_default("protocol", "TCP");
                }
            }
        }
        set_policy_types(object);
    }

    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &stored::NETWORK_POLICIES
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        set_generation(object, old, SPEC);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let address_rules = AddressRules::of(&context.gates);
        let options = NetworkPolicyValidationOptions { address_rules, ..Default::default() };
        check(object, &old.map_or(options, |old| NetworkPolicyValidationOptions::of(old, address_rules)))
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let spec = FieldPath::new("spec");
        for (direction, peers) in DIRECTIONS {
            let path = spec.child(direction);
            for (i, rule) in object.items_at(&["spec", direction]).iter().enumerate() {
                let path = path.index(i);
                let path = path.child(peers);
                for (j, peer) in rule.items_at(&[peers]).iter().enumerate() {
                    let path = path.index(j);
                    let path = path.child("ipBlock");
                    let Some(block) = peer.get("ipBlock") else { continue };
                    warnings.extend(cidr_warnings(&path.child("cidr"), block.str_at(&["cidr"])));
                    for (k, except) in strings_at(block, &["except"]).into_iter().enumerate() {
                        warnings.extend(cidr_warnings(&path.child("except").index(k), except));
                    }
                }
            }
        }
        warnings
    }
}

/// Faults of the old object, which the new one may keep.
#[derive(Default)]
struct NetworkPolicyValidationOptions<'v> {
    label_values: bool,
    cidrs: BTreeSet<&'v str>,
    address_rules: AddressRules,
}

impl<'v> NetworkPolicyValidationOptions<'v> {
    fn of(old: &'v Value, address_rules: AddressRules) -> Self {
        let mut cidrs = BTreeSet::new();
        for (direction, peers) in DIRECTIONS {
            let rules = old.items_at(&["spec", direction]).iter();
            for block in rules.flat_map(|rule| rule.items_at(&[peers])).filter_map(|peer| peer.get("ipBlock")) {
                cidrs.insert(block.str_at(&["cidr"]));
                cidrs.extend(strings_at(block, &["except"]));
            }
        }
        Self { label_values: labels::is_invalid_selector(&old["spec"]["podSelector"]), cidrs, address_rules }
    }
}

fn check(policy: &Value, options: &NetworkPolicyValidationOptions<'_>) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    let spec = &policy["spec"];
    errors.append(validate_selector(spec.get("podSelector"), options.label_values, &path.child("podSelector")));
    for (direction, peers) in DIRECTIONS {
        let path = path.child(direction);
        for (i, rule) in spec.items_at(&[direction]).iter().enumerate() {
            let path = path.index(i);
            for (i, port) in rule.items_at(&["ports"]).iter().enumerate() {
                check_port(&mut errors, &path.child("ports").index(i), port);
            }
            for (i, peer) in rule.items_at(&[peers]).iter().enumerate() {
                check_peer(&mut errors, &path.child(peers).index(i), peer, options);
            }
        }
    }
    let types = strings_at(spec, &["policyTypes"]);
    let path = path.child("policyTypes");
    if types.len() > POLICY_TYPES.len() {
        errors.invalid(&path, spec["policyTypes"].clone(), "may not specify more than two policyTypes");
        return errors;
    }
    for (i, kind) in types.into_iter().enumerate().filter(|(_, kind)| !POLICY_TYPES.contains(kind)) {
        errors.not_supported(&path.index(i), kind, &POLICY_TYPES);
    }
    errors
}

fn check_port(errors: &mut Errors, path: &FieldPath<'_>, port: &Value) {
    if let Some(protocol) = str_field(port, "protocol").filter(|protocol| !PROTOCOLS.contains(protocol)) {
        errors.not_supported(&path.child("protocol"), protocol, &PROTOCOLS);
    }
    let end_path = path.child("endPort");
    let end = port.int_at(&["endPort"]);
    match port.get("port") {
        Some(Value::Int(number)) => {
            invalid_each(errors, &path.child("port"), *number, names::port_number(*number));
            if let Some(end) = end {
                // Upstream shows the first port where it means the last.
                if end < *number {
                    errors.invalid(&end_path, *number, "must be greater than or equal to `port`");
                }
                invalid_each(errors, &end_path, end, names::port_number(end));
            }
        }
        Some(name) => {
            if let Some(end) = end {
                errors.invalid(&end_path, end, "may not be specified when `port` is non-numeric");
            }
            let name = name.as_str().unwrap_or_default();
            invalid_each(errors, &path.child("port"), name, names::port_name(name));
        }
        None => {
            if let Some(end) = end {
                errors.invalid(&end_path, end, "may not be specified when `port` is not specified");
            }
        }
    }
}

fn check_peer(errors: &mut Errors, path: &FieldPath<'_>, peer: &Value, options: &NetworkPolicyValidationOptions<'_>) {
    let mut selectors = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = peer.get(field) {
            selectors += 1;
            errors.append(validate_selector(Some(selector), options.label_values, &path.child(field)));
        }
    }
    match peer.get("ipBlock") {
        Some(block) => {
            check_block(errors, &path.child("ipBlock"), block, options);
            if selectors > 0 {
                errors.forbidden(path, "may not specify both ipBlock and another peer");
            }
        }
        None if selectors == 0 => errors.required(path, "must specify a peer"),
        None => {}
    }
}

fn check_block(errors: &mut Errors, path: &FieldPath<'_>, block: &Value, options: &NetworkPolicyValidationOptions<'_>) {
    let cidr = block.str_at(&["cidr"]);
    if cidr.is_empty() {
        errors.required(&path.child("cidr"), "");
        return;
    }
    options.address_rules.validate_cidr(errors, &path.child("cidr"), cidr, &options.cidrs);
    let Some(outer) = Cidr::parse_sloppy(cidr) else { return };
    let except_path = path.child("except");
    for (i, except) in strings_at(block, &["except"]).into_iter().enumerate() {
        let path = except_path.index(i);
        options.address_rules.validate_cidr(errors, &path, except, &options.cidrs);
        let Some(inner) = Cidr::parse_sloppy(except) else { continue };
        if !outer.contains(inner.network().0) || outer.network().1 >= inner.network().1 {
            errors.invalid(&path, except, "must be a strict subset of `cidr`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn defaults() {
        let check = |json: &str, expect: &str| {
            let mut policy = object(json);
            NetworkPolicyStrategy.defaults(&mut policy);
            assert_eq!(policy, object(expect));
        };
        check(r#"{"spec":{"podSelector":{}}}"#, r#"{"spec":{"podSelector":{},"policyTypes":["Ingress"]}}"#);
        check(
            r#"{"spec":{"egress":[{"ports":[{"port":53}]}],"policyTypes":[]}}"#,
            r#"{"spec":{"egress":[{"ports":[{"port":53,"protocol":"TCP"}]}],"policyTypes":["Ingress","Egress"]}}"#,
        );
        check(
            r#"{"spec":{"egress":[],"policyTypes":["Egress"]}}"#,
            r#"{"spec":{"egress":[],"policyTypes":["Egress"]}}"#,
        );
    }

    fn check(spec: &str, expect: &[&str]) {
        let policy = object(&format!(r#"{{"spec":{{"podSelector":{{}},{spec}}}}}"#));
        assert_eq!(messages(&NetworkPolicyStrategy.validate(&context(), &policy)), expect, "{spec}");
    }

    #[test]
    fn ports() {
        check(r#""ingress":[{"ports":[{"port":80,"protocol":"TCP","endPort":90},{"port":"http"}]}]"#, &[]);
        check(
            r#""ingress":[{"ports":[{"port":80,"endPort":79},{"port":"http","endPort":1},{"endPort":1},{"protocol":"X"}]}]"#,
            &[
                "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`",
                "spec.ingress[0].ports[1].endPort: Invalid value: 1: may not be specified when `port` is non-numeric",
                "spec.ingress[0].ports[2].endPort: Invalid value: 1: may not be specified when `port` is not specified",
                "spec.ingress[0].ports[3].protocol: Unsupported value: \"X\": supported values: \"TCP\", \"UDP\", \"SCTP\"",
            ],
        );
        check(
            r#""policyTypes":["Ingress","Both"]"#,
            &["spec.policyTypes[1]: Unsupported value: \"Both\": supported values: \"Ingress\", \"Egress\""],
        );
    }

    #[test]
    fn peers() {
        check(
            r#""egress":[{"to":[{"podSelector":{},"namespaceSelector":{}},{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}}]}]"#,
            &[],
        );
        check(
            r#""egress":[{"to":[{},{"podSelector":{},"ipBlock":{"cidr":""}},{"ipBlock":{"cidr":"10.0.0.0/8","except":["11.0.0.0/16","10.0.0.0/8","x"]}}]}]"#,
            &[
                "spec.egress[0].to[0]: Required value: must specify a peer",
                "spec.egress[0].to[1].ipBlock.cidr: Required value",
                "spec.egress[0].to[1]: Forbidden: may not specify both ipBlock and another peer",
                "spec.egress[0].to[2].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
                "spec.egress[0].to[2].ipBlock.except[1]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
                "spec.egress[0].to[2].ipBlock.except[2]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            ],
        );
    }

    #[test]
    fn invalid_blocks_of_the_old_object_are_tolerated() {
        let old = object(r#"{"spec":{"podSelector":{},"ingress":[{"from":[{"ipBlock":{"cidr":"10.0.0.1/8"}}]}]}}"#);
        assert!(NetworkPolicyStrategy.validate_update(&context(), &old, &old).is_empty());
        assert_eq!(
            messages(&NetworkPolicyStrategy.validate(&context(), &old)),
            [
                "spec.ingress[0].from[0].ipBlock.cidr: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length",
            ]
        );
        assert_eq!(
            NetworkPolicyStrategy.warnings(&context(), &old, None),
            [
                "spec.ingress[0].from[0].ipBlock.cidr: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)",
            ]
        );
    }
}
