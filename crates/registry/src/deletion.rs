//! Deletion policies of the API (`metav1.DeleteOptions`).

/// What happens to the dependents of an object that is deleted (`metav1.DeletionPropagation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionPropagation {
    /// They lose their owner reference.
    Orphan,
    /// They are deleted after their owner.
    Background,
    /// They are deleted before their owner.
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
