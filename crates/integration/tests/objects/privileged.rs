//! Privileged containers, which `--allow-privileged=false` forbids in pods and in all templates of pods.

use pintle_integration::{Cluster, Options, run};
use serde_json::{Value, json};

const FORBIDDEN: &str = "securityContext.privileged: Forbidden: disallowed by cluster policy";

async fn start(allow_privileged: bool) -> Cluster {
    Cluster::with_options(Options { allow_privileged, ..Options::default() }).await
}

fn container(privileged: bool) -> Value {
    json!({"name": "c", "image": "i", "securityContext": {"privileged": privileged}})
}

/// The objects with a template, each with the path of its collection and of the template's spec.
fn workloads(containers: &[Value], init: &[Value]) -> Vec<(&'static str, &'static str, Value)> {
    let template = |policy: &str| {
        json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {"restartPolicy": policy, "containers": containers, "initContainers": init},
        })
    };
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template("Always")});
    let job = json!({"template": template("Never")});
    let object = |spec: Value| json!({"metadata": {"name": "o"}, "spec": spec});
    vec![
        ("/api/v1/namespaces/default/pods", "spec", object(template("Always")["spec"].clone())),
        (
            "/api/v1/namespaces/default/podtemplates",
            "template.spec",
            json!({"metadata": {"name": "o"}, "template": template("Always")}),
        ),
        (
            "/api/v1/namespaces/default/replicationcontrollers",
            "spec.template.spec",
            object(json!({"selector": {"a": "b"}, "template": template("Always")})),
        ),
        ("/apis/apps/v1/namespaces/default/deployments", "spec.template.spec", object(spec.clone())),
        ("/apis/apps/v1/namespaces/default/replicasets", "spec.template.spec", object(spec.clone())),
        ("/apis/apps/v1/namespaces/default/daemonsets", "spec.template.spec", object(spec.clone())),
        ("/apis/apps/v1/namespaces/default/statefulsets", "spec.template.spec", object(spec)),
        ("/apis/batch/v1/namespaces/default/jobs", "spec.template.spec", object(job.clone())),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            "spec.jobTemplate.spec.template.spec",
            object(json!({"schedule": "0 0 * * *", "jobTemplate": {"spec": job}})),
        ),
    ]
}

#[test]
fn privileged_containers_are_forbidden_in_pods_and_templates_unless_they_are_allowed() {
    run(async {
        let cluster = start(false).await;
        for (path, field, object) in workloads(&[container(true)], &[]) {
            let status = cluster.post(path, object.to_string()).await.expect(422).json();
            let message = status["message"].as_str().expect("a message");
            assert!(message.ends_with(&format!("\"o\" is invalid: {field}.containers[0].{FORBIDDEN}")), "{message}");
        }
        for (path, field, object) in workloads(&[container(false)], &[container(true)]) {
            let status = cluster.post(path, object.to_string()).await.expect(422).json();
            let causes = status["details"]["causes"].as_array().expect("causes");
            let of_init = format!("{field}.initContainers[0].securityContext.privileged");
            assert!(causes.iter().any(|cause| cause["field"] == of_init.as_str()), "{status}");
        }
        for (path, _, object) in workloads(&[container(false)], &[]) {
            let _ = cluster.post(path, object.to_string()).await.expect(201);
        }
        cluster.stop().await;
        let cluster = start(true).await;
        for (path, _, object) in workloads(&[container(true)], &[]) {
            let _ = cluster.post(path, object.to_string()).await.expect(201);
        }
        cluster.stop().await;
    });
}

#[test]
fn a_privileged_ephemeral_container_is_forbidden() {
    run(async {
        let cluster = start(false).await;
        let pods = "/api/v1/namespaces/default/pods";
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container(false)]}});
        let _ = cluster.post(pods, pod.to_string()).await.expect(201);
        let path = format!("{pods}/p/ephemeralcontainers");
        let ephemeral = |privileged: bool| {
            let mut container = container(privileged);
            container["name"] = "e".into();
            json!({"spec": {"ephemeralContainers": [container]}}).to_string()
        };
        let message = format!("Pod \"p\" is invalid: spec.ephemeralContainers[0].{FORBIDDEN}");
        cluster.patch(&path, "strategic-merge", ephemeral(true)).await.expect_error(422, "Invalid", &message);
        let _ = cluster.patch(&path, "strategic-merge", ephemeral(false)).await.expect(200);
        cluster.stop().await;
    });
}
