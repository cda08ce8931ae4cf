//! Kinds whose update creates a missing object (upstream: `AllowCreateOnUpdate`), such as leases.

use std::sync::Arc;

use pintle_integration::{Cluster, Response};
use serde_json::{Value, json};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

async fn put(cluster: &Cluster, name: &str, metadata: Value) -> Response {
    let mut object = json!({"metadata": metadata, "spec": {"holderIdentity": "me"}});
    object["metadata"]["name"] = json!(name);
    cluster.put(&format!("{LEASES}/{name}"), object.to_string()).await
}

#[test]
fn update_creates_a_missing_object() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        for (name, metadata) in [("a", json!({})), ("b", json!({"resourceVersion": "7"}))] {
            let created = put(&cluster, name, metadata).await.expect(201).json();
            let version = json!({"resourceVersion": created["metadata"]["resourceVersion"]});
            let again = put(&cluster, name, version).await.expect(200).json();
            assert_eq!(created, again, "the second update must not change the object");
        }
        put(&cluster, "c", json!({"uid": "was"})).await.expect_error(
            409,
            "Conflict",
            "Operation cannot be fulfilled on leases.coordination.k8s.io \"c\": StorageError: invalid object, Code: 4, \
             Key: /registry/leases/default/c, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
             precondition: was, UID in object meta: ",
        );
        let _ = cluster.get(&format!("{LEASES}/c")).await.expect(404);
    });
}

#[test]
fn runtime_classes_are_created_by_an_update_and_not_updated_unconditionally() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let path = "/apis/node.k8s.io/v1/runtimeclasses/a";
        let mut class = json!({"metadata": {"name": "a"}, "handler": "runc"});
        let created = cluster.put(path, class.to_string()).await.expect(201).json();
        class["metadata"]["labels"] = json!({"a": "b"});
        let refused = cluster.put(path, class.to_string()).await.expect(422).json();
        let message = "runtimeclasses.node.k8s.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be \
                       specified for an update";
        assert_eq!(refused["message"], message);
        class["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
        let _ = cluster.put(path, class.to_string()).await.expect(200);
    });
}

#[test]
fn an_unreadable_resource_version_of_a_missing_object_is_an_error() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        for (version, why) in [("abc", "invalid syntax"), ("99999999999999999999", "value out of range")] {
            let message = format!("strconv.ParseUint: parsing \"{version}\": {why}");
            let failed = put(&cluster, "a", json!({"resourceVersion": version})).await.expect(500).json();
            assert_eq!((&failed["message"], failed.get("reason")), (&json!(message), None));
            let configuration = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": version},
            });
            let path = "/api/v1/namespaces/default/configmaps/a?fieldManager=m";
            let failed = cluster
                .request("PATCH", path)
                .body("application/apply-patch+yaml", configuration.to_string())
                .send()
                .await
                .expect(500)
                .json();
            assert_eq!(failed["message"], json!(message));
        }
        let _ = cluster.get(&format!("{LEASES}/a")).await.expect(404);
    });
}

#[test]
fn only_one_of_several_concurrent_updates_creates() {
    pintle_integration::run(async {
        let cluster = Arc::new(Cluster::start().await);
        for round in 0..20 {
            let name = format!("lease-{round}");
            let puts: Vec<_> = (0..8)
                .map(|i| {
                    let (cluster, name) = (cluster.clone(), name.clone());
                    let metadata = json!({"labels": {"by": i.to_string()}});
                    tokio::spawn(async move { put(&cluster, &name, metadata).await.status.as_u16() })
                })
                .collect();
            let mut codes = Vec::new();
            for put in puts {
                codes.push(put.await.expect("a response"));
            }
            codes.sort_unstable();
            // The other requests are updates, which must have a resourceVersion.
            assert_eq!(codes, [201, 422, 422, 422, 422, 422, 422, 422]);
        }
    });
}
