//! ConfigMaps that take about 1 KiB in the store.

use std::fmt::Write as _;

use bytes::Bytes;

use super::Xorshift;

/// The length of the data. With the name, the uid and other metadata the object has 1 KiB in total.
const TEXT: usize = 720;
/// The vocabulary of the generated settings.
const WORDS: [&str; 8] = ["timeout", "retries", "endpoint", "replicas", "cache.size", "log.level", "region", "token"];

/// The collection path of a namespace's ConfigMaps.
pub(crate) fn config_maps_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// A ConfigMap. Its data depends on `seed`.
pub(crate) fn config_map(name: &str, seed: u64) -> Bytes {
    let settings = settings(seed);
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{{"app":"bench"}}}},"data":{{"settings":"{settings}"}}}}"#
    )
    .into()
}

/// Generates settings as text that is escaped for JSON and depends on the seed.
pub(super) fn settings(seed: u64) -> String {
    let mut text = String::with_capacity(TEXT + 64);
    let mut noise = Xorshift::new(seed);
    while text.len() < TEXT {
        let number = noise.next();
        let word = WORDS[(number % 8) as usize];
        let _ = write!(text, "{word}.{} = {:08x}\\n", (number >> 8) % 100, (number >> 32) as u32);
    }
    text
}
