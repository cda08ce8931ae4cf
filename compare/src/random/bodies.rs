//! Random objects and patches.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::normal::GENERATED;
use crate::random::resources::Resource;
use crate::random::{one_in, pick};

/// Metadata with random labels, annotations and finalizers.
pub(crate) fn metadata(rng: &mut Rng, resource: &Resource, name: Option<&str>) -> Value {
    let mut metadata = json!({});
    if let Some(name) = name {
        metadata["name"] = name.into();
    }
    if resource.is_namespaced && one_in(rng, 4) {
        metadata["namespace"] = pick(rng, &["{ns}", "{ns}", "{ns}", "other"]).into();
    }
    if rng.bool() {
        metadata["labels"] = json!({"app": pick(rng, &["x", "y", ""])});
        if rng.bool() {
            metadata["labels"]["tier"] = pick(rng, &["front", "back"]).into();
        }
    }
    if one_in(rng, 4) {
        metadata["annotations"] = json!({"note": pick(rng, &["", "one", "<&>\u{e9}\u{2028}"])});
    }
    if one_in(rng, 8) {
        metadata["finalizers"] = json!([pick(rng, &["example.com/a", "example.com/b"])]);
    }
    if one_in(rng, 20) {
        let (key, value) = match rng.usize(..7) {
            0 => ("labels", json!({"app": "not valid!"})),
            // The Go API server does not have this rule for built-in kinds.
            1 if resource.is_custom => ("finalizers", json!(["nodomain"])),
            2 => ("annotations", json!({"-": "x"})),
            3 => ("ownerReferences", json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}])),
            4 => ("labels", json!({"app": 1})),
            5 => ("generateName", json!(GENERATED)),
            _ => ("unknown", json!(true)),
        };
        metadata[key] = value;
    }
    metadata
}

/// A value of any type. Negative zero is left out: the Go API server reads it without its sign, so it writes the object
/// again at its next chance.
fn scalar(rng: &mut Rng) -> Value {
    match rng.usize(..11) {
        0 => Value::Null,
        1 => json!(1),
        2 => json!(1.5),
        3 => json!(true),
        4 => json!([1, 2, 3]),
        5 => json!({"a": "<x>", "b": 1, "c": null}),
        6 => json!(9_007_199_254_740_993_i64),
        _ => json!(pick(rng, &["x", "y", "", "2001-02-03T04:05:06Z", "10"])),
    }
}

/// A text, or rarely another value.
fn text(rng: &mut Rng) -> Value {
    if one_in(rng, 10) { scalar(rng) } else { json!(pick(rng, &["x", "y", "", "long text"])) }
}

fn number(rng: &mut Rng) -> Value {
    if one_in(rng, 10) { scalar(rng) } else { json!(rng.i32(-1..8)) }
}

fn items(rng: &mut Rng) -> Value {
    let count = rng.usize(..4);
    (0..count)
        .map(|_| {
            let mut item = json!({"name": pick(rng, &["a", "b", "c"])});
            if rng.bool() {
                item["port"] = pick(rng, &[&80, &81]).to_owned().into();
            }
            if rng.bool() {
                item["value"] = text(rng);
            }
            item
        })
        .collect()
}

fn text_map(rng: &mut Rng) -> Value {
    let mut map = json!({});
    for key in ["k1", "k2", "k3"] {
        if rng.bool() {
            map[key] = text(rng);
        }
    }
    map
}

/// The name of a member and its random value.
type Member = (&'static str, fn(&mut Rng) -> Value);

/// The members of a custom object.
pub(crate) fn custom_object(rng: &mut Rng) -> Value {
    let mut spec = json!({});
    let members: [Member; 9] = [
        ("text", text),
        ("number", number),
        ("list", |rng| (0..rng.usize(..4)).map(|_| json!(rng.u8(..4))).collect()),
        ("items", items),
        ("map", text_map),
        ("any", scalar),
        ("intOrString", |rng| if rng.bool() { json!(5) } else { text(rng) }),
        ("when", |rng| json!(pick(rng, &["2001-02-03T04:05:06Z", "today"]))),
        ("unknown", scalar),
    ];
    for (name, value) in members {
        let rarity = if matches!(name, "when" | "unknown") { 12 } else { 3 };
        if one_in(rng, rarity) {
            spec[name] = value(rng);
        }
    }
    let mut object = json!({"spec": spec});
    if one_in(rng, 4) {
        object["status"] = json!({"number": rng.u8(..5), "text": pick(rng, &["app=x", "a", ""])});
        if rng.bool() {
            object["status"]["conditions"] =
                json!([{"type": pick(rng, &["Ready", "Done"]), "status": pick(rng, &["True", "False"])}]);
        }
    }
    if one_in(rng, 20) {
        object["extra"] = scalar(rng);
    }
    object
}

/// The members of a ConfigMap, all valid.
pub(crate) fn config_map(rng: &mut Rng) -> Value {
    let mut data = json!({});
    for key in ["k1", "k2", "k3"] {
        if rng.bool() {
            data[key] = pick(rng, &["", "x", "<&>", "two\nlines"]).into();
        }
    }
    let mut object = json!({"data": data});
    if one_in(rng, 6) {
        object["binaryData"] = json!({"bin": "AAECAw=="});
    }
    if one_in(rng, 20) {
        object["unknown"] = json!(1);
    }
    object
}

pub(crate) fn lease(rng: &mut Rng) -> Value {
    let mut spec = json!({"holderIdentity": pick(rng, &["x", "y"]), "leaseDurationSeconds": rng.u8(1..60)});
    if rng.bool() {
        spec["renewTime"] = pick(rng, &["2001-02-03T04:05:06.123456Z", "2001-02-03T04:05:06.000000Z"]).into();
    }
    if one_in(rng, 8) {
        spec["leaseTransitions"] = json!(rng.u8(..3));
    }
    json!({"spec": spec})
}

/// The members of a Secret, all valid, with its type.
pub(crate) fn secret(rng: &mut Rng) -> Value {
    let mut object = json!({"type": "Opaque", "data": {"k1": pick(rng, &["", "eA==", "AAECAw=="])}});
    if rng.bool() {
        object["data"]["k2"] = pick(rng, &["eA==", "eQ=="]).into();
    }
    if one_in(rng, 20) {
        object["data"]["k3"] = pick(rng, &["no base64", "e", "=="]).into();
    }
    object
}

/// An Event with explicit values for all defaults.
pub(crate) fn event(rng: &mut Rng) -> Value {
    let mut object = json!({
        "involvedObject": {"kind": "Pod", "namespace": "{ns}", "name": pick(rng, &["a", "b"])},
        "reason": pick(rng, &["Started", "Killed"]), "message": pick(rng, &["", "text"]),
        "source": {"component": "kubelet"}, "type": pick(rng, &["Normal", "Warning"]),
        "firstTimestamp": "2001-02-03T04:05:06Z", "lastTimestamp": "2001-02-03T04:05:07Z", "count": rng.u8(1..4),
        "eventTime": null, "reportingComponent": "", "reportingInstance": ""
    });
    if one_in(rng, 8) {
        object["related"] = json!({"kind": "Node", "name": "n"});
    }
    object
}

/// A Pod with explicit values for all defaults. Only its image may change.
pub(crate) fn pod(rng: &mut Rng) -> Value {
    let mut object = json!({"spec": {
        "containers": [{
            "name": "main", "image": pick(rng, &["nginx:1", "nginx:2"]), "resources": {},
            "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File"
        }],
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": true
    }});
    if one_in(rng, 4) {
        object["status"] = json!({"phase": pick(rng, &["Pending", "Running"]), "message": "m"});
    }
    object
}

/// A Deployment with explicit values for all defaults, because the Go API server has no defaults for it.
pub(crate) fn deployment(rng: &mut Rng) -> Value {
    let container = |rng: &mut Rng, name: &str| {
        let mut container = json!({
            "name": name, "image": pick(rng, &["nginx:1", "nginx:2"]), "resources": {}, "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"
        });
        if rng.bool() {
            container["env"] = json!([{"name": "A", "value": pick(rng, &["1", "2"])}, {"name": "B", "value": "x"}]);
        }
        // Upstream's strategy warns about a port that two containers have.
        if rng.bool() && name == "main" {
            container["ports"] = json!([{"containerPort": 80, "protocol": "TCP", "name": pick(rng, &["web", "http"])}]);
        }
        container
    };
    let mut containers = vec![container(rng, "main")];
    if rng.bool() {
        containers.push(container(rng, "side"));
    }
    json!({"spec": {
        "replicas": rng.u8(..4), "selector": {"matchLabels": {"app": "x"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {
                "containers": containers, "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst", "securityContext": {}, "schedulerName": "default-scheduler"
            }
        }
    }})
}

/// A change for a merge patch or a strategic merge patch.
pub(crate) fn change(rng: &mut Rng, resource: &Resource) -> Value {
    let mut patch = json!({});
    if rng.bool() {
        patch["metadata"] = metadata(rng, resource, None);
        if one_in(rng, 3) {
            let key = pick(rng, &["labels", "annotations", "finalizers", "managedFields"]);
            patch["metadata"][key] = Value::Null;
        }
        if one_in(rng, 12) {
            patch["metadata"]["name"] = pick(rng, &["a", "z"]).into();
        }
    }
    if !rng.bool() || patch.get("metadata").is_none() {
        match resource.kind {
            "ConfigMap" => patch["data"] = json!({"k1": if rng.bool() { json!("p") } else { Value::Null }, "k2": "q"}),
            "Deployment" => {
                patch["spec"] = json!({"replicas": rng.u8(..4)});
                if one_in(rng, 3) {
                    patch["spec"]["minReadySeconds"] = json!(rng.u8(..3));
                }
            }
            "Lease" => patch["spec"] = json!({"holderIdentity": if rng.bool() { json!("p") } else { json!("q") }}),
            "Secret" => patch["data"] = json!({"k1": if rng.bool() { json!("cA==") } else { Value::Null }}),
            "Event" => patch["message"] = text(rng),
            "Pod" => patch["status"] = json!({"message": pick(rng, &["m", "n"])}),
            _ => {
                let content = resource.content(rng);
                if let Some(content) = content.as_object() {
                    for (key, value) in content {
                        patch[key.as_str()] = value.clone();
                    }
                }
                if one_in(rng, 3) {
                    let key = pick(rng, &["text", "number", "items", "map"]);
                    patch["spec"][key] = Value::Null;
                }
            }
        }
    }
    if resource.is_custom && one_in(rng, 15) {
        let key = pick(rng, &["apiVersion", "kind"]);
        patch[key] = pick(rng, &["null", "\"\"", "\"Bar\"", "\"v1\"", "1"]).parse().unwrap_or_default();
    }
    patch
}

/// A JSON patch.
pub(crate) fn json_patch(rng: &mut Rng, resource: &Resource) -> Value {
    let mut paths = vec!["/metadata/labels/app", "/metadata/labels", "/metadata/annotations", "/metadata/labels/none"];
    match resource.kind {
        "ConfigMap" => paths.extend(["/data/k1", "/data/k2", "/data"]),
        "Deployment" => paths.extend(["/spec/replicas"]),
        "Lease" => paths.extend(["/spec/holderIdentity"]),
        "Secret" => paths.extend(["/data/none"]),
        "Event" => paths.extend(["/message", "/reason"]),
        "Pod" => paths.extend(["/spec/containers/0/image", "/status/message"]),
        _ => paths.extend([
            "/spec/text",
            "/spec/list/0",
            "/spec/list/-",
            "/spec/map/k1",
            "/spec/items/0/value",
            "/spec/any",
            "/spec",
            "/spec/a~1b",
        ]),
    }
    let value = |rng: &mut Rng, path: &str| match path {
        "/metadata/labels" | "/metadata/annotations" | "/data" => json!({"app": "y"}),
        "/spec/replicas" => json!(rng.u8(..4)),
        "/spec/any" | "/spec/list/0" => scalar(rng),
        "/spec" => json!({"text": "x"}),
        _ => json!(pick(rng, &["x", "y"])),
    };
    (0..rng.usize(1..4))
        .map(|_| {
            let path = pick(rng, &paths);
            match rng.usize(..9) {
                0..=2 => json!({"op": "add", "path": path, "value": value(rng, path)}),
                3 | 4 => json!({"op": "replace", "path": path, "value": value(rng, path)}),
                // The Go API server has no defaults for removed fields of a Deployment, and no rules for Pods.
                5 if !matches!(path, "/spec/replicas" | "/spec/containers/0/image") => {
                    json!({"op": "remove", "path": path})
                }
                6 => json!({"op": "test", "path": path, "value": value(rng, path)}),
                7 if resource.is_custom => {
                    json!({"op": pick(rng, &["copy", "move"]), "from": "/spec/text", "path": path})
                }
                _ => json!({"op": "add", "path": "/metadata/annotations", "value": {"note": "p"}}),
            }
        })
        .collect()
}
