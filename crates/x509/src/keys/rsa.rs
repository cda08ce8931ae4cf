//! Signatures of RSA: RSASSA-PKCS1-v1_5 and RSASSA-PSS (RFC 8017, sections 8.1.2, 8.2.2 and 9; Go:
//! `rsa.VerifyPKCS1v15`, `rsa.VerifyPSS`). `ring` refuses short keys, and salts whose length differs from the digest's
//! length. Kubelets sign with the longest possible salt.

use num_bigint::BigUint;
use ring::digest::Context;
use ring::signature::{
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
};

use super::RsaKey;
use crate::signature::Hash;

const TRAILER: u8 = 0xbc;
/// Go accepts no greater exponent.
const MAX_EXPONENT_BITS: u64 = 31;
/// The sizes of keys in bits. Go accepts longer keys in certificates, but not in certificates of clients
/// (`tls.maxRSAKeySize`).
const BITS: std::ops::RangeInclusive<u64> = 1024..=8192;
/// The minimum size of keys, in bits, with which `ring` verifies signatures.
const RING_BITS: u64 = 2048;

/// Whether `signature` is a signature of a message with the padding of PKCS #1.
pub(super) fn verify_pkcs1(key: &RsaKey, hash: Hash, message: &[u8], signature: &[u8]) -> bool {
    if key.modulus.bits() >= RING_BITS {
        let algorithm = match hash {
            Hash::Sha256 => &RSA_PKCS1_2048_8192_SHA256,
            Hash::Sha384 => &RSA_PKCS1_2048_8192_SHA384,
            Hash::Sha512 => &RSA_PKCS1_2048_8192_SHA512,
        };
        return verify_by_ring(algorithm, key, message, signature);
    }
    let Some(encoded) = decrypted(key, signature).and_then(|number| padded(&number, key.length())) else {
        return false;
    };
    let digest = hash.digest(message);
    let content = [digest_info(hash), digest.as_ref()].concat();
    // The bytes are zero, one, ones, zero, and the digest with the identifier of its function.
    let Some(padding) = key.length().checked_sub(content.len() + 3).filter(|length| *length >= 8) else { return false };
    encoded == [&[0, 1][..], &vec![0xff; padding], &[0], &content].concat()
}

/// Whether `signature` is a signature of a message with the probabilistic padding. Without `salt`, the salt may have
/// any length.
pub(super) fn verify_pss(key: &RsaKey, hash: Hash, salt: Option<usize>, message: &[u8], signature: &[u8]) -> bool {
    let bits = key.modulus.bits();
    if bits >= RING_BITS && salt.is_some() {
        let algorithm = match hash {
            Hash::Sha256 => &RSA_PSS_2048_8192_SHA256,
            Hash::Sha384 => &RSA_PSS_2048_8192_SHA384,
            Hash::Sha512 => &RSA_PSS_2048_8192_SHA512,
        };
        return verify_by_ring(algorithm, key, message, signature);
    }
    let Some(number) = decrypted(key, signature) else { return false };
    let bits = bits as usize - 1;
    let digest = hash.digest(message);
    padded(&number, bits.div_ceil(8)).is_some_and(|encoded| is_encoding_of(hash, digest.as_ref(), encoded, bits, salt))
}

fn verify_by_ring(algorithm: &'static RsaParameters, key: &RsaKey, message: &[u8], signature: &[u8]) -> bool {
    let components = RsaPublicKeyComponents { n: key.modulus.to_bytes_be(), e: key.exponent.to_bytes_be() };
    components.verify(algorithm, message, signature).is_ok()
}

/// The number that a signature encodes.
fn decrypted(key: &RsaKey, signature: &[u8]) -> Option<BigUint> {
    let RsaKey { modulus, exponent } = key;
    let is_usable = BITS.contains(&modulus.bits())
        && modulus.bit(0)
        && exponent.bit(0)
        && (2..=MAX_EXPONENT_BITS).contains(&exponent.bits());
    let number = BigUint::from_bytes_be(signature);
    if !is_usable || signature.len() != key.length() || number >= *modulus {
        return None;
    }
    Some(number.modpow(exponent, modulus))
}

/// The bytes of a number, with leading zeros up to a length. `None` if the number is longer.
fn padded(number: &BigUint, length: usize) -> Option<Vec<u8>> {
    let bytes = number.to_bytes_be();
    let padding = length.checked_sub(bytes.len())?;
    Some([vec![0; padding], bytes].concat())
}

/// The prefix of a digest: the identifier of its function (RFC 8017, section 9.2, note 1).
const fn digest_info(hash: Hash) -> &'static [u8] {
    match hash {
        Hash::Sha256 => b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20",
        Hash::Sha384 => b"\x30\x41\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x02\x05\x00\x04\x30",
        Hash::Sha512 => b"\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x03\x05\x00\x04\x40",
    }
}

/// Whether an encoded message of this many bits encodes a digest (EMSA-PSS-VERIFY).
fn is_encoding_of(hash: Hash, digest: &[u8], mut message: Vec<u8>, bits: usize, salt_length: Option<usize>) -> bool {
    if message.len() < hash.length() + 2 || message.pop() != Some(TRAILER) {
        return false;
    }
    let seed = message.split_off(message.len() - hash.length());
    // The bits of the first byte that the encoding does not use.
    let unused = if bits.is_multiple_of(8) { 0 } else { 0xff << (bits % 8) };
    if message[0] & unused != 0 {
        return false;
    }
    for (byte, mask) in message.iter_mut().zip(mask(hash, &seed)) {
        *byte ^= mask;
    }
    message[0] &= !unused;
    // The bytes are zeros, a one, and the salt.
    let Some(zeros) = message.iter().position(|byte| *byte != 0).filter(|i| message[*i] == 1) else { return false };
    let salt = &message[zeros + 1..];
    let mut hasher = Context::new(hash.algorithm());
    for part in [&[0; 8][..], digest, salt] {
        hasher.update(part);
    }
    salt_length.is_none_or(|length| length == salt.len()) && hasher.finish().as_ref() == seed
}

/// The mask of a seed (MGF1).
fn mask(hash: Hash, seed: &[u8]) -> impl Iterator<Item = u8> {
    (0_u32..).flat_map(move |counter| {
        let mut hasher = Context::new(hash.algorithm());
        hasher.update(seed);
        hasher.update(&counter.to_be_bytes());
        hasher.finish().as_ref().to_vec()
    })
}
