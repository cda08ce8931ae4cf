//! Mutating policies: configurations that are merged, JSON patches, reinvocation and failures.

use pintle_integration::{Cluster, run};
use serde_json::{Value, json};

use super::{CONFIGMAPS, DEPLOYMENTS, GROUP, configmap, constraints, deployment};

/// Rules for creates and updates of a resource.
fn writes(group: &str, version: &str, resource: &str) -> Value {
    let mut constraints = constraints(group, version, resource);
    constraints["resourceRules"][0]["operations"] = json!(["CREATE", "UPDATE"]);
    constraints
}

fn applies(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patches(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// Creates a policy for config maps, changed by a merge of its spec, with a binding.
async fn create(cluster: &Cluster, name: &str, spec: Value, binding: Value) {
    let constraints = writes("", "v1", "configmaps");
    let mut policy =
        json!({"metadata": {"name": name}, "spec": {"reinvocationPolicy": "Never", "matchConstraints": constraints}});
    for (key, value) in spec.as_object().expect("an object") {
        policy["spec"][key] = value.clone();
    }
    let _ = cluster.post(&format!("{GROUP}/mutatingadmissionpolicies"), policy.to_string()).await.expect(201);
    let mut bound = json!({"metadata": {"name": format!("{name}-binding")}, "spec": {"policyName": name}});
    for (key, value) in binding.as_object().expect("an object") {
        bound["spec"][key] = value.clone();
    }
    let _ = cluster.post(&format!("{GROUP}/mutatingadmissionpolicybindings"), bound.to_string()).await.expect(201);
}

async fn mutate(cluster: &Cluster, name: &str, mutations: Value) {
    create(cluster, name, json!({"mutations": mutations}), json!({})).await;
}

#[test]
fn configurations_are_merged_into_objects() {
    run(async {
        let cluster = Cluster::start().await;
        let sidecar = "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [\
            Object.spec.template.spec.containers{name: 'sidecar', image: 'proxy:' + string(object.spec.replicas)}]}}}}";
        let labels = "Object{metadata: Object.metadata{labels: {'by': variables.user, 'app.kubernetes.io/x': 'y'}}}";
        let spec = json!({
            "matchConstraints": writes("apps", "v1", "deployments"),
            "variables": [{"name": "user", "expression": "request.userInfo.username.replace(':', '-')"}],
            "matchConditions": [{"name": "new", "expression": "!object.spec.template.spec.containers.exists(c, c.name == 'sidecar')"}],
            "mutations": [applies(sidecar), applies(labels)],
        });
        create(&cluster, "p", spec, json!({})).await;
        let dry_run = cluster.post(&format!("{DEPLOYMENTS}?dryRun=All"), deployment("d", 2)).await.expect(201).json();
        assert_eq!(dry_run["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len), Some(2));
        let object = cluster.post(DEPLOYMENTS, deployment("d", 2)).await.expect(201).json();
        let containers = &object["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0]["name"], "a");
        assert_eq!((&containers[1]["name"], &containers[1]["image"]), (&json!("sidecar"), &json!("proxy:2")));
        // The server sets defaults afterwards.
        assert_eq!(containers[1]["imagePullPolicy"], "IfNotPresent");
        assert_eq!(object["metadata"]["labels"]["app"], "d");
        assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/x"], "y");
        // No manager owns the fields that the policy adds.
        let managed = object["metadata"]["managedFields"].to_string();
        assert!(managed.contains("f:app\\\"") || managed.contains("f:app\""));
        assert!(!managed.contains("sidecar") && !managed.contains("f:by"), "{managed}");
        cluster.stop().await;
    });
}

#[test]
fn json_patches_change_objects() {
    run(async {
        let cluster = Cluster::start().await;
        let patch = "[JSONPatch{op: 'test', path: '/data/kind', value: 'patched'}, \
            JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}, \
            JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/n'), value: string(object.data.size())}, \
            JSONPatch{op: 'copy', from: '/data/kind', path: '/data/copy'}, \
            JSONPatch{op: 'remove', path: '/data/kind'}]";
        mutate(&cluster, "p", json!([patches(patch)])).await;
        let object = cluster.post(CONFIGMAPS, configmap("c", json!({"kind": "patched"}))).await.expect(201).json();
        assert_eq!(object["metadata"]["labels"], json!({"a": "b", "example.com/n": "1"}));
        assert_eq!(object["data"], json!({"copy": "patched"}));
        // Nothing is changed if a test fails.
        let object = cluster.post(CONFIGMAPS, configmap("d", json!({"kind": "other"}))).await.expect(201).json();
        assert_eq!((&object["metadata"]["labels"], &object["data"]), (&Value::Null, &json!({"kind": "other"})));
        cluster.stop().await;
    });
}

#[test]
fn params_are_used_by_mutations() {
    run(async {
        let cluster = Cluster::start().await;
        let params = configmap("labels", json!({"team": "red"}));
        let _ = cluster.post(CONFIGMAPS, params).await.expect(201);
        let spec = json!({
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": writes("", "v1", "secrets"),
            "mutations": [applies("Object{metadata: Object.metadata{labels: {'team': string(params.data.team)}}}")],
        });
        let reference = json!({"name": "labels", "parameterNotFoundAction": "Deny"});
        create(&cluster, "p", spec, json!({"paramRef": reference})).await;
        let secret = json!({"metadata": {"name": "s"}}).to_string();
        let object = cluster.post("/api/v1/namespaces/default/secrets", secret).await.expect(201).json();
        assert_eq!(object["metadata"]["labels"], json!({"team": "red"}));
        cluster.stop().await;
    });
}

#[test]
fn failures_deny_as_upstream_does() {
    run(async {
        let cluster = Cluster::start().await;
        let conditions = |kind: &str| json!([{"name": "kind", "expression": format!("object.data.kind == '{kind}'")}]);
        let atomic = "Object{metadata: Object.metadata{finalizers: ['a/b']}, immutable: dyn('x')}";
        for (kind, mutation) in [
            ("error", applies("Object{metadata: Object.metadata{labels: {'a': string(object.data.missing)}}}")),
            ("schema", applies(atomic)),
            ("patch", patches("[JSONPatch{op: 'remove', path: '/data/missing'}]")),
            ("names", applies("Object{metadata: Object.spec{labels: {'a': 'b'}}}")),
        ] {
            create(&cluster, kind, json!({"matchConditions": conditions(kind), "mutations": [mutation]}), json!({}))
                .await;
        }
        let expression = "Object{metadata: Object.metadata{labels: {'a': string(object.data.missing)}}}";
        for (kind, why) in [
            ("error", format!("expression '{expression}' resulted in error: no such key: missing")),
            (
                "schema",
                "error applying patch: failed to convert patch object to typed object: .immutable: expected boolean, got &{x}"
                    .to_owned(),
            ),
            ("patch", "JSON Patch: error in remove for path: '/data/missing': Unable to remove nonexistent key: missing: missing value".to_owned()),
            (
                "names",
                "type mismatch: unexpected type name \"Object.spec\", expected \"Object.metadata\", which matches field name \
                 path from root Object type"
                    .to_owned(),
            ),
        ] {
            let message = format!("policy '{kind}' with binding '{kind}-binding' denied request: {why}");
            let status = cluster.post(CONFIGMAPS, configmap("c", json!({"kind": kind}))).await.expect(403).json();
            let details = json!({"name": "c", "kind": "configmaps", "causes": [{"message": message}]});
            assert_eq!(
                (&status["reason"], &status["message"], &status["details"]),
                (&json!("Invalid"), &json!(message), &details)
            );
        }
        let spec = json!({
            "failurePolicy": "Ignore", "matchConditions": conditions("ignored"),
            "mutations": [applies(expression)],
        });
        create(&cluster, "ignored", spec, json!({})).await;
        let _ = cluster.post(CONFIGMAPS, configmap("c", json!({"kind": "ignored"}))).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn atomic_lists_cannot_be_merged() {
    run(async {
        let cluster = Cluster::start().await;
        let expression = "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [\
            Object.spec.template.spec.containers{name: 'a', args: ['x']}]}}}}";
        let spec = json!({"matchConstraints": writes("apps", "v1", "deployments"), "mutations": [applies(expression)]});
        create(&cluster, "p", spec, json!({})).await;
        let status = cluster.post(DEPLOYMENTS, deployment("d", 1)).await.expect(403).json();
        assert_eq!(
            status["message"],
            "policy 'p' with binding 'p-binding' denied request: error applying patch: invalid ApplyConfiguration: may not \
             mutate atomic arrays, maps or structs: .spec.template.spec.containers[0].args"
        );
        cluster.stop().await;
    });
}

#[test]
fn policies_see_later_changes_if_they_can_be_reinvoked() {
    run(async {
        let cluster = Cluster::start().await;
        let counts = "Object{metadata: Object.metadata{annotations: {'NAME': string(object.data.size())}}}";
        let once = json!({"mutations": [applies(&counts.replace("NAME", "once"))]});
        let again = json!({"reinvocationPolicy": "IfNeeded", "mutations": [applies(&counts.replace("NAME", "again"))]});
        create(&cluster, "a-once", once, json!({})).await;
        create(&cluster, "b-again", again, json!({})).await;
        mutate(&cluster, "c-adds", json!([patches("[JSONPatch{op: 'add', path: '/data/added', value: 'x'}]")])).await;
        let object = cluster.post(CONFIGMAPS, configmap("c", json!({"a": "b"}))).await.expect(201).json();
        assert_eq!(object["metadata"]["annotations"], json!({"once": "1", "again": "2"}));
        cluster.stop().await;
    });
}

#[test]
fn a_policy_sees_its_own_changes_if_it_can_be_reinvoked() {
    run(async {
        let cluster = Cluster::start().await;
        let counts = |name: &str| {
            applies(&format!(
                "Object{{metadata: Object.metadata{{annotations: {{'{name}': has(object.metadata.annotations) && '{name}' in \
                 object.metadata.annotations ? object.metadata.annotations.{name} + 'x' : 'x'}}}}}}"
            ))
        };
        create(&cluster, "once", json!({"mutations": [counts("once")]}), json!({})).await;
        let object = cluster.post(CONFIGMAPS, configmap("a", json!({}))).await.expect(201).json();
        assert_eq!(object["metadata"]["annotations"], json!({"once": "x"}));
        let again = json!({"reinvocationPolicy": "IfNeeded", "mutations": [counts("again")]});
        create(&cluster, "policy-again", again, json!({})).await;
        let object = cluster.post(CONFIGMAPS, configmap("b", json!({}))).await.expect(201).json();
        assert_eq!(object["metadata"]["annotations"], json!({"once": "x", "again": "xx"}));
        cluster.stop().await;
    });
}

#[test]
fn match_conditions_see_the_request_for_an_equivalent_resource() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({
            "matchConstraints": writes("autoscaling", "v1", "horizontalpodautoscalers"),
            "matchConditions": [{
                "name": "a",
                "expression": "request.operation == 'CREATE' && request.kind.version == 'v1' && request.resource.version == 'v2'",
            }],
            "mutations": [applies("Object{metadata: Object.metadata{labels: {'v': request.resource.version}}}")],
        });
        create(&cluster, "p", spec, json!({})).await;
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let body = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}).to_string();
        let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
        let object = cluster.post(path, body).await.expect(201).json();
        assert_eq!(object["metadata"]["labels"], json!({"v": "v1"}));
        cluster.stop().await;
    });
}

#[test]
fn deletes_are_not_mutated() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({
            "matchConstraints": constraints("", "v1", "configmaps"),
            "matchConditions": [{"name": "a", "expression": "object.metadata.name != ''"}],
            "mutations": [applies("Object{metadata: Object.metadata{labels: {'a': 'b'}}}")],
        });
        create(&cluster, "p", spec, json!({})).await;
        let object = cluster.post(CONFIGMAPS, configmap("c", json!({}))).await.expect(201).json();
        assert_eq!(object["metadata"]["labels"], json!({"a": "b"}));
        let _ = cluster.delete(&format!("{CONFIGMAPS}/c")).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn kinds_of_subresources_can_be_patched_but_not_merged() {
    run(async {
        let cluster = Cluster::start().await;
        let _ = cluster.post(DEPLOYMENTS, deployment("d", 1)).await.expect(201);
        let scale = |name: &str, expression: Value, failure_policy: &str| {
            let condition = json!([{"name": "a", "expression": format!("object.spec.replicas == {name}")}]);
            json!({
                "matchConstraints": writes("apps", "v1", "deployments/scale"), "failurePolicy": failure_policy,
                "matchConditions": condition, "mutations": [expression],
            })
        };
        let merged = || applies("Object{spec: Object.spec{replicas: 9}}");
        create(&cluster, "fails", scale("2", merged(), "Fail"), json!({})).await;
        create(&cluster, "ignored", scale("3", merged(), "Ignore"), json!({})).await;
        let patched = patches("[JSONPatch{op: 'replace', path: '/spec/replicas', value: 9}]");
        create(&cluster, "patched", scale("4", patched, "Fail"), json!({})).await;
        let set = async |replicas: u32| {
            let patch = json!({"spec": {"replicas": replicas}}).to_string();
            cluster.patch(&format!("{DEPLOYMENTS}/d/scale"), "merge", &patch).await
        };
        let status = set(2).await.expect(403).json();
        assert_eq!(
            status["message"],
            "policy 'fails' with binding 'fails-binding' denied request: error applying patch: failed to convert patch object \
             to typed object: no corresponding type for autoscaling/v1, Kind=Scale"
        );
        assert_eq!(set(3).await.expect(200).json()["spec"]["replicas"], 3);
        assert_eq!(set(4).await.expect(200).json()["spec"]["replicas"], 9);
        cluster.stop().await;
    });
}

#[test]
fn patched_objects_are_decoded_strictly() {
    run(async {
        let cluster = Cluster::start().await;
        mutate(&cluster, "p", json!([patches("[JSONPatch{op: 'add', path: '/unknown', value: 'x'}]")])).await;
        let message = "Internal error occurred: strict decoding error: unknown field \"unknown\"";
        cluster.post(CONFIGMAPS, configmap("c", json!({}))).await.expect_error(500, "InternalError", message);
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let series = "apiserver_mutating_admission_policy_check_total{error_type=\"invalid_error\",policy=\"p\",\
            policy_binding=\"p-binding\"} 1";
        assert!(metrics.contains(series), "{series}");
        cluster.stop().await;
    });
}

#[test]
fn merged_objects_that_cannot_be_decoded_are_failures_of_the_policy() {
    run(async {
        let cluster = Cluster::start().await;
        let limits = "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [\
            Object.spec.template.spec.containers{name: 'a', resources: \
            Object.spec.template.spec.containers.resources{limits: {'cpu': 'many'}}}]}}}}";
        let policy = |failure_policy: &str| {
            let rules = writes("apps", "v1", "deployments");
            json!({"matchConstraints": rules, "failurePolicy": failure_policy, "mutations": [applies(limits)]})
        };
        create(&cluster, "ignored", policy("Ignore"), json!({})).await;
        let _ = cluster.post(DEPLOYMENTS, deployment("d", 1)).await.expect(201);
        create(&cluster, "fails", policy("Fail"), json!({})).await;
        let status = cluster.post(DEPLOYMENTS, deployment("e", 1)).await.expect(403).json();
        let message = "policy 'fails' with binding 'fails-binding' denied request: unable to convert unstructured object to \
            apps/v1, Kind=Deployment: quantities must match the regular expression \
            '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        assert_eq!((&status["reason"], &status["message"]), (&json!("Invalid"), &json!(message)));
        cluster.stop().await;
    });
}

#[test]
fn failed_conversions_are_failures_of_the_policy() {
    run(async {
        let cluster = Cluster::start().await;
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let version =
            |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema});
        // No server listens at this URL.
        let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/"}});
        let crd = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Cluster", "conversion": {"strategy": "Webhook", "webhook": webhook},
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [version("v1", true), version("v2", false)],
            },
        });
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let _ = cluster.post(crds, crd.to_string()).await.expect(201);
        let path = "/apis/example.com/v1/widgets";
        let widget = |name: &str| {
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}).to_string()
        };
        cluster.get_until_status(path, 200).await;
        let _ = cluster.post(path, widget("first")).await.expect(201);
        let policy = |failure_policy: &str| {
            let label = applies("Object{metadata: Object.metadata{labels: {'a': 'b'}}}");
            let rules = writes("example.com", "v2", "widgets");
            json!({"matchConstraints": rules, "failurePolicy": failure_policy, "mutations": [label]})
        };
        create(&cluster, "ignored", policy("Ignore"), json!({})).await;
        let _ = cluster.post(path, widget("second")).await.expect(201);
        create(&cluster, "fails", policy("Fail"), json!({})).await;
        let status = cluster.post(path, widget("third")).await.expect(403).json();
        let message = status["message"].as_str().expect("a message");
        let prefix = "policy \"fails\" denied request: failed to configure policy: conversion webhook for";
        assert!(message.starts_with(prefix), "{message}");
        cluster.stop().await;
    });
}

#[test]
fn names_of_types_are_checked_on_the_result() {
    run(async {
        let cluster = Cluster::start().await;
        // The check of the patch ignores the branch that is not taken, and objects within lists of a patch.
        let configuration = "object.metadata.name == 'wrong' ? Object{metadata: Object.spec{}} : \
            Object{metadata: Object.metadata{labels: {'a': 'b'}}}";
        let patch =
            "[JSONPatch{op: 'add', path: '/metadata/finalizers', value: [Object.x{y: Object.z{}}].map(x, 'a/b')}]";
        mutate(&cluster, "p", json!([applies(configuration), patches(patch)])).await;
        let object = cluster.post(CONFIGMAPS, configmap("c", json!({}))).await.expect(201).json();
        assert_eq!(object["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(object["metadata"]["finalizers"], json!(["a/b"]));
        let status = cluster.post(CONFIGMAPS, configmap("wrong", json!({}))).await.expect(403).json();
        assert_eq!(
            status["message"],
            "policy 'p' with binding 'p-binding' denied request: type mismatch: unexpected type name \"Object.spec\", expected \
             \"Object.metadata\", which matches field name path from root Object type"
        );
        cluster.stop().await;
    });
}

#[test]
fn values_of_patches_are_converted_like_protobuf() {
    run(async {
        let cluster = Cluster::start().await;
        let patch = "[JSONPatch{op: 'add', path: '/data', value: {'bytes': b'abc'}}, \
            JSONPatch{op: 'add', path: '/metadata/annotations', value: {'d': duration('90s')}}]";
        let spec = json!({"matchConstraints": writes("", "v1", "secrets"), "mutations": [patches(patch)]});
        create(&cluster, "p", spec, json!({})).await;
        let secret = json!({"metadata": {"name": "s"}}).to_string();
        let object = cluster.post("/api/v1/namespaces/default/secrets", secret).await.expect(201).json();
        assert_eq!(object["data"], json!({"bytes": "YWJj"}));
        assert_eq!(object["metadata"]["annotations"], json!({"d": "90s"}));
        mutate(&cluster, "nan", json!([patches("[JSONPatch{op: 'add', path: '/data', value: 0.0 / 0.0}]")])).await;
        let status = cluster.post(CONFIGMAPS, configmap("c", json!({}))).await.expect(403).json();
        assert_eq!(
            status["message"],
            "policy 'nan' with binding 'nan-binding' denied request: JSONPath valueExpression evaluated to a type that could \
             not marshal to JSON: google.protobuf.Value.number_value: invalid NaN value"
        );
        cluster.stop().await;
    });
}

#[test]
fn configurations_keep_large_integers() {
    run(async {
        let cluster = Cluster::start().await;
        let expression = "Object{spec: Object.spec{activeDeadlineSeconds: 9007199254740993}}";
        let spec = json!({"matchConstraints": writes("batch", "v1", "jobs"), "mutations": [applies(expression)]});
        create(&cluster, "p", spec, json!({})).await;
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "registry.example.com/a:1"}]});
        let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}}).to_string();
        let object = cluster.post("/apis/batch/v1/namespaces/default/jobs", job).await.expect(201).json();
        assert_eq!(object["spec"]["activeDeadlineSeconds"], 9_007_199_254_740_993_i64);
        cluster.stop().await;
    });
}

#[test]
fn objects_without_a_schema_cannot_be_merged() {
    run(async {
        let cluster = Cluster::start().await;
        let expression = "Object{data: Object.data{list: ['x']}}";
        let rules = writes("apps", "v1", "controllerrevisions");
        let spec = json!({"matchConstraints": rules, "mutations": [applies(expression)]});
        create(&cluster, "p", spec, json!({})).await;
        let revision = json!({"metadata": {"name": "r"}, "revision": 1, "data": {"kept": "x"}}).to_string();
        let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
        let status = cluster.post(path, revision).await.expect(403).json();
        assert_eq!(
            status["message"],
            "policy 'p' with binding 'p-binding' denied request: error applying patch: invalid ApplyConfiguration: may not \
             mutate atomic arrays, maps or structs: .data"
        );
        cluster.stop().await;
    });
}
