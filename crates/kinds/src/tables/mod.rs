//! Table columns and cells of the built-in kinds (upstream: `pkg/printers/internalversion`).

use std::sync::Arc;

use pintle_registry::{NameAndAge, Table};

pub(crate) fn table(group: &str, plural: &str) -> Arc<dyn Table> {
    let _ = (group, plural);
    Arc::new(NameAndAge)
}
