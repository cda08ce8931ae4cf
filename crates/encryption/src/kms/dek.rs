//! Decrypted DEKs: keys and seeds (upstream: `encrypt/aes/aes_extended_nonce.go`).
//!
//! With a seed, each value has a key of its own: HKDF-Expand with SHA-256 (RFC 5869) of the seed and 32 random bytes. The
//! random bytes come before the nonce, the ciphertext and the tag of AES-GCM.

use std::fmt;
use std::sync::Arc;

use ::aes_gcm::{Aes256Gcm, KeyInit as _};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::DekKind;
use crate::transformer::{Decrypted, TOO_SHORT, aes_gcm, fill_random};
use crate::{Secret, TransformError, Transformer};

/// The length of new seeds, and the minimum length of any seed, in bytes.
const SEED_LENGTH: usize = 32;
/// The length of the random bytes from which the key of a value is derived.
const INFO_LENGTH: usize = 32;

/// By how many bytes a ciphertext is longer than the value, if a seed is used.
pub(super) const SEED_OVERHEAD: usize = INFO_LENGTH + aes_gcm::OVERHEAD;

/// A decrypted DEK.
#[derive(Clone)]
pub(super) enum Dek {
    /// The key of all values, only for reading.
    Key(Arc<dyn Transformer>),
    /// The seed of keys.
    Seed(Hmac<Sha256>),
}

impl fmt::Debug for Dek {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "Key",
            Self::Seed(_) => "Seed",
        })
    }
}

/// A new random seed.
pub(super) fn new_seed() -> Result<Secret, TransformError> {
    let mut seed = Zeroizing::new(vec![0; SEED_LENGTH]);
    fill_random(&mut seed)?;
    Ok(Secret::new(std::mem::take(&mut seed)))
}

impl Dek {
    /// # Errors
    /// The length is not possible; the error is Go's.
    pub(super) fn new(secret: &Secret, kind: DekKind) -> Result<Self, TransformError> {
        let (bytes, length) = (secret.bytes(), secret.bytes().len());
        let dek = match kind {
            DekKind::AesGcmKey => aes_gcm::new(bytes).map(Self::Key).ok_or("crypto/aes: invalid key size"),
            DekKind::HkdfSeed if length < SEED_LENGTH => {
                return Err(TransformError::new(format!("invalid seed length {length} used for key generation")));
            }
            DekKind::HkdfSeed => Hmac::new_from_slice(bytes).map(Self::Seed).map_err(|_| "invalid seed of"),
        };
        dek.map_err(|problem| TransformError::new(format!("{problem} {length}")))
    }

    /// Appends the ciphertext of a value. A key is not used for writing, because its nonces would have to be counted.
    pub(super) fn encrypt_to(&self, value: &[u8], context: &[u8], stored: &mut Vec<u8>) -> Result<(), TransformError> {
        let Self::Seed(seed) = self else { return Err(TransformError::new("the DEK is for reading only")) };
        let mut random = [0; INFO_LENGTH + aes_gcm::NONCE_LENGTH];
        fill_random(&mut random)?;
        let mut nonce = [0; aes_gcm::NONCE_LENGTH];
        let (info, rest) = random.split_at(INFO_LENGTH);
        nonce.copy_from_slice(rest);
        stored.extend_from_slice(info);
        aes_gcm::seal(&derived(seed, info), nonce, value, context, stored)
    }

    pub(super) fn decrypt(&self, data: &[u8], context: &[u8]) -> Result<Vec<u8>, TransformError> {
        let decrypted = match self {
            Self::Key(key) => key.decrypt(data, context)?,
            Self::Seed(seed) => {
                let (info, rest) = data.split_at_checked(INFO_LENGTH).ok_or(TOO_SHORT)?;
                aes_gcm::open(&derived(seed, info), rest, context)?
            }
        };
        let Decrypted { value, .. } = decrypted;
        Ok(value.into_owned())
    }
}

/// The key of a value. HKDF-Expand has one step, because the key is as long as the hash.
fn derived(seed: &Hmac<Sha256>, info: &[u8]) -> Aes256Gcm {
    let mut key = seed.clone();
    key.update(info);
    key.update(&[1]);
    let key = Zeroizing::new(<[u8; 32]>::from(key.finalize().into_bytes()));
    Aes256Gcm::new((&*key).into())
}
