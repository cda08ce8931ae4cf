//! The objects of the API group `rbac.authorization.k8s.io/v1`, without their metadata.

use pintle_value::Str;

use crate::user::service_account_user;

/// The API group of the objects, and of the subjects `User` and `Group`.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// A rule of a role: the verbs that it allows, and the resources or paths (`rbac.PolicyRule`). `*` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyRule {
    /// The verbs.
    pub verbs: Vec<Str>,
    /// The API groups of the resources.
    pub api_groups: Vec<Str>,
    /// The resources: `pods`, `pods/status`, `*/scale`.
    pub resources: Vec<Str>,
    /// The names of the objects; empty for all.
    pub resource_names: Vec<Str>,
    /// The paths that are not resources; a `*` at the end matches any rest.
    pub non_resource_urls: Vec<Str>,
}

/// The rules of a role in a namespace, or of a cluster role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// The rules.
    pub rules: Vec<PolicyRule>,
}

/// The kind of object that a binding refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RoleKind {
    /// A role in the binding's namespace.
    Role,
    /// A cluster role.
    ClusterRole,
}

impl RoleKind {
    /// The kind as objects name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Role => "Role",
            Self::ClusterRole => "ClusterRole",
        }
    }

    /// Parses the name of a kind.
    #[must_use]
    pub fn parse(kind: &str) -> Option<Self> {
        [Self::Role, Self::ClusterRole].into_iter().find(|known| known.as_str() == kind)
    }

    /// The resource of the kind.
    #[must_use]
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
        }
    }
}

/// The role of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoleRef {
    /// The kind of the role.
    pub kind: RoleKind,
    /// Its name.
    pub name: Str,
}

/// The kind of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SubjectKind {
    /// A user, by name.
    User,
    /// A group, by name.
    Group,
    /// A service account, by namespace and name.
    ServiceAccount,
}

impl SubjectKind {
    /// The kind as objects name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Group => "Group",
            Self::ServiceAccount => "ServiceAccount",
        }
    }
}

/// A subject that gets the rules of a role.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The kind of the subject.
    pub kind: SubjectKind,
    /// The namespace of a service account, or empty for the namespace of the binding. Empty for other kinds.
    pub namespace: Str,
    /// The name.
    pub name: Str,
}

impl Subject {
    /// The user name of this subject: the name of the user, or `system:serviceaccount:NAMESPACE:NAME`. `None` for
    /// groups. Also `None` for a service account without a namespace, which matches nobody.
    #[must_use]
    pub fn user_name(&self, binding_namespace: &str) -> Option<Str> {
        match self.kind {
            SubjectKind::User => Some(self.name.clone()),
            SubjectKind::Group => None,
            SubjectKind::ServiceAccount => {
                let namespace = self.namespace_or(binding_namespace);
                (!namespace.is_empty()).then(|| service_account_user(namespace, &self.name))
            }
        }
    }

    /// The subject with the namespace that it has in a binding of a namespace.
    pub(super) fn in_namespace(&self, binding_namespace: &str) -> Self {
        match self.kind {
            SubjectKind::ServiceAccount => {
                Self { namespace: self.namespace_or(binding_namespace).into(), ..self.clone() }
            }
            SubjectKind::User | SubjectKind::Group => self.clone(),
        }
    }

    /// The namespace of a service account. It is the namespace of the binding, unless the subject names another.
    pub(super) fn namespace_or<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() { binding_namespace } else { &self.namespace }
    }
}

/// A role binding or cluster role binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleBinding {
    /// The subjects that get the rules.
    pub subjects: Vec<Subject>,
    /// The role that has the rules.
    pub role: RoleRef,
}
