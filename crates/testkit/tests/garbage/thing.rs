//! What owns and is owned here: objects of kinds of every sort, as far as the garbage collector looks at them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// A finalizer that is nobody's but ours.
pub(crate) const HOLD: &str = "example.com/hold";
pub(crate) const ORPHAN: &str = "orphan";
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The namespaces of things.
pub(crate) const NAMESPACES: [&str; 2] = ["one", "two"];

/// What things are told from others by.
pub(crate) const LABEL: &str = "made-by=dice";

/// A kind.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) life: Life,
}

/// When a kind is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Always: it is built in.
    Always,
    /// From before the first thing to the end.
    Defined,
    /// It is defined in the middle.
    Late,
    /// Its definition is deleted in the middle.
    Early,
    /// Never.
    Never,
}

const fn kind(group: &'static str, kind: &'static str, plural: &'static str, namespaced: bool, life: Life) -> Kind {
    Kind { group, kind, plural, namespaced, life }
}

/// All kinds; elsewhere a kind is its place in here.
pub(crate) const KINDS: [Kind; 10] = [
    kind("", "ConfigMap", "configmaps", true, Life::Always),
    kind("", "Secret", "secrets", true, Life::Always),
    kind("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false, Life::Always),
    kind("example.com", "Widget", "widgets", true, Life::Defined),
    kind("example.com", "Zone", "zones", false, Life::Defined),
    kind("late.example.com", "Gadget", "gadgets", true, Life::Late),
    kind("late.example.com", "Region", "regions", false, Life::Late),
    kind("early.example.com", "Trinket", "trinkets", true, Life::Early),
    kind("early.example.com", "Planet", "planets", false, Life::Early),
    kind("nowhere.example.com", "Ghost", "ghosts", true, Life::Never),
];

impl Kind {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { "v1".into() } else { format!("{}/v1", self.group) }
    }

    /// The path of the objects in a namespace, or of all where that is empty.
    pub(crate) fn path(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        format!("/{root}/{}{place}/{}", self.api_version(), self.plural)
    }

    /// The name of the definition of a custom kind.
    pub(crate) fn definition_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// The definition of a custom kind.
    pub(crate) fn definition(&self) -> Value {
        let scope = if self.namespaced { "Namespaced" } else { "Cluster" };
        json!({
            "metadata": {"name": self.definition_name()},
            "spec": {
                "group": self.group, "scope": scope, "names": {"plural": self.plural, "kind": self.kind},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
                }],
            },
        })
    }
}

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) kind: usize,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) blocks: bool,
}

impl Reference {
    pub(crate) fn json(&self) -> Value {
        json!({
            "apiVersion": KINDS[self.kind].api_version(), "kind": KINDS[self.kind].kind, "name": self.name,
            "uid": self.uid, "blockOwnerDeletion": self.blocks,
        })
    }

    fn read(owner: &Value) -> Self {
        let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
        let is_kind = |kind: &Kind| kind.api_version() == text("apiVersion") && kind.kind == text("kind");
        Self {
            kind: KINDS.iter().position(is_kind).expect("a kind of ours"),
            name: text("name"),
            uid: text("uid"),
            blocks: owner["blockOwnerDeletion"] == true,
        }
    }
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thing {
    pub(crate) kind: usize,
    /// Empty for an object of the cluster.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) owners: Vec<Reference>,
    pub(crate) finalizers: BTreeSet<String>,
    pub(crate) terminating: bool,
}

impl Thing {
    /// What there is to know of an object of a kind.
    pub(crate) fn read(kind: usize, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let items = |field: &str| metadata[field].as_array().into_iter().flatten();
        Self {
            kind,
            namespace: metadata["namespace"].as_str().unwrap_or_default().to_owned(),
            name: metadata["name"].as_str().unwrap_or_default().to_owned(),
            owners: items("ownerReferences").map(Reference::read).collect(),
            finalizers: items("finalizers").map(|f| f.as_str().unwrap_or_default().to_owned()).collect(),
            terminating: !metadata["deletionTimestamp"].is_null(),
        }
    }

    /// The object that is to be created.
    pub(crate) fn json(&self) -> Value {
        let (key, value) = LABEL.split_once('=').unwrap_or_default();
        let owners: Vec<Value> = self.owners.iter().map(Reference::json).collect();
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

    pub(crate) fn has(&self, finalizer: &str) -> bool {
        self.finalizers.contains(finalizer)
    }

    /// True while its dependents are to go before it does.
    pub(crate) fn waits(&self) -> bool {
        self.terminating && self.has(FOREGROUND)
    }

    /// A reference to this one.
    pub(crate) fn reference(&self, uid: &str, blocks: bool) -> Reference {
        Reference { kind: self.kind, name: self.name.clone(), uid: uid.to_owned(), blocks }
    }
}
