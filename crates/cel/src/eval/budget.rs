//! Limits on an evaluation.

use std::fmt;

/// Limits on an evaluation.
#[derive(Clone, Copy, Default)]
pub struct Budget<'b> {
    /// The cost limit.
    pub limit: u64,
    /// Called periodically; the evaluation is interrupted when it returns true.
    pub interrupt: Option<&'b (dyn Fn() -> bool + 'b)>,
}

impl fmt::Debug for Budget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Budget<'_> {
    /// Kubernetes' cost limit for a single expression, about 0.1 seconds (upstream:
    /// `apiserver/pkg/apis/cel.PerCallLimit`).
    pub const PER_CALL: u64 = 1_000_000;

    /// A budget with a cost limit and no interrupt.
    #[must_use]
    pub fn limit(limit: u64) -> Self {
        Self { limit, interrupt: None }
    }
}
