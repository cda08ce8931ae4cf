//! What a cluster has that nobody has put there: what every namespace has, and what says where the server is.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_gates::Gates;
use pintle_testkit::{Cluster, Engine, Options, Watch, advance_clock_until, bootstrapped, manual_clock};
use serde_json::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";
const SYSTEM: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
const ACCOUNTS: &str = "/api/v1/serviceaccounts";
const MAPS: &str = "/api/v1/configmaps";
const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

fn named(name: &str) -> String {
    json!({"metadata": {"name": name}}).to_string()
}

fn account(namespace: &str) -> String {
    format!("{NAMESPACES}/{namespace}/serviceaccounts/default")
}

fn certificates(namespace: &str) -> String {
    format!("{NAMESPACES}/{namespace}/configmaps/kube-root-ca.crt")
}

/// The items of a list.
async fn items(cluster: &Cluster, path: &str) -> Vec<Value> {
    cluster.get(path).await.expect(200).json()["items"].as_array().cloned().unwrap_or_default()
}

/// The names of what is in each namespace.
async fn names(cluster: &Cluster, path: &str) -> BTreeMap<String, Vec<String>> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for item in items(cluster, path).await {
        let text = |key: &str| item["metadata"][key].as_str().unwrap_or_default().to_owned();
        names.entry(text("namespace")).or_default().push(text("name"));
    }
    names
}

/// The same in every namespace.
fn everywhere<'n>(namespaces: impl IntoIterator<Item = &'n str>, name: &str) -> BTreeMap<String, Vec<String>> {
    namespaces.into_iter().map(|namespace| (namespace.to_owned(), vec![name.to_owned()])).collect()
}

/// Watches the object at a path.
async fn watch(cluster: &Cluster, path: &str) -> Watch {
    let (collection, name) = path.rsplit_once('/').expect("a path");
    cluster.watch(&format!("{collection}?watch=1&fieldSelector=metadata.name%3D{name}")).await
}

/// Waits until the object at a path is there and fits.
async fn until(cluster: &Cluster, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let mut watch = watch(cluster, path).await;
    loop {
        let event = watch.next().await.expect("an event");
        if event["type"] != "DELETED" && fits(&event["object"]) {
            return event["object"].clone();
        }
    }
}

/// The lease of the server, once it holds it: not as `before`.
async fn own_lease(cluster: &Cluster, before: &Value) -> Value {
    let label = "apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver";
    let mut watch = cluster.watch(&format!("{LEASES}?watch=1&labelSelector={label}")).await;
    loop {
        let event = watch.next().await.expect("an event");
        if event["type"] != "DELETED" && event["object"]["spec"]["holderIdentity"] != before["spec"]["holderIdentity"] {
            return event["object"].clone();
        }
    }
}

/// Deletes the object at a path, and waits until there is another.
async fn comes_again(cluster: &Cluster, path: &str) -> Value {
    let before = until(cluster, path, |_| true).await;
    let _ = cluster.delete(path).await.expect(200);
    until(cluster, path, |object| object["metadata"]["uid"] != before["metadata"]["uid"]).await
}

/// Changes the object at a path, and waits until it is as it was.
async fn put_right(cluster: &Cluster, path: &str, patch: Value) {
    let whole = |object: &Value| {
        let mut object = object.clone();
        for key in ["resourceVersion", "managedFields", "generation"] {
            object["metadata"].as_object_mut().expect("metadata").remove(key);
        }
        object
    };
    let before = until(cluster, path, |_| true).await;
    let changed = cluster.patch(path, "merge", patch.to_string()).await.expect(200).json();
    assert_ne!(whole(&changed), whole(&before), "{path}");
    until(cluster, path, |object| whole(object) == whole(&before)).await;
}

#[test]
fn a_server_that_is_ready_has_furnished_its_cluster() {
    pintle_testkit::run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        assert_eq!(names(&cluster, ACCOUNTS).await, everywhere(SYSTEM, "default"));
        assert_eq!(names(&cluster, MAPS).await, everywhere(SYSTEM, "kube-root-ca.crt"));
        let found = cluster.get(&certificates("default")).await.expect(200).json();
        let pem = found["data"]["ca.crt"].as_str().unwrap_or_default();
        assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\n") && pem.ends_with("-----END CERTIFICATE-----\n"));
        assert_eq!(found["data"].as_object().map(serde_json::Map::len), Some(1));
        let about = found["metadata"]["annotations"]["kubernetes.io/description"].as_str().unwrap_or_default();
        assert!(about.starts_with("Contains a CA bundle that can be used to verify the kube-apiserver"), "{about}");

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

        let lease = own_lease(&cluster, &Value::Null).await;
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
fn what_is_not_wanted_is_not_there() {
    pintle_testkit::run(async {
        let check = async |options: Options, service: usize, endpoints: usize, leases: usize, fixtures: usize| {
            let cluster = Cluster::with_options(options).await;
            if leases > 0 {
                own_lease(&cluster, &Value::Null).await;
            }
            let found = [
                items(&cluster, "/api/v1/services").await.len(),
                items(&cluster, "/api/v1/endpoints").await.len(),
                items(&cluster, "/apis/discovery.k8s.io/v1/endpointslices").await.len(),
                items(&cluster, "/apis/coordination.k8s.io/v1/leases").await.len(),
                items(&cluster, ACCOUNTS).await.len(),
                items(&cluster, MAPS).await.len(),
            ];
            assert_eq!(found, [service, endpoints, endpoints, leases, fixtures, fixtures]);
            cluster.stop().await;
        };
        check(bootstrapped(), 1, 1, 1, 4).await;
        check(Options { endpoints: false, ..bootstrapped() }, 1, 0, 1, 4).await;
        check(Options { controllers: false, ..bootstrapped() }, 1, 1, 1, 0).await;
        let loopback = "127.0.0.1".parse().ok();
        check(Options { advertise_address: loopback, ..bootstrapped() }, 1, 0, 1, 4).await;
        let off = ["APIServerIdentity", "UnknownVersionInteroperabilityProxy"].map(|name| (name.to_owned(), false));
        let (gates, _) = Gates::with_overrides(&off.into()).expect("gates that can be off");
        check(Options { gates, ..bootstrapped() }, 1, 1, 0, 4).await;
        check(Options::default(), 1, 0, 0, 0).await;
    });
}

#[test]
fn what_every_namespace_has_comes_again_and_is_put_right() {
    pintle_testkit::run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        let _ = cluster.post(NAMESPACES, named("n")).await.expect(201);
        for namespace in ["n", "kube-public"] {
            comes_again(&cluster, &account(namespace)).await;
            let path = certificates(namespace);
            comes_again(&cluster, &path).await;
            put_right(&cluster, &path, json!({"data": {"ca.crt": "another"}})).await;
            put_right(&cluster, &path, json!({"data": {"more": "data"}})).await;
            put_right(&cluster, &path, json!({"data": null})).await;
            put_right(&cluster, &path, json!({"metadata": {"annotations": {"kubernetes.io/description": null}}})).await;
        }
        // What others say beside that is theirs.
        let mine = json!({"imagePullSecrets": [{"name": "mine"}]}).to_string();
        let _ = cluster.patch(&account("n"), "merge", mine).await.expect(200);
        let mine = json!({"metadata": {"labels": {"mine": "yes"}}}).to_string();
        let _ = cluster.patch(&certificates("n"), "merge", mine).await.expect(200);
        put_right(&cluster, &certificates("n"), json!({"data": {"ca.crt": "another"}})).await;
        let kept = cluster.get(&certificates("n")).await.expect(200).json();
        assert_eq!(kept["metadata"]["labels"], json!({"mine": "yes"}));
        let kept = cluster.get(&account("n")).await.expect(200).json();
        assert_eq!(kept["imagePullSecrets"], json!([{"name": "mine"}]));
        cluster.stop().await;
    });
}

#[test]
fn many_namespaces_are_furnished_at_once() {
    pintle_testkit::run(async {
        let cluster = Cluster::durable_with_options(bootstrapped()).await;
        let made: Vec<String> = (0..100).map(|i| format!("n{i}")).collect();
        for name in &made {
            let _ = cluster.post(NAMESPACES, named(name)).await.expect(201);
        }
        for name in &made {
            until(&cluster, &account(name), |_| true).await;
            until(&cluster, &certificates(name), |_| true).await;
        }
        let all = || SYSTEM.into_iter().chain(made.iter().map(String::as_str));
        assert_eq!(names(&cluster, ACCOUNTS).await, everywhere(all(), "default"));
        assert_eq!(names(&cluster, MAPS).await, everywhere(all(), "kube-root-ca.crt"));
        let cluster = cluster.restart().await;
        assert_eq!(names(&cluster, ACCOUNTS).await, everywhere(all(), "default"));
        cluster.stop().await;
    });
}

#[test]
fn namespaces_that_go_are_left_alone() {
    pintle_testkit::run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        let _ = cluster.post(NAMESPACES, named("n")).await.expect(201);
        until(&cluster, &account("n"), |_| true).await;
        until(&cluster, &certificates("n"), |_| true).await;
        let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/mine"]}}).to_string();
        let maps = format!("{NAMESPACES}/n/configmaps");
        let _ = cluster.post(&maps, held).await.expect(201);
        let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
        let remains = |namespace: &Value| {
            let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|c| c["type"] == "NamespaceContentRemaining" && c["status"] == "True")
        };
        until(&cluster, &format!("{NAMESPACES}/n"), remains).await;
        // Whoever would make them again would have heard of their end before that of another one.
        comes_again(&cluster, &account("default")).await;
        assert_eq!(names(&cluster, ACCOUNTS).await, everywhere(SYSTEM, "default"));
        assert_eq!(names(&cluster, &maps).await, everywhere(["n"], "held"));
        let mut gone = watch(&cluster, &format!("{NAMESPACES}/n")).await;
        let free = json!({"metadata": {"finalizers": null}}).to_string();
        let _ = cluster.patch(&format!("{maps}/held"), "merge", free).await.expect(200);
        while gone.next().await.expect("an event")["type"] != "DELETED" {}
        assert_eq!(names(&cluster, MAPS).await, everywhere(SYSTEM, "kube-root-ca.crt"));
        cluster.stop().await;
    });
}

#[test]
fn the_namespaces_of_the_system_come_again() {
    pintle_testkit::run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        for name in ["default", "kube-system", "kube-public"] {
            cluster.delete(&format!("{NAMESPACES}/{name}")).await.expect_error(
                403,
                "Forbidden",
                &format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"),
            );
        }
        let again = comes_again(&cluster, &format!("{NAMESPACES}/kube-node-lease")).await;
        assert_eq!(again["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "kube-node-lease"}));
        until(&cluster, &account("kube-node-lease"), |_| true).await;
        cluster.stop().await;
    });
}

#[test]
fn the_service_and_where_it_leads_come_again() {
    pintle_testkit::run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        let again = comes_again(&cluster, SERVICE).await;
        assert_eq!(again["spec"]["clusterIP"], "10.0.0.1");
        comes_again(&cluster, ENDPOINTS).await;
        comes_again(&cluster, SLICE).await;
        let elsewhere = json!([{"addresses": [{"ip": "192.0.2.9"}], "ports": [{"name": "https", "port": 1}]}]);
        put_right(&cluster, ENDPOINTS, json!({"subsets": elsewhere})).await;
        put_right(&cluster, ENDPOINTS, json!({"subsets": null})).await;
        put_right(&cluster, ENDPOINTS, json!({"metadata": {"labels": null}})).await;
        let elsewhere = json!([{"addresses": ["192.0.2.9"], "conditions": {"ready": false}}]);
        put_right(&cluster, SLICE, json!({"endpoints": elsewhere})).await;
        put_right(&cluster, SLICE, json!({"ports": null})).await;
        put_right(&cluster, SLICE, json!({"metadata": {"labels": {"mine": "no"}}})).await;
        // The service itself is left as people want it.
        let mine = json!({"metadata": {"labels": {"mine": "yes"}}}).to_string();
        let _ = cluster.patch(SERVICE, "merge", mine).await.expect(200);
        comes_again(&cluster, ENDPOINTS).await;
        assert_eq!(cluster.get(SERVICE).await.expect(200).json()["metadata"]["labels"]["mine"], "yes");
        cluster.stop().await;
    });
}

#[test]
fn what_others_have_left_is_put_right_at_the_start() {
    pintle_testkit::run(async {
        let cluster = Cluster::durable().await;
        let slice = json!({
            "metadata": {"name": "kubernetes"},
            "addressType": "IPv6",
            "endpoints": [{"addresses": ["2001:db8::9"]}],
        });
        let (collection, _) = SLICE.rsplit_once('/').expect("a path");
        let left = cluster.post(collection, slice.to_string()).await.expect(201).json();
        let elsewhere = json!([{"name": "http", "port": 80, "targetPort": 80}]);
        let ports = json!({"spec": {"ports": elsewhere, "type": "NodePort"}}).to_string();
        let _ = cluster.patch(SERVICE, "merge", ports).await.expect(200);
        cluster.stop_server().await;

        let folder = cluster.data_dir().map(std::path::Path::to_owned);
        let options = Options { data_dir: folder, engine: Engine::Embedded, ..bootstrapped() };
        let bootstrapped = Cluster::with_options(options).await;
        let service = until(&bootstrapped, SERVICE, |service| service["spec"]["type"] == "ClusterIP").await;
        assert_eq!(service["spec"]["ports"][0]["port"], 443);
        // The family of a slice stays as it is for life.
        let slice = until(&bootstrapped, SLICE, |slice| slice["addressType"] == "IPv4").await;
        assert_ne!(slice["metadata"]["uid"], left["metadata"]["uid"]);
        assert_eq!(names(&bootstrapped, ACCOUNTS).await, everywhere(SYSTEM, "default"));
        bootstrapped.stop().await;
    });
}

#[test]
fn a_server_that_goes_takes_back_what_it_said() {
    pintle_testkit::run(async {
        let cluster = Cluster::durable_with_options(bootstrapped()).await;
        let endpoints = cluster.get(ENDPOINTS).await.expect(200).json();
        let from = |object: &Value| object["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
        let lease = own_lease(&cluster, &Value::Null).await;
        let service = cluster.get(SERVICE).await.expect(200).json();

        let cluster = cluster.restart().await;
        let (collection, _) = ENDPOINTS.rsplit_once('/').expect("a path");
        let since = from(&endpoints);
        let mut watch = cluster.watch(&format!("{collection}?watch=1&resourceVersion={since}")).await;
        assert_eq!(watch.expect("MODIFIED", "kubernetes").await["subsets"], Value::Null);
        assert_eq!(watch.expect("MODIFIED", "kubernetes").await["subsets"], endpoints["subsets"]);
        let name = lease["metadata"]["name"].as_str().expect("a name");
        let mut watch = cluster.watch(&format!("{LEASES}?watch=1&resourceVersion={}", from(&lease))).await;
        watch.expect("DELETED", name).await;
        let second = watch.expect("ADDED", name).await;
        assert_ne!(second["spec"]["holderIdentity"], lease["spec"]["holderIdentity"]);
        assert_eq!(cluster.get(SERVICE).await.expect(200).json(), service);

        // One that is killed says nothing, and finds its word when it comes again.
        let endpoints = cluster.get(ENDPOINTS).await.expect(200).json();
        cluster.kill_server().await;
        cluster.start_server().await;
        assert_eq!(cluster.get(ENDPOINTS).await.expect(200).json(), endpoints);
        let third = own_lease(&cluster, &second).await;
        assert_ne!(third["metadata"]["uid"], second["metadata"]["uid"]);

        // At another port it says so.
        cluster.stop_server().await;
        let aside = cluster.start_on_another_port().await;
        let port: u16 = aside.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        until(&aside, SERVICE, |service| service["spec"]["ports"][0]["targetPort"] == port).await;
        until(&aside, SLICE, |slice| slice["ports"][0]["port"] == port).await;
        aside.stop().await;
        cluster.stop().await;
    });
}

#[test]
fn a_controller_manager_is_not_interfered_with() {
    pintle_testkit::run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        let held = |renewed: &str| {
            json!({
                "metadata": {"name": "kube-controller-manager"},
                "spec": {"holderIdentity": "someone", "leaseDurationSeconds": 3600, "renewTime": renewed},
            })
            .to_string()
        };
        let _ = cluster.post(LEASES, held("2200-01-01T00:00:00.000000Z")).await.expect(201);
        let _ = cluster.post(NAMESPACES, named("n")).await.expect(201);
        let _ = cluster.delete(&account("default")).await.expect(200);
        let spoilt = json!({"data": {"ca.crt": "theirs"}}).to_string();
        let _ = cluster.patch(&certificates("default"), "merge", spoilt).await.expect(200);
        // What is the API server's own is done all the same; by then all else would be, too.
        comes_again(&cluster, ENDPOINTS).await;
        comes_again(&cluster, SERVICE).await;
        assert_eq!(names(&cluster, ACCOUNTS).await, everywhere(SYSTEM.into_iter().skip(1), "default"));
        assert_eq!(cluster.get(&certificates("default")).await.expect(200).json()["data"]["ca.crt"], "theirs");
        // It has not renewed its lease for long.
        let lease = format!("{LEASES}/kube-controller-manager");
        let _ = cluster.patch(&lease, "merge", held("2020-01-01T00:00:00.000000Z")).await.expect(200);
        for namespace in ["n", "default"] {
            until(&cluster, &account(namespace), |_| true).await;
            until(&cluster, &certificates(namespace), |object| object["data"]["ca.crt"] != "theirs").await;
        }
        cluster.stop().await;
    });
}

#[test]
fn leases_are_renewed_and_those_of_servers_that_are_gone_go() {
    pintle_testkit::run(async {
        let clock = manual_clock();
        // Watches last as long as time is moved here.
        let min_request_timeout = Duration::from_secs(10_000);
        let options = Options { clock: clock.clone(), min_request_timeout, ..bootstrapped() };
        let cluster = Cluster::with_options(options).await;
        let lease = own_lease(&cluster, &Value::Null).await;
        let name = lease["metadata"]["name"].as_str().expect("a name").to_owned();
        let own = format!("{LEASES}/{name}");
        let mut renewals = watch(&cluster, &own).await;
        renewals.expect("ADDED", &name).await;
        let renewed = advance_clock_until(&clock, renewals.expect("MODIFIED", &name)).await;
        assert_eq!(renewed["spec"]["holderIdentity"], lease["spec"]["holderIdentity"]);
        assert_eq!(lease["spec"]["renewTime"], "2023-11-14T22:13:20.000000Z");
        let again = renewed["spec"]["renewTime"].as_str().unwrap_or_default();
        assert!(again >= "2023-11-14T22:13:30.000000Z", "{again}");
        let _ = cluster.delete(&own).await.expect(200);
        renewals.expect("DELETED", &name).await;
        advance_clock_until(&clock, renewals.expect("ADDED", &name)).await;

        let server = |name: &str, label: &str, spec: Value| {
            json!({"metadata": {"name": name, "labels": {"apiserver.kubernetes.io/identity": label}}, "spec": spec})
                .to_string()
        };
        let lasts = |renewed: &str| json!({"leaseDurationSeconds": 3600, "renewTime": renewed});
        let over = lasts("2023-11-14T20:00:00.000000Z");
        let _ = cluster.post(LEASES, server("over", "kube-apiserver", over.clone())).await.expect(201);
        let _ = cluster.post(LEASES, server("unsaid", "kube-apiserver", json!({}))).await.expect(201);
        let later = lasts("2023-11-14T23:00:00.000000Z");
        let _ = cluster.post(LEASES, server("later", "kube-apiserver", later)).await.expect(201);
        let _ = cluster.post(LEASES, server("other", "another", over)).await.expect(201);
        let mut first = watch(&cluster, &format!("{LEASES}/over")).await;
        let mut second = watch(&cluster, &format!("{LEASES}/unsaid")).await;
        first.expect("ADDED", "over").await;
        second.expect("ADDED", "unsaid").await;
        clock.advance(Duration::from_secs(3600));
        first.expect("DELETED", "over").await;
        second.expect("DELETED", "unsaid").await;
        let left = names(&cluster, LEASES).await;
        assert_eq!(left["kube-system"], [name.as_str(), "later", "other"]);
        cluster.stop().await;
    });
}

#[test]
fn tokens_go_with_their_account() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let accounts = format!("{NAMESPACES}/default/serviceaccounts");
        let secrets = format!("{NAMESPACES}/default/secrets");
        let token = |name: &str, account: &str, uid: &str| {
            let mut annotations = json!({"kubernetes.io/service-account.name": account});
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
        let _ = cluster.post(&secrets, token("unsaid", "a", "")).await.expect(201);
        let plain = json!({"metadata": {"name": "plain", "annotations": {"kubernetes.io/service-account.name": "b"}}});
        let _ = cluster.post(&secrets, plain.to_string()).await.expect(201);
        // Tokens of accounts that there are not go at once.
        for (name, account, uid) in [("stray", "b", ""), ("stale", "a", "another")] {
            let mut gone = watch(&cluster, &format!("{secrets}/{name}")).await;
            let _ = cluster.post(&secrets, token(name, account, uid)).await.expect(201);
            gone.expect("ADDED", name).await;
            gone.expect("DELETED", name).await;
        }
        let left =
            |names: &[&str]| BTreeMap::from([("default".to_owned(), names.iter().map(|n| (*n).to_owned()).collect())]);
        assert_eq!(names(&cluster, &secrets).await, left(&["mine", "plain", "unsaid"]));
        // An account forgets a token that goes.
        let _ = cluster.delete(&format!("{secrets}/mine")).await.expect(200);
        let forgets = |account: &Value| account["secrets"] == json!([{"name": "other"}]);
        until(&cluster, &format!("{accounts}/a"), forgets).await;
        let mut gone = watch(&cluster, &format!("{secrets}/unsaid")).await;
        gone.expect("ADDED", "unsaid").await;
        let _ = cluster.delete(&format!("{accounts}/a")).await.expect(200);
        gone.expect("DELETED", "unsaid").await;
        assert_eq!(names(&cluster, &secrets).await, left(&["plain"]));
        cluster.stop().await;
    });
}
