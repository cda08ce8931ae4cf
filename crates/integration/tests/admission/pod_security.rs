//! The Pod Security Standards from a client's view: refused pods, warnings about workloads and about existing pods,
//! labels of namespaces, exemptions. Tests in `pintle-admission` compare each check with upstream.

use std::collections::BTreeMap;

use pintle::Options;
use pintle_admission::AdmissionConfiguration;
use pintle_integration::{Cluster, Response, run};
use serde_json::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/namespaces/n/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/n/deployments";

/// The violations of the level restricted by a container that sets no field.
const PLAIN_POD: &str = "allowPrivilegeEscalation != false (container \"a\" must set \
     securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"a\" must set \
     securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"a\" must set \
     securityContext.runAsNonRoot=true), seccompProfile (pod or container \"a\" must set \
     securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

/// A namespace with labels of a policy. The labels are given without their prefix.
fn namespace(labels: &[(&str, &str)]) -> String {
    let labels: BTreeMap<String, &str> =
        labels.iter().map(|(name, value)| (format!("pod-security.kubernetes.io/{name}"), *value)).collect();
    json!({"metadata": {"name": "n", "labels": labels}}).to_string()
}

/// A pod with a container `a`, changed by a merge of its spec.
fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    for (key, value) in spec.as_object().expect("an object") {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn plain_pod(name: &str) -> String {
    pod(name, &json!({})).to_string()
}

fn host_pod(name: &str) -> String {
    pod(name, &json!({"hostNetwork": true})).to_string()
}

fn restricted_pod(name: &str) -> Value {
    let container = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    pod(
        name,
        &json!({
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "a", "image": "i", "securityContext": container}],
        }),
    )
}

fn deployment(template: &str) -> String {
    let mut template: Value = serde_json::from_str(template).expect("a pod");
    template["metadata"] = json!({"labels": {"app": "d"}});
    let selector = json!({"matchLabels": {"app": "d"}});
    json!({"metadata": {"name": "d"}, "spec": {"selector": selector, "template": template}}).to_string()
}

fn warnings(response: &Response) -> Vec<String> {
    let texts = response.headers.get_all("warning").iter().map(|text| text.to_str().expect("a text"));
    texts
        .map(|text| text.strip_prefix("299 - \"").and_then(|text| text.strip_suffix('"')).expect("a warning"))
        .map(|text| text.replace("\\\"", "\""))
        .collect()
}

/// Checks the message of an error, and the warnings of a response.
#[track_caller]
fn check(response: Response, code: u16, message: &str, expect: &[&str]) -> Value {
    let response = response.expect(code);
    assert_eq!(warnings(&response), expect);
    let body = response.json();
    assert_eq!(body["message"].as_str().unwrap_or_default(), message);
    body
}

async fn start(labels: &[(&str, &str)]) -> Cluster {
    let cluster = Cluster::start().await;
    let _ = cluster.post(NAMESPACES, namespace(labels)).await.expect(201);
    cluster
}

#[test]
fn pods_that_violate_the_enforced_policy_are_refused() {
    run(async {
        let cluster = start(&[("enforce", "restricted")]).await;
        let message = format!("pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": {PLAIN_POD}");
        for path in [PODS.to_owned(), format!("{PODS}?dryRun=All")] {
            let status = check(cluster.post(&path, plain_pod("p")).await, 403, &message, &[]);
            let details = json!({"name": "p", "kind": "pods"});
            assert_eq!((&status["reason"], &status["details"]), (&json!("Forbidden"), &details));
        }
        let mut generated: Value = serde_json::from_str(&host_pod("p")).expect("a pod");
        generated["metadata"] = json!({"generateName": "g-"});
        let status = cluster.post(PODS, generated.to_string()).await.expect(403).json();
        let name = status["details"]["name"].as_str().expect("a name");
        assert!(name.len() > 2 && name.starts_with("g-"), "{name}");
        let text = format!(
            "pods \"{name}\" is forbidden: violates PodSecurity \"restricted:latest\": host namespaces \
             (hostNetwork=true), {PLAIN_POD}"
        );
        assert_eq!(status["message"], text);
        check(cluster.post(PODS, restricted_pod("p").to_string()).await, 201, "", &[]);
        cluster.stop().await;
    });
}

#[test]
fn pods_of_namespaces_without_labels_are_admitted_without_warnings() {
    run(async {
        let cluster = start(&[]).await;
        check(cluster.post(PODS, host_pod("p")).await, 201, "", &[]);
        check(cluster.post(DEPLOYMENTS, deployment(&host_pod("p"))).await, 201, "", &[]);
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let series = "pod_security_evaluations_total{decision=\"allow\",mode=\"enforce\",policy_level=\"privileged\",\
                      policy_version=\"latest\",request_operation=\"create\",resource=\"pod\",subresource=\"\"} 1\n";
        assert!(metrics.contains(series), "{metrics}");
        cluster.stop().await;
    });
}

#[test]
fn workloads_whose_pods_would_be_refused_are_warned_of() {
    run(async {
        let cluster = start(&[("enforce", "baseline"), ("warn", "restricted")]).await;
        let warning = format!("would violate PodSecurity \"restricted:latest\": {PLAIN_POD}");
        check(cluster.post(DEPLOYMENTS, deployment(&plain_pod("p"))).await, 201, "", &[&warning]);
        let path = format!("{DEPLOYMENTS}/d");
        let patch = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        check(cluster.patch(&path, "merge", patch).await, 200, "", &[&warning]);
        check(cluster.patch(&format!("{path}/scale"), "merge", r#"{"spec":{"replicas":2}}"#).await, 200, "", &[]);
        let spec = json!({"restartPolicy": "Never"});
        let job = json!({"template": pod("p", &spec)});
        let cron_job =
            json!({"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}}});
        let cron_jobs = "/apis/batch/v1/namespaces/n/cronjobs";
        check(cluster.post(cron_jobs, cron_job.to_string()).await, 201, "", &[&warning]);
        let controller = json!({"metadata": {"name": "r"}, "spec": {"selector": {"app": "r"}, "template": {
            "metadata": {"labels": {"app": "r"}}, "spec": pod("p", &json!({"hostIPC": true}))["spec"]}}});
        let both =
            format!("would violate PodSecurity \"restricted:latest\": host namespaces (hostIPC=true), {PLAIN_POD}");
        let controllers = "/api/v1/namespaces/n/replicationcontrollers";
        check(cluster.post(controllers, controller.to_string()).await, 201, "", &[&both]);
        // A create of a pod gets a warning, too, unless it is refused.
        check(cluster.post(PODS, plain_pod("p")).await, 201, "", &[&warning]);
        let message =
            "pods \"h\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
        check(cluster.post(PODS, host_pod("h")).await, 403, message, &[]);
        cluster.stop().await;
    });
}

#[test]
fn only_updates_of_images_and_containers_are_checked_again() {
    run(async {
        let cluster = start(&[]).await;
        let _ = cluster.post(PODS, host_pod("p")).await.expect(201);
        let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
        let labelled = cluster.patch(&format!("{NAMESPACES}/n"), "merge", labels.to_string()).await;
        let existing = "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"";
        check(labelled, 200, "", &[existing, "p: host namespaces"]);
        let path = format!("{PODS}/p");
        check(cluster.patch(&path, "merge", r#"{"metadata":{"labels":{"a":"b"}}}"#).await, 200, "", &[]);
        check(
            cluster.patch(&format!("{path}/status"), "merge", r#"{"status":{"phase":"Running"}}"#).await,
            200,
            "",
            &[],
        );
        let message =
            "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
        let image = r#"{"spec":{"containers":[{"name":"a","image":"j"}]}}"#;
        check(cluster.patch(&path, "strategic-merge", image).await, 403, message, &[]);
        let debugger = r#"{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}"#;
        check(
            cluster.patch(&format!("{path}/ephemeralcontainers"), "strategic-merge", debugger).await,
            403,
            message,
            &[],
        );
        cluster.stop().await;
    });
}

#[test]
fn existing_pods_that_violate_a_new_policy_are_warned_of() {
    run(async {
        let cluster = start(&[]).await;
        // The garbage collector deletes pods whose owner does not exist.
        let sets = "/apis/apps/v1/namespaces/n/replicasets";
        let owner = cluster.post(sets, deployment(&host_pod("p"))).await.expect(201).json();
        let owned = |name: &str, spec: &Value| {
            let mut pod = pod(name, spec);
            let (name, uid) = (&owner["metadata"]["name"], &owner["metadata"]["uid"]);
            let owner =
                json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": true});
            pod["metadata"]["ownerReferences"] = json!([owner]);
            pod.to_string()
        };
        for body in [
            host_pod("b"),
            owned("r-2", &json!({"hostNetwork": true})),
            owned("r-1", &json!({"hostNetwork": true})),
            restricted_pod("good").to_string(),
            plain_pod("z"),
        ] {
            let _ = cluster.post(PODS, body).await.expect(201);
        }
        let path = format!("{NAMESPACES}/n");
        let enforce =
            |level: &str| json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}}).to_string();
        let plain =
            "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile";
        let expect = [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"restricted:latest\""
                .to_owned(),
            format!("b (and 2 other pods): host namespaces, {plain}"),
            format!("z: {plain}"),
        ];
        let expect = expect.each_ref().map(String::as_str);
        check(cluster.patch(&format!("{path}?dryRun=All"), "merge", enforce("restricted")).await, 200, "", &expect);
        check(cluster.patch(&path, "merge", enforce("restricted")).await, 200, "", &expect);
        // A level that is not stricter than before causes no check of existing pods.
        check(cluster.patch(&path, "merge", enforce("baseline")).await, 200, "", &[]);
        check(cluster.patch(&path, "merge", enforce("privileged")).await, 200, "", &[]);
        let warn = r#"{"metadata":{"labels":{"pod-security.kubernetes.io/warn":"restricted"}}}"#;
        check(cluster.patch(&path, "merge", warn).await, 200, "", &[]);
        cluster.stop().await;
    });
}

#[test]
fn malformed_labels_are_refused_unless_they_were_there_before() {
    run(async {
        let disabled =
            AdmissionConfiguration { disabled: vec!["PodSecurity".to_owned()], ..AdmissionConfiguration::default() };
        let cluster = Cluster::durable_with_options(Options { admission: disabled, ..Options::default() }).await;
        let old = [("enforce", "strict"), ("warn-version", "1.30")];
        let _ = cluster.post(NAMESPACES, namespace(&old)).await.expect(201);
        let cluster = cluster.restart_with(|options| options.admission = AdmissionConfiguration::default()).await;
        let message = "Namespace \"n\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \
                       \"x\": must be one of privileged, baseline, restricted, \
                       metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"1.30\": must be \
                       \"latest\" or \"v1.x\"]";
        let path = format!("{NAMESPACES}/n");
        let patch = |label: &str, value: &str| json!({"metadata": {"labels": {label: value}}}).to_string();
        let refused = cluster.patch(&path, "merge", patch("pod-security.kubernetes.io/enforce", "x")).await;
        let status = check(refused, 422, message, &[]);
        assert_eq!(status["reason"], "Invalid");
        assert_eq!(status["details"]["kind"], "Namespace");
        let cause = json!({
            "reason": "FieldValueInvalid",
            "message": "Invalid value: \"1.30\": must be \"latest\" or \"v1.x\"",
            "field": "metadata.labels[pod-security.kubernetes.io/warn-version]",
        });
        assert_eq!(status["details"]["causes"][1], cause);
        check(cluster.patch(&path, "merge", patch("other", "x")).await, 200, "", &[]);
        let other = namespace(&[("audit", "y")]).replace("\"n\"", "\"m\"");
        let message = "Namespace \"m\" is invalid: metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: \
                       \"y\": must be one of privileged, baseline, restricted";
        check(cluster.post(NAMESPACES, other).await, 422, message, &[]);
        // An invalid level is enforced as the strictest level.
        let message = format!("pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": {PLAIN_POD}");
        check(cluster.post(PODS, plain_pod("p")).await, 403, &message, &[]);
        cluster.stop().await;
    });
}

#[test]
fn exempt_namespaces_users_and_runtime_classes_are_not_checked() {
    run(async {
        let text = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n\
                    defaults:\n  enforce: baseline\n\
                    exemptions:\n  usernames: [alice]\n  namespaces: [exempt]\n  runtimeClasses: [sandboxed]\n";
        let plugins = BTreeMap::from([("PodSecurity".to_owned(), text.as_bytes().to_vec())]);
        let admission = AdmissionConfiguration { plugins, ..AdmissionConfiguration::default() };
        let cluster = Cluster::with_options(Options { admission, ..Options::default() }).await;
        let _ = cluster.post(NAMESPACES, namespace(&[])).await.expect(201);
        let message =
            "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
        check(cluster.post(PODS, host_pod("p")).await, 403, message, &[]);
        let class = json!({"metadata": {"name": "sandboxed"}, "handler": "h"}).to_string();
        let _ = cluster.post("/apis/node.k8s.io/v1/runtimeclasses", class).await.expect(201);
        let sandboxed = pod("s", &json!({"hostNetwork": true, "runtimeClassName": "sandboxed"}));
        check(cluster.post(PODS, sandboxed.to_string()).await, 201, "", &[]);
        let as_alice = cluster.request("POST", PODS).header("impersonate-user", "alice");
        let as_alice = as_alice.header("impersonate-group", "system:masters").json(host_pod("p")).send().await;
        check(as_alice, 201, "", &[]);
        let exempt = namespace(&[("enforce", "restricted"), ("audit-version", "v1.30")]).replace("\"n\"", "\"exempt\"");
        let warning = "namespace \"exempt\" is exempt from Pod Security, and the policy (enforce=restricted:latest) will \
                       be ignored";
        check(cluster.post(NAMESPACES, exempt).await, 201, "", &[warning]);
        check(cluster.post("/api/v1/namespaces/exempt/pods", host_pod("p")).await, 201, "", &[]);
        let patch = r#"{"metadata":{"labels":{"pod-security.kubernetes.io/enforce-version":"v1.20"}}}"#;
        let warning = warning.replace("latest", "v1.20");
        check(cluster.patch(&format!("{NAMESPACES}/exempt"), "merge", patch).await, 200, "", &[&warning]);
        cluster.stop().await;
    });
}
