//! AES-GCM (NIST SP 800-38D). A stored value has a random nonce of 12 bytes, the ciphertext and a tag of 16 bytes. The
//! context is authenticated.

use std::fmt;
use std::sync::Arc;

use aes::{Aes192, Aes256};
use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes128Gcm, AesGcm as Cipher, KeyInit};

use super::{Decrypted, TOO_SHORT, Transformer, fill_random};
use crate::TransformError;

pub(crate) const NONCE_LENGTH: usize = 12;
const TAG_LENGTH: usize = 16;
/// By how many bytes a stored value is longer than the value.
pub(crate) const OVERHEAD: usize = NONCE_LENGTH + TAG_LENGTH;

/// Go's text for a wrong tag.
const NOT_AUTHENTIC: TransformError = TransformError::fixed("cipher: message authentication failed");

/// A key with the length of its type.
struct AesGcm<C>(C);

/// A transformer with a key of 16, 24 or 32 bytes.
pub(crate) fn new(key: &[u8]) -> Option<Arc<dyn Transformer>> {
    Some(match key.len() {
        16 => Arc::new(AesGcm(Aes128Gcm::new_from_slice(key).ok()?)),
        24 => Arc::new(AesGcm(Cipher::<Aes192, U12>::new_from_slice(key).ok()?)),
        32 => Arc::new(AesGcm(Cipher::<Aes256, U12>::new_from_slice(key).ok()?)),
        _ => return None,
    })
}

impl<C> fmt::Debug for AesGcm<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AesGcm")
    }
}

impl<C: AeadInOut<NonceSize = U12, TagSize = U16> + Send + Sync> Transformer for AesGcm<C> {
    fn encrypt_to(&self, value: &[u8], context: &[u8], stored: &mut Vec<u8>) -> Result<(), TransformError> {
        let mut nonce = [0; NONCE_LENGTH];
        fill_random(&mut nonce)?;
        seal(&self.0, nonce, value, context, stored)
    }

    fn decrypt<'s>(&self, stored: &'s [u8], context: &[u8]) -> Result<Decrypted<'s>, TransformError> {
        open(&self.0, stored, context)
    }
}

/// Appends the nonce, the ciphertext and the tag of a value.
pub(crate) fn seal(
    cipher: &impl AeadInOut<NonceSize = U12, TagSize = U16>,
    nonce: [u8; NONCE_LENGTH],
    value: &[u8],
    context: &[u8],
    stored: &mut Vec<u8>,
) -> Result<(), TransformError> {
    stored.reserve(value.len() + OVERHEAD);
    stored.extend_from_slice(&nonce);
    let start = stored.len();
    stored.extend_from_slice(value);
    let tag = cipher.encrypt_inout_detached(&nonce.into(), context, InOutBuf::from(&mut stored[start..]));
    let tag = tag.map_err(|_| TransformError::new("the value is too long for AES-GCM"))?;
    stored.extend_from_slice(&tag);
    Ok(())
}

/// Returns the value of a nonce, a ciphertext and a tag.
pub(crate) fn open<'s>(
    cipher: &impl AeadInOut<NonceSize = U12, TagSize = U16>,
    stored: &[u8],
    context: &[u8],
) -> Result<Decrypted<'s>, TransformError> {
    let (nonce, rest) = stored.split_first_chunk::<NONCE_LENGTH>().ok_or(TOO_SHORT)?;
    let (ciphertext, tag) = rest.split_last_chunk::<TAG_LENGTH>().ok_or(NOT_AUTHENTIC)?;
    let mut value = ciphertext.to_vec();
    let buffer = InOutBuf::from(value.as_mut_slice());
    let opened = cipher.decrypt_inout_detached(&(*nonce).into(), context, buffer, &(*tag).into());
    opened.map_err(|_| NOT_AUTHENTIC)?;
    Ok(Decrypted::fresh(value))
}
