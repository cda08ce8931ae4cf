use pintle_value::Str;

use super::*;
use crate::evaluator_of;
use crate::testing::{Context, json, quota};

/// Checks a write of a kind without limited resources. The result is the charges, each with the name of its quota.
fn check_kind(
    kind: (&str, &str),
    write: (&str, &str),
    old: Option<&str>,
    quotas: &[ResourceQuota],
    expect: Result<&[&str], &str>,
) {
    check_limited(kind, write, old, quotas, &[], expect);
}

fn check_limited(
    (group, plural): (&str, &str),
    (subresource, object): (&str, &str),
    old: Option<&str>,
    quotas: &[ResourceQuota],
    limited: &[LimitedResource],
    expect: Result<&[&str], &str>,
) {
    let (object_tree, old) = (json(object), old.map(json));
    let write = QuotaWrite { subresource, object: &object_tree, old: old.as_ref() };
    let write = MeasuredWrite::of(evaluator_of(group, plural), write, &Context::default());
    let found = check_write(&write, quotas, limited, |_| false);
    let show = |charge: &Charge| format!("{}: {}", quotas[charge.quota].name, print(&charge.usage));
    let found = found.map(|charges| charges.iter().map(show).collect::<Vec<_>>()).map_err(|refusal| match refusal {
        QuotaRefusal::Forbidden(why) => format!("403 {why}"),
        QuotaRefusal::Unclassified(why) => why,
    });
    let expect = expect.map(|charges| charges.iter().map(|charge| (*charge).to_owned()).collect());
    assert_eq!(found, expect.map_err(str::to_owned), "{object}");
}

fn pod(cpu: &str, more: &str) -> String {
    format!(r#"{{"spec":{{"containers":[{{"name":"c","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]{more}}}}}"#)
}

#[test]
fn creates_are_charged_to_all_quotas_that_count_them() {
    let check = |quotas: &[ResourceQuota], expect: Result<&[&str], &str>| {
        check_kind(("", "pods"), ("", &pod("500m", "")), None, quotas, expect);
    };
    check(&[], Ok(&[]));
    check(&[quota("q", "", "", "")], Ok(&[]));
    check(&[quota("q", "", "services=1,configmaps=1", "services=1,configmaps=1")], Ok(&[]));
    check(&[quota("q", "", "pods=10", "pods=9")], Ok(&["q: pods=1"]));
    check(
        &[quota("a", "", "pods=10", "pods=0"), quota("b", "", "cpu=2,services=1", "cpu=1,services=0")],
        Ok(&["a: pods=1", "b: cpu=500m"]),
    );
}

#[test]
fn exceeded_quotas_refuse_writes() {
    let check = |hard: &str, used: &str, expect: &str| {
        check_kind(("", "pods"), ("", &pod("500m", "")), None, &[quota("q", "", hard, used)], Err(expect));
    };
    check("pods=10", "pods=10", "403 exceeded quota: q, requested: pods=1, used: pods=10, limited: pods=10");
    check(
        "requests.cpu=1,cpu=2,pods=3",
        "requests.cpu=800m,cpu=2,pods=1",
        "403 exceeded quota: q, requested: cpu=500m,requests.cpu=500m, used: cpu=2,requests.cpu=800m, limited: \
         cpu=2,requests.cpu=1",
    );
    check("pods=1,cpu=5", "cpu=1", "403 status unknown for quota: q, resources: cpu,pods");
    check("memory=1Gi", "memory=0", "403 failed quota: q: must specify memory for: c");
    check("memory=1Gi,limits.cpu=1", "memory=0", "403 failed quota: q: must specify limits.cpu for: c; memory for: c");
}

#[test]
fn quotas_that_are_exceeded_elsewhere_do_not_matter() {
    let quotas = [quota("q", "", "pods=10,memory=1", "pods=1,memory=2")];
    let limited = r#"{"spec":{"containers":[{"name":"c","resources":{"requests":{"memory":"0"}}}]}}"#;
    check_kind(("", "pods"), ("", limited), None, &quotas, Ok(&["q: pods=1"]));
}

#[test]
fn negative_usage_is_refused() {
    let quotas = [quota("q", "", "pods=1", "pods=0")];
    let expect = Err("403 quota usage is negative for resource(s): cpu,requests.cpu");
    check_kind(("", "pods"), ("", &pod("-1", "")), None, &quotas, expect);
}

#[test]
fn updates_are_charged_for_what_they_add() {
    let claim = |size: &str| format!(r#"{{"spec":{{"resources":{{"requests":{{"storage":"{size}"}}}}}}}}"#);
    let quotas =
        [quota("q", "", "requests.storage=10,persistentvolumeclaims=1", "requests.storage=5,persistentvolumeclaims=1")];
    let check = |subresource: &str, old: &str, new: &str, expect: Result<&[&str], &str>| {
        check_kind(("", "persistentvolumeclaims"), (subresource, &claim(new)), Some(&claim(old)), &quotas, expect);
    };
    check("", "5", "5", Ok(&[]));
    check("", "5", "3", Ok(&[]));
    check("", "5", "8", Ok(&["q: requests.storage=3"]));
    let exceeded = "403 exceeded quota: q, requested: requests.storage=6, used: requests.storage=5, limited: \
                    requests.storage=10";
    check("", "5", "11", Err(exceeded));
    check("status", "5", "11", Ok(&["q: requests.storage=6"]));
}

#[test]
fn objects_that_enter_a_scope_are_charged_in_full() {
    let quotas = [
        quota("ending", r#""scopes":["Terminating"]"#, "pods=1,cpu=1", "pods=0,cpu=0"),
        quota("lasting", r#""scopes":["NotTerminating"]"#, "pods=1,cpu=1", "pods=1,cpu=1"),
        quota("all", "", "pods=1", "pods=1"),
    ];
    let new = pod("1", r#","activeDeadlineSeconds":5"#);
    check_kind(("", "pods"), ("", &new), Some(&pod("1", "")), &quotas, Ok(&["ending: cpu=1,pods=1"]));
}

#[test]
fn quotas_count_objects_in_all_of_their_scopes() {
    let check = |spec: &str, more: &str, is_counted: bool| {
        let expect: &[&str] = if is_counted { &["q: pods=1"] } else { &[] };
        check_kind(("", "pods"), ("", &pod("1", more)), None, &[quota("q", spec, "pods=1", "pods=0")], Ok(expect));
    };
    let deadline = r#","activeDeadlineSeconds":5"#;
    check(r#""scopes":["NotBestEffort"]"#, "", true);
    check(r#""scopes":["BestEffort"]"#, "", false);
    check(r#""scopes":["NotBestEffort","Terminating"]"#, "", false);
    check(r#""scopes":["NotBestEffort","Terminating"]"#, deadline, true);
    check(r#""scopes":["VolumeAttributesClass"]"#, "", false);
    let classes = |operator: &str, values: &str| {
        format!(
            r#""scopeSelector":{{"matchExpressions":[{{"scopeName":"PriorityClass","operator":"{operator}","values":[{values}]}}]}}"#
        )
    };
    let high = r#","priorityClassName":"high""#;
    check(&classes("In", r#""high""#), high, true);
    check(&classes("In", r#""high""#), "", false);
    check(&classes("NotIn", r#""high""#), "", true);
    check(&classes("Exists", ""), high, true);
    check(&classes("DoesNotExist", ""), high, false);
    let scoped = quota("q", r#""scopes":["NotBestEffort"]"#, "services=1", "services=0");
    check_kind(("", "services"), ("", "{}"), None, &[scoped], Ok(&[]));
}

#[test]
fn claims_are_in_the_scopes_of_their_attributes_classes() {
    let check = |operator: &str, values: &str, claim: &str, is_counted: bool| {
        let selector = format!(
            r#""scopeSelector":{{"matchExpressions":[{{"scopeName":"VolumeAttributesClass","operator":"{operator}","values":[{values}]}}]}}"#
        );
        let quotas = [quota("q", &selector, "persistentvolumeclaims=1", "persistentvolumeclaims=0")];
        let expect: &[&str] = if is_counted { &["q: persistentvolumeclaims=1"] } else { &[] };
        check_kind(("", "persistentvolumeclaims"), ("", claim), None, &quotas, Ok(expect));
    };
    let gold = r#"{"spec":{"volumeAttributesClassName":"gold"}}"#;
    check("In", r#""gold""#, gold, true);
    check("In", r#""silver""#, gold, false);
    check("Exists", "", gold, true);
    check("Exists", "", "{}", false);
    check("DoesNotExist", "", "{}", true);
    // While a claim changes its class, it counts for both classes.
    let changing =
        r#"{"spec":{"volumeAttributesClassName":"gold"},"status":{"currentVolumeAttributesClassName":"silver"}}"#;
    check("In", r#""silver""#, changing, true);
    check("NotIn", r#""silver""#, changing, true);
}

#[test]
fn invalid_selectors_refuse_writes() {
    let value = "x".repeat(64);
    let selector = format!(
        r#""scopeSelector":{{"matchExpressions":[{{"scopeName":"PriorityClass","operator":"In","values":["{value}"]}}]}}"#
    );
    let why = format!(
        "error matching scopes of quota q, err: error on matching scope {{PriorityClass In [{value}]}}: failed to parse and \
         convert selector: values[0][PriorityClass]: Invalid value: \"{value}\": must be no more than 63 bytes"
    );
    check_kind(("", "pods"), ("", &pod("1", "")), None, &[quota("q", &selector, "pods=1", "pods=0")], Err(&why));
}

#[test]
fn limited_resources_need_a_quota() {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let limited = |plural: &str, contained: &[&str]| LimitedResource {
        resource: GroupResource::new("", plural),
        match_contains: texts(contained),
        match_scopes: Vec::new(),
    };
    let check = |limited: &[LimitedResource], quotas: &[ResourceQuota], expect: Result<&[&str], &str>| {
        check_limited(("", "pods"), ("", &pod("1", "")), None, quotas, limited, expect);
    };
    let cpu = [limited("pods", &["requests.cpu", "pods"])];
    check(&cpu, &[], Err("403 insufficient quota to consume: count/pods,pods,requests.cpu"));
    check(
        &cpu,
        &[quota("q", "", "requests.cpu=2,pods=1", "requests.cpu=0,pods=0")],
        Err("403 insufficient quota to consume: count/pods"),
    );
    check(&[limited("pods", &["requests.memory"])], &[], Ok(&[]));
    check(&[limited("services", &["pods"])], &[], Ok(&[]));
    let requests = [limited("pods", &["requests.cpu"])];
    let quotas = [quota("q", "", "requests.cpu=2", "requests.cpu=0")];
    check(&requests, &quotas, Ok(&["q: requests.cpu=1"]));
}

#[test]
fn limited_scopes_need_a_quota() {
    let requirement =
        ScopeRequirement { scope: "PriorityClass".into(), operator: "In".into(), values: vec![Str::from("high")] };
    let limited = [LimitedResource {
        resource: GroupResource::new("", "pods"),
        match_contains: Vec::new(),
        match_scopes: vec![requirement],
    }];
    let check = |more: &str, quotas: &[ResourceQuota], expect: Result<&[&str], &str>| {
        check_limited(("", "pods"), ("", &pod("1", more)), None, quotas, &limited, expect);
    };
    let high = r#","priorityClassName":"high""#;
    let uncovered = Err("insufficient quota to match these scopes: [{PriorityClass In [high]}]");
    check(high, &[], uncovered);
    check(high, &[quota("q", "", "pods=1", "pods=0")], uncovered);
    check("", &[], Ok(&[]));
    let selector = r#""scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"Exists"}]}"#;
    check(high, &[quota("q", selector, "pods=1", "pods=0")], Ok(&["q: pods=1"]));
}

#[test]
fn quotas_that_were_charged_are_not_charged_again() {
    let quotas = [quota("a", "", "pods=1", "pods=1"), quota("b", "", "pods=1", "pods=0")];
    let object = json(&pod("1", ""));
    let write = QuotaWrite { subresource: "", object: &object, old: None };
    let write = MeasuredWrite::of(evaluator_of("", "pods"), write, &Context::default());
    let charges = check_write(&write, &quotas, &[], |quota| quota.name == "a").expect("no refusal");
    assert_eq!(charges.iter().map(|charge| charge.quota).collect::<Vec<_>>(), [1]);
}
