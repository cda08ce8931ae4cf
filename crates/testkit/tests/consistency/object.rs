//! What the test remembers of an object: little enough to keep for a million changes, and enough to tell every version
//! from every other and to say who selects it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;

use crate::kind::{Kind, NAMESPACES};

/// Which object, in the order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// The place in [`NAMESPACES`]; 0 in the cluster's scope.
    pub(crate) namespace: u8,
    /// The object is called `x` and this.
    pub(crate) name: u8,
}

/// What selectors look at, and the mark of the write that made a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) key: Key,
    /// The label `mark`: no two writes have the same.
    pub(crate) mark: u64,
    /// The label `pick`: 0 for none, 1 for no, 2 for yes.
    pub(crate) pick: u8,
    /// The label `shade`: 0, 1, 2 for a, b, c.
    pub(crate) shade: u8,
    /// What the kind can be selected by. Means nothing where only metadata is shown.
    pub(crate) fields: [u8; 2],
}

/// A version of an object as some form shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) revision: u64,
    pub(crate) shape: Shape,
    /// A sum over all of its JSON but the resourceVersion, kind and apiVersion, if it came as such.
    pub(crate) sum: Option<u64>,
    pub(crate) extent: Extent,
}

impl Item {
    /// Whether this is how a form shows that version.
    pub(crate) fn shows(&self, version: &Item) -> bool {
        let mut shape = version.shape;
        if self.extent == Extent::Metadata {
            shape.fields = self.shape.fields;
        }
        self.revision == version.revision && self.shape == shape && (self.sum.is_none() || self.sum == version.sum)
    }
}

/// The members of an object that the test looks at.
#[derive(Debug, Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    spec: Spec<'a>,
    #[serde(borrow, default)]
    status: Status<'a>,
    r#type: Option<&'a str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: Option<&'a str>,
    namespace: Option<&'a str>,
    resource_version: Option<&'a str>,
    #[serde(borrow, default)]
    labels: BTreeMap<&'a str, &'a str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    node_name: Option<&'a str>,
    #[serde(default)]
    unschedulable: bool,
}

#[derive(Debug, Default, Deserialize)]
struct Status<'a> {
    phase: Option<&'a str>,
}

/// The fields that some kind can be selected by.
pub(crate) struct Fields<'a> {
    pub(crate) r#type: Option<&'a str>,
    pub(crate) node_name: Option<&'a str>,
    pub(crate) unschedulable: bool,
    pub(crate) phase: Option<&'a str>,
}

/// Reads a resourceVersion.
pub(crate) fn revision(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no resourceVersion: {text:?}"))
}

/// How much of an object is shown, and so can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The server's own JSON, every byte of which counts.
    Text,
    /// All of the object, in JSON that was made from something else.
    Members,
    /// Its metadata.
    Metadata,
}

/// Reads an object.
pub(crate) fn item(kind: &Kind, json: &str, extent: Extent) -> Item {
    let members: Members<'_> = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    let metadata = &members.metadata;
    let label = |key: &str| metadata.labels.get(key).copied().unwrap_or_default();
    let fields = Fields {
        r#type: members.r#type,
        node_name: members.spec.node_name,
        unschedulable: members.spec.unschedulable,
        phase: members.status.phase,
    };
    let shape = Shape {
        key: key(metadata.namespace, metadata.name.unwrap_or_default()),
        mark: label("mark").parse().unwrap_or_else(|_| panic!("no mark: {json}")),
        pick: place(&["", "no", "yes"], label("pick")),
        shade: place(&["a", "b", "c"], label("shade")),
        fields: (kind.fields)(&fields),
    };
    let version = metadata.resource_version.unwrap_or_default();
    let sum = (extent == Extent::Text).then(|| sum(json, version));
    Item { revision: revision(metadata.resource_version), shape, sum, extent }
}

fn place(of: &[&str], label: &str) -> u8 {
    of.iter().position(|known| *known == label).unwrap_or_else(|| panic!("label {label:?} was never written")) as u8
}

fn key(namespace: Option<&str>, name: &str) -> Key {
    let known = |namespace: &str| NAMESPACES.iter().position(|known| *known == namespace);
    let namespace = namespace.map_or(0, |n| known(n).unwrap_or_else(|| panic!("namespace {n:?} is not the test's")));
    let number = name.strip_prefix('x').and_then(|number| number.parse().ok());
    Key { namespace: namespace as u8, name: number.unwrap_or_else(|| panic!("{name:?} is not the test's")) }
}

/// Sums up an object from its metadata on, with its revision left out.
fn sum(json: &str, revision: &str) -> u64 {
    let json = &json[json.find("\"metadata\"").unwrap_or_default()..];
    let mut hasher = DefaultHasher::new();
    match json.split_once(&format!("\"resourceVersion\":\"{revision}\",")) {
        Some((before, after)) => (before, after).hash(&mut hasher),
        None => panic!("no resourceVersion in {json}"),
    }
    hasher.finish()
}
