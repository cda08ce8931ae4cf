//! The index of roles and bindings.

use pintle_auth::rbac::{GROUP, PolicyKind, RbacIndex};
use pintle_value::{Str, Value};

use super::ObjectIndex;

impl ObjectIndex for RbacIndex {
    type Kind = PolicyKind;

    const KINDS: &'static [(PolicyKind, &'static str, &'static str)] = &[
        (PolicyKind::Role, GROUP, "roles"),
        (PolicyKind::ClusterRole, GROUP, "clusterroles"),
        (PolicyKind::RoleBinding, GROUP, "rolebindings"),
        (PolicyKind::ClusterRoleBinding, GROUP, "clusterrolebindings"),
    ];

    fn fields(kind: PolicyKind) -> &'static [&'static str] {
        kind.fields()
    }

    fn set(&self, kind: PolicyKind, namespace: &str, name: &str, object: &Value) -> Result<(), String> {
        Self::set(self, kind, namespace, name, object).map_err(|error| error.to_string())
    }

    fn remove(&self, kind: PolicyKind, namespace: &str, name: &str) {
        Self::remove(self, kind, namespace, name);
    }

    fn names(&self, kind: PolicyKind) -> Vec<(Str, Str)> {
        Self::names(self, kind)
    }
}
