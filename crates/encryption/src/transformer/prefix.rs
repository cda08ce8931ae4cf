//! Chooses among transformers by the prefixes of stored values, and records what they do.
//!
//! As in upstream, a value counts for its provider and for its key. The time is taken once for both, because that costs more
//! than anything else here.

use std::sync::Arc;
use std::time::Instant;

use super::{Decrypted, PrefixedTransformer, Transformer};
use crate::TransformError;
use crate::metrics::{Direction, EncryptionMetrics, Recorder};

/// A transformer to which one of several prefixes leads. It returns the recorder of the key that it has used, if it has keys.
pub(crate) trait ChosenTransformer {
    fn encrypt_to(
        &self,
        value: &[u8],
        context: &[u8],
        stored: &mut Vec<u8>,
    ) -> Result<Option<&Recorder>, TransformError>;

    fn decrypt<'s>(
        &self,
        stored: &'s [u8],
        context: &[u8],
    ) -> Result<(Decrypted<'s>, Option<&Recorder>), TransformError>;
}

impl ChosenTransformer for Arc<dyn Transformer> {
    fn encrypt_to(
        &self,
        value: &[u8],
        context: &[u8],
        stored: &mut Vec<u8>,
    ) -> Result<Option<&Recorder>, TransformError> {
        (**self).encrypt_to(value, context, stored).map(|()| None)
    }

    fn decrypt<'s>(
        &self,
        stored: &'s [u8],
        context: &[u8],
    ) -> Result<(Decrypted<'s>, Option<&Recorder>), TransformError> {
        Ok(((**self).decrypt(stored, context)?, None))
    }
}

/// The transformer of a provider for a resource.
#[derive(Debug)]
pub(crate) enum ProviderTransformer {
    /// The transformers of keys.
    Keys(PrefixTransformers<Arc<dyn Transformer>>),
    /// A transformer without keys in the configuration.
    Other(Arc<dyn Transformer>),
}

impl ChosenTransformer for ProviderTransformer {
    fn encrypt_to(
        &self,
        value: &[u8],
        context: &[u8],
        stored: &mut Vec<u8>,
    ) -> Result<Option<&Recorder>, TransformError> {
        match self {
            Self::Keys(keys) => keys.write(value, context, stored).map(|(recorder, _)| Some(recorder)),
            Self::Other(transformer) => ChosenTransformer::encrypt_to(transformer, value, context, stored),
        }
    }

    fn decrypt<'s>(
        &self,
        stored: &'s [u8],
        context: &[u8],
    ) -> Result<(Decrypted<'s>, Option<&Recorder>), TransformError> {
        match self {
            Self::Keys(keys) => keys.read(stored, context).map(|(decrypted, recorder, _)| (decrypted, Some(recorder))),
            Self::Other(transformer) => ChosenTransformer::decrypt(transformer, stored, context),
        }
    }
}

/// Transformers with the prefixes of their stored values. The first one writes, and all of them read.
#[derive(Debug)]
pub(crate) struct PrefixTransformers<T> {
    transformers: Vec<(Vec<u8>, T, Arc<Recorder>)>,
    /// The error for a value with another prefix.
    no_match: TransformError,
    unknown: Recorder,
}

impl PrefixTransformers<Arc<dyn Transformer>> {
    /// The transformers of keys.
    pub(super) fn of_keys(
        keys: &[PrefixedTransformer],
        no_match: &'static str,
        metrics: &Arc<EncryptionMetrics>,
        resource: &Arc<str>,
    ) -> Self {
        Self::new(keys.iter().cloned(), no_match, metrics, resource)
    }
}

impl<T: ChosenTransformer> PrefixTransformers<T> {
    /// Transformers that record the values of a resource.
    pub(crate) fn new(
        transformers: impl IntoIterator<Item = (Vec<u8>, T)>,
        no_match: &'static str,
        metrics: &Arc<EncryptionMetrics>,
        resource: &Arc<str>,
    ) -> Self {
        let recorder = |prefix: &[u8]| Recorder::new(metrics, resource, prefix);
        let unknown = recorder(b"unknown");
        let with_recorder = |(prefix, transformer): (Vec<u8>, T)| {
            let recorder = Arc::new(recorder(&prefix));
            (prefix, transformer, recorder)
        };
        let transformers = transformers.into_iter().map(with_recorder).collect();
        Self { transformers, no_match: TransformError::new(no_match), unknown }
    }

    /// Appends the stored form of a value. Records failures, and returns the recorders of a success.
    fn write(
        &self,
        value: &[u8],
        context: &[u8],
        stored: &mut Vec<u8>,
    ) -> Result<(&Recorder, Option<&Recorder>), TransformError> {
        let first = self.transformers.first().ok_or_else(|| self.no_match.clone())?;
        let (prefix, transformer, recorder) = first;
        stored.extend_from_slice(prefix);
        match transformer.encrypt_to(value, context, stored) {
            Ok(key) => Ok((recorder, key)),
            Err(error) => {
                recorder.record_failure(Direction::ToStorage, error.status());
                Err(error)
            }
        }
    }

    /// Decrypts a value. Records failures, and returns the recorders of a success.
    ///
    /// Several transformers can have a prefix: two keys have the same name while one of them replaces the other. So an
    /// error does not end the search. An error of the transformer without a prefix does not count.
    fn read<'s>(
        &self,
        stored: &'s [u8],
        context: &[u8],
    ) -> Result<(Decrypted<'s>, &Recorder, Option<&Recorder>), TransformError> {
        let mut errors: Option<TransformError> = None;
        for (position, (prefix, transformer, recorder)) in self.transformers.iter().enumerate() {
            let Some(rest) = stored.strip_prefix(prefix.as_slice()) else { continue };
            let mut error = match transformer.decrypt(rest, context) {
                Ok((mut decrypted, key)) => {
                    decrypted.stale |= position > 0;
                    return Ok((decrypted, recorder, key));
                }
                Err(_) if prefix.is_empty() => continue,
                Err(error) => error,
            };
            match error.missing() {
                // The value has no result yet.
                Some(_) => error.record_missing(recorder),
                None => recorder.record_failure(Direction::FromStorage, error.status()),
            }
            match &mut errors {
                Some(errors) => errors.append(error),
                None => errors = Some(error),
            }
        }
        Err(errors.unwrap_or_else(|| {
            self.unknown.record_failure(Direction::FromStorage, self.no_match.status());
            self.no_match.clone()
        }))
    }
}

/// The transformer of a resource.
impl Transformer for PrefixTransformers<ProviderTransformer> {
    fn encrypt_to(&self, value: &[u8], context: &[u8], stored: &mut Vec<u8>) -> Result<(), TransformError> {
        let start = Instant::now();
        let (provider, key) = self.write(value, context, stored)?;
        let duration = start.elapsed();
        [Some(provider), key].into_iter().flatten().for_each(|r| r.record_success(Direction::ToStorage, duration));
        Ok(())
    }

    fn decrypt<'s>(&self, stored: &'s [u8], context: &[u8]) -> Result<Decrypted<'s>, TransformError> {
        let start = Instant::now();
        let (decrypted, provider, key) = self.read(stored, context)?;
        let duration = start.elapsed();
        [Some(provider), key].into_iter().flatten().for_each(|r| r.record_success(Direction::FromStorage, duration));
        Ok(decrypted)
    }
}
