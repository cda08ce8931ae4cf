use std::time::Duration;

use super::*;
use crate::testing::{Scenario, json};

fn quota(name: &str, status: &str) -> Value {
    json(&format!(
        r#"{{"kind":"ResourceQuota","metadata":{{"name":"{name}","namespace":"n","uid":"u-{name}"}},"status":{{{status}}}}}"#
    ))
}

fn config_map(namespace: &str) -> Value {
    json(&format!(r#"{{"kind":"ConfigMap","metadata":{{"name":"c","namespace":"{namespace}"}}}}"#))
}

#[test]
fn writes_are_refused_by_the_quotas_of_their_namespace() {
    let full = quota("full", r#""hard":{"configmaps":"1"},"used":{"configmaps":"1"}"#);
    let unknown = quota("unknown", r#""hard":{"count/configmaps":"1"}"#);
    let create = |stored: &Value| Scenario { stored: vec![stored.clone()], ..Scenario::create("", "configmaps") };
    let plugin = ResourceQuota::default();
    create(&full).check_validate(
        &plugin,
        &config_map("n"),
        Err("configmaps \"c\" is forbidden: exceeded quota: full, requested: configmaps=1, used: configmaps=1, limited: \
             configmaps=1"),
    );
    create(&full).check_validate(&plugin, &config_map("other"), Ok(()));
    create(&unknown).check_validate(
        &plugin,
        &config_map("n"),
        Err("configmaps \"c\" is forbidden: status unknown for quota: unknown, resources: count/configmaps"),
    );
    create(&quota("new", "")).check_validate(&plugin, &config_map("n"), Ok(()));
}

#[test]
fn dry_runs_are_checked_but_not_charged() {
    let free = quota("free", r#""hard":{"configmaps":"2"},"used":{"configmaps":"1"}"#);
    let create = Scenario { stored: vec![free], dry_run: true, ..Scenario::create("", "configmaps") };
    create.check_validate(&ResourceQuota::default(), &config_map("n"), Ok(()));
}

#[test]
fn limited_resources_are_refused_without_a_quota() {
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\nlimitedResources:\n- resource: \
                configmaps\n  matchContains: [configmaps]\n- resource: pods\n  matchScopes:\n  - scopeName: PriorityClass\n    \
                operator: In\n    values: [high]\n";
    let plugin = ResourceQuota::from_text(Some(text.as_bytes()), &Gates::default()).expect("a configuration");
    let why = "configmaps \"c\" is forbidden: insufficient quota to consume: configmaps,count/configmaps";
    Scenario::create("", "configmaps").check_validate(&plugin, &config_map("n"), Err(why));
    let pod = |class: &str| {
        json(&format!(
            r#"{{"kind":"Pod","metadata":{{"name":"p","namespace":"n"}},"spec":{{"priorityClassName":"{class}"}}}}"#
        ))
    };
    let create = Scenario::create("", "pods");
    let why = "insufficient quota to match these scopes: [{PriorityClass In [high]}]";
    create.check_validate(&plugin, &pod("high"), Err(why));
    create.check_validate(&plugin, &pod("low"), Ok(()));
}

#[test]
fn kinds_that_quotas_ignore_are_not_read_for() {
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\nlimitedResources:\n- resource: \
                events\n  matchContains: [events]\n- resource: namespaces\n  matchContains: [namespaces]\n";
    let plugin = ResourceQuota::from_text(Some(text.as_bytes()), &Gates::default()).expect("a configuration");
    for plural in ["events", "namespaces"] {
        let object = json(r#"{"metadata":{"name":"a","namespace":"a"}}"#);
        let create = Scenario::create("", plural);
        assert!(!create.inspect(&object, |attributes| plugin.handles(attributes)), "{plural}");
        create.check_validate(&plugin, &object, Ok(()));
    }
}

#[test]
fn a_claim_is_refused_while_its_device_class_cannot_be_read() {
    let free = quota("free", r#""hard":{"requests.example.com/gpu":"2"},"used":{"requests.example.com/gpu":"1"}"#);
    let claim = json(
        r#"{"kind":"ResourceClaim","metadata":{"name":"c","namespace":"n"},"spec":{"devices":{"requests":[
            {"name":"r","exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":1}}]}}}"#,
    );
    let create = Scenario::create("resource.k8s.io", "resourceclaims");
    let scenario = Scenario { stored: vec![free], unreadable: "deviceclasses", dry_run: true, ..create };
    let why = "Internal error occurred: unreadable";
    scenario.check_validate(&ResourceQuota::default(), &claim, Err(why));
    let readable = Scenario { unreadable: "", ..scenario };
    readable.check_validate(&ResourceQuota::default(), &claim, Ok(()));
}

#[test]
fn decided_writes_leave_the_queue() {
    let full = quota("full", r#""hard":{"configmaps":"1"},"used":{"configmaps":"1"}"#);
    let scenario = Scenario { stored: vec![full], ..Scenario::create("", "configmaps") };
    let plugin = ResourceQuota::default();
    for namespace in ["n", "other"] {
        let _ = scenario.validate(&plugin, &config_map(namespace));
    }
    let queue = plugin.work_queue().expect("a queue");
    assert_eq!((queue.name(), queue.has_retries()), ("admission_quota_controller", false));
    assert_eq!((queue.adds.get(), queue.depth.get()), (2, 0));
    assert_eq!((queue.queue_durations.count(), queue.work_durations.count()), (2, 2));
    assert_eq!(queue.running(Instant::now()), (Duration::ZERO, Duration::ZERO));
    let waiting = QueuedWrite::new(&plugin.queue);
    assert_eq!(queue.depth.get(), 1);
    drop(waiting);
    assert_eq!((queue.depth.get(), queue.work_durations.count()), (0, 2));
}
