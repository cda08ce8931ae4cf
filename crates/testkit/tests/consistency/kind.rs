//! The kinds that the test writes, as data: where they are, what an object looks like, and by which of its fields
//! clients can select.

use serde_json::{Value, json};

use crate::object::{Fields, Shape};

/// The namespaces that objects live in, by [`crate::object::Key::namespace`].
pub(crate) const NAMESPACES: [&str; 3] = ["n0", "n1", "n2"];
/// How many names there are in each namespace.
pub(crate) const NAMES: usize = 6;

/// A kind that the test writes.
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespaced: bool,
    /// An object's own members: which is told by a number.
    body: fn(usize) -> Value,
    /// The values of the fields that can be selected by.
    pub(crate) fields: fn(&Fields<'_>) -> [u8; 2],
    /// A write of one field below the object: subresource, method, media type and body; `NAME` stands for the object's.
    pub(crate) aside: Option<Aside>,
    /// Field selectors that only this kind has.
    pub(crate) selections: &'static [Selection],
}

/// A write to a subresource that changes a selectable field.
pub(crate) struct Aside {
    pub(crate) subresource: &'static str,
    pub(crate) method: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) bodies: &'static [&'static str],
}

/// A selector: what a client sends, and what it means.
#[derive(Clone, Copy)]
pub(crate) struct Selection {
    pub(crate) query: &'static str,
    pub(crate) matches: fn(&Shape) -> bool,
}

impl Kind {
    /// The path of all objects, or of those of a namespace.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        match namespace {
            Some(namespace) => format!("{root}/{}/namespaces/{namespace}/{}", self.version, self.plural),
            None => format!("{root}/{}/{}", self.version, self.plural),
        }
    }

    /// A new object.
    pub(crate) fn object(&self, metadata: Value, variant: usize) -> Value {
        let mut object = (self.body)(variant);
        object["metadata"] = metadata;
        object
    }
}

/// Where a text stands in a list, from 1 on; 0 for none.
fn place(text: Option<&str>, of: &[&str]) -> u8 {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return 0 };
    1 + of.iter().position(|known| *known == text).unwrap_or_else(|| panic!("{text:?} was never written")) as u8
}

const TYPES: [&str; 3] = ["Opaque", "example.com/a", "example.com/b"];
const NODES: [&str; 2] = ["node-a", "node-b"];
const PHASES: [&str; 2] = ["Pending", "Running"];

/// What the test writes.
pub(crate) static KINDS: &[Kind] = &[
    Kind {
        group: "",
        version: "v1",
        plural: "configmaps",
        namespaced: true,
        body: |variant| json!({"data": {"variant": variant.to_string()}}),
        fields: |_| [0, 0],
        aside: None,
        selections: &[],
    },
    Kind {
        group: "",
        version: "v1",
        plural: "secrets",
        namespaced: true,
        body: |variant| json!({"type": TYPES[variant % 3], "data": {"k": "dg=="}}),
        fields: |fields| [place(fields.r#type, &TYPES), 0],
        aside: None,
        selections: &[
            Selection { query: "fieldSelector=type%3DOpaque", matches: |o| o.fields[0] == 1 },
            Selection { query: "fieldSelector=type%21%3Dexample.com/a", matches: |o| o.fields[0] != 2 },
        ],
    },
    Kind {
        group: "",
        version: "v1",
        plural: "pods",
        namespaced: true,
        body: |variant| {
            let spec = json!({"containers": [{"name": "a", "image": "b"}]});
            match variant % 3 {
                0 => json!({ "spec": spec }),
                node => json!({"spec": {"nodeName": NODES[node - 1], "containers": spec["containers"]}}),
            }
        },
        fields: |fields| [place(fields.node_name, &NODES), place(fields.phase, &PHASES)],
        aside: Some(Aside {
            subresource: "status",
            method: "PATCH",
            media_type: "application/merge-patch+json",
            bodies: &[r#"{"status": {"phase": "Running"}}"#, r#"{"status": {"phase": "Pending"}}"#],
        }),
        selections: &[
            Selection { query: "fieldSelector=spec.nodeName%3Dnode-a", matches: |o| o.fields[0] == 1 },
            Selection { query: "fieldSelector=spec.nodeName%3D", matches: |o| o.fields[0] == 0 },
            Selection { query: "fieldSelector=status.phase%21%3DRunning", matches: |o| o.fields[1] != 2 },
            Selection {
                query: "fieldSelector=spec.nodeName%3Dnode-b,status.phase%3DPending&labelSelector=pick",
                matches: |o| o.fields == [2, 1] && o.pick != 0,
            },
        ],
    },
    Kind {
        group: "",
        version: "v1",
        plural: "nodes",
        namespaced: false,
        body: |variant| json!({"spec": {"unschedulable": variant.is_multiple_of(2)}}),
        fields: |fields| [u8::from(fields.unschedulable), 0],
        aside: None,
        selections: &[Selection { query: "fieldSelector=spec.unschedulable%3Dtrue", matches: |o| o.fields[0] == 1 }],
    },
    Kind {
        group: "coordination.k8s.io",
        version: "v1",
        plural: "leases",
        namespaced: true,
        body: |variant| json!({"spec": {"holderIdentity": format!("holder-{variant}")}}),
        fields: |_| [0, 0],
        aside: None,
        selections: &[],
    },
];

/// Selectors that every kind has.
pub(crate) static COMMON: &[Selection] = &[
    Selection { query: "", matches: |_| true },
    Selection { query: "labelSelector=pick%3Dyes", matches: |o| o.pick == 2 },
    Selection { query: "labelSelector=pick%21%3Dyes", matches: |o| o.pick != 2 },
    Selection { query: "labelSelector=shade%20in%20(a,b),pick", matches: |o| o.shade < 2 && o.pick != 0 },
    Selection { query: "labelSelector=%21pick,shade%20notin%20(c)", matches: |o| o.pick == 0 && o.shade != 2 },
    Selection { query: "fieldSelector=metadata.name%3Dx3", matches: |o| o.key.name == 3 },
    Selection {
        query: "fieldSelector=metadata.name%21%3Dx3&labelSelector=pick%3Dno",
        matches: |o| o.key.name != 3 && o.pick == 1,
    },
];

/// Selectors that kinds with namespaces have beside those.
pub(crate) static NAMESPACED: &[Selection] = &[Selection {
    query: "fieldSelector=metadata.namespace%3Dn1&labelSelector=shade%3Da",
    matches: |o| o.key.namespace == 1 && o.shade == 0,
}];
