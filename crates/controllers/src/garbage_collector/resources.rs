//! The resource of each collection.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_registry::{Registry, Resource};
use pintle_value::Str;

use crate::ClusterClient;

/// A cache of the resources of collections. It is cleared when the served resources change.
#[derive(Default)]
pub(super) struct ResourceCache {
    registry: Option<Arc<Registry>>,
    by_prefix: HashMap<Str, Arc<Resource>>,
}

impl ResourceCache {
    /// The resource of a collection, by its prefix; `None` if no version of it is served.
    pub(super) fn get(&mut self, client: &Arc<dyn ClusterClient>, prefix: &Str) -> Option<Arc<Resource>> {
        let registry = client.registry();
        if !self.registry.as_ref().is_some_and(|known| Arc::ptr_eq(known, &registry)) {
            self.by_prefix.clear();
            self.registry = Some(registry.clone());
        }
        if let Some(resource) = self.by_prefix.get(prefix) {
            return Some(resource.clone());
        }
        let is_it =
            |resource: &&Arc<Resource>| resource.collection().is_some_and(|collection| collection.prefix == *prefix);
        let resource = registry.hubs().find(is_it)?.clone();
        self.by_prefix.insert(prefix.clone(), resource.clone());
        Some(resource)
    }
}
