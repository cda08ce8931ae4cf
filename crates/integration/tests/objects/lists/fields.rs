//! The selectable fields of every kind, and the error messages for other fields.

use std::collections::BTreeMap;

use pintle_integration::{Cluster, Options};
use serde_json::{Value, json};

use super::{check, cluster, url_encode};

/// The selectable fields of a kind besides `metadata.name`, and the error message for an unsupported field. The last
/// entry applies to all other kinds. Kinds without `metadata.namespace` do not support it.
const SELECTABLE_FIELDS: [(&str, &[&str], &str); 12] = [
    (
        "v1/pods",
        &[
            "metadata.namespace",
            "spec.nodeName",
            "spec.host",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        "field label not supported: no.such",
    ),
    ("v1/nodes", &["spec.unschedulable"], "field label not supported: no.such"),
    ("v1/namespaces", &["status.phase"], "field label not supported: no.such"),
    ("v1/replicationcontrollers", &["metadata.namespace", "status.replicas"], "field label not supported: no.such"),
    ("v1/secrets", &["metadata.namespace", "type"], "field label not supported: no.such"),
    ("v1/services", &["metadata.namespace", "spec.clusterIP", "spec.type"], "field label not supported: no.such"),
    (
        "v1/events",
        &[
            "metadata.namespace",
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "field label not supported: no.such",
    ),
    (
        "events.k8s.io/v1/events",
        &[
            "metadata.namespace",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        "field label not supported: no.such",
    ),
    (
        "batch/v1/jobs",
        &["metadata.namespace", "status.successful"],
        "field label \"no.such\" not supported for batchv1.Job",
    ),
    ("certificates.k8s.io/v1/certificatesigningrequests", &["spec.signerName"], "field label not supported: no.such"),
    (
        "resource.k8s.io/v1/resourceslices",
        &["spec.nodeName", "spec.driver"],
        "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: no.such",
    ),
    (
        "",
        &["metadata.namespace"],
        "\"no.such\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    ),
];

/// Returns the resources that can be listed and watched, as `group/version/plural` with their paths.
async fn listable_resources(cluster: &Cluster) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let accept = "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io";
    for root in ["/api", "/apis"] {
        let document = cluster.request("GET", root).header("accept", accept).send().await.expect(200).json();
        let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
        for group in items(&document["items"]) {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in items(&group["versions"]) {
                let version_name = version["version"].as_str().unwrap_or_default();
                for resource in items(&version["resources"]) {
                    let plural = resource["resource"].as_str().unwrap_or_default();
                    let verbs = items(&resource["verbs"]);
                    if verbs.contains(&json!("list")) && verbs.contains(&json!("watch")) {
                        let gvr = [name, version_name, plural].join("/");
                        found
                            .insert(gvr.trim_start_matches('/').to_owned(), format!("{root}/{gvr}").replace("//", "/"));
                    }
                }
            }
        }
    }
    found
}

#[test]
fn every_kind_supports_upstreams_selectable_fields() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        let kinds = listable_resources(&cluster).await;
        assert!(kinds.len() > 50, "{kinds:?}");
        let fields_by_kind: BTreeMap<_, _> =
            SELECTABLE_FIELDS.iter().map(|(kind, fields, other)| (*kind, (*fields, *other))).collect();
        assert!(fields_by_kind.keys().all(|kind| kind.is_empty() || kinds.contains_key(*kind)), "{kinds:?}");
        for (kind, path) in &kinds {
            let (fields, other) = fields_by_kind.get(kind.as_str()).unwrap_or(&fields_by_kind[""]);
            for field in fields.iter().chain(&["metadata.name"]) {
                let _ = cluster.get(&format!("{path}?limit=1&fieldSelector={field}%3Dx")).await.expect(200);
            }
            let unsupported_namespace = (!fields.contains(&"metadata.namespace")).then_some("metadata.namespace");
            for field in unsupported_namespace.into_iter().chain(["no.such"]) {
                let message = other.replace("no.such", field);
                for query in ["", "watch=1&"] {
                    let response = cluster.get(&format!("{path}?{query}fieldSelector={field}%3Dx")).await;
                    response.expect_error(400, "BadRequest", &message);
                }
            }
            // Deletecollection over all namespaces is only allowed for cluster-scoped kinds.
            let response = cluster.delete(&format!("{path}?fieldSelector=no.such%3Dx")).await;
            if response.status != 405 {
                response.expect_error(400, "BadRequest", other);
            }
        }
    });
}

#[test]
fn selectable_fields_have_upstreams_values() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        let namespace_path = "/api/v1/namespaces/n";
        let template =
            json!({"metadata": {"labels": {"l": "v"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        for (path, object) in [
            (format!("{namespace_path}/secrets"), json!({"metadata": {"name": "a"}, "type": "example.com/t"})),
            (format!("{namespace_path}/secrets"), json!({"metadata": {"name": "b"}})),
            (
                format!("{namespace_path}/services"),
                json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "selector": {"l": "v"}}}),
            ),
            (
                format!("{namespace_path}/services"),
                json!({"metadata": {"name": "b"}, "spec": {"type": "ExternalName", "externalName": "x.example"}}),
            ),
            ("/api/v1/nodes".to_owned(), json!({"metadata": {"name": "a"}, "spec": {"unschedulable": true}})),
            ("/api/v1/nodes".to_owned(), json!({"metadata": {"name": "b"}})),
            (
                format!("{namespace_path}/replicationcontrollers"),
                json!({"metadata": {"name": "a"}, "spec": {"selector": {"l": "v"}, "template": template}}),
            ),
            (
                format!("{namespace_path}/events"),
                json!({
                    "metadata": {"name": "a", "namespace": "n"}, "reason": "R", "type": "Normal",
                    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "n", "fieldPath": "spec.x"},
                    "source": {"component": "kubelet"},
                }),
            ),
            (
                format!("{namespace_path}/pods"),
                json!({"metadata": {"name": "a"}, "spec": {
                    "containers": [{"name": "c", "image": "i"}], "nodeName": "x", "hostNetwork": true,
                }}),
            ),
            (
                format!("{namespace_path}/pods"),
                json!({"metadata": {"name": "b"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
            ),
        ] {
            let _ = cluster.post(&path, object.to_string()).await.expect(201);
        }
        for (path, selector, expect) in [
            ("secrets", "type=example.com/t", "a"),
            ("secrets", "type=Opaque", "b"),
            ("secrets", "type!=Opaque", "a"),
            ("services", "spec.clusterIP=None", "a"),
            ("services", "spec.clusterIP=", "b"),
            ("services", "spec.type=ClusterIP", "a"),
            ("services", "spec.type=ExternalName", "b"),
            ("replicationcontrollers", "status.replicas=0", "a"),
            ("replicationcontrollers", "status.replicas=", ""),
            ("events", "involvedObject.kind=Pod,involvedObject.name=p,involvedObject.namespace=n", "a"),
            ("events", "involvedObject.fieldPath=spec.x,reason=R,type=Normal,source=kubelet", "a"),
            ("events", "reportingComponent=", "a"),
            ("events", "source=other", ""),
            ("pods", "spec.nodeName=x", "a"),
            ("pods", "spec.host=x", "a"),
            ("pods", "spec.hostNetwork=true", "a"),
            ("pods", "spec.hostNetwork=false", "b"),
            ("pods", "spec.schedulerName=default-scheduler,status.phase=Pending", "a b"),
            ("pods", "status.podIPs=", "a b"),
            ("pods", "status.podIPs!=", ""),
        ] {
            let query = format!("fieldSelector={}", url_encode(selector));
            check(&cluster, &format!("{namespace_path}/{path}"), &query, expect).await;
            // The `kubernetes` service is in another namespace.
            let everywhere = if selector == "spec.type=ClusterIP" { "kubernetes a" } else { expect };
            check(&cluster, &format!("/api/v1/{path}"), &query, everywhere).await;
        }
        for (path, selector, expect) in [
            ("/api/v1/nodes", "spec.unschedulable=true", "a"),
            ("/api/v1/nodes", "spec.unschedulable=false", "b"),
            ("/api/v1/namespaces", "status.phase=Active,metadata.name=n", "n"),
            ("/api/v1/namespaces", "status.phase=Terminating", ""),
            ("/apis/events.k8s.io/v1/events", "regarding.kind=Pod,reportingController=", "a"),
            // Upstream supports the selector for cluster-scoped objects. It matches none.
            ("/apis/storage.k8s.io/v1/storageclasses", "metadata.namespace=x", ""),
        ] {
            check(&cluster, path, &format!("fieldSelector={}", url_encode(selector)), expect).await;
        }
    });
}
