//! Validates `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy`, alone and against the old object (upstream:
//! `ValidateServiceClusterIPsRelatedFields` and `validateUpgradeDowngrade*` in `pkg/apis/core/validation`).

use std::collections::{BTreeSet, HashSet};

use pintle_value::{Errors, FieldPath, Value};

use super::accessors::{
    NONE, cluster_ip, cluster_ips, families, family_policy, is_headless, needs_cluster_ip, shown_cluster_ips,
    shown_policy,
};
use crate::networking::address::{AddressRules, family, parse_ip};
use crate::validation::MAX_REPEATED_ERRORS;

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

const UNCHANGEABLE: &str = "may not change once set";

/// Validates the four fields. Unchanged addresses of the old object are accepted.
pub(super) fn check(rules: AddressRules, service: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    if !needs_cluster_ip(service) {
        return errors;
    }
    let spec = FieldPath::new("spec");
    let path = spec.child("clusterIPs");
    let (singular, plural) = (cluster_ip(service), cluster_ips(service));
    let shown = || shown_cluster_ips(service);

    if singular.is_empty() {
        if !plural.is_empty() {
            errors.invalid(&path, shown(), "must be empty when `clusterIP` is not specified");
        }
    } else {
        match plural.first() {
            None => errors.required(&path, ""),
            Some(first) if *first != singular => errors.invalid(&path, shown(), "first value must match `clusterIP`"),
            Some(_) => {}
        }
    }
    check_families(&mut errors, &spec, service);

    let existing: BTreeSet<&str> = old.into_iter().flat_map(cluster_ips).collect();
    let before = errors.count();
    for (i, ip) in plural.iter().enumerate() {
        if i > 0 || *ip != NONE {
            rules.validate_ip(&mut errors, &path.index(i), ip, &existing);
        } else if plural.len() > 1 {
            errors.invalid(&path, shown(), "'None' must be the first and only value");
        }
    }
    let malformed = errors.count() > before;
    if plural.len() > 2 {
        errors.invalid(&path, shown(), "may only hold up to 2 values");
    }
    // For a malformed address, the checks below would only report redundant errors.
    if malformed {
        return errors;
    }
    let family_of = |ip: &str| parse_ip(ip).map(family);
    if plural.len() > 1 && !FAMILIES.iter().all(|family| plural.iter().any(|ip| family_of(ip) == Some(*family))) {
        errors.invalid(&path, shown(), "may specify no more than one IP for each IP family");
    }
    if !is_headless(service) {
        for (i, (ip, family)) in plural.iter().zip(families(service)).enumerate() {
            let is_v6 = family_of(ip) == Some("IPv6");
            if (family == "IPv4" && is_v6) || (family == "IPv6" && !is_v6) {
                let problem = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
                errors.invalid(&path.index(i), *ip, problem);
            }
        }
    }
    errors
}

fn check_families(errors: &mut Errors, spec: &FieldPath<'_>, service: &Value) {
    let path = spec.child("ipFamilies");
    let families = families(service);
    let mut seen = HashSet::new();
    for (i, family) in families.iter().enumerate() {
        if !FAMILIES.contains(family) {
            errors.not_supported(&path.index(i), *family, &FAMILIES);
        }
        if !seen.insert(family) {
            errors.duplicate(&path.index(i), *family);
        }
    }
    if let Some(policy) = family_policy(service).filter(|policy| !POLICIES.contains(policy)) {
        errors.not_supported(&spec.child("ipFamilyPolicy"), policy, &POLICIES);
    }
}

/// Rejects changes of the primary address, and the removal of the secondary one without a change of the family policy.
pub(super) fn check_address_change(errors: &mut Errors, service: &Value, old: &Value) {
    if !needs_cluster_ip(service) || !needs_cluster_ip(old) || (is_headless(service) && is_headless(old)) {
        return;
    }
    let spec = FieldPath::new("spec");
    let path = spec.child("clusterIPs");
    let (new, old) = (cluster_ips(service), cluster_ips(old));
    let primary_changed = matches!((new.first(), old.first()), (Some(new), Some(old)) if new != old);
    if old.len() == new.len() {
        for i in (0..new.len()).filter(|i| new[*i] != old[*i]).take(MAX_REPEATED_ERRORS) {
            errors.invalid(&path.index(i), shown_cluster_ips(service), UNCHANGEABLE);
        }
        return;
    }
    if new.is_empty() {
        errors.invalid(&path.index(0), shown_cluster_ips(service), "primary clusterIP can not be unset");
    }
    if primary_changed {
        errors.invalid(&path.index(0), shown_cluster_ips(service), UNCHANGEABLE);
    }
    if old.len() > new.len() && new.len() == 1 && family_policy(service) != Some("SingleStack") {
        let problem = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        errors.invalid(&spec.child("ipFamilyPolicy"), shown_policy(service), problem);
    }
}

/// Rejects the corresponding changes of `ipFamilies`.
pub(super) fn check_family_change(errors: &mut Errors, service: &Value, old: &Value) {
    if !needs_cluster_ip(service) || !needs_cluster_ip(old) || is_headless(service) || is_headless(old) {
        return;
    }
    let spec = FieldPath::new("spec");
    let path = spec.child("ipFamilies");
    let (new, old) = (families(service), families(old));
    let shown = || service["spec"]["ipFamilies"].clone();
    if old.len() == new.len() {
        // Upstream reports the first family for each family that changed.
        for _ in (0..new.len()).filter(|i| new[*i] != old[*i]).take(MAX_REPEATED_ERRORS) {
            errors.invalid(&path.index(0), shown(), UNCHANGEABLE);
        }
        return;
    }
    if old.len() > new.len() && cluster_ips(service).is_empty() {
        errors.invalid(&path.index(0), shown(), "primary ipFamily can not be unset");
    }
    if matches!((new.first(), old.first()), (Some(new), Some(old)) if new != old) {
        // Upstream shows the addresses here.
        errors.invalid(&path.index(0), shown_cluster_ips(service), UNCHANGEABLE);
    }
    if old.len() > new.len() && new.len() == 1 && family_policy(service) != Some("SingleStack") {
        let problem = "must be set to 'SingleStack' when releasing the secondary ipFamily";
        errors.invalid(&spec.child("ipFamilyPolicy"), shown_policy(service), problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    fn service(spec: &str) -> Value {
        object(&format!(r#"{{"spec":{spec}}}"#))
    }

    #[test]
    fn cluster_ip_fields_are_validated() {
        let check = |spec: &str, expect: &[&str]| {
            assert_eq!(messages(&check(AddressRules::Strict, &service(spec), None)), expect, "{spec}")
        };
        check("{}", &[]);
        check(r#"{"type":"ExternalName","clusterIP":"x"}"#, &[]);
        check(r#"{"clusterIP":"None","clusterIPs":["None"]}"#, &[]);
        check(r#"{"clusterIP":"10.0.0.1"}"#, &["spec.clusterIPs: Required value"]);
        check(
            r#"{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.2"]}"#,
            &[r#"spec.clusterIPs: Invalid value: ["10.0.0.2"]: first value must match `clusterIP`"#],
        );
        check(
            r#"{"clusterIPs":["10.0.0.2"]}"#,
            &[r#"spec.clusterIPs: Invalid value: ["10.0.0.2"]: must be empty when `clusterIP` is not specified"#],
        );
        check(
            r#"{"clusterIP":"None","clusterIPs":["None","x"]}"#,
            &[
                r#"spec.clusterIPs: Invalid value: ["None","x"]: 'None' must be the first and only value"#,
                r#"spec.clusterIPs[1]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
            ],
        );
        check(
            r#"{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","10.0.0.2"],"ipFamilies":["IPv6","IPv6"],"ipFamilyPolicy":"Many"}"#,
            &[
                r#"spec.ipFamilies[1]: Duplicate value: "IPv6""#,
                r#"spec.ipFamilyPolicy: Unsupported value: "Many": supported values: "PreferDualStack", "RequireDualStack", "SingleStack""#,
                r#"spec.clusterIPs: Invalid value: ["10.0.0.1","10.0.0.2"]: may specify no more than one IP for each IP family"#,
                r#"spec.clusterIPs[0]: Invalid value: "10.0.0.1": expected an IPv6 value as indicated by `ipFamilies[0]`"#,
                r#"spec.clusterIPs[1]: Invalid value: "10.0.0.2": expected an IPv6 value as indicated by `ipFamilies[1]`"#,
            ],
        );
    }

    #[test]
    fn family_changes_are_validated_against_the_old_object() {
        let check = |old: &str, new: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            check_address_change(&mut errors, &service(new), &service(old));
            check_family_change(&mut errors, &service(new), &service(old));
            assert_eq!(messages(&errors), expect, "{new}");
        };
        let one = r#"{"clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack"}"#;
        let two =
            r#"{"clusterIPs":["10.0.0.1","fd00::1"],"ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"RequireDualStack"}"#;
        check(one, one, &[]);
        check(one, two, &[]);
        check(two, one, &[]);
        check(
            one,
            r#"{"clusterIPs":["10.0.0.2"],"ipFamilies":["IPv6"]}"#,
            &[
                r#"spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set"#,
                r#"spec.ipFamilies[0]: Invalid value: ["IPv6"]: may not change once set"#,
            ],
        );
        check(
            two,
            r#"{"clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"]}"#,
            &[
                "spec.ipFamilyPolicy: Invalid value: null: must be set to 'SingleStack' when releasing the secondary clusterIP",
                "spec.ipFamilyPolicy: Invalid value: null: must be set to 'SingleStack' when releasing the secondary ipFamily",
            ],
        );
        check(
            one,
            r#"{"ipFamilies":["IPv4"]}"#,
            &["spec.clusterIPs[0]: Invalid value: null: primary clusterIP can not be unset"],
        );
        check(one, r#"{"type":"ExternalName"}"#, &[]);
        let headless = r#"{"clusterIPs":["None"],"ipFamilies":["IPv4"]}"#;
        check(headless, r#"{"clusterIPs":["None"],"ipFamilies":["IPv6"]}"#, &[]);
    }
}
