//! Objects with many entries in one list or map. A row names this place and the number of entries in the smaller
//! object. It has a function that makes the object with entries of given numbers.

use serde_json::{Value, json};

/// The numbers of the entries of an object.
pub(crate) type Numbers<'n> = &'n [usize];

/// Objects with many entries in one list or map.
pub(crate) struct Subject {
    pub(crate) what: &'static str,
    pub(crate) kind: &'static Kind,
    /// The number of entries of the smaller object.
    pub(crate) entries: usize,
    /// The object with these entries, without its kind and name.
    pub(crate) object: fn(Numbers<'_>) -> Value,
    /// The configuration for server-side apply. It is the object unless the object cannot be applied.
    pub(crate) applied: fn(Numbers<'_>) -> Value,
    /// The schema of the kind of the object, if the schema has as many entries.
    pub(crate) schema: Option<fn(Numbers<'_>) -> Value>,
    /// Whether an update can change all entries.
    pub(crate) can_change: bool,
}

/// A kind, and the path of its objects.
pub(crate) struct Kind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) collection: &'static str,
    /// Whether the kind is built in. Then it supports strategic merge patches.
    pub(crate) is_built_in: bool,
    /// Whether the server rejects changes of the entries.
    pub(crate) is_immutable: bool,
}

const CONFIGMAP: Kind = Kind {
    api_version: "v1",
    kind: "ConfigMap",
    collection: "/api/v1/namespaces/default/configmaps",
    is_built_in: true,
    is_immutable: false,
};
const POD: Kind = Kind {
    api_version: "v1",
    kind: "Pod",
    collection: "/api/v1/namespaces/default/pods",
    is_built_in: true,
    is_immutable: true,
};
const DEPLOYMENT: Kind = Kind {
    api_version: "apps/v1",
    kind: "Deployment",
    collection: "/apis/apps/v1/namespaces/default/deployments",
    is_built_in: true,
    is_immutable: false,
};
const SERVICE: Kind = Kind {
    api_version: "v1",
    kind: "Service",
    collection: "/api/v1/namespaces/default/services",
    is_built_in: true,
    is_immutable: false,
};
const STORAGE_CLASS: Kind = Kind {
    api_version: "storage.k8s.io/v1",
    kind: "StorageClass",
    collection: "/apis/storage.k8s.io/v1/storageclasses",
    is_built_in: true,
    is_immutable: false,
};
const ROLE: Kind = Kind {
    api_version: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    collection: "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    is_built_in: true,
    is_immutable: false,
};
pub(crate) const CRD: Kind = Kind {
    api_version: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    collection: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    is_built_in: false,
    is_immutable: false,
};
pub(crate) const CUSTOM: Kind = Kind {
    api_version: "example.com/v1",
    kind: "Grown",
    collection: "/apis/example.com/v1/namespaces/default/growns",
    is_built_in: false,
    is_immutable: false,
};

/// A row for a built-in kind or for custom resources of one schema.
const fn row(what: &'static str, kind: &'static Kind, entries: usize, object: fn(Numbers<'_>) -> Value) -> Subject {
    Subject { what, kind, entries, object, applied: object, schema: None, can_change: true }
}

/// A row for custom resources whose schema grows with them.
const fn with_schema(subject: Subject, schema: fn(Numbers<'_>) -> Value) -> Subject {
    Subject { schema: Some(schema), can_change: false, ..subject }
}

/// A list with an item for each number.
fn list(numbers: Numbers<'_>, item: impl Fn(usize) -> Value) -> Value {
    numbers.iter().map(|i| item(*i)).collect()
}

/// A map with an entry for each number.
fn map(numbers: Numbers<'_>, value: impl Fn(usize) -> Value) -> Value {
    Value::Object(numbers.iter().map(|i| (format!("k{i}"), value(*i))).collect())
}

fn text(i: usize) -> Value {
    format!("v{i}").into()
}

/// A ConfigMap each of whose fields has a manager of its own.
fn managed(n: Numbers<'_>, operation: &str) -> Value {
    let manager = |i| {
        json!({"manager": format!("m{i}"), "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {format!("f:k{i}"): {}}}})
    };
    json!({"data": map(n, text), "metadata": {"managedFields": list(n, manager)}})
}

/// The CRD of a kind with one version and this schema.
pub(crate) fn crd(schema: Value) -> Value {
    json!({"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "growns", "kind": "Grown"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

fn crd_with_versions(n: Numbers<'_>) -> Value {
    let version = |i| {
        json!({"name": format!("v{}", i + 1), "served": true, "storage": i == n[0], "schema": {"openAPIV3Schema":
            {"type": "object", "description": format!("version {i}")}}})
    };
    let mut crd = crd(json!({"type": "object"}));
    crd["spec"]["versions"] = list(n, version);
    crd
}

/// An object schema with these properties of the spec.
fn schema_of_spec(properties: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

/// Objects of built-in kinds.
pub(crate) const BUILT_IN: &[Subject] = &[
    row("labels", &CONFIGMAP, 900, |n| json!({"metadata": {"labels": map(n, text)}})),
    row("annotations", &CONFIGMAP, 900, |n| json!({"metadata": {"annotations": map(n, text)}})),
    row(
        "finalizers",
        &CONFIGMAP,
        600,
        |n| json!({"metadata": {"finalizers": list(n, |i| format!("example.com/f{i}").into())}}),
    ),
    row("owner references", &CONFIGMAP, 300, |n| {
        let owner = |i| json!({"apiVersion": "example.com/v1", "kind": "Owner", "name": "o", "uid": format!("u{i}")});
        json!({"metadata": {"ownerReferences": list(n, owner)}})
    }),
    Subject {
        applied: |n| json!({"data": map(n, text)}),
        ..row("managers that update", &CONFIGMAP, 180, |n| managed(n, "Update"))
    },
    Subject {
        applied: |n| json!({"data": map(n, text)}),
        ..row("managers that apply", &CONFIGMAP, 180, |n| managed(n, "Apply"))
    },
    row("data", &CONFIGMAP, 900, |n| json!({"data": map(n, text)})),
    row(
        "containers",
        &POD,
        30,
        |n| json!({"spec": {"containers": list(n, |i| json!({"name": format!("c{i}"), "image": "i"}))}}),
    ),
    row("variables", &DEPLOYMENT, 240, |n| {
        let variables = list(n, |i| json!({"name": format!("V{i}"), "value": "1"}));
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "env": variables}]}}}})
    }),
    row("volumes", &DEPLOYMENT, 120, |n| {
        let volumes = list(n, |i| json!({"name": format!("v{i}"), "emptyDir": {}}));
        let mounts = list(n, |i| json!({"name": format!("v{i}"), "mountPath": format!("/m{i}")}));
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"volumes": volumes, "containers": [{"name": "c", "image": "i", "volumeMounts": mounts}]}}}})
    }),
    row("ports", &SERVICE, 240, |n| {
        let ports = list(n, |i| json!({"name": format!("p{i}"), "port": i + 1}));
        json!({"spec": {"clusterIP": "None", "ports": ports}})
    }),
    row("topologies", &STORAGE_CLASS, 360, |n| {
        let term = |i| json!({"matchLabelExpressions": [{"key": "zone", "values": [format!("z{i}")]}]});
        json!({"provisioner": "example.com/p", "allowedTopologies": list(n, term)})
    }),
    row(
        "rules",
        &ROLE,
        240,
        |n| json!({"rules": list(n, |i| json!({"apiGroups": [""], "resources": [format!("r{i}")], "verbs": ["get"]}))}),
    ),
];

/// CRDs.
pub(crate) const CRDS: &[Subject] = &[
    row("properties", &CRD, 180, |n| {
        crd(schema_of_spec(map(n, |i| json!({"type": "object", "properties": {format!("f{i}"): {"type": "string"}}}))))
    }),
    row("required properties", &CRD, 180, |n| {
        let spec = json!({"type": "object", "properties": map(n, |_| json!({"type": "string"})),
            "required": list(n, |i| format!("k{i}").into())});
        crd(json!({"type": "object", "properties": {"spec": spec}}))
    }),
    row("map keys", &CRD, 120, |n| {
        let item = json!({"type": "object", "properties": map(n, |_| json!({"type": "string"})),
            "required": list(n, |i| format!("k{i}").into())});
        crd(schema_of_spec(json!({"l": {"type": "array", "items": item, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(n, |i| format!("k{i}").into())}})))
    }),
    row("enum", &CRD, 900, |n| crd(schema_of_spec(json!({"e": {"type": "string", "enum": list(n, text)}})))),
    row("allOf", &CRD, 120, |n| {
        let all = list(n, |i| json!({"pattern": format!("^a{i}*$")}));
        crd(schema_of_spec(json!({"s": {"type": "string", "allOf": all}})))
    }),
    row("formats", &CRD, 180, |n| {
        crd(schema_of_spec(map(n, |i| json!({"type": "string", "format": format!("f{i}")}))))
    }),
    row("defaults", &CRD, 120, |n| {
        crd(schema_of_spec(map(n, |i| json!({"type": "string", "default": format!("d{i}")}))))
    }),
    row("names", &CRD, 360, |n| {
        let mut crd = crd(json!({"type": "object"}));
        crd["spec"]["names"]["shortNames"] = list(n, |i| format!("s{i}").into());
        crd["spec"]["names"]["categories"] = list(n, |i| format!("c{i}").into());
        crd
    }),
    row("printer columns", &CRD, 180, |n| {
        let mut crd = crd(json!({"type": "object"}));
        crd["spec"]["versions"][0]["additionalPrinterColumns"] =
            list(n, |i| json!({"name": format!("c{i}"), "type": "string", "jsonPath": ".spec.a"}));
        crd
    }),
    Subject { can_change: false, ..row("versions", &CRD, 30, crd_with_versions) },
];

/// Custom resources of one schema.
pub(crate) const CUSTOM_RESOURCES: &[Subject] = &[
    row("a set", &CUSTOM, 900, |n| json!({"spec": {"set": list(n, text)}})),
    row(
        "a list of type map",
        &CUSTOM,
        300,
        |n| json!({"spec": {"map": list(n, |i| json!({"k": format!("k{i}"), "v": "1"}))}}),
    ),
    row("an atomic list", &CUSTOM, 1800, |n| json!({"spec": {"atomic": list(n, text)}})),
    row("a map of objects", &CUSTOM, 360, |n| json!({"spec": {"objects": map(n, |_| json!({"v": "1"}))}})),
    row("a list without a schema", &CUSTOM, 600, |n| json!({"spec": {"open": {"l": list(n, |i| json!({"a": i}))}}})),
    row("nested objects", &CUSTOM, 200, |n| {
        let below = |below, i: &usize| json!({"a": format!("v{i}"), "b": below, "c": 1, "d": 2, "e": 3});
        json!({"spec": {"open": n.iter().fold(json!({}), below)}})
    }),
    row("a map without a schema", &CUSTOM, 600, |n| json!({"spec": {"open": map(n, |i| json!({"a": i}))}})),
];

/// Custom resources whose schemas grow with them.
pub(crate) const GROWN_SCHEMAS: &[Subject] = &[
    with_schema(
        row("properties with defaults", &CUSTOM, 300, |n| json!({"spec": map(&n[..n.len() / 2], text)})),
        |n| schema_of_spec(map(n, |_| json!({"type": "string", "default": "d"}))),
    ),
    with_schema(row("patterns of a string", &CUSTOM, 180, |_| json!({"spec": {"s": "aaa"}})), |n| {
        let all = list(n, |i| json!({"pattern": format!("^a{{1,3}}b{{0,{}}}$", i % 9)}));
        schema_of_spec(json!({"s": {"type": "string", "allOf": all}}))
    }),
    with_schema(row("items that an enum lists", &CUSTOM, 300, |n| json!({"spec": {"l": list(n, text)}})), |n| {
        schema_of_spec(json!({"l": {"type": "array", "items": {"type": "string", "enum": list(n, text)}}}))
    }),
];

/// The schema of the custom resources of [`CUSTOM_RESOURCES`].
pub(crate) fn grown_schema() -> Value {
    let value =
        json!({"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string"}}, "required": ["k"]});
    schema_of_spec(json!({
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "map": {"type": "array", "items": value, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        "atomic": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
        "objects": {"type": "object", "additionalProperties": {"type": "object", "properties": {"v": {"type": "string"}}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }))
}
