//! Secretbox: XSalsa20 and Poly1305 as NaCl combines them (<https://nacl.cr.yp.to/secretbox.html>). A stored value has a
//! random nonce of 24 bytes, a tag of 16 bytes and the ciphertext. The context is not authenticated, as in upstream.

use std::fmt;
use std::sync::Arc;

use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit;
use salsa20::XSalsa20;
use salsa20::cipher::{KeyIvInit, StreamCipher};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{Decrypted, TOO_SHORT, Transformer, fill_random};
use crate::TransformError;

const KEY_LENGTH: usize = 32;
const NONCE_LENGTH: usize = 24;
const TAG_LENGTH: usize = 16;

/// Upstream's text for a wrong tag.
const NOT_AUTHENTIC: TransformError = TransformError::fixed("output array was not large enough for encryption");

struct Secretbox(Zeroizing<[u8; KEY_LENGTH]>);

/// A transformer with a key of 32 bytes.
pub(super) fn new(key: &[u8]) -> Option<Arc<dyn Transformer>> {
    let mut copy = Zeroizing::new([0; KEY_LENGTH]);
    if key.len() != KEY_LENGTH {
        return None;
    }
    copy.copy_from_slice(key);
    Some(Arc::new(Secretbox(copy)))
}

impl fmt::Debug for Secretbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secretbox")
    }
}

impl Secretbox {
    /// The stream cipher of a nonce, and the authenticator whose key is the begin of the stream.
    fn begin(&self, nonce: [u8; NONCE_LENGTH]) -> (XSalsa20, Poly1305) {
        let mut stream = XSalsa20::new((&*self.0).into(), &nonce.into());
        let mut key = Zeroizing::new([0; 32]);
        stream.apply_keystream(&mut *key);
        (stream, Poly1305::new((&*key).into()))
    }
}

impl Transformer for Secretbox {
    fn encrypt_to(&self, value: &[u8], _context: &[u8], stored: &mut Vec<u8>) -> Result<(), TransformError> {
        let mut nonce = [0; NONCE_LENGTH];
        fill_random(&mut nonce)?;
        let (mut stream, authenticator) = self.begin(nonce);
        stored.reserve(NONCE_LENGTH + TAG_LENGTH + value.len());
        stored.extend_from_slice(&nonce);
        let start = stored.len();
        stored.extend_from_slice(&[0; TAG_LENGTH]);
        stored.extend_from_slice(value);
        let (tag, ciphertext) = stored[start..].split_at_mut(TAG_LENGTH);
        stream.apply_keystream(ciphertext);
        tag.copy_from_slice(&authenticator.compute_unpadded(ciphertext));
        Ok(())
    }

    fn decrypt<'s>(&self, stored: &'s [u8], _context: &[u8]) -> Result<Decrypted<'s>, TransformError> {
        let (nonce, rest) = stored.split_first_chunk::<NONCE_LENGTH>().ok_or(TOO_SHORT)?;
        let (tag, ciphertext) = rest.split_first_chunk::<TAG_LENGTH>().ok_or(TOO_SHORT)?;
        let (mut stream, authenticator) = self.begin(*nonce);
        let is_authentic = authenticator.compute_unpadded(ciphertext).as_slice().ct_eq(tag);
        if !bool::from(is_authentic) {
            return Err(NOT_AUTHENTIC);
        }
        let mut value = ciphertext.to_vec();
        stream.apply_keystream(&mut value);
        Ok(Decrypted::fresh(value))
    }
}
