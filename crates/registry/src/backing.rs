//! What stands behind a resource: objects that are stored, objects that are worked out when somebody asks, or something
//! that is done when one is created.

use std::sync::Arc;

use pintle_value::Str;

/// What stands behind a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Objects that are stored.
    Stored(Arc<Collection>),
    /// Objects that are worked out for each request and stored nowhere.
    Computed(Computed),
    /// Nothing: a create does something and keeps nothing.
    Action(Action),
}

/// The stored objects behind one resource, whatever versions and groups show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// The first part of the key after the root: `pods`, `minions`, `services/specs`.
    pub prefix: Str,
    /// The group of the version that objects are stored at.
    pub hub_group: Str,
    /// The version that objects are stored at.
    pub hub_version: Str,
    /// The plural name at the hub.
    pub hub_plural: Str,
    /// True if a DELETE that removes the object answers with the object, false for a `Status`.
    pub returns_deleted: bool,
}

/// Where objects that are not stored come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computed {
    /// The health of the cluster's components, each asked in turn (upstream: `registry/core/componentstatus`).
    ComponentStatuses,
}

impl Computed {
    /// The source that the catalog's facts call so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        (name == "component-statuses").then_some(Self::ComponentStatuses)
    }
}

/// What a create does at a resource or subresource that keeps nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Assigns a pod to a node.
    Bind,
    /// Answers a question about who someone is or what they may do.
    Review(Review),
}

impl Action {
    /// The action that the catalog's facts call so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bind" => Action::Bind,
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

/// A question that is asked by creating an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// Who am I?
    SelfSubject,
    /// Whose token is this?
    Token,
    /// May I do this?
    SelfAccess,
    /// May they do this?
    Access,
    /// May they do this in this namespace?
    LocalAccess,
    /// What may I do in this namespace?
    SelfRules,
}
