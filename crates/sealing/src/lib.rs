//! Sealed texts: AES-256-GCM (NIST SP 800-38D) with random nonces, and HMAC-SHA256 codes. A sealed text is a nonce of 12
//! bytes, the ciphertext and a tag of 16 bytes. Keys are zeroed on drop, and no debug output shows them.
//!
//! The crate has no generic functions, so that a debug build compiles the ciphers with optimization.
//!
//! ```
//! use pintle_sealing::{Cipher, SecretKey, random};
//!
//! let cipher = Cipher::new(&SecretKey::random()?);
//! let sealed = cipher.seal(random()?, b"value", b"context")?;
//! assert_eq!(cipher.open(&sealed, b"context").as_deref(), Some(&b"value"[..]));
//! assert_eq!(cipher.open(&sealed, b"another context"), None);
//! # Ok::<(), pintle_sealing::SealError>(())
//! ```

use std::fmt;

use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes256Gcm};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

/// The length of a key, in bytes.
pub const KEY_BYTES: usize = 32;

/// The length of a nonce, in bytes.
pub const NONCE_BYTES: usize = 12;

/// The length of a code, in bytes.
pub const CODE_BYTES: usize = 32;

const TAG_BYTES: usize = 16;

/// By how many bytes a sealed text is longer than its plaintext.
pub const OVERHEAD: usize = NONCE_BYTES + TAG_BYTES;

/// A number that a key uses once.
pub type Nonce = [u8; NONCE_BYTES];

/// The reason why a text cannot be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The plaintext exceeds the limit of AES-GCM, 64 GiB.
    #[error("the text is too long for AES-GCM")]
    TooLong,
    /// The system has no random bytes.
    #[error("the system has no random bytes")]
    NoRandomBytes,
}

/// The bytes of a key. They are zeroed on drop, and no debug output shows them.
#[derive(Clone)]
pub struct SecretKey([u8; KEY_BYTES]);

impl SecretKey {
    /// Takes the bytes of a key.
    #[must_use]
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Takes the bytes of a key. Returns `None` if their number is wrong.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }

    /// A random key.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn random() -> Result<Self, SealError> {
        let mut key = Self([0; KEY_BYTES]);
        getrandom::fill(&mut key.0).map_err(|_| SealError::NoRandomBytes)?;
        Ok(key)
    }

    /// A key for one purpose: one step of HKDF-Expand (RFC 5869), because the key is as long as the hash.
    #[must_use]
    pub fn derive(&self, purpose: &[u8]) -> Self {
        Self(CodeKey::new(self).code(&[purpose, &[1]]))
    }

    /// The bytes of the key.
    #[must_use]
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

/// A key that seals texts.
pub struct Cipher(Aes256Gcm);

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher")
    }
}

impl Cipher {
    /// Prepares a key.
    #[must_use]
    pub fn new(key: &SecretKey) -> Self {
        Self(Aes256Gcm::new(key.bytes().into()))
    }

    /// Seals a plaintext. The context is authenticated. The nonce must be [`random`].
    ///
    /// # Errors
    /// The plaintext is too long.
    pub fn seal(&self, nonce: Nonce, plain: &[u8], context: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut sealed = Vec::with_capacity(plain.len() + OVERHEAD);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(plain);
        let text = InOutBuf::from(&mut sealed[NONCE_BYTES..]);
        let tag = self.0.encrypt_inout_detached(&nonce.into(), context, text);
        sealed.extend_from_slice(&tag.map_err(|_| SealError::TooLong)?);
        Ok(sealed)
    }

    /// Returns the plaintext of an authentic sealed text.
    #[must_use]
    pub fn open(&self, sealed: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let (ciphertext, tag) = rest.split_last_chunk::<TAG_BYTES>()?;
        let mut plain = ciphertext.to_vec();
        let text = InOutBuf::from(plain.as_mut_slice());
        self.0.decrypt_inout_detached(&(*nonce).into(), context, text, &(*tag).into()).ok()?;
        Some(plain)
    }
}

/// A key for HMAC-SHA256 codes.
pub struct CodeKey(Hmac<Sha256>);

impl fmt::Debug for CodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodeKey")
    }
}

impl CodeKey {
    /// Prepares a key.
    #[must_use]
    pub fn new(key: &SecretKey) -> Self {
        // HMAC fills a key up to the block size of its hash with zeros.
        let mut block = Zeroizing::new([0; 64]);
        block[..KEY_BYTES].copy_from_slice(key.bytes());
        Self(Hmac::new((&*block).into()))
    }

    /// The code of a text, which is the concatenation of these parts.
    #[must_use]
    pub fn code(&self, parts: &[&[u8]]) -> [u8; CODE_BYTES] {
        self.start(parts).finalize().into_bytes().into()
    }

    /// True if the text has this code. The comparison takes constant time.
    #[must_use]
    pub fn has_code(&self, parts: &[&[u8]], code: &[u8]) -> bool {
        self.start(parts).verify_slice(code).is_ok()
    }

    fn start(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut code = self.0.clone();
        parts.iter().for_each(|part| code.update(part));
        code
    }
}

/// The nonce of a sealed text.
#[must_use]
pub fn nonce_of(sealed: &[u8]) -> Option<&Nonce> {
    sealed.first_chunk()
}

/// A random nonce.
///
/// # Errors
/// The system has no random bytes.
pub fn random() -> Result<Nonce, SealError> {
    random_pair().map(|[nonce, _]| nonce)
}

/// Two random nonces, which cost as much as one.
///
/// # Errors
/// The system has no random bytes.
pub fn random_pair() -> Result<[Nonce; 2], SealError> {
    let mut bytes = [0; 2 * NONCE_BYTES];
    getrandom::fill(&mut bytes).map_err(|_| SealError::NoRandomBytes)?;
    Ok(std::array::from_fn(|half| std::array::from_fn(|byte| bytes[half * NONCE_BYTES + byte])))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    /// Test case 16 of McGrew and Viega, "The Galois/Counter Mode of Operation", with AES-256 and a context.
    #[test]
    fn a_text_is_sealed_as_the_specification_says() {
        let key = hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
        let nonce = hex("cafebabefacedbaddecaf888");
        let plain = hex(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        );
        let context = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let sealed = hex(
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b",
        );
        let cipher = Cipher::new(&SecretKey::from_slice(&key).unwrap());
        let found = cipher.seal(nonce.clone().try_into().unwrap(), &plain, &context).unwrap();
        assert_eq!(found, [nonce, sealed].concat());
        assert_eq!(cipher.open(&found, &context).unwrap(), plain);
        for at in 0..found.len() {
            let mut changed = found.clone();
            changed[at] ^= 1;
            assert_eq!(cipher.open(&changed, &context), None);
            assert_eq!(cipher.open(&found[..at], &context), None);
        }
        assert_eq!(cipher.open(&found, b""), None);
    }

    /// Test cases 1 and 2 of RFC 4231, whose keys are shorter and are filled with zeros.
    #[test]
    fn a_code_is_the_hmac_of_the_text() {
        let mut key = [0; KEY_BYTES];
        key[..20].fill(0x0b);
        let code = hex("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        assert_eq!(CodeKey::new(&SecretKey::new(key)).code(&[b"Hi ", b"There"]).as_slice(), code);
        let mut key = [0; KEY_BYTES];
        key[..4].copy_from_slice(b"Jefe");
        let code = hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let key = CodeKey::new(&SecretKey::new(key));
        assert!(key.has_code(&[b"what do ya want for nothing?"], &code));
        assert!(!key.has_code(&[b"what do ya want for nothing"], &code));
        assert!(!key.has_code(&[b"what do ya want for nothing?"], &code[1..]));
    }

    #[test]
    fn nonces_and_keys_are_random_and_keys_are_not_shown() {
        let [one, other] = random_pair().unwrap();
        assert!(one != other && random().unwrap() != one);
        let key = SecretKey::random().unwrap();
        assert_ne!(key.bytes(), SecretKey::random().unwrap().bytes());
        assert_ne!(key.derive(b"one").bytes(), key.derive(b"two").bytes());
        let shown = format!("{key:?} {:?} {:?}", Cipher::new(&key), CodeKey::new(&key));
        assert_eq!(shown, "[REDACTED] Cipher CodeKey");
    }
}
