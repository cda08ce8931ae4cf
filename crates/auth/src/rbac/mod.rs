//! Role-based access control (upstream: `plugin/pkg/auth/authorizer/rbac` and `pkg/registry/rbac`).

mod aggregation;
mod bootstrap;
mod compiled;
mod covers;
mod escalation;
mod index;
mod policy;
mod read;
mod reconcile;
mod rule;
#[cfg(test)]
mod testing;
mod write;

pub use aggregation::{aggregated_role, aggregation_selectors, combined_rules};
pub use bootstrap::{AUTO_UPDATE_ANNOTATION, BootstrapPolicy};
pub use covers::{compact_rules, uncovered_rules};
pub use escalation::{
    AGGREGATION_RULE_MESSAGE, EscalationError, binding_authorized, confirm_no_escalation, escalation_allowed,
    full_authority, has_aggregation_rule, role_escalation_authorized,
};
pub(crate) use index::aggregate;
pub use index::{PolicyKind, RbacIndex, ResolutionError, UserRules};
pub use policy::{GROUP, PolicyRule, Role, RoleBinding, RoleKind, RoleRef, Subject, SubjectKind};
pub use read::PolicyError;
pub use reconcile::{Reconciliation, reconcile_role, reconcile_role_binding};
