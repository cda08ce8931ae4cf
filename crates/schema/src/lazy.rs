//! Schemas that are built lazily.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use crate::Schema;

/// A schema that is built on first use. A cluster may have a thousand kinds, but uses few of them.
#[derive(Clone)]
pub struct LazySchema(Arc<LazyLock<Schema, Make>>);

type Make = Box<dyn FnOnce() -> Schema + Send>;

impl LazySchema {
    /// Creates a schema that `make` builds on first use.
    pub fn from_fn(make: impl FnOnce() -> Schema + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }
}

impl From<Schema> for LazySchema {
    fn from(schema: Schema) -> Self {
        Self::from_fn(|| schema)
    }
}

impl Deref for LazySchema {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        &self.0
    }
}

impl fmt::Debug for LazySchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LazySchema").finish_non_exhaustive()
    }
}
