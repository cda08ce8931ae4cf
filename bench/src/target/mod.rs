//! The server to measure: a process that was started for a scenario, or an existing server.

pub(crate) mod kubeconfig;
mod meter;
mod process;

use std::path::Path;
use std::time::Duration;

use http::{Method, StatusCode};

use crate::Result;
use crate::client::{Connection, Endpoint, Protocol, get, plain, with_body};
use crate::plan::Plan;

pub(crate) use meter::ProcessMeter;
pub(crate) use process::{ReadyServer, ServerProcess, over_etcd};

/// The API groups and plurals of the collections that scenarios create objects in.
const COLLECTIONS: [(&str, &str); 3] =
    [("api/v1", "pods"), ("api/v1", "configmaps"), ("apis/coordination.k8s.io/v1", "leases")];

/// A server as the load generator uses it.
#[derive(Clone)]
pub(crate) struct Server {
    /// Its address.
    pub(crate) endpoint: Endpoint,
    /// The meter of its processes.
    pub(crate) meter: ProcessMeter,
}

impl Server {
    /// Opens a connection for a few requests.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        self.endpoint.connect(Protocol::Http1).await
    }

    /// The same server with the credentials of a kubeconfig.
    pub(crate) fn with_credentials(&self, file: &Path) -> Result<Self> {
        let endpoint = Endpoint::new(&kubeconfig::read(file, None)?)?;
        Ok(Self { endpoint, meter: self.meter.clone() })
    }

    /// The resident memory after a pause in which the allocator can return freed memory.
    pub(crate) async fn settled_memory(&self, plan: &Plan) -> Result<Option<u64>> {
        tokio::time::sleep(plan.settle).await;
        self.meter.resident_bytes()
    }
}

/// A server under measurement, and the state to clean up afterwards.
pub(crate) struct Target {
    /// The server.
    pub(crate) server: Server,
    /// The process, if it was started for this measurement.
    process: Option<ServerProcess>,
    /// True if the server creates objects in every namespace.
    fills_namespaces: bool,
    /// The prefix of the namespaces that scenarios create.
    namespace_prefix: String,
    namespaces: Vec<String>,
}

impl Target {
    /// Creates a target from a server that was started for the measurement. `fills_namespaces` is true if it creates
    /// objects in every namespace.
    pub(crate) fn started(process: ServerProcess, fills_namespaces: bool) -> Self {
        Self {
            server: process.server.clone(),
            process: Some(process),
            fills_namespaces,
            namespace_prefix: "bench".to_owned(),
            namespaces: Vec::new(),
        }
    }

    /// Creates a target from an existing server. The names of created namespaces start with `namespace_prefix`.
    pub(crate) fn existing(server: Server, namespace_prefix: String) -> Self {
        Self { server, process: None, fills_namespaces: false, namespace_prefix, namespaces: Vec::new() }
    }

    /// The prefix of the namespaces that scenarios create.
    pub(crate) fn namespace_prefix(&self) -> &str {
        &self.namespace_prefix
    }

    /// Creates a namespace that accepts objects of all kinds, and returns its name.
    pub(crate) async fn namespace(&mut self, name: &str) -> Result<String> {
        let name = format!("{}-{name}", self.namespace_prefix);
        let mut connection = self.server.connect().await?;
        let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
        connection.execute(with_body(Method::POST, "/api/v1/namespaces", body), StatusCode::CREATED).await?;
        self.namespaces.push(name.clone());
        // Pods need a service account, which a server without controllers does not create. An existing one is fine
        // too, and the Go API server has no service accounts.
        let body = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#;
        let request = with_body(Method::POST, format!("/api/v1/namespaces/{name}/serviceaccounts"), body);
        let code = connection.send(request).await?.status();
        if ![StatusCode::CREATED, StatusCode::CONFLICT, StatusCode::NOT_FOUND].contains(&code) {
            return Err(format!("create service account in {name}: {code}").into());
        }
        if self.fills_namespaces {
            // Wait for these objects, so that scenarios do not count them.
            let certificates = format!("/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt");
            while self.server.connect().await?.send(get(certificates.as_str())).await?.status() == StatusCode::NOT_FOUND
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Ok(name)
    }

    /// Stops the server that was started, or deletes the created namespaces from the existing server.
    pub(crate) async fn tear_down(self) -> Result<()> {
        if let Some(process) = self.process {
            return process.stop().await;
        }
        let mut connection = self.server.connect().await?;
        for namespace in &self.namespaces {
            for (group, plural) in COLLECTIONS {
                let path = format!("/{group}/namespaces/{namespace}/{plural}?gracePeriodSeconds=0");
                connection.execute(plain(Method::DELETE, path), StatusCode::OK).await?;
            }
            let path = format!("/api/v1/namespaces/{namespace}");
            connection.execute(plain(Method::DELETE, path), StatusCode::OK).await?;
        }
        Ok(())
    }
}
