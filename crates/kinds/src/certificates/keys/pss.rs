//! RSASSA-PSS with SHA-256 and a salt of any length (RFC 8017, sections 8.1.2 and 9.1.2; Go: `rsa.VerifyPSS` without options).
//! Kubelets sign with the longest salt, which `ring` refuses.

use num_bigint::BigUint;
use sha2::{Digest, Sha256};

use super::RsaKey;

const DIGEST_LENGTH: usize = 32;
const TRAILER: u8 = 0xbc;
/// Go accepts no greater exponent.
const MAX_EXPONENT_BITS: u64 = 31;

/// Whether `signature` is a signature of a SHA-256 digest.
pub(super) fn verify(key: &RsaKey, digest: &[u8], signature: &[u8]) -> bool {
    encoded_message(key, signature)
        .is_some_and(|message| is_encoding_of(digest, message, key.modulus.bits() as usize - 1))
}

/// The message that a signature encodes, without leading zeros that are not part of the encoding.
fn encoded_message(key: &RsaKey, signature: &[u8]) -> Option<Vec<u8>> {
    let RsaKey { modulus, exponent } = key;
    let is_usable = modulus.bit(0) && exponent.bit(0) && (2..=MAX_EXPONENT_BITS).contains(&exponent.bits());
    let number = BigUint::from_bytes_be(signature);
    if !is_usable || signature.len() != key.length() || number >= *modulus {
        return None;
    }
    let message = number.modpow(exponent, modulus).to_bytes_be();
    let length = (modulus.bits() as usize - 1).div_ceil(8);
    let padding = length.checked_sub(message.len())?;
    Some([vec![0; padding], message].concat())
}

/// Whether an encoded message of so many bits is one of a digest (EMSA-PSS-VERIFY).
fn is_encoding_of(digest: &[u8], mut message: Vec<u8>, bits: usize) -> bool {
    if message.len() < DIGEST_LENGTH + 2 || message.pop() != Some(TRAILER) {
        return false;
    }
    let hash = message.split_off(message.len() - DIGEST_LENGTH);
    // The bits of the first byte that the encoding does not use.
    let unused = if bits.is_multiple_of(8) { 0 } else { 0xff << (bits % 8) };
    if message[0] & unused != 0 {
        return false;
    }
    for (byte, mask) in message.iter_mut().zip(mask(&hash)) {
        *byte ^= mask;
    }
    message[0] &= !unused;
    // Zeros, a one, and the salt.
    let Some(zeros) = message.iter().position(|byte| *byte != 0).filter(|i| message[*i] == 1) else { return false };
    let salt = &message[zeros + 1..];
    let mut hasher = Sha256::new();
    for part in [&[0; 8][..], digest, salt] {
        hasher.update(part);
    }
    hasher.finalize()[..] == hash[..]
}

/// The mask of a seed (MGF1).
fn mask(seed: &[u8]) -> impl Iterator<Item = u8> {
    (0_u32..).flat_map(move |counter| {
        let mut hasher = Sha256::new();
        hasher.update(seed);
        hasher.update(counter.to_be_bytes());
        <[u8; DIGEST_LENGTH]>::from(hasher.finalize())
    })
}
