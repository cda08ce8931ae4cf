//! Policies and bindings that the server refuses, and the permissions to write them.

use pintle_integration::{Cluster, run};
use serde_json::{Value, json};

use super::{BINDINGS, GROUP, POLICIES, allow, binding, policy, send_as, start_with_users};

#[test]
fn invalid_expressions_are_refused() {
    run(async {
        let cluster = Cluster::start().await;
        let check = |spec: Value, why: &str| {
            let message = format!("ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: {why}");
            let body = policy("p", spec).to_string();
            let cluster = &cluster;
            async move { cluster.post(POLICIES, body).await.expect_error(422, "Invalid", &message) }
        };
        check(
            json!({"validations": [{"expression": "object.a"}]}),
            "spec.validations[0].expression: Invalid value: \"object.a\": must evaluate to bool but got dyn",
        )
        .await;
        check(
            json!({"variables": [{"name": "in", "expression": "1"}], "validations": [{"expression": "variables.x"}]}),
            "[spec.variables[0].name: Invalid value: \"in\": name is not a valid CEL identifier, \
             spec.validations[0].expression: Invalid value: \"variables.x\": compilation failed: ERROR: <input>:1:10: \
             undefined field 'x'\n | variables.x\n | .........^]",
        )
        .await;
        check(
            json!({"paramKind": {"apiVersion": "v1"}, "validations": [{"expression": "params.x == 1"}]}),
            "spec.paramKind.kind: Required value",
        )
        .await;
        let webhook = json!({"metadata": {"name": "w"}, "webhooks": [{
            "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://example.com"}, "matchConditions": [{"name": "a", "expression": "params.x"}],
        }]});
        let path = format!("{GROUP}/validatingwebhookconfigurations");
        cluster.post(&path, webhook.to_string()).await.expect_error(
            422,
            "Invalid",
            "ValidatingWebhookConfiguration.admissionregistration.k8s.io \"w\" is invalid: \
             webhooks[0].matchConditions[0].expression: Invalid value: \"params.x\": compilation failed: ERROR: \
             <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x\n | ^",
        );
        cluster.stop().await;
    });
}

#[test]
fn who_writes_a_policy_must_be_able_to_read_its_params() {
    run(async {
        let cluster = start_with_users().await;
        let policies = json!({"verbs": ["*"], "apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"]});
        let maps = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]});
        allow(&cluster, "alice", json!([policies])).await;
        allow(&cluster, "bob", json!([policies, maps])).await;
        let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        let with_params = policy("p", json!({"paramKind": kind, "validations": [{"expression": "true"}]}));
        let without = policy("q", json!({"validations": [{"expression": "true"}]}));
        send_as(&cluster, "alice", "POST", POLICIES, with_params.clone()).await.expect_error(
            422,
            "Invalid",
            "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: spec.paramKind: Forbidden: user \
             &{alice 1 [dev system:authenticated] map[]} must have \"get\" permission on all objects of the referenced \
             paramKind (kind=ConfigMap, apiVersion=v1)",
        );
        let _ = send_as(&cluster, "alice", "POST", POLICIES, without).await.expect(201);
        let _ = send_as(&cluster, "bob", "POST", POLICIES, with_params).await.expect(201);
        let reference = json!({"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"});
        let bound = binding("p", json!({"paramRef": reference}));
        send_as(&cluster, "alice", "POST", BINDINGS, bound.clone()).await.expect_error(
            422,
            "Invalid",
            "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io \"p-binding\" is invalid: spec.paramRef: \
             Forbidden: user get does not have \"&{alice 1 [dev system:authenticated] map[]}\" permission on the object \
             referenced by paramRef",
        );
        let _ = send_as(&cluster, "bob", "POST", BINDINGS, bound).await.expect(201);
        let selector = json!({"selector": {}, "parameterNotFoundAction": "Deny"});
        let selecting = binding("p", json!({"paramRef": selector})).to_string().replace("p-binding", "other");
        let selecting: Value = serde_json::from_str(&selecting).expect("JSON");
        let _ = send_as(&cluster, "bob", "POST", BINDINGS, selecting).await.expect(422);
        // Labels can be changed without access to the parameters, unless the binding has parameters.
        let patch = json!({"metadata": {"labels": {"a": "b"}}});
        let merge = |path: &'static str| {
            let request = cluster.request("PATCH", path).anonymous().header("Authorization", "Bearer alice");
            request.body("application/merge-patch+json", patch.to_string()).send()
        };
        let _ = merge("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/p").await.expect(200);
        let _ = merge("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/p-binding")
            .await
            .expect(422);
        cluster.stop().await;
    });
}
