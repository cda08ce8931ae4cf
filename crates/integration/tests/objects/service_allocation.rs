//! The repair of the addresses and node ports of services, as kube-apiserver's repair controllers do. The tests choose
//! addresses from the part of the range that automatic allocation uses last.

use std::sync::Arc;
use std::time::Duration;

use pintle_integration::{Cluster, ManualClock, Options, Watch, advance_clock_until, manual_clock};
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

async fn start() -> (Cluster, Arc<ManualClock>) {
    let clock = manual_clock();
    (Cluster::with_options(Options { clock: clock.clone(), ..Options::default() }).await, clock)
}

fn service(name: &str, spec: Value) -> String {
    let mut spec = spec;
    spec["ports"] = spec.get("ports").cloned().unwrap_or_else(|| json!([{"port": 80}]));
    json!({"metadata": {"name": name}, "spec": spec}).to_string()
}

fn node_port(name: &str, port: u16) -> String {
    service(name, json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}))
}

fn ip_address(name: &str, service: &str) -> String {
    let labels = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        "ipaddress.kubernetes.io/ip-family": "IPv4"});
    let parent = json!({"resource": "services", "namespace": "default", "name": service});
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"parentRef": parent}}).to_string()
}

/// Waits for the event with a reason.
async fn event(events: &mut Watch, reason: &str) -> Value {
    loop {
        let event = events.next().await.expect("an event");
        if event["object"]["reason"] == reason {
            return event["object"].clone();
        }
    }
}

/// A stored service under another name.
fn stored_as(service: &Value, name: &str) -> Value {
    let mut stored = service.clone();
    let metadata = stored["metadata"].as_object_mut().expect("metadata");
    metadata.remove("resourceVersion");
    metadata.insert("name".to_owned(), json!(name));
    metadata.insert("uid".to_owned(), json!(format!("uid-{name}")));
    stored
}

#[test]
fn a_leaked_address_is_released_after_a_grace_period() {
    pintle_integration::run(async {
        let (cluster, clock) = start().await;
        let mut events = cluster.watch(&format!("{EVENTS}?watch=1")).await;
        let mut addresses = cluster.watch(&format!("{ADDRESSES}?watch=1&fieldSelector=metadata.name%3D10.0.0.7")).await;
        // This is the state after a crash before the server stored the service.
        let created = cluster.post(ADDRESSES, ip_address("10.0.0.7", "lost")).await.expect(201).json();
        addresses.expect("ADDED", "10.0.0.7").await;
        let released = advance_clock_until(&clock, addresses.expect("DELETED", "10.0.0.7")).await;
        assert_eq!(released["metadata"]["uid"], created["metadata"]["uid"]);
        let event = event(&mut events, "IPAddressNotAllocated").await;
        let message = "IPAddress: 10.0.0.7 for Service default/lost appears to have leaked: cleaning up";
        assert_eq!((&event["message"], &event["type"]), (&json!(message), &json!("Warning")));
        let involved = json!({"kind": "IPAddress", "apiVersion": "networking.k8s.io/v1", "name": "10.0.0.7",
            "uid": created["metadata"]["uid"], "resourceVersion": created["metadata"]["resourceVersion"]});
        assert_eq!(event["involvedObject"], involved);
        assert_eq!(event["reportingComponent"], "ipallocator-repair-controller");
        let elapsed = pintle_integration::Timestamp(1_700_000_000_000).after(Duration::from_secs(60));
        assert!(pintle_store::Clock::now(&*clock) >= elapsed, "not before the grace period has passed");
        // The address is available again.
        let _ = cluster.post(SERVICES, service("web", json!({"clusterIP": "10.0.0.7"}))).await.expect(201);
    });
}

#[test]
fn a_deleted_address_of_a_service_is_created_again() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut events = cluster.watch(&format!("{EVENTS}?watch=1")).await;
        let created = cluster.post(SERVICES, service("web", json!({}))).await.expect(201).json();
        let ip = created["spec"]["clusterIP"].as_str().expect("a cluster IP");
        let before = cluster.get(&format!("{ADDRESSES}/{ip}")).await.expect(200).json();
        let mut addresses = cluster.watch(&format!("{ADDRESSES}?watch=1&fieldSelector=metadata.name%3D{ip}")).await;
        addresses.expect("ADDED", ip).await;
        let _ = cluster.delete(&format!("{ADDRESSES}/{ip}")).await.expect(200);
        addresses.expect("DELETED", ip).await;
        let after = addresses.expect("ADDED", ip).await;
        assert_eq!((&after["spec"], &after["metadata"]["labels"]), (&before["spec"], &before["metadata"]["labels"]));
        let event = event(&mut events, "ClusterIPNotAllocated").await;
        assert_eq!(event["message"], format!("Cluster IP [IPv4]: {ip} is not allocated; repairing"));
        assert_eq!(event["involvedObject"]["name"], "web");
        assert_eq!(event["action"], "ClusterIPAllocation");
        let response = cluster.post(SERVICES, service("other", json!({"clusterIP": ip}))).await;
        response.expect_error(
            422,
            "Invalid",
            &format!(
                "Service \"other\" is invalid: spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: \
                 provided IP is already allocated"
            ),
        );
        // The addresses of a deleted service stay deleted.
        let _ = cluster.delete(&format!("{SERVICES}/web")).await.expect(200);
        addresses.expect("DELETED", ip).await;
        let _ = cluster.post(SERVICES, service("other", json!({"clusterIP": ip}))).await.expect(201);
        addresses.expect("ADDED", ip).await;
    });
}

#[test]
fn two_services_with_one_address_are_reported() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut events = cluster.watch(&format!("{EVENTS}?watch=1")).await;
        let first = cluster.post(SERVICES, service("first", json!({}))).await.expect(201).json();
        let ip = first["spec"]["clusterIP"].as_str().expect("a cluster IP");
        let second = stored_as(&first, "second").to_string();
        cluster.write_to_store("/registry/services/specs/default/second", second).await;
        let event = event(&mut events, "ClusterIPAlreadyAllocated").await;
        let message = format!("Cluster IP [IPv4]:{ip} was assigned to multiple services; please recreate service");
        assert_eq!((&event["message"], &event["involvedObject"]["name"]), (&json!(message), &json!("second")));
        // The address still belongs to the first service.
        let address = cluster.get(&format!("{ADDRESSES}/{ip}")).await.expect(200).json();
        assert_eq!(address["spec"]["parentRef"]["name"], "first");
    });
}

#[test]
fn an_address_with_a_wrong_reference_is_replaced() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let first = cluster.post(SERVICES, service("first", json!({}))).await.expect(201).json();
        let mut events = cluster.watch(&format!("{EVENTS}?watch=1")).await;
        let mut wrong: Value = serde_json::from_str(&ip_address("10.0.0.8", "gone")).expect("JSON");
        wrong["spec"]["parentRef"] = json!({"group": "example.com", "resource": "gateways", "name": "g"});
        let mut addresses = cluster.watch(&format!("{ADDRESSES}?watch=1&fieldSelector=metadata.name%3D10.0.0.8")).await;
        wrong["metadata"]["labels"] = json!({});
        let _ = cluster.post(ADDRESSES, wrong.to_string()).await.expect(201);
        addresses.expect("ADDED", "10.0.0.8").await;
        let mut second = stored_as(&first, "second");
        second["spec"]["clusterIP"] = json!("10.0.0.8");
        second["spec"]["clusterIPs"] = json!(["10.0.0.8"]);
        cluster.write_to_store("/registry/services/specs/default/second", second.to_string()).await;
        addresses.expect("DELETED", "10.0.0.8").await;
        let repaired = addresses.expect("ADDED", "10.0.0.8").await;
        assert_eq!(repaired["spec"]["parentRef"]["name"], "second");
        let event = event(&mut events, "ClusterIPNotAllocated").await;
        let message = "the ClusterIP [IPv4]: 10.0.0.8 for Service default/second has a wrong reference; repairing";
        assert_eq!(event["message"], message);
    });
}

#[test]
fn the_default_service_cidr_is_created_again() {
    pintle_integration::run(async {
        // Without controllers, the ServiceCIDR has no finalizer of a controller manager.
        let cluster = Cluster::with_options(Options { controllers: false, ..Options::default() }).await;
        let cidrs = "/apis/networking.k8s.io/v1/servicecidrs";
        let mut watch = cluster.watch(&format!("{cidrs}?watch=1")).await;
        let before = watch.expect("ADDED", "kubernetes").await;
        let _ = cluster.delete(&format!("{cidrs}/kubernetes")).await.expect(200);
        watch.expect("DELETED", "kubernetes").await;
        let after = watch.expect("ADDED", "kubernetes").await;
        assert_eq!(after["spec"], before["spec"]);
        let _ = cluster.post(SERVICES, service("web", json!({}))).await.expect(201);
    });
}

#[test]
fn an_address_outside_of_all_ranges_is_reported() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let first = cluster.post(SERVICES, service("first", json!({}))).await.expect(201).json();
        let mut events = cluster.watch(&format!("{EVENTS}?watch=1")).await;
        let mut second = stored_as(&first, "second");
        second["spec"]["clusterIP"] = json!("192.0.2.1");
        second["spec"]["clusterIPs"] = json!(["192.0.2.1"]);
        cluster.write_to_store("/registry/services/specs/default/second", second.to_string()).await;
        let event = event(&mut events, "ClusterIPOutOfRange").await;
        let message = "Cluster IP [IPv4]: 192.0.2.1 is not within any configured Service CIDR; please recreate service";
        assert_eq!(event["message"], message);
        let _ = cluster.get(&format!("{ADDRESSES}/192.0.2.1")).await.expect(404);
    });
}

#[test]
fn a_leaked_node_port_is_released() {
    pintle_integration::run(async {
        let (cluster, clock) = start().await;
        let created = cluster.post(SERVICES, node_port("first", 30100)).await.expect(201).json();
        // The service loses its port behind the allocator's back.
        let mut stored = stored_as(&created, "first");
        stored["metadata"]["uid"] = created["metadata"]["uid"].clone();
        stored["spec"]["type"] = json!("ClusterIP");
        stored["spec"]["ports"][0].as_object_mut().expect("a port").remove("nodePort");
        cluster.write_to_store("/registry/services/specs/default/first", stored.to_string()).await;
        assert_eq!(cluster.post(SERVICES, node_port("second", 30100)).await.status, 422);
        let retry = async { while cluster.post(SERVICES, node_port("second", 30100)).await.status != 201 {} };
        advance_clock_until(&clock, retry).await;
        // The server releases the port only after three repairs have found it, three minutes apart.
        let elapsed = pintle_integration::Timestamp(1_700_000_000_000).after(Duration::from_secs(360));
        assert!(pintle_store::Clock::now(&*clock) >= elapsed);
    });
}

/// Stores a service without allocations for its address and node port.
async fn store_service_without_allocations(cluster: &Cluster) {
    let created = cluster.post(SERVICES, node_port("first", 30100)).await.expect(201).json();
    let mut stored = stored_as(&created, "second");
    stored["spec"]["ports"][0]["nodePort"] = json!(30200);
    stored["spec"]["clusterIP"] = json!("10.0.0.9");
    stored["spec"]["clusterIPs"] = json!(["10.0.0.9"]);
    cluster.write_to_store("/registry/services/specs/default/second", stored.to_string()).await;
}

#[test]
fn events_about_a_service_at_one_time_do_not_replace_each_other() {
    pintle_integration::run(async {
        // The clock stands still, because upstream derives the names of events from the time.
        let cluster = Cluster::durable_with_options(Options { clock: manual_clock(), ..Options::default() }).await;
        let watch = format!("{EVENTS}?watch=1");
        let mut events = cluster.watch(&watch).await;
        store_service_without_allocations(&cluster).await;
        let _ = event(&mut events, "ClusterIPNotAllocated").await;
        // Node ports are repaired when the server starts.
        let cluster = cluster.restart().await;
        let mut events = cluster.watch(&watch).await;
        let repaired = event(&mut events, "PortNotAllocated").await;
        assert_eq!(repaired["involvedObject"]["name"], "second");
        cluster.stop().await;
    });
}

#[test]
fn a_node_port_that_is_not_allocated_is_repaired() {
    pintle_integration::run(async {
        let (cluster, clock) = start().await;
        let mut events = cluster.watch(&format!("{EVENTS}?watch=1")).await;
        store_service_without_allocations(&cluster).await;
        let event = advance_clock_until(&clock, event(&mut events, "PortNotAllocated")).await;
        assert_eq!(event["message"], "Port 30200 is not allocated; repairing");
        assert_eq!(event["source"]["component"], "portallocator-repair-controller");
        assert_eq!((&event["count"], &event["involvedObject"]["name"]), (&json!(1), &json!("second")));
        assert_eq!(cluster.post(SERVICES, node_port("third", 30200)).await.status, 422);
    });
}
