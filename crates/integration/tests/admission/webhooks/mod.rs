//! Admission webhooks, from the view of clients and of webhooks. Tests in `pintle-admission` cover the matching of
//! requests.

mod conditions;
mod credentials;
mod failures;
mod mutations;
mod protocols;
mod reviews;
mod virtual_resources;
pub(crate) mod webhook;

/// The collection that most tests write to.
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str) -> String {
    serde_json::json!({"metadata": {"name": name}, "data": {"a": "1"}}).to_string()
}
