//! Decrypted DEKs by the hash of their encrypted form (upstream: `kmsv2/cache.go`).

use std::collections::HashMap;
use std::sync::Arc;

use pintle_value::time::{Duration, Time};

use super::dek::Dek;

/// How long a DEK is kept after its last use for writing, or after its decryption.
const LIFETIME: Duration = Duration::from_seconds(24 * 60 * 60);

/// Decrypted DEKs. Each server start and each key of the plugin makes one, so they are few. A DEK is valid for any time. The
/// end of its lifetime only bounds their number: adding one removes others.
#[derive(Debug, Default)]
pub(super) struct DekCache(HashMap<[u8; 32], (Arc<Dek>, Time)>);

impl DekCache {
    pub(super) fn get(&self, key: &[u8; 32]) -> Option<Arc<Dek>> {
        self.0.get(key).map(|(dek, _)| dek.clone())
    }

    pub(super) fn insert(&mut self, key: [u8; 32], dek: Arc<Dek>, now: Time) {
        self.0.retain(|_, (_, end)| *end > now);
        self.0.insert(key, (dek, now.plus(LIFETIME)));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
