//! The field managers of the server's own writes. Writes that kube-apiserver does have the server's name. Writes of
//! controllers that replace kube-controller-manager's have its name.

use pintle_integration::{Cluster, bootstrapped, run};
use serde_json::{Value, json};

/// Waits until an object has managed fields entries like these, and returns them.
async fn expect_managers(cluster: &Cluster, path: &str, expect: &[(&str, &str, &str)]) -> Vec<Value> {
    let (collection, name) = path.rsplit_once('/').expect("a path");
    let mut watch = cluster.watch(&format!("{collection}?watch=1&fieldSelector=metadata.name%3D{name}")).await;
    loop {
        let event = watch.next().await.expect("an event");
        let entries = event["object"]["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let found: Vec<_> =
            entries.iter().map(|e| (text(e, "manager"), text(e, "operation"), text(e, "subresource"))).collect();
        let found: Vec<_> = found.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
        let mut sorted = found.clone();
        sorted.sort_unstable();
        if sorted == expect {
            return entries;
        }
    }
}

const SERVER: (&str, &str, &str) = ("kube-apiserver", "Update", "");
const SERVER_STATUS: (&str, &str, &str) = ("kube-apiserver", "Update", "status");
const MANAGER: (&str, &str, &str) = ("kube-controller-manager", "Update", "");
const MANAGER_STATUS: (&str, &str, &str) = ("kube-controller-manager", "Update", "status");

#[test]
fn what_the_server_writes_is_managed_by_the_component_that_writes_it_upstream() {
    run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        let client = |path: String, body: Value| {
            let cluster = &cluster;
            async move {
                let posted = cluster.request("POST", &path).header("user-agent", "test/1").json(body.to_string());
                let _ = posted.send().await.expect(201);
            }
        };
        let core = "/api/v1/namespaces";
        for path in [
            format!("{core}/kube-system"),
            format!("{core}/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking"),
            format!("{core}/default/endpoints/kubernetes"),
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes".to_owned(),
            "/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1".to_owned(),
            "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical".to_owned(),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:basic-user".to_owned(),
            "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps".to_owned(),
        ] {
            expect_managers(&cluster, &path, &[SERVER]).await;
        }
        let service = expect_managers(&cluster, &format!("{core}/default/services/kubernetes"), &[SERVER]).await;
        let fields: Vec<&String> = service[0]["fieldsV1"]["f:spec"].as_object().expect("fields").keys().collect();
        let expect =
            ["f:clusterIP", "f:internalTrafficPolicy", "f:ipFamilyPolicy", "f:ports", "f:sessionAffinity", "f:type"];
        assert_eq!(fields, expect);
        let range = [
            ("kube-apiserver", "Update", ""),
            ("kube-controller-manager", "Update", ""),
            ("kubernetes-service-cidr-controller", "Apply", "status"),
            ("service-cidr-controller", "Apply", "status"),
        ];
        expect_managers(&cluster, "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", &range).await;
        expect_managers(&cluster, &format!("{core}/default/configmaps/kube-root-ca.crt"), &[MANAGER]).await;

        let quota = json!({"metadata": {"name": "quota"}, "spec": {"hard": {"configmaps": "9"}}});
        client(format!("{core}/default/resourcequotas"), quota).await;
        let quota = format!("{core}/default/resourcequotas/quota");
        expect_managers(&cluster, &quota, &[MANAGER_STATUS, ("test", "Update", "")]).await;

        let crd = json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Cluster",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
                ],
            },
        });
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        client(crds.to_owned(), crd).await;
        let crd = format!("{crds}/things.example.com");
        let status = expect_managers(&cluster, &crd, &[SERVER_STATUS, ("test", "Update", "")]).await;
        let status = status[0]["fieldsV1"]["f:status"].as_object().expect("fields").clone();
        assert!(status.keys().any(|field| field == "f:conditions"), "{status:?}");

        // A terminating namespace whose content remains has conditions.
        client(core.to_owned(), json!({"metadata": {"name": "ends"}})).await;
        let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/held"]}});
        client(format!("{core}/ends/configmaps"), held).await;
        let _ = cluster.delete(&format!("{core}/ends")).await.expect(200);
        expect_managers(&cluster, &format!("{core}/ends"), &[MANAGER_STATUS, ("test", "Update", "")]).await;
        cluster.stop().await;
    });
}
