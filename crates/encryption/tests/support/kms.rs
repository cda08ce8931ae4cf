//! A KMS plugin without a process, equal to the one in `tools/encryption`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use pintle_encryption::{
    ConfigurationOptions, EncryptedDek, EncryptionConfiguration, KmsFuture, KmsPlugin, KmsProvider, KmsStatus,
    ResourceTransformers, Secret,
};
use sha2::{Digest, Sha256};

/// A plugin whose key changes each byte that it encrypts. It decrypts with any key, unless the ID begins with `lost`.
#[derive(Debug, Default)]
pub(crate) struct MaskPlugin {
    pub(crate) key_id: String,
    /// The number of decryptions.
    pub(crate) decryptions: AtomicUsize,
}

fn mask(key_id: &str, data: &[u8]) -> Vec<u8> {
    let pad = Sha256::digest(key_id);
    data.iter().zip(pad.iter().cycle()).map(|(byte, pad)| byte ^ pad).collect()
}

impl MaskPlugin {
    pub(crate) fn new(key_id: &str) -> Arc<Self> {
        Arc::new(Self { key_id: key_id.to_owned(), ..Self::default() })
    }
}

impl KmsPlugin for MaskPlugin {
    fn status(&self) -> KmsFuture<'_, KmsStatus> {
        let status = KmsStatus { version: "v2".to_owned(), healthz: "ok".to_owned(), key_id: self.key_id.clone() };
        Box::pin(async move { Ok(status) })
    }

    fn encrypt<'p>(&'p self, _uid: &'p str, dek: &'p [u8]) -> KmsFuture<'p, EncryptedDek> {
        let annotations = [("key.example.com".to_owned(), self.key_id.clone().into_bytes())].into();
        let encrypted = EncryptedDek { ciphertext: mask(&self.key_id, dek), key_id: self.key_id.clone(), annotations };
        Box::pin(async move { Ok(encrypted) })
    }

    fn decrypt<'p>(&'p self, _uid: &'p str, dek: &'p EncryptedDek) -> KmsFuture<'p, Secret> {
        Box::pin(async move {
            self.decryptions.fetch_add(1, Ordering::Relaxed);
            // Other callers have time to join this call.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            match dek.key_id.starts_with("lost") {
                true => Err("the key is lost".into()),
                false => Ok(Secret::new(mask(&dek.key_id, &dek.ciphertext))),
            }
        })
    }
}

/// The transformers of a valid configuration. The endpoint of a KMS plugin is the ID of its key.
pub(crate) fn transformers_with_kms(text: &str) -> ResourceTransformers {
    let options = ConfigurationOptions::default();
    let configuration = EncryptionConfiguration::parse(text.as_bytes(), "encryption.yaml", options);
    let configuration = configuration.unwrap_or_else(|error| panic!("{error}: {text}"));
    let transformers = ResourceTransformers::new(&configuration, &mut |kms| {
        let plugin = MaskPlugin::new(kms.endpoint.trim_start_matches("unix:///"));
        let provider = KmsProvider::new(kms.name.clone(), plugin);
        provider.check().now_or_never().expect("no wait")?;
        Ok(provider.transformer())
    });
    transformers.expect("healthy plugins")
}
