//! The messages and causes of an apply conflict.

use std::fmt;

use pintle_value::print;

use super::{Manager, Operation};
use crate::merge::Conflict;

/// A cause in the `Status` of a conflict. Its reason is `FieldManagerConflict`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictCause {
    /// The message: `conflict with "kubectl" using apps/v1`.
    pub message: String,
    /// The path of the field: `.spec.replicas`.
    pub field: String,
}

/// Returns one cause per conflict.
#[must_use]
pub fn conflict_causes(conflicts: &[Conflict<Manager>]) -> Vec<ConflictCause> {
    let cause = |conflict: &Conflict<Manager>| ConflictCause {
        message: format!("conflict with {}", DisplayManager(&conflict.manager)),
        field: conflict.path.to_string(),
    };
    conflicts.iter().map(cause).collect()
}

/// The message of the `Status` of a conflict. The conflicts must be sorted by manager.
#[must_use]
pub fn conflict_message(conflicts: &[Conflict<Manager>]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", DisplayManager(&only.manager), only.path);
    }
    let mut lines = Vec::new();
    for of_manager in conflicts.chunk_by(|a, b| a.manager == b.manager) {
        lines.extend(
            of_manager.first().map(|conflict| format!("conflicts with {}:", DisplayManager(&conflict.manager))),
        );
        lines.extend(of_manager.iter().map(|conflict| format!("- {}", conflict.path)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// Displays a manager as conflict messages name it.
struct DisplayManager<'m>(&'m Manager);

impl fmt::Display for DisplayManager<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print::quote(self.0.name()))?;
        if !self.0.subresource().is_empty() {
            write!(f, " with subresource {}", print::quote(self.0.subresource()))?;
        }
        match self.0.operation() {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.0.version()),
        }
    }
}
