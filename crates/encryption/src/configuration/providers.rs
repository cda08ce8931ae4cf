//! The providers of a decoded configuration, with upstream's defaults.

use pintle_schema::base64;
use pintle_value::Value;
use pintle_value::time::Duration;

use super::rules::parse_resource;
use super::{EncryptionEntry, Key, KmsConfiguration, KmsVersion, ProviderConfiguration};
use crate::Secret;

/// The fields of a provider.
const PROVIDERS: [&str; 5] = ["aesgcm", "aescbc", "secretbox", "identity", "kms"];
/// Upstream's defaults of a KMS plugin. The cache has a size in v1 only.
const DEFAULT_TIMEOUT: Duration = Duration::from_seconds(3);
const DEFAULT_VERSION: &str = "v1";
const DEFAULT_CACHE_SIZE: i32 = 1000;

/// The fields of a provider that are not null. A valid provider has one.
pub(super) fn provider_fields(provider: &Value) -> Vec<(&'static str, &Value)> {
    let field = |name| Some((name, provider.get(name).filter(|value| !value.is_null())?));
    PROVIDERS.into_iter().filter_map(field).collect()
}

/// A KMS plugin in a decoded configuration, with defaults.
#[derive(Debug)]
pub(super) struct Kms<'v> {
    pub(super) api_version: &'v str,
    pub(super) name: &'v str,
    pub(super) cache_size: Option<i32>,
    pub(super) endpoint: &'v str,
    pub(super) timeout: Duration,
}

impl<'v> Kms<'v> {
    pub(super) fn of(value: &'v Value) -> Self {
        let api_version = match value.str_at(&["apiVersion"]) {
            "" => DEFAULT_VERSION,
            version => version,
        };
        let cache_size = value.int_at(&["cachesize"]).and_then(|size| i32::try_from(size).ok());
        let default_size = (api_version == "v1").then_some(DEFAULT_CACHE_SIZE);
        let timeout = value.get("timeout").and_then(Value::as_str);
        Self {
            api_version,
            name: value.str_at(&["name"]),
            cache_size: cache_size.or(default_size),
            endpoint: value.str_at(&["endpoint"]),
            // The decoder has checked the text. A text that cannot be read is as invalid as a negative duration.
            timeout: timeout.map_or(DEFAULT_TIMEOUT, |text| Duration::parse(text).unwrap_or(Duration(-1))),
        }
    }

    fn configuration(&self) -> KmsConfiguration {
        KmsConfiguration {
            api_version: if self.api_version == "v1" { KmsVersion::V1 } else { KmsVersion::V2 },
            name: self.name.to_owned(),
            cache_size: self.cache_size,
            endpoint: self.endpoint.to_owned(),
            timeout: self.timeout,
        }
    }
}

/// The entries of a valid configuration.
pub(super) fn entries(configuration: &Value) -> Vec<EncryptionEntry> {
    let entry = |entry: &Value| EncryptionEntry {
        resources: entry.items_at(&["resources"]).iter().filter_map(Value::as_str).map(parse_resource).collect(),
        providers: entry.items_at(&["providers"]).iter().filter_map(provider).collect(),
    };
    configuration.items_at(&["resources"]).iter().map(entry).collect()
}

fn provider(value: &Value) -> Option<ProviderConfiguration> {
    let (name, value) = provider_fields(value).into_iter().next()?;
    Some(match name {
        "aesgcm" => ProviderConfiguration::AesGcm(keys(value)),
        "aescbc" => ProviderConfiguration::AesCbc(keys(value)),
        "secretbox" => ProviderConfiguration::Secretbox(keys(value)),
        "kms" => ProviderConfiguration::Kms(Kms::of(value).configuration()),
        _ => ProviderConfiguration::Identity,
    })
}

fn keys(value: &Value) -> Vec<Key> {
    let secret = |key: &Value| base64::decode(key.str_at(&["secret"]).as_bytes()).unwrap_or_default();
    let key = |key: &Value| Key { name: key.str_at(&["name"]).to_owned(), secret: Secret::new(secret(key)) };
    value.items_at(&["keys"]).iter().map(key).collect()
}
