//! ConfigMaps that take about 1 KiB once stored.

use std::fmt::Write as _;

use bytes::Bytes;

use super::Noise;

/// How long the text of one is; name, uid and what else the server adds make it 1 KiB.
const TEXT: usize = 720;
/// Words that settings are made of.
const WORDS: [&str; 8] = ["timeout", "retries", "endpoint", "replicas", "cache.size", "log.level", "region", "token"];

/// The path of a namespace's ConfigMaps.
pub(crate) fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// A ConfigMap.
pub(crate) fn config_map(name: &str, seed: u64) -> Bytes {
    let settings = settings(seed);
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{{"app":"bench"}}}},"data":{{"settings":"{settings}"}}}}"#
    )
    .into()
}

/// Settings, already escaped for JSON, different for each seed.
fn settings(seed: u64) -> String {
    let mut text = String::with_capacity(TEXT + 64);
    let mut noise = Noise::new(seed);
    while text.len() < TEXT {
        let number = noise.next();
        let word = WORDS[(number % 8) as usize];
        let _ = write!(text, "{word}.{} = {:08x}\\n", (number >> 8) % 100, (number >> 32) as u32);
    }
    text
}
