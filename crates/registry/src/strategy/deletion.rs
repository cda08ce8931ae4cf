//! Deletion in several steps, and the dependents of deleted objects.

use pintle_gates::Gates;
use pintle_value::Value;

/// The default treatment of the dependents of a deleted object (upstream: `GarbageCollectionPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GarbageCollectionPolicy {
    /// The garbage collector deletes the dependents.
    DeleteDependents,
    /// The garbage collector orphans the dependents. Only for kinds that are older than garbage collection.
    OrphanDependents,
    /// The kind has no dependents. The propagation policy of a delete is ignored.
    Unsupported,
}

/// Two-phase deletion (upstream: kinds whose storage implements `Delete` itself, such as Namespace and
/// CustomResourceDefinition). The first delete marks the object as terminating, without a grace period and without a
/// new generation. Later deletes are ordinary deletes.
pub trait TwoPhaseDeletion: Send + Sync {
    /// Sets the kind's own fields of a terminating object. The caller has set `deletionTimestamp`.
    fn mark_terminating(&self, object: &mut Value);

    /// True if the first delete sets the finalizers of the propagation policy.
    fn sets_propagation_finalizers(&self) -> bool {
        false
    }

    /// True while further deletes leave a terminating object unchanged.
    fn is_deletion_pending(&self, _object: &Value) -> bool {
        false
    }

    /// The beginning of the error message about a precondition that is not met.
    fn failed_precondition(&self, _gates: &Gates) -> &'static str {
        "Precondition failed"
    }
}

/// Graceful deletion: first a grace period, then removal (upstream: `RESTGracefulDeleteStrategy`).
pub trait GracefulDeletion: Send + Sync {
    /// Determines the grace period in seconds; 0 means immediate removal. `requested` is the grace period of the delete
    /// options. Returns `None` if the object is not deleted gracefully.
    fn grace_period(&self, object: &Value, requested: Option<i64>) -> Option<i64>;
}
