//! Objects that own each other: their kinds, and the fields that the garbage collector reads.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// A finalizer that no controller removes.
pub(crate) const CUSTOM_FINALIZER: &str = "example.com/hold";
pub(crate) const ORPHAN: &str = "orphan";
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The namespaces of the objects.
pub(crate) const NAMESPACES: [&str; 2] = ["one", "two"];

/// The label that distinguishes the objects of this test from others.
pub(crate) const LABEL: &str = "made-by=random-workload";

/// A kind that the test writes.
#[derive(Debug)]
pub(crate) struct TestKind {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) lifetime: KindLifetime,
}

/// The time in which a kind is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KindLifetime {
    /// The kind is always served, because it is built in.
    BuiltIn,
    /// The kind is defined before the first object, and never removed.
    DefinedAtStart,
    /// The kind's CRD is created in the middle of the round.
    DefinedLater,
    /// The kind's CRD is deleted in the middle of the round.
    DeletedLater,
    /// The kind is never served.
    NeverDefined,
}

const fn kind(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
    lifetime: KindLifetime,
) -> TestKind {
    TestKind { group, kind, plural, namespaced, lifetime }
}

/// All kinds. A kind is identified by its index.
pub(crate) const KINDS: [TestKind; 10] = [
    kind("", "ConfigMap", "configmaps", true, KindLifetime::BuiltIn),
    kind("", "Secret", "secrets", true, KindLifetime::BuiltIn),
    kind("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false, KindLifetime::BuiltIn),
    kind("example.com", "Widget", "widgets", true, KindLifetime::DefinedAtStart),
    kind("example.com", "Zone", "zones", false, KindLifetime::DefinedAtStart),
    kind("late.example.com", "Gadget", "gadgets", true, KindLifetime::DefinedLater),
    kind("late.example.com", "Region", "regions", false, KindLifetime::DefinedLater),
    kind("early.example.com", "Trinket", "trinkets", true, KindLifetime::DeletedLater),
    kind("early.example.com", "Planet", "planets", false, KindLifetime::DeletedLater),
    kind("nowhere.example.com", "Ghost", "ghosts", true, KindLifetime::NeverDefined),
];

impl TestKind {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { "v1".into() } else { format!("{}/v1", self.group) }
    }

    /// The path of the objects in a namespace, or of all objects if it is empty.
    pub(crate) fn path(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let namespace = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        format!("/{root}/{}{namespace}/{}", self.api_version(), self.plural)
    }

    /// The name of the CRD of a custom kind.
    pub(crate) fn crd_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// The CRD of a custom kind.
    pub(crate) fn crd(&self) -> Value {
        let scope = if self.namespaced { "Namespaced" } else { "Cluster" };
        json!({
            "metadata": {"name": self.crd_name()},
            "spec": {
                "group": self.group, "scope": scope, "names": {"plural": self.plural, "kind": self.kind},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
                }],
            },
        })
    }
}

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerRef {
    pub(crate) kind: usize,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) block_owner_deletion: bool,
}

impl OwnerRef {
    pub(crate) fn json(&self) -> Value {
        json!({
            "apiVersion": KINDS[self.kind].api_version(), "kind": KINDS[self.kind].kind, "name": self.name,
            "uid": self.uid, "blockOwnerDeletion": self.block_owner_deletion,
        })
    }

    fn read(owner: &Value) -> Self {
        let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
        let is_kind = |kind: &TestKind| kind.api_version() == text("apiVersion") && kind.kind == text("kind");
        Self {
            kind: KINDS.iter().position(is_kind).expect("a kind of this test"),
            name: text("name"),
            uid: text("uid"),
            block_owner_deletion: owner["blockOwnerDeletion"] == true,
        }
    }
}

/// The parts of an object that the garbage collector reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestObject {
    pub(crate) kind: usize,
    /// The namespace; empty for a cluster-scoped object.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) owners: Vec<OwnerRef>,
    pub(crate) finalizers: BTreeSet<String>,
    pub(crate) terminating: bool,
}

impl TestObject {
    /// Reads an object of a kind.
    pub(crate) fn read(kind: usize, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let items = |field: &str| metadata[field].as_array().into_iter().flatten();
        Self {
            kind,
            namespace: metadata["namespace"].as_str().unwrap_or_default().to_owned(),
            name: metadata["name"].as_str().unwrap_or_default().to_owned(),
            owners: items("ownerReferences").map(OwnerRef::read).collect(),
            finalizers: items("finalizers").map(|f| f.as_str().unwrap_or_default().to_owned()).collect(),
            terminating: !metadata["deletionTimestamp"].is_null(),
        }
    }

    /// The body of a create.
    pub(crate) fn json(&self) -> Value {
        let (key, value) = LABEL.split_once('=').unwrap_or_default();
        let owners: Vec<Value> = self.owners.iter().map(OwnerRef::json).collect();
        json!({
            "apiVersion": KINDS[self.kind].api_version(), "kind": KINDS[self.kind].kind,
            "metadata": {
                "name": self.name, "labels": {key: value}, "ownerReferences": owners, "finalizers": self.finalizers,
            },
        })
    }

    pub(crate) fn path(&self) -> String {
        format!("{}/{}", KINDS[self.kind].path(&self.namespace), self.name)
    }

    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.contains(finalizer)
    }

    /// True while foreground deletion waits for its dependents.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.terminating && self.has_finalizer(FOREGROUND)
    }

    /// An owner reference to this object.
    pub(crate) fn reference(&self, uid: &str, block_owner_deletion: bool) -> OwnerRef {
        OwnerRef { kind: self.kind, name: self.name.clone(), uid: uid.to_owned(), block_owner_deletion }
    }
}
