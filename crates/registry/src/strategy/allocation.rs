//! Allocation of values that are unique in the cluster, such as IP addresses and node ports.

use pintle_value::Value;

use super::{BoxFuture, ObjectClient, StrategyContext};
use crate::ApiError;

/// One write for the allocation hooks.
#[derive(Debug)]
pub enum WriteOperation<'a> {
    /// A create.
    Create(&'a mut Value),
    /// An update.
    Update {
        /// The new object.
        object: &'a mut Value,
        /// The old object.
        old: &'a Value,
    },
    /// A delete.
    Delete(&'a Value),
}

/// Allocation hooks of a kind (Service: IP addresses and node ports; upstream: `BeginCreate`, `BeginUpdate`). `begin`
/// runs after admission and preparation, before validation, and may change the object. Then at most one of `commit` and
/// `revert` runs, with the allocation that `begin` returned. If it is unknown whether the write is stored, neither
/// runs, so that the repair decides. A dry run always ends with `revert`.
pub trait AllocationHooks: Send + Sync {
    /// Allocates the values for the write. Returns the allocation, in a form that only the hooks interpret.
    ///
    /// # Errors
    /// Returns an error if the allocation fails.
    fn begin<'a>(
        &'a self,
        context: &'a StrategyContext,
        client: &'a dyn ObjectClient,
        write: WriteOperation<'a>,
    ) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// Commits the allocation, because the write was stored.
    fn commit<'a>(&'a self, client: &'a dyn ObjectClient, allocation: Value) -> BoxFuture<'a, ()>;

    /// Reverts the allocation, because the write was not stored.
    fn revert<'a>(&'a self, client: &'a dyn ObjectClient, allocation: Value) -> BoxFuture<'a, ()>;

    /// Reads the allocations of servers that share the store, and records this server's allocations and releases.
    fn sync<'a>(&'a self, client: &'a dyn ObjectClient) -> BoxFuture<'a, Result<(), ApiError>>;

    /// Repairs the allocations, given all objects of the kind, which are read while the repair runs. It allocates
    /// values that an object has without an allocation. It releases values that no object has had in several repairs in
    /// a row. [`sync`](Self::sync) runs before and after it.
    fn repair(&self, objects: &mut dyn Iterator<Item = Value>) -> AllocationRepair;
}

/// The outcome of a repair of allocations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocationRepair {
    /// The problems of objects.
    pub problems: Vec<AllocationProblem>,
    /// The leaked values that are released.
    pub released: Vec<String>,
}

/// A problem that a repair of allocations found. An event about the object reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocationProblem {
    /// The object.
    pub object: Value,
    /// The reason of the event.
    pub reason: &'static str,
    /// The message of the event.
    pub message: String,
}
