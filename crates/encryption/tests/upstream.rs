//! Values that Pintle writes, read by upstream's transformers, and the other way round. The program is `tools/encryption`,
//! which `cargo xtask prepare` builds.

mod support;

use std::io::Write as _;
use std::process::{Command, Stdio};

use fastrand::Rng;
use pintle_encryption::{ResourceTransformers, decrypt_with_plugin};
use pintle_schema::base64;
use serde_json::{Value, json};
use support::kms::transformers_with_kms;
use support::{pattern, resource, rows, text, tool_path, transformers};

const KEY: &str = "/registry/secrets/shop/password";

/// A stored value, and the result of reading it here: the value and whether it is stale, or the error.
struct Case {
    configuration: usize,
    stored: Vec<u8>,
    result: Result<(Vec<u8>, bool), String>,
}

/// The results of reading stored values with upstream's transformers.
fn read_by_upstream(cases: &[Case], texts: &[String]) -> Vec<Value> {
    let mut input = Vec::new();
    for case in cases {
        let stored = base64::encode(&case.stored);
        let row = json!({
            "Configuration": texts[case.configuration], "Resource": "secrets", "Context": KEY, "Stored": stored,
        });
        writeln!(input, "{row}").expect("memory");
    }
    let command = Command::new(tool_path()).arg("read").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut process = command.expect("the program starts");
    let mut stdin = process.stdin.take().expect("its standard input");
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = process.wait_with_output().expect("its output");
    writer.join().expect("no panic").expect("all rows are read");
    assert!(output.status.success());
    rows(&String::from_utf8(output.stdout).expect("UTF-8"))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// Compares the results with upstream's. Upstream also writes each value that it has read, and Pintle reads it.
fn compare(cases: &[Case], texts: &[String], transformers: &[ResourceTransformers]) {
    let answers = read_by_upstream(cases, texts);
    assert_eq!(answers.len(), cases.len());
    for (case, answer) in cases.iter().zip(&answers) {
        let shown = || format!("{} in {}", base64::encode(&case.stored), texts[case.configuration]);
        let bytes = |field| base64::decode(text(answer, field).as_bytes()).expect("base64");
        let result = match text(answer, "Error") {
            "" => Ok((bytes("Value"), answer["Stale"] == true)),
            error => Err(error.to_owned()),
        };
        assert_eq!(case.result, result, "{}", shown());
        if let Ok((value, _)) = result {
            let secrets = transformers[case.configuration].of(&resource("secrets"));
            let written = bytes("Written");
            let decrypted = block_on(decrypt_with_plugin(&*secrets, &written, KEY.as_bytes()));
            let decrypted = decrypted.unwrap_or_else(|error| panic!("{error}: {}", shown()));
            assert_eq!((&*decrypted.value, decrypted.stale), (value.as_slice(), false), "{}", shown());
        }
    }
}

/// Reads a stored value here. Go panics if AES-CBC's ciphertext has no block, so such a value is left out.
fn case(configuration: usize, transformers: &ResourceTransformers, stored: Vec<u8>) -> Option<Case> {
    let secrets = transformers.of(&resource("secrets"));
    let result = match block_on(decrypt_with_plugin(&*secrets, &stored, KEY.as_bytes())) {
        Ok(decrypted) => Ok((decrypted.value.into_owned(), decrypted.stale)),
        Err(error) => Err(error.to_string()),
    };
    let is_panic = stored.starts_with(b"k8s:enc:aescbc:v1:")
        && result.as_ref().is_err_and(|error| error.contains("invalid PKCS7 data"))
        && [&b":key0:"[..], b":key1:", b":key2:"].iter().any(|name| {
            stored
                .windows(name.len())
                .position(|part| part == *name)
                .is_some_and(|at| at + name.len() + 16 == stored.len())
        });
    (!is_panic).then_some(Case { configuration, stored, result })
}

fn configurations() -> (Vec<String>, Vec<ResourceTransformers>) {
    let rows = rows(include_str!("recorded/providers.jsonl"));
    let texts: Vec<String> = rows.iter().map(|row| text(row, "Text").to_owned()).collect();
    let transformers = texts.iter().map(|text| transformers(text)).collect();
    (texts, transformers)
}

/// Configurations with KMS plugins.
fn kms_configurations() -> (Vec<String>, Vec<ResourceTransformers>) {
    let rows = rows(include_str!("recorded/kms_providers.jsonl"));
    let texts: Vec<String> = rows.iter().map(|row| text(row, "Text").to_owned()).collect();
    let transformers = texts.iter().map(|text| transformers_with_kms(text)).collect();
    (texts, transformers)
}

#[test]
fn upstream_reads_the_values_of_all_providers() {
    let (texts, transformers) = configurations();
    compare_all(&texts, &transformers, 300);
}

#[test]
fn upstream_reads_the_values_of_kms_plugins() {
    let (texts, transformers) = kms_configurations();
    compare_all(&texts, &transformers, 80);
}

/// Compares the values that each configuration writes, read by each other one.
fn compare_all(texts: &[String], transformers: &[ResourceTransformers], min_readable: usize) {
    let mut cases = Vec::new();
    for (own, writer) in transformers.iter().enumerate() {
        for length in [0, 1, 15, 16, 17, 64, 255, 1000, 65_537] {
            let value = pattern(length);
            let stored = writer.of(&resource("secrets")).encrypt(&value, KEY.as_bytes()).expect("random bytes");
            for (position, reader) in transformers.iter().enumerate() {
                if length < 1000 || position == own {
                    cases.extend(case(position, reader, stored.clone()));
                }
            }
        }
    }
    let readable = cases.iter().filter(|case| case.result.is_ok()).count();
    assert!(readable > min_readable, "{readable} of {}", cases.len());
    compare(&cases, texts, transformers);
}

#[test]
fn changed_values_have_upstream_errors() {
    let (texts, transformers) = configurations();
    compare_changed(&texts, &transformers, 6000);
}

#[test]
fn changed_values_of_kms_plugins_have_upstream_errors() {
    let (texts, transformers) = kms_configurations();
    compare_changed(&texts, &transformers, 10_000);
}

/// Compares many values that have changed somewhere.
fn compare_changed(texts: &[String], transformers: &[ResourceTransformers], count: usize) {
    let mut random = Rng::with_seed(53);
    let mut cases = Vec::new();
    while cases.len() < count {
        let (writer, reader) = (random.usize(..transformers.len()), random.usize(..transformers.len()));
        let reader = if random.bool() { writer } else { reader };
        let value = pattern(random.usize(..70));
        let secrets = transformers[writer].of(&resource("secrets"));
        let mut stored = secrets.encrypt(&value, KEY.as_bytes()).expect("random bytes");
        match random.u8(..4) {
            0 => stored.truncate(random.usize(..=stored.len())),
            1 if !stored.is_empty() => {
                let at = random.usize(..stored.len());
                stored[at] ^= 1 << random.u8(..8);
            }
            2 => stored.extend((0..random.usize(..20)).map(|_| random.u8(..))),
            // A change of the second to last block changes the padding of AES-CBC in one byte.
            _ if stored.len() > 32 => {
                let at = stored.len() - 17;
                stored[at] ^= random.u8(..32);
            }
            _ => {}
        }
        cases.extend(case(reader, &transformers[reader], stored));
    }
    compare(&cases, texts, transformers);
}
