//! Rules and selectors against requests. A row is a request, a matcher as YAML, and the resource at which it matches.

use pintle_value::Value;

use super::*;
use crate::testing::{Scenario, json};

/// A request from `OPERATION group/plural/subresource`.
pub(super) fn request(text: &str) -> Scenario {
    let (operation, resource) = text.split_once(' ').expect("an operation and a resource");
    let [group, plural, subresource] = resource.split('/').collect::<Vec<_>>()[..] else { panic!("{text}") };
    let scenario = match operation {
        "CREATE" => Scenario::create(group, plural),
        "UPDATE" => Scenario::update(group, plural),
        _ => Scenario::delete(group, plural),
    };
    Scenario { subresource: subresource.to_owned().leak(), stored: namespaces(), ..scenario }
}

fn namespaces() -> Vec<Value> {
    let namespace = |name: &str, stage: &str| {
        json(&format!(
            r#"{{"apiVersion": "v1", "kind": "Namespace",
                 "metadata": {{"name": "{name}", "labels": {{"stage": "{stage}"}}}}}}"#
        ))
    };
    vec![namespace("n", "production"), namespace("old", "test")]
}

pub(super) fn yaml(text: &str) -> Value {
    pintle_codec::yaml::decode(text.as_bytes()).expect("YAML").value
}

/// Where a matcher matches a request: `requested`, another resource with its kind, or `no`.
fn found(scenario: &Scenario, matcher: &RequestMatcher, object: &Value) -> String {
    scenario.inspect(object, |attributes| match matcher.find(attributes, object) {
        Ok(None) => "no".to_owned(),
        Ok(Some(MatchedResource::Requested)) => "requested".to_owned(),
        Ok(Some(MatchedResource::Equivalent(EquivalentResource { resource, kind }))) => {
            format!("{}/{}/{} {kind}", resource.group, resource.version, resource.resource)
        }
        Err(error) => error.to_string(),
    })
}

const OBJECT: &str = r#"{"metadata": {"name": "x", "namespace": "n", "labels": {"app": "a"}}}"#;

fn check_rule(rule: &str, requests: &[(&str, &str)]) {
    let webhook =
        yaml(&format!("{{matchPolicy: Equivalent, namespaceSelector: {{}}, objectSelector: {{}}, rules: [{rule}]}}"));
    let matcher = RequestMatcher::of_webhook(&webhook);
    for (text, expect) in requests {
        assert_eq!(found(&request(text), &matcher, &json(OBJECT)), *expect, "{rule} {text}");
    }
}

#[test]
fn rules_name_operations_resources_and_subresources() {
    let rule = r#"{operations: [CREATE, UPDATE], apiGroups: [""], apiVersions: [v1], resources: [pods, "*/status"]}"#;
    check_rule(
        rule,
        &[
            ("CREATE /pods/", "requested"),
            ("UPDATE /pods/status", "requested"),
            ("UPDATE /services/status", "requested"),
            ("DELETE /pods/", "no"),
            ("CREATE /services/", "no"),
            ("CREATE /pods/binding", "no"),
            ("UPDATE apps/deployments/status", "no"),
        ],
    );
    let rule = r#"{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}"#;
    check_rule(rule, &[("DELETE apps/deployments/", "requested"), ("UPDATE apps/deployments/scale", "no")]);
    let rule = r#"{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["pods/*"]}"#;
    check_rule(
        rule,
        &[
            ("CREATE /pods/", "requested"),
            ("CREATE /pods/binding", "requested"),
            ("UPDATE apps/deployments/scale", "no"),
        ],
    );
    let rule = r#"{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}"#;
    check_rule(rule, &[("UPDATE apps/deployments/scale", "requested"), ("DELETE /nodes/", "requested")]);
}

#[test]
fn rules_have_a_scope() {
    let rule = |scope: &str| {
        format!(r#"{{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], scope: "{scope}"}}"#)
    };
    for (scope, pod, node, namespace) in
        [("*", true, true, true), ("Namespaced", true, false, false), ("Cluster", false, true, true)]
    {
        let matcher = RequestMatcher::of_webhook(&yaml(&format!(
            "{{namespaceSelector: {{}}, objectSelector: {{}}, rules: [{}]}}",
            rule(scope)
        )));
        let cluster_scoped = json(r#"{"metadata": {"name": "x"}}"#);
        let mut of_namespace = request("CREATE /namespaces/");
        of_namespace.namespace = Some("x");
        for (scenario, object, expect) in [
            (request("CREATE /pods/"), json(OBJECT), pod),
            (request("CREATE /nodes/"), cluster_scoped.clone(), node),
            (of_namespace, cluster_scoped, namespace),
        ] {
            assert_eq!(found(&scenario, &matcher, &object), if expect { "requested" } else { "no" }, "{scope}");
        }
    }
}

#[test]
fn equivalent_resources_match_unless_the_policy_is_exact() {
    let rule = r#"{operations: [CREATE], apiGroups: [events.k8s.io], apiVersions: [v1], resources: [events]}"#;
    check_rule(
        rule,
        &[("CREATE /events/", "events.k8s.io/v1/events events.k8s.io/v1, Kind=Event"), ("UPDATE /events/", "no")],
    );
    let rule = r#"{operations: ["*"], apiGroups: [autoscaling], apiVersions: [v1], resources: ["horizontalpodautoscalers/*"]}"#;
    let at_v1 = "autoscaling/v1/horizontalpodautoscalers autoscaling/v1, Kind=HorizontalPodAutoscaler";
    check_rule(
        rule,
        &[
            ("CREATE autoscaling/horizontalpodautoscalers/", at_v1),
            ("UPDATE autoscaling/horizontalpodautoscalers/status", at_v1),
            ("UPDATE autoscaling/horizontalpodautoscalers/scale", "no"),
        ],
    );
    // A rule that names the requested resource comes first, even if an earlier rule names an equivalent resource.
    let both = r#"{operations: ["*"], apiGroups: [autoscaling], apiVersions: [v1], resources: ["*"]},
                  {operations: ["*"], apiGroups: [autoscaling], apiVersions: [v2], resources: ["*"]}"#;
    check_rule(both, &[("CREATE autoscaling/horizontalpodautoscalers/", "requested")]);
    let exact = format!("{{matchPolicy: Exact, namespaceSelector: {{}}, objectSelector: {{}}, rules: [{rule}]}}");
    let matcher = RequestMatcher::of_webhook(&yaml(&exact));
    assert_eq!(found(&request("CREATE autoscaling/horizontalpodautoscalers/"), &matcher, &json(OBJECT)), "no");
}

const EVERYTHING: &str = r#"rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}]"#;

#[test]
fn namespaces_are_selected_by_their_labels() {
    let webhook =
        format!("{{namespaceSelector: {{matchLabels: {{stage: production}}}}, objectSelector: {{}}, {EVERYTHING}}}");
    let matcher = RequestMatcher::of_webhook(&yaml(&webhook));
    let in_namespace =
        |namespace: &str| json(&format!(r#"{{"metadata": {{"name": "x", "namespace": "{namespace}"}}}}"#));
    for (namespace, expect) in
        [("n", "requested"), ("old", "no"), ("none", "namespaces \"none\" not found"), ("", "requested")]
    {
        assert_eq!(found(&request("CREATE /pods/"), &matcher, &in_namespace(namespace)), expect, "{namespace}");
    }
    // A namespace in a create or update has its new labels. A namespace in a delete has its stored labels.
    let of_namespace = |operation: &str, name: &'static str| Scenario {
        namespace: Some(name),
        target: Some(json(&format!(r#"{{"metadata": {{"name": "{name}"}}}}"#))),
        ..request(operation)
    };
    let labelled = json(r#"{"metadata": {"name": "old", "labels": {"stage": "production"}}}"#);
    let bare = json(r#"{"metadata": {"name": "n"}}"#);
    for (scenario, object, expect) in [
        (of_namespace("UPDATE /namespaces/", "old"), &labelled, "requested"),
        (of_namespace("UPDATE /namespaces/", "n"), &bare, "no"),
        (of_namespace("CREATE /namespaces/", "none"), &bare, "no"),
        (of_namespace("UPDATE /namespaces/status", "n"), &bare, "requested"),
        (of_namespace("DELETE /namespaces/", "n"), &Value::Null, "requested"),
        (of_namespace("DELETE /namespaces/", "old"), &Value::Null, "no"),
    ] {
        assert_eq!(found(&scenario, &matcher, object), expect, "{:?} {object:?}", scenario.namespace);
    }
    // A request that no rule matches causes no error.
    let webhook = "{namespaceSelector: {matchLabels: {stage: production}}, objectSelector: {}, rules: []}";
    let matcher = RequestMatcher::of_webhook(&yaml(webhook));
    assert_eq!(found(&request("CREATE /pods/"), &matcher, &in_namespace("none")), "no");
}

#[test]
fn objects_are_selected_by_new_and_old_labels() {
    let webhook = format!("{{namespaceSelector: {{}}, objectSelector: {{matchLabels: {{app: a}}}}, {EVERYTHING}}}");
    let matcher = RequestMatcher::of_webhook(&yaml(&webhook));
    let (with, without) = (json(OBJECT), json(r#"{"metadata": {"name": "x", "namespace": "n"}}"#));
    for (operation, object, old, expect) in [
        ("CREATE /pods/", &with, None, "requested"),
        ("CREATE /pods/", &without, None, "no"),
        ("UPDATE /pods/", &without, Some(&with), "requested"),
        ("UPDATE /pods/", &with, Some(&without), "requested"),
        ("UPDATE /pods/", &without, Some(&without), "no"),
        ("DELETE /pods/", &Value::Null, Some(&with), "requested"),
        ("DELETE /pods/", &Value::Null, Some(&without), "no"),
    ] {
        let scenario = Scenario { old: old.cloned(), ..request(operation) };
        assert_eq!(found(&scenario, &matcher, object), expect, "{operation} {object:?}");
    }
}

#[test]
fn policies_exclude_requests_and_name_objects() {
    let rule = |resources: &str| {
        format!(r#"operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: [{resources}]"#)
    };
    let matcher = |text: &str| {
        RequestMatcher::of_match_resources(&yaml(&format!("{{namespaceSelector: {{}}, objectSelector: {{}}, {text}}}")))
    };
    let check = |text: &str, operation: &str, expect: &str| {
        assert_eq!(found(&request(operation), &matcher(text), &json(OBJECT)), expect, "{text} {operation}");
    };
    check("resourceRules: []", "CREATE /pods/binding", "requested");
    let excluded = format!("excludeResourceRules: [{{{}}}]", rule("pods"));
    check(&excluded, "CREATE /pods/", "no");
    check(&excluded, "CREATE /services/", "requested");
    for (names, expect) in [("[]", "requested"), ("[a, x]", "requested"), ("[a]", "no")] {
        check(&format!("resourceRules: [{{{}, resourceNames: {names}}}]", rule("pods")), "CREATE /pods/", expect);
    }
    check(
        "matchPolicy: Equivalent, excludeResourceRules: [{operations: [CREATE], apiGroups: [events.k8s.io], apiVersions: [v1], resources: [events]}]",
        "CREATE /events/",
        "no",
    );
    // A missing selector matches nothing.
    assert_eq!(
        found(&request("CREATE /pods/"), &RequestMatcher::of_match_resources(&Value::object()), &json(OBJECT)),
        "no"
    );
}
