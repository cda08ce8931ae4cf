//! Converts objects between versions (upstream: `pkg/apiserver/conversion/converter.go`).

use std::sync::Arc;

use pintle_registry::{ApiError, BoxFuture, Conversion, GroupVersion, MultiVersion};
use pintle_value::Value;

use super::webhook_batch::WebhookCall;
use crate::cluster::Cluster;

/// Converts objects of a kind to the version with this `apiVersion`.
///
/// # Errors
/// Returns an error if the version does not exist or the webhook fails.
pub(crate) fn convert<'a>(
    cluster: &'a Arc<Cluster>,
    versions: &'a dyn MultiVersion,
    objects: Vec<Value>,
    desired: &'a str,
) -> BoxFuture<'a, Result<Vec<Value>, ApiError>> {
    // The future is boxed, because the future of a webhook call is large. So watches and requests that may wait for a
    // call do not reserve its size.
    Box::pin(convert_all(cluster, versions, objects, desired))
}

async fn convert_all(
    cluster: &Arc<Cluster>,
    versions: &dyn MultiVersion,
    mut objects: Vec<Value>,
    desired: &str,
) -> Result<Vec<Value>, ApiError> {
    if !versions.contains(desired) {
        return Err(invalid("to", desired));
    }
    let mut indexes = Vec::new();
    for (i, object) in objects.iter_mut().enumerate() {
        let from = object.api_version();
        if from == desired {
            continue;
        }
        if GroupVersion::parse(from).is_none() || !versions.contains(from) {
            return Err(invalid("from", from));
        }
        // An object with only a kind and apiVersion needs no webhook.
        if *versions.conversion() == Conversion::None || is_empty(object) {
            object.set("apiVersion", desired);
        } else {
            indexes.push(i);
        }
    }
    if let Conversion::Webhook { webhook, review_versions: reviews, crd } = versions.conversion()
        && !indexes.is_empty()
    {
        let call = WebhookCall { cluster, webhook, reviews, crd, desired };
        let originals = indexes.iter().map(|i| objects[*i].take()).collect();
        for (i, converted) in indexes.into_iter().zip(call.convert(originals).await?) {
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
