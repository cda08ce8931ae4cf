//! Helpers of the tests that compare with upstream's transformers.

#![allow(dead_code, reason = "each test uses some of the helpers")]

pub(crate) mod kms;

use std::path::{Path, PathBuf};

use pintle_encryption::{ConfigurationOptions, EncryptionConfiguration, ResourceTransformers};
use pintle_registry::GroupResource;
use serde_json::Value;

pub(crate) fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|row| serde_json::from_str(row).expect("a row")).collect()
}

pub(crate) fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// The resource of `secrets` or `deployments.apps`.
pub(crate) fn resource(text: &str) -> GroupResource {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    GroupResource::new(group, resource)
}

/// The transformers of a valid configuration.
pub(crate) fn transformers(text: &str) -> ResourceTransformers {
    let options = ConfigurationOptions::default();
    let configuration = EncryptionConfiguration::parse(text.as_bytes(), "encryption.yaml", options);
    let configuration = configuration.unwrap_or_else(|error| panic!("{error}: {text}"));
    ResourceTransformers::new(&configuration, &mut |_| Err("a KMS plugin".to_owned())).expect("no KMS plugin")
}

/// The value of a length in the recordings.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| ((i * 31 + length + (i >> 8)) & 0xff) as u8).collect()
}

/// The path of the program that is built from `tools/encryption`.
pub(crate) fn tool_path() -> PathBuf {
    let program = format!("../../target/tools/encryption{}", std::env::consts::EXE_SUFFIX);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(program);
    assert!(program.exists(), "{} is missing; run `cargo xtask prepare`", program.display());
    program
}
