//! An API server behind the aggregation layer, in a program with upstream's libraries and its own etcd
//! (`tools/aggregated-server`).

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pintle_etcd_process::ReservedPort;
use serde_json::json;

use crate::{Cluster, tool_path};

/// The group that the program serves.
const GROUP: &str = "wardle.example.com";

/// The running program. It ends when this value is dropped.
pub struct AggregatedServer {
    program: Child,
    kubeconfig: PathBuf,
    port: ReservedPort,
    /// The certificate, and the data of etcd.
    files: tempfile::TempDir,
}

impl AggregatedServer {
    /// Starts the program. It authenticates and authorizes users with the server of this kubeconfig.
    ///
    /// # Panics
    /// Panics if the program does not start.
    #[must_use]
    pub fn start(kubeconfig: &Path) -> Self {
        let files = tempfile::tempdir().expect("a temporary folder");
        let port = ReservedPort::reserve();
        let program = start_program(kubeconfig, files.path(), port.number);
        Self { program, kubeconfig: kubeconfig.to_owned(), port, files }
    }

    /// Starts the killed program again, at the same address and with the same certificate and data.
    ///
    /// # Panics
    /// Panics if the program does not start.
    pub fn start_again(&mut self) {
        self.program = start_program(&self.kubeconfig, self.files.path(), self.port.number);
    }

    /// Removes the data of the killed program.
    ///
    /// # Panics
    /// Panics if the data cannot be removed.
    pub fn remove_data(&self) {
        std::fs::remove_dir_all(self.files.path().join("data/etcd")).expect("the data can be removed");
    }

    /// Registers both versions of the program with a cluster, at the service `api` of the namespace `wardle`. Waits
    /// until they are available.
    ///
    /// # Panics
    /// Panics if a request fails, or a version is not available in time.
    pub async fn register(&self, cluster: &Cluster) {
        let namespace = json!({"metadata": {"name": "wardle"}}).to_string();
        let _ = cluster.post("/api/v1/namespaces", namespace).await.expect(201);
        let service = json!({
            "metadata": {"name": "api"}, "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        let _ = cluster.post("/api/v1/namespaces/wardle/services", service.to_string()).await.expect(201);
        let authority = std::fs::read(self.files.path().join("ca.crt")).expect("the authority");
        for (version, priority) in [("v1", 20), ("v1beta1", 10)] {
            let api_service = json!({
                "metadata": {"name": format!("{version}.{GROUP}")},
                "spec": {
                    "group": GROUP, "version": version, "groupPriorityMinimum": 1000, "versionPriority": priority,
                    "caBundle": pintle_schema::base64::encode(&authority),
                    "service": {"namespace": "wardle", "name": "api", "port": self.port.number},
                },
            });
            let path = "/apis/apiregistration.k8s.io/v1/apiservices";
            let _ = cluster.post(path, api_service.to_string()).await.expect(201);
        }
        for version in ["v1", "v1beta1"] {
            let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{version}.{GROUP}");
            let is_available =
                |text: &str| text.contains(r#""reason":"Passed""#) || text.contains(r#""reason": "Passed""#);
            let _ = cluster.get_until(&path, |found| is_available(&found.text())).await;
        }
    }

    /// Kills the program.
    ///
    /// # Panics
    /// Panics if the program cannot be killed.
    pub fn kill(&mut self) {
        self.program.kill().expect("the program can be killed");
        let _ = self.program.wait();
    }
}

/// Starts the program, and waits until it serves.
fn start_program(kubeconfig: &Path, files: &Path, port: u16) -> Child {
    let data = files.join("data");
    let mut command = Command::new(tool_path("aggregated-server"));
    command.arg("--kubeconfig").arg(kubeconfig).arg("--etcd-data-dir").arg(&data);
    command.arg("--write-ca").arg(files.join("ca.crt")).arg("--secure-port").arg(port.to_string());
    let (certificate, key) = (data.join("server.crt"), data.join("server.key"));
    if certificate.exists() {
        command.arg("--tls-cert-file").arg(certificate).arg("--tls-private-key-file").arg(key);
    }
    let mut program = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
    let mut output = BufReader::new(program.stdout.take().expect("its output"));
    let mut line = String::new();
    let _ = output.read_line(&mut line).expect("a line");
    assert!(line.trim().ends_with(&format!(":{port}")), "{line:?}");
    program
}

impl Drop for AggregatedServer {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
