//! Stored objects that cannot be decoded (KEP-3926): requests for such an object fail with an error that names it. With
//! the feature gate enabled, a dedicated delete option deletes it. The messages are upstream's.

use pintle_gates::Gates;
use pintle_integration::{Cluster, Options};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::{Value, json};

use super::{NO_BODY, Scenario, Step, any, configmap, failure_status, with_finalizers};

const GATE: &str = "AllowUnsafeMalformedObjectDeletion";
const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
/// A truncated object and the decoder's error for it.
const TRUNCATED: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b","uid":"1"},"data":{"k":"#;
const DECODE_ERROR: &str = "couldn't get version/kind; json parse error: unexpected end of JSON input";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn gates(enabled: bool) -> Gates {
    Gates::with_overrides(&[(GATE.to_owned(), enabled)].into_iter().collect()).expect("settable feature gates").0
}

/// Starts a scenario with three ConfigMaps, of which the second is corrupt.
async fn scenario_with_corrupt_object(gate_enabled: bool) -> Scenario {
    let mut scenario = Scenario::with_options(Options { gates: gates(gate_enabled), ..Options::default() }).await;
    for name in ["a", "b", "c"] {
        scenario.run_steps(&[("POST configmaps", with_finalizers(name, &["example.com/a"]), 201, any())]).await;
    }
    let revision = scenario.cluster.write_to_store("/registry/configmaps/default/b", TRUNCATED).await;
    scenario.variables.insert("b.rv".to_owned(), revision.to_string());
    scenario
}

/// Returns a `Status` without a reason.
fn status_without_reason(message: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "reason": null, "message": message})
}

fn storage_not_ready(why: &str) -> Value {
    let message = format!("storage is (re)initializing: failed to list *core.ConfigMap: {why}");
    json!({"reason": "TooManyRequests", "message": message, "details": {"retryAfterSeconds": 1}})
}

fn ignore_read_errors() -> Value {
    json!({OPTION: true})
}

#[test]
fn requests_for_a_corrupt_object_fail() {
    let patch = || json!({"data": {"k": "v"}});
    let applied = || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    pintle_integration::run(async move {
        let mut scenario = scenario_with_corrupt_object(false).await;
        let before =
            format!("GET configmaps?resourceVersion={}&resourceVersionMatch=Exact", scenario.variables["c.rv"]);
        scenario
            .run_steps(&[
                ("GET configmaps/b", NO_BODY, 500, status_without_reason(DECODE_ERROR)),
                ("GET configmaps/b?resourceVersion=0", NO_BODY, 500, status_without_reason(DECODE_ERROR)),
                ("GET configmaps/a", NO_BODY, 200, any()),
                // Upstream's watch cache cannot initialize, so all requests that it serves fail.
                ("GET configmaps", NO_BODY, 429, storage_not_ready(DECODE_ERROR)),
                ("GET configmaps?resourceVersion=0", NO_BODY, 429, storage_not_ready(DECODE_ERROR)),
                ("GET configmaps?limit=500&labelSelector=a%3Db", NO_BODY, 429, storage_not_ready(DECODE_ERROR)),
                ("GET /api/v1/namespaces/kube-system/configmaps", NO_BODY, 429, storage_not_ready(DECODE_ERROR)),
                ("GET configmaps?watch=1", NO_BODY, 429, storage_not_ready(DECODE_ERROR)),
                ("GET configmaps?watch=1&resourceVersion=1", NO_BODY, 429, storage_not_ready(DECODE_ERROR)),
                // Requests that read from the store fail only if they read the corrupt object.
                ("GET configmaps?limit=500", NO_BODY, 500, status_without_reason(DECODE_ERROR)),
                ("GET configmaps?limit=1", NO_BODY, 200, any()),
                ("GET /api/v1/namespaces/kube-system/configmaps?limit=500", NO_BODY, 200, any()),
                ("GET secrets", NO_BODY, 200, any()),
                (&before, NO_BODY, 200, json!({"kind": "ConfigMapList"})),
                ("PUT configmaps/b", configmap("b"), 500, status_without_reason(DECODE_ERROR)),
                ("MERGE configmaps/b", patch(), 500, status_without_reason(DECODE_ERROR)),
                ("APPLY configmaps/b?fieldManager=m", applied(), 500, status_without_reason(DECODE_ERROR)),
                (
                    "POST configmaps",
                    configmap("b"),
                    409,
                    failure_status("AlreadyExists", "configmaps \"b\" already exists"),
                ),
                ("POST configmaps?dryRun=All", configmap("b"), 201, any()),
                ("DELETE configmaps/b", NO_BODY, 500, status_without_reason(DECODE_ERROR)),
                ("DELETE configmaps", NO_BODY, 500, status_without_reason(DECODE_ERROR)),
                ("DELETE configmaps?labelSelector=a%3Db", NO_BODY, 429, storage_not_ready(DECODE_ERROR)),
                // With the gate disabled, the option is ignored.
                ("DELETE configmaps/b", ignore_read_errors(), 500, status_without_reason(DECODE_ERROR)),
                ("DELETE configmaps/c", ignore_read_errors(), 200, any()),
                ("GET configmaps/a", NO_BODY, 200, json!({"metadata": {"deletionTimestamp": null}})),
            ])
            .await;
        // A write of a valid object repairs it.
        let repaired = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "b", "namespace": "default", "uid": "1"}});
        scenario.cluster.write_to_store("/registry/configmaps/default/b", repaired.to_string()).await;
        scenario
            .run_steps(&[
                ("GET configmaps/b", NO_BODY, 200, json!({"metadata": {"uid": "1"}})),
                ("GET configmaps", NO_BODY, 200, any()),
                ("DELETE configmaps/b", NO_BODY, 200, any()),
            ])
            .await;
        scenario.stop().await;
    });
}

#[test]
fn with_the_gate_a_corrupt_object_is_named_and_can_be_deleted() {
    let corrupt = |key: &str| {
        format!(
            "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: object not decodable \
             revision=$b.rv: {DECODE_ERROR}"
        )
    };
    const FAILED: &str = "failed to read one or more configmaps from the storage";
    const KEY: &str = "/registry/configmaps/default/b";
    let internal = move || {
        let message = corrupt("/configmaps/default/b");
        let mut status = failure_status("InternalError", &format!("Internal error occurred: {message}"));
        status["details"] = json!({"causes": [{"message": message}]});
        status
    };
    let read_error = move || {
        let causes = json!([{"reason": "UnexpectedServerResponse", "message": corrupt(KEY), "field": KEY}]);
        let mut status = failure_status("StorageReadError", FAILED);
        status["details"] = json!({"name": "list", "kind": "configmaps", "causes": causes});
        status
    };
    let undecodable = || status_without_reason(&format!("object not decodable revision=$b.rv: {DECODE_ERROR}"));
    let only_for_corrupt = |name: &str| {
        let why = "is exclusively used to delete corrupt object(s), try again by removing this option";
        failure_status("Invalid", &format!("configmaps \"{name}\" is invalid: {OPTION}: Invalid value: true: {why}"))
    };
    let cannot_be_combined = |others: &[&str]| {
        let error = |other: &&str| format!("{OPTION}: Invalid value: true: cannot be set together with .{other}");
        let errors = others.iter().map(error).collect::<Vec<_>>().join(", ");
        let errors = if others.len() > 1 { format!("[{errors}]") } else { errors };
        failure_status("Invalid", &format!("DeleteOptions.meta.k8s.io \"\" is invalid: {errors}"))
    };
    let not_for_collections = failure_status(
        "Invalid",
        &format!(
            "DeleteOptions.meta.k8s.io \"\" is invalid: {OPTION}: Invalid value: true: is not allowed with DELETECOLLECTION, \
             try again after removing the option"
        ),
    );
    let other_options = json!({
        OPTION: true, "dryRun": ["All"], "orphanDependents": true, "gracePeriodSeconds": 0, "preconditions": {},
    });
    pintle_integration::run(async move {
        let mut scenario = scenario_with_corrupt_object(true).await;
        let by_query = format!("DELETE configmaps/b?{OPTION}=true&propagationPolicy=Orphan&uid=1");
        let steps: [Step<'_>; 19] = [
            ("GET configmaps/b", NO_BODY, 500, internal()),
            ("GET configmaps?limit=500", NO_BODY, 500, read_error()),
            ("GET configmaps", NO_BODY, 429, storage_not_ready(FAILED)),
            ("GET configmaps?watch=1", NO_BODY, 429, storage_not_ready(FAILED)),
            ("MERGE configmaps/b", json!({"data": {"k": "v"}}), 500, undecodable()),
            ("DELETE configmaps/b", NO_BODY, 500, internal()),
            ("DELETE configmaps", NO_BODY, 500, read_error()),
            ("DELETE configmaps", ignore_read_errors(), 422, not_for_collections),
            ("DELETE configmaps/a", ignore_read_errors(), 422, only_for_corrupt("a")),
            ("DELETE configmaps/z", ignore_read_errors(), 422, only_for_corrupt("z")),
            (
                "DELETE configmaps/b",
                other_options,
                422,
                cannot_be_combined(&["dryRun", "orphanDependents", "gracePeriodSeconds", "preconditions"]),
            ),
            (&by_query, NO_BODY, 422, cannot_be_combined(&["propagationPolicy", "preconditions"])),
            ("DELETE configmaps/b", json!({OPTION: false}), 500, internal()),
            (
                "DELETE configmaps/b",
                ignore_read_errors(),
                200,
                json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Success", "code": 200,
                    "details": {"name": "b", "kind": "ConfigMap", "uid": null, "group": null},
                }),
            ),
            ("GET configmaps/b", NO_BODY, 404, any()),
            ("DELETE configmaps/b", ignore_read_errors(), 422, only_for_corrupt("b")),
            ("GET configmaps", NO_BODY, 200, any()),
            ("POST configmaps", configmap("b"), 201, any()),
            ("DELETE configmaps/b", NO_BODY, 200, any()),
        ];
        scenario.run_steps(&steps).await;
        scenario.stop().await;
    });
}

/// Since 1.37 the gate is on.
#[test]
fn since_1_37_unsafe_deletions_conflict_with_readable_objects() {
    const FAILED: &str = "failed to read one or more configmaps from the storage";
    const KEY: &str = "/registry/configmaps/default/b";
    let corrupt = || {
        format!(
            "StorageError: corrupt object, Code: 7, Key: {KEY}, ResourceVersion: 0, AdditionalErrorMsg: object not decodable \
             revision=$b.rv: {DECODE_ERROR}"
        )
    };
    let read_error = move |more: &str| {
        let mut status = failure_status("StorageReadError", &format!("{FAILED}: {}{more}", corrupt()));
        status["details"] = json!({"name": "list", "kind": "configmaps"});
        status
    };
    let readable = failure_status(
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, Key: \
         /registry/configmaps/default/a, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because \
         the object is decodable from storage",
    );
    let not_ready = move || {
        let message = format!("storage is (re)initializing: failed to list <unspecified>: {FAILED}: {}", corrupt());
        json!({"reason": "TooManyRequests", "message": message})
    };
    let absent = |name: &str| failure_status("NotFound", &format!("configmaps \"{name}\" not found"));
    let dry_run = || json!({OPTION: true, "dryRun": ["All"]});
    let deleted = || json!({"kind": "Status", "status": "Success", "details": {"name": "b", "kind": "ConfigMap"}});
    pintle_integration::run(async move {
        let gates = Gates::of(EffectiveVersion::of(Minor::new(37)));
        let mut scenario = Scenario::with_options(Options { gates, ..Options::default() }).await;
        for name in ["a", "b", "c"] {
            scenario.run_steps(&[("POST configmaps", with_finalizers(name, &["example.com/a"]), 201, any())]).await;
        }
        let revision = scenario.cluster.write_to_store(KEY, TRUNCATED).await;
        scenario.variables.insert("b.rv".to_owned(), revision.to_string());
        let steps: [Step<'_>; 13] = [
            ("GET configmaps?limit=500", NO_BODY, 500, read_error("")),
            ("GET configmaps", NO_BODY, 429, not_ready()),
            ("GET configmaps?watch=1", NO_BODY, 429, not_ready()),
            ("DELETE configmaps/a", ignore_read_errors(), 409, readable.clone()),
            ("DELETE configmaps/a", dry_run(), 409, readable),
            ("DELETE configmaps/z", ignore_read_errors(), 404, absent("z")),
            ("DELETE configmaps/z", dry_run(), 404, absent("z")),
            ("DELETE configmaps/b", json!({OPTION: true, "propagationPolicy": "Orphan"}), 422, any()),
            ("DELETE configmaps/b", dry_run(), 200, deleted()),
            ("GET configmaps/b", NO_BODY, 500, any()),
            ("DELETE configmaps/b", ignore_read_errors(), 200, deleted()),
            ("DELETE configmaps/b", ignore_read_errors(), 404, absent("b")),
            ("GET configmaps", NO_BODY, 200, any()),
        ];
        scenario.run_steps(&steps).await;
        scenario.cluster.write_to_store(KEY, TRUNCATED).await;
        scenario.cluster.write_to_store("/registry/configmaps/default/c", TRUNCATED).await;
        let list = scenario.cluster.get(&format!("{CONFIGMAPS}?limit=500")).await.expect(500).json();
        let message = list["message"].as_str().unwrap_or_default();
        assert!(message.ends_with(&format!("{DECODE_ERROR} (and 1 more)")), "{message}");
        assert_eq!(list["details"]["causes"].as_array().map(Vec::len), Some(2), "{list}");
        scenario.stop().await;
    });
}

#[test]
fn corrupt_custom_resources_have_their_own_messages() {
    const DECODE_ERROR: &str = "unexpected end of JSON input";
    let crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "b"}});
    let storage_not_ready = json!({"message": format!("storage is (re)initializing: failed to list example.com/v1, Kind=Widget: {DECODE_ERROR}")});
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        let crds = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        scenario.run_steps(&[(crds, crd, 201, any())]).await;
        scenario.cluster.get_until_status("/apis/example.com/v1/widgets", 200).await;
        scenario.run_steps(&[("POST example.com/v1/widgets", widget, 201, any())]).await;
        scenario.cluster.write_to_store("/registry/example.com/widgets/default/b", TRUNCATED).await;
        scenario
            .run_steps(&[
                ("GET example.com/v1/widgets/b", NO_BODY, 500, status_without_reason(DECODE_ERROR)),
                ("GET example.com/v1/widgets?limit=500", NO_BODY, 500, status_without_reason(DECODE_ERROR)),
                ("GET example.com/v1/widgets", NO_BODY, 429, storage_not_ready),
            ])
            .await;
        scenario.stop().await;
    });
}

#[test]
fn custom_resources_without_a_kind_or_version_are_corrupt() {
    let crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let widget = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    pintle_integration::run(async move {
        let mut scenario = Scenario::with_options(Options { gates: gates(true), ..Options::default() }).await;
        let crds = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        scenario.run_steps(&[(crds, crd, 201, any())]).await;
        scenario.cluster.get_until_status("/apis/example.com/v1/widgets", 200).await;
        for (missing, why) in [
            ("kind", "Object 'Kind' is missing in '"),
            ("apiVersion", "request to convert CR from an invalid group/version: "),
        ] {
            scenario.run_steps(&[("POST example.com/v1/widgets", widget("a"), 201, any())]).await;
            scenario.run_steps(&[("POST example.com/v1/widgets", widget("b"), 201, any())]).await;
            let path = "/apis/example.com/v1/namespaces/default/widgets";
            let mut object = scenario.cluster.get(&format!("{path}/b")).await.expect(200).json();
            object.as_object_mut().expect("an object").remove(missing);
            scenario.cluster.write_to_store("/registry/example.com/widgets/default/b", object.to_string()).await;
            let found = scenario.cluster.get(&format!("{path}/b")).await.expect(500).text();
            assert!(found.contains(why), "{found}");
            let _ = scenario.cluster.get(path).await.expect(429);
            scenario
                .run_steps(&[
                    ("GET example.com/v1/widgets/a", NO_BODY, 200, any()),
                    ("DELETE example.com/v1/widgets/b", NO_BODY, 500, any()),
                    ("DELETE example.com/v1/widgets/b", ignore_read_errors(), 200, any()),
                    ("GET example.com/v1/widgets", NO_BODY, 200, any()),
                    ("DELETE example.com/v1/widgets/a", NO_BODY, 200, any()),
                ])
                .await;
        }
        scenario.stop().await;
    });
}

#[test]
fn watches_end_and_can_be_restarted() {
    pintle_integration::run(async {
        let options = Options { gates: gates(true), controllers: false, ..Options::default() };
        let cluster = Cluster::with_options(options).await;
        let created = cluster.post(CONFIGMAPS, configmap("b").to_string()).await.expect(201).json();
        let from = created["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();
        let mut watch = cluster.watch(&format!("{CONFIGMAPS}?watch=1&resourceVersion={from}")).await;
        let mut other = cluster.watch("/api/v1/namespaces/kube-system/configmaps?watch=1").await;
        cluster.write_to_store("/registry/configmaps/default/b", TRUNCATED).await;
        // The watches end without a DELETED event, as the object was not deleted.
        assert_eq!(watch.next().await, None);
        assert_eq!(other.next().await, None);
        let path = format!("{CONFIGMAPS}/b?{OPTION}=true");
        let _ = cluster.delete(&path).await.expect(200);
        let mut late = cluster.watch(&format!("{CONFIGMAPS}?watch=1&resourceVersion={from}")).await;
        let event = late.next().await.expect("an event");
        assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
        let list = cluster.get(CONFIGMAPS).await.expect(200).json();
        let now = list["metadata"]["resourceVersion"].as_str().expect("a revision");
        let mut fresh = cluster.watch(&format!("{CONFIGMAPS}?watch=1&resourceVersion={now}")).await;
        let _ = cluster.post(CONFIGMAPS, configmap("b").to_string()).await.expect(201);
        fresh.expect("ADDED", "b").await;
        cluster.stop().await;
    });
}

#[test]
fn a_restart_does_not_repair_corrupt_objects() {
    pintle_integration::run(async {
        let cluster =
            Cluster::durable_with_options(Options { gates: gates(true), controllers: false, ..Options::default() })
                .await;
        let _ = cluster.post(CONFIGMAPS, configmap("b").to_string()).await.expect(201);
        cluster.write_to_store("/registry/configmaps/default/b", "x: [").await;
        // The server starts even if a bootstrapped object is corrupt.
        cluster.write_to_store("/registry/namespaces/kube-public", "x: [").await;
        let cluster = cluster.restart().await;
        let status = cluster.get(&format!("{CONFIGMAPS}/b")).await.expect(500).json();
        assert_eq!(status["reason"], "InternalError", "{status}");
        let _ = cluster.delete(&format!("{CONFIGMAPS}/b?{OPTION}=true")).await.expect(200);
        let cluster = cluster.restart().await;
        let _ = cluster.get(&format!("{CONFIGMAPS}/b")).await.expect(404);
        cluster.stop().await;
    });
}

/// The garbage collector must not treat a corrupt owner as deleted. The namespace controller must not treat a namespace
/// with a corrupt object as empty.
#[test]
fn controllers_treat_a_corrupt_object_as_existing() {
    pintle_integration::run(async {
        let cluster = Cluster::with_options(Options { gates: gates(true), ..Options::default() }).await;
        let owner = cluster.post(CONFIGMAPS, configmap("b").to_string()).await.expect(201).json();
        let reference =
            |name: &str, uid: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
        let owned = |name: &str, reference: Value| {
            json!({"metadata": {"name": name, "ownerReferences": [reference]}}).to_string()
        };
        cluster.write_to_store("/registry/configmaps/default/b", TRUNCATED).await;
        let dependent = owned("kept", reference("b", &owner["metadata"]["uid"]));
        let _ = cluster.post(CONFIGMAPS, dependent).await.expect(201);
        let _ = cluster.post(CONFIGMAPS, owned("orphan", reference("nobody", &json!("1")))).await.expect(201);
        cluster.get_until_status(&format!("{CONFIGMAPS}/orphan"), 404).await;
        let _ = cluster.get(&format!("{CONFIGMAPS}/kept")).await.expect(200);

        let namespace = "/api/v1/namespaces/n";
        let _ = cluster.post("/api/v1/namespaces", configmap("n").to_string()).await.expect(201);
        cluster.write_to_store("/registry/configmaps/n/b", TRUNCATED).await;
        let _ = cluster.delete(namespace).await.expect(200);
        let mut message = Value::Null;
        while message.is_null() {
            let found = cluster.get(namespace).await.expect(200).json();
            let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let failure = |c: &&Value| c["type"] == "NamespaceDeletionContentFailure" && c["status"] == "True";
            message = conditions.iter().find(failure).map(|c| c["message"].clone()).unwrap_or_default();
        }
        let text = message.as_str().expect("a text");
        assert!(text.contains("failed to read one or more configmaps from the storage"), "{text}");
        let _ = cluster.delete(&format!("{namespace}/configmaps/b?{OPTION}=true")).await.expect(200);
        cluster.get_until_status(namespace, 404).await;
        cluster.stop().await;
    });
}
