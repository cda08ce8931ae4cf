//! The objects that the server and its controllers create and reconcile. These are service accounts and CA certificates
//! in every namespace, the `kubernetes` service with its endpoints, and the server's lease.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_gates::Gates;
use pintle_integration::{Cluster, Engine, Options, Watch, advance_clock_until, bootstrapped, manual_clock};
use serde_json::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";
const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
const SERVICE_ACCOUNTS: &str = "/api/v1/serviceaccounts";
/// The ConfigMaps with the certificate authority.
const CONFIGMAPS: &str = "/api/v1/configmaps?fieldSelector=metadata.name=kube-root-ca.crt";
const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

fn object_named(name: &str) -> String {
    json!({"metadata": {"name": name}}).to_string()
}

fn default_service_account(namespace: &str) -> String {
    format!("{NAMESPACES}/{namespace}/serviceaccounts/default")
}

fn root_ca_configmap(namespace: &str) -> String {
    format!("{NAMESPACES}/{namespace}/configmaps/kube-root-ca.crt")
}

/// The items of a list.
async fn items(cluster: &Cluster, path: &str) -> Vec<Value> {
    cluster.get(path).await.expect(200).json()["items"].as_array().cloned().unwrap_or_default()
}

/// The names of the listed objects by namespace.
async fn names(cluster: &Cluster, path: &str) -> BTreeMap<String, Vec<String>> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for item in items(cluster, path).await {
        let text = |key: &str| item["metadata"][key].as_str().unwrap_or_default().to_owned();
        names.entry(text("namespace")).or_default().push(text("name"));
    }
    names
}

/// One object with this name in each namespace.
fn in_each_namespace<'n>(namespaces: impl IntoIterator<Item = &'n str>, name: &str) -> BTreeMap<String, Vec<String>> {
    namespaces.into_iter().map(|namespace| (namespace.to_owned(), vec![name.to_owned()])).collect()
}

/// Watches the object at a path.
async fn watch(cluster: &Cluster, path: &str) -> Watch {
    let (collection, name) = path.rsplit_once('/').expect("a path");
    cluster.watch(&format!("{collection}?watch=1&fieldSelector=metadata.name%3D{name}")).await
}

/// Waits until the object at a path exists and meets a condition.
async fn wait_until(cluster: &Cluster, path: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let mut watch = watch(cluster, path).await;
    loop {
        let event = watch.next().await.expect("an event");
        if event["type"] != "DELETED" && condition(&event["object"]) {
            return event["object"].clone();
        }
    }
}

/// Waits until the server's lease has another holder than `before`, and returns it.
async fn server_lease(cluster: &Cluster, before: &Value) -> Value {
    let label = "apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver";
    let mut watch = cluster.watch(&format!("{LEASES}?watch=1&labelSelector={label}")).await;
    loop {
        let event = watch.next().await.expect("an event");
        if event["type"] != "DELETED" && event["object"]["spec"]["holderIdentity"] != before["spec"]["holderIdentity"] {
            return event["object"].clone();
        }
    }
}

/// Deletes the object at a path, and waits until it is created again.
async fn delete_and_wait_for_recreation(cluster: &Cluster, path: &str) -> Value {
    let before = wait_until(cluster, path, |_| true).await;
    let _ = cluster.delete(path).await.expect(200);
    wait_until(cluster, path, |object| object["metadata"]["uid"] != before["metadata"]["uid"]).await
}

/// Patches the object at a path, and waits until a controller reverts the change.
async fn patch_and_wait_for_revert(cluster: &Cluster, path: &str, patch: Value) {
    let without_volatile_metadata = |object: &Value| {
        let mut object = object.clone();
        for key in ["resourceVersion", "managedFields", "generation"] {
            object["metadata"].as_object_mut().expect("metadata").remove(key);
        }
        object
    };
    let before = wait_until(cluster, path, |_| true).await;
    let changed = cluster.patch(path, "merge", patch.to_string()).await.expect(200).json();
    assert_ne!(without_volatile_metadata(&changed), without_volatile_metadata(&before), "{path}");
    wait_until(cluster, path, |object| without_volatile_metadata(object) == without_volatile_metadata(&before)).await;
}

#[test]
fn a_ready_server_has_bootstrapped_its_cluster() {
    pintle_integration::run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        assert_eq!(names(&cluster, SERVICE_ACCOUNTS).await, in_each_namespace(SYSTEM_NAMESPACES, "default"));
        assert_eq!(names(&cluster, CONFIGMAPS).await, in_each_namespace(SYSTEM_NAMESPACES, "kube-root-ca.crt"));
        let found = cluster.get(&root_ca_configmap("default")).await.expect(200).json();
        let pem = found["data"]["ca.crt"].as_str().unwrap_or_default();
        assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\n") && pem.ends_with("-----END CERTIFICATE-----\n"));
        assert_eq!(found["data"].as_object().map(serde_json::Map::len), Some(1));
        let about = found["metadata"]["annotations"]["kubernetes.io/description"].as_str().unwrap_or_default();
        assert!(about.starts_with("Contains a CA bundle that can be used to verify the kube-apiserver"), "{about}");
        let tracking =
            format!("{NAMESPACES}/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking");
        let since = cluster.get(&tracking).await.expect(200).json()["data"]["since"].clone();
        assert!(since.as_str().is_some_and(|date| date.len() == "2022-10-24".len()), "{since}");

        let port: u16 = cluster.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let service = cluster.get(SERVICE).await.expect(200).json();
        assert_eq!(service["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
        assert_eq!(
            service["spec"],
            json!({
                "clusterIP": "10.0.0.1",
                "clusterIPs": ["10.0.0.1"],
                "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
                "sessionAffinity": "None",
                "type": "ClusterIP",
            })
        );
        let endpoints = cluster.get(ENDPOINTS).await.expect(200).json();
        assert_eq!(endpoints["metadata"]["labels"], json!({"endpointslice.kubernetes.io/skip-mirror": "true"}));
        let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
        assert_eq!(endpoints["subsets"], json!([{"addresses": [{"ip": "192.0.2.1"}], "ports": ports}]));
        let slice = cluster.get(SLICE).await.expect(200).json();
        assert_eq!(slice["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));
        assert_eq!(slice["addressType"], "IPv4");
        assert_eq!(slice["endpoints"], json!([{"addresses": ["192.0.2.1"], "conditions": {"ready": true}}]));
        assert_eq!(slice["ports"], ports);

        let lease = server_lease(&cluster, &Value::Null).await;
        let name = lease["metadata"]["name"].as_str().unwrap_or_default();
        assert!(name.starts_with("apiserver-") && name.len() == 36, "{name}");
        assert_eq!(lease["metadata"]["labels"]["apiserver.kubernetes.io/identity"], "kube-apiserver");
        let address = &lease["metadata"]["annotations"]["kubernetes.io/peer-advertise-address"];
        assert_eq!(*address, format!("192.0.2.1:{port}"));
        assert_eq!(lease["spec"]["leaseDurationSeconds"], 3600);
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        assert_eq!(holder.split_once('_').map(|(of, run)| (of, run.len())), Some((name, 36)));
        cluster.stop().await;
    });
}

#[test]
fn disabled_features_create_no_objects() {
    pintle_integration::run(async {
        let check = async |options: Options, service: usize, endpoints: usize, leases: usize, fixtures: usize| {
            let cluster = Cluster::with_options(options).await;
            if leases > 0 {
                server_lease(&cluster, &Value::Null).await;
            }
            let found = [
                items(&cluster, "/api/v1/services").await.len(),
                items(&cluster, "/api/v1/endpoints").await.len(),
                items(&cluster, "/apis/discovery.k8s.io/v1/endpointslices").await.len(),
                items(&cluster, "/apis/coordination.k8s.io/v1/leases").await.len(),
                items(&cluster, SERVICE_ACCOUNTS).await.len(),
                items(&cluster, CONFIGMAPS).await.len(),
            ];
            assert_eq!(found, [service, endpoints, endpoints, leases, fixtures, fixtures]);
            cluster.stop().await;
        };
        check(bootstrapped(), 1, 1, 1, 4).await;
        check(Options { reconcile_endpoints: false, ..bootstrapped() }, 1, 0, 1, 4).await;
        check(Options { controllers: false, ..bootstrapped() }, 1, 1, 1, 0).await;
        let loopback = "127.0.0.1".parse().ok();
        check(Options { advertise_address: loopback, ..bootstrapped() }, 1, 0, 1, 4).await;
        let off = ["APIServerIdentity", "UnknownVersionInteroperabilityProxy"].map(|name| (name.to_owned(), false));
        let (gates, _) = Gates::with_overrides(&off.into()).expect("feature gates that can be disabled");
        check(Options { gates, ..bootstrapped() }, 1, 1, 0, 4).await;
        check(Options::default(), 1, 0, 0, 0).await;
    });
}

#[test]
fn service_accounts_and_ca_certificates_are_reconciled() {
    pintle_integration::run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        let _ = cluster.post(NAMESPACES, object_named("n")).await.expect(201);
        for namespace in ["n", "kube-public"] {
            delete_and_wait_for_recreation(&cluster, &default_service_account(namespace)).await;
            let path = root_ca_configmap(namespace);
            delete_and_wait_for_recreation(&cluster, &path).await;
            patch_and_wait_for_revert(&cluster, &path, json!({"data": {"ca.crt": "another"}})).await;
            patch_and_wait_for_revert(&cluster, &path, json!({"data": {"more": "data"}})).await;
            patch_and_wait_for_revert(&cluster, &path, json!({"data": null})).await;
            patch_and_wait_for_revert(
                &cluster,
                &path,
                json!({"metadata": {"annotations": {"kubernetes.io/description": null}}}),
            )
            .await;
        }
        // The controllers do not change fields that they do not own.
        let patch = json!({"imagePullSecrets": [{"name": "mine"}]}).to_string();
        let _ = cluster.patch(&default_service_account("n"), "merge", patch).await.expect(200);
        let patch = json!({"metadata": {"labels": {"mine": "yes"}}}).to_string();
        let _ = cluster.patch(&root_ca_configmap("n"), "merge", patch).await.expect(200);
        patch_and_wait_for_revert(&cluster, &root_ca_configmap("n"), json!({"data": {"ca.crt": "another"}})).await;
        let object = cluster.get(&root_ca_configmap("n")).await.expect(200).json();
        assert_eq!(object["metadata"]["labels"], json!({"mine": "yes"}));
        let object = cluster.get(&default_service_account("n")).await.expect(200).json();
        assert_eq!(object["imagePullSecrets"], json!([{"name": "mine"}]));
        cluster.stop().await;
    });
}

#[test]
fn many_new_namespaces_are_bootstrapped_concurrently() {
    pintle_integration::run(async {
        let cluster = Cluster::durable_with_options(bootstrapped()).await;
        let created: Vec<String> = (0..100).map(|i| format!("n{i}")).collect();
        for name in &created {
            let _ = cluster.post(NAMESPACES, object_named(name)).await.expect(201);
        }
        for name in &created {
            wait_until(&cluster, &default_service_account(name), |_| true).await;
            wait_until(&cluster, &root_ca_configmap(name), |_| true).await;
        }
        let all = || SYSTEM_NAMESPACES.into_iter().chain(created.iter().map(String::as_str));
        assert_eq!(names(&cluster, SERVICE_ACCOUNTS).await, in_each_namespace(all(), "default"));
        assert_eq!(names(&cluster, CONFIGMAPS).await, in_each_namespace(all(), "kube-root-ca.crt"));
        let cluster = cluster.restart().await;
        assert_eq!(names(&cluster, SERVICE_ACCOUNTS).await, in_each_namespace(all(), "default"));
        cluster.stop().await;
    });
}

#[test]
fn nothing_is_recreated_in_a_terminating_namespace() {
    pintle_integration::run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        let _ = cluster.post(NAMESPACES, object_named("n")).await.expect(201);
        wait_until(&cluster, &default_service_account("n"), |_| true).await;
        wait_until(&cluster, &root_ca_configmap("n"), |_| true).await;
        let with_finalizer = json!({"metadata": {"name": "held", "finalizers": ["example.com/mine"]}}).to_string();
        let maps = format!("{NAMESPACES}/n/configmaps");
        let _ = cluster.post(&maps, with_finalizer).await.expect(201);
        let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
        let has_remaining_content = |namespace: &Value| {
            let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|c| c["type"] == "NamespaceContentRemaining" && c["status"] == "True")
        };
        wait_until(&cluster, &format!("{NAMESPACES}/n"), has_remaining_content).await;
        // A controller would have recreated the other objects before this service account.
        delete_and_wait_for_recreation(&cluster, &default_service_account("default")).await;
        assert_eq!(names(&cluster, SERVICE_ACCOUNTS).await, in_each_namespace(SYSTEM_NAMESPACES, "default"));
        assert_eq!(names(&cluster, &maps).await, in_each_namespace(["n"], "held"));
        let mut deleted = watch(&cluster, &format!("{NAMESPACES}/n")).await;
        let remove_finalizers = json!({"metadata": {"finalizers": null}}).to_string();
        let _ = cluster.patch(&format!("{maps}/held"), "merge", remove_finalizers).await.expect(200);
        while deleted.next().await.expect("an event")["type"] != "DELETED" {}
        assert_eq!(names(&cluster, CONFIGMAPS).await, in_each_namespace(SYSTEM_NAMESPACES, "kube-root-ca.crt"));
        cluster.stop().await;
    });
}

#[test]
fn system_namespaces_are_protected_or_recreated() {
    pintle_integration::run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        for name in ["default", "kube-system", "kube-public"] {
            cluster.delete(&format!("{NAMESPACES}/{name}")).await.expect_error(
                403,
                "Forbidden",
                &format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"),
            );
        }
        let recreated = delete_and_wait_for_recreation(&cluster, &format!("{NAMESPACES}/kube-node-lease")).await;
        assert_eq!(recreated["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "kube-node-lease"}));
        wait_until(&cluster, &default_service_account("kube-node-lease"), |_| true).await;
        cluster.stop().await;
    });
}

#[test]
fn the_kubernetes_service_and_its_endpoints_are_reconciled() {
    pintle_integration::run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        let recreated = delete_and_wait_for_recreation(&cluster, SERVICE).await;
        assert_eq!(recreated["spec"]["clusterIP"], "10.0.0.1");
        delete_and_wait_for_recreation(&cluster, ENDPOINTS).await;
        delete_and_wait_for_recreation(&cluster, SLICE).await;
        let wrong_value = json!([{"addresses": [{"ip": "192.0.2.9"}], "ports": [{"name": "https", "port": 1}]}]);
        patch_and_wait_for_revert(&cluster, ENDPOINTS, json!({"subsets": wrong_value})).await;
        patch_and_wait_for_revert(&cluster, ENDPOINTS, json!({"subsets": null})).await;
        patch_and_wait_for_revert(&cluster, ENDPOINTS, json!({"metadata": {"labels": null}})).await;
        let wrong_value = json!([{"addresses": ["192.0.2.9"], "conditions": {"ready": false}}]);
        patch_and_wait_for_revert(&cluster, SLICE, json!({"endpoints": wrong_value})).await;
        patch_and_wait_for_revert(&cluster, SLICE, json!({"ports": null})).await;
        patch_and_wait_for_revert(&cluster, SLICE, json!({"metadata": {"labels": {"mine": "no"}}})).await;
        // Changes of the service itself are kept while the server runs.
        let patch = json!({"metadata": {"labels": {"mine": "yes"}}}).to_string();
        let _ = cluster.patch(SERVICE, "merge", patch).await.expect(200);
        delete_and_wait_for_recreation(&cluster, ENDPOINTS).await;
        assert_eq!(cluster.get(SERVICE).await.expect(200).json()["metadata"]["labels"]["mine"], "yes");
        cluster.stop().await;
    });
}

#[test]
fn wrong_objects_from_an_earlier_run_are_corrected_at_the_start() {
    pintle_integration::run(async {
        let cluster = Cluster::durable().await;
        let slice = json!({
            "metadata": {"name": "kubernetes"},
            "addressType": "IPv6",
            "endpoints": [{"addresses": ["2001:db8::9"]}],
        });
        let (collection, _) = SLICE.rsplit_once('/').expect("a path");
        let left = cluster.post(collection, slice.to_string()).await.expect(201).json();
        let wrong_value = json!([{"name": "http", "port": 80, "targetPort": 80}]);
        let ports = json!({"spec": {"ports": wrong_value, "type": "NodePort"}}).to_string();
        let _ = cluster.patch(SERVICE, "merge", ports).await.expect(200);
        cluster.stop_server().await;

        let folder = cluster.data_dir().map(std::path::Path::to_owned);
        let options = Options { data_dir: folder, engine: Engine::Embedded, ..bootstrapped() };
        let bootstrapped = Cluster::with_options(options).await;
        let service = wait_until(&bootstrapped, SERVICE, |service| service["spec"]["type"] == "ClusterIP").await;
        assert_eq!(service["spec"]["ports"][0]["port"], 443);
        // The address type of an EndpointSlice is immutable, so the server replaces the slice.
        let slice = wait_until(&bootstrapped, SLICE, |slice| slice["addressType"] == "IPv4").await;
        assert_ne!(slice["metadata"]["uid"], left["metadata"]["uid"]);
        assert_eq!(names(&bootstrapped, SERVICE_ACCOUNTS).await, in_each_namespace(SYSTEM_NAMESPACES, "default"));
        bootstrapped.stop().await;
    });
}

#[test]
fn a_stopping_server_withdraws_its_endpoints_and_lease() {
    pintle_integration::run(async {
        let cluster = Cluster::durable_with_options(bootstrapped()).await;
        let endpoints = cluster.get(ENDPOINTS).await.expect(200).json();
        let slice = cluster.get(SLICE).await.expect(200).json();
        let from = |object: &Value| object["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
        let lease = server_lease(&cluster, &Value::Null).await;
        let service = cluster.get(SERVICE).await.expect(200).json();

        let cluster = cluster.restart().await;
        let (collection, _) = ENDPOINTS.rsplit_once('/').expect("a path");
        let since = from(&endpoints);
        let mut watch = cluster.watch(&format!("{collection}?watch=1&resourceVersion={since}")).await;
        assert_eq!(watch.expect("MODIFIED", "kubernetes").await["subsets"], Value::Null);
        assert_eq!(watch.expect("MODIFIED", "kubernetes").await["subsets"], endpoints["subsets"]);
        let (collection, _) = SLICE.rsplit_once('/').expect("a path");
        let mut watch = cluster.watch(&format!("{collection}?watch=1&resourceVersion={}", from(&slice))).await;
        let withdrawn = watch.expect("MODIFIED", "kubernetes").await;
        // Lists that are never omitted are null.
        assert_eq!((withdrawn.get("endpoints"), withdrawn.get("ports")), (Some(&Value::Null), Some(&Value::Null)));
        let name = lease["metadata"]["name"].as_str().expect("a name");
        let mut watch = cluster.watch(&format!("{LEASES}?watch=1&resourceVersion={}", from(&lease))).await;
        watch.expect("DELETED", name).await;
        let second = watch.expect("ADDED", name).await;
        assert_ne!(second["spec"]["holderIdentity"], lease["spec"]["holderIdentity"]);
        assert_eq!(cluster.get(SERVICE).await.expect(200).json(), service);

        // A killed server withdraws nothing. After the restart, its endpoints are still correct.
        let endpoints = cluster.get(ENDPOINTS).await.expect(200).json();
        cluster.kill_server().await;
        cluster.start_server().await;
        assert_eq!(cluster.get(ENDPOINTS).await.expect(200).json(), endpoints);
        let third = server_lease(&cluster, &second).await;
        assert_ne!(third["metadata"]["uid"], second["metadata"]["uid"]);

        // A server on another port updates the service and the endpoints.
        cluster.stop_server().await;
        let moved = cluster.start_on_another_port().await;
        let port: u16 = moved.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        wait_until(&moved, SERVICE, |service| service["spec"]["ports"][0]["targetPort"] == port).await;
        wait_until(&moved, SLICE, |slice| slice["ports"][0]["port"] == port).await;
        moved.stop().await;
        cluster.stop().await;
    });
}

#[test]
fn controllers_pause_while_a_controller_manager_holds_its_lease() {
    pintle_integration::run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        let lease = |renewed: &str| {
            json!({
                "metadata": {"name": "kube-controller-manager"},
                "spec": {"holderIdentity": "someone", "leaseDurationSeconds": 3600, "renewTime": renewed},
            })
            .to_string()
        };
        let _ = cluster.post(LEASES, lease("2200-01-01T00:00:00.000000Z")).await.expect(201);
        let _ = cluster.post(NAMESPACES, object_named("n")).await.expect(201);
        let _ = cluster.delete(&default_service_account("default")).await.expect(200);
        let changed = json!({"data": {"ca.crt": "theirs"}}).to_string();
        let _ = cluster.patch(&root_ca_configmap("default"), "merge", changed).await.expect(200);
        // The API server's own objects are still reconciled. Other controllers would have acted by then, too.
        delete_and_wait_for_recreation(&cluster, ENDPOINTS).await;
        delete_and_wait_for_recreation(&cluster, SERVICE).await;
        assert_eq!(
            names(&cluster, SERVICE_ACCOUNTS).await,
            in_each_namespace(SYSTEM_NAMESPACES.into_iter().skip(1), "default")
        );
        assert_eq!(cluster.get(&root_ca_configmap("default")).await.expect(200).json()["data"]["ca.crt"], "theirs");
        // The lease of the controller manager expires.
        let path = format!("{LEASES}/kube-controller-manager");
        let _ = cluster.patch(&path, "merge", lease("2020-01-01T00:00:00.000000Z")).await.expect(200);
        for namespace in ["n", "default"] {
            wait_until(&cluster, &default_service_account(namespace), |_| true).await;
            wait_until(&cluster, &root_ca_configmap(namespace), |object| object["data"]["ca.crt"] != "theirs").await;
        }
        cluster.stop().await;
    });
}

#[test]
fn the_servers_lease_is_renewed_and_expired_server_leases_are_deleted() {
    pintle_integration::run(async {
        let clock = manual_clock();
        // Watches must not time out when the test advances the clock.
        let min_request_timeout = Duration::from_secs(10_000);
        let options = Options { clock: clock.clone(), min_request_timeout, ..bootstrapped() };
        let cluster = Cluster::with_options(options).await;
        let lease = server_lease(&cluster, &Value::Null).await;
        let name = lease["metadata"]["name"].as_str().expect("a name").to_owned();
        let own = format!("{LEASES}/{name}");
        let mut renewals = watch(&cluster, &own).await;
        renewals.expect("ADDED", &name).await;
        let renewed = advance_clock_until(&clock, renewals.expect("MODIFIED", &name)).await;
        assert_eq!(renewed["spec"]["holderIdentity"], lease["spec"]["holderIdentity"]);
        assert_eq!(lease["spec"]["renewTime"], "2023-11-14T22:13:20.000000Z");
        let renew_time = renewed["spec"]["renewTime"].as_str().unwrap_or_default();
        assert!(renew_time >= "2023-11-14T22:13:30.000000Z", "{renew_time}");
        let _ = cluster.delete(&own).await.expect(200);
        renewals.expect("DELETED", &name).await;
        advance_clock_until(&clock, renewals.expect("ADDED", &name)).await;

        let server = |name: &str, label: &str, spec: Value| {
            json!({"metadata": {"name": name, "labels": {"apiserver.kubernetes.io/identity": label}}, "spec": spec})
                .to_string()
        };
        let lease_spec = |renewed: &str| json!({"leaseDurationSeconds": 3600, "renewTime": renewed});
        let expired = lease_spec("2023-11-14T20:00:00.000000Z");
        let _ = cluster.post(LEASES, server("expired", "kube-apiserver", expired.clone())).await.expect(201);
        let _ = cluster.post(LEASES, server("empty", "kube-apiserver", json!({}))).await.expect(201);
        let later = lease_spec("2023-11-14T23:00:00.000000Z");
        let _ = cluster.post(LEASES, server("later", "kube-apiserver", later)).await.expect(201);
        let _ = cluster.post(LEASES, server("other", "another", expired)).await.expect(201);
        let mut first = watch(&cluster, &format!("{LEASES}/expired")).await;
        let mut second = watch(&cluster, &format!("{LEASES}/empty")).await;
        first.expect("ADDED", "expired").await;
        second.expect("ADDED", "empty").await;
        clock.advance(Duration::from_secs(3600));
        first.expect("DELETED", "expired").await;
        second.expect("DELETED", "empty").await;
        let left = names(&cluster, LEASES).await;
        assert_eq!(left["kube-system"], [name.as_str(), "later", "other"]);
        cluster.stop().await;
    });
}

#[test]
fn token_secrets_are_deleted_with_their_service_account() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let accounts = format!("{NAMESPACES}/default/serviceaccounts");
        let secrets = format!("{NAMESPACES}/default/secrets");
        let token = |name: &str, default_service_account: &str, uid: &str| {
            let mut annotations = json!({"kubernetes.io/service-account.name": default_service_account});
            if !uid.is_empty() {
                annotations["kubernetes.io/service-account.uid"] = uid.into();
            }
            let metadata = json!({"name": name, "annotations": annotations});
            json!({"metadata": metadata, "type": "kubernetes.io/service-account-token"}).to_string()
        };
        let body = json!({"metadata": {"name": "a"}, "secrets": [{"name": "mine"}, {"name": "other"}]}).to_string();
        let a = cluster.post(&accounts, body).await.expect(201).json();
        let uid = a["metadata"]["uid"].as_str().expect("a uid");
        let _ = cluster.post(&secrets, token("mine", "a", uid)).await.expect(201);
        let _ = cluster.post(&secrets, token("without-uid", "a", "")).await.expect(201);
        let plain = json!({"metadata": {"name": "plain", "annotations": {"kubernetes.io/service-account.name": "b"}}});
        let _ = cluster.post(&secrets, plain.to_string()).await.expect(201);
        // Token secrets of missing service accounts are deleted at once.
        for (name, default_service_account, uid) in [("stray", "b", ""), ("stale", "a", "another")] {
            let mut deleted = watch(&cluster, &format!("{secrets}/{name}")).await;
            let _ = cluster.post(&secrets, token(name, default_service_account, uid)).await.expect(201);
            deleted.expect("ADDED", name).await;
            deleted.expect("DELETED", name).await;
        }
        let left =
            |names: &[&str]| BTreeMap::from([("default".to_owned(), names.iter().map(|n| (*n).to_owned()).collect())]);
        assert_eq!(names(&cluster, &secrets).await, left(&["mine", "plain", "without-uid"]));
        // The reference to a deleted token secret is removed from the service account.
        let _ = cluster.delete(&format!("{secrets}/mine")).await.expect(200);
        let has_no_reference =
            |default_service_account: &Value| default_service_account["secrets"] == json!([{"name": "other"}]);
        wait_until(&cluster, &format!("{accounts}/a"), has_no_reference).await;
        let mut deleted = watch(&cluster, &format!("{secrets}/without-uid")).await;
        deleted.expect("ADDED", "without-uid").await;
        let _ = cluster.delete(&format!("{accounts}/a")).await.expect(200);
        deleted.expect("DELETED", "without-uid").await;
        assert_eq!(names(&cluster, &secrets).await, left(&["plain"]));
        cluster.stop().await;
    });
}
