//! The resources that other API servers serve, as their discovery documents say.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_controllers::RemoteResources;
use pintle_registry::GroupVersion;
use pintle_value::Value;

/// A version that another API server serves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RemoteVersion {
    /// The list of `APIResourceDiscovery`. It is empty if the API server cannot be asked.
    pub(crate) resources: Value,
    /// False if the API server could not be asked.
    pub(crate) is_current: bool,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
}

/// The versions that other API servers serve.
#[derive(Debug, Default)]
pub(crate) struct RemoteDiscovery {
    pub(crate) versions: BTreeMap<GroupVersion, RemoteVersion>,
    /// Their resources, as controllers see them.
    pub(crate) resources: Arc<RemoteResources>,
}
