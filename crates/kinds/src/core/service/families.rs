//! Defaults the IP families of a service from the families of the cluster, before addresses are allocated (upstream:
//! `initIPFamilyFields` in `pkg/registry/core/service/storage/alloc.go`).

use pintle_value::{Errors, FieldPath, Value};

use super::accessors::{
    NONE, cluster_ips as ips_of, families, family_policy, is_headless_without_selector, kind, needs_cluster_ip,
    shown_cluster_ips, shown_policy,
};
use super::cluster_ips;
use crate::generic::keep_old;
use crate::networking::address::{AddressRules, family, parse_ip};
use crate::validation::MAX_REPEATED_ERRORS;

const POLICY: [&str; 2] = ["spec", "ipFamilyPolicy"];
const FAMILIES: [&str; 2] = ["spec", "ipFamilies"];
const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

/// Defaults `ipFamilyPolicy` and `ipFamilies`. `configured` are the cluster's families, the default one first.
///
/// # Errors
/// Returns an error if the fields contradict each other or the cluster's families.
pub(super) fn set_family_defaults(
    address_rules: AddressRules,
    service: &mut Value,
    old: Option<&Value>,
    configured: &[&'static str],
) -> Result<(), Errors> {
    if !needs_cluster_ip(service) || old.is_some_and(|old| is_unchanged_dual_stack(service, old)) {
        return Ok(());
    }
    if family_policy(service).is_none() {
        match old {
            Some(old) if family_policy(old).is_some() => keep_old(service, old, &POLICY),
            _ if is_headless_without_selector(service) => service.set_at(&POLICY, REQUIRE),
            _ => service.set_at(&POLICY, SINGLE),
        }
    }
    let single = family_policy(service) == Some(SINGLE);
    into_result(cluster_ips::check(address_rules, service, old))?;

    let mut errors = Errors::new();
    let spec = FieldPath::new("spec");
    let policy_path = spec.child("ipFamilyPolicy");
    if let Some(old) = old {
        if single {
            drop_secondary(service, old);
        } else {
            let reduced = |field: fn(&Value) -> Vec<&str>| (1..field(old).len()).contains(&field(service).len());
            if reduced(ips_of) {
                let problem = "must be 'SingleStack' to release the secondary cluster IP";
                errors.invalid(&policy_path, shown_policy(service), problem);
            }
            if reduced(families) {
                let problem = "must be 'SingleStack' to release the secondary IP family";
                errors.invalid(&policy_path, shown_policy(service), problem);
            }
        }
    }
    if single {
        for (count, what) in [(ips_of(service).len(), "cluster IPs"), (families(service).len(), "IP families")] {
            if count == 2 {
                let problem =
                    format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
                errors.invalid(&policy_path, shown_policy(service), problem);
            }
        }
    }
    add_families_of_addresses(&mut errors, service, configured);
    into_result(errors)?;

    let default = configured.first().copied().unwrap_or("IPv4");
    if is_headless_without_selector(service) {
        // Endpoints that are managed by the user may have families that the cluster's own services do not support.
        if families(service).is_empty() {
            set_families(service, &[default]);
        }
        if !single {
            add_other_family(service);
        }
        return Ok(());
    }

    let mut errors = Errors::new();
    if family_policy(service) == Some(REQUIRE) && configured.len() < 2 {
        let problem = "this cluster is not configured for dual-stack services";
        errors.invalid(&policy_path, shown_policy(service), problem);
    }
    let families_path = spec.child("ipFamilies");
    for (i, family) in families(service).into_iter().enumerate().filter(|(_, family)| !configured.contains(family)) {
        errors.invalid(&families_path.index(i), family, "not configured on this cluster");
    }
    into_result(errors)?;
    if families(service).is_empty() {
        set_families(service, &[default]);
    }
    if !single && configured.len() == 2 {
        add_other_family(service);
    }
    Ok(())
}

fn into_result(errors: Errors) -> Result<(), Errors> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Returns true if an update changes nothing about the addresses of a service that prefers dual-stack. Such a service
/// stays unchanged if the cluster gains or loses a family.
pub(super) fn is_unchanged_dual_stack(service: &Value, old: &Value) -> bool {
    family_policy(service) == Some(PREFER)
        && family_policy(old).is_none_or(|policy| policy == PREFER)
        && kind(service) == kind(old)
        && matches!(kind(service), "ClusterIP" | "NodePort" | "LoadBalancer")
        && ips_of(service) == ips_of(old)
        && families(service) == families(old)
}

/// Drops the secondary address and family of a service that becomes single-stack without setting these fields.
fn drop_secondary(service: &mut Value, old: &Value) {
    let lists = [(&["spec", "clusterIPs"], ips_of as fn(&Value) -> Vec<&str>), (&FAMILIES, families)];
    for (path, field) in lists {
        if field(service) == field(old)
            && let Some(list) = service.at_mut(path).and_then(Value::as_array_mut)
        {
            list.truncate(1);
        }
    }
}

/// Adds the families of the requested addresses.
fn add_families_of_addresses(errors: &mut Errors, service: &mut Value, configured: &[&'static str]) {
    let ips: Vec<String> = ips_of(service).into_iter().map(str::to_owned).collect();
    let mut named: Vec<String> = families(service).into_iter().map(str::to_owned).collect();
    let in_range = named.len();
    let mut unknown = 0;
    for (i, ip) in ips.iter().enumerate().take_while(|(_, ip)| *ip != NONE) {
        if i < named.len() {
            continue;
        }
        let family = parse_ip(ip).map_or("unknown", family);
        if configured.contains(&family) {
            named.push(family.to_owned());
        } else if unknown < MAX_REPEATED_ERRORS {
            unknown += 1;
            let path = FieldPath::new("spec.clusterIPs");
            let problem = format!("{family} is not configured on this cluster");
            errors.invalid(&path.index(i), shown_cluster_ips(service), problem);
        }
    }
    if named.len() > in_range {
        set_families(service, &named);
    }
}

fn set_families(service: &mut Value, families: &[impl AsRef<str>]) {
    let families: Vec<Value> = families.iter().map(|family| Value::from(family.as_ref())).collect();
    service.set_at(&FAMILIES, families);
}

fn add_other_family(service: &mut Value) {
    match families(service).as_slice() {
        ["IPv4"] => set_families(service, &["IPv4", "IPv6"]),
        ["IPv6"] => set_families(service, &["IPv6", "IPv4"]),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    const V4: &[&str] = &["IPv4"];
    const DUAL: &[&str] = &["IPv4", "IPv6"];

    fn service(spec: &str) -> Value {
        object(&format!(r#"{{"spec":{spec}}}"#))
    }

    /// Expects `policy families` or errors.
    #[track_caller]
    fn check(configured: &[&'static str], old: Option<&str>, spec: &str, expect: &[&str]) {
        let old = old.map(service);
        let mut service = service(spec);
        let found = match set_family_defaults(AddressRules::Strict, &mut service, old.as_ref(), configured) {
            Ok(()) => vec![format!("{} {}", family_policy(&service).unwrap_or("-"), families(&service).join(","))],
            Err(errors) => messages(&errors),
        };
        assert_eq!(found, expect, "{spec}");
    }

    #[test]
    fn unset_families_are_defaulted() {
        check(V4, None, r#"{"type":"ClusterIP"}"#, &["SingleStack IPv4"]);
        check(DUAL, None, r#"{"type":"ClusterIP"}"#, &["SingleStack IPv4"]);
        check(V4, None, r#"{"type":"ExternalName"}"#, &["- "]);
        check(V4, None, r#"{"type":"ClusterIP","ipFamilyPolicy":"PreferDualStack"}"#, &["PreferDualStack IPv4"]);
        check(
            DUAL,
            None,
            r#"{"type":"ClusterIP","ipFamilyPolicy":"PreferDualStack","ipFamilies":["IPv6"]}"#,
            &["PreferDualStack IPv6,IPv4"],
        );
        check(
            DUAL,
            None,
            r#"{"type":"ClusterIP","clusterIP":"fd00::1","clusterIPs":["fd00::1"]}"#,
            &["SingleStack IPv6"],
        );
        check(
            V4,
            None,
            r#"{"type":"ClusterIP","clusterIP":"None","clusterIPs":["None"]}"#,
            &["RequireDualStack IPv4,IPv6"],
        );
        check(
            V4,
            None,
            r#"{"type":"ClusterIP","clusterIP":"None","clusterIPs":["None"],"selector":{"a":"b"}}"#,
            &["SingleStack IPv4"],
        );
    }

    #[test]
    fn contradicting_families_are_rejected() {
        check(
            V4,
            None,
            r#"{"type":"ClusterIP","ipFamilyPolicy":"RequireDualStack","ipFamilies":["IPv6"]}"#,
            &[
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
                "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
            ],
        );
        check(
            V4,
            None,
            r#"{"type":"ClusterIP","clusterIP":"fd00::1","clusterIPs":["fd00::1"]}"#,
            &["spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster"],
        );
        check(
            DUAL,
            None,
            r#"{"type":"ClusterIP","ipFamilies":["IPv6","IPv4"]}"#,
            &[
                "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
            ],
        );
        check(
            V4,
            None,
            r#"{"type":"ClusterIP","clusterIP":"x","clusterIPs":["x"]}"#,
            &[
                "spec.clusterIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ],
        );
    }

    #[test]
    fn updates() {
        let dual = r#"{"type":"ClusterIP","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","fd00::1"],"ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"RequireDualStack"}"#;
        check(DUAL, Some(dual), &dual.replace("RequireDualStack", "SingleStack"), &["SingleStack IPv4"]);
        check(
            DUAL,
            Some(dual),
            r#"{"type":"ClusterIP","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"]}"#,
            &[
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary cluster IP",
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary IP family",
            ],
        );
        // The cluster lost a family; the service stays unchanged.
        let preferring = dual.replace("RequireDualStack", "PreferDualStack");
        check(V4, Some(&preferring), &preferring, &["PreferDualStack IPv4,IPv6"]);
    }
}
