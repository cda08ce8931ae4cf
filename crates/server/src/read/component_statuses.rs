//! The health of the cluster's components, as `kubectl get componentstatuses` shows it (upstream:
//! `registry/core/componentstatus`). Each component is asked anew for every request, all at the same time.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, header};
use pintle_outbound::{Client, Limits, Trust};
use pintle_registry::ApiError;
use pintle_value::{Value, object};

use crate::cluster::{Cluster, Component};

/// How much of a component's time and words a probe takes.
const LIMITS: Limits = Limits { time: Duration::from_secs(20), body: 10 << 10 };

/// The name under which the store is known to whoever looks at components.
const STORE: &str = "etcd-0";

/// How a component is.
enum Health {
    /// Well; what it says.
    Well(String),
    /// Unwell, or not to be reached; what it or the network says.
    Unwell(String),
    /// The store does not work; why.
    StoreFailed(String),
    /// It answers with something that is no answer; why.
    Unknown(String),
}

/// The statuses of all components, by their names.
pub(crate) async fn list(cluster: &Cluster) -> Vec<Value> {
    let mut statuses = join_all(cluster.components.iter().map(status)).await;
    statuses.push(store(cluster));
    statuses.sort_by(|a, b| a.name().cmp(b.name()));
    statuses
}

/// The status of one component.
///
/// # Errors
/// There is none of this name.
pub(crate) async fn get(cluster: &Cluster, name: &str) -> Result<Value, ApiError> {
    if name == STORE {
        return Ok(store(cluster));
    }
    match cluster.components.iter().find(|component| component.name == name) {
        Some(component) => Ok(status(component).await),
        // Upstream does not say of this error that it is one of something not found.
        None => Err(ApiError::Unclassified(format!("Component not found: {name}"))),
    }
}

fn store(cluster: &Cluster) -> Value {
    let health = match cluster.store_health() {
        Ok(()) => Health::Well("ok".to_owned()),
        Err(why) => Health::StoreFailed(why),
    };
    shown(STORE, health)
}

async fn status(component: &Component) -> Value {
    shown(&component.name, probe(&component.health).await)
}

/// Asks a component, whoever it is (upstream: `probe/http`).
async fn probe(url: &str) -> Health {
    let request = Request::get(url)
        .header(header::USER_AGENT, "kube-probe/1.36")
        .header(header::ACCEPT, "*/*")
        .header(header::CONNECTION, "close")
        .body(Bytes::new());
    let request = match request {
        Ok(request) => request,
        Err(error) => return Health::Unknown(format!("failed to construct probe request: {error}")),
    };
    let client = match Client::new(Trust::Anyone) {
        Ok(client) => client,
        Err(error) => return Health::Unknown(error.to_string()),
    };
    let answer = match client.send(request, LIMITS).await {
        Ok(answer) => answer,
        Err(error) if error.is_of_body() => return Health::Unknown(error.to_string()),
        Err(error) => return Health::Unwell(error.to_string()),
    };
    let text = String::from_utf8_lossy(&answer.body().bytes).into_owned();
    match answer.status() {
        code if code.is_success() => Health::Well(text),
        // A redirect is a warning, of which a condition knows nothing.
        code if code.is_redirection() => Health::Unknown(String::new()),
        code => Health::Unwell(format!("HTTP probe failed with statuscode: {}", code.as_u16())),
    }
}

/// A `ComponentStatus`.
fn shown(name: &str, health: Health) -> Value {
    let (status, message, error) = match health {
        Health::Well(text) => ("True", text, String::new()),
        Health::Unwell(text) => ("False", text, String::new()),
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
