//! The transformers that a running server uses. A new configuration replaces them.

use std::sync::Arc;

use pintle_locks::RwLock;

use crate::ResourceTransformers;

/// The transformers that a running server uses (upstream: `DynamicTransformers`).
#[derive(Debug, Default)]
pub struct EncryptionAtRest {
    transformers: RwLock<Arc<ResourceTransformers>>,
}

impl EncryptionAtRest {
    /// The current transformers.
    #[must_use]
    pub fn transformers(&self) -> Arc<ResourceTransformers> {
        self.transformers.read().clone()
    }

    /// Replaces the transformers.
    pub fn replace(&self, transformers: ResourceTransformers) {
        *self.transformers.write() = Arc::new(transformers);
    }
}
