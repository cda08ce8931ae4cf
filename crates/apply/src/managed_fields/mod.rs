//! The `managedFields` of an object: decoding, encoding, and how an update or an apply changes them. Implements the
//! rules of upstream's field manager around the merge (upstream: apimachinery's `util/managedfields`). They say which
//! fields are never owned, when a time changes, and how many update managers are tracked.

mod cap_managers;
mod conflict;
mod entries;
mod field_manager;
mod last_applied;
mod manager;
mod scale;

use std::collections::BTreeMap;

use pintle_value::time::Time;

use crate::merge::ManagedFields;

pub use conflict::{ConflictCause, conflict_causes, conflict_message};
pub use entries::{DecodeError, decode, decode_for_update, encode, encode_reusing};
pub use field_manager::{FieldManager, FieldManagerRequest};
pub use last_applied::LAST_APPLIED;
pub use manager::{Manager, Operation};
pub use scale::{ReplicasPaths, from_scale, to_scale};

/// The maximum number of update managers that are tracked separately.
pub const MAX_UPDATE_MANAGERS: usize = 10;

/// The managed fields of an object, and the time of each manager's last change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// The managers and their fields.
    pub managers: ManagedFields<Manager>,
    /// The times. Some managers have none.
    pub times: BTreeMap<Manager, Time>,
}
