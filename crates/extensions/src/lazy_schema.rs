//! Lazily parsed schemas of CRDs. In most clusters, most custom resources have no objects.

use std::sync::{Arc, LazyLock};

use pintle_registry::CrdSource;
use pintle_value::{Str, object};

use crate::schema::StructuralSchema;

/// The schema of a version, parsed from its CRD on first use.
pub(crate) type LazySchema = LazyLock<StructuralSchema, Box<dyn FnOnce() -> StructuralSchema + Send>>;

/// Returns the lazily parsed schema of a version. A version without a schema accepts every object.
pub(crate) fn schema(source: &Arc<dyn CrdSource>, version: &str) -> Arc<LazySchema> {
    let (source, version) = (source.clone(), Str::from(version));
    Arc::new(LazyLock::new(Box::new(move || {
        let written = source
            .schema(&version)
            .map(|written| StructuralSchema::parse(&written).map(|schema| schema.served_by(source.served_by())));
        let failed = match written {
            Some(Ok(schema)) => return schema,
            Some(Err(error)) => Some(error),
            None => None,
        };
        if let Some(error) = failed {
            // CRDs are validated before they are stored. If parsing fails nevertheless, all fields of its objects are
            // preserved.
            tracing::error!(%error, crd = source.fingerprint(), %version, "Failed to parse schema of CustomResourceDefinition");
        }
        let anything = object! { "type": "object", "x-kubernetes-preserve-unknown-fields": true };
        StructuralSchema::parse(&anything).unwrap_or_default()
    })))
}
