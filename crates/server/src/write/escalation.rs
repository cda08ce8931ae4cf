//! Prevents users from granting permissions that they do not hold, by writing roles and bindings (upstream:
//! `pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased`).

use pintle_auth::ForbiddenError;
use pintle_auth::rbac::{
    AGGREGATION_RULE_MESSAGE, PolicyRule, ResolutionError, Role, RoleKind, RoleRef, binding_authorized,
    confirm_no_escalation, escalation_allowed, full_authority, has_aggregation_rule, role_escalation_authorized,
};
use pintle_registry::{ApiError, EscalationCheck, GroupResource, Resource};
use pintle_value::Value;
use pintle_value::metadata::changes_only_collector_fields;

use crate::access::{attributes, forbidden};
use crate::context::RequestContext;

/// Checks a write of a role or binding, after mutating admission. `old` is the object before an update.
///
/// # Errors
/// The user would grant permissions that the user does not hold, or the role of a binding is unknown.
pub(super) async fn check(
    request: &RequestContext,
    resource: &Resource,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(check) = resource.strategy.escalation_check() else { return Ok(()) };
    if escalation_allowed(&request.user) || old.is_some_and(|old| changes_only_collector_fields(object, old)) {
        return Ok(());
    }
    let write = PolicyWrite { request, resource, object };
    match check {
        EscalationCheck::Role => write.check_role(old).await,
        EscalationCheck::Binding => write.check_binding().await,
        EscalationCheck::ParamKind | EscalationCheck::ParamRef { .. } => Ok(()),
    }
}

/// A write of a role or binding by a client.
struct PolicyWrite<'a> {
    request: &'a RequestContext,
    resource: &'a Resource,
    object: &'a Value,
}

impl PolicyWrite<'_> {
    async fn check_role(&self, old: Option<&Value>) -> Result<(), ApiError> {
        let RequestContext { access, user, info, query, .. } = self.request;
        if role_escalation_authorized(&*access.authorizer, user, &attributes(info, query, &info.verb)).await {
            return Ok(());
        }
        let role = Role::from_value(self.object).map_err(|error| ApiError::Unclassified(error.to_string()))?;
        self.confirm(&role.rules).map_err(|why| self.forbidden(why))?;
        let aggregates = has_aggregation_rule(self.object) || old.is_some_and(has_aggregation_rule);
        match aggregates && self.confirm(&full_authority()).is_err() {
            true => Err(self.forbidden(AGGREGATION_RULE_MESSAGE.to_owned())),
            false => Ok(()),
        }
    }

    async fn check_binding(&self) -> Result<(), ApiError> {
        let role = &["apiGroup", "kind", "name"].map(|field| self.object.str_at(&["roleRef", field]));
        let [group, kind, name] = *role;
        let Some(kind) = RoleKind::parse(kind) else {
            let kind = pintle_value::print::quote(kind);
            return Err(ApiError::Unclassified(format!("unsupported role reference kind: {kind}")));
        };
        let role = RoleRef { kind, name: name.into() };
        // A new object may not contain its namespace yet.
        let namespace = self.request.namespace_of(self.resource);
        let RequestContext { access, user, cluster, .. } = self.request;
        if binding_authorized(&*access.authorizer, user, &role, group, namespace).await {
            return Ok(());
        }
        let rules = cluster.rbac()?.role_rules(&role, namespace).map_err(|error| match error {
            // As in upstream, the error names the resource of the request, not the resource of the role.
            ResolutionError::NotFound(role) => {
                ApiError::NotFound { resource: self.resource.group_resource(), name: role.name }
            }
            error @ ResolutionError::Unreadable(..) => {
                ApiError::Unclassified(error.storage_text(&self.resource.group_resource().resource))
            }
        })?;
        self.confirm(&rules).map_err(|why| self.forbidden(why))
    }

    /// Confirms that the user holds all the permissions of some rules.
    fn confirm(&self, granted: &[PolicyRule]) -> Result<(), String> {
        let RequestContext { user, cluster, .. } = self.request;
        let held = cluster.rbac().map_err(|error| error.to_string())?;
        let held = held.rules_for(user, self.request.namespace_of(self.resource));
        confirm_no_escalation(user, &held, granted, &self.resource.group_resource().resource)
            .map_err(|error| error.to_string())
    }

    fn forbidden(&self, why: String) -> ApiError {
        let GroupResource { group, resource } = self.resource.group_resource();
        forbidden(ForbiddenError { group, resource, name: self.object.name().into(), why })
    }
}
