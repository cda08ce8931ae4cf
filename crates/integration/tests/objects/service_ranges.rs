//! The ranges of service addresses: ServiceCIDRs with their finalizers and conditions, and servers that start on the
//! same folder with other ranges.

use std::sync::Arc;

use pintle_integration::{
    Cluster, ManualClock, Options, ServiceNetwork, Watch, advance_clock_until, manual_clock, run,
};
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

async fn start() -> (Cluster, Arc<ManualClock>) {
    let clock = manual_clock();
    (
        Cluster::with_options(Options { clock: clock.clone(), service_cidr_protection: true, ..Options::default() })
            .await,
        clock,
    )
}

fn network(ranges: &[&str], first: u16, last: u16) -> ServiceNetwork {
    ServiceNetwork::new(ranges, first..=last).expect("valid ranges")
}

fn service(name: &str, mut spec: Value) -> String {
    spec["ports"] = spec.get("ports").cloned().unwrap_or_else(|| json!([{"port": 80}]));
    json!({"metadata": {"name": name}, "spec": spec}).to_string()
}

fn service_cidr(name: &str, ranges: &[&str]) -> String {
    json!({"metadata": {"name": name}, "spec": {"cidrs": ranges}}).to_string()
}

async fn create(cluster: &Cluster, path: &str, body: String) -> Value {
    cluster.post(path, body).await.expect(201).json()
}

/// Waits until a ServiceCIDR meets a condition; it is null once the object is deleted.
async fn wait_until(watch: &mut Watch, name: &str, condition: impl Fn(&Value) -> bool) -> Value {
    loop {
        let event = watch.next().await.expect("an event");
        let object = if event["type"] == "DELETED" { &Value::Null } else { &event["object"] };
        if event["object"]["metadata"]["name"] == name && condition(object) {
            return object.clone();
        }
    }
}

async fn watch(cluster: &Cluster) -> Watch {
    cluster.watch(&format!("{CIDRS}?watch=1")).await
}

fn condition(cidr: &Value) -> (&str, &str) {
    let ready = &cidr["status"]["conditions"][0];
    (ready["status"].as_str().unwrap_or_default(), ready["message"].as_str().unwrap_or_default())
}

fn is_ready(cidr: &Value) -> bool {
    cidr["metadata"]["finalizers"] == json!([FINALIZER])
        && condition(cidr) == ("True", "Kubernetes Service CIDR is ready")
}

fn is_terminating(cidr: &Value) -> bool {
    let message =
        "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
    cidr["status"]["conditions"][0]["reason"] == "Terminating" && condition(cidr) == ("False", message)
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

#[test]
fn a_range_stays_until_no_service_needs_it() {
    run(async {
        let (cluster, clock) = start().await;
        let mut cidrs = watch(&cluster).await;
        create(&cluster, CIDRS, service_cidr("more", &["192.168.0.0/28"])).await;
        wait_until(&mut cidrs, "more", is_ready).await;
        create(&cluster, SERVICES, service("a", json!({"clusterIP": "192.168.0.5"}))).await;

        let _ = cluster.delete(&format!("{CIDRS}/more")).await.expect(200);
        wait_until(&mut cidrs, "more", is_terminating).await;
        // The server allocates no more addresses from the range.
        let refused =
            cluster.post(SERVICES, service("b", json!({"clusterIP": "192.168.0.6"}))).await.expect(422).json();
        let message = refused["message"].as_str().expect("a message");
        assert!(message.contains("the provided network does not match the current range"), "{message}");
        let _ = cluster.delete(&format!("{SERVICES}/a")).await.expect(200);
        let before = pintle_store::Clock::now(&*clock);
        advance_clock_until(&clock, wait_until(&mut cidrs, "more", Value::is_null)).await;
        let elapsed = pintle_store::Clock::now(&*clock).0 - before.0;
        assert!(elapsed >= 8_000, "other servers learn of it within ten seconds: {elapsed} ms");
    });
}

#[test]
fn a_range_in_use_can_be_replaced_by_a_wider_one() {
    run(async {
        let (cluster, clock) = start().await;
        let mut cidrs = watch(&cluster).await;
        let default = wait_until(&mut cidrs, "kubernetes", is_ready).await;
        assert_eq!(default["spec"]["cidrs"], json!(["10.0.0.0/24"]));
        let _ = cluster.delete(&format!("{CIDRS}/kubernetes")).await.expect(200);
        // The service `kubernetes` has an address in the range.
        wait_until(&mut cidrs, "kubernetes", is_terminating).await;
        create(&cluster, CIDRS, service_cidr("wide", &["10.0.0.0/16"])).await;
        wait_until(&mut cidrs, "wide", is_ready).await;
        advance_clock_until(&clock, wait_until(&mut cidrs, "kubernetes", Value::is_null)).await;
        // The server creates the ServiceCIDR again from the flag.
        let again = wait_until(&mut cidrs, "kubernetes", is_ready).await;
        assert_ne!(again["metadata"]["uid"], default["metadata"]["uid"]);
        create(&cluster, SERVICES, service("a", json!({"clusterIP": "10.0.200.1"}))).await;
        // The range is contained in the other range, so its addresses do not block the deletion.
        let _ = cluster.delete(&format!("{CIDRS}/kubernetes")).await.expect(200);
        advance_clock_until(&clock, wait_until(&mut cidrs, "kubernetes", Value::is_null)).await;
    });
}

#[test]
fn controllers_stand_by_without_touching_ranges() {
    run(async {
        let cluster = Cluster::with_options(Options { controllers: false, ..Options::default() }).await;
        let mut cidrs = watch(&cluster).await;
        let message = "Kubernetes default Service CIDR is ready";
        let default = wait_until(&mut cidrs, "kubernetes", |cidr| condition(cidr) == ("True", message)).await;
        assert_eq!(default["metadata"]["finalizers"], Value::Null);
        create(&cluster, CIDRS, service_cidr("more", &["192.168.0.0/28"])).await;
        // A ServiceCIDR without a condition counts as ready.
        create(&cluster, SERVICES, service("a", json!({"clusterIP": "192.168.0.5"}))).await;
        let _ = cluster.delete(&format!("{CIDRS}/more")).await.expect(200);
        wait_until(&mut cidrs, "more", Value::is_null).await;
        cluster.stop().await;
    });
}

#[test]
fn a_server_with_other_ranges_reports_what_does_not_fit() {
    run(async {
        let clock = manual_clock();
        let services = network(&["10.0.0.0/24"], 30000, 30100);
        let options = Options { clock: clock.clone(), services, service_cidr_protection: true, ..Options::default() };
        let cluster = Cluster::durable_with_options(options).await;
        let ports = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]});
        create(&cluster, SERVICES, service("old", ports)).await;

        let cluster = cluster.restart_with(|options| options.services = network(&["10.1.0.0/24"], 31000, 31100)).await;
        let mut events = cluster.watch(&format!("{EVENTS}?watch=1")).await;
        let mut seen = [event(&mut events, "KubernetesDefaultServiceCIDRInconsistent").await].to_vec();
        assert_eq!(
            seen[0]["message"],
            "The default ServiceCIDR [10.0.0.0/24] does not match the controller flag configurations [10.1.0.0/24]"
        );
        assert_eq!(seen[0]["source"]["component"], "kubernetes-service-cidr-controller");
        let mut events = cluster.watch(&format!("{EVENTS}?watch=1")).await;
        seen.push(advance_clock_until(&clock, event(&mut events, "PortOutOfRange")).await);
        let message = "Port 30001 is not within the port range 31000-31100; please recreate service";
        assert_eq!(seen[1]["message"], message);
        // The ServiceCIDR decides about addresses, the flag about ports.
        let ports = json!({"type": "NodePort", "ports": [{"port": 80}]});
        let new = create(&cluster, SERVICES, service("new", ports)).await;
        assert!(new["spec"]["clusterIP"].as_str().expect("an address").starts_with("10.0.0."), "{new}");
        let port = new["spec"]["ports"][0]["nodePort"].as_u64().expect("a port");
        assert!((31000..=31100).contains(&port), "{port}");

        // The test replaces the ServiceCIDR. The server reports services with an address of the old range.
        create(&cluster, CIDRS, service_cidr("old-range", &["10.0.0.0/24"])).await;
        let mut cidrs = watch(&cluster).await;
        wait_until(&mut cidrs, "old-range", is_ready).await;
        let _ = cluster.delete(&format!("{CIDRS}/kubernetes")).await.expect(200);
        let replaced = |cidr: &Value| cidr["spec"]["cidrs"] == json!(["10.1.0.0/24"]);
        advance_clock_until(&clock, wait_until(&mut cidrs, "kubernetes", replaced)).await;
        create(&cluster, SERVICES, service("fits", json!({"clusterIP": "10.1.0.9"}))).await;

        // A server with the ranges of both families adds the second range, and the first server's ports are valid
        // again.
        let both = network(&["10.1.0.0/24", "fd00::/112"], 30000, 32767);
        let cluster = cluster.restart_with(|options| options.services = both).await;
        let mut cidrs = watch(&cluster).await;
        wait_until(&mut cidrs, "kubernetes", |cidr| cidr["spec"]["cidrs"] == json!(["10.1.0.0/24", "fd00::/112"]))
            .await;
        let dual = create(&cluster, SERVICES, service("dual", json!({"ipFamilyPolicy": "RequireDualStack"}))).await;
        assert_eq!(dual["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
        let second = dual["spec"]["clusterIPs"][1].as_str().expect("a second address");
        assert!(second.starts_with("fd00::"), "{second}");
        let taken = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]});
        let retry = async { while cluster.post(SERVICES, service("taken", taken.clone())).await.status != 422 {} };
        retry.await;
        cluster.stop().await;
    });
}

#[test]
fn services_change_between_one_and_two_families() {
    run(async {
        let services = network(&["10.0.0.0/24", "fd00::/112"], 30000, 32767);
        let cluster =
            Cluster::with_options(Options { services, service_cidr_protection: true, ..Options::default() }).await;
        let single = create(&cluster, SERVICES, service("a", json!({}))).await;
        assert_eq!(single["spec"]["ipFamilyPolicy"], "SingleStack");
        assert_eq!(single["spec"]["ipFamilies"], json!(["IPv4"]));
        let path = format!("{SERVICES}/a");
        let patch = async |spec: Value| {
            cluster.patch(&path, "merge", json!({"spec": spec}).to_string()).await.expect(200).json()["spec"].clone()
        };
        let dual = patch(json!({"ipFamilyPolicy": "PreferDualStack"})).await;
        assert_eq!(dual["ipFamilies"], json!(["IPv4", "IPv6"]));
        assert_eq!(dual["clusterIPs"][0], single["spec"]["clusterIP"]);
        let second = dual["clusterIPs"][1].as_str().expect("a second address").to_owned();
        let address = format!("/apis/networking.k8s.io/v1/ipaddresses/{second}");
        let _ = cluster.get(&address).await.expect(200);
        let back = patch(json!({"ipFamilyPolicy": "SingleStack"})).await;
        assert_eq!((&back["ipFamilies"], &back["clusterIPs"]), (&json!(["IPv4"]), &single["spec"]["clusterIPs"]));
        cluster.get_until_status(&address, 404).await;
        let v6 = create(&cluster, SERVICES, service("b", json!({"ipFamilies": ["IPv6"]}))).await;
        assert!(v6["spec"]["clusterIP"].as_str().expect("an address").starts_with("fd00::"));
        cluster.stop().await;
    });
}
