//! Chooses among transformers by the prefixes of stored values.

use super::{Decrypted, PrefixedTransformer, Transformer};
use crate::TransformError;

/// Transformers with the prefixes of their stored values. The first one writes, and all of them read.
#[derive(Debug)]
pub(crate) struct PrefixTransformers {
    transformers: Vec<PrefixedTransformer>,
    /// The error for a value with another prefix.
    no_match: TransformError,
}

impl PrefixTransformers {
    pub(crate) fn new(transformers: Vec<PrefixedTransformer>, no_match: &'static str) -> Self {
        Self { transformers, no_match: TransformError::new(no_match) }
    }
}

impl Transformer for PrefixTransformers {
    fn encrypt_to(&self, value: &[u8], context: &[u8], stored: &mut Vec<u8>) -> Result<(), TransformError> {
        let (prefix, transformer) = self.transformers.first().ok_or_else(|| self.no_match.clone())?;
        stored.extend_from_slice(prefix);
        transformer.encrypt_to(value, context, stored)
    }

    /// Several transformers can have a prefix: two keys have the same name while one of them replaces the other. So an
    /// error does not end the search. An error of the transformer without a prefix does not count.
    fn decrypt<'s>(&self, stored: &'s [u8], context: &[u8]) -> Result<Decrypted<'s>, TransformError> {
        let mut errors: Option<TransformError> = None;
        for (position, (prefix, transformer)) in self.transformers.iter().enumerate() {
            let Some(rest) = stored.strip_prefix(prefix.as_slice()) else { continue };
            match transformer.decrypt(rest, context) {
                Ok(mut decrypted) => {
                    decrypted.stale |= position > 0;
                    return Ok(decrypted);
                }
                Err(_) if prefix.is_empty() => {}
                Err(error) => match &mut errors {
                    Some(errors) => errors.append(error),
                    None => errors = Some(error),
                },
            }
        }
        Err(errors.unwrap_or_else(|| self.no_match.clone()))
    }
}
