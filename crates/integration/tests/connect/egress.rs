//! Calls through egress proxies: backends whose names only the proxy of their network knows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use pintle::{AggregatorOptions, AuthorizationMode, EgressSelector, KubeletOptions, Options};
use pintle_integration::{Cluster, HttpsServer, Kubelet, SentResponse, run};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixListener};

/// A proxy, which reaches every host at the loopback address. It records the targets of its tunnels.
#[derive(Clone, Default)]
struct Proxy(Arc<Mutex<Vec<String>>>);

impl Proxy {
    /// The targets, without their ports, in the order of their first tunnels.
    fn hosts(&self) -> Vec<String> {
        let mut hosts = Vec::new();
        for target in self.0.lock().iter() {
            let host = target.rsplit_once(':').map_or("", |(host, _)| host).to_owned();
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts
    }

    async fn serve(self, mut client: impl AsyncRead + AsyncWrite + Unpin) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = client.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).expect("a CONNECT");
        self.0.lock().push(target.to_owned());
        let port: u16 = target.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let mut backend = TcpStream::connect(("127.0.0.1", port)).await.expect("a backend");
        let _ = client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let _ = copy_bidirectional(&mut client, &mut backend).await;
    }

    /// Listens on a port, which it returns.
    async fn listen(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let proxy = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(proxy.clone().serve(stream));
            }
        });
        port
    }

    fn listen_at(&self, path: &Path) {
        let listener = UnixListener::bind(path).expect("a socket");
        let proxy = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(proxy.clone().serve(stream));
            }
        });
    }
}

/// The proxies of a cluster, and its options.
struct Egress {
    /// The proxy of the cluster's network, at a TCP port.
    cluster: Proxy,
    /// The proxy of the control plane, at a Unix socket.
    control_plane: Proxy,
    folder: tempfile::TempDir,
    selector: EgressSelector,
}

impl Egress {
    async fn start() -> Self {
        let (cluster, control_plane) = (Proxy::default(), Proxy::default());
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("proxy.sock");
        control_plane.listen_at(&socket);
        let configuration = json!({
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [
                {
                    "name": "cluster",
                    "connection": {
                        "proxyProtocol": "HTTPConnect",
                        "transport": {"tcp": {"url": format!("http://127.0.0.1:{}", cluster.listen().await)}},
                    },
                },
                {
                    "name": "controlplane",
                    "connection": {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": socket}}},
                },
            ],
        });
        let file = folder.path().join("egress.json");
        std::fs::write(&file, configuration.to_string()).expect("a file");
        let selector = EgressSelector::read(&file).expect("a configuration");
        Self { cluster, control_plane, folder, selector }
    }

    fn options(&self) -> Options {
        Options { egress: self.selector.clone(), ..Options::default() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Creates a service that leads to a host.
async fn create_service(cluster: &Cluster, name: &str, host: &str) {
    let service = json!({"metadata": {"name": name}, "spec": {"type": "ExternalName", "externalName": host}});
    let _ = cluster.post("/api/v1/namespaces/default/services", service.to_string()).await.expect(201);
}

/// Creates an APIService whose API server is behind the service `api`.
async fn create_api_service(cluster: &Cluster, server: &HttpsServer) {
    let api_service = json!({
        "metadata": {"name": "v1.x.example.com"},
        "spec": {
            "group": "x.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "caBundle": server.ca_bundle(),
            "service": {"namespace": "default", "name": "api", "port": server.port},
        },
    });
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let _ = cluster.post(path, api_service.to_string()).await.expect(201);
}

/// Starts a server for these hosts that answers requests for the API, and allows all reviews.
async fn start_server(hosts: &[&str]) -> HttpsServer {
    HttpsServer::start_with_names(hosts, |request| async move {
        let review: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        if review["kind"] != "AdmissionReview" {
            return SentResponse::json(200, json!({"answers": request.path}).to_string());
        }
        let response = json!({"uid": review["request"]["uid"], "allowed": true, "warnings": [request.path]});
        let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        SentResponse::json(200, answer.to_string())
    })
    .await
}

#[test]
fn api_servers_and_webhooks_are_reached_through_the_proxies_of_their_networks() {
    run(async {
        let egress = Egress::start().await;
        let cluster = Cluster::with_options(Options { api_services: true, ..egress.options() }).await;
        let server = start_server(&["api.default.svc", "hook.default.svc", "hook.invalid"]).await;
        create_service(&cluster, "api", "api.invalid").await;
        create_service(&cluster, "hook", "service.invalid").await;
        create_api_service(&cluster, &server).await;
        let answer = cluster.get_until_status("/apis/x.example.com/v1/things", 200).await.json();
        assert_eq!(answer["answers"], "/apis/x.example.com/v1/things");
        assert_eq!((egress.cluster.hosts(), egress.control_plane.hosts()), (vec!["api.invalid".to_owned()], vec![]));

        let webhook = |name: &str, mut client: Value| {
            client["caBundle"] = json!(server.ca_bundle());
            json!({
                "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": client,
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
                }],
            })
        };
        let service = json!({"namespace": "default", "name": "hook", "port": server.port, "path": "/service"});
        let url = json!(format!("https://hook.invalid:{}/url", server.port));
        let configuration = json!({
            "metadata": {"name": "w"},
            "webhooks": [
                webhook("a.example.com", json!({"service": service})),
                webhook("b.example.com", json!({"url": url})),
            ],
        });
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
        let _ = cluster.post(path, configuration.to_string()).await.expect(201);
        let config_map = json!({"metadata": {"name": "c"}}).to_string();
        let _ = cluster.post("/api/v1/namespaces/default/configmaps", config_map).await.expect(201);
        assert_eq!(egress.cluster.hosts(), ["api.invalid", "service.invalid"]);
        assert_eq!(egress.control_plane.hosts(), ["hook.invalid"]);

        let metrics = cluster.get("/metrics").await.expect(200).text();
        for line in [
            "apiserver_egress_dialer_dial_start_total{protocol=\"http_connect\",transport=\"uds\"} 1\n",
            "apiserver_egress_dialer_dial_duration_seconds_count{protocol=\"http_connect\",transport=\"uds\"} 1\n",
            "apiserver_egress_dialer_dial_start_total{protocol=\"http_connect\",transport=\"tcp\"} ",
        ] {
            assert!(metrics.contains(line), "{line}: {metrics}");
        }
        cluster.stop().await;
    });
}

#[test]
fn api_servers_are_reached_at_the_cluster_ip_or_at_an_endpoint() {
    run(async {
        for routes_to_endpoints in [false, true] {
            let egress = Egress::start().await;
            let aggregation = AggregatorOptions { routes_to_endpoints, ..AggregatorOptions::default() };
            let cluster = Cluster::with_options(Options { api_services: true, aggregation, ..egress.options() }).await;
            let server = start_server(&["api.default.svc"]).await;
            let ports = json!([{"name": "https", "port": server.port}]);
            let service = json!({"metadata": {"name": "api"}, "spec": {"clusterIP": "10.0.0.77", "ports": ports}});
            let _ = cluster.post("/api/v1/namespaces/default/services", service.to_string()).await.expect(201);
            let slice = json!({
                "metadata": {"name": "api", "labels": {"kubernetes.io/service-name": "api"}},
                "addressType": "IPv4", "ports": ports,
                "endpoints": [
                    {"addresses": ["10.1.0.1"], "conditions": {"ready": false}}, {"addresses": ["10.1.0.2"]},
                ],
            });
            let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
            let _ = cluster.post(slices, slice.to_string()).await.expect(201);
            create_api_service(&cluster, &server).await;
            let _ = cluster.get_until_status("/apis/x.example.com/v1/things", 200).await;
            assert_eq!(egress.cluster.hosts(), [if routes_to_endpoints { "10.1.0.2" } else { "10.0.0.77" }]);
            cluster.stop().await;
        }
    });
}

#[test]
fn authentication_and_authorization_webhooks_are_in_the_control_plane() {
    run(async {
        let egress = Egress::start().await;
        let server = HttpsServer::start_with_names(&["hook.invalid"], |request| async move {
            let mut review: Value = serde_json::from_slice(&request.body).expect("JSON");
            review["status"] = match &review["kind"] {
                kind if kind == "TokenReview" => json!({"authenticated": true, "user": {"username": "jane"}}),
                _ => json!({"allowed": true}),
            };
            SentResponse::json(200, review.to_string())
        })
        .await;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {
                "server": format!("https://hook.invalid:{}/", server.port),
                "certificate-authority-data": server.ca_bundle(),
            }}],
            "users": [{"name": "u", "user": {}}],
        });
        let file = egress.file("kubeconfig");
        std::fs::write(&file, kubeconfig.to_string()).expect("a file");
        let mut options = egress.options();
        options.access.authentication.webhook.config_file = Some(file.clone());
        options.access.authorization_modes = vec![AuthorizationMode::Webhook];
        options.access.authorization.webhook_config_file = Some(file);
        let cluster = Cluster::with_options(options).await;
        let request = cluster.request("GET", "/api/v1/namespaces/default/configmaps").anonymous();
        let _ = request.header("authorization", "Bearer token").send().await.expect(200);
        assert_eq!(egress.control_plane.hosts(), ["hook.invalid"]);
        assert_eq!(egress.control_plane.0.lock().len(), 2, "a tunnel for each webhook");
        assert!(egress.cluster.hosts().is_empty());
        cluster.stop().await;
    });
}

#[test]
fn kubelets_are_reached_through_the_proxy_of_the_cluster() {
    run(async {
        let egress = Egress::start().await;
        let kubelet = Kubelet::start();
        let kubelets = KubeletOptions { routes: BTreeMap::new(), ..kubelet.options() };
        let cluster = Cluster::with_options(Options { kubelets, ..egress.options() }).await;
        kubelet.create_node(&cluster, "n", &[]).await;
        kubelet.create_pod(&cluster, "p", &["c"]).await;
        let log = cluster.get("/api/v1/namespaces/default/pods/p/log").await.expect(200).text();
        assert!(log.contains("line 3 of c"), "{log}");
        // The proxy of a pod.
        let path = format!("/api/v1/namespaces/default/pods/p:{}/proxy/", kubelet.backend_port);
        let _ = cluster.get(&path).await;
        assert_eq!(egress.cluster.hosts(), ["10.88.0.1", "10.88.0.2"]);
        assert!(egress.control_plane.hosts().is_empty());
        cluster.stop().await;
    });
}
