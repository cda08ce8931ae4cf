//! The backing of a resource: stored objects, objects that are computed for each request, or an action.

use std::sync::Arc;

use pintle_value::Str;

/// The source of a resource's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// The objects are stored.
    Stored(Arc<Collection>),
    /// The objects are computed for each request and not stored.
    Computed(Computed),
    /// There are no objects: a create runs an action and stores nothing.
    Action(Action),
}

/// The stored objects of a resource, which all versions (and sometimes several groups) serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// The key prefix after the root: `pods`, `minions`, `services/specs`.
    pub prefix: Str,
    /// The group of the storage version.
    pub hub_group: Str,
    /// The storage version.
    pub hub_version: Str,
    /// The plural name at the storage version.
    pub hub_plural: Str,
    /// True if a DELETE that removes the object responds with the object, false if it responds with a `Status`.
    pub returns_deleted: bool,
}

/// The source of objects that are not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computed {
    /// Health checks of the cluster's components (upstream: `registry/core/componentstatus`).
    ComponentStatuses,
}

impl Computed {
    /// The source with this name in the catalog's facts.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        (name == "component-statuses").then_some(Self::ComponentStatuses)
    }
}

/// The action of a create request for a resource or subresource that stores no objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Assigns a pod to a node.
    Bind,
    /// Deletes a pod if its disruption budget allows the deletion.
    Evict,
    /// Issues a token of a service account.
    RequestToken,
    /// Reviews authentication or authorization.
    Review(Review),
}

impl Action {
    /// The action with this name in the catalog's facts.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "bind" => Action::Bind,
            "evict" => Action::Evict,
            "token-request" => Action::RequestToken,
            "self-subject-review" => Action::Review(Review::SelfSubject),
            "token-review" => Action::Review(Review::Token),
            "self-subject-access-review" => Action::Review(Review::SelfAccess),
            "subject-access-review" => Action::Review(Review::Access),
            "local-subject-access-review" => Action::Review(Review::LocalAccess),
            "self-subject-rules-review" => Action::Review(Review::SelfRules),
            _ => return None,
        })
    }
}

/// A review of authentication or authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// SelfSubjectReview: the user info of the requester.
    SelfSubject,
    /// TokenReview: the user info of a token.
    Token,
    /// SelfSubjectAccessReview: whether the requester may do an action.
    SelfAccess,
    /// SubjectAccessReview: whether a user may do an action.
    Access,
    /// LocalSubjectAccessReview: whether a user may do an action in a namespace.
    LocalAccess,
    /// SelfSubjectRulesReview: the actions that the requester may do in a namespace.
    SelfRules,
}
