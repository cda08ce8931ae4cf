//! A KMS plugin inside a test. No key protects anything: a DEK is "encrypted" as itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use pintle_locks::RwLock;

use crate::{EncryptedDek, KmsError, KmsFuture, KmsPlugin, KmsProvider, KmsStatus, Secret};

/// How long calls of a plugin that hangs take. Upstream's default of the time-out.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A plugin whose behaviour a test changes. It decrypts what it has encrypted with any key.
#[derive(Debug)]
pub struct TestPlugin {
    behaviour: RwLock<Behaviour>,
    /// The numbers of status calls and of decryptions.
    calls: [AtomicUsize; 2],
}

#[derive(Debug)]
struct Behaviour {
    key_id: String,
    failure: Option<KmsError>,
    hangs: bool,
}

impl TestPlugin {
    /// A healthy plugin whose key has this ID.
    #[must_use]
    pub fn new(key_id: &str) -> Arc<Self> {
        let behaviour = Behaviour { key_id: key_id.to_owned(), failure: None, hangs: false };
        Arc::new(Self { behaviour: behaviour.into(), calls: Default::default() })
    }

    /// The plugin has another key from now on.
    pub fn set_key_id(&self, key_id: &str) {
        key_id.clone_into(&mut self.behaviour.write().key_id);
    }

    /// Each call fails from now on, or none.
    pub fn set_failure(&self, error: Option<&str>) {
        self.behaviour.write().failure = error.map(KmsError::from);
    }

    /// Calls end with the time-out from now on, or at once.
    pub fn set_hanging(&self, hangs: bool) {
        self.behaviour.write().hangs = hangs;
    }

    /// The number of status calls so far.
    #[must_use]
    pub fn status_calls(&self) -> usize {
        self.calls[0].load(Ordering::Relaxed)
    }

    /// The number of decryptions so far.
    #[must_use]
    pub fn decryptions(&self) -> usize {
        self.calls[1].load(Ordering::Relaxed)
    }

    async fn answer<T>(&self, make: impl FnOnce(&str) -> T) -> Result<T, KmsError> {
        let hangs = self.behaviour.read().hangs;
        if hangs {
            tokio::time::sleep(TIMEOUT).await;
            return Err(KmsError::deadline_exceeded());
        }
        let behaviour = self.behaviour.read();
        behaviour.failure.clone().map_or_else(|| Ok(make(&behaviour.key_id)), Err)
    }
}

impl KmsPlugin for TestPlugin {
    fn status(&self) -> KmsFuture<'_, KmsStatus> {
        self.calls[0].fetch_add(1, Ordering::Relaxed);
        let status = |key_id: &str| KmsStatus { version: "v2".into(), healthz: "ok".into(), key_id: key_id.into() };
        Box::pin(self.answer(status))
    }

    fn encrypt<'p>(&'p self, _uid: &'p str, dek: &'p [u8]) -> KmsFuture<'p, EncryptedDek> {
        let encrypted =
            |key_id: &str| EncryptedDek { ciphertext: dek.to_vec(), key_id: key_id.into(), ..EncryptedDek::default() };
        Box::pin(self.answer(encrypted))
    }

    fn decrypt<'p>(&'p self, _uid: &'p str, dek: &'p EncryptedDek) -> KmsFuture<'p, Secret> {
        self.calls[1].fetch_add(1, Ordering::Relaxed);
        Box::pin(self.answer(|_| Secret::new(dek.ciphertext.clone())))
    }
}

/// A provider with a healthy plugin, which was checked.
#[must_use]
pub fn healthy_provider(name: &str) -> Arc<KmsProvider> {
    let provider = KmsProvider::new(name, TestPlugin::new("one"));
    // A plugin that answers at once lets the check wait for nothing.
    let checked = provider.check().now_or_never();
    debug_assert_eq!(checked, Some(Ok(())), "a healthy plugin");
    provider
}
