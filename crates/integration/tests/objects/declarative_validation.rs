//! Declarative validation: since 1.37 the tags of types validate every kind. Up to 1.36 code does.

use pintle_gates::Gates;
use pintle_integration::{Cluster, Options, RuntimeConfig, run};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::{Value, json};

const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const OLDER_CLAIMS: &str = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const AUTOSCALERS: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A cluster of a version, with other states of gates.
async fn cluster(minor: u8, overrides: &[(&str, bool)]) -> Cluster {
    let overrides = overrides.iter().map(|(gate, enabled)| ((*gate).to_owned(), *enabled)).collect();
    let gates = Gates::of(EffectiveVersion::of(Minor::new(minor)));
    let (gates, _) = gates.overridden(&overrides).expect("settable feature gates");
    let runtime_config =
        RuntimeConfig::from_flags(Minor::new(minor), &["resource.k8s.io/v1beta1=true"]).expect("a known version");
    Cluster::with_options(Options { gates, runtime_config, ..Options::default() }).await
}

/// Creates an object that is invalid, and compares the causes: field and message.
async fn check(cluster: &Cluster, path: &str, object: &Value, expect: &[(&str, &str)]) {
    let response = cluster.post(path, object.to_string()).await.expect(422).json();
    check_causes(&response, expect);
}

#[track_caller]
fn check_causes(response: &Value, expect: &[(&str, &str)]) {
    let causes = response["details"]["causes"].as_array().expect("causes");
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or_default().to_owned();
    let found: Vec<_> = causes.iter().map(|cause| (text(cause, "field"), text(cause, "message"))).collect();
    let found: Vec<_> = found.iter().map(|(field, message)| (field.as_str(), message.as_str())).collect();
    assert_eq!(found, expect);
}

const NAME_TEXT: &str = "Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                         characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                         'example.com', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn class() -> Value {
    json!({"metadata": {"name": "A"}, "spec": {"extendedResourceName": "x"}})
}

fn claim(request: Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"devices": {"requests": [request]}}})
}

#[test]
fn rules_in_beta_replace_the_errors_of_code() {
    run(async {
        let (older, newer) = (cluster(36, &[]).await, cluster(37, &[]).await);
        let without_beta = cluster(37, &[("DeclarativeValidationBeta", false)]).await;
        let by_code = [
            ("metadata.name", NAME_TEXT),
            ("spec.extendedResourceName", "Invalid value: \"x\": must be a valid extended resource name"),
        ];
        check(&older, CLASSES, &class(), &by_code).await;
        check(&without_beta, CLASSES, &class(), &by_code).await;
        let detail = "Invalid value: \"x\": a name must be a domain-prefixed path, such as 'example.com/my-prop'";
        check(&newer, CLASSES, &class(), &[("metadata.name", NAME_TEXT), ("spec.extendedResourceName", detail)]).await;

        let slice = json!({"metadata": {"name": "s"}, "spec": {"driver": "", "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d", "attributes": {"a": {}}, "bindingConditions": ["c", "c"]}]}});
        let duplicate = ("spec.devices[0].bindingConditions[1]", "Duplicate value: \"c\"");
        let failures = (
            "spec.devices[0].bindingFailureConditions",
            "Invalid value: null: bindingFailureConditions are required to use bindingConditions",
        );
        let attribute = "spec.devices[0].attributes[a]";
        check(
            &older,
            SLICES,
            &slice,
            &[
                ("spec.driver", "Required value"),
                (attribute, "Invalid value: \"\": exactly one value must be specified"),
                duplicate,
                failures,
            ],
        )
        .await;
        let union = "Invalid value: \"\": must specify one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`";
        check(&newer, SLICES, &slice, &[("spec.driver", "Required value"), duplicate, failures, (attribute, union)])
            .await;
    });
}

#[test]
fn rules_are_applied_at_the_version_of_the_request() {
    run(async {
        let newer = cluster(37, &[]).await;
        let exactly = json!({"deviceClassName": "c", "allocationMode": "x", "count": 1});
        let mode = "Unsupported value: \"x\": supported values: \"All\", \"ExactCount\"";
        let request = json!({"name": "r", "exactly": exactly.clone()});
        check(&newer, CLAIMS, &claim(request), &[("spec.devices.requests[0].exactly.allocationMode", mode)]).await;
        let mut request = exactly;
        request["name"] = json!("r");
        check(&newer, OLDER_CLAIMS, &claim(request), &[("spec.devices.requests[0].allocationMode", mode)]).await;

        // The values of errors have the fields of the version, in their order.
        let request = json!({"name": "r", "exactly": {"deviceClassName": "c"}});
        let mut twice = claim(request.clone());
        twice["spec"]["devices"]["requests"] = json!([request, request]);
        let shown = r#"{"name":"r","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}"#;
        let duplicate = format!("Duplicate value: {shown}");
        check(&newer, CLAIMS, &twice, &[("spec.devices.requests[1]", &duplicate)]).await;

        let _ = newer.post(CLAIMS, claim(request).to_string()).await.expect(201);
        let change = json!({"spec": {"devices": {"requests": []}}}).to_string();
        let response = newer.patch(&format!("{CLAIMS}/a"), "merge", change).await.expect(422).json();
        check_causes(&response, &[("spec", "Invalid value: null: field is immutable")]);
        let status = json!({"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
            "devices": [{"driver": "d", "pool": "p", "device": "x", "shareID": "X"}]}});
        let response = newer.patch(&format!("{CLAIMS}/a/status"), "merge", status.to_string()).await.expect(422).json();
        let last = response["details"]["causes"].as_array().and_then(|causes| causes.last()).expect("a cause");
        assert_eq!(last["message"], "Invalid value: \"X\": must be a lowercase UUID in 8-4-4-4-12 format");
        assert_eq!(last["field"], "status.devices[0].shareID");

        // An error of code that only has the same field stays.
        let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
        let scaler = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": -1, "scaleTargetRef": target}});
        check(
            &newer,
            AUTOSCALERS,
            &scaler,
            &[
                ("spec.maxReplicas", "Invalid value: -1: must be greater than or equal to `minReplicas`"),
                ("spec.maxReplicas", "Invalid value: -1: must be greater than or equal to 1"),
            ],
        )
        .await;
    });
}

#[test]
fn pod_templates_are_validated_in_every_kind() {
    run(async {
        let newer = cluster(37, &[("EvictionRequestAPI", true)]).await;
        let deployment = |priority: i64| {
            json!({"metadata": {"name": "d"}, "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                    "containers": [{"name": "c", "image": "i"}],
                    "evictionResponders": [{"name": "example.com/r", "priority": priority}]}}}})
        };
        let reserved = "Invalid value: 5: priorities 0-999 are reserved for responders with *.k8s.io suffix";
        let path = "spec.template.spec.evictionResponders[0].priority";
        check(&newer, DEPLOYMENTS, &deployment(5), &[(path, reserved)]).await;
        let _ = newer.post(DEPLOYMENTS, deployment(1000).to_string()).await.expect(201);
        let scale = newer.patch(&format!("{DEPLOYMENTS}/d/scale"), "merge", r#"{"spec":{"replicas":2}}"#).await;
        assert_eq!(scale.expect(200).json()["spec"]["replicas"], 2);
        let status = newer.patch(&format!("{DEPLOYMENTS}/d/status"), "merge", r#"{"status":{"replicas":1}}"#).await;
        let _ = status.expect(200);
    });
}

#[test]
fn rules_in_beta_have_texts_of_their_own() {
    run(async {
        let newer = cluster(37, &[]).await;
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        let slice = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [{"addresses": []}]});
        check(&newer, slices, &slice, &[("endpoints[0].addresses", "Required value")]).await;
        let classes = "/apis/node.k8s.io/v1/runtimeclasses";
        let class = json!({"metadata": {"name": "c"}, "handler": ""});
        check(&newer, classes, &class, &[("handler", "Required value")]).await;
        let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
        let scaler = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 0, "scaleTargetRef": target}});
        let response = newer.post(AUTOSCALERS, scaler.to_string()).await.expect(422).json();
        let causes = response["details"]["causes"].as_array().expect("causes");
        let required: Vec<_> = causes.iter().filter(|cause| cause["reason"] == "FieldValueRequired").collect();
        assert_eq!(required.len(), 1, "{response}");
        assert_eq!(required[0]["message"], "Required value");
        let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
        let attachment = json!({"metadata": {"name": "a"}, "spec": {"attacher": "d".repeat(64), "nodeName": "n",
            "source": {"persistentVolumeName": "v"}}});
        let too_long = "Too long: may not be more than 63 characters";
        check(&newer, attachments, &attachment, &[("spec.attacher", too_long)]).await;

        let immutable = "Invalid value: null: field is immutable";
        let cases = [
            (
                slices,
                json!({"metadata": {"name": "i"}, "addressType": "IPv4", "endpoints": []}),
                "addressType",
                json!("IPv6"),
            ),
            (classes, json!({"metadata": {"name": "i"}, "handler": "a"}), "handler", json!("b")),
            (
                "/apis/storage.k8s.io/v1/storageclasses",
                json!({"metadata": {"name": "i"}, "provisioner": "a"}),
                "provisioner",
                json!("b"),
            ),
            (
                "/apis/networking.k8s.io/v1/ipaddresses",
                json!({"metadata": {"name": "10.9.0.1"}, "spec": {"parentRef": {"resource": "services", "name": "s"}}}),
                "spec.parentRef",
                json!({"parentRef": {"name": "t"}}),
            ),
            (
                attachments,
                json!({"metadata": {"name": "i"}, "spec": {"attacher": "d", "nodeName": "n",
                    "source": {"persistentVolumeName": "v"}}}),
                "spec",
                json!({"nodeName": "m"}),
            ),
        ];
        for (path, object, field, changed) in cases {
            let name = object["metadata"]["name"].as_str().expect("a name");
            let _ = newer.post(path, object.to_string()).await.expect(201);
            let (top, _) = field.split_once('.').unwrap_or((field, ""));
            let change = json!({ top: changed }).to_string();
            let response = newer.patch(&format!("{path}/{name}"), "merge", change).await.expect(422).json();
            check_causes(&response, &[(field, immutable)]);
        }
    });
}

#[test]
fn errors_about_owners_have_an_index() {
    run(async {
        let owners =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}, {"apiVersion": "a/b/c", "name": "x"}]);
        let object = json!({"metadata": {"name": "m", "ownerReferences": owners}});
        let (older, newer) = (cluster(36, &[]).await, cluster(37, &[]).await);
        check(
            &older,
            CONFIG_MAPS,
            &object,
            &[
                ("metadata.ownerReferences.apiVersion", "Invalid value: \"a/b/c\": version must not be empty"),
                ("metadata.ownerReferences.kind", "Invalid value: \"\": must not be empty"),
                ("metadata.ownerReferences.uid", "Invalid value: \"\": must not be empty"),
            ],
        )
        .await;
        check(
            &newer,
            CONFIG_MAPS,
            &object,
            &[
                (
                    "metadata.ownerReferences[1].apiVersion",
                    "Invalid value: \"a/b/c\": must be <group>/<version> or <version>",
                ),
                ("metadata.ownerReferences[1].kind", "Required value: must not be empty"),
                ("metadata.ownerReferences[1].uid", "Required value: must not be empty"),
            ],
        )
        .await;
        let unsafe_dry_run = "?ignoreStoreReadErrorWithClusterBreakingPotential=true&dryRun=All";
        let gate = [("AllowUnsafeMalformedObjectDeletion", true)];
        for (minor, code) in [(36, 422), (37, 404)] {
            let cluster = cluster(minor, &gate).await;
            let answer = cluster.delete(&format!("{CONFIG_MAPS}/none{unsafe_dry_run}")).await.expect(code).json();
            let message = answer["message"].as_str().unwrap_or_default();
            let conflicts = message.contains("cannot be set together with .dryRun");
            assert_eq!(conflicts, code == 422, "1.{minor}: {message}");
        }
    });
}
