//! JSON Web Tokens and their keys.

use pintle_auth::jwt::{
    CompactJws, PublicKey, RegisteredClaims, SigningKey, parse_claims, parse_jwks, public_keys_from_pem, write_jwks,
};

use crate::{MemoryLimit, with_memory_limit};

const LIMIT: MemoryLimit = MemoryLimit { per_byte: 200, base: 16 << 10 };

const PRIVATE: &str = include_str!("../../../auth/tests/jwt/p384.sec1.pem");
const PUBLIC: &str = include_str!("../../../auth/tests/jwt/rsa.public.pem");
const CERTIFICATE: &str = include_str!("../../../auth/tests/jwt/rsa.certificate.pem");
const TOKENS: &str = include_str!("../../../auth/tests/jwt/rsa.tokens.txt");

/// A token is accepted in one form only, and never without its signature.
pub(super) fn token(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(jws) = with_memory_limit(text.len(), LIMIT, || CompactJws::parse(text)) else { return };
    let _ = parse_claims::<RegisteredClaims>(jws.unverified_payload());
    let keys = public_keys_from_pem(PUBLIC.as_bytes()).expect("a key");
    if keys.iter().any(|key| jws.verify(key).is_ok()) {
        assert!(TOKENS.lines().any(|token| token == text), "{text:?} is verified");
    }
}

pub(super) fn token_seeds() -> Vec<Vec<u8>> {
    TOKENS.lines().map(|token| token.as_bytes().to_vec()).collect()
}

/// Encoding the keys that were read from a set and reading them again gives the same keys.
pub(super) fn key_set(input: &[u8]) {
    let Ok(keys) = with_memory_limit(input.len(), LIMIT, || parse_jwks(input)) else { return };
    let written = write_jwks(&keys);
    let again = parse_jwks(written.as_bytes()).unwrap_or_else(|error| panic!("{written:?}: {error}"));
    assert_eq!(write_jwks(&again), written);
    assert!(!keys.iter().any(|key| key.verify("none", b"message", b"").is_ok()));
}

pub(super) fn key_set_seeds() -> Vec<Vec<u8>> {
    let keys = [PUBLIC, PRIVATE].map(|pem| public_keys_from_pem(pem.as_bytes()).unwrap_or_default()).concat();
    vec![write_jwks(&keys).into_bytes(), write_jwks(&[] as &[PublicKey]).into_bytes()]
}

pub(super) fn key_file(input: &[u8]) {
    let _ = with_memory_limit(input.len(), LIMIT, || public_keys_from_pem(input));
    let Ok(key) = with_memory_limit(input.len(), LIMIT, || SigningKey::from_pem(input)) else { return };
    let token = key.sign(&RegisteredClaims::default()).expect("a token");
    let jws = CompactJws::parse(&token).expect("a token");
    assert!(jws.verify(key.public_key()).is_ok());
}

pub(super) fn key_file_seeds() -> Vec<Vec<u8>> {
    [PRIVATE, PUBLIC, CERTIFICATE].map(|pem| pem.as_bytes().to_vec()).to_vec()
}
