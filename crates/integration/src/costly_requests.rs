//! Requests that cost a server as much memory or time as possible for their size. Tests and the benchmark send them
//! beside the requests of well-behaved clients.

use serde_json::{Value, json};

/// A costly request.
#[derive(Clone, Copy)]
pub struct CostlyRequest {
    /// A description.
    pub name: &'static str,
    /// The objects that the request needs, each with the path of its collection.
    pub setup: fn() -> Vec<(&'static str, Value)>,
    /// The path, with the query.
    pub path: &'static str,
    /// The media type of the body.
    pub media_type: &'static str,
    /// The body of the request, a POST.
    pub body: fn() -> Vec<u8>,
    /// The status codes that the response may have.
    pub codes: &'static [u16],
}

impl std::fmt::Debug for CostlyRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
/// The codes of errors for a write above its budget, and for a write after its deadline.
const TOO_LARGE: u16 = 413;
const TIMEOUT: u16 = 504;

fn nothing() -> Vec<(&'static str, Value)> {
    Vec::new()
}

/// All costly requests. None of them leaves an object of more than one megabyte.
pub const COSTLY_REQUESTS: &[CostlyRequest] = &[
    CostlyRequest {
        name: "a custom resource with a long string for 10,000 patterns",
        setup: || {
            let patterns: Vec<Value> = (0..10_000).map(|i| json!({"pattern": format!("^a{i}b+c$")})).collect();
            vec![crd("pattern", json!({"s": {"type": "string", "allOf": patterns}}))]
        },
        path: "/apis/costly.example.com/v1/namespaces/default/patterns",
        media_type: JSON,
        body: || custom("Pattern", &json!({"s": "x".repeat(200_000)})),
        codes: &[422, TOO_LARGE],
    },
    CostlyRequest {
        name: "a custom resource whose patterns take longer than the request",
        setup: || {
            let patterns: Vec<Value> = (0..400).map(|i| json!({"pattern": format!("(x+x+)+y{i}")})).collect();
            vec![crd("slowpattern", json!({"s": {"type": "string", "allOf": patterns}}))]
        },
        path: "/apis/costly.example.com/v1/namespaces/default/slowpatterns?timeout=1s",
        media_type: JSON,
        body: || custom("Slowpattern", &json!({"s": "x".repeat(2_000_000)})),
        codes: &[422, TOO_LARGE, TIMEOUT],
    },
    CostlyRequest {
        name: "a custom resource with 100,000 large defaults",
        setup: || {
            let item = json!({"type": "object", "properties": {"a": {"type": "string", "default": "d".repeat(3000)}}});
            vec![crd("default", json!({"l": {"type": "array", "items": item}}))]
        },
        path: "/apis/costly.example.com/v1/namespaces/default/defaults",
        media_type: JSON,
        body: || custom("Default", &json!({"l": vec![json!({}); 100_000]})),
        codes: &[TOO_LARGE],
    },
    CostlyRequest {
        name: "an admission policy that replaces each character of a text",
        setup: || {
            let s = "object.data.s";
            policy("replace", &[], &format!("{s}.replace('', {s}).replace('', {s}).replace('a', {s}).size() > 0"))
        },
        path: CONFIG_MAPS,
        media_type: JSON,
        body: || config_map("replace"),
        codes: &[422],
    },
    CostlyRequest {
        name: "an admission policy that makes many long texts",
        setup: || {
            policy(
                "texts",
                &[],
                "object.data.l.split(',').map(x, x.replace('a', object.data.s)).map(x, x + 'b').size() > 0",
            )
        },
        path: CONFIG_MAPS,
        media_type: JSON,
        body: || config_map("texts"),
        codes: &[201, 422],
    },
    CostlyRequest {
        name: "an admission policy whose variables double a list",
        setup: || policy("lists", &chain("[1, 2, 3]", 27, |v| format!("{v} + {v}")), "variables.v27.size() > 0"),
        path: CONFIG_MAPS,
        media_type: JSON,
        body: || config_map("lists"),
        codes: &[422],
    },
    CostlyRequest {
        name: "an admission policy whose variables quadruple a text",
        setup: || {
            let next = |v: &str| format!("{v} + {v} + {v} + {v}");
            policy("strings", &chain("object.data.s", 14, next), "variables.v14.size() > 0")
        },
        path: CONFIG_MAPS,
        media_type: JSON,
        body: || config_map("strings"),
        codes: &[422],
    },
    CostlyRequest {
        name: "an admission policy whose variables format a text",
        setup: || {
            let next = |v: &str| format!("'%s%s%s%s'.format([{v}, {v}, {v}, {v}])");
            policy("formats", &chain("object.data.s", 14, next), "variables.v14.size() > 0")
        },
        path: CONFIG_MAPS,
        media_type: JSON,
        body: || config_map("formats"),
        codes: &[422],
    },
    CostlyRequest {
        name: "an admission policy that compares values which share others",
        setup: || {
            let variables = chain("[1]", 40, |v| format!("[{v}, {v}]"));
            policy("shared", &variables, "variables.v40 == variables.v40")
        },
        path: "/api/v1/namespaces/default/configmaps?timeout=2s",
        media_type: JSON,
        body: || config_map("shared"),
        codes: &[422, TOO_LARGE, TIMEOUT],
    },
    CostlyRequest {
        name: "a mutating admission policy that adds a long text",
        setup: || {
            let variables = chain("object.data.s", 14, |v| format!("{v} + {v} + {v} + {v}"));
            mutating_policy("mutation", &variables, "Object{data: {\"x\": variables.v14}}")
        },
        path: CONFIG_MAPS,
        media_type: JSON,
        body: || config_map("mutation"),
        codes: &[403],
    },
    CostlyRequest {
        name: "a mutating admission policy whose object shares its parts",
        setup: || {
            let variables = chain("[\"x\"]", 40, |v| format!("[{v}, {v}]"));
            mutating_policy("tree", &variables, "Object{data: {\"x\": dyn(variables.v40)}}")
        },
        path: "/api/v1/namespaces/default/configmaps?timeout=2s",
        media_type: JSON,
        body: || config_map("tree"),
        codes: &[403, TOO_LARGE, TIMEOUT],
    },
    CostlyRequest {
        name: "a pod with 1.2 million empty containers in Protobuf",
        setup: nothing,
        path: "/api/v1/namespaces/default/pods",
        media_type: "application/vnd.kubernetes.protobuf",
        body: || pod_in_protobuf(1_200_000),
        codes: &[TOO_LARGE],
    },
    CostlyRequest {
        name: "a pod with 30,000 empty containers",
        setup: nothing,
        path: "/api/v1/namespaces/default/pods",
        media_type: JSON,
        body: || {
            json!({"metadata": {"name": "empty"}, "spec": {"containers": vec![json!({}); 30_000]}}).to_string().into()
        },
        codes: &[422],
    },
    CostlyRequest {
        name: "a config map with 500,000 invalid finalizers",
        setup: nothing,
        path: CONFIG_MAPS,
        media_type: JSON,
        body: || json!({"metadata": {"name": "finalizers", "finalizers": vec!["/"; 500_000]}}).to_string().into(),
        codes: &[422],
    },
    CostlyRequest {
        name: "a config map with 40,000 owner references",
        setup: nothing,
        path: "/api/v1/namespaces/default/configmaps?dryRun=All",
        media_type: JSON,
        body: || {
            let owner = |i| json!({"apiVersion": "v1", "kind": "N", "name": "n", "uid": format!("u{i}")});
            let owners: Vec<Value> = (0..40_000).map(owner).collect();
            json!({"metadata": {"name": "owners", "ownerReferences": owners}}).to_string().into()
        },
        codes: &[201],
    },
    CostlyRequest {
        name: "a config map with 20,000 owner references that are controllers",
        setup: nothing,
        path: CONFIG_MAPS,
        media_type: JSON,
        body: || {
            let owner =
                |i| json!({"apiVersion": "v1", "kind": "N", "name": "n", "uid": format!("u{i}"), "controller": true});
            let owners: Vec<Value> = (0..20_000).map(owner).collect();
            json!({"metadata": {"name": "owners", "ownerReferences": owners}}).to_string().into()
        },
        codes: &[422],
    },
    CostlyRequest {
        name: "a config map with 10,000 managers of fields",
        setup: nothing,
        path: "/api/v1/namespaces/default/configmaps?dryRun=All",
        media_type: JSON,
        body: || {
            let manager = |i| {
                let key = format!("f:k{i}");
                json!({"manager": format!("m{i}"), "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, key: {}}}})
            };
            let managers: Vec<Value> = (0..10_000).map(manager).collect();
            json!({"metadata": {"name": "managers", "managedFields": managers}, "data": {"k": "v"}}).to_string().into()
        },
        codes: &[201],
    },
    CostlyRequest {
        name: "a storage class with 20,000 topologies",
        setup: nothing,
        path: "/apis/storage.k8s.io/v1/storageclasses?dryRun=All",
        media_type: JSON,
        body: || {
            let topology = |i| json!({"matchLabelExpressions": [{"key": "k", "values": [format!("v{i}")]}]});
            let topologies: Vec<Value> = (0..20_000).map(topology).collect();
            json!({"metadata": {"name": "large"}, "provisioner": "x.example.com/y", "allowedTopologies": topologies})
                .to_string()
                .into()
        },
        codes: &[201],
    },
    CostlyRequest {
        name: "a config map in YAML with a million finalizers",
        setup: nothing,
        path: CONFIG_MAPS,
        media_type: "application/yaml",
        body: || {
            let finalizers = vec!["a"; 1_000_000].join(",");
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: y, finalizers: [{finalizers}]}}\n").into()
        },
        codes: &[422, TOO_LARGE],
    },
    CostlyRequest {
        name: "a config map with 200,000 unknown fields",
        setup: nothing,
        path: "/api/v1/namespaces/default/configmaps?fieldValidation=Warn&dryRun=All",
        media_type: JSON,
        body: || {
            let fields: Vec<String> = (0..200_000).map(|i| format!("\"x{i}\":1")).collect();
            format!("{{\"metadata\":{{\"name\":\"u\"}},{}}}", fields.join(",")).into()
        },
        codes: &[201],
    },
];

/// A CRD whose objects have a spec with these properties.
fn crd(singular: &str, properties: Value) -> (&'static str, Value) {
    let kind = singular[..1].to_uppercase() + &singular[1..];
    let spec = json!({"type": "object", "properties": properties});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{singular}s.costly.example.com")},
        "spec": {
            "group": "costly.example.com",
            "scope": "Namespaced",
            "names": {"plural": format!("{singular}s"), "singular": singular, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    (CRDS, crd)
}

fn custom(kind: &str, spec: &Value) -> Vec<u8> {
    let object = json!({"apiVersion": "costly.example.com/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
    object.to_string().into()
}

/// Variables, each computed from the previous variable: `v0`, `v1` and so on.
fn chain(first: &str, count: usize, next: impl Fn(&str) -> String) -> Vec<Value> {
    let expression = |i: usize| if i == 0 { first.to_owned() } else { next(&format!("variables.v{}", i - 1)) };
    (0..=count).map(|i| json!({"name": format!("v{i}"), "expression": expression(i)})).collect()
}

/// The common part of the specs of both kinds of admission policies: they match config maps with a label.
fn policy_spec(name: &str, variables: &[Value]) -> Value {
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": {
            "objectSelector": {"matchLabels": {"costly": name}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
            ],
        },
        "variables": variables,
    })
}

fn policy(name: &str, variables: &[Value], validation: &str) -> Vec<(&'static str, Value)> {
    let mut spec = policy_spec(name, variables);
    spec["validations"] = json!([{"expression": validation}]);
    let binding = json!({"policyName": name, "validationActions": ["Deny"]});
    let object = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    vec![
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            object("ValidatingAdmissionPolicy", spec),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
            object("ValidatingAdmissionPolicyBinding", binding),
        ),
    ]
}

fn mutating_policy(name: &str, variables: &[Value], expression: &str) -> Vec<(&'static str, Value)> {
    let mut spec = policy_spec(name, variables);
    spec["reinvocationPolicy"] = json!("Never");
    spec["mutations"] = json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]);
    let object = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    vec![
        ("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", object("MutatingAdmissionPolicy", spec)),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
            object("MutatingAdmissionPolicyBinding", json!({"policyName": name})),
        ),
    ]
}

/// A config map that a policy matches, with a text of 2,000 characters and a list of 400 short texts.
fn config_map(policy: &str) -> Vec<u8> {
    let data = json!({"s": "a".repeat(2000), "l": vec!["aaaa"; 400].join(",")});
    json!({"metadata": {"generateName": "costly-", "labels": {"costly": policy}}, "data": data}).to_string().into()
}

/// A pod with empty containers, two bytes each.
fn pod_in_protobuf(containers: usize) -> Vec<u8> {
    let name = field(1, b"costly");
    let spec = [0x12, 0].repeat(containers);
    let pod = [field(1, &name), field(2, &spec)].concat();
    let type_meta = [field(1, b"v1"), field(2, b"Pod")].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &pod)].concat()
}

/// A field of a Protobuf message with a length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 0x7f {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(content);
    bytes
}
