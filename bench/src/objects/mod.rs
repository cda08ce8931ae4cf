//! Generates the objects of requests. They have typical sizes in the store, and text that compresses like real
//! settings. The same name and seed produce the same object in every run.

mod config_map;
pub(crate) mod crd;
mod deployment;
mod lease;
mod pod;
mod secret;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};

use crate::Result;
use crate::client::{HttpRequest, with_body};
use crate::load::{Load, Workload};
use crate::target::Server;

pub(crate) use config_map::{config_map, config_maps_path};
pub(crate) use deployment::{deployment, deployments_path};
pub(crate) use lease::{lease, lease_revisions, leases_path};
pub(crate) use pod::{binding, kubelet_status_patch, pod, pods_path, running_status_patch};
pub(crate) use secret::{secret, secrets_path};

/// The number of clients that fill a collection.
const FILL_CLIENTS: usize = 64;
/// The timeout for filling a collection.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// A request that creates an object in a collection.
pub(crate) fn create(collection: impl Into<String>, object: Bytes) -> HttpRequest {
    with_body(Method::POST, collection, object)
}

/// Creates `count` objects. `object` generates the n-th object.
pub(crate) async fn fill(
    server: &Server,
    collection: &str,
    count: u64,
    object: impl Fn(u64) -> Bytes + Send + Sync + 'static,
) -> Result<()> {
    let collection = collection.to_owned();
    create_all(server, count, move |number| create(collection.as_str(), object(number))).await
}

/// Sends `count` create requests. `request` generates the n-th request.
pub(crate) async fn create_all(
    server: &Server,
    count: u64,
    request: impl Fn(u64) -> HttpRequest + Send + Sync + 'static,
) -> Result<()> {
    let workload: Workload = Arc::new(move |client, sent| {
        let number = sent * FILL_CLIENTS as u64 + client as u64;
        (number < count).then(|| request(number))
    });
    Load::closed(FILL_CLIENTS, TIMEOUT).expect_status(StatusCode::CREATED).run(server, &workload).await?;
    Ok(())
}

/// Finds the resourceVersion in the JSON of an object or a list, without parsing the JSON. It is in the metadata near
/// the beginning.
pub(crate) fn resource_version(json: &[u8]) -> Option<u64> {
    const KEY: &[u8] = br#""resourceVersion":""#;
    let from = json.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let digits = json[from..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// A seeded xorshift pseudorandom number generator.
struct Xorshift(u64);

impl Xorshift {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(make: impl Fn(u64) -> Bytes) {
        let bytes = make(7);
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["metadata"]["name"], "a");
        assert_eq!(bytes, make(7));
        assert_ne!(bytes, make(8));
    }

    #[test]
    fn objects_are_valid_json_and_deterministic() {
        check(|seed| config_map("a", seed));
        check(|seed| pod("a", "node-1", seed));
        check(|seed| deployment("a", 1, seed));
        check(|seed| lease("a", seed, None));
        check(|seed| secret("a", seed));
        serde_json::from_slice::<serde_json::Value>(&running_status_patch(1)).unwrap();
        serde_json::from_slice::<serde_json::Value>(&kubelet_status_patch(1)).unwrap();
        serde_json::from_slice::<serde_json::Value>(&binding("a", "b")).unwrap();
    }

    #[test]
    fn resource_version_is_found_in_json() {
        for (text, expect) in [
            (r#"{"metadata":{"name":"a","resourceVersion":"120","x":1}}"#, Some(120)),
            (r#"{"metadata":{"name":"a"}}"#, None),
            ("", None),
        ] {
            assert_eq!(resource_version(text.as_bytes()), expect, "{text}");
        }
    }
}
