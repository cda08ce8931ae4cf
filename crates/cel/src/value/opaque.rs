//! Values that only a library understands.

use std::any::Any;
use std::fmt::Debug;

/// A value of a library. Its functions get at it with [`Value::as_opaque`](super::Value::as_opaque).
pub trait Opaque: Any + Debug + Send + Sync {
    /// The name of its type, such as `net.IP`.
    fn type_name(&self) -> &str;

    /// True if another value of a library is equal.
    fn equals(&self, other: &dyn Opaque) -> bool;

    /// The value as `Any`, to get its type back.
    fn as_any(&self) -> &dyn Any;

    /// How large it is, where costs depend on it.
    fn size(&self) -> Option<u64> {
        None
    }

    /// True if it counts as zero for `optional.ofNonZeroValue`.
    fn is_zero(&self) -> bool {
        false
    }
}
