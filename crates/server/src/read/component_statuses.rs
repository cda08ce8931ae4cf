//! The `ComponentStatus` objects (upstream: `registry/core/componentstatus`). Each request probes all components in
//! parallel.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, header};
use pintle_outbound::{CallLimits, Client, ClientConfig, ServerTrust};
use pintle_registry::ApiError;
use pintle_value::{Value, object};
use pintle_versions::Minor;

use crate::cluster::{Cluster, Component};

/// Limits of a probe's time and response size.
const PROBE_LIMITS: CallLimits = CallLimits { timeout: Duration::from_secs(20), max_body_bytes: 10 << 10 };

/// The name of the store's `ComponentStatus`.
const STORE_NAME: &str = "etcd-0";

/// The health of a component.
enum Health {
    /// The component is healthy. The text is its response.
    Healthy(String),
    /// The component is unhealthy or not reachable. The text is its response or the network's error.
    Unhealthy(String),
    /// The store is unhealthy. The text is the error.
    StoreFailed(String),
    /// The response is not usable. The text is the error.
    Unknown(String),
}

/// Returns the statuses of all components, sorted by name.
pub(crate) async fn list(cluster: &Cluster) -> Vec<Value> {
    let probes = cluster.settings.components.iter().map(|component| status(cluster, component));
    let mut statuses = join_all(probes).await;
    statuses.push(store_status(cluster));
    statuses.sort_by(|a, b| a.name().cmp(b.name()));
    statuses
}

/// Returns the status of one component.
///
/// # Errors
/// Returns an error if there is no such component.
pub(crate) async fn get(cluster: &Cluster, name: &str) -> Result<Value, ApiError> {
    if name == STORE_NAME {
        return Ok(store_status(cluster));
    }
    match cluster.settings.components.iter().find(|component| component.name == name) {
        Some(component) => Ok(status(cluster, component).await),
        // Upstream's error is not a NotFound.
        None => Err(ApiError::Unclassified(format!("Component not found: {name}"))),
    }
}

fn store_status(cluster: &Cluster) -> Value {
    let health = match cluster.store_health() {
        Ok(()) => Health::Healthy("ok".to_owned()),
        Err(why) => Health::StoreFailed(why),
    };
    component_status(STORE_NAME, health)
}

async fn status(cluster: &Cluster, component: &Component) -> Value {
    let minor = cluster.settings.gates.version().binary();
    component_status(&component.name, probe(&component.health, minor).await)
}

/// Probes a component without verifying its certificate (upstream: `probe/http`).
async fn probe(url: &str, minor: Minor) -> Health {
    let request = Request::get(url)
        .header(header::USER_AGENT, format!("kube-probe/{minor}"))
        .header(header::ACCEPT, "*/*")
        .header(header::CONNECTION, "close")
        .body(Bytes::new());
    let request = match request {
        Ok(request) => request,
        Err(error) => return Health::Unknown(format!("failed to construct probe request: {error}")),
    };
    let client_config = ClientConfig { server_trust: ServerTrust::InsecureSkipVerify, ..ClientConfig::default() };
    let client = match Client::new(&client_config) {
        Ok(client) => client,
        Err(error) => return Health::Unknown(error.to_string()),
    };
    let response = match client.send(request, PROBE_LIMITS).await {
        Ok(response) => response,
        Err(error) if error.is_body_error() => return Health::Unknown(error.to_string()),
        Err(error) => return Health::Unhealthy(error.to_string()),
    };
    let text = String::from_utf8_lossy(&response.body().bytes).into_owned();
    match response.status() {
        code if code.is_success() => Health::Healthy(text),
        // Upstream treats a redirect as a warning, which results in an unknown condition.
        code if code.is_redirection() => Health::Unknown(String::new()),
        code => Health::Unhealthy(format!("HTTP probe failed with statuscode: {}", code.as_u16())),
    }
}

/// Creates a `ComponentStatus`.
fn component_status(name: &str, health: Health) -> Value {
    let (status, message, error) = match health {
        Health::Healthy(text) => ("True", text, String::new()),
        Health::Unhealthy(text) => ("False", text, String::new()),
        Health::StoreFailed(why) => ("False", String::new(), why),
        Health::Unknown(why) => ("Unknown", String::new(), why),
    };
    let mut condition = object! { "type": "Healthy", "status": status };
    for (key, text) in [("message", message), ("error", error)] {
        if !text.is_empty() {
            condition.set(key, text);
        }
    }
    object! {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": object! { "name": name },
        "conditions": vec![condition],
    }
}
