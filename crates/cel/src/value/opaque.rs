//! Opaque values, which only the functions of a library can interpret.

use std::any::Any;
use std::fmt::Debug;

/// An opaque value. Functions access it with [`Value::as_opaque`](super::Value::as_opaque).
pub trait Opaque: Any + Debug + Send + Sync {
    /// The name of the type, such as `net.IP`.
    fn type_name(&self) -> &str;

    /// True if both values are equal.
    fn equals(&self, other: &dyn Opaque) -> bool;

    /// The value as `Any`, for downcasting.
    fn as_any(&self) -> &dyn Any;

    /// The size for cost tracking, if the type has one.
    fn size(&self) -> Option<u64> {
        None
    }

    /// True for the zero value, for `optional.ofNonZeroValue`.
    fn is_zero(&self) -> bool {
        false
    }
}
