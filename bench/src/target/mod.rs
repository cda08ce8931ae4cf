//! What is measured: a server that was started for it, on a folder of its own, or one that a kubeconfig names.

pub(crate) mod kubeconfig;
mod meter;
mod process;

use std::time::Duration;

use http::{Method, StatusCode};

use crate::Result;
use crate::client::{Connection, Endpoint, Protocol, get, plain, with_body};
use crate::plan::Plan;

pub(crate) use meter::Meter;
pub(crate) use process::Process;

/// What is put into namespaces: the collections' groups and plurals.
const COLLECTIONS: [(&str, &str); 3] =
    [("api/v1", "pods"), ("api/v1", "configmaps"), ("apis/coordination.k8s.io/v1", "leases")];

/// A server as the load generator sees it.
#[derive(Clone)]
pub(crate) struct Server {
    /// How to speak to it.
    pub(crate) endpoint: Endpoint,
    /// How to weigh it.
    pub(crate) meter: Meter,
}

impl Server {
    /// A connection for a few requests.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        self.endpoint.connect(Protocol::Http1).await
    }

    /// The resident memory once what was freed has been given back.
    pub(crate) async fn settled(&self, plan: &Plan) -> Result<Option<u64>> {
        tokio::time::sleep(plan.settle).await;
        self.meter.resident()
    }
}

/// A server under measurement, and what has to be tidied up when that is over.
pub(crate) struct Target {
    /// The server.
    pub(crate) server: Server,
    /// Where it is ours to end.
    process: Option<Process>,
    /// What the names of our namespaces begin with.
    prefix: String,
    namespaces: Vec<String>,
}

impl Target {
    /// A server that was started for the measurement.
    pub(crate) fn started(process: Process) -> Self {
        let server = process.server.clone();
        Self { server, process: Some(process), prefix: "bench".to_owned(), namespaces: Vec::new() }
    }

    /// A server that others run, where our namespaces begin with `prefix`.
    pub(crate) fn given(server: Server, prefix: String) -> Self {
        Self { server, process: None, prefix, namespaces: Vec::new() }
    }

    /// What the name of a namespace begins with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Creates a namespace that objects of all kinds can be put into, and says its name.
    pub(crate) async fn namespace(&mut self, name: &str) -> Result<String> {
        let name = format!("{}-{name}", self.prefix);
        let mut connection = self.server.connect().await?;
        let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
        connection.exchange(with_body(Method::POST, "/api/v1/namespaces", body), StatusCode::CREATED).await?;
        self.namespaces.push(name.clone());
        // Where pods need one and no controller makes it. One that is there already is as good.
        let body = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#;
        let request = with_body(Method::POST, format!("/api/v1/namespaces/{name}/serviceaccounts"), body);
        let code = connection.send(request).await?.status();
        if code != StatusCode::CREATED && code != StatusCode::CONFLICT {
            return Err(format!("the service account of {name}: {code}").into());
        }
        if self.process.is_some() {
            // What every namespace has comes a moment later, and is nothing that a scenario counts.
            let certificates = format!("/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt");
            while self.server.connect().await?.send(get(certificates.as_str())).await?.status() == StatusCode::NOT_FOUND
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Ok(name)
    }

    /// Ends the server, or takes away what was put into it.
    pub(crate) async fn finish(self) -> Result<()> {
        if let Some(process) = self.process {
            return process.stop().await;
        }
        let mut connection = self.server.connect().await?;
        for namespace in &self.namespaces {
            for (group, plural) in COLLECTIONS {
                let path = format!("/{group}/namespaces/{namespace}/{plural}?gracePeriodSeconds=0");
                connection.exchange(plain(Method::DELETE, path), StatusCode::OK).await?;
            }
            let path = format!("/api/v1/namespaces/{namespace}");
            connection.exchange(plain(Method::DELETE, path), StatusCode::OK).await?;
        }
        Ok(())
    }
}
