//! Type checking of policies against the schemas of the kinds that they match, with warnings in their status.

use pintle_integration::{Cluster, Options, run};
use serde_json::{Value, json};

use super::{POLICIES, constraints, policy};

async fn start() -> Cluster {
    Cluster::with_options(Options { policy_type_checks: true, ..Options::default() }).await
}

/// Creates a policy and waits until its expressions have been checked.
async fn checked(cluster: &Cluster, spec: Value) -> Value {
    let _ = cluster.post(POLICIES, policy("p", spec).to_string()).await.expect(201);
    wait_for_generation(cluster, 1).await
}

async fn wait_for_generation(cluster: &Cluster, generation: i64) -> Value {
    let mut watch = cluster.watch(&format!("{POLICIES}?watch=1&fieldSelector=metadata.name%3Dp")).await;
    loop {
        let event = watch.next().await.expect("an event");
        if event["object"]["status"]["observedGeneration"] == json!(generation) {
            return event["object"].clone();
        }
    }
}

fn warning(field: &str, kind: &str, text: &str) -> Value {
    json!({"fieldRef": format!("spec.validations[0].{field}"), "warning": format!("{kind}: {text}\n")})
}

#[test]
fn ill_typed_expressions_have_warnings() {
    run(async {
        let cluster = start().await;
        let spec = json!({
            "matchConstraints": constraints("apps", "v1", "deployments"),
            "variables": [{"name": "labels", "expression": "object.metadata.labels"}],
            "validations": [{
                "expression": "object.replicas > 1",
                "messageExpression": "'at most ' + object.spec.replicas",
            }, {"expression": "object.metadata.namespace != 'x' && variables.labels.app == 'a' && \
                object.spec.template.spec.containers.all(c, c.name.startsWith('a')) && object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')"}],
        });
        let object = checked(&cluster, spec).await;
        let undefined = "ERROR: <input>:1:7: undefined field 'replicas'\n | object.replicas > 1\n | ......^";
        let mismatch = "ERROR: <input>:1:12: found no matching overload for '_+_' applied to '(string, int)'\n | 'at most ' + object.spec.replicas\n | ...........^";
        let kind = "apps/v1, Kind=Deployment";
        assert_eq!(
            object["status"]["typeChecking"],
            json!({"expressionWarnings": [
                warning("expression", kind, undefined),
                warning("messageExpression", kind, mismatch),
            ]})
        );
        let owner = object["metadata"]["managedFields"].as_array().expect("managed fields").iter();
        let owner = owner.filter(|entry| entry["subresource"] == "status").collect::<Vec<_>>();
        assert_eq!(owner.len(), 1);
        assert_eq!(
            (&owner[0]["manager"], &owner[0]["operation"]),
            (&json!("validatingadmissionpolicy-status"), &json!("Apply"))
        );
        // The controller checks the policy again after a change of its spec.
        let patch = json!({"spec": {"validations": [{"expression": "object.spec.replicas > 1"}]}});
        let _ = cluster.patch(&format!("{POLICIES}/p"), "merge", patch.to_string()).await.expect(200);
        let object = wait_for_generation(&cluster, 2).await;
        assert_eq!(object["status"], json!({"observedGeneration": 2}));
        cluster.stop().await;
    });
}

#[test]
fn params_and_several_kinds_are_checked() {
    run(async {
        let cluster = start().await;
        let rules = json!({"resourceRules": [{
            "operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments", "replicasets", "*/scale"],
        }]});
        let spec = json!({
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": rules,
            "validations": [{"expression": "params.nothing == 'x'"}],
        });
        let object = checked(&cluster, spec).await;
        let text = "ERROR: <input>:1:7: undefined field 'nothing'\n | params.nothing == 'x'\n | ......^";
        let warning = object["status"]["typeChecking"]["expressionWarnings"][0]["warning"].as_str().expect("a warning");
        assert_eq!(warning, format!("apps/v1, Kind=Deployment: {text}\n\napps/v1, Kind=ReplicaSet: {text}\n"));
        cluster.stop().await;
    });
}

#[test]
fn wildcards_and_unknown_kinds_are_not_checked() {
    run(async {
        let cluster = start().await;
        let rules = json!({"resourceRules": [
            {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["deployments"]},
            {"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"]},
        ]});
        let object = checked(
            &cluster,
            json!({"matchConstraints": rules, "validations": [{"expression": "object.nothing == 1"}]}),
        )
        .await;
        assert_eq!(object["status"]["typeChecking"], json!({}));
        cluster.stop().await;
    });
}

/// Waits until the warnings in the status of the policy are these.
async fn wait_for_warnings(cluster: &Cluster, warnings: Value) {
    let mut watch = cluster.watch(&format!("{POLICIES}?watch=1&fieldSelector=metadata.name%3Dp")).await;
    while watch.next().await.expect("an event")["object"]["status"]["typeChecking"]["expressionWarnings"] != warnings {}
}

#[test]
fn policies_are_checked_again_when_their_crds_change() {
    run(async {
        const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let cluster = start().await;
        let spec = json!({
            "matchConstraints": constraints("example.com", "v1", "widgets"),
            "validations": [{"expression": "object.size > 1"}],
        });
        let object = checked(&cluster, spec).await;
        assert_eq!(object["status"]["typeChecking"], json!({}));

        let crd = |ty: &str| {
            json!({
                "metadata": {"name": "widgets.example.com"},
                "spec": {
                    "group": "example.com",
                    "scope": "Namespaced",
                    "names": {"plural": "widgets", "kind": "Widget"},
                    "versions": [{
                        "name": "v1",
                        "served": true,
                        "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": ty}}}},
                    }],
                },
            })
        };
        let _ = cluster.post(CRDS, crd("string").to_string()).await.expect(201);
        let text = "ERROR: <input>:1:13: found no matching overload for '_>_' applied to '(string, int)'\n | object.size > 1\n | ............^";
        let warnings = json!([warning("expression", "example.com/v1, Kind=Widget", text)]);
        wait_for_warnings(&cluster, warnings.clone()).await;

        let path = format!("{CRDS}/widgets.example.com");
        let patch = |ty: &str| crd(ty).to_string();
        let change = async |ty: &str| {
            let request = cluster.request("PATCH", &path).body("application/merge-patch+json", patch(ty));
            let _ = request.send().await.expect(200);
        };
        change("integer").await;
        wait_for_warnings(&cluster, Value::Null).await;
        change("string").await;
        wait_for_warnings(&cluster, warnings).await;
        let _ = cluster.delete(&path).await.expect(200);
        wait_for_warnings(&cluster, Value::Null).await;
        cluster.stop().await;
    });
}

#[test]
fn the_empty_group_stands_for_all_groups() {
    run(async {
        let cluster = start().await;
        let spec = json!({
            "matchConstraints": constraints("", "v1", "deployments"),
            "validations": [{"expression": "object.nothing == 1"}],
        });
        let object = checked(&cluster, spec).await;
        let text = "ERROR: <input>:1:7: undefined field 'nothing'\n | object.nothing == 1\n | ......^";
        let warnings = json!([warning("expression", "apps/v1, Kind=Deployment", text)]);
        assert_eq!(object["status"]["typeChecking"], json!({"expressionWarnings": warnings}));
        cluster.stop().await;
    });
}

#[test]
fn warnings_are_required_but_may_be_blank() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({"validations": [{"expression": "true"}]});
        let _ = cluster.post(POLICIES, policy("p", spec).to_string()).await.expect(201);
        for (text, status) in [(" ", 200), ("", 422)] {
            let warning = json!({"fieldRef": "spec.validations[0].expression", "warning": text});
            let patch = json!({"status": {"typeChecking": {"expressionWarnings": [warning]}}}).to_string();
            let _ = cluster.patch(&format!("{POLICIES}/p/status"), "merge", patch).await.expect(status);
        }
        cluster.stop().await;
    });
}
