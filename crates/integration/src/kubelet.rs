//! The server of a kubelet, in a program with upstream's streaming library (`tools/kubelet`), and a cluster with its
//! node.

use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use pintle::{KubeletOptions, Options};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use crate::{Cluster, tool_path};

/// The address of the node. It is not a loopback address, because the server does not proxy requests to loopback
/// addresses.
const NODE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 88, 0, 1));
/// The address of the pod.
pub const POD_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 88, 0, 2));

/// The running program. It ends when this value is dropped.
pub struct Kubelet {
    program: Child,
    port: u16,
    /// The port of the HTTP server that stands for a pod.
    pub backend_port: u16,
    files: tempfile::TempDir,
}

impl Kubelet {
    /// Starts the program.
    ///
    /// # Panics
    /// Panics if the program does not start.
    #[must_use]
    pub fn start() -> Self {
        let files = tempfile::tempdir().expect("a temporary folder");
        write_certificates(&files);
        let file = |name: &str| files.path().join(name);
        let mut program = Command::new(tool_path("kubelet"))
            .arg("--certificate")
            .arg(file("server.crt"))
            .arg("--key")
            .arg(file("server.key"))
            .arg("--client-ca")
            .arg(file("ca.crt"))
            .arg("--client-certificate")
            .arg(file("client.crt"))
            .arg("--client-key")
            .arg(file("client.key"))
            .arg("--plain")
            .arg("127.0.0.1:0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut output = BufReader::new(program.stdout.take().expect("its output"));
        let mut line = String::new();
        let _ = output.read_line(&mut line).expect("a line");
        let mut ports = line.split_whitespace().map(|port| port.parse().expect("a port"));
        let (port, backend_port) = (ports.next().expect("a port"), ports.next().expect("a second port"));
        Self { program, port, backend_port, files }
    }

    /// The options with which a server reaches the kubelet. Each side verifies the other's certificate.
    #[must_use]
    pub fn options(&self) -> KubeletOptions {
        KubeletOptions {
            client_certificate: Some((self.file("client.crt"), self.file("client.key"))),
            certificate_authority: Some(self.file("ca.crt")),
            routes: [NODE_ADDRESS, POD_ADDRESS].map(|address| (address, Ipv4Addr::LOCALHOST.into())).into(),
            ..KubeletOptions::default()
        }
    }

    /// A file with a certificate or key: `ca.crt`, `client.crt`, `client.key`.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Starts a cluster in memory with the kubelet's node `n` and its pod `p` in the namespace `default`.
    ///
    /// # Panics
    /// Panics if a request fails.
    pub async fn cluster(&self, options: Options) -> Cluster {
        let cluster = Cluster::with_options(Options { kubelets: self.options(), ..options }).await;
        self.create_node(&cluster, "n", &[]).await;
        self.create_pod(&cluster, "p", &["c"]).await;
        cluster
    }

    /// Creates a node with the address of the kubelet, which declares features.
    ///
    /// # Panics
    /// Panics if a request fails.
    pub async fn create_node(&self, cluster: &Cluster, name: &str, features: &[&str]) {
        let node = json!({
            "metadata": {"name": name},
            "status": {
                "addresses": [{"type": "Hostname", "address": NODE_ADDRESS}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
                "declaredFeatures": features,
            },
        });
        let _ = cluster.post("/api/v1/nodes", node.to_string()).await.expect(201);
        let _ = cluster.put(&format!("/api/v1/nodes/{name}/status"), node.to_string()).await.expect(200);
    }

    /// Creates a pod with containers on the node `n`.
    ///
    /// # Panics
    /// Panics if a request fails.
    pub async fn create_pod(&self, cluster: &Cluster, name: &str, containers: &[&str]) {
        self.create_pod_on(cluster, name, containers, "n").await;
    }

    /// Creates a pod with containers on a node.
    ///
    /// # Panics
    /// Panics if a request fails.
    pub async fn create_pod_on(&self, cluster: &Cluster, name: &str, containers: &[&str], node: &str) {
        let port = json!([{"containerPort": self.backend_port}]);
        let containers: Vec<Value> = containers
            .iter()
            .map(|name| json!({"name": name, "image": "i", "ports": port, "terminationMessagePolicy": "File"}))
            .collect();
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "a"}},
            "spec": {"nodeName": node, "containers": containers},
        });
        let _ = cluster.post("/api/v1/namespaces/default/pods", pod.to_string()).await.expect(201);
        let address = POD_ADDRESS;
        let status = json!({
            "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
        });
        let path = format!("/api/v1/namespaces/default/pods/{name}/status");
        let _ = cluster.patch(&path, "merge", status.to_string()).await.expect(200);
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Writes an authority, and certificates of a server and of a client.
fn write_certificates(files: &tempfile::TempDir) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().expect("a key");
    let certificate = authority.self_signed(&authority_key).expect("a certificate").pem();
    std::fs::write(files.path().join("ca.crt"), certificate).expect("a file");
    let issuer = Issuer::new(authority, authority_key);
    for (name, subject, usage) in [
        ("server", "kubelet", ExtendedKeyUsagePurpose::ServerAuth),
        ("client", "kube-apiserver-kubelet-client", ExtendedKeyUsagePurpose::ClientAuth),
    ] {
        let mut parameters = CertificateParams::new(vec![NODE_ADDRESS.to_string()]).expect("names");
        parameters.distinguished_name.push(DnType::CommonName, subject);
        parameters.extended_key_usages = vec![usage];
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &issuer).expect("a certificate").pem();
        std::fs::write(files.path().join(format!("{name}.crt")), certificate).expect("a file");
        std::fs::write(files.path().join(format!("{name}.key")), key.serialize_pem()).expect("a file");
    }
}
