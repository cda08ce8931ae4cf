//! The schemas of a definition, read when they are first asked for: most kinds of most clusters have no objects.

use std::sync::{Arc, LazyLock};

use pintle_registry::DefinitionSource;
use pintle_value::{Str, object};

use crate::schema::Schema;

/// The schema of a version, which the first who looks at it reads from its definition.
pub(crate) type LazySchema = LazyLock<Schema, Box<dyn FnOnce() -> Schema + Send>>;

/// The schema of a version of a definition. Old versions may have none, and take everything.
pub(crate) fn schema(source: &Arc<dyn DefinitionSource>, version: &str) -> Arc<LazySchema> {
    let (source, version) = (source.clone(), Str::from(version));
    Arc::new(LazyLock::new(Box::new(move || {
        let written = source.schema(&version).map(|written| Schema::parse(&written));
        let failed = match written {
            Some(Ok(schema)) => return schema,
            Some(Err(error)) => Some(error),
            None => None,
        };
        if let Some(error) = failed {
            // Definitions are judged before they are stored. Whatever this one says, its objects stay as they are.
            tracing::error!(%error, definition = source.mark(), %version, "a schema cannot be read");
        }
        let anything = object! { "type": "object", "x-kubernetes-preserve-unknown-fields": true };
        Schema::parse(&anything).unwrap_or_default()
    })))
}
