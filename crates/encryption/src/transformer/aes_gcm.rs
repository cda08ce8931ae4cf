//! AES-GCM (NIST SP 800-38D). A stored value has a random nonce of 12 bytes, the ciphertext and a tag of 16 bytes. The
//! context is authenticated.

use std::fmt;
use std::sync::Arc;

use aes::{Aes192, Aes256};
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes128Gcm, AesGcm as Cipher, KeyInit, Nonce, Tag};

use super::{Decrypted, TOO_SHORT, Transformer, fill_random};
use crate::TransformError;

pub(super) const NONCE_LENGTH: usize = 12;
const TAG_LENGTH: usize = 16;

/// Go's text for a wrong tag.
const NOT_AUTHENTIC: TransformError = TransformError::fixed("cipher: message authentication failed");

/// A key with the length of its type.
struct AesGcm<C>(C);

/// A transformer with a key of 16, 24 or 32 bytes.
pub(super) fn new(key: &[u8]) -> Option<Arc<dyn Transformer>> {
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

impl<C: AeadInOut<NonceSize = U12> + Send + Sync> Transformer for AesGcm<C>
where
    Tag<C::TagSize>: AsRef<[u8]>,
{
    fn encrypt_to(&self, value: &[u8], context: &[u8], stored: &mut Vec<u8>) -> Result<(), TransformError> {
        let mut nonce = Nonce::default();
        fill_random(&mut nonce)?;
        stored.reserve(NONCE_LENGTH + value.len() + TAG_LENGTH);
        stored.extend_from_slice(&nonce);
        let start = stored.len();
        stored.extend_from_slice(value);
        let tag = self.0.encrypt_inout_detached(&nonce, context, InOutBuf::from(&mut stored[start..]));
        let tag = tag.map_err(|_| TransformError::new("the value is too long for AES-GCM"))?;
        stored.extend_from_slice(&tag);
        Ok(())
    }

    fn decrypt<'s>(&self, stored: &'s [u8], context: &[u8]) -> Result<Decrypted<'s>, TransformError> {
        let (nonce, rest) = stored.split_first_chunk::<NONCE_LENGTH>().ok_or(TOO_SHORT)?;
        let (ciphertext, tag) = rest.split_last_chunk::<TAG_LENGTH>().ok_or(NOT_AUTHENTIC)?;
        let mut value = ciphertext.to_vec();
        let tag = Tag::<C::TagSize>::try_from(tag.as_slice()).map_err(|_| NOT_AUTHENTIC)?;
        let buffer = InOutBuf::from(value.as_mut_slice());
        self.0.decrypt_inout_detached(&Nonce::from(*nonce), context, buffer, &tag).map_err(|_| NOT_AUTHENTIC)?;
        Ok(Decrypted::fresh(value))
    }
}
