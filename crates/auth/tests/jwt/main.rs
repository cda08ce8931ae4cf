//! JSON Web Tokens: keys in every format, signatures, key ids and sets of keys. The keys beside this file were made by
//! OpenSSL.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pintle_auth::jwt::{
    Algorithm, CompactJws, KeyError, PublicKey, SigningKey, parse_jwks, public_keys_from_pem, write_jwks,
};
use serde_json::json;

const RSA_PKCS1: &str = include_str!("rsa.pkcs1.pem");
const RSA_PKCS8: &str = include_str!("rsa.pkcs8.pem");
const RSA_PUBLIC: &str = include_str!("rsa.public.pem");
const RSA_CERTIFICATE: &str = include_str!("rsa.certificate.pem");
/// A token for each algorithm of RSA keys, in the order of the RFC.
const RSA_TOKENS: &str = include_str!("rsa.tokens.txt");
const P256_SEC1: &str = include_str!("p256.sec1.pem");
const P384_SEC1: &str = include_str!("p384.sec1.pem");
const P384_PKCS8: &str = include_str!("p384.pkcs8.pem");
const P384_PUBLIC: &str = include_str!("p384.public.pem");

/// `openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64`, in base64url.
const RSA_ID: &str = "H7fCv47j0C-em_hca2TzUhCJ3mLYM4lKpA1F3gvcSbo";
const P256_ID: &str = "Be7a0ppXT_v-45Tq6ihSipUxMLIOnYyP7V85XV_FAcw";
const P384_ID: &str = "j9i4WZcClYfR3aYQ1uD_4y_5ifHVdvReNnXFOyYrW-k";

fn verifies(token: &str, keys: &[PublicKey]) -> bool {
    let jws = CompactJws::parse(token).expect("a token");
    keys.iter().any(|key| jws.verify(key).is_ok())
}

/// Signs with each private key, and verifies with the public key of each text.
#[test]
fn keys_are_read_from_every_format() {
    for (private, public, id, algorithm) in [
        ([RSA_PKCS1, RSA_PKCS8], [RSA_PKCS1, RSA_PKCS8, RSA_PUBLIC, RSA_CERTIFICATE].as_slice(), RSA_ID, "RS256"),
        ([P384_SEC1, P384_PKCS8], &[P384_SEC1, P384_PKCS8, P384_PUBLIC], P384_ID, "ES384"),
        ([P256_SEC1; 2], &[P256_SEC1], P256_ID, "ES256"),
    ] {
        for private in private {
            let key = SigningKey::from_pem(private.as_bytes()).expect("a private key");
            assert_eq!(key.public_key().id(), id);
            let token = key.sign(&json!({"sub": "s", "aud": ["a"]})).expect("a token");
            let jws = CompactJws::parse(&token).expect("a token");
            assert_eq!((&*jws.header().alg, &*jws.header().kid), (algorithm, id));
            assert_eq!(jws.unverified_payload(), br#"{"aud":["a"],"sub":"s"}"#);
            for public in public {
                let keys = public_keys_from_pem(public.as_bytes()).expect("a public key");
                assert_eq!(keys, [key.public_key().clone()]);
                assert!(verifies(&token, &keys), "{public}");
            }
        }
    }
    let both = format!("text before\n{RSA_PUBLIC}{P384_PUBLIC}");
    let ids: Vec<String> =
        public_keys_from_pem(both.as_bytes()).expect("keys").iter().map(|key| key.id().to_owned()).collect();
    assert_eq!(ids, [RSA_ID, P384_ID]);
}

#[test]
fn texts_without_keys_are_errors() {
    let not_a_key = "-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n";
    for text in ["", "text", not_a_key] {
        assert_eq!(public_keys_from_pem(text.as_bytes()), Err(KeyError::NoPublicKey));
    }
    for text in ["", RSA_PUBLIC, RSA_CERTIFICATE] {
        assert_eq!(SigningKey::from_pem(text.as_bytes()).err(), Some(KeyError::NoPrivateKey));
    }
    let broken = RSA_PKCS1.replacen("MII", "MIA", 1);
    assert!(SigningKey::from_pem(broken.as_bytes()).is_err());
}

/// The example of RFC 7515, appendix A.3.
#[test]
fn example_of_the_specification_is_verified() {
    let payload = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let es256 = format!(
        "eyJhbGciOiJFUzI1NiJ9.{payload}.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3\
         -Kg6NU1Q"
    );
    let ec = json!({
        "kty": "EC",
        "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    });
    let keys = |key: &serde_json::Value| parse_jwks(json!({ "keys": [key] }).to_string().as_bytes()).expect("keys");
    assert!(verifies(&es256, &keys(&ec)));
}

#[test]
fn a_key_verifies_the_algorithms_of_its_kind_or_the_one_that_it_names() {
    let keys = public_keys_from_pem(RSA_PUBLIC.as_bytes()).expect("a key");
    let published = write_jwks(&keys);
    for token in RSA_TOKENS.lines() {
        let algorithm = CompactJws::parse(token).expect("a token").header().alg.clone();
        assert!(verifies(token, &keys), "{algorithm}");
        for named in Algorithm::ALL {
            let bound = published.replace("RS256", named.name());
            let bound = parse_jwks(bound.as_bytes()).expect("keys");
            assert_eq!(verifies(token, &bound), algorithm == named.name(), "{algorithm} {named:?}");
        }
    }
    assert_eq!(RSA_TOKENS.lines().count(), 6);
}

#[test]
fn tokens_of_other_keys_and_algorithms_are_refused() {
    let key = SigningKey::from_pem(RSA_PKCS8.as_bytes()).expect("a private key");
    let public = [key.public_key().clone()];
    let token = key.sign(&json!({"sub": "s"})).expect("a token");
    let [header, payload, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
    let with_header = |header: &str| format!("{}.{payload}.{signature}", URL_SAFE_NO_PAD.encode(header));
    assert!(verifies(&token, &public));
    for name in ["none", "None", "NONE", "", "HS256", "RS384", "PS256", "ES256", "ES384", "ES512", "EdDSA", "rs256"] {
        assert!(!verifies(&with_header(&format!(r#"{{"alg":"{name}"}}"#)), &public), "{name}");
    }
    assert!(!verifies(&format!("{header}.{payload}."), &public));
    let other = URL_SAFE_NO_PAD.encode(r#"{"sub":"other"}"#);
    assert!(!verifies(&format!("{header}.{other}.{signature}"), &public));
    // The public key is used as the secret of an HMAC, but such secrets are not supported.
    for secret in [RSA_PUBLIC.as_bytes(), public[0].id().as_bytes()] {
        let signed = format!("{}.{payload}", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#));
        let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        let signature = URL_SAFE_NO_PAD.encode(ring::hmac::sign(&secret, signed.as_bytes()));
        assert!(!verifies(&format!("{signed}.{signature}"), &public));
    }
    let another = SigningKey::from_pem(P384_SEC1.as_bytes()).expect("a private key");
    assert!(!verifies(&another.sign(&json!({"sub": "s"})).expect("a token"), &public));
    // A signature of zeros (CVE-2022-21449).
    let zeros = URL_SAFE_NO_PAD.encode([0; 96]);
    let forged = format!("{}.{payload}.{zeros}", URL_SAFE_NO_PAD.encode(r#"{"alg":"ES384"}"#));
    assert!(!verifies(&forged, &[another.public_key().clone()]));
}

#[test]
fn sets_of_keys_are_written_as_upstream_does() {
    let keys = public_keys_from_pem(format!("{RSA_PUBLIC}{P384_PUBLIC}").as_bytes()).expect("keys");
    let written = write_jwks(&keys);
    assert!(
        written.starts_with(&format!(r#"{{"keys":[{{"use":"sig","kty":"RSA","kid":"{RSA_ID}","alg":"RS256","n":""#))
    );
    assert!(written.contains(&format!(
        r#"","e":"AQAB"}},{{"use":"sig","kty":"EC","kid":"{P384_ID}","crv":"P-384","alg":"ES384","x":""#
    )));
    let read = parse_jwks(written.as_bytes()).expect("keys");
    assert_eq!(write_jwks(&read), written);
    assert_eq!(read.iter().map(PublicKey::algorithm).collect::<Vec<_>>(), [Algorithm::Rs256, Algorithm::Es384]);
    assert_eq!(write_jwks(&[]), r#"{"keys":[]}"#);
}

#[test]
fn keys_that_are_not_supported_are_skipped() {
    let coordinate = "A".repeat(43);
    let usable = json!({"kty": "EC", "crv": "P-256", "x": coordinate, "y": coordinate, "kid": "usable"});
    let skipped = [
        json!(null),
        json!({}),
        json!({"kty": "oct", "k": "AAAA"}),
        json!({"kty": "EC", "crv": "P-521", "x": coordinate, "y": coordinate}),
        json!({"kty": "EC", "crv": "P-256", "x": coordinate, "y": ""}),
        json!({"kty": "EC", "crv": "P-256", "x": coordinate, "y": coordinate, "use": "enc"}),
        json!({"kty": "EC", "crv": "P-256", "x": coordinate, "y": coordinate, "alg": "none"}),
        json!({"kty": "RSA", "n": "==", "e": "AQAB"}),
    ];
    let keys = skipped.into_iter().chain([usable]).collect::<Vec<_>>();
    let found = parse_jwks(json!({ "keys": keys }).to_string().as_bytes()).expect("a set");
    assert_eq!(found.iter().map(PublicKey::id).collect::<Vec<_>>(), ["usable"]);
    for text in ["", "[]", "{}", r#"{"keys":{}}"#] {
        assert!(parse_jwks(text.as_bytes()).is_err(), "{text}");
    }
}
