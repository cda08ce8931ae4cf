//! The initial content of a server: the objects and the keys of another server, so that a prepared cluster is available
//! at once.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use pintle_encryption::{EncryptionAtRest, EncryptionEnvironment, EncryptionOptions};
use pintle_server::EncryptedForm;
use pintle_store::{EmbeddedOptions, EmbeddedStore, IdentityTransformer, Store, StoreSnapshot};

use crate::certificates::{Certificates, KeyFolder};
use crate::engine::KEY_PREFIX;
use crate::migration;
use crate::server::StartError;
use crate::store_encryption::StoreEncryptionOptions;

/// The objects of a server at one revision, and its keys. Credentials of that server stay valid on a server that begins
/// with the snapshot.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) objects: StoreSnapshot,
    keys: KeyFolder,
}

impl fmt::Debug for Snapshot {
    /// Does not print the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("revision", &self.objects.revision()).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Reads the data directory of a stopped server.
    ///
    /// # Errors
    /// The directory does not belong to a server, or a server uses it.
    pub async fn read(data_dir: &Path) -> Result<Self, StartError> {
        Self::read_encrypted(data_dir, &EncryptionOptions::default(), None).await
    }

    /// Reads the data directory of a stopped server whose stored values are encrypted.
    ///
    /// # Errors
    /// See [`Snapshot::read`]. A value cannot be decrypted.
    pub async fn read_encrypted(
        data_dir: &Path,
        encryption: &EncryptionOptions,
        store_encryption: Option<&StoreEncryptionOptions>,
    ) -> Result<Self, StartError> {
        let keys = KeyFolder::read(data_dir)?;
        if keys.is_empty() {
            let why = format!("{} is not the data directory of a server", data_dir.display());
            return Err(StartError::Options(why));
        }
        keys.check_complete()?;
        let encryption = EncryptionAtRest::start(encryption.clone(), "", EncryptionEnvironment::default()).await;
        let form =
            EncryptedForm::new(KEY_PREFIX, Arc::new(IdentityTransformer), encryption.map_err(StartError::Options)?);
        let store_encryption = store_encryption.map(StoreEncryptionOptions::build).transpose();
        let options = EmbeddedOptions {
            transformer: Arc::new(form),
            encryption: store_encryption.map_err(StartError::Options)?,
            ..EmbeddedOptions::default()
        };
        let store = EmbeddedStore::open(data_dir, options)?;
        let unfinished = migration::unfinished(&store, KEY_PREFIX).await;
        let objects = StoreSnapshot::of(&store).await;
        store.close().await?;
        if let Some(why) = unfinished? {
            return Err(StartError::Options(why));
        }
        Ok(Self { objects: objects?, keys })
    }

    /// The objects that a store has now.
    pub(crate) async fn of(
        store: &Arc<dyn Store>,
        certificates: &Certificates,
        service_account_key: &str,
    ) -> Result<Self, pintle_store::Error> {
        let objects = StoreSnapshot::of(&**store).await?;
        Ok(Self { objects, keys: KeyFolder::of_keys(certificates, service_account_key) })
    }

    /// The keys for a server whose folder has these files. Missing files come from the snapshot.
    ///
    /// # Errors
    /// The folder has the keys of another cluster.
    pub(crate) fn keys_for(&self, stored: &KeyFolder) -> Result<KeyFolder, StartError> {
        stored.completed_by(&self.keys).ok_or_else(|| {
            let folder = stored.file("").display().to_string();
            let why = format!("the folder {} has the keys of another cluster", folder.trim_end_matches('/'));
            StartError::Options(why)
        })
    }
}
