//! The propagation policies of deletes (`metav1.DeleteOptions`).

/// The treatment of the dependents of a deleted object (`metav1.DeletionPropagation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionPropagation {
    /// The garbage collector removes the owner reference from the dependents.
    Orphan,
    /// The garbage collector deletes the dependents after the owner.
    Background,
    /// The garbage collector deletes the dependents before the owner.
    Foreground,
}

impl DeletionPropagation {
    /// The value of `propagationPolicy`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DeletionPropagation::Orphan => "Orphan",
            DeletionPropagation::Background => "Background",
            DeletionPropagation::Foreground => "Foreground",
        }
    }
}
