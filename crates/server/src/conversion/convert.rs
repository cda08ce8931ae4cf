//! From one version to another (upstream: `pkg/apiserver/conversion/converter.go`).

use std::sync::Arc;

use pintle_registry::{ApiError, Conversion, GroupVersion, MultiVersion};
use pintle_value::Value;

use super::webhook_batch::WebhookCall;
use crate::cluster::Cluster;
use pintle_registry::BoxFuture;

/// Converts objects of a kind to a version of it, named as `apiVersion` names it.
///
/// # Errors
/// There is no such version, or the webhook fails.
pub(crate) fn convert<'a>(
    cluster: &'a Arc<Cluster>,
    versions: &'a dyn MultiVersion,
    objects: Vec<Value>,
    desired: &'a str,
) -> BoxFuture<'a, Result<Vec<Value>, ApiError>> {
    // A call to a webhook is a large future. Watches and requests that may have to wait for one keep no room for it.
    Box::pin(converted(cluster, versions, objects, desired))
}

async fn converted(
    cluster: &Arc<Cluster>,
    versions: &dyn MultiVersion,
    mut objects: Vec<Value>,
    desired: &str,
) -> Result<Vec<Value>, ApiError> {
    if !versions.has(desired) {
        return Err(invalid("to", desired));
    }
    let mut others = Vec::new();
    for (i, object) in objects.iter_mut().enumerate() {
        let from = object.api_version();
        if from == desired {
            continue;
        }
        if GroupVersion::parse(from).is_none() || !versions.has(from) {
            return Err(invalid("from", from));
        }
        // What is but a kind and a version is nothing that could differ.
        if *versions.conversion() == Conversion::None || is_empty(object) {
            object.set("apiVersion", desired);
        } else {
            others.push(i);
        }
    }
    if let Conversion::Webhook { webhook, reviews, definition } = versions.conversion()
        && !others.is_empty()
    {
        let asked = WebhookCall { cluster, webhook, reviews, definition, desired };
        let originals = others.iter().map(|i| objects[*i].take()).collect();
        for (i, converted) in others.into_iter().zip(asked.convert(originals).await?) {
            objects[i] = converted;
        }
    }
    Ok(objects)
}

fn is_empty(object: &Value) -> bool {
    object.entries_at(&[]).all(|(key, _)| matches!(key, "apiVersion" | "kind"))
}

fn invalid(direction: &str, version: &str) -> ApiError {
    ApiError::Unclassified(format!("request to convert CR {direction} an invalid group/version: {version}"))
}
