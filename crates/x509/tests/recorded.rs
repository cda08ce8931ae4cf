//! Go's answers about chains of certificates and signatures, recorded by `tools/client-certificates`.

use std::ops::Range;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_x509::{Authorities, Certificate, Hash, PublicKey, SignatureAlgorithm};
use serde_json::Value;

const NANOSECOND: Duration = Duration::from_nanos(1);

/// A row of the table of chains.
#[derive(Clone)]
struct Chain {
    name: String,
    leaf: Vec<u8>,
    intermediates: Vec<Vec<u8>>,
    roots: Vec<Vec<u8>>,
    now: Duration,
    /// Go's error; empty if the certificate is valid.
    answer: String,
}

impl Chain {
    fn read_all() -> Vec<Self> {
        let table: Value = serde_json::from_str(include_str!("chains.json")).expect("JSON");
        let items = |value: &Value| value.as_array().expect("a list").clone();
        let certificates: Vec<_> = items(&table["certificates"]).iter().map(bytes).collect();
        let certificate =
            |index: &Value| certificates[usize::try_from(index.as_u64().expect("a number")).expect("an index")].clone();
        let rows = items(&table["rows"]).into_iter().map(|row| Self {
            name: text(&row["name"]).to_owned(),
            leaf: certificate(&row["leaf"]),
            intermediates: items(&row["intermediates"]).iter().map(certificate).collect(),
            roots: items(&row["roots"]).iter().map(certificate).collect(),
            now: Duration::from_secs(row["time"][0].as_u64().expect("seconds"))
                + Duration::from_nanos(row["time"][1].as_u64().expect("nanoseconds")),
            answer: text(&row["answer"]).to_owned(),
        });
        rows.collect()
    }

    fn verify_at(&self, now: Duration) -> Result<Range<Duration>, String> {
        let roots = self.roots.iter().map(|root| Certificate::parse(root).expect("a certificate")).collect();
        let intermediates: Vec<&[u8]> = self.intermediates.iter().map(Vec::as_slice).collect();
        Authorities::new(roots).verify_client(&self.leaf, &intermediates, now).map_err(|error| error.to_string())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(text(value)).expect("base64")
}

#[test]
fn chains_are_valid_where_they_are_in_go() {
    let chains = Chain::read_all();
    assert!(chains.len() > 250, "{}", chains.len());
    let mut differences = Vec::new();
    for chain in &chains {
        let found = chain.verify_at(chain.now).err().unwrap_or_default();
        // Go names the certificates, algorithms and names that do not match.
        let beginning = |error: &str| error.split([':', '(']).take(2).collect::<String>();
        if beginning(&found) != beginning(&chain.answer) {
            differences.push(format!("{}: {found:?}, Go: {:?}", chain.name, chain.answer));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn the_result_stays_the_same_for_the_period() {
    for chain in Chain::read_all().iter().filter(|chain| chain.answer.is_empty()) {
        let period = chain.verify_at(chain.now).expect("valid");
        assert!(period.contains(&chain.now), "{}", chain.name);
        for now in [period.start, period.end - NANOSECOND] {
            assert_eq!(chain.verify_at(now), Ok(period.clone()), "{}", chain.name);
        }
        for now in [period.start - NANOSECOND, period.end] {
            assert_ne!(chain.verify_at(now), Ok(period.clone()), "{}", chain.name);
        }
    }
}

#[test]
fn a_client_cannot_have_many_signatures_verified() {
    let chains = Chain::read_all();
    let mut chain = chains.iter().find(|chain| chain.name.starts_with("only an intermediate")).expect("a row").clone();
    let impostor = chain.intermediates[0].clone();
    chain.intermediates.extend(std::iter::repeat_n(impostor, 110));
    let error = "x509: signature check attempts limit reached while verifying certificate chain";
    assert_eq!(chain.verify_at(chain.now), Err(error.to_owned()));
    // Signatures on the slowest curve count several times.
    let mut chain = chains.iter().find(|chain| chain.name.starts_with("P-521 of another")).expect("a row").clone();
    chain.intermediates.extend(std::iter::repeat_n(chain.roots[0].clone(), 25));
    assert_eq!(chain.verify_at(chain.now), Err(error.to_owned()));
}

#[test]
fn malformed_and_forged_certificates_are_refused() {
    let chains = Chain::read_all();
    let leaf = &chains[0].leaf;
    for length in 0..leaf.len() {
        assert!(Certificate::parse(&leaf[..length]).is_none(), "{length}");
    }
    assert!(Certificate::parse(&[leaf.as_slice(), &[0]].concat()).is_none());
    let is_tried = |chain: &&Chain| {
        ["RSA 2048", "P-256", "Ed25519"].iter().any(|key| chain.name == format!("{key} of the authority"))
    };
    for chain in chains.iter().filter(is_tried) {
        for position in 0..chain.leaf.len() {
            let mut changed = chain.clone();
            changed.leaf[position] ^= 1;
            // The signature algorithm is repeated after the signed part. The tag of its object identifier is not
            // read there.
            let is_unread_tag = position > 200 && changed.leaf[position] == 0x07;
            assert!(changed.verify_at(chain.now).is_err() || is_unread_tag, "{}, {position}", chain.name);
        }
    }
}

#[test]
fn signatures_of_handshakes_are_verified() {
    use SignatureAlgorithm::{Ecdsa, Ed25519, RsaPkcs1, RsaPss};
    let rows: Value = serde_json::from_str(include_str!("signatures.json")).expect("JSON");
    let rows = rows.as_array().expect("a list");
    assert_eq!(rows.len(), 21);
    let algorithms = [
        ("ecdsa_secp256r1_sha256", Ecdsa(Hash::Sha256)),
        ("ecdsa_secp384r1_sha384", Ecdsa(Hash::Sha384)),
        ("ecdsa_secp521r1_sha512", Ecdsa(Hash::Sha512)),
        ("ed25519", Ed25519),
        ("rsa_pss_rsae_sha256", RsaPss(Hash::Sha256)),
        ("rsa_pss_rsae_sha384", RsaPss(Hash::Sha384)),
        ("rsa_pss_rsae_sha512", RsaPss(Hash::Sha512)),
        ("rsa_pkcs1_sha256", RsaPkcs1(Hash::Sha256)),
        ("rsa_pkcs1_sha384", RsaPkcs1(Hash::Sha384)),
        ("rsa_pkcs1_sha512", RsaPkcs1(Hash::Sha512)),
    ];
    for row in rows {
        let (name, message, signature) = (text(&row["name"]), bytes(&row["message"]), bytes(&row["signature"]));
        let key = PublicKey::parse(&bytes(&row["key"])).expect("a key");
        for (of, algorithm) in algorithms {
            let expect = name.split(' ').next() == Some(of);
            assert_eq!(key.verify(algorithm, &message, &signature), expect, "{name} {of}");
            assert!(!key.verify(algorithm, b"another", &signature), "{name} {of}");
            for position in [0, signature.len() / 2, signature.len() - 1] {
                let mut forged = signature.clone();
                forged[position] ^= 1;
                assert!(!key.verify(algorithm, &message, &forged), "{name} {of} {position}");
            }
        }
    }
}
