//! Kinds that users define (CustomResourceDefinitions): which names a definition gets, what its status says, and the
//! registry records that serve its objects. Pure: the server asks, and stores what comes out. Knows no HTTP, no storage.

mod columns;
mod conditions;
pub mod conversion;
mod defined;
mod json_path;
mod judge;
mod kind;
mod lazy;
mod names;
mod records;
mod rules;
mod scale;
pub mod schema;
mod selectable;
mod versions;

pub use conditions::{Condition, condition_is_true, set_condition};
pub use judge::judge_definitions;
pub use names::{accept_names, establish};
pub use pintle_kinds::CLEANUP_FINALIZER;
pub use records::{prefix, records, stored_record};
pub use versions::discovery_order;
