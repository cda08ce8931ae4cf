//! Configurations, compared with upstream's library.

use std::collections::BTreeMap;

use pintle_encryption::{ConfigurationFile, ConfigurationOptions, EncryptionConfiguration, ProviderConfiguration};
use pintle_registry::GroupResource;
use serde_json::Value;

const FILE: &str = "encryption.yaml";

fn rows() -> Vec<Value> {
    let rows = include_str!("recorded/configurations.jsonl").lines();
    rows.map(|row| serde_json::from_str(row).expect("a row")).collect()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn parse(row: &Value) -> Result<EncryptionConfiguration, String> {
    let reload = row["Reload"].as_bool().unwrap_or_default();
    let kms_v1 = row["KMSv1"].as_bool().unwrap_or_default();
    EncryptionConfiguration::parse(text(row, "Text").as_bytes(), FILE, ConfigurationOptions { reload, kms_v1 })
}

/// The resource of `secrets` or `deployments.apps`.
fn resource(text: &str) -> GroupResource {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    GroupResource::new(group, resource)
}

/// Upstream's error without keys: Pintle repeats neither the text of the file nor a secret in it.
fn redacted(row: &Value) -> String {
    let error =
        text(row, "Error").replace(&format!("is missing in '{}'", text(row, "Text")), "is missing in 'REDACTED'");
    let mut parts = error.split("\"Secret\":\"");
    let mut redacted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (secret, rest) = part.split_once('"').expect("the end of a secret");
        redacted.push_str("\"Secret\":\"");
        redacted.push_str(if secret.is_empty() { "" } else { "REDACTED" });
        redacted.push('"');
        redacted.push_str(rest);
    }
    redacted
}

#[test]
fn configurations_have_upstream_errors() {
    let rows = rows();
    assert!(rows.len() > 200, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let error = parse(row).err().unwrap_or_default();
        let expect = redacted(row);
        if error != expect {
            wrong.push(format!("{}\nours:     {error}\nupstream: {expect}\n", text(row, "Text")));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn the_first_provider_of_a_resource_writes() {
    let mut resources = 0;
    for row in rows() {
        let Some(writes) = row["Writes"].as_object() else { continue };
        let configuration = parse(&row).expect("a valid configuration");
        for (name, expect) in writes {
            resources += 1;
            let prefix = match configuration.providers(&resource(name)).first() {
                None | Some(ProviderConfiguration::Identity) => String::new(),
                Some(ProviderConfiguration::AesGcm(keys)) => format!("k8s:enc:aesgcm:v1:{}:", keys[0].name),
                Some(ProviderConfiguration::AesCbc(keys)) => format!("k8s:enc:aescbc:v1:{}:", keys[0].name),
                Some(ProviderConfiguration::Secretbox(keys)) => format!("k8s:enc:secretbox:v1:{}:", keys[0].name),
                Some(ProviderConfiguration::Kms(kms)) => format!("k8s:enc:kms:v2:{}:", kms.name),
            };
            assert_eq!(&prefix, expect, "{name} in {}", text(&row, "Text"));
        }
    }
    assert!(resources > 300, "{resources} resources");
}

#[test]
fn no_error_and_no_debug_output_shows_a_key() {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    for row in rows() {
        let text = text(&row, "Text");
        let secrets =
            text.split("secret: ").skip(1).map(|rest| rest.split(|c| !is_base64(c)).next().unwrap_or_default());
        let secrets: BTreeMap<&str, ()> =
            secrets.filter(|secret| secret.len() > 8).map(|secret| (secret, ())).collect();
        let shown = match parse(&row) {
            Ok(configuration) => format!("{configuration:?}"),
            Err(error) => error,
        };
        for secret in secrets.keys() {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

#[test]
fn files_that_cannot_be_read_have_upstream_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(FILE);
    let (shown, options) = (file.display(), ConfigurationOptions::default());
    let expect = format!(
        "error while parsing file: error while loading file: error reading encryption provider configuration file \
         \"{shown}\": open {shown}: no such file or directory"
    );
    assert_eq!(ConfigurationFile::read(&file, options), Err(expect));
    std::fs::write(&file, "").expect("a file");
    let expect = format!("encryption provider configuration file \"{shown}\" is empty");
    assert_eq!(pintle_encryption::content_hash(&file), Err(expect));
    let valid = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
                 providers: [{identity: {}}]\n";
    std::fs::write(&file, valid).expect("a file");
    let read = ConfigurationFile::read(&file, options).expect("a valid file");
    assert_eq!(read.configuration.entries.len(), 1);
    assert_eq!(Ok(read.content_hash.clone()), pintle_encryption::content_hash(&file));
    assert!(read.content_hash.starts_with("sha256:") && read.content_hash.len() == 71, "{}", read.content_hash);
}
