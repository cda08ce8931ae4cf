//! Resource quotas: the usage of the objects of a namespace, and the check that a write fits the quotas of its
//! namespace (upstream: `apiserver/pkg/quota`, `pkg/quota/v1/evaluator`). The admission plugin and the quota controller
//! use it.
//!
//! - `resource_list`: arithmetic on quantities by resource name.
//! - `scopes`: the scopes of quotas, and which objects are in them.
//! - `resource_quota`: the parts of a quota that matter here.
//! - `evaluator`: the rules of each kind; `pods`, `services`, `persistent_volume_claims`, `resource_claims` and
//!   `object_count` implement it.
//! - `features`: which features of pods and devices are enabled.
//! - `check`: the charges of a write to quotas, or the reason of its refusal.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use pintle_quota::resource_list;
//! use pintle_value::Quantity;
//!
//! let quantity = |text| Quantity::parse(text).expect("a quantity");
//! let mut used = BTreeMap::new();
//! for memory in ["1Gi", "512Mi"] {
//!     resource_list::add_quantity(&mut used, "requests.memory", &quantity(memory));
//! }
//! assert_eq!(resource_list::print(&used), "requests.memory=1536Mi");
//! let hard = BTreeMap::from([("requests.memory".to_owned(), quantity("2Gi"))]);
//! assert_eq!(resource_list::print(&resource_list::subtract(&hard, &used)), "requests.memory=512Mi");
//! ```

mod check;
mod evaluator;
mod features;
mod object_count;
mod persistent_volume_claims;
mod pods;
mod resource_claims;
pub mod resource_list;
mod resource_quota;
mod scopes;
mod services;
#[cfg(test)]
mod testing;

pub use check::{Charge, LimitedResource, MeasuredWrite, QuotaRefusal, check_write};
pub use evaluator::{
    Evaluator, EvaluatorRef, QuotaContext, QuotaWrite, UnsetResources, counted_resources, evaluator_of,
    handles_updates, is_ignored,
};
pub use features::QuotaFeatures;
pub use resource_quota::ResourceQuota;
pub use scopes::{ObjectScopes, ScopeRequirement};
