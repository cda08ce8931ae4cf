//! Public keys: read from PEM, named by key ids, and used to verify signatures.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RsaPublicKeyComponents, UnparsedPublicKey};
use rustls_pki_types::pem::{PemObject, SectionKind};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::der::{self, Reader};
use super::{Algorithm, SigningKey};

/// The algorithms of keys, as they are in DER: `rsaEncryption`, `id-ecPublicKey`.
const RSA_ENCRYPTION: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const EC_PUBLIC_KEY: &[u8] = b"\x2a\x86\x48\xce\x3d\x02\x01";

/// Why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not a key, or a key of an unsupported type.
    #[error("not a valid RSA or ECDSA key")]
    Unsupported,
    /// A file has no public key.
    #[error("data does not contain any valid RSA or ECDSA public keys")]
    NoPublicKey,
    /// A file has no private key.
    #[error("data does not contain a valid RSA or ECDSA private key")]
    NoPrivateKey,
    /// The private key cannot be used.
    #[error("the private key cannot be used: {0}")]
    Rejected(String),
}

/// A signature that a key does not verify. The text is go-jose's text, and deliberately gives no details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("go-jose/go-jose: error in cryptographic primitive")]
pub struct SignatureError;

/// The curve of an ECDSA key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Curve {
    P256,
    P384,
}

impl Curve {
    pub(super) const ALL: [Curve; 2] = [Curve::P256, Curve::P384];

    /// The object identifier in DER.
    pub(super) fn oid(self) -> &'static [u8] {
        match self {
            Curve::P256 => b"\x2a\x86\x48\xce\x3d\x03\x01\x07",
            Curve::P384 => b"\x2b\x81\x04\x00\x22",
        }
    }

    /// The name in a JSON Web Key.
    pub(super) fn name(self) -> &'static str {
        match self {
            Curve::P256 => "P-256",
            Curve::P384 => "P-384",
        }
    }

    /// The size of a coordinate, in bytes.
    pub(super) fn size(self) -> usize {
        match self {
            Curve::P256 => 32,
            Curve::P384 => 48,
        }
    }

    /// The only algorithm of keys on this curve.
    pub(super) fn algorithm(self) -> Algorithm {
        match self {
            Curve::P256 => Algorithm::Es256,
            Curve::P384 => Algorithm::Es384,
        }
    }

    pub(super) fn from_oid(oid: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| curve.oid() == oid)
    }
}

/// The numbers of a public key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Material {
    /// Modulus and exponent, both without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// An uncompressed point.
    Ec { curve: Curve, point: Vec<u8> },
}

impl Material {
    /// The algorithm that tokens name if this key signs them. Upstream signs with no other algorithm.
    pub(super) fn default_algorithm(&self) -> Algorithm {
        match self {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::Ec { curve, .. } => curve.algorithm(),
        }
    }

    /// The key as `SubjectPublicKeyInfo` in DER (`x509.MarshalPKIXPublicKey`).
    fn spki(&self) -> Vec<u8> {
        let (algorithm, bits) = match self {
            Material::Rsa { modulus, exponent } => {
                let parameters =
                    [der::element(der::OBJECT_IDENTIFIER, &[RSA_ENCRYPTION]), der::element(der::NULL, &[])];
                (parameters, der::element(der::SEQUENCE, &[&der::unsigned(modulus), &der::unsigned(exponent)]))
            }
            Material::Ec { curve, point } => {
                let identifier = |oid: &[u8]| der::element(der::OBJECT_IDENTIFIER, &[oid]);
                ([identifier(EC_PUBLIC_KEY), identifier(curve.oid())], point.clone())
            }
        };
        let algorithm = der::element(der::SEQUENCE, &[&algorithm[0], &algorithm[1]]);
        der::element(der::SEQUENCE, &[&algorithm, &der::element(der::BIT_STRING, &[&[0], &bits])])
    }

    /// Reads a `SubjectPublicKeyInfo`.
    fn from_spki(spki: &[u8]) -> Option<Self> {
        let mut info = Reader(spki).enter(der::SEQUENCE)?;
        let mut algorithm = info.enter(der::SEQUENCE)?;
        let bits = info.bits()?;
        match algorithm.read(der::OBJECT_IDENTIFIER)? {
            RSA_ENCRYPTION => Self::from_pkcs1(bits),
            EC_PUBLIC_KEY => {
                let curve = Curve::from_oid(algorithm.read(der::OBJECT_IDENTIFIER)?)?;
                Self::ec(curve, bits)
            }
            _ => None,
        }
    }

    /// Reads an `RSAPublicKey`.
    pub(super) fn from_pkcs1(der: &[u8]) -> Option<Self> {
        let mut key = Reader(der).enter(der::SEQUENCE)?;
        let (modulus, exponent) = (key.unsigned()?, key.unsigned()?);
        Some(Material::Rsa { modulus: modulus.to_vec(), exponent: exponent.to_vec() })
    }

    /// A key from a point, which must be uncompressed. The verification of a signature checks that the point is on the
    /// curve.
    pub(super) fn ec(curve: Curve, point: &[u8]) -> Option<Self> {
        let is_uncompressed = point.first() == Some(&4) && point.len() == 1 + 2 * curve.size();
        is_uncompressed.then(|| Material::Ec { curve, point: point.to_vec() })
    }
}

/// A key that verifies tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PublicKey {
    pub(super) material: Material,
    id: String,
    /// The only algorithm that the key allows, if it is bound to one.
    algorithm: Option<Algorithm>,
}

impl PublicKey {
    pub(super) fn new(material: Material) -> Self {
        // Upstream: `keyIDFromPublicKey`.
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(material.spki()));
        Self { material, id, algorithm: None }
    }

    /// A key with the id and the algorithm that its owner publishes.
    pub(super) fn published(material: Material, id: String, algorithm: Option<Algorithm>) -> Self {
        Self { material, id, algorithm }
    }

    /// The key id: the id that its owner publishes, else a hash of the key.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The algorithm that this key has in a set of keys.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm.unwrap_or_else(|| self.material.default_algorithm())
    }

    /// True if this key may verify signatures of an algorithm.
    fn allows(&self, algorithm: Algorithm) -> bool {
        let is_of_kind = match &self.material {
            Material::Rsa { .. } => algorithm.rsa_parameters().is_some(),
            Material::Ec { curve, .. } => algorithm == curve.algorithm(),
        };
        is_of_kind && self.algorithm.is_none_or(|only| only == algorithm)
    }

    /// Verifies a signature.
    ///
    /// # Errors
    /// The signature was not made with this key, or the key does not allow the algorithm of this name.
    pub fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> Result<(), SignatureError> {
        let algorithm = Algorithm::from_name(algorithm).filter(|found| self.allows(*found)).ok_or(SignatureError)?;
        let verified = match &self.material {
            Material::Rsa { modulus, exponent } => {
                let parameters = algorithm.rsa_parameters().ok_or(SignatureError)?;
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, message, signature)
            }
            Material::Ec { curve: Curve::P256, point } => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Material::Ec { curve: Curve::P384, point } => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature)
            }
        };
        verified.map_err(|_| SignatureError)
    }
}

/// The public keys of a file in PEM: public keys, the public parts of private keys, and the keys of certificates. Other
/// sections are skipped (upstream: `keyutil.ParsePublicKeysPEM`).
///
/// # Errors
/// There is no such key.
pub fn public_keys_from_pem(pem: &[u8]) -> Result<Vec<PublicKey>, KeyError> {
    let keys: Vec<PublicKey> = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem)
        .map_while(|section| section.ok())
        .filter_map(|(kind, der)| match kind {
            SectionKind::PublicKey => Material::from_spki(&der).map(PublicKey::new),
            SectionKind::Certificate => {
                let (_, certificate) = X509Certificate::from_der(&der).ok()?;
                Material::from_spki(certificate.public_key().raw).map(PublicKey::new)
            }
            kind => SigningKey::from_section(kind, &der).ok().map(|key| key.public_key().clone()),
        })
        .collect();
    if keys.is_empty() { Err(KeyError::NoPublicKey) } else { Ok(keys) }
}
