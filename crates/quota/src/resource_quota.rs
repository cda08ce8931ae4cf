//! The parts of a quota that evaluation needs.

use pintle_kinds::{ResourceList, resource_list};
use pintle_value::{Str, Value};

use crate::{Evaluator, QuotaFeatures, ScopeRequirement};

/// A quota.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceQuota {
    /// Its name.
    pub name: Str,
    /// Its uid.
    pub uid: Str,
    /// The limits in its spec.
    pub spec_hard: ResourceList,
    /// The limits that are enforced (`status.hard`).
    pub hard: ResourceList,
    /// The usage of these limits (`status.used`).
    pub used: ResourceList,
    /// The scopes that counted objects have to be in.
    pub requirements: Vec<ScopeRequirement>,
}

impl ResourceQuota {
    /// Reads a quota.
    #[must_use]
    pub fn of(quota: &Value) -> Self {
        Self {
            name: quota.name().into(),
            uid: quota.uid().into(),
            spec_hard: resource_list(quota, &["spec", "hard"]),
            hard: resource_list(quota, &["status", "hard"]),
            used: resource_list(quota, &["status", "used"]),
            requirements: ScopeRequirement::of_quota(&quota["spec"]),
        }
    }

    /// The limits that objects of a kind count towards.
    pub(crate) fn counted_by<'q>(
        &'q self,
        evaluator: &'q dyn Evaluator,
        features: QuotaFeatures,
    ) -> impl Iterator<Item = &'q str> {
        self.hard.keys().map(String::as_str).filter(move |name| evaluator.counts(name, features))
    }
}
