//! Prevents users from granting permissions that they do not hold: checks on create and update of roles and bindings
//! (upstream: `pkg/registry/rbac/escalation_check.go`, `pkg/registry/rbac/validation/rule.go`).

use std::collections::BTreeSet;

use pintle_value::Value;
use pintle_value::print::quote;

use super::covers::{compact_rules, uncovered_rules};
use super::index::{UserRules, aggregate};
use super::policy::{GROUP, PolicyRule, RoleKind, RoleRef};
use crate::text::quote_list;
use crate::user::SYSTEM_PRIVILEGED_GROUP;
use crate::{AuthorizationAttributes, Authorizer, UserInfo};

/// The message for a user who sets an aggregation rule without holding [`full_authority`].
pub const AGGREGATION_RULE_MESSAGE: &str = "must have cluster-admin privileges to use the aggregationRule";

/// A user attempts to grant permissions that the user does not hold. The text is the reason in the forbidden error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EscalationError(pub String);

/// Confirms that a user holds all the permissions of some rules (`ConfirmNoEscalation`). `requested` is the resource of
/// the request.
///
/// # Errors
/// The user does not hold all permissions; the text lists the missing permissions.
pub fn confirm_no_escalation(
    user: &UserInfo,
    held: &UserRules,
    granted: &[PolicyRule],
    requested: &str,
) -> Result<(), EscalationError> {
    let missing = uncovered_rules(&held.rules, granted);
    if missing.is_empty() {
        return Ok(());
    }
    let missing: BTreeSet<_> = compact_rules(missing).iter().map(PolicyRule::compact_string).collect();
    let missing: Vec<_> = missing.into_iter().collect();
    let mut message = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&user.name),
        quote_list(&user.groups),
        missing.join("\n")
    );
    if let Some(errors) = aggregate(held.errors.iter().map(|error| error.storage_text(requested))) {
        message.push_str("; resolution errors: [");
        message.push_str(&errors);
        message.push(']');
    }
    Err(EscalationError(message))
}

/// Returns whether a user may grant everything (`EscalationAllowed`). The members of `system:masters` may.
#[must_use]
pub fn escalation_allowed(user: &UserInfo) -> bool {
    user.groups.iter().any(|group| group == SYSTEM_PRIVILEGED_GROUP)
}

/// Returns whether a user may write any rules into the role that a request is about (`RoleEscalationAuthorized`). This
/// needs the verb `escalate`. `request` has the attributes of the request itself. Its name is empty on create by POST.
pub async fn role_escalation_authorized(
    authorizer: &dyn Authorizer,
    user: &UserInfo,
    request: &AuthorizationAttributes<'_>,
) -> bool {
    let is_role = [RoleKind::Role, RoleKind::ClusterRole].iter().any(|kind| kind.resource() == request.resource);
    if request.group != GROUP || !is_role {
        return false;
    }
    let attributes = AuthorizationAttributes {
        verb: "escalate",
        group: request.group,
        version: "*",
        resource: request.resource,
        namespace: request.namespace,
        name: request.name,
        ..AuthorizationAttributes::default()
    };
    is_allowed(authorizer, user, &attributes).await
}

/// Returns whether a user may bind any subjects to a role (`BindingAuthorized`). This needs the verb `bind`. `group` is
/// the API group of the role reference, which is not validated yet. `namespace` is the namespace of the binding, or
/// empty for a cluster role binding.
pub async fn binding_authorized(
    authorizer: &dyn Authorizer,
    user: &UserInfo,
    role: &RoleRef,
    group: &str,
    namespace: &str,
) -> bool {
    let attributes = AuthorizationAttributes {
        verb: "bind",
        group,
        version: "*",
        resource: role.kind.resource(),
        namespace,
        name: &role.name,
        ..AuthorizationAttributes::default()
    };
    is_allowed(authorizer, user, &attributes).await
}

async fn is_allowed(authorizer: &dyn Authorizer, user: &UserInfo, attributes: &AuthorizationAttributes<'_>) -> bool {
    authorizer.authorize(user, attributes).await.is_allowed()
}

/// The permissions that a user needs to set an aggregation rule, because such a rule can gather any rules.
#[must_use]
pub fn full_authority() -> [PolicyRule; 2] {
    let all = || vec!["*".into()];
    let resources = PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() };
    [resources, PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() }]
}

/// Returns whether a cluster role gathers the rules of other roles. A field that cannot be read counts as an
/// aggregation rule.
#[must_use]
pub fn has_aggregation_rule(cluster_role: &Value) -> bool {
    match cluster_role.get("aggregationRule") {
        None => false,
        Some(rule @ Value::Object(_)) => {
            rule.get("clusterRoleSelectors").is_some_and(|selectors| !selectors.is_empty())
        }
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use pintle_locks::Mutex;

    use super::*;
    use crate::rbac::testing::{binding, rule};
    use crate::rbac::{RbacIndex, Role};
    use crate::{AuthFuture, Authorization, Decision, RulesReview};

    fn user(name: &str, groups: &[&str]) -> UserInfo {
        let groups = groups.iter().map(|group| (*group).into()).collect();
        UserInfo { name: name.into(), groups, ..UserInfo::default() }
    }

    /// Gives this decision, and records its questions.
    struct Fixed(Decision, Mutex<Vec<String>>);

    impl Authorizer for Fixed {
        fn authorize<'a>(
            &'a self,
            user: &'a UserInfo,
            attributes: &'a AuthorizationAttributes<'a>,
        ) -> AuthFuture<'a, Authorization> {
            let AuthorizationAttributes { verb, group, version, resource, namespace, name, .. } = attributes;
            self.1.lock().push(format!("{} {verb} {group}/{version} {resource} {namespace}/{name}", user.name));
            AuthFuture::ready(Authorization { decision: self.0, ..Authorization::ALLOW })
        }

        fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> AuthFuture<'a, RulesReview> {
            AuthFuture::ready(RulesReview::default())
        }
    }

    fn check_asked(decide: impl AsyncFn(&Fixed) -> bool, expect: &[&str]) {
        for decision in [Decision::Allow, Decision::Deny, Decision::NoOpinion] {
            let authorizer = Fixed(decision, Mutex::default());
            let mut future = pin!(decide(&authorizer));
            let found = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(found, Poll::Ready(decision == Decision::Allow && !expect.is_empty()));
            assert_eq!(*authorizer.1.lock(), expect);
        }
    }

    #[test]
    fn members_of_system_masters_may_grant_everything() {
        assert!(escalation_allowed(&user("anyone", &["a", "system:masters"])));
        assert!(!escalation_allowed(&user("system:masters", &["system:authenticated"])));
    }

    #[test]
    fn roles_may_be_written_with_the_verb_escalate() {
        let steve = user("steve", &[]);
        for (group, resource, namespace, name, expect) in [
            (GROUP, "clusterroles", "", "", &["steve escalate rbac.authorization.k8s.io/* clusterroles /"][..]),
            (GROUP, "clusterroles", "", "r", &["steve escalate rbac.authorization.k8s.io/* clusterroles /r"]),
            (GROUP, "roles", "ns", "r", &["steve escalate rbac.authorization.k8s.io/* roles ns/r"]),
            (GROUP, "rolebindings", "ns", "r", &[]),
            ("", "roles", "ns", "r", &[]),
        ] {
            let request = AuthorizationAttributes {
                verb: "update",
                version: "v1",
                group,
                resource,
                namespace,
                name,
                ..AuthorizationAttributes::default()
            };
            check_asked(async |authorizer| role_escalation_authorized(authorizer, &steve, &request).await, expect);
        }
    }

    #[test]
    fn roles_may_be_bound_with_the_verb_bind() {
        let steve = user("steve", &[]);
        for (kind, group, namespace, expect) in [
            (RoleKind::Role, GROUP, "ns", "steve bind rbac.authorization.k8s.io/* roles ns/r"),
            (RoleKind::ClusterRole, GROUP, "ns", "steve bind rbac.authorization.k8s.io/* clusterroles ns/r"),
            (RoleKind::ClusterRole, GROUP, "", "steve bind rbac.authorization.k8s.io/* clusterroles /r"),
            (RoleKind::ClusterRole, "other", "", "steve bind other/* clusterroles /r"),
        ] {
            let role = RoleRef { kind, name: "r".into() };
            check_asked(
                async |authorizer| binding_authorized(authorizer, &steve, &role, group, namespace).await,
                &[expect],
            );
        }
    }

    #[test]
    fn rules_may_be_granted_by_those_who_hold_them() {
        let index = RbacIndex::default();
        index.set_cluster_role("all", Role { rules: vec![rule("*", "*", "*", "", "")] });
        index.set_cluster_role_binding("alice", binding("ClusterRole/all", &["User:alice"]));
        index.set_role_binding("ns", "bob", binding("ClusterRole/all", &["User:bob"]));
        let pods = [rule("get", "", "pods", "", "")];
        let check = |name: &str, namespace: &str, granted: &[PolicyRule]| {
            let user = user(name, &["g"]);
            confirm_no_escalation(&user, &index.rules_for(&user, namespace), granted, "roles").is_ok()
        };
        assert!(check("alice", "", &pods) && check("alice", "ns", &pods));
        assert!(check("bob", "ns", &pods) && !check("bob", "", &pods) && !check("bob", "other", &pods));
        assert!(check("eve", "", &[]) && !check("eve", "", &pods));
        // A rule for all resources is not full authority, because that includes all paths.
        assert!(!check("alice", "", &full_authority()));
        index.set_cluster_role("all", Role { rules: full_authority().into() });
        assert!(check("alice", "", &full_authority()));
    }

    #[test]
    fn an_attempt_to_grant_more_lists_what_is_missing() {
        let index = RbacIndex::default();
        index.set_cluster_role("some", Role { rules: vec![rule("list", "", "pods", "", "")] });
        index.set_cluster_role_binding("a", binding("ClusterRole/some", &["Group:dev"]));
        let user = user("ja\"ne", &["dev", "system:authenticated"]);
        let granted = [
            rule("get", "", "", "", "/healthz,/metrics"),
            rule("watch,get,list", "", "pods,nodes", "", ""),
            rule("get", "apps", "deployments", "b,a", ""),
        ];
        let message = |granted: &[PolicyRule]| {
            let held = index.rules_for(&user, "");
            confirm_no_escalation(&user, &held, granted, "rolebindings").unwrap_err().to_string()
        };
        let expect = r#"user "ja\"ne" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["nodes"], Verbs:["watch" "get" "list"]}
{APIGroups:[""], Resources:["pods"], Verbs:["watch" "get"]}
{APIGroups:["apps"], Resources:["deployments"], ResourceNames:["a"], Verbs:["get"]}
{APIGroups:["apps"], Resources:["deployments"], ResourceNames:["b"], Verbs:["get"]}
{NonResourceURLs:["/healthz"], Verbs:["get"]}
{NonResourceURLs:["/metrics"], Verbs:["get"]}"#;
        assert_eq!(message(&granted), expect);

        index.set_cluster_role_binding("b", binding("ClusterRole/gone", &["Group:dev"]));
        let one = r#"; resolution errors: [rolebindings.rbac.authorization.k8s.io "gone" not found]"#;
        assert_eq!(message(&granted), format!("{expect}{one}"));
        index.set_cluster_role_binding("c", binding("ClusterRole/lost", &["Group:dev"]));
        let two = r#"; resolution errors: [[rolebindings.rbac.authorization.k8s.io "gone" not found, rolebindings.rbac.authorization.k8s.io "lost" not found]]"#;
        assert_eq!(message(&granted), format!("{expect}{two}"));
    }

    #[test]
    fn an_aggregation_rule_counts_if_it_selects_something() {
        let role = |rule: Value| {
            let mut role = Value::Null;
            role.set("aggregationRule", rule);
            role
        };
        let selectors = |selectors: Value| {
            let mut rule = Value::Null;
            rule.set("clusterRoleSelectors", selectors);
            role(rule)
        };
        assert!(!has_aggregation_rule(&Value::Null));
        assert!(!has_aggregation_rule(&role(Value::Null)));
        assert!(!has_aggregation_rule(&selectors(Value::Array(vec![]))));
        assert!(has_aggregation_rule(&selectors(Value::Array(vec![Value::Null]))));
        assert!(has_aggregation_rule(&role("all".into())));
    }
}
