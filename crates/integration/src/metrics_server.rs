//! metrics-server (`tools/metrics-server`), and a kubelet whose containers use a constant amount of resources.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use pintle_etcd_process::ReservedPort;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};

use crate::{Cluster, HttpsServer, SentResponse, tool_path};

/// The resources that a container uses.
#[derive(Clone, Copy, Debug)]
pub struct ContainerUsage {
    /// The name of the pod, in the namespace `default`.
    pub pod: &'static str,
    /// The name of the container.
    pub container: &'static str,
    /// Processors, in thousandths.
    pub millicores: u32,
    /// Memory, in MiB.
    pub mebibytes: u64,
}

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64)
}

/// The text that a kubelet serves as `/metrics/resource`. The containers began to run at `started`.
fn resource_metrics(usages: &[ContainerUsage], started: u64) -> String {
    let milliseconds = now();
    // metrics-server rounds up, so the times are not large: they would not be exact.
    let used = |millicores: u32| (milliseconds - started) as f64 * f64::from(millicores) / 1e6;
    let sum = usages.iter().map(|usage| usage.millicores).sum();
    let bytes: u64 = usages.iter().map(|usage| usage.mebibytes << 20).sum();
    let mut text = format!(
        "# TYPE node_cpu_usage_seconds_total counter\nnode_cpu_usage_seconds_total {} {milliseconds}\n\
         # TYPE node_memory_working_set_bytes gauge\nnode_memory_working_set_bytes {bytes} {milliseconds}\n",
        used(sum)
    );
    let mut add = |name: &str, kind: &str, value: &dyn Fn(&ContainerUsage) -> f64| {
        text += &format!("# TYPE {name} {kind}\n");
        for usage in usages {
            let ContainerUsage { pod, container, .. } = usage;
            let labels = format!("container=\"{container}\",namespace=\"default\",pod=\"{pod}\"");
            text += &format!("{name}{{{labels}}} {} {milliseconds}\n", value(usage));
        }
    };
    add("container_cpu_usage_seconds_total", "counter", &|usage| used(usage.millicores));
    add("container_memory_working_set_bytes", "gauge", &|usage| (usage.mebibytes << 20) as f64);
    text
}

/// Starts a kubelet that answers requests for `/metrics/resource` with a token.
pub async fn start_metrics_kubelet(usages: &'static [ContainerUsage]) -> HttpsServer {
    let started = now();
    HttpsServer::start(move |request| async move {
        match request.header("authorization") {
            Some(_) if request.path == "/metrics/resource" => SentResponse::new(200, resource_metrics(usages, started))
                .header("Content-Type: text/plain; version=0.0.4"),
            Some(_) => SentResponse::new(404, ""),
            None => SentResponse::new(401, ""),
        }
    })
    .await
}

/// The running program. It ends when this value is dropped.
pub struct MetricsServer {
    program: Child,
    port: ReservedPort,
    _files: tempfile::TempDir,
}

impl MetricsServer {
    /// Starts the program with the rights that its manifest gives its service account. It trusts the certificates in
    /// `kubelet_authority` (PEM). Registers the program, and waits until it is available.
    ///
    /// # Panics
    /// Panics if a request fails, or the program does not start in time.
    pub async fn start(cluster: &Cluster, kubelet_authority: &str) -> Self {
        let files = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| std::fs::write(files.path().join(name), text).expect("a file");
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["metrics-server.kube-system.svc".to_owned()]).expect("a certificate");
        write("server.crt", &cert.pem());
        write("server.key", &signing_key.serialize_pem());
        write("kubelet-ca.crt", kubelet_authority);
        create_account(cluster).await;
        let path = "/api/v1/namespaces/kube-system/serviceaccounts/metrics-server/token";
        let token = cluster.post(path, r#"{"spec":{}}"#).await.expect(201).json();
        write("kubeconfig", &kubeconfig(cluster, token["status"]["token"].as_str().expect("a token")));
        let port = ReservedPort::reserve();
        let program = spawn(files.path(), port.number);
        let this = Self { program, port, _files: files };
        this.register(cluster, &cert.pem()).await;
        this
    }

    async fn register(&self, cluster: &Cluster, authority: &str) {
        let service = json!({
            "metadata": {"name": "metrics-server"}, "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        let _ = cluster.post("/api/v1/namespaces/kube-system/services", service.to_string()).await.expect(201);
        let service = json!({"namespace": "kube-system", "name": "metrics-server", "port": self.port.number});
        let api_service = json!({
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                "caBundle": pintle_schema::base64::encode(authority.as_bytes()), "service": service,
            },
        });
        let path = "/apis/apiregistration.k8s.io/v1/apiservices";
        let _ = cluster.post(path, api_service.to_string()).await.expect(201);
        let path = format!("{path}/v1beta1.metrics.k8s.io");
        let is_available = |found: &Value| found["status"]["conditions"][0]["reason"] == "Passed";
        let _ = cluster.get_until(&path, |found| is_available(&found.json())).await;
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn spawn(files: &Path, port: u16) -> Child {
    let file = |name: &str| files.join(name).display().to_string();
    let kubeconfig = file("kubeconfig");
    Command::new(tool_path("metrics-server"))
        .args(["--bind-address=127.0.0.1", &format!("--secure-port={port}")])
        .args([
            format!("--tls-cert-file={}", file("server.crt")),
            format!("--tls-private-key-file={}", file("server.key")),
        ])
        .args(["", "authentication-", "authorization-"].map(|whose| format!("--{whose}kubeconfig={kubeconfig}")))
        .arg(format!("--kubelet-certificate-authority={}", file("kubelet-ca.crt")))
        .args(["--kubelet-preferred-address-types=InternalIP", "--kubelet-use-node-status-port"])
        // The shortest interval that it accepts, and a shorter time limit.
        .args(["--metric-resolution=10s", "--kubelet-request-timeout=8s"])
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(files.join("log")).expect("a file"))
        .spawn()
        .expect("the program starts")
}

fn kubeconfig(cluster: &Cluster, token: &str) -> String {
    let (url, authority) = (cluster.url(), pintle_schema::base64::encode(cluster.authority().as_bytes()));
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
         clusters: [{{name: k, cluster: {{server: '{url}', certificate-authority-data: {authority}}}}}]\n\
         users: [{{name: u, user: {{token: {token}}}}}]\n"
    )
}

/// Creates the service account of metrics-server with its rights.
async fn create_account(cluster: &Cluster) {
    let create = async |path: &str, object: Value| {
        let _ = cluster.post(path, object.to_string()).await.expect(201);
    };
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    create("/api/v1/namespaces/kube-system/serviceaccounts", json!({"metadata": {"name": "metrics-server"}})).await;
    let reader = json!({
        "metadata": {
            "name": "system:aggregated-metrics-reader",
            "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"},
        },
        "rules": [{"apiGroups": ["metrics.k8s.io"], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}],
    });
    create(&format!("{rbac}/clusterroles"), reader).await;
    let rules = json!([
        {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
    ]);
    let role = json!({"metadata": {"name": "system:metrics-server"}, "rules": rules});
    create(&format!("{rbac}/clusterroles"), role).await;
    let binding = |kind: &str, role: &str| {
        json!({
            "metadata": {"name": format!("metrics-server:{role}")},
            "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": "metrics-server"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        })
    };
    for role in ["system:metrics-server", "system:auth-delegator"] {
        create(&format!("{rbac}/clusterrolebindings"), binding("ClusterRole", role)).await;
    }
    let path = format!("{rbac}/namespaces/kube-system/rolebindings");
    create(&path, binding("Role", "extension-apiserver-authentication-reader")).await;
}
