//! The flags of encryption at rest.

use std::fs;

use super::server::{Server, printed, serve};

const FILE: &str = "--encryption-provider-config";

/// Checks the error with which a server ends that gets these flags.
fn check(flags: &[&str], expect: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = [&["--storage-backend", "memory"], flags].concat();
    let output = serve(&folder.path().join("data"), &flags).output().expect("the program runs");
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    let last = error.lines().last().unwrap_or_default();
    assert_eq!(last, format!("pintle: {expect}"), "{flags:?}");
    assert!(!folder.path().join("data/pki").exists(), "{flags:?}: nothing is written");
}

#[test]
fn a_configuration_that_cannot_be_used_ends_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let missing = path("missing");
    let expect = format!(
        "error while parsing file: error while loading file: error reading encryption provider configuration file \
         \"{missing}\": open {missing}: no such file or directory"
    );
    check(&[FILE, &missing], &expect);
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n";
    let text = |providers: &str| format!("{head}resources: [{{resources: [secrets], providers: [{providers}]}}]\n");
    fs::write(path("v1"), text("{kms: {apiVersion: v1, name: kms, endpoint: 'unix:///x'}}")).expect("a file");
    let expect = "error while building transformers: KMSv1 is deprecated and will only receive security updates going \
                  forward. Use KMSv2 instead.  Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.";
    check(&[FILE, &path("v1")], expect);
    // The gate has no effect.
    check(&[FILE, &path("v1"), "--feature-gates", "KMSv1=true"], expect);
    fs::write(path("v2"), text("{kms: {apiVersion: v2, name: kms, endpoint: 'tcp:///x'}}")).expect("a file");
    let expect = "error while parsing file: resources[0].providers[0].kms.endpoint: Invalid value: \"tcp:///x\": \
                  unsupported scheme \"tcp\" for KMS provider, only unix is supported";
    check(&[FILE, &path("v2")], expect);
    check(
        &["--encryption-provider-config-automatic-reload"],
        "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config",
    );
}

#[test]
fn a_server_with_a_key_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("encryption.yaml");
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
                providers: [{aesgcm: {keys: [{name: key1, secret: AAECAwQFBgcICQoLDA0ODw==}]}}, {identity: {}}]\n";
    fs::write(&file, text).expect("a file");
    let file = file.to_string_lossy().into_owned();
    let flags = [FILE, &file, "--encryption-provider-config-automatic-reload=true"];
    let data_dir = folder.path().join("data");
    let server = Server::start(&data_dir, &flags);
    printed(&data_dir, &["create", "secret", "generic", "a", "--from-literal=password=clear text"]);
    printed(&data_dir, &["create", "configmap", "a", "--from-literal=k=another text"]);
    let log = server.stop();
    assert!(!log.contains("AAECAwQF") && !log.contains("ERROR"), "{log}");
    let stored = fs::read(data_dir.join("pintle.db")).expect("a file");
    let contains = |text: &str| stored.windows(text.len()).any(|part| part == text.as_bytes());
    // A secret has base64.
    assert!(contains("k8s:enc:aesgcm:v1:key1:") && contains("another text"));
    assert!(!contains("clear text") && !contains("Y2xlYXIgdGV4d"));
}
