//! The settings of a cluster, which do not change while the server runs.

use std::sync::Arc;
use std::time::Duration;

use pintle_gates::Gates;

use super::ServiceAccountConfig;
use super::flags::Flags;

/// The settings of a cluster.
pub(crate) struct Settings {
    pub(crate) gates: Arc<Gates>,
    /// True if CBOR is served; cached because every request asks.
    pub(crate) cbor: bool,
    /// True if clients without credentials do not keep connections of HTTP/2.
    pub(crate) limits_unauthenticated_http2: bool,
    pub(crate) min_request_timeout: Duration,
    pub(crate) allow_privileged: bool,
    pub(crate) event_ttl: Duration,
    pub(crate) storage_metrics: StorageMetrics,
    pub(crate) components: Vec<Component>,
    /// The flags of the process; `None` if it shows none.
    pub(crate) flags: Option<Flags>,
    pub(crate) service_accounts: ServiceAccountConfig,
}

/// A component outside of this server whose health `componentstatuses` reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// The name of its `ComponentStatus`.
    pub name: String,
    /// The URL that answers with 200 while the component is healthy.
    pub health: String,
}

impl Component {
    /// The components that kube-apiserver probes, at their default ports on this host.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        [("controller-manager", 10257), ("scheduler", 10259)]
            .map(|(name, port)| Self { name: name.to_owned(), health: format!("https://127.0.0.1:{port}/healthz") })
            .into()
    }
}

/// The metrics of the store that are computed when metrics are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageMetrics {
    /// The number of objects of each resource (`--etcd-count-metric-poll-period` is not zero).
    pub objects: bool,
    /// The size of the database (`--etcd-db-metric-poll-interval` is not zero).
    pub size: bool,
}

impl Default for StorageMetrics {
    fn default() -> Self {
        Self { objects: true, size: true }
    }
}
