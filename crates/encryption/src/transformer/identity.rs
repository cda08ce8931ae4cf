//! Stores values as they are.

use super::{Decrypted, Transformer};
use crate::TransformError;

/// Every encrypted value begins with this text. JSON begins with a brace, and Protobuf with `k8s` and a zero byte.
const ENCRYPTED: &[u8] = b"k8s:enc:";
const IS_ENCRYPTED: TransformError = TransformError::fixed("identity transformer tried to read encrypted data");

/// Stores values as they are. It refuses to read an encrypted value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity;

impl Transformer for Identity {
    fn encrypt_to(&self, value: &[u8], _context: &[u8], stored: &mut Vec<u8>) -> Result<(), TransformError> {
        stored.extend_from_slice(value);
        Ok(())
    }

    fn decrypt<'s>(&self, stored: &'s [u8], _context: &[u8]) -> Result<Decrypted<'s>, TransformError> {
        if stored.starts_with(ENCRYPTED) { Err(IS_ENCRYPTED) } else { Ok(Decrypted::fresh(stored)) }
    }
}
