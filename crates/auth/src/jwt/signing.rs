//! Keys that sign tokens: RSA keys with RS256, ECDSA keys with the algorithm of their curve, as in upstream.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use rustls_pki_types::pem::{PemObject, SectionKind};
use serde::Serialize;

use super::der::{self, Reader};
use super::key::{Curve, Material};
use super::{KeyError, PublicKey};

/// Why a token is not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    /// The claims cannot be written as JSON.
    #[error("the claims cannot be encoded")]
    Claims,
    /// The random source fails.
    #[error("the signature cannot be computed")]
    Signature,
}

/// A private key.
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
    random: SystemRandom,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ec(Box<EcdsaKeyPair>),
}

impl fmt::Debug for SigningKey {
    /// Does not print the private key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// The header of a token.
#[derive(Serialize)]
struct Header<'k> {
    alg: &'static str,
    kid: &'k str,
}

impl SigningKey {
    /// The first private key of a file in PEM: PKCS #1, PKCS #8 or SEC 1 (upstream: `keyutil.ParsePrivateKeyPEM`).
    ///
    /// # Errors
    /// There is no private key, or it cannot be used.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).map_while(|section| section.ok());
        let private = [SectionKind::RsaPrivateKey, SectionKind::PrivateKey, SectionKind::EcPrivateKey];
        let mut keys = sections.filter(|(kind, _)| private.contains(kind));
        let (kind, der) = keys.next().ok_or(KeyError::NoPrivateKey)?;
        Self::from_section(kind, &der)
    }

    /// The key of a section of a PEM file.
    pub(super) fn from_section(kind: SectionKind, der: &[u8]) -> Result<Self, KeyError> {
        let rejected = |error: ring::error::KeyRejected| KeyError::Rejected(error.to_string());
        match kind {
            SectionKind::RsaPrivateKey => Self::rsa(RsaKeyPair::from_der(der).map_err(rejected)?),
            SectionKind::EcPrivateKey => Self::from_sec1(der, None),
            SectionKind::PrivateKey => {
                // The parts are the version, the algorithm, and the key in the format of the algorithm.
                let parts = || {
                    let mut key = Reader(der).enter(der::SEQUENCE)?;
                    key.read(der::INTEGER)?;
                    let mut algorithm = key.enter(der::SEQUENCE)?;
                    algorithm.read(der::OBJECT_IDENTIFIER)?;
                    Some((algorithm.read(der::OBJECT_IDENTIFIER), key.read(der::OCTET_STRING)?))
                };
                match parts().ok_or(KeyError::Unsupported)? {
                    (Some(curve), sec1) => Self::from_sec1(sec1, Some(curve)),
                    (None, pkcs1) => Self::rsa(RsaKeyPair::from_der(pkcs1).map_err(rejected)?),
                }
            }
            _ => Err(KeyError::Unsupported),
        }
    }

    fn rsa(pair: RsaKeyPair) -> Result<Self, KeyError> {
        let material = Material::from_pkcs1(pair.public_key().as_ref()).ok_or(KeyError::Unsupported)?;
        Ok(Self { pair: Pair::Rsa(Box::new(pair)), public: PublicKey::new(material), random: SystemRandom::new() })
    }

    /// A key in the format of SEC 1 (RFC 5915). The curve may be named outside of the key.
    fn from_sec1(der: &[u8], curve: Option<&[u8]>) -> Result<Self, KeyError> {
        let parts = || {
            let mut key = Reader(der).enter(der::SEQUENCE)?;
            key.read(der::INTEGER)?;
            let private = key.read(der::OCTET_STRING)?;
            let named = key.enter(der::CONTEXT_0).and_then(|mut named| named.read(der::OBJECT_IDENTIFIER));
            let curve = Curve::from_oid(curve.or(named)?)?;
            Some((curve, private, key.enter(der::CONTEXT_1)?.bits()?))
        };
        let (curve, private, point) = parts().ok_or(KeyError::Unsupported)?;
        let algorithm = match curve {
            Curve::P256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
            Curve::P384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
        };
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, private, point, &random)
            .map_err(|error| KeyError::Rejected(error.to_string()))?;
        let material = Material::ec(curve, point).ok_or(KeyError::Unsupported)?;
        Ok(Self { pair: Pair::Ec(Box::new(pair)), public: PublicKey::new(material), random })
    }

    /// The key that verifies the signatures of this key.
    #[must_use]
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// A token with these claims. The header names the algorithm and the key.
    ///
    /// # Errors
    /// See [`SigningError`].
    pub fn sign(&self, claims: &impl Serialize) -> Result<String, SigningError> {
        // The claims become a map first, so that members are ordered by name, as upstream's are.
        let claims = serde_json::to_value(claims).map_err(|_| SigningError::Claims)?;
        self.sign_payload(&serde_json::to_vec(&claims).map_err(|_| SigningError::Claims)?)
    }

    /// A token with this payload, which need not consist of claims.
    ///
    /// # Errors
    /// See [`SigningError`].
    pub fn sign_payload(&self, payload: &[u8]) -> Result<String, SigningError> {
        let header = Header { alg: self.public.algorithm().name(), kid: self.public.id() };
        let header = serde_json::to_vec(&header).map_err(|_| SigningError::Claims)?;
        let mut token = URL_SAFE_NO_PAD.encode(header);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(payload, &mut token);
        let signature = self.signature(token.as_bytes()).map_err(|_| SigningError::Signature)?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }

    fn signature(&self, message: &[u8]) -> Result<Vec<u8>, ring::error::Unspecified> {
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &self.random, message, &mut signature)?;
                Ok(signature)
            }
            Pair::Ec(pair) => Ok(pair.sign(&self.random, message)?.as_ref().to_vec()),
        }
    }
}
