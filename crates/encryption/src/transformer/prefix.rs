//! Chooses among transformers by the prefixes of stored values, and records what they do.

use std::sync::Arc;
use std::time::Instant;

use super::{Decrypted, PrefixedTransformer, Transformer};
use crate::TransformError;
use crate::metrics::{Direction, EncryptionMetrics, Recorder};

/// Transformers with the prefixes of their stored values. The first one writes, and all of them read.
#[derive(Debug)]
pub(crate) struct PrefixTransformers {
    transformers: Vec<(PrefixedTransformer, Arc<Recorder>)>,
    /// The error for a value with another prefix.
    no_match: TransformError,
    unknown: Recorder,
}

impl PrefixTransformers {
    /// Transformers that record the values of a resource.
    pub(crate) fn new(
        transformers: Vec<PrefixedTransformer>,
        no_match: &'static str,
        metrics: &Arc<EncryptionMetrics>,
        resource: &Arc<str>,
    ) -> Self {
        let recorder = |prefix: &[u8]| Recorder::new(metrics, resource, prefix);
        let unknown = recorder(b"unknown");
        let with_recorder = |transformer: PrefixedTransformer| {
            let recorder = Arc::new(recorder(&transformer.0));
            (transformer, recorder)
        };
        let transformers = transformers.into_iter().map(with_recorder).collect();
        Self { transformers, no_match: TransformError::new(no_match), unknown }
    }
}

impl Transformer for PrefixTransformers {
    fn encrypt_to(&self, value: &[u8], context: &[u8], stored: &mut Vec<u8>) -> Result<(), TransformError> {
        let start = Instant::now();
        let first = self.transformers.first().ok_or_else(|| self.no_match.clone())?;
        let ((prefix, transformer), recorder) = first;
        stored.extend_from_slice(prefix);
        let result = transformer.encrypt_to(value, context, stored);
        recorder.record(Direction::ToStorage, start, &result);
        result
    }

    /// Several transformers can have a prefix: two keys have the same name while one of them replaces the other. So an
    /// error does not end the search. An error of the transformer without a prefix does not count.
    fn decrypt<'s>(&self, stored: &'s [u8], context: &[u8]) -> Result<Decrypted<'s>, TransformError> {
        let start = Instant::now();
        let mut errors: Option<TransformError> = None;
        for (position, ((prefix, transformer), recorder)) in self.transformers.iter().enumerate() {
            let Some(rest) = stored.strip_prefix(prefix.as_slice()) else { continue };
            let mut result = transformer.decrypt(rest, context);
            match &mut result {
                Err(_) if prefix.is_empty() => continue,
                // The value has no result yet.
                Err(error) if error.missing().is_some() => error.record_missing(recorder),
                result => recorder.record(Direction::FromStorage, start, result),
            }
            match result {
                Ok(mut decrypted) => {
                    decrypted.stale |= position > 0;
                    return Ok(decrypted);
                }
                Err(error) => match &mut errors {
                    Some(errors) => errors.append(error),
                    None => errors = Some(error),
                },
            }
        }
        Err(errors.unwrap_or_else(|| {
            self.unknown.record_failure(Direction::FromStorage, self.no_match.status());
            self.no_match.clone()
        }))
    }
}
