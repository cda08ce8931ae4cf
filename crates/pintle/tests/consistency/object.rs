//! The data that the test keeps of an object version. It is small enough for a million changes, and sufficient to
//! distinguish all versions and to evaluate selectors.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;

use crate::kind::{NAMESPACES, TestKind};

/// The identity of an object. Keys sort like the objects of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey {
    /// The index in [`NAMESPACES`]; 0 for a cluster-scoped kind.
    pub(crate) namespace: u8,
    /// The number `N` of an object with the name `xN`.
    pub(crate) name: u8,
}

/// The fields that selectors match, and the identifier of the write that made the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectAttributes {
    pub(crate) key: ObjectKey,
    /// The label `write-id`. It is unique for each write.
    pub(crate) write_id: u64,
    /// The label `pick`: 0 if it is missing, 1 for `no`, 2 for `yes`.
    pub(crate) pick: u8,
    /// The label `shade`: 0, 1, 2 for `a`, `b`, `c`.
    pub(crate) shade: u8,
    /// The values of the kind's selectable fields. They are meaningless for [`Detail::Metadata`].
    pub(crate) fields: [u8; 2],
}

/// A version of an object, as a list or watch shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectVersion {
    pub(crate) revision: u64,
    pub(crate) attributes: ObjectAttributes,
    /// A hash of the object's JSON without resourceVersion, kind and apiVersion. Only for [`Detail::ExactJson`].
    pub(crate) digest: Option<u64>,
    pub(crate) detail: Detail,
}

impl ObjectVersion {
    /// Whether this shows `version`, as far as the response format allows to compare.
    pub(crate) fn shows(&self, version: &ObjectVersion) -> bool {
        let mut attributes = version.attributes;
        if self.detail == Detail::Metadata {
            attributes.fields = self.attributes.fields;
        }
        self.revision == version.revision
            && self.attributes == attributes
            && (self.digest.is_none() || self.digest == version.digest)
    }
}

/// The parts of an object that the test reads.
#[derive(Debug, Deserialize)]
struct ParsedObject<'a> {
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
    color: Option<&'a str>,
}

#[derive(Debug, Default, Deserialize)]
struct Status<'a> {
    phase: Option<&'a str>,
}

/// The fields that field selectors of any kind can name.
pub(crate) struct SelectableFields<'a> {
    pub(crate) r#type: Option<&'a str>,
    pub(crate) node_name: Option<&'a str>,
    pub(crate) unschedulable: bool,
    pub(crate) phase: Option<&'a str>,
    pub(crate) color: Option<&'a str>,
}

/// Parses a resourceVersion.
pub(crate) fn parse_revision(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("invalid resourceVersion: {text:?}"))
}

/// How much of an object a response contains, and can therefore be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// The JSON that the server sent. It has to be equal byte for byte.
    ExactJson,
    /// The whole object, which the test has converted to JSON.
    Object,
    /// The metadata only.
    Metadata,
}

/// Parses an object. `None` for an object of the server itself, such as the server's identity lease.
pub(crate) fn parse_object(kind: &TestKind, json: &str, detail: Detail) -> Option<ObjectVersion> {
    let object: ParsedObject<'_> = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    let metadata = &object.metadata;
    if !metadata.labels.contains_key("write-id") {
        return None;
    }
    let label = |key: &str| metadata.labels.get(key).copied().unwrap_or_default();
    let fields = SelectableFields {
        r#type: object.r#type,
        node_name: object.spec.node_name,
        unschedulable: object.spec.unschedulable,
        phase: object.status.phase,
        color: object.spec.color,
    };
    let attributes = ObjectAttributes {
        key: key(metadata.namespace, metadata.name.unwrap_or_default()),
        write_id: label("write-id").parse().unwrap_or_else(|_| panic!("no write-id: {json}")),
        pick: index_of(&["", "no", "yes"], label("pick")),
        shade: index_of(&["a", "b", "c"], label("shade")),
        fields: (kind.fields)(&fields),
    };
    let version = metadata.resource_version.unwrap_or_default();
    let digest = (detail == Detail::ExactJson).then(|| digest(json, version));
    Some(ObjectVersion { revision: parse_revision(metadata.resource_version), attributes, digest, detail })
}

fn index_of(values: &[&str], label: &str) -> u8 {
    let index = values.iter().position(|value| *value == label);
    index.unwrap_or_else(|| panic!("no writer sets the label value {label:?}")) as u8
}

fn key(namespace: Option<&str>, name: &str) -> ObjectKey {
    let index = |namespace: &str| NAMESPACES.iter().position(|name| *name == namespace);
    let namespace = namespace.map_or(0, |n| index(n).unwrap_or_else(|| panic!("no writer uses the namespace {n:?}")));
    let number = name.strip_prefix('x').and_then(|number| number.parse().ok());
    ObjectKey { namespace: namespace as u8, name: number.unwrap_or_else(|| panic!("no writer uses the name {name:?}")) }
}

/// Hashes an object's JSON from `metadata` on, without the resourceVersion.
fn digest(json: &str, revision: &str) -> u64 {
    let json = &json[json.find("\"metadata\"").unwrap_or_default()..];
    let mut hasher = DefaultHasher::new();
    match json.split_once(&format!("\"resourceVersion\":\"{revision}\",")) {
        Some((before, after)) => (before, after).hash(&mut hasher),
        None => panic!("no resourceVersion in {json}"),
    }
    hasher.finish()
}
