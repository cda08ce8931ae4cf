//! The allocations of one write, for kinds with allocation hooks (Service: IP addresses and node ports).

use pintle_registry::{AllocationHooks, ApiError, ObjectClient, StrategyContext, WriteOperation};
use pintle_value::Value;

/// What a write has allocated. [`Allocated::finish`] either commits or reverts the allocation.
pub(super) struct Allocated<'a>(Option<(&'a dyn AllocationHooks, Value)>);

impl<'a> Allocated<'a> {
    /// Allocates what a write needs. Without hooks, there is nothing to allocate.
    ///
    /// # Errors
    /// Returns an error if nothing is left to allocate, or if what the object requests is allocated already.
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

    /// Commits the allocation if the write was stored, otherwise reverts it.
    pub(super) async fn finish(self, client: &dyn ObjectClient, is_stored: bool) {
        match self.0 {
            Some((hooks, allocated)) if is_stored => hooks.commit(client, allocated).await,
            Some((hooks, allocated)) => hooks.revert(client, allocated).await,
            None => {}
        }
    }
}
