//! Secrets that take about 1 KiB in the store.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::config_map::settings;

/// The number of bytes of the data. In base64 they have the length of a ConfigMap's data.
const DATA: usize = 540;

/// The collection path of a namespace's Secrets.
pub(crate) fn secrets_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets")
}

/// A Secret. Its data depends on `seed`.
pub(crate) fn secret(name: &str, seed: u64) -> Bytes {
    let settings = settings(seed);
    let data = STANDARD.encode(&settings.as_bytes()[..DATA.min(settings.len())]);
    format!(
        r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"{name}","labels":{{"app":"bench"}}}},"type":"Opaque","data":{{"settings":"{data}"}}}}"#
    )
    .into()
}
