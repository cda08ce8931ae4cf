//! The guard around the allocation hooks of a kind (Service: IP addresses and node ports).

use pintle_registry::{AllocationHooks, ApiError, ObjectClient, StrategyContext, WriteOperation};
use pintle_value::Value;

/// What a write has allocated. [`Allocated::finish`] either keeps it or gives it back.
pub(super) struct Allocated<'a>(Option<(&'a dyn AllocationHooks, Value)>);

impl<'a> Allocated<'a> {
    /// Allocates what a write needs, for kinds that allocate.
    ///
    /// # Errors
    /// Nothing is left to allocate, or what the object asks for is taken.
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

    /// Keeps the allocation if the write was stored, otherwise gives it back.
    pub(super) async fn finish(self, client: &dyn ObjectClient, is_stored: bool) {
        match self.0 {
            Some((hooks, allocated)) if is_stored => hooks.commit(client, allocated).await,
            Some((hooks, allocated)) => hooks.revert(client, allocated).await,
            None => {}
        }
    }
}
