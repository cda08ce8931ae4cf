//! Objects to a webhook and back: many in one question, so that a list takes a few of them, and never more than fit a
//! bounded buffer.

use std::sync::Arc;
use std::time::Instant;

use pintle_codec::json;
use pintle_extensions::conversion::{
    ConversionError, ConversionReview, ReviewVersion, accept_converted, parse_response,
};
use pintle_registry::{ApiError, GroupVersion, WebhookClientConfig};
use pintle_value::{Str, Value};

use crate::cluster::Cluster;

/// The most objects in one question.
const OBJECTS: usize = 128;
/// A question takes no more objects when it has so many bytes.
const BYTES: usize = 1 << 20;
/// An answer is read up to so many bytes, and in proportion to the question.
const ANSWER: usize = 16 << 20;

/// A question that came to nothing.
struct CallFailure {
    failure: ConversionError,
    /// True if there was an answer.
    heard: bool,
}

/// A webhook and what it is asked for.
pub(super) struct WebhookCall<'a> {
    pub(super) cluster: &'a Arc<Cluster>,
    pub(super) webhook: &'a WebhookClientConfig,
    /// The versions of reviews that it understands.
    pub(super) reviews: &'a [Str],
    /// The definition that names it.
    pub(super) definition: &'a str,
    /// The version that is wanted.
    pub(super) desired: &'a str,
}

impl WebhookCall<'_> {
    /// Converts objects.
    ///
    /// # Errors
    /// The webhook fails.
    pub(super) async fn convert(&self, objects: Vec<Value>) -> Result<Vec<Value>, ApiError> {
        let Some(version) = ReviewVersion::first_supported(self.reviews) else {
            return Err(ApiError::Unclassified("no supported conversion review versions".to_owned()));
        };
        let mut converted = Vec::with_capacity(objects.len());
        let mut rest = objects.into_iter().peekable();
        while rest.peek().is_some() {
            let (mut originals, mut texts, mut bytes) = (Vec::new(), Vec::new(), 0);
            while originals.len() < OBJECTS
                && bytes < BYTES
                && let Some(object) = rest.next()
            {
                let text = json::encode(&object);
                bytes += text.len();
                texts.push(text);
                originals.push(object);
            }
            converted.extend(self.batch(version, &originals, &texts).await?);
        }
        Ok(converted)
    }

    /// One batch. Upstream asks about one object at a time, so that a webhook works there which does not take several, or no
    /// large bodies: that it refuses a batch is not the last word, and whose fault it is comes out.
    async fn batch(
        &self,
        version: ReviewVersion,
        originals: &[Value],
        texts: &[Vec<u8>],
    ) -> Result<Vec<Value>, ApiError> {
        let told = |failed: CallFailure| ApiError::Unclassified(failed.failure.message);
        match self.ask(version, originals, texts).await {
            Err(failed) if originals.len() > 1 && failed.heard => {}
            answer => return answer.map_err(told),
        }
        let mut converted = Vec::with_capacity(originals.len());
        for (original, text) in originals.iter().zip(texts) {
            let one = self.ask(version, std::slice::from_ref(original), std::slice::from_ref(text)).await;
            converted.extend(one.map_err(told)?);
        }
        Ok(converted)
    }

    /// One question.
    async fn ask(
        &self,
        version: ReviewVersion,
        originals: &[Value],
        texts: &[Vec<u8>],
    ) -> Result<Vec<Value>, CallFailure> {
        let started = Instant::now();
        let answer = self.exchange(version, originals, texts).await;
        let fault = answer.as_ref().err().map(|failed| failed.failure.error_type);
        let from = originals.first().map_or("", Value::api_version);
        let version_of = |name: &str| GroupVersion::parse(name).unwrap_or_default().version.to_string();
        self.cluster.metrics.conversion(
            self.definition,
            (version_of(from), version_of(self.desired)),
            fault,
            started.elapsed(),
        );
        answer
    }

    async fn exchange(
        &self,
        version: ReviewVersion,
        originals: &[Value],
        texts: &[Vec<u8>],
    ) -> Result<Vec<Value>, CallFailure> {
        let uid = uuid::Uuid::new_v4().to_string();
        let review = ConversionReview { version, uid: &uid, desired: self.desired };
        let question = review.body(texts);
        let limit = ANSWER + 4 * question.len();
        let answer = super::webhook::post(self.cluster, self.webhook, question.into(), limit).await;
        let about = originals.first().unwrap_or(&Value::Null);
        let answer = answer
            .map_err(|refusal| CallFailure { failure: ConversionError::call_failed(about, &refusal.why), heard: refusal.heard })?;
        let accepted = |converted: Vec<Value>| {
            originals
                .iter()
                .zip(converted)
                .map(|(original, object)| accept_converted(original, object, self.desired))
                .collect()
        };
        parse_response(&review, originals, &answer).and_then(accepted).map_err(|failure| CallFailure { failure, heard: true })
    }
}
