//! Private keys in PEM. The server makes ECDSA P-256 keys in SEC 1 format (RFC 5915), as client-go does, because some
//! clients cannot read EC keys in PKCS #8. Keys from elsewhere may have any form that OpenSSL or kubeadm writes.

use pintle_auth::pem;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use yasna::models::ObjectIdentifier;
use yasna::{DERWriterSeq, construct_der};

const RSA_ENCRYPTION: &[u64] = &[1, 2, 840, 113_549, 1, 1, 1];
const EC_PUBLIC_KEY: &[u64] = &[1, 2, 840, 10045, 2, 1];
/// The object identifiers of P-256 and P-384.
const CURVES: [&[u64]; 2] = [&[1, 2, 840, 10045, 3, 1, 7], &[1, 3, 132, 0, 34]];

/// The bytes before the private key of a P-256 key in the generated PKCS #8: both versions and the curve.
const PKCS8: &[u8] = b"\x30\x81\x87\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\
    \x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x04\x6d\x30\x6b\x02\x01\x01\x04\x20";
/// The bytes before the private key in SEC 1.
const VERSION: &[u8] = b"\x30\x77\x02\x01\x01\x04\x20";
/// The curve in SEC 1.
const CURVE: &[u8] = b"\xa0\x0a\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
/// The bytes before the public key in both formats.
const PUBLIC: &[u8] = b"\xa1\x44\x03\x42\x00";

/// Makes a P-256 key.
pub(crate) fn new_key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}

/// Reads a key in PEM: P-256, P-384, RSA or Ed25519 in PKCS #8, SEC 1 or PKCS #1.
pub(crate) fn read_key(pem: &str) -> Result<KeyPair, rcgen::Error> {
    let unsupported = || rcgen::Error::CouldNotParseKeyPair;
    let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| unsupported())?;
    let forms = match &der {
        PrivateKeyDer::Pkcs8(der) => vec![der.secret_pkcs8_der().to_vec()],
        PrivateKeyDer::Pkcs1(der) => {
            vec![pkcs8(RSA_ENCRYPTION, |writer| writer.next().write_null(), der.secret_pkcs1_der())]
        }
        PrivateKeyDer::Sec1(der) => {
            let curve = |curve: &[u64]| {
                let curve = ObjectIdentifier::from_slice(curve);
                pkcs8(EC_PUBLIC_KEY, |writer| writer.next().write_oid(&curve), der.secret_sec1_der())
            };
            CURVES.map(curve).to_vec()
        }
        _ => return Err(unsupported()),
    };
    forms.into_iter().find_map(|form| KeyPair::try_from(&PrivatePkcs8KeyDer::from(form)).ok()).ok_or_else(unsupported)
}

/// A private key as PKCS #8, given its algorithm with parameters.
fn pkcs8(algorithm: &[u64], parameters: impl FnOnce(&mut DERWriterSeq<'_>), key: &[u8]) -> Vec<u8> {
    construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_u8(0);
            writer.next().write_sequence(|writer| {
                writer.next().write_oid(&ObjectIdentifier::from_slice(algorithm));
                parameters(writer);
            });
            writer.next().write_bytes(key);
        });
    })
}

/// A key from [`new_key`] as `EC PRIVATE KEY` in PEM: the version, the private key, the curve and the public key.
pub(crate) fn sec1_pem(key: &KeyPair) -> Result<String, rcgen::Error> {
    let private = key.serialized_der().strip_prefix(PKCS8).and_then(|rest| rest.first_chunk::<32>());
    let private = private.ok_or(rcgen::Error::CouldNotParseKeyPair)?;
    Ok(pem::encode("EC PRIVATE KEY", &[VERSION, private, CURVE, PUBLIC, key.public_key_raw()].concat()))
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring::sign::any_ecdsa_type;

    use super::*;

    /// The public key of a private key in PEM, as `SubjectPublicKeyInfo`.
    fn public_key(pem: &str) -> Vec<u8> {
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key in PEM");
        any_ecdsa_type(&key).expect("an EC key").public_key().expect("a public key").to_vec()
    }

    #[test]
    fn keys_are_written_in_sec1_and_stay_the_same() {
        let key = new_key().expect("a key");
        let pem = sec1_pem(&key).expect("a P-256 key");
        assert!(pem.starts_with("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEI"), "{pem}");
        assert!(pem.ends_with("\n-----END EC PRIVATE KEY-----\n"), "{pem}");
        assert_eq!(public_key(&pem), public_key(&key.serialize_pem()));
        assert_eq!(read_key(&pem).expect("the key").public_key_raw(), key.public_key_raw());
        assert!(read_key("-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----\n").is_err());
    }
}
