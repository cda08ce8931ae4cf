//! The cluster kinds of the core group.

mod configmap;
mod namespace;
mod secret;
mod serviceaccount;

use std::sync::Arc;

use pintle_registry::Behaviour;

/// How much data a config map or a secret may hold together (upstream: `MaxSecretSize`).
const MAX_DATA_BYTES: usize = 1024 * 1024;

pub(crate) fn behaviour(plural: &str) -> Option<Arc<dyn Behaviour>> {
    Some(match plural {
        "configmaps" => Arc::new(configmap::ConfigMap),
        "namespaces" => Arc::new(namespace::Namespace),
        "secrets" => Arc::new(secret::Secret),
        "serviceaccounts" => Arc::new(serviceaccount::ServiceAccount),
        _ => return None,
    })
}
