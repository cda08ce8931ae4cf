//! CustomResourceDefinitions (CRDs): name acceptance, status conditions, and the registry resources that serve custom
//! resources. The crate is pure: the server calls it and stores the results. It does not know about HTTP or storage.

mod conditions;
pub mod conversion;
mod crd_versions;
mod json_path;
mod lazy_schema;
mod names;
mod printer_columns;
mod resources;
mod rules;
mod scale;
pub mod schema;
mod schema_validator;
mod selectable_fields;
mod status;
mod strategy;
mod version_priority;

pub use conditions::{Condition, is_condition_true, set_condition};
pub use json_path::JsonPath;
pub use pintle_kinds::CLEANUP_FINALIZER;
pub use resources::{build_resources, build_storage_resource, key_prefix};
pub use schema_validator::install_crd_validation;
pub use status::{is_approval_current, next_status};
pub use version_priority::{discovery_order, version_order};
