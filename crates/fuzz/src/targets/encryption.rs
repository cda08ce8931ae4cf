//! Encryption at rest: configurations, stored values, and the message of KMS plugins.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};

use pintle_encryption::testing::healthy_provider;
use pintle_encryption::{
    ConfigurationOptions, EncryptedObject, EncryptionConfiguration, ResourceTransformers, StoredKey, Transformer,
};
use pintle_registry::GroupResource;
use pintle_schema::base64;
use serde_json::Value;

use crate::{MemoryLimit, with_memory_limit};

const CONFIGURATIONS: &str = include_str!("../../../encryption/tests/recorded/configurations.jsonl");
const PROVIDERS: &str = include_str!("../../../encryption/tests/recorded/providers.jsonl");
const VALUES: &str = include_str!("../../../encryption/tests/recorded/values.jsonl");
const KMS_VALUES: &str = include_str!("../../../encryption/tests/recorded/kms_values.jsonl");
/// The prefix of the recorded values of KMS plugins. The name of the provider has three bytes.
const KMS_PREFIX: &str = "k8s:enc:kms:v2:kms:";
const CONTEXT: &str = "/registry/secrets/shop/password";

const LIMIT: MemoryLimit = MemoryLimit { per_byte: 100, base: 256 << 10 };

/// The result of a future that does not wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("the plugin answers at once"),
    }
}

fn transformers(configuration: &EncryptionConfiguration) -> ResourceTransformers {
    let transformers =
        ResourceTransformers::new(configuration, &mut |kms| Ok(healthy_provider(&kms.name).transformer()));
    transformers.expect("a valid configuration")
}

/// A value that a transformer writes is fresh and equal when it is read.
fn check_round_trip(transformer: &dyn Transformer, value: &[u8]) {
    let stored = transformer.encrypt(value, CONTEXT.as_bytes()).expect("random bytes");
    let decrypted = transformer.decrypt(&stored, CONTEXT.as_bytes()).expect("the value that was written");
    assert_eq!((&*decrypted.value, decrypted.stale), (value, false));
}

/// Each resource of a valid configuration has a transformer that reads its own values.
pub(super) fn configuration(input: &[u8]) {
    let options = ConfigurationOptions { reload: true, kms_v1: false };
    let Ok(configuration) = EncryptionConfiguration::parse(input, "encryption.yaml", options) else { return };
    let transformers = transformers(&configuration);
    let named: BTreeSet<&GroupResource> = configuration.entries.iter().flat_map(|entry| &entry.resources).collect();
    for resource in named.into_iter().take(4) {
        assert!(!configuration.providers(resource).is_empty());
        check_round_trip(&*transformers.of(resource), b"value");
    }
}

pub(super) fn configuration_seeds() -> Vec<Vec<u8>> {
    let rows = rows(CONFIGURATIONS);
    let valid = rows.iter().filter(|row| text(row, "Error").is_empty() && row["KMSv1"] == false);
    valid.step_by(5).map(|row| text(row, "Text").as_bytes().to_vec()).collect()
}

/// The transformer of a configuration with all providers that have keys.
static ALL: LazyLock<Arc<dyn Transformer>> = LazyLock::new(|| {
    let rows = rows(PROVIDERS);
    let row = rows.iter().find(|row| text(row, "Name") == "all").expect("the configuration");
    let parsed = EncryptionConfiguration::parse(text(row, "Text").as_bytes(), "", ConfigurationOptions::default());
    transformers(&parsed.expect("a valid configuration")).of(&GroupResource::new("", "secrets"))
});

/// A stored value is at least as long as its value.
pub(super) fn value(input: &[u8]) {
    let transformer = &**ALL;
    let key = StoredKey::of(input);
    let decrypted = with_memory_limit(input.len(), LIMIT, || transformer.decrypt(input, CONTEXT.as_bytes()));
    let Ok(decrypted) = decrypted else { return };
    assert!(decrypted.value.len() <= input.len());
    assert_ne!(key.provider, "unknown");
    check_round_trip(transformer, &decrypted.value);
}

pub(super) fn value_seeds() -> Vec<Vec<u8>> {
    let rows = rows(VALUES);
    let names = ["cbc32", "gcm32", "secretbox", "identity"];
    let rows = rows.iter().filter(|row| names.contains(&text(row, "Configuration")) && text(row, "Context") == CONTEXT);
    rows.filter(|row| text(row, "Error").is_empty()).step_by(3).map(stored).collect()
}

/// A message that is encoded again is equal. The transformer of a plugin reads it without a panic.
pub(super) fn object(input: &[u8]) {
    let object = with_memory_limit(input.len(), LIMIT, || EncryptedObject::decode(input));
    let (_, transformer) = healthy_provider("kms").transformer();
    let result = transformer.decrypt(input, CONTEXT.as_bytes());
    let Ok(object) = object else {
        assert!(result.is_err_and(|error| error.missing().is_none()));
        return;
    };
    let encoded = object.encode();
    assert_eq!(EncryptedObject::decode(&encoded).ok().as_ref(), Some(&object));
    assert_eq!(StoredKey::of(&[b"k8s:enc:kms:v2:one:", input].concat()).provider, "kms");
    if let Some(missing) = result.as_ref().err().and_then(|error| error.missing()) {
        // The plugin has given the DEK, so the next error is another one.
        if now(missing.fetch()).is_ok() {
            let result = transformer.decrypt(input, CONTEXT.as_bytes());
            assert!(result.err().is_none_or(|error| error.missing().is_none()));
        }
    }
}

pub(super) fn object_seeds() -> Vec<Vec<u8>> {
    let rows = rows(KMS_VALUES);
    let rows = rows.iter().filter(|row| text(row, "Error").is_empty()).step_by(2).map(stored);
    rows.filter_map(|stored| Some(stored.get(KMS_PREFIX.len()..)?.to_vec())).collect()
}

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|row| serde_json::from_str(row).expect("a row")).collect()
}

fn text<'v>(row: &'v Value, field: &str) -> &'v str {
    row[field].as_str().unwrap_or_default()
}

fn stored(row: &Value) -> Vec<u8> {
    base64::decode(text(row, "Stored").as_bytes()).expect("base64")
}
