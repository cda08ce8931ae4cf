//! CustomResourceDefinitions (CRDs): name acceptance, status conditions, and the registry resources that serve custom
//! resources. The crate is pure: the server calls it and stores the results. It does not know about HTTP or storage.
//!
//! ```
//! use pintle_extensions::{is_condition_true, next_status, version_order};
//! use pintle_value::{object, time::Time};
//!
//! // A new CRD is served when its names are accepted and it is established.
//! let names = object! { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" };
//! let mut crd = object! {
//!     "metadata": object! { "name": "widgets.example.com" },
//!     "spec": object! { "group": "example.com", "names": names },
//! };
//! while let Some(next) = next_status(&crd, &[], Time::from_seconds(0)) {
//!     crd = next;
//! }
//! assert!(is_condition_true(&crd, "NamesAccepted") && is_condition_true(&crd, "Established"));
//!
//! let mut versions = ["v1beta1", "v1", "v10alpha1", "v2"];
//! versions.sort_by(|a, b| version_order(a, b));
//! assert_eq!(versions, ["v2", "v1", "v1beta1", "v10alpha1"]);
//! ```

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
