//! One call of a webhook, and how it fails (upstream: `callAttrMutatingHook`, `callHook`, `ErrCallingWebhook`).

use std::path::Path;
use std::time::{Duration, Instant};

use pintle_registry::ApiError;
use pintle_value::print::quote;

use super::review::{self, AdmissionResponse, ResponseError};
use super::source::{SideEffects, Webhook};
use crate::AdmissionAttributes;
use crate::matching::MatchedResource;
use crate::objects::VersionedObjects;
use crate::webhook::{WebhookCall, WebhookCallError};

/// Why a webhook does not admit a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum WebhookError {
    /// The call failed, or the answer cannot be used. The failure policy decides.
    Calling {
        /// The reason.
        why: String,
        /// The code for metrics.
        code: u16,
    },
    /// The webhook denies the request.
    Denied(ApiError, u16),
    /// The server cannot do something that the request or the answer asks for.
    Failed(ApiError),
}

impl WebhookError {
    fn calling(why: impl Into<String>, code: u16) -> Self {
        Self::Calling { why: why.into(), code }
    }

    /// The message of a failed call.
    pub(super) fn message(webhook: &Webhook, why: &str) -> String {
        format!("failed calling webhook {}: {why}", quote(&webhook.name))
    }
}

/// Calls a webhook and records the warnings and the audit annotations of its answer. An answer that denies the request is
/// an error.
pub(super) async fn call(
    webhook: &Webhook,
    attributes: &AdmissionAttributes<'_>,
    matched: MatchedResource<'_>,
    objects: &VersionedObjects<'_>,
    is_mutating: bool,
    kubeconfig: Option<&Path>,
) -> Result<AdmissionResponse, WebhookError> {
    if attributes.dry_run {
        match webhook.side_effects {
            SideEffects::NoneOnDryRun => {}
            SideEffects::Unset => return Err(WebhookError::calling("Webhook SideEffects is nil", 400)),
            SideEffects::Some => {
                let why = format!("admission webhook {} does not support dry run", quote(&webhook.name));
                return Err(WebhookError::Failed(ApiError::BadRequest(why)));
            }
        }
    }
    let Some(version) = webhook.review_version else {
        let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        return Err(WebhookError::calling(format!("could not create admission objects: {why}"), 400));
    };
    let Some(client) = &webhook.client else {
        let why = WebhookError::message(webhook, "webhook configuration must have either service or URL");
        return Err(WebhookError::calling(format!("could not get REST client: {why}"), 500));
    };
    let uid = uuid::Uuid::new_v4().to_string();
    let review = review::encode(version, &uid, attributes, matched, objects).into();
    let left = attributes.deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
    let timeout = webhook.timeout.min(left);
    let answer = attributes.webhooks.call(WebhookCall { client, kubeconfig, review, timeout }).await;
    let body = answer.map_err(|error| match error {
        WebhookCallError::NoClient(why) => WebhookError::calling(format!("could not get REST client: {why}"), 500),
        WebhookCallError::Failed { message, code, lacks_san } => {
            if lacks_san {
                attributes.recorder.annotate_missing_san(&client.hostname());
            }
            WebhookError::calling(format!("failed to call webhook: {message}"), code.unwrap_or(503))
        }
    })?;
    let response = review::decode(version, &uid, is_mutating, &body).map_err(|error| match error {
        ResponseError::Undecodable(why) => WebhookError::calling(format!("failed to call webhook: {why}"), 503),
        ResponseError::Invalid(why) => WebhookError::calling(format!("received invalid webhook response: {why}"), 503),
    })?;
    for (key, value) in &response.annotations {
        attributes.recorder.annotate(&format!("{}/{key}", webhook.name), value.to_string());
    }
    response.warnings.iter().for_each(|warning| attributes.recorder.warn(warning.clone()));
    if !response.allowed {
        let (error, code) = review::denial(&webhook.name, &response.status);
        return Err(WebhookError::Denied(error, code));
    }
    Ok(response)
}
