//! Checks that a private key belongs to a certificate, with the errors of Go's `tls.X509KeyPair`.
//!
//! Unlike Go, it does not check that the numbers of an RSA key fit together. `ring` lacks the curves P-224 and P-521,
//! so keys on them are compared by the public key that they contain. A key without its public key counts as matching.

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
};
use x509_parser::asn1_rs::Any;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::{PublicKey, RSAPublicKey};

/// Object identifiers, as DER encodes them.
mod oid {
    pub(super) const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
    pub(super) const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
    pub(super) const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
    pub(super) const X25519: &[u8] = &[0x2b, 0x65, 0x6e];
    pub(super) const P224: &[u8] = &[0x2b, 0x81, 4, 0, 0x21];
    pub(super) const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    pub(super) const P384: &[u8] = &[0x2b, 0x81, 4, 0, 0x22];
    pub(super) const P521: &[u8] = &[0x2b, 0x81, 4, 0, 0x23];
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// The tags of the parameters and of the public key in an EC key.
const EC_PARAMETERS: u8 = 0xa0;
const EC_PUBLIC_KEY: u8 = 0xa1;

const WRONG_TYPE: &str = "tls: private key type does not match public key type";
const MISMATCH: &str = "tls: private key does not match public key";
const UNREADABLE_KEY: &str = "tls: failed to parse private key";

/// A private key.
enum PrivateKey<'a> {
    Rsa {
        modulus: &'a [u8],
        exponent: &'a [u8],
    },
    Ec {
        curve: &'a [u8],
        scalar: Vec<u8>,
        point: Option<&'a [u8]>,
    },
    Ed25519 {
        seed: &'a [u8],
    },
    /// Of a type that TLS does not use.
    Other,
}

/// Checks a certificate and a private key in DER.
///
/// # Errors
/// Returns the message of Go.
pub(super) fn check(certificate: &[u8], key: &[u8]) -> Result<(), &'static str> {
    let certificate = match X509Certificate::from_der(certificate) {
        Ok(([], certificate)) => certificate,
        Ok(_) => return Err("x509: trailing data"),
        Err(_) => return Err("x509: malformed certificate"),
    };
    let key = parse(key)?;
    let public = certificate.public_key();
    let algorithm = public.algorithm.algorithm.as_bytes();
    let point = &*public.subject_public_key.data;
    let matches = match (public.parsed(), key) {
        (Ok(PublicKey::RSA(public)), PrivateKey::Rsa { modulus, exponent }) => {
            is_same_rsa_key(&public, modulus, exponent)
        }
        (Ok(PublicKey::EC(_)), PrivateKey::Ec { curve, scalar, point: own }) => {
            let parameters = public.algorithm.parameters.as_ref();
            parameters.is_some_and(|parameters| parameters.data == curve) && is_ec_key_of(curve, &scalar, own, point)?
        }
        (Ok(PublicKey::RSA(_) | PublicKey::EC(_)), _) => return Err(WRONG_TYPE),
        (_, PrivateKey::Ed25519 { seed }) if algorithm == oid::ED25519 => {
            let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| UNREADABLE_KEY)?;
            pair.public_key().as_ref() == point
        }
        _ if algorithm == oid::ED25519 => return Err(WRONG_TYPE),
        _ => return Err("tls: unknown public key algorithm"),
    };
    if matches { Ok(()) } else { Err(MISMATCH) }
}

fn is_same_rsa_key(public: &RSAPublicKey<'_>, modulus: &[u8], exponent: &[u8]) -> bool {
    without_zeros(public.modulus) == without_zeros(modulus) && without_zeros(public.exponent) == without_zeros(exponent)
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// True if a point of a curve is the public key of a scalar. `own` is the public key that the private key contains.
fn is_ec_key_of(curve: &[u8], scalar: &[u8], own: Option<&[u8]>, point: &[u8]) -> Result<bool, &'static str> {
    let algorithm = match curve {
        oid::P256 => &ECDSA_P256_SHA256_ASN1_SIGNING,
        oid::P384 => &ECDSA_P384_SHA384_ASN1_SIGNING,
        _ => return Ok(own.is_none_or(|own| own == point)),
    };
    match EcdsaKeyPair::from_private_key_and_public_key(algorithm, scalar, point, &SystemRandom::new()) {
        Ok(_) => Ok(true),
        Err(error) if error.to_string() == "InconsistentComponents" => Ok(false),
        Err(_) => Err(UNREADABLE_KEY),
    }
}

/// Parses a key in one of the formats PKCS#1, PKCS#8 and SEC 1.
fn parse(der: &[u8]) -> Result<PrivateKey<'_>, &'static str> {
    match parse_pkcs1(der).or_else(|| parse_pkcs8(der)).or_else(|| parse_sec1(der, None)) {
        Some(PrivateKey::Other) => Err("tls: found unknown private key type in PKCS#8 wrapping"),
        Some(key) => Ok(key),
        None => Err(UNREADABLE_KEY),
    }
}

fn parse_pkcs1(der: &[u8]) -> Option<PrivateKey<'_>> {
    let mut outer = Der(der);
    let mut key = outer.sequence()?;
    if !outer.0.is_empty() || key.version()? > 1 {
        return None;
    }
    let (modulus, exponent) = (key.positive()?, key.positive()?);
    // The private exponent, the primes, and the numbers that are computed from them.
    for _ in 0..6 {
        key.positive()?;
    }
    Some(PrivateKey::Rsa { modulus, exponent })
}

fn parse_pkcs8(der: &[u8]) -> Option<PrivateKey<'_>> {
    let mut key = Der(der).sequence()?;
    key.version()?;
    let mut algorithm = key.sequence()?;
    let identifier = algorithm.expect(OBJECT_IDENTIFIER)?;
    let inner = key.expect(OCTET_STRING)?;
    match identifier {
        oid::RSA => parse_pkcs1(inner),
        oid::EC => parse_sec1(inner, algorithm.expect(OBJECT_IDENTIFIER)),
        oid::ED25519 if algorithm.0.is_empty() => {
            let seed = Der(inner).expect(OCTET_STRING).filter(|seed| seed.len() == 32)?;
            Some(PrivateKey::Ed25519 { seed })
        }
        oid::X25519 if algorithm.0.is_empty() => {
            Der(inner).expect(OCTET_STRING).filter(|key| key.len() == 32).map(|_| PrivateKey::Other)
        }
        _ => None,
    }
}

/// Parses an EC key. `curve` is the curve if the surrounding structure names it.
fn parse_sec1<'a>(der: &'a [u8], curve: Option<&'a [u8]>) -> Option<PrivateKey<'a>> {
    let mut key = Der(der).sequence()?;
    if key.version()? != 1 {
        return None;
    }
    let number = key.expect(OCTET_STRING)?;
    let own_curve = key.optional(EC_PARAMETERS).and_then(|parameters| Der(parameters).expect(OBJECT_IDENTIFIER));
    let point = key.optional(EC_PUBLIC_KEY).and_then(|point| Der(point).expect(BIT_STRING));
    let point = point.and_then(|bits| bits.strip_prefix(&[0]));
    let curve = curve.or(own_curve)?;
    let size: usize = match curve {
        oid::P224 => 28,
        oid::P256 => 32,
        oid::P384 => 48,
        oid::P521 => 66,
        _ => return None,
    };
    // Leading zeros may be missing, and there may be more of them.
    let number = without_zeros(number);
    let mut scalar = vec![0; size.checked_sub(number.len())?];
    scalar.extend_from_slice(number);
    Some(PrivateKey::Ec { curve, scalar, point })
}

/// The rest of a sequence of DER elements.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next element, which must have this tag.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.0.first().filter(|found| **found == tag)?;
        let (rest, element) = Any::from_der(self.0).ok()?;
        self.0 = rest;
        Some(element.data)
    }

    /// The content of the next element if it has this tag.
    fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&tag) { self.expect(tag) } else { None }
    }

    fn sequence(&mut self) -> Option<Self> {
        self.expect(SEQUENCE).map(Der)
    }

    /// A small number.
    fn version(&mut self) -> Option<u8> {
        match self.expect(INTEGER)? {
            [version @ 0..=0x7f] => Some(*version),
            _ => None,
        }
    }

    /// A number above zero.
    fn positive(&mut self) -> Option<&'a [u8]> {
        let number = self.expect(INTEGER)?;
        let is_positive = number.first()? & 0x80 == 0 && !without_zeros(number).is_empty();
        is_positive.then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use pintle_schema::base64;

    use super::*;

    /// A name, the answer of Go 1.26, a certificate and a private key, recorded from `tls.X509KeyPair`.
    const ROWS: &str = include_str!("key_pairs.txt");

    #[test]
    fn keys_and_certificates_are_compared_as_go_does() {
        for row in ROWS.lines() {
            let [name, expect, certificate, key] = row.split('|').collect::<Vec<_>>()[..] else { panic!("{row}") };
            let decode = |text: &str| base64::decode(text.as_bytes()).expect("base64");
            let found = check(&decode(certificate), &decode(key)).err().unwrap_or_default();
            assert_eq!(found, expect, "{name}");
        }
    }

    #[test]
    fn truncated_keys_are_unreadable() {
        for row in ROWS.lines() {
            let key = row.rsplit('|').next().expect("a key");
            let key = base64::decode(key.as_bytes()).expect("base64");
            for length in 0..key.len() {
                let _ = parse(&key[..length]);
            }
        }
    }
}
