//! Tests of services through their whole life cycle, in the steps of the server: defaults, preparation, allocation,
//! validation, storage.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};

use pintle_registry::{
    ApiError, BoxFuture, GroupResource, GroupVersionKind, ObjectClient, Resource, StoredObject, StoredObjects,
    Strategy, StrategyContext, WriteOperation,
};
use pintle_value::{Errors, Value};

use super::network::ServiceNetwork;
use super::strategy::ServiceStrategy;
use crate::testing::{context, object};

/// Runs a future that is always ready.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
            return value;
        }
    }
}

/// The objects of a cluster.
#[derive(Default)]
struct Store {
    objects: Mutex<BTreeMap<(String, String, String), Value>>,
    /// Makes reads return nothing, as if another write had not been stored yet.
    blind: AtomicBool,
}

impl Store {
    fn key(resource: &GroupResource, namespace: &str, name: &str) -> (String, String, String) {
        (resource.to_string(), namespace.to_owned(), name.to_owned())
    }

    fn put(&self, resource: &str, object: Value) {
        let key = (resource.to_owned(), object.namespace().to_owned(), object.name().to_owned());
        self.objects.lock().unwrap().insert(key, object);
    }

    /// Returns the names of all objects of a resource.
    fn names(&self, resource: &str) -> Vec<String> {
        self.objects.lock().unwrap().keys().filter(|(r, ..)| r == resource).map(|(.., name)| name.clone()).collect()
    }
}

impl ObjectClient for Store {
    fn read(
        &self,
        resource: &GroupResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Box<dyn StoredObject>>, ApiError> {
        if self.blind.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let found = self.objects.lock().unwrap().get(&Self::key(resource, namespace, name)).cloned();
        Ok(found.map(|object| Box::new(object) as Box<dyn StoredObject>))
    }

    fn read_all(&self, resource: &GroupResource, _: &str) -> Result<StoredObjects, ApiError> {
        let (resource, objects) = (resource.to_string(), self.objects.lock().unwrap());
        let found: Vec<Value> =
            objects.iter().filter(|((r, ..), _)| *r == resource).map(|(_, object)| object.clone()).collect();
        Ok(Box::new(found.into_iter().map(|object| Box::new(object) as Box<dyn StoredObject>)))
    }

    fn last_change(&self, _: &GroupResource) -> Result<u64, ApiError> {
        Ok(0)
    }

    fn is_crd_terminating(&self, _: &Resource) -> Result<bool, ApiError> {
        Ok(false)
    }

    fn resource_of_kind(&self, _: &GroupVersionKind) -> Option<Arc<Resource>> {
        None
    }

    fn serves(&self, _: &str, _: &str) -> bool {
        true
    }

    fn create<'a>(&'a self, resource: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move {
            let mut objects = self.objects.lock().unwrap();
            let key = Self::key(resource, object.namespace(), object.name());
            if objects.contains_key(&key) {
                return Err(ApiError::AlreadyExists {
                    resource: resource.clone(),
                    name: object.name().into(),
                    terminating: false,
                    generated: false,
                });
            }
            objects.insert(key, object.clone());
            Ok(object)
        })
    }

    fn update<'a>(&'a self, resource: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move {
            self.put(&resource.to_string(), object.clone());
            Ok(object)
        })
    }

    fn update_status<'a>(&'a self, _: &'a GroupResource, _: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        panic!("no hook updates a status");
    }

    fn delete<'a>(
        &'a self,
        resource: &'a GroupResource,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            self.objects.lock().unwrap().remove(&Self::key(resource, namespace, name));
            Ok(())
        })
    }
}

/// A cluster with a service network.
struct Cluster {
    store: Store,
    strategy: ServiceStrategy,
}

impl Cluster {
    fn new(ranges: &[&str]) -> Self {
        let network = ServiceNetwork::new(ranges, 30000..=32767).unwrap();
        let store = Store::default();
        store.put("servicecidrs.networking.k8s.io", network.bootstrap_objects().remove(0).1);
        Self { store, strategy: ServiceStrategy::new(network) }
    }

    fn stored(&self, name: &str) -> Value {
        self.store.get(&GroupResource::new("", "services"), "ns", name).unwrap().unwrap_or_default()
    }

    /// Creates a service, or updates the service of this name.
    fn apply(&self, name: &str, spec: &str, dry_run: bool) -> Result<Value, ApiError> {
        let mut new = object(&format!(r#"{{"metadata":{{"name":"{name}","namespace":"ns"}},"spec":{spec}}}"#));
        let context = StrategyContext { dry_run, ..context() };
        let old = self.store.get(&GroupResource::new("", "services"), "ns", name).unwrap();
        let allocation = self.strategy.allocation().unwrap();
        self.strategy.defaults(&mut new);
        let ticket = match &old {
            None => {
                self.strategy.prepare_for_create(&context, &mut new);
                run(allocation.begin(&context, &self.store, WriteOperation::Create(&mut new)))?
            }
            Some(old) => {
                self.strategy.prepare_for_update(&context, &mut new, old);
                run(allocation.begin(&context, &self.store, WriteOperation::Update { object: &mut new, old }))?
            }
        };
        let errors = match &old {
            None => self.strategy.validate(&context, &new),
            Some(old) => self.strategy.validate_update(&context, &new, old),
        };
        if !errors.is_empty() || dry_run {
            run(allocation.revert(&self.store, ticket));
            return if errors.is_empty() { Ok(new) } else { Err(invalid(name, errors)) };
        }
        self.strategy.canonicalize(&mut new);
        self.store.put("services", new.clone());
        run(allocation.commit(&self.store, ticket));
        Ok(new)
    }

    fn delete(&self, name: &str) {
        let service = self.stored(name);
        let allocation = self.strategy.allocation().unwrap();
        let ticket = run(allocation.begin(&context(), &self.store, WriteOperation::Delete(&service))).unwrap();
        run(self.store.delete(&GroupResource::new("", "services"), "ns", name)).unwrap();
        run(allocation.commit(&self.store, ticket));
    }

    /// Expects a write to succeed, and returns the service's spec.
    #[track_caller]
    fn write(&self, name: &str, spec: &str) -> Value {
        self.apply(name, spec, false).unwrap()["spec"].clone()
    }

    /// Expects a write to fail with this message.
    #[track_caller]
    fn expect_error(&self, name: &str, spec: &str, expect: &str) {
        assert_eq!(self.apply(name, spec, false).map_err(|error| error.to_string()), Err(expect.to_owned()), "{spec}");
    }

    /// Expects exactly these addresses to be allocated.
    #[track_caller]
    fn expect_allocated(&self, expect: &[&str]) {
        assert_eq!(self.store.names("ipaddresses.networking.k8s.io"), expect);
    }
}

fn invalid(name: &str, errors: Errors) -> ApiError {
    ApiError::Invalid { kind: GroupVersionKind::new("", "v1", "Service"), name: name.into(), errors }
}

const PLAIN: &str = r#"{"ports":[{"port":80}]}"#;

#[test]
fn a_new_service_gets_defaults_and_an_address() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    let spec = cluster.write("web", PLAIN);
    let ip = spec.str_at(&["clusterIP"]).to_owned();
    let expect = format!(
        r#"{{"clusterIP":"{ip}","clusterIPs":["{ip}"],"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",
        "ports":[{{"port":80,"protocol":"TCP","targetPort":80}}],"sessionAffinity":"None","type":"ClusterIP"}}"#
    );
    assert_eq!(spec, object(&expect));
    cluster.expect_allocated(&[&ip]);
    // The manifest can be applied again.
    assert_eq!(cluster.write("web", PLAIN), spec);
    cluster.expect_allocated(&[&ip]);
    cluster.delete("web");
    cluster.expect_allocated(&[]);
}

#[test]
fn an_address_is_allocated_only_once() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    let with = |ip: &str| format!(r#"{{"clusterIP":"{ip}","ports":[{{"port":80}}]}}"#);
    cluster.write("a", &with("10.0.0.9"));
    cluster.expect_error("b", &with("10.0.0.9"), "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.9\"]: failed to allocate IP 10.0.0.9: provided IP is already allocated");
    cluster.expect_error("b", &with("10.1.0.9"), "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.1.0.9\"]: failed to allocate IP 10.1.0.9: the provided network does not match the current range");
    cluster.expect_error(
        "a",
        &with("10.0.0.8"),
        "Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: [\"10.0.0.8\"]: may not change once set",
    );
    // A write that fails after the allocation releases its address.
    cluster.expect_error("c", r#"{"ports":[]}"#, "Service \"c\" is invalid: spec.ports: Required value");
    cluster.expect_allocated(&["10.0.0.9"]);
}

#[test]
fn allocation_from_a_full_range_fails() {
    let cluster = Cluster::new(&["10.0.0.0/29"]);
    for name in ["a", "a2", "a3", "a4", "a5"] {
        cluster.write(name, PLAIN);
    }
    // A stale read does not cause an address to be allocated twice.
    cluster.store.blind.store(true, Ordering::Relaxed);
    cluster.write("b", PLAIN);
    cluster.store.blind.store(false, Ordering::Relaxed);
    cluster.expect_allocated(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]);
    cluster.expect_error("c", PLAIN, "Internal error occurred: failed to allocate a serviceIP: range is full");
    cluster.delete("a");
    cluster.write("c", PLAIN);
}

#[test]
fn services_without_addresses() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    let spec = cluster.write("headless", r#"{"clusterIP":"None","selector":{"a":"b"}}"#);
    assert_eq!(spec["clusterIPs"], object(r#"["None"]"#));
    let spec = cluster.write("elsewhere", r#"{"type":"ExternalName","externalName":"a.example.com"}"#);
    assert_eq!(spec, object(r#"{"type":"ExternalName","externalName":"a.example.com","sessionAffinity":"None"}"#));
    cluster.expect_allocated(&[]);
    // The service can change to another type and back.
    let spec = cluster.write("elsewhere", r#"{"clusterIP":"10.0.0.7","ports":[{"port":80}]}"#);
    assert_eq!(spec["clusterIPs"], object(r#"["10.0.0.7"]"#));
    cluster.expect_allocated(&["10.0.0.7"]);
    cluster.write("elsewhere", r#"{"type":"ExternalName","externalName":"a.example.com"}"#);
    cluster.expect_allocated(&[]);
}

#[test]
fn node_ports_are_allocated_and_released() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    let node_port = |port: i64| format!(r#"{{"type":"NodePort","ports":[{{"port":80,"nodePort":{port}}}]}}"#);
    cluster.write("a", &node_port(30001));
    cluster.expect_error(
        "b",
        &node_port(30001),
        "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated",
    );
    cluster.expect_error("b", &node_port(80), "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767");
    assert_eq!(cluster.store.names("ipaddresses.networking.k8s.io").len(), 1);
    // A changed port and a changed type release the node port.
    cluster.write("a", &node_port(30002));
    cluster.write("b", &node_port(30001));
    cluster.write("b", PLAIN);
    assert!(cluster.stored("b")["spec"]["ports"][0].get("nodePort").is_none());
    cluster.write("c", &node_port(30001));
    cluster.delete("c");
    cluster.write("d", &node_port(30001));
    // Ports with the same number share a node port.
    let spec = cluster.write(
        "dns",
        r#"{"type":"NodePort","ports":[{"name":"u","port":53,"protocol":"UDP"},{"name":"t","port":53}]}"#,
    );
    assert_eq!(spec["ports"][0]["nodePort"], spec["ports"][1]["nodePort"]);
    // After a restart, the allocated ports are loaded from the stored services.
    let restarted = Cluster { store: cluster.store, strategy: ServiceStrategy::new(ServiceNetwork::default()) };
    restarted.expect_error(
        "e",
        &node_port(30001),
        "Service \"e\" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated",
    );
    restarted.write("e", &node_port(30003));
}

#[test]
fn load_balancers_with_local_traffic_get_a_health_check_port() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    let local = r#"{"type":"LoadBalancer","externalTrafficPolicy":"Local","allocateLoadBalancerNodePorts":false,"ports":[{"port":80}]}"#;
    let spec = cluster.write("lb", local);
    let port = spec.int_at(&["healthCheckNodePort"]).unwrap();
    assert!((30086..=32767).contains(&port));
    assert!(spec["ports"][0].get("nodePort").is_none());
    let requested = |port: i64| local.replace("\"ports\"", &format!("\"healthCheckNodePort\":{port},\"ports\""));
    cluster.expect_error("other", &requested(port), &format!("Internal error occurred: failed to allocate requested HealthCheck NodePort {port}: provided port is already allocated"));
    assert_eq!(cluster.write("lb", local), spec);
    cluster.write("lb", PLAIN);
    assert!(cluster.stored("lb").at(&["spec", "healthCheckNodePort"]).is_none());
    cluster.write("other", &requested(port));
}

#[test]
fn two_families() {
    let cluster = Cluster::new(&["10.0.0.0/24", "fd00::/112"]);
    let policy = |policy: &str| format!(r#"{{"ipFamilyPolicy":"{policy}","ports":[{{"port":80}}]}}"#);
    let spec = cluster.write("a", &policy("SingleStack"));
    assert_eq!(spec["ipFamilies"], object(r#"["IPv4"]"#));
    let spec = cluster.write("a", &policy("RequireDualStack"));
    assert_eq!(spec["ipFamilies"], object(r#"["IPv4","IPv6"]"#));
    assert_eq!(
        (spec.items_at(&["clusterIPs"]).len(), cluster.store.names("ipaddresses.networking.k8s.io").len()),
        (2, 2)
    );
    let spec =
        cluster.write("a", &policy("SingleStack").replace("\"ports\"", "\"ipFamilies\":[\"IPv4\",\"IPv6\"],\"ports\""));
    assert_eq!(
        (spec.items_at(&["clusterIPs"]).len(), cluster.store.names("ipaddresses.networking.k8s.io").len()),
        (1, 1)
    );
    let spec = cluster.write("b", &policy("PreferDualStack"));
    assert_eq!(spec.items_at(&["clusterIPs"]).len(), 2);
}

#[test]
fn a_dry_run_allocates_nothing() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    let dry = cluster.apply("a", r#"{"type":"NodePort","ports":[{"port":80}]}"#, true).unwrap();
    assert_eq!(dry.str_at(&["spec", "clusterIP"]), "10.0.0.0");
    assert_eq!(dry["spec"]["ports"][0].int_at(&["nodePort"]), Some(32769));
    cluster
        .apply("a", r#"{"type":"NodePort","clusterIP":"10.0.0.5","ports":[{"port":80,"nodePort":30005}]}"#, true)
        .unwrap();
    cluster.expect_allocated(&[]);
    cluster.write("b", r#"{"type":"NodePort","clusterIP":"10.0.0.5","ports":[{"port":80,"nodePort":30005}]}"#);
    let text = cluster.apply("c", r#"{"clusterIP":"10.9.0.5","ports":[{"port":80}]}"#, true).map_err(|e| e.to_string());
    assert_eq!(text, Err("Service \"c\" is invalid: spec.clusterIPs: Invalid value: [\"10.9.0.5\"]: failed to allocate IP 10.9.0.5: the provided IP (10.9.0.5) is not in the valid range. The range of valid IPs is 10.0.0.0/24".to_owned()));
}

#[test]
fn deleting_a_service_deletes_its_endpoints() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    cluster.write("a", PLAIN);
    for name in ["a", "b"] {
        cluster.store.put("endpoints", object(&format!(r#"{{"metadata":{{"name":"{name}","namespace":"ns"}}}}"#)));
    }
    cluster.delete("a");
    assert_eq!(cluster.store.names("endpoints"), ["b"]);
}

#[test]
fn no_malformed_service_makes_the_allocator_panic() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    let allocation = cluster.strategy.allocation().unwrap();
    let sample = object(
        r#"{"metadata":{"name":"s","namespace":"ns"},"spec":{"type":"LoadBalancer","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"],
        "ipFamilyPolicy":"PreferDualStack","ports":[{"name":"a","port":80,"nodePort":30001},{"name":"b","port":81}],"externalTrafficPolicy":"Local",
        "healthCheckNodePort":30002,"allocateLoadBalancerNodePorts":true}}"#,
    );
    let go = |write: WriteOperation<'_>| {
        if let Ok(ticket) = run(allocation.begin(&context(), &cluster.store, write)) {
            run(allocation.commit(&cluster.store, ticket.clone()));
            run(allocation.revert(&cluster.store, ticket));
        }
    };
    for malformed in crate::networking::malformed_objects_tests::variants(&sample) {
        go(WriteOperation::Create(&mut malformed.clone()));
        go(WriteOperation::Update { object: &mut malformed.clone(), old: &sample });
        go(WriteOperation::Update { object: &mut sample.clone(), old: &malformed });
        go(WriteOperation::Delete(&malformed));
    }
}

#[test]
fn concurrent_creations_get_distinct_addresses_and_ports() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let cluster = &cluster;
            scope.spawn(move || {
                for i in 0..10 {
                    cluster.write(&format!("s-{thread}-{i}"), r#"{"type":"NodePort","ports":[{"port":80}]}"#);
                }
            });
        }
    });
    assert_eq!(cluster.store.names("ipaddresses.networking.k8s.io").len(), 80);
    let services = cluster.store.list(&GroupResource::new("", "services"), "").unwrap();
    let ports: std::collections::BTreeSet<i64> =
        services.iter().filter_map(|s| s["spec"]["ports"][0].int_at(&["nodePort"])).collect();
    assert_eq!(ports.len(), 80);
}
