//! What a client is told of conflicts.

use std::fmt;

use pintle_value::print;

use super::{Manager, Operation};
use crate::managers::Conflict;

/// A cause in the `Status` of a conflict; its reason is `FieldManagerConflict`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictCause {
    /// With whom: `conflict with "kubectl" using apps/v1`.
    pub message: String,
    /// The field: `.spec.replicas`.
    pub field: String,
}

/// A cause for each conflict.
#[must_use]
pub fn conflict_causes(conflicts: &[Conflict<Manager>]) -> Vec<ConflictCause> {
    let cause = |conflict: &Conflict<Manager>| ConflictCause {
        message: format!("conflict with {}", InWords(&conflict.manager)),
        field: conflict.path.to_string(),
    };
    conflicts.iter().map(cause).collect()
}

/// The message of the `Status` of conflicts, which must be sorted by manager.
#[must_use]
pub fn conflict_message(conflicts: &[Conflict<Manager>]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", InWords(&only.manager), only.path);
    }
    let mut lines = Vec::new();
    for of_one in conflicts.chunk_by(|a, b| a.manager == b.manager) {
        lines.extend(of_one.first().map(|conflict| format!("conflicts with {}:", InWords(&conflict.manager))));
        lines.extend(of_one.iter().map(|conflict| format!("- {}", conflict.path)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// A manager as conflicts name it.
struct InWords<'m>(&'m Manager);

impl fmt::Display for InWords<'_> {
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
