//! Webhooks that do not match cost next to nothing. Webhooks with side effects do not see dry runs.

use std::task::{Context, Waker};

use allocation_counter::measure;
use pintle_value::Value;

use crate::testing::{Scenario, json};
use crate::{AdmissionPlugin, built_in_plugin};

/// Configurations of both kinds, whose webhooks are for other resources than config maps.
fn configurations(count: usize) -> Vec<Value> {
    let configuration = |kind: &str, i: usize| {
        json(&format!(
            r#"{{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "{kind}", "metadata": {{"name": "c{i}"}},
                 "webhooks": [{{
                     "name": "w{i}.example.com", "clientConfig": {{"url": "https://127.0.0.1:1/"}},
                     "admissionReviewVersions": ["v1"], "sideEffects": "None", "matchPolicy": "Exact",
                     "namespaceSelector": {{"matchLabels": {{"a": "b"}}}},
                     "objectSelector": {{"matchLabels": {{"a": "b"}}}},
                     "rules": [{{"operations": ["*"], "apiGroups": ["", "apps"], "apiVersions": ["*"],
                                 "resources": ["pods", "deployments/*"]}}]}}]}}"#
        ))
    };
    let kinds = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
    kinds.iter().flat_map(|kind| (0..count).map(|i| configuration(kind, i))).collect()
}

/// The allocations of a plugin for a write that no webhook matches, after the configurations are compiled.
fn allocations(plugin: &dyn AdmissionPlugin, count: usize) -> u64 {
    let scenario = Scenario { stored: configurations(count), ..Scenario::create("", "configmaps") };
    let mut config_map = json(r#"{"metadata": {"name": "c", "namespace": "default"}, "data": {"a": "1"}}"#);
    let given = config_map.clone();
    scenario.inspect(&given, |attributes| {
        let mut run = || {
            let mut context = Context::from_waker(Waker::noop());
            assert!(plugin.mutate(attributes, &mut config_map).as_mut().poll(&mut context).is_ready());
            assert!(plugin.validate(attributes, &config_map).as_mut().poll(&mut context).is_ready());
        };
        // The first time compiles the configurations.
        run();
        measure(run).count_total
    })
}

#[test]
fn webhooks_that_do_not_match_allocate_nothing() {
    for name in ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"] {
        let plugin = || built_in_plugin(name).expect("a plugin");
        let (one, hundred) = (plugin(), plugin());
        let (one, hundred) = (allocations(&*one, 1), allocations(&*hundred, 100));
        assert_eq!(one, hundred);
        // The allocations are the futures of both phases and of the dispatch.
        assert!(one <= 4, "{one} allocations");
    }
}

/// Configurations that were stored by old versions of the API can have side effects, or leave the field unset.
#[test]
fn dry_runs_are_refused_if_a_webhook_has_side_effects() {
    let config_map = json(r#"{"metadata": {"name": "c", "namespace": "default"}}"#);
    for (side_effects, expect) in [
        (r#","sideEffects":"Some""#, "admission webhook \"w.example.com\" does not support dry run"),
        (r#","sideEffects":"Unknown""#, "admission webhook \"w.example.com\" does not support dry run"),
        ("", "Internal error occurred: failed calling webhook \"w.example.com\": Webhook SideEffects is nil"),
    ] {
        let configuration = |kind: &str| {
            json(&format!(
                r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"{kind}","metadata":{{"name":"c"}},
                     "webhooks":[{{"name":"w.example.com","clientConfig":{{"url":"https://127.0.0.1:1/"}},
                     "admissionReviewVersions":["v1"],"rules":[{{"operations":["*"],"apiGroups":["*"],
                     "apiVersions":["*"],"resources":["*"]}}],"failurePolicy":"Fail","matchPolicy":"Exact",
                     "namespaceSelector":{{}},"objectSelector":{{}}{side_effects}}}]}}"#
            ))
        };
        let stored =
            vec![configuration("MutatingWebhookConfiguration"), configuration("ValidatingWebhookConfiguration")];
        let scenario = Scenario { stored, dry_run: true, ..Scenario::create("", "configmaps") };
        let plugin = |name| built_in_plugin(name).expect("a plugin");
        scenario.check_mutate(&*plugin("MutatingAdmissionWebhook"), config_map.clone(), Err(expect));
        scenario.check_validate(&*plugin("ValidatingAdmissionWebhook"), &config_map, Err(expect));
    }
}
