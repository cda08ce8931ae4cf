//! Batches of objects for conversion webhooks. A list needs only a few calls, and the size of each call is bounded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pintle_codec::json;
use pintle_extensions::conversion::{
    ConversionError, ConversionReview, ReviewVersion, accept_converted, parse_response,
};
use pintle_registry::{ApiError, GroupVersion, WebhookClientConfig};
use pintle_value::{Str, Value};

use crate::cluster::Cluster;
use crate::webhook::{Post, PostError, TimeoutSource, WebhookClient};

/// Time limit for a call including retries.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of objects in one call.
const MAX_BATCH_OBJECTS: usize = 128;
/// A batch is complete when its objects have this size, in bytes.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// Minimum limit for the size of a response, in bytes. The limit grows with the request.
const MIN_RESPONSE_LIMIT: usize = 16 << 20;

/// The error of a call.
struct CallFailure {
    failure: ConversionError,
    /// True if the webhook responded.
    has_response: bool,
}

/// A webhook, and the parameters of its conversion.
pub(super) struct WebhookCall<'a> {
    pub(super) cluster: &'a Arc<Cluster>,
    pub(super) webhook: &'a WebhookClientConfig,
    /// The versions of `ConversionReview` that the webhook understands.
    pub(super) reviews: &'a [Str],
    /// The name of the CRD.
    pub(super) crd: &'a str,
    /// The `apiVersion` to convert to.
    pub(super) desired: &'a str,
}

impl WebhookCall<'_> {
    /// Converts objects.
    ///
    /// # Errors
    /// Returns an error if the webhook fails.
    pub(super) async fn convert(&self, objects: Vec<Value>) -> Result<Vec<Value>, ApiError> {
        let Some(version) = ReviewVersion::first_supported(self.reviews) else {
            return Err(ApiError::Unclassified("no supported conversion review versions".to_owned()));
        };
        let mut converted = Vec::with_capacity(objects.len());
        let mut rest = objects.into_iter().peekable();
        while rest.peek().is_some() {
            let (mut originals, mut encoded, mut bytes) = (Vec::new(), Vec::new(), 0);
            while originals.len() < MAX_BATCH_OBJECTS
                && bytes < MAX_BATCH_BYTES
                && let Some(object) = rest.next()
            {
                let text = json::encode(&object);
                bytes += text.len();
                encoded.push(text);
                originals.push(object);
            }
            converted.extend(self.convert_batch(version, &originals, &encoded).await?);
        }
        Ok(converted)
    }

    /// Converts one batch. Upstream sends one object per call, so some webhooks do not support several objects or large
    /// bodies. If a webhook responds to a batch with an error, its objects are converted one by one; this also
    /// determines which object fails.
    async fn convert_batch(
        &self,
        version: ReviewVersion,
        originals: &[Value],
        encoded: &[Vec<u8>],
    ) -> Result<Vec<Value>, ApiError> {
        let to_api_error = |failed: CallFailure| ApiError::Unclassified(failed.failure.message);
        match self.call_webhook(version, originals, encoded).await {
            Err(failed) if originals.len() > 1 && failed.has_response => {}
            result => return result.map_err(to_api_error),
        }
        let mut converted = Vec::with_capacity(originals.len());
        for (original, text) in originals.iter().zip(encoded) {
            let result = self.call_webhook(version, std::slice::from_ref(original), std::slice::from_ref(text)).await;
            converted.extend(result.map_err(to_api_error)?);
        }
        Ok(converted)
    }

    /// Makes one call and records its metrics.
    async fn call_webhook(
        &self,
        version: ReviewVersion,
        originals: &[Value],
        encoded: &[Vec<u8>],
    ) -> Result<Vec<Value>, CallFailure> {
        let started = Instant::now();
        let result = self.post_review(version, originals, encoded).await;
        let error_type = result.as_ref().err().map(|failed| failed.failure.error_type);
        let from = originals.first().map_or("", Value::api_version);
        let version_of = |name: &str| GroupVersion::parse(name).unwrap_or_default().version.to_string();
        self.cluster.metrics.conversion(
            self.crd,
            (version_of(from), version_of(self.desired)),
            error_type,
            started.elapsed(),
        );
        result
    }

    async fn post_review(
        &self,
        version: ReviewVersion,
        originals: &[Value],
        encoded: &[Vec<u8>],
    ) -> Result<Vec<Value>, CallFailure> {
        let uid = uuid::Uuid::new_v4().to_string();
        let review = ConversionReview { version, uid: &uid, desired: self.desired };
        let body = review.body(encoded);
        let limit = MIN_RESPONSE_LIMIT + 4 * body.len();
        let response = self.post(body.into(), limit).await;
        let about = originals.first().unwrap_or(&Value::Null);
        let response = response.map_err(|error| CallFailure {
            failure: ConversionError::call_failed(about, &error.message),
            has_response: error.status.is_some(),
        })?;
        let accepted = |converted: Vec<Value>| {
            originals
                .iter()
                .zip(converted)
                .map(|(original, object)| accept_converted(original, object, self.desired))
                .collect()
        };
        parse_response(&review, originals, &response)
            .and_then(accepted)
            .map_err(|failure| CallFailure { failure, has_response: true })
    }

    async fn post(&self, body: Bytes, limit: usize) -> Result<Bytes, PostError> {
        let Self { cluster, webhook: config, .. } = *self;
        let no_client = |message: String| PostError::without_response(message);
        let client = WebhookClient::Anonymous(cluster.outbound.webhook_clients.get(config).map_err(no_client)?);
        let (timeout, timeout_source) = (TIMEOUT, TimeoutSource::Client);
        Post { cluster, client: &client, config, timeout, timeout_source, limit }.send(body).await
    }
}
