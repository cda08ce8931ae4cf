//! The kinds that the test writes, as data: their paths, the content of their objects, and their selectors.

use serde_json::{Value, json};

use crate::object::{ObjectAttributes, SelectableFields};

/// The namespaces of the objects, by [`crate::object::ObjectKey::namespace`].
pub(crate) const NAMESPACES: [&str; 3] = ["n0", "n1", "n2"];
/// The number of object names in each namespace.
pub(crate) const NAMES: usize = 6;

/// A kind that the test writes.
pub(crate) struct TestKind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespaced: bool,
    /// Whether [`definition`] is the kind's CRD. Custom resources have no Protobuf and no strategic merge patch.
    pub(crate) is_custom: bool,
    /// The content of an object, chosen by a number.
    body: fn(usize) -> Value,
    /// Encodes the values of the selectable fields.
    pub(crate) fields: fn(&SelectableFields<'_>) -> [u8; 2],
    /// A write to a subresource.
    pub(crate) subresource_write: Option<SubresourceWrite>,
    /// Selectors that only this kind supports.
    pub(crate) selectors: &'static [Selector],
}

/// A write to a subresource that changes a selectable field.
pub(crate) struct SubresourceWrite {
    pub(crate) subresource: &'static str,
    pub(crate) method: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) bodies: &'static [&'static str],
}

/// Label and field selectors: the query string of the request, and the predicate that the model evaluates.
#[derive(Clone, Copy)]
pub(crate) struct Selector {
    pub(crate) query: &'static str,
    pub(crate) matches: fn(&ObjectAttributes) -> bool,
}

impl TestKind {
    /// The path of all objects, or of the objects in a namespace.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        match namespace {
            Some(namespace) => format!("{root}/{}/namespaces/{namespace}/{}", self.version, self.plural),
            None => format!("{root}/{}/{}", self.version, self.plural),
        }
    }

    /// The value of `apiVersion`.
    fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Builds an object.
    pub(crate) fn object(&self, metadata: Value, variant: usize) -> Value {
        let mut object = (self.body)(variant);
        object["apiVersion"] = json!(self.api_version());
        object["kind"] = json!(self.kind);
        object["metadata"] = metadata;
        object
    }
}

/// The one-based index of a value; 0 if there is no value.
fn one_based_index(text: Option<&str>, values: &[&str]) -> u8 {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return 0 };
    1 + values.iter().position(|value| *value == text).unwrap_or_else(|| panic!("no writer sets {text:?}")) as u8
}

const TYPES: [&str; 3] = ["Opaque", "example.com/a", "example.com/b"];
const NODES: [&str; 2] = ["node-a", "node-b"];
const PHASES: [&str; 2] = ["Pending", "Running"];
const COLORS: [&str; 2] = ["red", "blue"];

/// The kinds that the test writes.
pub(crate) static KINDS: &[TestKind] = &[
    TestKind {
        group: "",
        version: "v1",
        kind: "ConfigMap",
        plural: "configmaps",
        namespaced: true,
        is_custom: false,
        body: |variant| json!({"data": {"variant": variant.to_string()}}),
        fields: |_| [0, 0],
        subresource_write: None,
        selectors: &[],
    },
    TestKind {
        group: "",
        version: "v1",
        kind: "Secret",
        plural: "secrets",
        namespaced: true,
        is_custom: false,
        body: |variant| json!({"type": TYPES[variant % 3], "data": {"k": "dg=="}}),
        fields: |fields| [one_based_index(fields.r#type, &TYPES), 0],
        subresource_write: None,
        selectors: &[
            Selector { query: "fieldSelector=type%3DOpaque", matches: |o| o.fields[0] == 1 },
            Selector { query: "fieldSelector=type%21%3Dexample.com/a", matches: |o| o.fields[0] != 2 },
        ],
    },
    TestKind {
        group: "",
        version: "v1",
        kind: "Pod",
        plural: "pods",
        namespaced: true,
        is_custom: false,
        body: |variant| {
            let spec = json!({"containers": [{"name": "a", "image": "b"}]});
            match variant % 3 {
                0 => json!({ "spec": spec }),
                node => json!({"spec": {"nodeName": NODES[node - 1], "containers": spec["containers"]}}),
            }
        },
        fields: |fields| [one_based_index(fields.node_name, &NODES), one_based_index(fields.phase, &PHASES)],
        subresource_write: Some(SubresourceWrite {
            subresource: "status",
            method: "PATCH",
            media_type: "application/merge-patch+json",
            bodies: &[r#"{"status": {"phase": "Running"}}"#, r#"{"status": {"phase": "Pending"}}"#],
        }),
        selectors: &[
            Selector { query: "fieldSelector=spec.nodeName%3Dnode-a", matches: |o| o.fields[0] == 1 },
            Selector { query: "fieldSelector=spec.nodeName%3D", matches: |o| o.fields[0] == 0 },
            Selector { query: "fieldSelector=status.phase%21%3DRunning", matches: |o| o.fields[1] != 2 },
            Selector {
                query: "fieldSelector=spec.nodeName%3Dnode-b,status.phase%3DPending&labelSelector=pick",
                matches: |o| o.fields == [2, 1] && o.pick != 0,
            },
        ],
    },
    TestKind {
        group: "",
        version: "v1",
        kind: "Node",
        plural: "nodes",
        namespaced: false,
        is_custom: false,
        body: |variant| json!({"spec": {"unschedulable": variant.is_multiple_of(2)}}),
        fields: |fields| [u8::from(fields.unschedulable), 0],
        subresource_write: None,
        selectors: &[Selector { query: "fieldSelector=spec.unschedulable%3Dtrue", matches: |o| o.fields[0] == 1 }],
    },
    TestKind {
        group: "coordination.k8s.io",
        version: "v1",
        kind: "Lease",
        plural: "leases",
        namespaced: true,
        is_custom: false,
        body: |variant| json!({"spec": {"holderIdentity": format!("holder-{variant}")}}),
        fields: |_| [0, 0],
        subresource_write: None,
        selectors: &[],
    },
    TestKind {
        group: "consistency.example.com",
        version: "v1",
        kind: "Widget",
        plural: "widgets",
        namespaced: true,
        is_custom: true,
        body: |variant| json!({"spec": {"color": COLORS[variant % 2], "size": variant}}),
        fields: |fields| [one_based_index(fields.color, &COLORS), 0],
        subresource_write: None,
        selectors: &[Selector { query: "fieldSelector=spec.color%3Dred", matches: |o| o.fields[0] == 1 }],
    },
];

/// The CRD of the custom kind in [`KINDS`].
pub(crate) fn crd() -> Value {
    let properties = json!({"color": {"type": "string"}, "size": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    json!({
        "metadata": {"name": "widgets.consistency.example.com"},
        "spec": {
            "group": "consistency.example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "selectableFields": [{"jsonPath": ".spec.color"}],
            }],
        },
    })
}

/// Selectors for every kind.
pub(crate) static COMMON_SELECTORS: &[Selector] = &[
    Selector { query: "", matches: |_| true },
    Selector { query: "labelSelector=pick%3Dyes", matches: |o| o.pick == 2 },
    Selector { query: "labelSelector=pick%21%3Dyes", matches: |o| o.pick != 2 },
    Selector { query: "labelSelector=shade%20in%20(a,b),pick", matches: |o| o.shade < 2 && o.pick != 0 },
    Selector { query: "labelSelector=%21pick,shade%20notin%20(c)", matches: |o| o.pick == 0 && o.shade != 2 },
    Selector { query: "fieldSelector=metadata.name%3Dx3", matches: |o| o.key.name == 3 },
    Selector {
        query: "fieldSelector=metadata.name%21%3Dx3&labelSelector=pick%3Dno",
        matches: |o| o.key.name != 3 && o.pick == 1,
    },
];

/// Additional selectors for namespaced kinds.
pub(crate) static NAMESPACED_SELECTORS: &[Selector] = &[Selector {
    query: "fieldSelector=metadata.namespace%3Dn1&labelSelector=shade%3Da",
    matches: |o| o.key.namespace == 1 && o.shade == 0,
}];
