//! The encryption of the whole embedded store: which key-encryption keys it has.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pintle_codec::json::{self, DecodeOptions};
use pintle_encryption::{EncryptedDek, KmsClient, KmsPlugin as _};
use pintle_sealing::SecretKey;
use pintle_store::{KeyWrapError, KeyWrapper, StoreEncryption, StoreKeyFile, UnencryptedStore, WrappedKey};
use pintle_value::{Value, object};

/// How long a starting server waits for a plugin that cannot decrypt a data key. The plugin may be starting, too.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// The time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Names the calls in the plugin's logs.
const CALL_ID: &str = "pintle-store";

/// How the embedded store is encrypted as a whole (`--encrypt-store`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreEncryptionOptions {
    /// Where the key-encryption keys are.
    pub keys: StoreKeySource,
    /// Whether a store that is not encrypted yet is encrypted at the start. Otherwise it is refused, so that nobody can
    /// put another store in place of an encrypted one (`--encrypt-existing-store`).
    pub encrypt_existing: bool,
}

/// Where the key-encryption keys of a store are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreKeySource {
    /// In a file (`--store-key-file`).
    File(PathBuf),
    /// A plugin of a key management service has them (`--store-kms-endpoint`).
    Kms {
        /// The URL of the plugin's Unix socket.
        endpoint: String,
        /// How long a call of the plugin may take.
        timeout: Duration,
    },
}

impl StoreEncryptionOptions {
    /// The encryption of the store. Checks the key file, or the URL of the plugin.
    ///
    /// # Errors
    /// The key file cannot be used, or the URL is not valid.
    pub(crate) fn build(&self) -> Result<StoreEncryption, String> {
        let unencrypted = if self.encrypt_existing { UnencryptedStore::Convert } else { UnencryptedStore::Refuse };
        Ok(StoreEncryption { unencrypted, ..self.build_for_reading()? })
    }

    /// The encryption of a store that has to be encrypted already.
    ///
    /// # Errors
    /// See [`Self::build`].
    pub(crate) fn build_for_reading(&self) -> Result<StoreEncryption, String> {
        let wrapper: Arc<dyn KeyWrapper> = match &self.keys {
            StoreKeySource::File(path) => {
                let file = StoreKeyFile::new(path);
                file.check().map_err(|error| error.to_string())?;
                Arc::new(file)
            }
            StoreKeySource::Kms { endpoint, timeout } => {
                KmsClient::new(endpoint, *timeout)?;
                Arc::new(KmsKeys { endpoint: endpoint.clone(), timeout: *timeout })
            }
        };
        Ok(StoreEncryption { unencrypted: UnencryptedStore::Refuse, ..StoreEncryption::new(wrapper) })
    }
}

/// The key-encryption keys of a KMS v2 plugin.
#[derive(Debug)]
struct KmsKeys {
    endpoint: String,
    timeout: Duration,
}

impl KmsKeys {
    fn error(&self, error: impl std::fmt::Display) -> KeyWrapError {
        KeyWrapError(format!("the KMS plugin at {}: {error}", self.endpoint))
    }

    /// Calls the plugin from a thread of its own, because the caller may be a task.
    fn call<T: Send>(&self, call: impl AsyncFnOnce(KmsClient) -> Result<T, String> + Send) -> Result<T, KeyWrapError> {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            runtime.block_on(async { call(KmsClient::new(&self.endpoint, self.timeout)?).await })
        };
        let result = std::thread::scope(|scope| scope.spawn(run).join());
        result.unwrap_or_else(|_| Err("its call panicked".to_owned())).map_err(|error| self.error(error))
    }
}

impl KeyWrapper for KmsKeys {
    fn wrap(&self, key: &SecretKey) -> Result<WrappedKey, KeyWrapError> {
        let encrypted = self.call(async |client| {
            let encrypted = client.encrypt(CALL_ID, key.bytes()).await;
            encrypted.map_err(|error| format!("failed to encrypt the data key: {error}"))
        })?;
        if encrypted.key_id.is_empty() || encrypted.ciphertext.is_empty() {
            return Err(self.error("its answer has no key ID or no encrypted data key"));
        }
        Ok(WrappedKey { wrapped_with: encrypted.key_id.clone(), bytes: encode(&encrypted) })
    }

    fn unwrap(&self, wrapped: &WrappedKey) -> Result<SecretKey, KeyWrapError> {
        let encrypted = decode(&wrapped.bytes).ok_or_else(|| self.error("the wrapped data key is damaged"))?;
        let started = Instant::now();
        let secret = loop {
            let secret = self.call(async |client| {
                let secret = client.decrypt(CALL_ID, &encrypted).await;
                secret.map_err(|error| format!("failed to decrypt the data key: {error}"))
            });
            match secret {
                Err(error) if started.elapsed() < MAX_WAIT => {
                    tracing::warn!(%error, "Cannot open the encrypted store, will retry");
                    std::thread::sleep(RETRY_INTERVAL);
                }
                secret => break secret?,
            }
        };
        SecretKey::from_slice(secret.bytes()).ok_or_else(|| self.error("its data key has another length"))
    }
}

/// The encrypted data key as JSON.
fn encode(EncryptedDek { ciphertext, key_id, annotations }: &EncryptedDek) -> Vec<u8> {
    let mut encoded = Value::Object(Default::default());
    for (name, value) in annotations {
        encoded.set(name.as_str(), BASE64.encode(value));
    }
    json::encode(&object! {
        "keyID": key_id.as_str(),
        "ciphertext": BASE64.encode(ciphertext),
        "annotations": encoded,
    })
}

fn decode(bytes: &[u8]) -> Option<EncryptedDek> {
    let value = json::decode(bytes, DecodeOptions::default()).ok()?.value;
    let annotations = value.get("annotations")?.as_object()?.iter();
    let annotations = annotations.map(|(name, value)| Some((name.to_string(), BASE64.decode(value.as_str()?).ok()?)));
    Some(EncryptedDek {
        ciphertext: BASE64.decode(value.str_at(&["ciphertext"])).ok()?,
        key_id: value.str_at(&["keyID"]).to_owned(),
        annotations: annotations.collect::<Option<BTreeMap<_, _>>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_data_keys_are_stored_whole() {
        let annotations = BTreeMap::from([("a.example.com".to_owned(), vec![0, 255]), ("b.c".to_owned(), Vec::new())]);
        let dek = EncryptedDek { ciphertext: vec![1, 2, 3], key_id: "key \"1\"".to_owned(), annotations };
        assert_eq!(decode(&encode(&dek)), Some(dek));
        for damaged in [&b""[..], b"{}", b"{\"keyID\":\"a\",\"ciphertext\":\"?\",\"annotations\":{}}"] {
            assert_eq!(decode(damaged), None);
        }
    }

    #[test]
    fn a_key_file_or_a_plugin_is_checked() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = |keys| StoreEncryptionOptions { keys, encrypt_existing: false };
        let missing = options(StoreKeySource::File(folder.path().join("missing")));
        assert!(missing.build().expect_err("no file").contains("missing"));
        let plugin =
            |endpoint: &str| options(StoreKeySource::Kms { endpoint: endpoint.to_owned(), timeout: Duration::ZERO });
        assert!(plugin("http://localhost").build().is_err());
        assert!(plugin("unix:///tmp/kms.sock").build().is_ok());
    }
}
