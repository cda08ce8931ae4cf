//! The kinds that other API servers serve, as controllers see them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pintle_registry::{DeletionPropagation, GroupResource, GroupVersion, GroupVersionKind};
use pintle_value::{Str, Value};

/// A resource that another API server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteResource {
    /// The group and the version with which the server is asked.
    pub version: GroupVersion,
    /// The plural name.
    pub plural: Str,
    /// The kind of the objects.
    pub kind: Str,
    /// True if each object is in a namespace.
    pub is_namespaced: bool,
    /// The verbs.
    pub verbs: Vec<Str>,
}

impl RemoteResource {
    /// True if the resource has a verb.
    #[must_use]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|found| found == verb)
    }

    /// The resource and its group.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.version.group.clone(), self.plural.clone())
    }

    /// The prefix by which controllers know the collection. No collection of this server has such a prefix.
    #[must_use]
    pub fn prefix(&self) -> Str {
        remote_prefix(&self.group_resource())
    }

    /// The resource and its group, such as `pods.metrics.k8s.io`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.plural, self.version.group)
    }
}

/// The prefix of the collection of a resource of another API server.
pub(crate) fn remote_prefix(resource: &GroupResource) -> Str {
    ["remote:", &resource.group, "/", &resource.resource].concat().into()
}

/// The resources of all other API servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteResources {
    /// The resources, each in its preferred version.
    pub preferred: Vec<Arc<RemoteResource>>,
    /// The resources by kind, in each version.
    pub by_kind: HashMap<GroupVersionKind, Arc<RemoteResource>>,
    /// The versions that other API servers serve. They hide the same versions of this server.
    pub versions: HashSet<GroupVersion>,
    /// The versions whose API servers cannot be asked.
    pub unknown: Vec<GroupVersion>,
}

impl RemoteResources {
    /// True if another API server serves the version of a kind.
    #[must_use]
    pub fn serves(&self, kind: &GroupVersionKind) -> bool {
        self.versions.contains(&GroupVersion::new(kind.group.clone(), kind.version.clone()))
    }
}

/// A request of a controller to another API server.
#[derive(Clone, Debug, PartialEq)]
pub enum RemoteOperation {
    /// The metadata of all objects of the namespace.
    List,
    /// The metadata of an object.
    Get {
        /// The name of the object.
        name: Str,
    },
    /// To change an object.
    Patch {
        /// The name of the object.
        name: Str,
        /// A JSON merge patch.
        patch: Value,
    },
    /// To delete all objects of the namespace, and their dependents in the background.
    DeleteAll,
    /// To delete an object.
    Delete {
        /// The name of the object.
        name: Str,
        /// The uid that the object must have; empty for any.
        uid: Str,
        /// The resourceVersion that the object must have; empty for any.
        resource_version: Str,
        /// Whether its dependents are deleted or orphaned.
        propagation: DeletionPropagation,
    },
}

/// The change of an object of another API server. Objects have their metadata alone.
#[derive(Clone, Debug, PartialEq)]
pub enum RemoteEvent {
    /// These objects exist, and no others.
    Listed(Vec<Value>),
    /// An object was created or changed.
    Changed(Value),
    /// An object was deleted.
    Deleted(Value),
}
