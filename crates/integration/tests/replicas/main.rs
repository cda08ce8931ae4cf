//! Several servers over one etcd: their agreement on writes, and their division of work.

mod encryption;
mod old_versions;
mod slow_store;
mod stored_by_others;
mod swap;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pintle_integration::{Cluster, Engine, Etcd, Options, ServiceNetwork, eventually};
use pintle_layered_store::LayeredStore;
use pintle_store::{MemoryStore, Store};
use serde_json::{Value, json};

use self::slow_store::BadNetwork;

const NAMESPACES: &str = "/api/v1/namespaces";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ELECTION: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/pintle-controllers";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";

/// A server of number `number` over an etcd.
async fn replica(etcd: &Etcd, number: u8) -> Cluster {
    let advertise_address = Some([192, 0, 2, number].into());
    let engine = Engine::Etcd(etcd.config());
    Cluster::with_options(Options { engine, advertise_address, register: true, ..Options::default() }).await
}

/// Gets an object until a condition holds.
async fn get_until(cluster: &Cluster, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    cluster.get_until(path, |found| found.status == 200 && holds(&found.json())).await.json()
}

fn crd(plural: &str, kind: &str) -> Value {
    let versions =
        json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]);
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "singular": plural, "kind": kind, "listKind": format!("{kind}List")}},
    })
}

fn condition<'a>(crd: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = crd["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

fn addresses(endpoints: &Value) -> BTreeSet<&str> {
    let addresses = endpoints["subsets"][0]["addresses"].as_array();
    addresses.into_iter().flatten().filter_map(|address| address["ip"].as_str()).collect()
}

#[test]
fn nothing_is_created_in_a_namespace_that_another_server_deletes() {
    pintle_integration::run(async {
        let etcd = Etcd::start();
        let (first, second) = (replica(&etcd, 1).await, Arc::new(replica(&etcd, 2).await));
        for round in 0..12_u64 {
            let namespace = format!("round-{round}");
            let _ = first.post(NAMESPACES, json!({"metadata": {"name": namespace}}).to_string()).await.expect(201);
            let path = Arc::new(format!("{NAMESPACES}/{namespace}/configmaps"));
            let (is_over, created) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let (second, path) = (second.clone(), path.clone());
                    let (is_over, created) = (is_over.clone(), created.clone());
                    tokio::spawn(async move {
                        for number in 0.. {
                            if is_over.load(Ordering::Relaxed) {
                                break;
                            }
                            let object = json!({"metadata": {"name": format!("a-{writer}-{number}")}});
                            let response = second.post(&path, object.to_string()).await;
                            match response.status.as_u16() {
                                201 => {
                                    created.fetch_add(1, Ordering::Relaxed);
                                }
                                403 | 404 => {}
                                other => panic!("{other}: {}", response.text()),
                            }
                        }
                    })
                })
                .collect();
            eventually("an object is created", || async { created.load(Ordering::Relaxed) > 0 }).await;
            // Each round deletes the namespace at another moment.
            tokio::time::sleep(Duration::from_millis(7 * round)).await;
            let _ = first.delete(&format!("{NAMESPACES}/{namespace}")).await.expect(200);
            first.get_until_status(&format!("{NAMESPACES}/{namespace}"), 404).await;
            is_over.store(true, Ordering::Relaxed);
            for writer in writers {
                writer.await.expect("a writer");
            }
            for cluster in [&first, &*second] {
                let left = cluster.get(&path).await.expect(200).json();
                assert_eq!(left["items"], json!([]), "{namespace}");
            }
        }
    });
}

#[test]
fn a_server_that_lags_behind_creates_nothing_in_what_is_terminating() {
    pintle_integration::run(async {
        // The servers never use this address, because they get a store.
        let engine = Engine::Etcd(Etcd::config_of(["http://127.0.0.1:1".to_owned()]));
        let store = Arc::new(MemoryStore::new());
        let server = async |lag| {
            let layer = BadNetwork { lag, unanswered: None };
            let store: Arc<dyn Store> = Arc::new(LayeredStore { store: store.clone(), layer });
            Cluster::with_options(Options { store: Some(store), engine: engine.clone(), ..Options::default() }).await
        };
        let (prompt, lagging) = (server(Duration::ZERO).await, server(Duration::from_millis(400)).await);
        let namespace = format!("{NAMESPACES}/n");
        let _ = prompt.post(NAMESPACES, r#"{"metadata":{"name":"n"}}"#).await.expect(201);
        let _ = prompt.post(CRDS, crd("things", "Thing").to_string()).await.expect(201);
        let (path, crd) = (format!("{namespace}/configmaps"), format!("{CRDS}/things.example.com"));
        let things = "/apis/example.com/v1/namespaces/default/things";
        let object = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}}"#;
        // Both servers know the namespace and the CRD.
        let _ = lagging.get(&namespace).await.expect(200);
        lagging.get_until_status(things, 200).await;
        // A finalizer keeps the existing objects, and so the namespace and the CRD stay terminating.
        let kept = |kind: &str| format!(r#"{{{kind}"metadata":{{"name":"kept","finalizers":["example.com/f"]}}}}"#);
        let _ = prompt.post(&path, kept("")).await.expect(201);
        let _ = prompt.post(things, kept(r#""apiVersion":"example.com/v1","kind":"Thing","#)).await.expect(201);
        let _ = lagging.get(&path).await.expect(200);
        let (namespace_deletion, crd_deletion) = tokio::join!(prompt.delete(&namespace), prompt.delete(&crd));
        let (_, _) = (namespace_deletion.expect(200), crd_deletion.expect(200));
        // The lagging server does not know yet that the two are terminating.
        let (config_map, thing) =
            tokio::join!(lagging.post(&path, r#"{"metadata":{"name":"a"}}"#), lagging.post(things, object.to_owned()));
        let why =
            "configmaps \"a\" is forbidden: unable to create new content in namespace n because it is being terminated";
        config_map.expect_error(403, "Forbidden", why);
        let why =
            "things.example.com \"a\" is forbidden: create not allowed while custom resource definition is terminating";
        thing.expect_error(403, "Forbidden", why);
    });
}

#[test]
fn an_object_is_created_in_what_another_server_has_just_created() {
    pintle_integration::run(async {
        let etcd = Etcd::start();
        let (first, second) = (replica(&etcd, 1).await, replica(&etcd, 2).await);
        for number in 0..30 {
            let namespace = format!("n-{number}");
            let _ = first.post(NAMESPACES, json!({"metadata": {"name": namespace}}).to_string()).await.expect(201);
            let path = format!("{NAMESPACES}/{namespace}/configmaps");
            let _ = second.post(&path, r#"{"metadata":{"name":"a"}}"#).await.expect(201);
            // Reads are consistent, and updates see the writes of the other server.
            let found = first.get(&format!("{path}/a")).await.expect(200).json();
            let changed = json!({"metadata": found["metadata"], "data": {"k": "v"}});
            let _ = first.put(&format!("{path}/a"), changed.to_string()).await.expect(200);
            assert_eq!(second.get(&format!("{path}/a")).await.expect(200).json()["data"]["k"], "v");
            let _ = second.put(&format!("{path}/a"), changed.to_string()).await.expect(409);
            let _ = second.delete(&format!("{path}/a")).await.expect(200);
            let _ = first.post(&path, r#"{"metadata":{"name":"a"}}"#).await.expect(201);
        }
    });
}

#[test]
fn two_crds_never_get_the_same_names() {
    pintle_integration::run(async {
        let etcd = Etcd::start();
        let (first, second) = (replica(&etcd, 1).await, replica(&etcd, 2).await);
        for round in 0..8 {
            let plurals = [format!("as-{round}"), format!("bs-{round}")];
            let kind = format!("Thing{round}");
            let bodies = plurals.each_ref().map(|plural| crd(plural, &kind).to_string());
            let [a, b] = bodies;
            let created = tokio::join!(first.post(CRDS, a), second.post(CRDS, b));
            let _ = created.0.expect(201);
            let _ = created.1.expect(201);
            let mut accepted = Vec::new();
            for plural in &plurals {
                let path = format!("{CRDS}/{plural}.example.com");
                let settled = get_until(&second, &path, |found| condition(found, "NamesAccepted").is_some()).await;
                accepted.push(condition(&settled, "NamesAccepted") == Some("True"));
            }
            assert_eq!(accepted.iter().filter(|accepted| **accepted).count(), 1, "{plurals:?}: {accepted:?}");
            let plural = &plurals[usize::from(accepted[1])];
            let path = format!("{CRDS}/{plural}.example.com");
            for cluster in [&first, &second] {
                get_until(cluster, &path, |found| condition(found, "Established") == Some("True")).await;
                let objects = format!("/apis/example.com/v1/namespaces/default/{plural}");
                cluster.get_until_status(&objects, 200).await;
            }
        }
    });
}

#[test]
fn another_server_takes_over_from_one_that_stops() {
    pintle_integration::run(async {
        let etcd = Etcd::start();
        let first = replica(&etcd, 1).await;
        let leader = get_until(&first, ELECTION, |lease| lease["spec"]["holderIdentity"] != "").await;
        assert_eq!(leader["spec"]["leaseTransitions"], 0);
        let second = replica(&etcd, 2).await;
        let both = BTreeSet::from(["192.0.2.1", "192.0.2.2"]);
        get_until(&second, ENDPOINTS, |endpoints| addresses(endpoints) == both).await;
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
        get_until(&second, slices, |slice| slice["endpoints"].as_array().is_some_and(|found| found.len() == 2)).await;
        // A stop removes the server from the endpoints at once. The other server becomes leader without waiting for the
        // lease to expire.
        first.stop().await;
        let left = second.get(ENDPOINTS).await.expect(200).json();
        assert_eq!(addresses(&left), BTreeSet::from(["192.0.2.2"]));
        let next = get_until(&second, ELECTION, |lease| lease["spec"]["leaseTransitions"] == 1).await;
        assert_ne!(next["spec"]["holderIdentity"], leader["spec"]["holderIdentity"]);
        let _ = second.post(CRDS, crd("things", "Thing").to_string()).await.expect(201);
        let path = format!("{CRDS}/things.example.com");
        get_until(&second, &path, |found| condition(found, "Established") == Some("True")).await;
        let _ = second.post(NAMESPACES, r#"{"metadata":{"name":"gone"}}"#).await.expect(201);
        let _ = second.delete(&format!("{NAMESPACES}/gone")).await.expect(200);
        second.get_until_status(&format!("{NAMESPACES}/gone"), 404).await;
        second.stop().await;
    });
}

#[test]
fn servers_never_give_a_node_port_to_two_services() {
    pintle_integration::run(async {
        let etcd = Etcd::start();
        let services = ServiceNetwork::from_flags("10.0.0.0/24", "30000-30031").expect("a network");
        let server = async || {
            let engine = Engine::Etcd(etcd.config());
            Cluster::with_options(Options { engine, services: services.clone(), ..Options::default() }).await
        };
        let servers = [server().await, server().await];
        let path = "/api/v1/namespaces/default/services";
        let service = |name: &str, port: Option<i64>| {
            let port = json!({"port": 80, "nodePort": port.unwrap_or_default()});
            json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [port]}}).to_string()
        };
        let node_port = |service: &Value| service["spec"]["ports"][0]["nodePort"].as_i64().expect("a port");
        let creates = (0..32).map(|number| {
            let (server, body) = (&servers[number % 2], service(&format!("s-{number}"), None));
            async move { server.post(path, body).await.expect(201).json() }
        });
        let created: Vec<Value> = futures_util::future::join_all(creates).await;
        let ports: BTreeSet<i64> = created.iter().map(node_port).collect();
        assert_eq!(ports.into_iter().collect::<Vec<_>>(), (30000..=30031).collect::<Vec<_>>());
        for server in &servers {
            let full = "failed to allocate a nodePort: range is full";
            let message = format!("Internal error occurred: {full}");
            server.post(path, service("one-more", None)).await.expect_error(500, "InternalError", &message);
            let taken = server.post(path, service("taken", Some(30005))).await.expect(422).json();
            let message = taken["message"].as_str().expect("a message");
            assert!(message.contains("provided port is already allocated"), "{message}");
        }
        // A port that one server releases is available to the other server.
        let freed = node_port(&created[0]);
        let _ = servers[0].delete(&format!("{path}/s-0")).await.expect(200);
        let again = servers[1].post(path, service("again", Some(freed))).await.expect(201).json();
        assert_eq!(node_port(&again), freed);
        let _ = servers[1].delete(&format!("{path}/again")).await.expect(200);
        let last = servers[0].post(path, service("last", None)).await.expect(201).json();
        assert_eq!(node_port(&last), freed);
        // A starting server knows all allocated ports.
        let third = server().await;
        let _ = third.post(path, service("one-more", None)).await.expect(500);
    });
}

#[test]
fn what_is_allocated_for_a_write_is_kept_if_its_outcome_is_unknown() {
    pintle_integration::run(async {
        let engine = Engine::Etcd(Etcd::config_of(["http://127.0.0.1:1".to_owned()]));
        let shared = Arc::new(MemoryStore::new());
        let services = ServiceNetwork::from_flags("10.0.0.0/24", "30000-30031").expect("a network");
        let server = async |unanswered| {
            let layer = BadNetwork { lag: Duration::ZERO, unanswered };
            let store: Arc<dyn Store> = Arc::new(LayeredStore { store: shared.clone(), layer });
            let (engine, services) = (engine.clone(), services.clone());
            Cluster::with_options(Options { store: Some(store), engine, services, ..Options::default() }).await
        };
        let (sound, other) = (server(None).await, server(Some("/registry/services/specs/")).await);
        let path = "/api/v1/namespaces/default/services";
        let service = |name: &str, spec: Value| {
            let mut spec = spec;
            spec["type"] = json!("NodePort");
            json!({"metadata": {"name": name}, "spec": spec}).to_string()
        };
        let both = json!({"clusterIP": "10.0.0.77", "ports": [{"port": 80, "nodePort": 30005}]});
        let (address, port) =
            (json!({"clusterIP": "10.0.0.77", "ports": [{"port": 80}]}), json!({"ports": both["ports"]}));
        other.post(path, service("lost", both.clone())).await.expect_error(500, "", "the answer is lost");
        // The service is stored, and no other service gets its address or port.
        for server in [&sound, &other] {
            let found = server.get(&format!("{path}/lost")).await.expect(200).json();
            assert_eq!(found["spec"]["ports"][0]["nodePort"], 30005);
            for (name, spec, why) in [
                ("second", &address, "failed to allocate IP 10.0.0.77"),
                ("third", &port, "provided port is already allocated"),
            ] {
                let refused = server.post(path, service(name, spec.clone())).await.expect(422).json();
                assert!(refused["message"].as_str().expect("a message").contains(why), "{refused}");
            }
        }
        // A delete that succeeds without an answer keeps the allocations, too: the service could still exist.
        let deleted = other.delete(&format!("{path}/lost")).await;
        deleted.expect_error(500, "", "the answer is lost");
        assert_eq!(sound.get(&format!("{path}/lost")).await.status, 404);
    });
}
