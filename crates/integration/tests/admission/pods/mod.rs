//! The effects of the built-in admission plugins on pods and related objects, from a client's view.

mod default_plugins;
mod image_policy;
mod other_plugins;

use pintle::Options;
use pintle_admission::AdmissionConfiguration;
use pintle_integration::{Cluster, Response, bootstrapped};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod with one container and further fields in its spec.
fn pod(name: &str, fields: Value) -> String {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    for (field, value) in fields.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec}).to_string()
}

/// Starts a cluster with the service accounts of namespaces and further plugins.
async fn start_with(enabled: &[&str]) -> Cluster {
    let enabled = enabled.iter().map(|name| (*name).to_owned()).collect();
    let admission = AdmissionConfiguration { enabled, ..AdmissionConfiguration::default() };
    Cluster::with_options(Options { admission, ..bootstrapped() }).await
}

/// The error of a plugin that refuses a write.
fn forbidden(response: Response, message: &str) {
    response.expect_error(403, "Forbidden", message);
}
