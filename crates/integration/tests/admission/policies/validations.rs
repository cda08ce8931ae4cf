//! Validations: the inputs of expressions, their messages and reasons, variables, match conditions and failures.

use pintle_integration::{Cluster, run};
use serde_json::json;

use super::{
    BINDINGS, CONFIGMAPS, DEPLOYMENTS, GROUP, POLICIES, allow, binding, configmap, constraints, create, denied,
    deployment, enforce, policy, send_as, start_with_users, warnings,
};

#[test]
fn validations_deny_with_their_message() {
    run(async {
        let cluster = Cluster::start().await;
        let validations = json!([
            {"expression": "!('a' in object.data) || object.data['a'] != 'plain'"},
            {"expression": "!('a' in object.data) || object.data['a'] != 'text'", "message": " a must not be text "},
            {"expression": "!('a' in object.data) || object.data['a'] != 'cel'",
                "messageExpression": "'a must not be ' + object.data['a']", "message": "unused"},
            {"expression": "!('a' in object.data) || object.data['a'] != 'broken'",
                "messageExpression": "string(object.nothing)", "message": "used instead"},
        ]);
        enforce(&cluster, "p", json!({"validations": validations})).await;
        for (data, message) in [
            ("plain", "failed expression: !('a' in object.data) || object.data['a'] != 'plain'"),
            ("text", "a must not be text"),
            ("cel", "a must not be cel"),
            ("broken", "used instead"),
        ] {
            denied(cluster.post(CONFIGMAPS, configmap("c", json!({"a": data}))).await, "c", "p", message);
            let dry_run = format!("{CONFIGMAPS}?dryRun=All");
            denied(cluster.post(&dry_run, configmap("c", json!({"a": data}))).await, "c", "p", message);
        }
        let _ = cluster.post(CONFIGMAPS, configmap("c", json!({"a": "fine"}))).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn a_denial_has_the_reason_of_its_validation() {
    run(async {
        let cluster = Cluster::start().await;
        let of = |reason: &str| json!({"expression": format!("object.data['reason'] != '{reason}'"), "reason": reason});
        let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        enforce(&cluster, "p", json!({"validations": reasons.map(of)})).await;
        for (reason, code) in reasons.into_iter().zip([403, 422, 413]) {
            let status = cluster.post(CONFIGMAPS, configmap("c", json!({"reason": reason}))).await.expect(code).json();
            let message = format!(
                "ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: failed expression: \
                 object.data['reason'] != '{reason}'"
            );
            let expect = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
                "message": format!("configmaps \"c\" is forbidden: {message}"),
                "details": {"name": "c", "kind": "configmaps", "causes": [{"message": message}]},
            });
            assert_eq!(status, expect);
        }
        cluster.stop().await;
    });
}

#[test]
fn expressions_see_every_kind_of_write() {
    run(async {
        let cluster = Cluster::start().await;
        let validations = json!([
            {"expression": "request.operation != 'CREATE' || oldObject == null && object.kind == 'ConfigMap' && \
                object.apiVersion == 'v1' && request.name == 'c' && request.namespace == 'default' && \
                request.resource.resource == 'configmaps' && request.options.kind == 'CreateOptions' && !request.dryRun"},
            {"expression": "request.operation != 'UPDATE' || object.data.n != oldObject.data.n", "message": "n must change"},
            {"expression": "request.operation != 'DELETE' || object == null && oldObject.data.n != 'keep'", "message": "kept"},
            {"expression": "request.userInfo.groups.exists(g, g == 'system:masters')"},
        ]);
        enforce(&cluster, "p", json!({"validations": validations})).await;
        let object = format!("{CONFIGMAPS}/c");
        let _ = cluster.post(CONFIGMAPS, configmap("c", json!({"n": "1"}))).await.expect(201);
        let _ = cluster.put(&object, configmap("c", json!({"n": "keep"}))).await.expect(200);
        denied(cluster.put(&object, configmap("c", json!({"n": "keep"}))).await, "c", "p", "n must change");
        let merge = "merge";
        denied(cluster.patch(&object, merge, r#"{"data":{"x":"y"}}"#).await, "c", "p", "n must change");
        denied(cluster.delete(&object).await, "c", "p", "kept");
        // Deletes of a collection have no name.
        denied(cluster.delete(CONFIGMAPS).await, "Unknown", "p", "kept");
        let _ = cluster.patch(&object, merge, r#"{"data":{"n":"2"}}"#).await.expect(200);
        let _ = cluster.delete(&object).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn variables_are_shared_by_expressions() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({
            "matchConstraints": constraints("apps", "v1", "deployments"),
            "variables": [
                {"name": "containers", "expression": "object.spec.template.spec.containers"},
                {"name": "bad", "expression": "variables.containers.filter(c, !c.image.startsWith('registry.example.com/'))"},
            ],
            "validations": [
                {"expression": "object.spec.replicas <= 5", "messageExpression": "'at most 5 replicas, not ' + string(object.spec.replicas)"},
                {"expression": "variables.bad.size() == 0", "messageExpression": "'bad images: ' + variables.bad.map(c, c.image).join(', ')"},
            ],
        });
        enforce(&cluster, "p", spec).await;
        let _ = cluster.post(DEPLOYMENTS, deployment("d", 3)).await.expect(201);
        let prefix = "deployments.apps \"e\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: ";
        let response = cluster.post(DEPLOYMENTS, deployment("e", 6)).await;
        response.expect_error(422, "Invalid", &format!("{prefix}at most 5 replicas, not 6"));
        let response = cluster.post(DEPLOYMENTS, deployment("e", 1).replace("registry", "other")).await;
        response.expect_error(422, "Invalid", &format!("{prefix}bad images: other.example.com/a:1"));
        cluster.stop().await;
    });
}

#[test]
fn subresources_are_matched_by_their_own_rules() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({
            "matchConstraints": constraints("apps", "v1", "deployments/scale"),
            "validations": [{"expression": "object.kind == 'Scale' && request.subResource == 'scale' && \
                object.spec.replicas <= 3", "message": "too large"}],
        });
        enforce(&cluster, "p", spec).await;
        let _ = cluster.post(DEPLOYMENTS, deployment("d", 7)).await.expect(201);
        let scale = format!("{DEPLOYMENTS}/d/scale");
        let body = |replicas: u32| json!({"metadata": {"name": "d"}, "spec": {"replicas": replicas}}).to_string();
        let message = "deployments.apps \"d\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: too large";
        cluster.put(&scale, body(4)).await.expect_error(422, "Invalid", message);
        let _ = cluster.put(&scale, body(2)).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn equivalent_versions_are_converted_for_a_policy() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({
            "matchConstraints": constraints("autoscaling", "v1", "horizontalpodautoscalers"),
            "validations": [{"expression": "object.apiVersion == 'autoscaling/v1' && \
                object.spec.targetCPUUtilizationPercentage < 50 && request.kind.version == 'v1' && \
                request.requestKind.version == 'v2'", "message": "denied"}],
        });
        enforce(&cluster, "p", spec).await;
        let autoscaler = |percent: u32| {
            let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}});
            let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
            json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target, "metrics": [metric]}}).to_string()
        };
        let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
        let message = "horizontalpodautoscalers.autoscaling \"h\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: denied";
        cluster.post(path, autoscaler(60)).await.expect_error(422, "Invalid", message);
        let _ = cluster.post(path, autoscaler(40)).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn match_conditions_exempt_requests() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({
            "matchConditions": [
                {"name": "not-exempt", "expression": "!has(object.metadata.labels) || !('exempt' in object.metadata.labels)"},
                {"name": "has-kind", "expression": "object.data.kind == 'checked'"},
            ],
            "validations": [{"expression": "false", "message": "denied"}],
        });
        enforce(&cluster, "p", spec).await;
        let _ = cluster.post(CONFIGMAPS, configmap("a", json!({"kind": "other"}))).await.expect(201);
        let exempt = json!({"metadata": {"name": "b", "labels": {"exempt": ""}}, "data": {"kind": "checked"}});
        let _ = cluster.post(CONFIGMAPS, exempt.to_string()).await.expect(201);
        denied(cluster.post(CONFIGMAPS, configmap("c", json!({"kind": "checked"}))).await, "c", "p", "denied");
        // A condition with an error is subject to the failure policy.
        let why = "expression 'object.data.kind == 'checked'' resulted in error: no such key: kind";
        denied(cluster.post(CONFIGMAPS, configmap("c", json!({"a": "b"}))).await, "c", "p", why);
        cluster.stop().await;
    });
}

#[test]
fn the_failure_policy_decides_about_errors() {
    run(async {
        let cluster = Cluster::start().await;
        let validations = json!([{"expression": "object.data.missing == 'x'"}]);
        enforce(&cluster, "fail", json!({"validations": validations})).await;
        let why = "expression 'object.data.missing == 'x'' resulted in error: no such key: missing";
        denied(cluster.post(CONFIGMAPS, configmap("c", json!({"a": "b"}))).await, "c", "fail", why);
        let _ = cluster.delete(&format!("{POLICIES}/fail")).await.expect(200);
        enforce(&cluster, "ignore", json!({"failurePolicy": "Ignore", "validations": validations})).await;
        let _ = cluster.post(CONFIGMAPS, configmap("c", json!({"a": "b"}))).await.expect(201);
        denied(
            cluster.post(CONFIGMAPS, configmap("d", json!({"missing": "b"}))).await,
            "d",
            "ignore",
            "failed expression: object.data.missing == 'x'",
        );
        let metrics = cluster.get("/metrics").await.expect(200).text();
        for (action, policy) in [("deny", "fail"), ("allow", "ignore"), ("deny", "ignore")] {
            let series = format!(
                "apiserver_validating_admission_policy_check_total{{enforcement_action=\"{action}\",error_type=\"invalid_error\",\
                 policy=\"{policy}\",policy_binding=\"{policy}-binding\"}} 1"
            );
            assert!(metrics.contains(&series), "{series}");
        }
        cluster.stop().await;
    });
}

#[test]
fn the_cost_of_expressions_is_limited() {
    run(async {
        let cluster = Cluster::start().await;
        let expression =
            "object.data.text.split('').all(x, object.data.text.split('').all(y, object.data.text.contains(x)))";
        enforce(&cluster, "p", json!({"validations": [{"expression": expression}]})).await;
        let text = "ab".repeat(2_000);
        let why =
            format!("expression '{expression}' resulted in error: operation cancelled: actual cost limit exceeded");
        denied(cluster.post(CONFIGMAPS, configmap("c", json!({"text": text}))).await, "c", "p", &why);
        cluster.stop().await;
    });
}

#[test]
fn the_namespace_is_visible() {
    run(async {
        let cluster = Cluster::start().await;
        let namespace = json!({"metadata": {"name": "prod", "labels": {"env": "prod"}}});
        let _ = cluster.post("/api/v1/namespaces", namespace.to_string()).await.expect(201);
        let spec = json!({"validations": [{
            "expression": "!has(namespaceObject.metadata.labels) || !('env' in namespaceObject.metadata.labels)",
            "messageExpression": "'not in ' + namespaceObject.metadata.labels.env + ' ' + namespaceObject.status.phase",
        }]});
        enforce(&cluster, "p", spec).await;
        let _ = cluster.post(CONFIGMAPS, configmap("c", json!({}))).await.expect(201);
        let path = "/api/v1/namespaces/prod/configmaps";
        denied(cluster.post(path, configmap("c", json!({}))).await, "c", "p", "not in prod Active");
        cluster.stop().await;
    });
}

#[test]
fn expressions_ask_the_authorizer() {
    run(async {
        let cluster = start_with_users().await;
        let maps = json!({"verbs": ["create"], "apiGroups": [""], "resources": ["configmaps"]});
        let privileged = json!({"verbs": ["privileged"], "apiGroups": ["example.com"], "resources": ["checks"], "resourceNames": ["c"]});
        allow(&cluster, "alice", json!([maps, privileged])).await;
        allow(&cluster, "bob", json!([maps])).await;
        let spec = json!({"validations": [
            {"expression": "authorizer.requestResource.check('create').allowed()"},
            {"expression": "authorizer.group('example.com').resource('checks').name(object.metadata.name).check('privileged').allowed()",
                "message": "not privileged"},
            {"expression": "!authorizer.serviceAccount('default', 'nobody').path('/metrics').check('get').allowed()"},
        ]});
        enforce(&cluster, "p", spec).await;
        let send = |user: &'static str, name: &'static str| {
            let body = json!({"metadata": {"name": name}});
            send_as(&cluster, user, "POST", CONFIGMAPS, body)
        };
        let _ = send("alice", "c").await.expect(201);
        denied(send("alice", "d").await, "d", "p", "not privileged");
        denied(send("bob", "c").await, "c", "p", "not privileged");
        cluster.stop().await;
    });
}

#[test]
fn bindings_warn_and_audit_instead_of_denying() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({
            "validations": [{"expression": "false", "message": "first"}, {"expression": "false", "message": "second"}],
            "auditAnnotations": [{"key": "name", "valueExpression": "string(object.metadata.name)"}],
        });
        create(&cluster, policy("p", spec), binding("p", json!({"validationActions": ["Warn", "Audit"]}))).await;
        let response = cluster.post(CONFIGMAPS, configmap("c", json!({}))).await.expect(201);
        let warning = |message: &str| {
            format!("Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p-binding': {message}")
        };
        assert_eq!(warnings(&response), [warning("first"), warning("second")]);
        // Changes of bindings are in force at once.
        let path = format!("{BINDINGS}/p-binding");
        let patch = r#"{"spec":{"validationActions":["Deny"]}}"#;
        let _ = cluster.patch(&path, "merge", patch).await.expect(200);
        denied(cluster.post(CONFIGMAPS, configmap("d", json!({}))).await, "d", "p", "first");
        let _ = cluster.delete(&path).await.expect(200);
        assert!(warnings(&cluster.post(CONFIGMAPS, configmap("d", json!({}))).await.expect(201)).is_empty());
        cluster.stop().await;
    });
}

#[test]
fn an_audit_annotation_that_fails_denies() {
    run(async {
        let cluster = Cluster::start().await;
        let annotations = json!([{"key": "k", "valueExpression": "string(object.data.missing)"}]);
        let spec = json!({"auditAnnotations": annotations});
        create(&cluster, policy("p", spec), binding("p", json!({"validationActions": ["Audit"]}))).await;
        let response = cluster.post(CONFIGMAPS, configmap("c", json!({"a": "b"}))).await;
        let _ = response.expect(422);
        cluster.stop().await;
    });
}

#[test]
fn policies_do_not_apply_to_admission_configuration() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({
            "matchConstraints": constraints("*", "*", "*"),
            "validations": [{"expression": "false", "message": "never"}],
        });
        enforce(&cluster, "p", spec).await;
        denied(cluster.post(CONFIGMAPS, configmap("c", json!({}))).await, "c", "p", "never");
        let _ = cluster.delete(&format!("{BINDINGS}/p-binding")).await.expect(200);
        let _ = cluster.delete(&format!("{POLICIES}/p")).await.expect(200);
        let _ = cluster.post(CONFIGMAPS, configmap("c", json!({}))).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn policies_apply_to_webhook_configurations() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({
            "matchConstraints": constraints("admissionregistration.k8s.io", "*", "*"),
            "validations": [{"expression": "false", "message": "never"}],
        });
        enforce(&cluster, "p", spec).await;
        for (resource, kind) in [
            ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
            ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        ] {
            let body =
                json!({"kind": kind, "apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "w"}});
            let message = format!(
                "{resource}.admissionregistration.k8s.io \"w\" is forbidden: ValidatingAdmissionPolicy 'p' with binding \
                 'p-binding' denied request: never"
            );
            let response = cluster.post(&format!("{GROUP}/{resource}"), body.to_string()).await;
            response.expect_error(422, "Invalid", &message);
        }
        cluster.stop().await;
    });
}

#[test]
fn policies_do_not_apply_to_reviews() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({
            "matchConstraints": constraints("*", "*", "*"),
            "validations": [{"expression": "false", "message": "never"}],
        });
        enforce(&cluster, "p", spec).await;
        let attributes = json!({"verb": "get", "resource": "pods", "namespace": "default"});
        for (path, spec) in [
            ("authentication.k8s.io/v1/selfsubjectreviews", json!({})),
            ("authentication.k8s.io/v1/tokenreviews", json!({"token": "x"})),
            ("authorization.k8s.io/v1/selfsubjectaccessreviews", json!({"resourceAttributes": attributes})),
            ("authorization.k8s.io/v1/subjectaccessreviews", json!({"user": "u", "resourceAttributes": attributes})),
            (
                "authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
                json!({"user": "u", "resourceAttributes": attributes}),
            ),
            ("authorization.k8s.io/v1/selfsubjectrulesreviews", json!({"namespace": "default"})),
        ] {
            let response = cluster.post(&format!("/apis/{path}"), json!({"spec": spec}).to_string()).await;
            assert_eq!(response.status, 201, "{path}: {}", response.text());
        }
        denied(cluster.post(CONFIGMAPS, configmap("c", json!({}))).await, "c", "p", "never");
        cluster.stop().await;
    });
}

#[test]
fn match_conditions_see_the_requested_resource_with_the_matched_kind() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({
            "matchConstraints": constraints("autoscaling", "v1", "horizontalpodautoscalers"),
            "matchConditions": [{"name": "a", "expression": "request.kind.version == 'v1' && request.resource.version == 'v2'"}],
            "validations": [{
                "expression": "request.kind.version != 'v1' || request.resource.version != 'v1'", "message": "matched",
            }],
        });
        enforce(&cluster, "p", spec).await;
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let body = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}).to_string();
        let message = "horizontalpodautoscalers.autoscaling \"h\" is forbidden: ValidatingAdmissionPolicy 'p' with binding \
            'p-binding' denied request: matched";
        let path = |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
        cluster.post(&path("v2"), body.as_str()).await.expect_error(422, "Invalid", message);
        let _ = cluster.post(&path("v1"), body.as_str()).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn namespaces_and_their_subresources_have_no_namespace_object() {
    run(async {
        let cluster = Cluster::start().await;
        let mut rules = constraints("", "v1", "namespaces");
        rules["resourceRules"][0]["resources"] = json!(["namespaces", "namespaces/status"]);
        let spec = json!({"matchConstraints": rules, "validations": [{"expression": "namespaceObject == null"}]});
        enforce(&cluster, "p", spec).await;
        let patch = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        let _ = cluster.patch("/api/v1/namespaces/default", "merge", patch).await.expect(200);
        let _ = cluster.patch("/api/v1/namespaces/default/status", "merge", patch).await.expect(200);
        cluster.stop().await;
    });
}
