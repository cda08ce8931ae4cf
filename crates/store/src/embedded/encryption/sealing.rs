//! AES-256-GCM (NIST SP 800-38D) with random nonces. A sealed text is a nonce of 12 bytes, the ciphertext and a tag of
//! 16 bytes.
//!
//! The nonces are random, although each row has its own revision. A transaction that fails gives its revisions to the
//! next transaction, and the file system may show both. A nonce from the revision would be used twice then.

use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes256Gcm};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::wrapper::{KEY_BYTES, SecretKey};

pub(super) const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// By how many bytes a sealed text is longer than its plaintext.
pub(in crate::embedded) const OVERHEAD: usize = NONCE_BYTES + TAG_BYTES;

pub(super) type Nonce = [u8; NONCE_BYTES];

/// A plaintext is too long, or the system has no random bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SealError(pub(super) &'static str);

/// Seals a plaintext. The context is authenticated.
pub(super) fn seal(cipher: &Aes256Gcm, nonce: Nonce, plain: &[u8], context: &[u8]) -> Result<Vec<u8>, SealError> {
    let mut sealed = Vec::with_capacity(plain.len() + OVERHEAD);
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(plain);
    let text = InOutBuf::from(&mut sealed[NONCE_BYTES..]);
    let tag = cipher.encrypt_inout_detached(&nonce.into(), context, text);
    sealed.extend_from_slice(&tag.map_err(|_| SealError("a value is too long for AES-GCM"))?);
    Ok(sealed)
}

/// Returns the plaintext of an authentic sealed text.
pub(super) fn open(cipher: &Aes256Gcm, sealed: &[u8], context: &[u8]) -> Option<Vec<u8>> {
    let (nonce, rest) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let (ciphertext, tag) = rest.split_last_chunk::<TAG_BYTES>()?;
    let mut plain = ciphertext.to_vec();
    let text = InOutBuf::from(plain.as_mut_slice());
    cipher.decrypt_inout_detached(&(*nonce).into(), context, text, &(*tag).into()).ok()?;
    Some(plain)
}

/// The nonce of a sealed text.
pub(super) fn nonce_of(sealed: &[u8]) -> Option<&Nonce> {
    sealed.first_chunk()
}

pub(super) fn random<const N: usize>() -> Result<[u8; N], SealError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| SealError("the system has no random bytes"))?;
    Ok(bytes)
}

/// The state of HMAC-SHA256 with a key.
pub(super) fn hmac(key: &SecretKey) -> Hmac<Sha256> {
    // HMAC fills a key up to the block size of its hash with zeros.
    let mut block = Zeroizing::new([0; 64]);
    block[..KEY_BYTES].copy_from_slice(key.bytes());
    Hmac::new((&*block).into())
}

/// The HMAC-SHA256 code of a text.
pub(super) fn code(key: &SecretKey, text: &[u8]) -> [u8; 32] {
    let mut mac = hmac(key);
    mac.update(text);
    mac.finalize().into_bytes().into()
}
