//! What is sent: objects of the size that such objects have once stored, with text that compresses as settings do, not
//! as one letter repeated. The same name and seed give the same object in every run.

mod config_map;
pub(crate) mod definition;
mod deployment;
mod lease;
mod pod;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};

use crate::Result;
use crate::client::{Outgoing, with_body};
use crate::load::{Load, Script};
use crate::target::Server;

pub(crate) use config_map::{config_map, config_maps};
pub(crate) use deployment::{deployment, deployments};
pub(crate) use lease::{lease, leases};
pub(crate) use pod::{bind, pod, pods, running};

/// Connections that fill a collection.
const LOADERS: usize = 64;
/// How long filling one may take.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The request that creates an object in a collection.
pub(crate) fn create(collection: impl Into<String>, object: Bytes) -> Outgoing {
    with_body(Method::POST, collection, object)
}

/// Creates `count` objects, of which `object` makes the n-th.
pub(crate) async fn fill(
    server: &Server,
    collection: &str,
    count: u64,
    object: impl Fn(u64) -> Bytes + Send + Sync + 'static,
) -> Result<()> {
    let collection = collection.to_owned();
    fill_with(server, count, move |number| create(collection.as_str(), object(number))).await
}

/// Sends `count` requests that each create an object, of which `request` makes the n-th.
pub(crate) async fn fill_with(
    server: &Server,
    count: u64,
    request: impl Fn(u64) -> Outgoing + Send + Sync + 'static,
) -> Result<()> {
    let script: Script = Arc::new(move |client, sent| {
        let number = sent * LOADERS as u64 + client as u64;
        (number < count).then(|| request(number))
    });
    Load::closed(LOADERS, PATIENCE).expecting(StatusCode::CREATED).run(server, &script).await?;
    Ok(())
}

/// The resourceVersion that the JSON of an object or a list has in its metadata; it stands near the beginning.
pub(crate) fn revision(json: &[u8]) -> Option<u64> {
    const KEY: &[u8] = br#""resourceVersion":""#;
    let from = json.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let digits = json[from..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Random-looking numbers, the same for the same seed.
struct Noise(u64);

impl Noise {
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
    fn objects_are_json_and_the_same_each_time() {
        check(|seed| config_map("a", seed));
        check(|seed| pod("a", "node-1", seed));
        check(|seed| deployment("a", 1, seed));
        check(|seed| lease("a", seed, None));
        serde_json::from_slice::<serde_json::Value>(&running(1)).unwrap();
        serde_json::from_slice::<serde_json::Value>(&bind("a", "b")).unwrap();
    }

    #[test]
    fn revisions() {
        for (text, expect) in [
            (r#"{"metadata":{"name":"a","resourceVersion":"120","x":1}}"#, Some(120)),
            (r#"{"metadata":{"name":"a"}}"#, None),
            ("", None),
        ] {
            assert_eq!(revision(text.as_bytes()), expect, "{text}");
        }
    }
}
