//! What is sent: ConfigMaps that take about 1 KiB once stored, with text that compresses as settings do, not as one
//! letter repeated. The same name gives the same object in every run.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};

use crate::Result;
use crate::client::{Outgoing, with_body};
use crate::process::Process;

/// How long the text of an object is; name, uid and what else the server adds make it 1 KiB.
const TEXT: usize = 720;
/// Words that settings are made of.
const WORDS: [&str; 8] = ["timeout", "retries", "endpoint", "replicas", "cache.size", "log.level", "region", "token"];

/// The path of a namespace's ConfigMaps.
pub(crate) fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// Settings, already escaped for JSON, different for each seed.
fn settings(seed: u64) -> String {
    let mut text = String::with_capacity(TEXT + 64);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while text.len() < TEXT {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = WORDS[(state % 8) as usize];
        let _ = write!(text, "{word}.{} = {:08x}\\n", (state >> 8) % 100, (state >> 32) as u32);
    }
    text
}

/// A ConfigMap.
pub(crate) fn config_map(name: &str, seed: u64) -> Bytes {
    let settings = settings(seed);
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{{"app":"bench"}}}},"data":{{"settings":"{settings}"}}}}"#
    )
    .into()
}

/// The request that creates a ConfigMap in a collection.
pub(crate) fn create(collection: &str, name: &str, seed: u64) -> Outgoing {
    with_body(Method::POST, collection, config_map(name, seed))
}

/// The request that patches what is at `path`.
pub(crate) fn patch(path: String, media_type: &'static str, body: String) -> Outgoing {
    let mut request = with_body(Method::PATCH, path, body);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    request
}

/// Creates a namespace.
pub(crate) async fn namespace(server: &Process, name: &str) -> Result<()> {
    let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
    let request = with_body(Method::POST, "/api/v1/namespaces", body);
    server.endpoint.connect().await?.exchange(request, StatusCode::CREATED).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_json_and_the_same_each_time() {
        let bytes = config_map("a", 7);
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["metadata"]["name"], "a");
        assert!(value["data"]["settings"].as_str().unwrap().lines().count() > 10);
        assert_eq!(bytes, config_map("a", 7));
        assert_ne!(bytes, config_map("a", 8));
    }
}
