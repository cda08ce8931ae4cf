//! The algorithms of signatures that Go's `crypto/x509` accepts in certificates, and that `crypto/tls` accepts in
//! handshakes.

use ring::digest::{self, Digest};
use x509_parser::signature_algorithm::RsaSsaPssParams;
use x509_parser::x509::AlgorithmIdentifier;

/// A hash function of signatures. Signatures with MD5 and SHA-1 are not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    pub(crate) const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    pub(crate) fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }

    pub(crate) fn digest(self, message: &[u8]) -> Digest {
        digest::digest(self.algorithm(), message)
    }

    /// The length of a digest in bytes.
    pub(crate) fn length(self) -> usize {
        self.algorithm().output_len()
    }

    const fn oid(self) -> &'static str {
        match self {
            Self::Sha256 => "2.16.840.1.101.3.4.2.1",
            Self::Sha384 => "2.16.840.1.101.3.4.2.2",
            Self::Sha512 => "2.16.840.1.101.3.4.2.3",
        }
    }

    fn of_oid(oid: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.oid() == oid)
    }
}

/// The algorithm of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureAlgorithm {
    /// RSASSA-PKCS1-v1_5.
    RsaPkcs1(Hash),
    /// RSASSA-PSS with a salt as long as the digest.
    RsaPss(Hash),
    /// ECDSA with any curve.
    Ecdsa(Hash),
    /// Ed25519.
    Ed25519,
}

impl SignatureAlgorithm {
    /// The algorithm of a certificate; `None` if signatures with it are not accepted.
    pub(crate) fn of(identifier: &AlgorithmIdentifier<'_>) -> Option<Self> {
        Some(match identifier.algorithm.to_id_string().as_str() {
            "1.2.840.113549.1.1.11" => Self::RsaPkcs1(Hash::Sha256),
            "1.2.840.113549.1.1.12" => Self::RsaPkcs1(Hash::Sha384),
            "1.2.840.113549.1.1.13" => Self::RsaPkcs1(Hash::Sha512),
            "1.2.840.113549.1.1.10" => Self::RsaPss(pss_hash(identifier)?),
            "1.2.840.10045.4.3.2" => Self::Ecdsa(Hash::Sha256),
            "1.2.840.10045.4.3.3" => Self::Ecdsa(Hash::Sha384),
            "1.2.840.10045.4.3.4" => Self::Ecdsa(Hash::Sha512),
            "1.3.101.112" if identifier.parameters.is_none() => Self::Ed25519,
            _ => return None,
        })
    }
}

/// The hash function of PSS. The mask must have the same function, and the salt must have the length of a digest.
fn pss_hash(identifier: &AlgorithmIdentifier<'_>) -> Option<Hash> {
    const TRAILER: u32 = 1;
    let parameters = RsaSsaPssParams::try_from(identifier.parameters.as_ref()?).ok()?;
    let hash = Hash::of_oid(&parameters.hash_algorithm_oid().to_id_string())?;
    let mask = parameters.mask_gen_algorithm().ok()?;
    let is_accepted = mask.mgf.to_id_string() == "1.2.840.113549.1.1.8"
        && mask.hash.to_id_string() == hash.oid()
        && usize::try_from(parameters.salt_length()) == Ok(hash.length())
        && parameters.trailer_field() == TRAILER;
    is_accepted.then_some(hash)
}
