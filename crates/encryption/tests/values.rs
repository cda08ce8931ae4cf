//! Stored values, compared with upstream's transformers: values that upstream wrote are read with its results.

mod support;

use std::collections::BTreeMap;

use pintle_schema::base64;
use serde_json::Value;
use support::{pattern, resource, rows, text, transformers};

/// The configurations by name.
fn providers() -> BTreeMap<String, String> {
    let rows = rows(include_str!("recorded/providers.jsonl"));
    rows.iter().map(|row| (text(row, "Name").to_owned(), text(row, "Text").to_owned())).collect()
}

#[test]
fn values_of_upstream_are_read_with_its_results() {
    let providers = providers();
    let transformers: BTreeMap<_, _> = providers.iter().map(|(name, text)| (name, transformers(text))).collect();
    let rows = rows(include_str!("recorded/values.jsonl"));
    let mut counts = [0; 3];
    for row in &rows {
        let stored = base64::decode(text(row, "Stored").as_bytes()).expect("base64");
        let transformers = &transformers[&text(row, "Configuration").to_owned()];
        let transformer = transformers.of(&resource(text(row, "Resource")));
        let decrypted = transformer.decrypt(&stored, text(row, "Context").as_bytes());
        match (text(row, "Error"), decrypted) {
            ("", Ok(decrypted)) => {
                let value = match row["Length"].as_u64() {
                    Some(length) => pattern(usize::try_from(length).expect("a length")),
                    None => base64::decode(text(row, "Value").as_bytes()).expect("base64"),
                };
                assert_eq!(*decrypted.value, *value, "{row}");
                assert_eq!(Value::Bool(decrypted.stale), row.get("Stale").cloned().unwrap_or(false.into()), "{row}");
                counts[usize::from(decrypted.stale)] += 1;
            }
            (error, decrypted) => {
                let found = decrypted.err().map(|error| error.to_string()).unwrap_or_default();
                assert_eq!(found, error, "{row}");
                counts[2] += 1;
            }
        }
    }
    let [fresh, stale, failed] = counts;
    assert!(fresh > 200 && stale > 20 && failed > 300, "{fresh} fresh, {stale} stale, {failed} with an error");
}

#[test]
fn values_of_all_lengths_are_read_again() {
    for (name, configuration) in providers() {
        let transformers = transformers(&configuration);
        let secrets = transformers.of(&resource("secrets"));
        for length in 0..300 {
            let value = pattern(length);
            let stored = secrets.encrypt(&value, b"key").expect("random bytes");
            let decrypted =
                secrets.decrypt(&stored, b"key").unwrap_or_else(|error| panic!("{name}, {length}: {error}"));
            assert_eq!((&*decrypted.value, decrypted.stale), (value.as_slice(), false), "{name}, {length}");
        }
    }
}

#[test]
fn a_ciphertext_without_a_block_is_an_error() {
    // Go panics.
    let transformers = transformers(&providers()["cbc16"]);
    let stored = [b"k8s:enc:aescbc:v1:key1:".as_slice(), &[0; 16]].concat();
    let error = transformers.of(&resource("secrets")).decrypt(&stored, b"key").expect_err("an error");
    assert_eq!(error.to_string(), "invalid PKCS7 data (empty or not padded)");
}

#[test]
fn nonces_differ_and_debug_output_has_no_value() {
    for name in ["cbc32", "gcm16", "secretbox"] {
        let transformers = transformers(&providers()[name]);
        let secrets = transformers.of(&resource("secrets"));
        let stored: Vec<_> = (0..100).map(|_| secrets.encrypt(b"password", b"key").expect("random bytes")).collect();
        assert_eq!(stored.iter().collect::<std::collections::BTreeSet<_>>().len(), stored.len(), "{name}");
        let decrypted = secrets.decrypt(&stored[0], b"key").expect("a value");
        assert_eq!(format!("{decrypted:?}"), "Decrypted { length: 8, stale: false }");
        // The keys are ascending bytes. Metrics have short runs of numbers.
        assert!(!format!("{transformers:?}").contains("4, 5, 6, 7, 8, 9"), "{transformers:?}");
    }
}
