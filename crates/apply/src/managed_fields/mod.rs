//! The `managedFields` of an object: reading and writing them, and what an update or an apply makes of them. The rules
//! that upstream's field manager puts around the merge are here: what is never owned, when a time changes, how many
//! updaters are remembered.

mod cap;
mod conflict;
mod entries;
mod keeper;
mod last_applied;
mod manager;
mod scale;

use std::collections::BTreeMap;

use pintle_value::time::Time;

use crate::managers::Managers;

pub use conflict::{ConflictCause, conflict_causes, conflict_message};
pub use entries::{DecodeError, decode, encode, encode_over, of_update};
pub use keeper::{Keeper, Request};
pub use last_applied::LAST_APPLIED;
pub use manager::{Manager, Operation};
pub use scale::{ReplicasPaths, from_scale, to_scale};

/// How many managers that update are remembered one by one.
pub const MAX_UPDATERS: usize = 10;

/// The managers of an object, and when each last changed something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// Who owns what.
    pub managers: Managers<Manager>,
    /// When; of some managers it is not known.
    pub times: BTreeMap<Manager, Time>,
}
