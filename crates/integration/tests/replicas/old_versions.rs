//! Objects that old servers have stored in etcd at versions that are no longer served. The server serves them, and
//! stores them at the current version with the next write.

use bytes::Bytes;
use pintle_codec::{json, protobuf};
use pintle_integration::Etcd;
use pintle_schema::Schema;
use pintle_store::{Change, EtcdOptions, EtcdStore, Store as _};
use serde_json::{Value, json};

use super::replica;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
const DEPLOYMENT_KEY: &str = "/registry/deployments/default/old";
const INGRESS_KEY: &str = "/registry/ingress/default/old";

/// An object as an old server has created it.
fn old_object(kind: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "extensions/v1beta1", "kind": kind, "spec": spec,
        "metadata": {"name": "old", "namespace": "default", "uid": "2b5e1d5e-0c4f-4c57-9a0e-6c1f8b0d7a11",
            "creationTimestamp": "2019-01-02T03:04:05Z", "generation": 1},
    })
}

fn to_protobuf(object: &Value) -> Vec<u8> {
    let stored_types = pintle_catalog::shared().stored_types().expect("types");
    let kind = object["kind"].as_str().expect("a kind");
    let Schema { types, root } = stored_types.kind_schema("extensions", "v1beta1", kind).expect("a type");
    let tree = json::decode_typed(object.to_string().as_bytes(), &types, root).expect("an object").value;
    let mut stored = Vec::new();
    protobuf::encode_object(&tree, &types, root, &mut stored);
    stored
}

async fn stored(etcd: &EtcdStore, key: &str) -> Bytes {
    etcd.get(key.into(), None).await.expect("etcd answers").expect("an object").value
}

#[test]
fn objects_of_old_versions_are_served_and_stored_anew() {
    pintle_integration::run(async {
        let etcd = Etcd::start();
        let options = EtcdOptions { servers: vec![etcd.url().to_owned()], ..EtcdOptions::default() };
        let raw = EtcdStore::open(options).expect("a connection");
        let template =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let deployment = to_protobuf(&old_object("Deployment", json!({"template": template})));
        let ingress = old_object("Ingress", json!({"backend": {"serviceName": "s", "servicePort": 80}}));
        for (key, value) in [(DEPLOYMENT_KEY, deployment), (INGRESS_KEY, format!("{ingress}\n").into_bytes())] {
            raw.commit(Change::create(key, value)).await.expect("it is stored");
        }

        let server = replica(&etcd, 1).await;
        let list = server.get(DEPLOYMENTS).await.expect(200).json();
        let found = &list["items"][0];
        assert_eq!(found["metadata"]["name"], "old", "{list}");
        assert_eq!(found["spec"]["selector"], json!({"matchLabels": {"a": "b"}}), "{list}");
        assert_eq!(found["spec"]["strategy"]["rollingUpdate"], json!({"maxSurge": 1, "maxUnavailable": 1}), "{list}");
        let list = server.get(INGRESSES).await.expect(200).json();
        let expect = json!({"service": {"name": "s", "port": {"number": 80}}});
        assert_eq!(list["items"][0]["spec"]["defaultBackend"], expect, "{list}");

        for (path, key, version) in
            [(DEPLOYMENTS, DEPLOYMENT_KEY, "apps/v1"), (INGRESSES, INGRESS_KEY, "networking.k8s.io/v1")]
        {
            let path = format!("{path}/old");
            let before = server.get(&path).await.expect(200).json();
            let change = r#"{"metadata":{"annotations":{"new":"yes"}}}"#;
            let patch = server.request("PATCH", &path).body("application/merge-patch+json", change);
            let updated = patch.send().await.expect(200).json();
            assert_eq!(updated["metadata"]["annotations"]["new"], "yes");
            assert_eq!((&updated["spec"], &updated["metadata"]["uid"]), (&before["spec"], &before["metadata"]["uid"]));
            let stored = stored(&raw, key).await;
            let envelope = protobuf::open_envelope(&stored).expect("Protobuf");
            assert_eq!(&*envelope.api_version, version);
        }
        server.stop().await;
        // A server that starts with the stored values has the same objects.
        let server = replica(&etcd, 2).await;
        for path in [DEPLOYMENTS, INGRESSES] {
            let found = server.get(&format!("{path}/old")).await.expect(200).json();
            assert_eq!(found["metadata"]["annotations"]["new"], "yes");
        }
        server.stop().await;
    });
}
