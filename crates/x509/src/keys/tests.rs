//! Keys and signatures that Go created.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// The message that is signed.
const POD_UID: &[u8] = b"pod-uid-1";

/// The key with a name, in DER, and its signature of [`POD_UID`].
fn go_key(name: &str) -> (Vec<u8>, Vec<u8>) {
    let line = include_str!("pod_keys.txt").lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let mut parts = line.expect("a key").split(' ').map(|part| STANDARD.decode(part).expect("base64"));
    (parts.next().expect("a key"), parts.next().expect("a signature"))
}

const KEYS: [&str; 9] =
    ["ed25519", "p224", "p256", "p384", "p521", "rsa2048", "rsa3072", "rsa3072-short-salt", "rsa4096"];

#[test]
fn signatures_are_verified() {
    for name in KEYS {
        let (der, signature) = go_key(name);
        let key = PublicKey::parse(&der).expect(name);
        assert!(key.has_signed(POD_UID, &signature), "{name}");
        assert!(!key.has_signed(b"pod-uid-2", &signature), "{name}");
        for position in [0, signature.len() / 2, signature.len() - 1] {
            let mut forged = signature.clone();
            forged[position] ^= 1;
            assert!(!key.has_signed(POD_UID, &forged), "{name}, forged at {position}");
        }
        for malformed in
            [&signature[1..], &signature[..signature.len() - 1], &[signature.as_slice(), &[0]].concat(), &[]]
        {
            assert!(!key.has_signed(POD_UID, malformed), "{name}, {} bytes", malformed.len());
        }
        let (_, other) = go_key(KEYS[(KEYS.iter().position(|other| *other == name).expect("a key") + 1) % KEYS.len()]);
        assert!(!key.has_signed(POD_UID, &other) || name == "rsa3072", "{name}");
    }
}

#[test]
fn keys_are_equal_if_their_numbers_are() {
    let key = |name: &str| PublicKey::parse(&go_key(name).0);
    assert_eq!(key("rsa3072"), key("rsa3072-short-salt"));
    for (i, name) in KEYS.iter().enumerate() {
        let others = KEYS[i + 1..].iter().filter(|other| !other.starts_with("rsa3072"));
        others.for_each(|other| assert_ne!(key(name), key(other), "{name} {other}"));
    }
    let bits = |name: &str| match key(name) {
        Some(PublicKey::Rsa(key)) => key.bits(),
        other => panic!("{other:?}"),
    };
    assert_eq!((bits("rsa2048"), bits("rsa3072"), bits("rsa4096")), (2048, 3072, 4096));
}

#[test]
fn malformed_keys_are_refused() {
    for name in KEYS {
        let der = go_key(name).0;
        assert_eq!(PublicKey::parse(&der[..der.len() - 1]), None, "{name}, too short");
        assert_eq!(PublicKey::parse(&[der.as_slice(), &[0]].concat()), None, "{name}, trailing data");
    }
    // The malformed keys are a point that is not on the curve, and an RSA key without parameters.
    for name in ["p224", "p256", "p384", "p521"] {
        let mut der = go_key(name).0;
        *der.last_mut().expect("a byte") ^= 1;
        assert_eq!(PublicKey::parse(&der), None, "{name}");
    }
    let rsa = go_key("rsa2048").0;
    let null = rsa.windows(2).position(|bytes| bytes == [5, 0]).expect("parameters");
    let mut without_parameters = rsa.clone();
    without_parameters[null] = 4;
    assert_eq!(PublicKey::parse(&without_parameters), None);
    assert_eq!(PublicKey::parse(b""), None);
}

#[test]
fn keys_that_cannot_sign_are_of_another_type() {
    let x25519 = [&[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x03, 0x21, 0x00][..], &[9; 32]].concat();
    let key = PublicKey::parse(&x25519).expect("a key");
    assert_eq!(key, PublicKey::Other);
    assert!(!key.has_signed(POD_UID, &[0; 64]));
}
