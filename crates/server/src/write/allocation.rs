//! The allocations of one write, for kinds with allocation hooks (Service: IP addresses and node ports).

use pintle_registry::{AllocationHooks, ApiError, ObjectClient, StrategyContext, WriteOperation};
use pintle_value::Value;

use super::commit::WriteEnd;

/// The allocations of a write. [`Allocated::finish`] has to be called when the write has ended.
pub(super) struct Allocated<'a>(Option<(&'a dyn AllocationHooks, Value)>);

impl<'a> Allocated<'a> {
    /// Allocates the addresses and ports of a write. Without hooks, there is nothing to allocate.
    ///
    /// # Errors
    /// Returns an error if nothing is left to allocate, or if a requested value is already allocated.
    pub(super) async fn begin<'w>(
        hooks: Option<&'a dyn AllocationHooks>,
        context: &'w StrategyContext,
        client: &'w dyn ObjectClient,
        write: WriteOperation<'w>,
    ) -> Result<Self, ApiError>
    where
        'a: 'w,
    {
        match hooks {
            Some(hooks) => Ok(Self(Some((hooks, hooks.begin(context, client, write).await?)))),
            None => Ok(Self(None)),
        }
    }

    /// Commits the allocation if the write was stored, and reverts it if it was not. If the outcome is unknown, the
    /// repair later releases allocations that no object uses.
    pub(super) async fn finish(self, client: &dyn ObjectClient, end: WriteEnd) {
        let Some((hooks, allocated)) = self.0 else { return };
        match end {
            WriteEnd::Stored => hooks.commit(client, allocated).await,
            WriteEnd::NotStored => hooks.revert(client, allocated).await,
            WriteEnd::Unknown => {}
        }
    }
}
