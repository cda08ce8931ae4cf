//! Copies all objects from the embedded store into etcd, or back (`pintle migrate`). The copy has the same objects in
//! the same order, and larger revisions.

mod copy;
mod inventory;
mod marker;
mod progress;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pintle_cache::HistoryLimits;
use pintle_encryption::{EncryptionAtRest, EncryptionEnvironment, EncryptionOptions};
use pintle_gates::Gates;
use pintle_outbound::Dialer;
use pintle_server::{EncryptedForm, SERVER_ADDRESSES_PREFIX};
use pintle_store::{
    EmbeddedOptions, EmbeddedStore, Error, HistoryRetention, IdentityTransformer, Key, KeyInterval, Revision, Store,
    ValueTransformer,
};

use self::copy::Copy;
use self::inventory::Inventory;
pub(crate) use self::marker::unfinished;
use self::marker::{Marker, marker_key};
use crate::engine::{EtcdConfig, KEY_PREFIX};
use crate::server::StartError;
use crate::store_encryption::StoreEncryptionOptions;

/// How many objects a message names.
const MAX_NAMED: usize = 20;

/// The store that is the target of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationTarget {
    /// From the data directory into etcd.
    Etcd,
    /// From etcd into the data directory.
    Embedded,
}

/// The stores of a migration, and its direction.
#[derive(Clone, Debug)]
pub struct MigrationOptions {
    /// The direction.
    pub target: MigrationTarget,
    /// The data directory with the embedded store. No server may use it.
    pub data_dir: PathBuf,
    /// The etcd, and the prefix of its keys. No server may use them.
    pub etcd: EtcdConfig,
    /// How the values of both stores are encrypted.
    pub encryption: EncryptionOptions,
    /// How the embedded store is encrypted as a whole, if it is.
    pub store_encryption: Option<StoreEncryptionOptions>,
}

/// The result of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationReport {
    /// Where the objects come from.
    pub source: String,
    /// Where they are now.
    pub target: String,
    /// The number of keys that both source and target have.
    pub keys: usize,
    /// The size of their values, as JSON.
    pub bytes: u64,
    /// The number of keys whose time to live has ended during the migration.
    pub expired: usize,
    /// The copied revision of the source.
    pub source_revision: u64,
    /// The revision of the target after the copy.
    pub target_revision: u64,
    /// The duration of the migration.
    pub duration: Duration,
}

/// The error of a migration.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// A store cannot be opened as configured.
    #[error(transparent)]
    Start(#[from] StartError),
    /// An operation of a store has failed.
    #[error("{store}: {error}")]
    Store {
        /// The store.
        store: String,
        /// The error.
        error: Error,
    },
    /// There are no objects to copy.
    #[error("{0} has no store")]
    NoSource(String),
    /// The source is itself an incomplete copy.
    #[error("{store}: {why}")]
    Unfinished {
        /// The source.
        store: String,
        /// Why it is not complete.
        why: String,
    },
    /// A server uses the source.
    #[error(
        "{store} is in use by the servers with these addresses: {addresses}; stop them, or wait 15 seconds if they have \
             ended without a clean stop"
    )]
    InUse {
        /// The source.
        store: String,
        /// The addresses.
        addresses: String,
    },
    /// Values that cannot be read, or cannot be written in the form of the target, or are too large for the target. The
    /// migration has written nothing.
    #[error("{} values cannot be copied, and nothing was copied. Delete or replace these objects, and run the command \
             again:\n{}", .0.len(), named(.0))]
    Unreadable(Vec<(Key, String)>),
    /// The target has objects.
    #[error("{0} has objects already: choose another target, or delete them")]
    NotEmpty(String),
    /// Another process has written to a store during the migration.
    #[error(
        "{store} was written to during the migration ({key}): stop everything that uses it, and run the command again"
    )]
    Changed {
        /// The store.
        store: String,
        /// A key that was written.
        key: Key,
    },
    /// The copy differs from the inventory of the source.
    #[error("{} keys of the target are not those of the source:\n{}", .0.len(), named(.0))]
    Differs(Vec<(Key, String)>),
}

/// The first of a list of keys with a reason, one per line.
fn named(keys: &[(Key, String)]) -> String {
    let mut lines: Vec<String> = keys.iter().take(MAX_NAMED).map(|(key, why)| format!("  {key}: {why}")).collect();
    if keys.len() > MAX_NAMED {
        lines.push(format!("  and {} more", keys.len() - MAX_NAMED));
    }
    lines.join("\n")
}

/// One of the two stores of a migration.
struct Side {
    /// The name of the store in messages.
    name: String,
    store: Arc<dyn Store>,
    /// The prefix of all keys, without a slash at the end.
    prefix: String,
    /// How many changes can be committed at once and still get their revisions in order.
    ordered_changes: usize,
}

impl Side {
    fn interval(&self) -> KeyInterval {
        KeyInterval::prefix(&format!("{}/", self.prefix))
    }

    fn key(&self, path: &str) -> Key {
        format!("{}/{path}", self.prefix).into()
    }

    /// The part of a key after the prefix.
    fn path<'k>(&self, key: &'k str) -> Option<&'k str> {
        key.strip_prefix(self.prefix.as_str())?.strip_prefix('/')
    }

    fn error(&self) -> impl Fn(Error) -> MigrationError + '_ {
        |error| MigrationError::Store { store: self.name.clone(), error }
    }
}

/// The embedded engine executes requests in the order in which they are sent, and commits many at once.
const EMBEDDED_CHANGES: usize = 256;

fn embedded_name(data_dir: &Path) -> String {
    let path = data_dir.canonicalize();
    format!("the data directory {}", path.as_deref().unwrap_or(data_dir).display())
}

fn embedded_side(data_dir: &Path, store: EmbeddedStore) -> Side {
    let (name, store) = (embedded_name(data_dir), Arc::new(store));
    Side { name, store, prefix: KEY_PREFIX.to_owned(), ordered_changes: EMBEDDED_CHANGES }
}

fn etcd_side(config: &EtcdConfig, encryption: &Arc<EncryptionAtRest>) -> Result<Side, StartError> {
    let form = config.stored_form(&Gates::default())?;
    let transformer = Arc::new(EncryptedForm::new(&config.prefix, form, encryption.clone()));
    let name = format!("etcd at {} with the prefix {}", config.servers.join(","), config.prefix);
    // Requests that etcd gets at the same time may be executed in any order.
    Ok(Side {
        name,
        store: Arc::new(config.open(&HistoryLimits::default(), transformer, &Dialer::Direct)?),
        prefix: config.prefix.clone(),
        ordered_changes: 1,
    })
}

/// Options that compact nothing before the copy is complete.
fn embedded_options(
    options: &MigrationOptions,
    encryption: &Arc<EncryptionAtRest>,
) -> Result<EmbeddedOptions, StartError> {
    let retention = HistoryRetention { duration: Duration::from_secs(u32::MAX.into()), bytes: u64::MAX };
    let transformer = Arc::new(EncryptedForm::new(KEY_PREFIX, identity(), encryption.clone()));
    let store = options.store_encryption.as_ref().map(StoreEncryptionOptions::build).transpose();
    let encryption = store.map_err(StartError::Options)?;
    Ok(EmbeddedOptions { retention, transformer, encryption, ..EmbeddedOptions::default() })
}

/// Copies a store. Reads the whole store before it writes anything.
///
/// The caller's thread and the threads of its runtime must have the stack size of `pintle_value::threads`.
///
/// # Errors
/// See [`MigrationError`]. No server serves the target until a later call has succeeded.
pub async fn migrate(options: &MigrationOptions) -> Result<MigrationReport, MigrationError> {
    let MigrationOptions { target, data_dir, etcd, .. } = options;
    let encryption = EncryptionAtRest::start(options.encryption.clone(), "", EncryptionEnvironment::default()).await;
    let encryption = encryption.map_err(StartError::Options)?;
    let embedded = embedded_options(options, &encryption)?;
    let started = std::time::Instant::now();
    let has_store = EmbeddedStore::exists_in(data_dir).map_err(StartError::from)?;
    let (source, target, report) = match target {
        MigrationTarget::Etcd => {
            if !has_store {
                return Err(MigrationError::NoSource(embedded_name(data_dir)));
            }
            let source = EmbeddedStore::open(data_dir, embedded).map_err(StartError::from)?;
            let (source, target) = (embedded_side(data_dir, source), etcd_side(etcd, &encryption)?);
            check_finished(&source).await?;
            let known = check_target(&target).await?;
            let form: Arc<dyn ValueTransformer> = etcd.stored_form(&Gates::default())?;
            let inventory = Inventory::read(&source, &target.prefix, Some(form)).await?;
            let report = copy(&source, &target, inventory, known).await?;
            (source, target, report)
        }
        MigrationTarget::Embedded => {
            let source = etcd_side(etcd, &encryption)?;
            let mut target = None;
            let mut known = None;
            if has_store {
                let store = EmbeddedStore::open(data_dir, embedded.clone()).map_err(StartError::from)?;
                let side = embedded_side(data_dir, store);
                known = check_target(&side).await?;
                if known.is_none() {
                    // A store that was used has revisions that cannot be reset, even if it has no objects.
                    return Err(MigrationError::NotEmpty(side.name));
                }
                target = Some(side);
            }
            check_finished(&source).await?;
            check_unused(&source).await?;
            let inventory = Inventory::read(&source, KEY_PREFIX, None).await?;
            let target = match target {
                Some(target) => target,
                None => {
                    let marker = Marker { source: source.name.clone(), revision: inventory.revision };
                    let (key, value) = (marker_key(KEY_PREFIX), marker.encode());
                    let created = EmbeddedStore::create(data_dir, inventory.revision, key, value, embedded);
                    let target = embedded_side(data_dir, created.map_err(StartError::from)?);
                    known = check_target(&target).await?;
                    target
                }
            };
            let report = copy(&source, &target, inventory, known).await?;
            (source, target, report)
        }
    };
    source.store.close().await.map_err(source.error())?;
    target.store.close().await.map_err(target.error())?;
    Ok(MigrationReport { duration: started.elapsed(), ..report })
}

/// Checks that a source is not itself the target of an unfinished migration.
async fn check_finished(source: &Side) -> Result<(), MigrationError> {
    match unfinished(&*source.store, &source.prefix).await.map_err(source.error())? {
        Some(why) => Err(MigrationError::Unfinished { store: source.name.clone(), why }),
        None => Ok(()),
    }
}

/// Checks that no server has recorded that it uses a store.
async fn check_unused(source: &Side) -> Result<(), MigrationError> {
    let prefix = source.key(SERVER_ADDRESSES_PREFIX).to_string() + "/";
    let found = source.store.range(KeyInterval::prefix(&prefix), None, None).await.map_err(source.error())?;
    if found.records.is_empty() {
        return Ok(());
    }
    let addresses: Vec<&str> = found.records.iter().filter_map(|record| record.key.strip_prefix(&*prefix)).collect();
    Err(MigrationError::InUse { store: source.name.clone(), addresses: addresses.join(", ") })
}

/// Checks that a target is empty, or that it is the target of an unfinished migration. Returns the mark of this
/// migration.
async fn check_target(target: &Side) -> Result<Option<(Option<Marker>, Revision)>, MigrationError> {
    let known = marker::read(&*target.store, &target.prefix).await.map_err(target.error())?;
    if known.is_none() {
        let found = target.store.range(target.interval(), None, Some(1)).await.map_err(target.error())?;
        if !found.records.is_empty() {
            return Err(MigrationError::NotEmpty(target.name.clone()));
        }
    }
    Ok(known)
}

async fn copy(
    source: &Side,
    target: &Side,
    inventory: Inventory,
    known: Option<(Option<Marker>, Revision)>,
) -> Result<MigrationReport, MigrationError> {
    Copy { source, target, inventory: &inventory }.run(known).await
}

/// A transformer that changes no values.
fn identity() -> Arc<dyn ValueTransformer> {
    Arc::new(IdentityTransformer)
}
