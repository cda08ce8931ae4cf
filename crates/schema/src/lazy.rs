//! Schemas that are made when they are first asked for.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use crate::Schema;

/// A schema that is made by the first who looks at it. There may be a thousand kinds of which a few are used.
#[derive(Clone)]
pub struct LazySchema(Arc<LazyLock<Schema, Make>>);

type Make = Box<dyn FnOnce() -> Schema + Send>;

impl LazySchema {
    /// The schema that this makes.
    pub fn made_by(make: impl FnOnce() -> Schema + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }
}

impl From<Schema> for LazySchema {
    fn from(schema: Schema) -> Self {
        Self::made_by(|| schema)
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
