//! Start-up over a store with unreadable records: the server starts, names each of them in its log, and serves
//! everything else. This is a separate test program because it reads the log of its whole process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_integration::{Cluster, Options, run};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const STORED_CRDS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions";

/// The time limit for a server to become ready on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Collects errors.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!("{field}={value:?} "));
    }
}

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::ERROR
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        self.0.lock().push(text.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn crd(plural: &str) -> String {
    let kind = plural.to_uppercase();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com"), "uid": plural, "creationTimestamp": "2001-01-01T00:00:00Z"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "conversion": {"strategy": "None"},
            "names": {"plural": plural, "singular": plural, "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}],
        },
    })
    .to_string()
}

/// Waits until the objects of a CRD are served.
async fn wait_until_served(cluster: &Cluster, plural: &str) {
    let path = format!("/apis/example.com/v1/{plural}");
    cluster.get_until_status(&path, 200).await;
}

#[test]
fn a_server_starts_over_records_that_cannot_be_read() {
    let errors = Errors::default();
    tracing::subscriber::set_global_default(errors.clone()).expect("no other subscriber");
    run(async move {
        let cluster = Cluster::durable_with_options(Options { controllers: false, ..Options::default() }).await;
        for (path, body) in [
            ("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "good"}})),
            ("/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "good"}})),
            (
                "/apis/apps/v1/namespaces/default/controllerrevisions",
                json!({"metadata": {"name": "good"}, "revision": 1, "data": {}}),
            ),
        ] {
            let _ = cluster.post(path, body.to_string()).await.expect(201);
        }
        let _ = cluster.post(CRDS, crd("goods")).await.expect(201);
        wait_until_served(&cluster, "goods").await;
        let good = r#"{"apiVersion":"example.com/v1","kind":"GOODS","metadata":{"name":"good"},"spec":{"a":1}}"#;
        let _ = cluster.post("/apis/example.com/v1/namespaces/default/goods", good).await.expect(201);

        let deep = format!("{}1{}", "[".repeat(30_000), "]".repeat(30_000));
        let deep_object =
            format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"deep"}},"data":{deep}}}"#);
        let versions = |schema: &str| {
            crd("x").replace(r#""type":"object","properties""#, &format!(r#""type":{schema},"properties""#))
        };
        // These bytes are not objects of the kind. Lists of the collection fail, as in upstream.
        let corrupt: [(&str, Vec<u8>); 9] = [
            ("/registry/configmaps/default/bytes", b"\xff\xfe\x00k8s".to_vec()),
            ("/registry/configmaps/default/empty", Vec::new()),
            (
                "/registry/configmaps/default/truncated",
                br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"#.to_vec(),
            ),
            ("/registry/configmaps/default/deep", deep_object.into_bytes()),
            ("/registry/configmaps/default/array", b"[]".to_vec()),
            ("/registry/secrets/default/deep", deep.clone().into_bytes()),
            ("/registry/example.com/goods/default/bytes", b"\x00".to_vec()),
            ("/registry/example.com/goods/default/deep", deep.into_bytes()),
            (&format!("{STORED_CRDS}/bytes.example.com"), b"{{".to_vec()),
        ];
        for (key, value) in &corrupt {
            cluster.write_to_store(key, value.clone()).await;
        }
        // No watch cache reads these keys: there is no such kind, or its CRD no longer exists.
        let unknown = ["/registry/things/default/a", "/registry/example.com/gone/default/a", "/registry/a"];
        for key in unknown {
            cluster.write_to_store(key, good).await;
        }
        // Upstream would not have accepted these CRDs.
        let odd_crds = [
            ("number", r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"number.example.com"},"spec":{"versions":[{"name":"v1"}]}}"#.to_owned()),
            ("x", versions("\"nothing\"")),
        ];
        for (name, text) in &odd_crds {
            cluster.write_to_store(&format!("{STORED_CRDS}/{name}.example.com"), text.clone()).await;
        }
        errors.0.lock().clear();
        let restarted = tokio::time::timeout(START_LIMIT, cluster.restart()).await;
        let cluster = restarted.expect("the server is ready in bounded time");
        for key in corrupt.iter().map(|(key, _)| *key).chain(unknown) {
            let key = key.trim_start_matches("/registry/");
            let named = errors.0.lock().iter().any(|error| error.contains(key));
            assert!(named, "{key} is not in the log: {:#?}", errors.0.lock());
        }
        assert!(errors.0.lock().iter().any(|error| error.contains("number.example.com")), "{:#?}", errors.0.lock());
        for (collection, corrupt, list) in [
            ("/api/v1/namespaces/default/configmaps", &["bytes", "empty", "truncated", "deep", "array"][..], 429),
            ("/api/v1/namespaces/default/secrets", &["deep"], 429),
            ("/apis/example.com/v1/namespaces/default/goods", &["bytes", "deep"], 429),
            ("/apis/apps/v1/namespaces/default/controllerrevisions", &[], 200),
        ] {
            let _ = cluster.get(&format!("{collection}/good")).await.expect(200);
            for name in corrupt {
                let _ = cluster.get(&format!("{collection}/{name}")).await.expect(500);
                let _ = cluster.delete(&format!("{collection}/{name}")).await.expect(500);
            }
            let _ = cluster.get(collection).await.expect(list);
        }
        let _ = cluster.get(&format!("{CRDS}/bytes.example.com")).await.expect(500);
        let _ = cluster.get(&format!("{CRDS}/goods.example.com")).await.expect(200);
        let _ = cluster.get("/readyz").await.expect(200);
        let more = good.replace("good", "more");
        let _ = cluster.post("/apis/example.com/v1/namespaces/default/goods", more).await.expect(201);
        let cluster = cluster.restart().await;
        let _ = cluster.get("/apis/example.com/v1/namespaces/default/goods/more").await.expect(200);
        cluster.stop().await;
    });
}
