//! Public keys, and the signatures that prove the possession of their private keys (RFC 5280, RFC 8017, RFC 8032, SEC
//! 1). They are accepted and verified as Go's `crypto` does. `ring` verifies most of them. This module verifies
//! signatures on the curves P-224 and P-521, and RSA signatures with short keys. It also verifies RSA signatures with a
//! salt whose length differs from the digest's length. No private key is involved, so the duration of a verification
//! reveals nothing secret.

mod der;
mod elliptic;
mod montgomery;
mod rsa;

use num_bigint::BigUint;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519,
    EcdsaVerificationAlgorithm, UnparsedPublicKey,
};
use x509_parser::der_parser::asn1_rs::{Oid, Tag};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey as ParsedKey;
use x509_parser::x509::SubjectPublicKeyInfo;

pub use elliptic::{Curve, EcdsaKey};

use crate::signature::{Hash, SignatureAlgorithm};

const ED25519_OID: &str = "1.3.101.112";
const X25519_OID: &str = "1.3.101.110";
const RSA_OID: &str = "1.2.840.113549.1.1.1";
const DSA_OID: &str = "1.2.840.10040.4.1";
const ECDSA_OID: &str = "1.2.840.10045.2.1";
const ED25519_LENGTH: usize = 32;

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// The bytes of a key of Ed25519.
    Ed25519(Vec<u8>),
    /// A key on a curve.
    Ecdsa(EcdsaKey),
    /// A key of RSA.
    Rsa(RsaKey),
    /// A key of another known algorithm. It verifies no signatures.
    Other,
}

/// The public key of RSA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RsaKey {
    modulus: BigUint,
    exponent: BigUint,
}

impl RsaKey {
    /// The size of the modulus in bits, rounded up to whole bytes.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.length() * 8
    }

    /// The size of the modulus in bytes.
    fn length(&self) -> usize {
        (self.modulus.bits().div_ceil(8)) as usize
    }
}

impl PublicKey {
    /// Parses a key in DER (`x509.ParsePKIXPublicKey`).
    #[must_use]
    pub fn parse(der: &[u8]) -> Option<Self> {
        let (rest, info) = SubjectPublicKeyInfo::from_der(der).ok()?;
        if rest.is_empty() { Self::of(&info) } else { None }
    }

    /// The key of a certificate or of a request.
    #[must_use]
    pub fn of(info: &SubjectPublicKeyInfo<'_>) -> Option<Self> {
        let parameters = info.algorithm.parameters.as_ref();
        let bytes: &[u8] = &info.subject_public_key.data;
        match info.algorithm.algorithm.to_id_string().as_str() {
            ED25519_OID if parameters.is_none() && bytes.len() == ED25519_LENGTH => Some(Self::Ed25519(bytes.to_vec())),
            RSA_OID if parameters.is_some_and(|parameters| parameters.tag() == Tag::Null) => {
                let Ok(ParsedKey::RSA(key)) = info.parsed() else { return None };
                let (modulus, exponent) = (der::positive(key.modulus)?, der::positive(key.exponent)?);
                // Go reads the exponent as a signed number of 64 bits.
                (exponent.bits() < 64).then_some(Self::Rsa(RsaKey { modulus, exponent }))
            }
            ECDSA_OID => {
                let curve = parameters?.as_oid().ok().as_ref().and_then(Curve::of)?;
                EcdsaKey::parse(curve, bytes).map(Self::Ecdsa)
            }
            X25519_OID if parameters.is_none() && bytes.len() == ED25519_LENGTH => Some(Self::Other),
            DSA_OID => Some(Self::Other),
            _ => None,
        }
    }

    /// Whether the key has signed a message as kubelets do. They sign the SHA-256 digest of the message, or with
    /// Ed25519 the message itself. With RSA they use PSS with a salt of any length.
    #[must_use]
    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa(key) => rsa::verify_pss(key, Hash::Sha256, None, message, signature),
            Self::Ecdsa(_) => self.verify(SignatureAlgorithm::Ecdsa(Hash::Sha256), message, signature),
            Self::Ed25519(_) => self.verify(SignatureAlgorithm::Ed25519, message, signature),
            Self::Other => false,
        }
    }

    /// The cost of a signature with this key, in signatures with P-384. That is the slowest key that `ring` knows.
    pub(crate) fn cost(&self) -> usize {
        match self {
            Self::Ecdsa(key) if key.curve() == Curve::P521 => 4,
            _ => 1,
        }
    }

    /// Whether `signature` is a signature of a message by the key, with an algorithm.
    #[must_use]
    pub fn verify(&self, algorithm: SignatureAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        match (self, algorithm) {
            (Self::Ed25519(key), SignatureAlgorithm::Ed25519) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
            }
            (Self::Ecdsa(key), SignatureAlgorithm::Ecdsa(hash)) => match ring_ecdsa(key.curve(), hash) {
                Some(algorithm) => UnparsedPublicKey::new(algorithm, key.point()).verify(message, signature).is_ok(),
                None => key.verify(hash.digest(message).as_ref(), signature),
            },
            (Self::Rsa(key), SignatureAlgorithm::RsaPkcs1(hash)) => rsa::verify_pkcs1(key, hash, message, signature),
            (Self::Rsa(key), SignatureAlgorithm::RsaPss(hash)) => {
                rsa::verify_pss(key, hash, Some(hash.length()), message, signature)
            }
            _ => false,
        }
    }
}

/// The algorithm in `ring` that verifies signatures with a curve and a hash function, if it has one.
fn ring_ecdsa(curve: Curve, hash: Hash) -> Option<&'static EcdsaVerificationAlgorithm> {
    match (curve, hash) {
        (Curve::P256, Hash::Sha256) => Some(&ECDSA_P256_SHA256_ASN1),
        (Curve::P256, Hash::Sha384) => Some(&ECDSA_P256_SHA384_ASN1),
        (Curve::P384, Hash::Sha256) => Some(&ECDSA_P384_SHA256_ASN1),
        (Curve::P384, Hash::Sha384) => Some(&ECDSA_P384_SHA384_ASN1),
        _ => None,
    }
}

impl Curve {
    fn of(oid: &Oid<'_>) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| curve.oid() == oid.to_id_string())
    }
}

#[cfg(test)]
mod tests;
