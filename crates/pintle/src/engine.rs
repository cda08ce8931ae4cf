//! Where a server stores its objects, and how it opens an etcd.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_cache::HistoryLimits;
use pintle_gates::Gates;
use pintle_outbound::Dialer;
use pintle_registry::GroupResource;
use pintle_server::{StorageOverride, StoredForm};
use pintle_store::{Durability, EtcdCertificateFiles, EtcdOptions, EtcdStore, KeyInterval, Store, ValueTransformer};

use crate::server::StartError;

/// How long a starting server waits for its store (kube-apiserver: the time limit of dialing etcd).
const STORE_START_TIMEOUT: Duration = Duration::from_secs(20);
/// The interval between its attempts.
const STORE_START_INTERVAL: Duration = Duration::from_millis(250);

/// Where objects are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// In a file in the data directory.
    Embedded,
    /// In a file in a directory of its own.
    EmbeddedIn(StoreFolder),
    /// In memory only; lost when the server stops.
    Memory,
    /// In etcd.
    Etcd(EtcdConfig),
}

/// An etcd with stored objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdConfig {
    /// The URLs of etcd's members (`--etcd-servers`).
    pub servers: Vec<String>,
    /// The etcd servers of single resources (`--etcd-servers-overrides`).
    pub overrides: Vec<EtcdServersOverride>,
    /// The prefix of all keys, without a slash at the end (`--etcd-prefix`).
    pub prefix: String,
    /// Whether objects of built-in kinds are written as Protobuf, or else as JSON (`--storage-media-type`).
    pub protobuf: bool,
    /// The files of etcd's certificate authority and of the client's certificate.
    pub certificates: EtcdCertificateFiles,
    /// How often old revisions are compacted; zero for never (`--etcd-compaction-interval`).
    pub compaction_interval: Duration,
    /// How long etcd may take to answer before it is unhealthy (`--etcd-healthcheck-timeout`).
    pub health_timeout: Duration,
    /// How long etcd may take to answer before it is not ready (`--etcd-readycheck-timeout`).
    pub ready_timeout: Duration,
    /// How late changes of other servers may arrive before this server is not ready; zero for any time
    /// (`--max-feed-lag`).
    pub max_feed_lag: Duration,
    /// How much longer than its time to live a key may exist (`--lease-reuse-duration-seconds`).
    pub lease_reuse: Duration,
}

/// The etcd servers of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdServersOverride {
    /// The group of the resource; empty for the core group.
    pub group: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The URLs of the members of its etcd.
    pub servers: Vec<String>,
}

impl EtcdConfig {
    /// Opens the etcds of single resources. Resources with the same servers share an etcd.
    pub(crate) fn open_overrides(
        &self,
        history: &HistoryLimits,
        transformer: &Arc<dyn ValueTransformer>,
        dialer: &Dialer,
    ) -> Result<Vec<StorageOverride>, StartError> {
        let mut by_servers: Vec<(Vec<&String>, &EtcdServersOverride, Vec<GroupResource>)> = Vec::new();
        for named in &self.overrides {
            let mut servers: Vec<&String> = named.servers.iter().collect();
            servers.sort();
            let resource = GroupResource::new(named.group.as_str(), named.resource.as_str());
            match by_servers.iter_mut().find(|(known, ..)| *known == servers) {
                Some((.., resources)) => resources.push(resource),
                None => by_servers.push((servers, named, vec![resource])),
            }
        }
        let open =
            |(_, named, resources): (Vec<&String>, &EtcdServersOverride, Vec<GroupResource>)| -> Result<_, StartError> {
                let etcd = Self { servers: named.servers.clone(), ..self.clone() };
                Ok(StorageOverride { resources, store: Arc::new(etcd.open(history, transformer.clone(), dialer)?) })
            };
        by_servers.into_iter().map(open).collect()
    }

    /// The form of the stored objects. The defaults that reads set depend on the feature gates.
    pub(crate) fn stored_form(&self, gates: &Gates) -> Result<Arc<StoredForm>, StartError> {
        StoredForm::new(&self.prefix, self.protobuf, gates).map(Arc::new).map_err(StartError::Options)
    }

    /// Opens the store. The store keeps the history that this server serves, because other servers may serve it, too.
    pub(crate) fn open(
        &self,
        history: &HistoryLimits,
        transformer: Arc<dyn ValueTransformer>,
        dialer: &Dialer,
    ) -> Result<EtcdStore, StartError> {
        Ok(EtcdStore::open(EtcdOptions {
            transformer,
            servers: self.servers.clone(),
            certificates: self.certificates.clone(),
            dialer: dialer.clone(),
            interval: KeyInterval::prefix(&format!("{}/", self.prefix.trim_end_matches('/'))),
            compaction_interval: self.compaction_interval,
            min_history: history.duration,
            health_timeout: self.health_timeout,
            ready_timeout: self.ready_timeout,
            max_feed_lag: self.max_feed_lag,
            lease_reuse: self.lease_reuse,
        })?)
    }
}

/// Waits until a store can be read: etcd may be starting, too.
///
/// # Errors
/// The store cannot be read for [`STORE_START_TIMEOUT`].
pub(crate) async fn wait_until_readable(store: &dyn Store) -> Result<(), pintle_store::Error> {
    let give_up = Instant::now() + STORE_START_TIMEOUT;
    loop {
        match store.current_revision().await {
            Err(error @ pintle_store::Error::Unavailable { .. }) if Instant::now() < give_up => {
                tracing::warn!(%error, "Failed to read the store, will retry");
                tokio::time::sleep(STORE_START_INTERVAL).await;
            }
            result => return result.map(drop),
        }
    }
}

/// The prefix of all keys in the server's own stores.
pub(crate) const KEY_PREFIX: &str = "/registry";

impl Engine {
    /// True if other servers may use the same store.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Etcd(_))
    }

    pub(crate) fn key_prefix(&self) -> &str {
        match self {
            Self::Etcd(etcd) => &etcd.prefix,
            Self::Embedded | Self::EmbeddedIn(_) | Self::Memory => KEY_PREFIX,
        }
    }
}

/// A directory with stored objects and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFolder {
    /// The directory. It is created if it does not exist.
    pub path: PathBuf,
    /// When a write is acknowledged.
    pub durability: Durability,
}
