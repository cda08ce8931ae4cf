//! A server whose events are in another etcd (`--etcd-servers-overrides`).

use std::time::Duration;

use pintle::EtcdServersOverride;
use pintle_integration::{Cluster, Engine, Etcd, Options};
use pintle_store::{EtcdOptions, EtcdStore, KeyInterval, Store as _};
use serde_json::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";
const EVENTS: &str = "/api/v1/namespaces/n/events";

async fn server(main: &Etcd, events: &Etcd, event_ttl: Duration) -> Cluster {
    let named = EtcdServersOverride {
        group: String::new(),
        resource: "events".to_owned(),
        servers: vec![events.url().to_owned()],
    };
    let engine = Engine::Etcd(pintle::EtcdConfig { overrides: vec![named], ..main.config() });
    Cluster::with_options(Options { engine, event_ttl, ..Options::default() }).await
}

fn event(name: &str) -> String {
    json!({"metadata": {"name": name}, "involvedObject": {"namespace": "n"}, "reason": "Tested"}).to_string()
}

/// The keys of an etcd below a prefix.
async fn keys(etcd: &Etcd, prefix: &str) -> Vec<String> {
    let store = EtcdStore::open(EtcdOptions { servers: vec![etcd.url().to_owned()], ..EtcdOptions::default() });
    let store = store.expect("a store");
    let found = store.range(KeyInterval::prefix(prefix), None, None).await.expect("a range");
    found.records.iter().map(|record| record.key.as_str().to_owned()).collect()
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).expect("a version")
}

#[test]
fn events_are_in_another_etcd_with_versions_of_their_own() {
    pintle_integration::run(async {
        let (main, other) = (Etcd::start(), Etcd::start());
        let cluster = server(&main, &other, Duration::from_secs(3600)).await;
        let _ = cluster.post(NAMESPACES, r#"{"metadata":{"name":"n"}}"#).await.expect(201);
        let list = cluster.get(EVENTS).await.expect(200).json();
        let mut watch = cluster.watch(&format!("{EVENTS}?watch=1&resourceVersion={}", version(&list))).await;
        let a = cluster.post(EVENTS, event("a")).await.expect(201).json();
        let _ = cluster.post(EVENTS, event("b")).await.expect(201);
        assert_eq!(version(&watch.expect("ADDED", "a").await), version(&a));
        let _ = watch.expect("ADDED", "b").await;
        // The other version of the API has the same objects.
        let same = cluster.get("/apis/events.k8s.io/v1/namespaces/n/events/a").await.expect(200).json();
        assert_eq!(version(&same), version(&a));
        // A chunk, its continuation, and a list at an exact version.
        let chunk = cluster.get(&format!("{EVENTS}?limit=1")).await.expect(200).json();
        let token = chunk["metadata"]["continue"].as_str().expect("a token");
        let rest = cluster.get(&format!("{EVENTS}?limit=1&continue={token}")).await.expect(200).json();
        assert_eq!(
            (&chunk["items"][0]["metadata"]["name"], &rest["items"][0]["metadata"]["name"]),
            (&json!("a"), &json!("b"))
        );
        let exact = format!("{EVENTS}?resourceVersionMatch=Exact&resourceVersion={}", version(&a));
        assert_eq!(cluster.get(&exact).await.expect(200).json()["items"].as_array().map(Vec::len), Some(1));
        // An update needs the current version of the event.
        let mut changed = a.clone();
        changed["reason"] = json!("Changed");
        let _ = cluster.put(&format!("{EVENTS}/a"), changed.to_string()).await.expect(200);
        assert_eq!(cluster.put(&format!("{EVENTS}/a"), changed.to_string()).await.status, 409);
        let _ = watch.expect("MODIFIED", "a").await;

        assert_eq!(keys(&other, "/").await, ["/registry/events/n/a", "/registry/events/n/b"]);
        assert_eq!(keys(&main, "/registry/events/").await, Vec::<String>::new());
        assert!(keys(&main, "/registry/namespaces/").await.contains(&"/registry/namespaces/n".to_owned()));
        let ready = cluster.get("/readyz?verbose").await.expect(200).text();
        for check in ["[+]etcd-override-0 ok", "[+]etcd-override-readiness-0 ok"] {
            assert!(ready.contains(check), "{ready}");
        }

        // The deletion of a namespace deletes its content in both stores.
        let config_map = format!("{NAMESPACES}/n/configmaps");
        let _ = cluster.post(&config_map, r#"{"metadata":{"name":"a"}}"#).await.expect(201);
        let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
        cluster.get_until_status(&format!("{NAMESPACES}/n"), 404).await;
        for _ in ["a", "b"] {
            assert_eq!(watch.next().await.expect("an event")["type"], "DELETED");
        }
        assert_eq!(keys(&other, "/").await, Vec::<String>::new());
    });
}

#[test]
fn events_in_another_etcd_expire() {
    pintle_integration::run(async {
        let (main, other) = (Etcd::start(), Etcd::start());
        let cluster = server(&main, &other, Duration::from_secs(1)).await;
        let _ = cluster.post(NAMESPACES, r#"{"metadata":{"name":"n"}}"#).await.expect(201);
        let mut watch = cluster.watch(&format!("{EVENTS}?watch=1")).await;
        let _ = cluster.post(EVENTS, event("a")).await.expect(201);
        let _ = watch.expect("ADDED", "a").await;
        let _ = watch.expect("DELETED", "a").await;
    });
}

#[test]
fn an_etcd_that_is_gone_fails_what_it_stores() {
    pintle_integration::run(async {
        let (main, other) = (Etcd::start(), Etcd::start());
        let cluster = server(&main, &other, Duration::from_secs(3600)).await;
        let _ = cluster.post(NAMESPACES, r#"{"metadata":{"name":"n"}}"#).await.expect(201);
        let _ = cluster.post(EVENTS, event("a")).await.expect(201);
        let config_maps = format!("{NAMESPACES}/n/configmaps");
        drop(other);
        assert!(cluster.get(EVENTS).await.status.as_u16() >= 500);
        let _ = cluster.post(&config_maps, r#"{"metadata":{"name":"a"}}"#).await.expect(201);
        assert!(cluster.post(EVENTS, event("b")).await.status.as_u16() >= 500);
        let _ = cluster.get(&config_maps).await.expect(200);
        let unready = cluster.get_until_status("/readyz?verbose", 500).await.text();
        assert!(unready.contains("[+]etcd ok") && unready.contains("[-]etcd-override-"), "{unready}");
        // The server deletes all content that it can list. The namespace stays, since there may be events.
        let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
        let failed = |namespace: &Value| {
            let conditions = namespace["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|c| c["type"] == "NamespaceDeletionContentFailure" && c["status"] == "True")
        };
        cluster.get_until(&format!("{NAMESPACES}/n"), |namespace| failed(&namespace.json())).await;
        let left = cluster.get(&config_maps).await.expect(200).json();
        assert_eq!(left["items"], json!([]));
    });
}
