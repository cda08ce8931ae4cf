//! Stored objects that cannot be read (KEP-3926): who asks for them is told so and which, and with the gate open they can be
//! deleted, by an option that is for nothing else. The messages are upstream's.

use pintle_gates::Gates;
use pintle_testkit::{Cluster, Options};
use serde_json::{Value, json};

use crate::{NONE, Row, Scene, any, held, map, refused};

const GATE: &str = "AllowUnsafeMalformedObjectDeletion";
const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
/// The beginning of an object, and what a decoder says of it.
const HALF: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b","uid":"1"},"data":{"k":"#;
const WHY: &str = "couldn't get version/kind; json parse error: unexpected end of JSON input";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn gates(open: bool) -> Gates {
    Gates::with(&[(GATE.to_owned(), open)].into_iter().collect()).expect("gates that can be set").0
}

/// Three maps, the second of which has become unreadable.
async fn scene(open: bool) -> Scene {
    let mut scene = Scene::with(Options { gates: gates(open), ..Options::default() }).await;
    for name in ["a", "b", "c"] {
        scene.check(&[("POST configmaps", held(name, &["example.com/a"]), 201, any())]).await;
    }
    let revision = scene.cluster.write_to_store("/registry/configmaps/default/b", HALF).await;
    scene.known.insert("b.rv".to_owned(), revision.to_string());
    scene
}

/// A `Status` of what nobody classified.
fn unclassified(message: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "reason": null, "message": message})
}

fn unready(why: &str) -> Value {
    let message = format!("storage is (re)initializing: failed to list *core.ConfigMap: {why}");
    json!({"reason": "TooManyRequests", "message": message, "details": {"retryAfterSeconds": 1}})
}

fn unsafely() -> Value {
    json!({OPTION: true})
}

#[test]
fn what_cannot_be_read_is_not_hidden() {
    let patch = || json!({"data": {"k": "v"}});
    let applied = || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    pintle_testkit::run(async move {
        let mut scene = scene(false).await;
        let before = format!("GET configmaps?resourceVersion={}&resourceVersionMatch=Exact", scene.known["c.rv"]);
        scene
            .check(&[
                ("GET configmaps/b", NONE, 500, unclassified(WHY)),
                ("GET configmaps/b?resourceVersion=0", NONE, 500, unclassified(WHY)),
                ("GET configmaps/a", NONE, 200, any()),
                // Upstream's cache needs all of them, for whatever it is asked.
                ("GET configmaps", NONE, 429, unready(WHY)),
                ("GET configmaps?resourceVersion=0", NONE, 429, unready(WHY)),
                ("GET configmaps?limit=500&labelSelector=a%3Db", NONE, 429, unready(WHY)),
                ("GET /api/v1/namespaces/kube-system/configmaps", NONE, 429, unready(WHY)),
                ("GET configmaps?watch=1", NONE, 429, unready(WHY)),
                ("GET configmaps?watch=1&resourceVersion=1", NONE, 429, unready(WHY)),
                // What is asked of the store itself fails only where it comes upon what it cannot read.
                ("GET configmaps?limit=500", NONE, 500, unclassified(WHY)),
                ("GET configmaps?limit=1", NONE, 200, any()),
                ("GET /api/v1/namespaces/kube-system/configmaps?limit=500", NONE, 200, any()),
                ("GET secrets", NONE, 200, any()),
                (&before, NONE, 200, json!({"kind": "ConfigMapList"})),
                ("PUT configmaps/b", map("b"), 500, unclassified(WHY)),
                ("MERGE configmaps/b", patch(), 500, unclassified(WHY)),
                ("APPLY configmaps/b?fieldManager=m", applied(), 500, unclassified(WHY)),
                ("POST configmaps", map("b"), 409, refused("AlreadyExists", "configmaps \"b\" already exists")),
                ("POST configmaps?dryRun=All", map("b"), 201, any()),
                ("DELETE configmaps/b", NONE, 500, unclassified(WHY)),
                ("DELETE configmaps", NONE, 500, unclassified(WHY)),
                ("DELETE configmaps?labelSelector=a%3Db", NONE, 429, unready(WHY)),
                // The gate is closed: there is no such option.
                ("DELETE configmaps/b", unsafely(), 500, unclassified(WHY)),
                ("DELETE configmaps/c", unsafely(), 200, any()),
                ("GET configmaps/a", NONE, 200, json!({"metadata": {"deletionTimestamp": null}})),
            ])
            .await;
        // Whoever writes something that can be read mends it.
        let whole = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "b", "namespace": "default", "uid": "1"}});
        scene.cluster.write_to_store("/registry/configmaps/default/b", whole.to_string()).await;
        scene
            .check(&[
                ("GET configmaps/b", NONE, 200, json!({"metadata": {"uid": "1"}})),
                ("GET configmaps", NONE, 200, any()),
                ("DELETE configmaps/b", NONE, 200, any()),
            ])
            .await;
        scene.end().await;
    });
}

#[test]
fn with_the_gate_open_it_has_a_name_and_can_be_deleted() {
    let corrupt = |key: &str| {
        format!(
            "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: object not decodable \
             revision=$b.rv: {WHY}"
        )
    };
    const FAILED: &str = "failed to read one or more configmaps from the storage";
    const KEY: &str = "/registry/configmaps/default/b";
    let internal = move || {
        let message = corrupt("/configmaps/default/b");
        let mut status = refused("InternalError", &format!("Internal error occurred: {message}"));
        status["details"] = json!({"causes": [{"message": message}]});
        status
    };
    let unread = move || {
        let causes = json!([{"reason": "UnexpectedServerResponse", "message": corrupt(KEY), "field": KEY}]);
        let mut status = refused("StorageReadError", FAILED);
        status["details"] = json!({"name": "list", "kind": "configmaps", "causes": causes});
        status
    };
    let undecodable = || unclassified(&format!("object not decodable revision=$b.rv: {WHY}"));
    let only_for_corrupt = |name: &str| {
        let why = "is exclusively used to delete corrupt object(s), try again by removing this option";
        refused("Invalid", &format!("configmaps \"{name}\" is invalid: {OPTION}: Invalid value: true: {why}"))
    };
    let alone = |others: &[&str]| {
        let error = |other: &&str| format!("{OPTION}: Invalid value: true: cannot be set together with .{other}");
        let errors = others.iter().map(error).collect::<Vec<_>>().join(", ");
        let errors = if others.len() > 1 { format!("[{errors}]") } else { errors };
        refused("Invalid", &format!("DeleteOptions.meta.k8s.io \"\" is invalid: {errors}"))
    };
    let of_many = refused(
        "Invalid",
        &format!(
            "DeleteOptions.meta.k8s.io \"\" is invalid: {OPTION}: Invalid value: true: is not allowed with DELETECOLLECTION, \
             try again after removing the option"
        ),
    );
    let all = json!({
        OPTION: true, "dryRun": ["All"], "orphanDependents": true, "gracePeriodSeconds": 0, "preconditions": {},
    });
    pintle_testkit::run(async move {
        let mut scene = scene(true).await;
        let by_query = format!("DELETE configmaps/b?{OPTION}=true&propagationPolicy=Orphan&uid=1");
        let rows: [Row<'_>; 19] = [
            ("GET configmaps/b", NONE, 500, internal()),
            ("GET configmaps?limit=500", NONE, 500, unread()),
            ("GET configmaps", NONE, 429, unready(FAILED)),
            ("GET configmaps?watch=1", NONE, 429, unready(FAILED)),
            ("MERGE configmaps/b", json!({"data": {"k": "v"}}), 500, undecodable()),
            ("DELETE configmaps/b", NONE, 500, internal()),
            ("DELETE configmaps", NONE, 500, unread()),
            ("DELETE configmaps", unsafely(), 422, of_many),
            ("DELETE configmaps/a", unsafely(), 422, only_for_corrupt("a")),
            ("DELETE configmaps/z", unsafely(), 422, only_for_corrupt("z")),
            (
                "DELETE configmaps/b",
                all,
                422,
                alone(&["dryRun", "orphanDependents", "gracePeriodSeconds", "preconditions"]),
            ),
            (&by_query, NONE, 422, alone(&["propagationPolicy", "preconditions"])),
            ("DELETE configmaps/b", json!({OPTION: false}), 500, internal()),
            (
                "DELETE configmaps/b",
                unsafely(),
                200,
                json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Success", "code": 200,
                    "details": {"name": "b", "kind": "ConfigMap", "uid": null, "group": null},
                }),
            ),
            ("GET configmaps/b", NONE, 404, any()),
            ("DELETE configmaps/b", unsafely(), 422, only_for_corrupt("b")),
            ("GET configmaps", NONE, 200, any()),
            ("POST configmaps", map("b"), 201, any()),
            ("DELETE configmaps/b", NONE, 200, any()),
        ];
        scene.check(&rows).await;
        scene.end().await;
    });
}

#[test]
fn custom_objects_are_decoded_otherwise() {
    const WHY: &str = "unexpected end of JSON input";
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "b"}});
    let unready =
        json!({"message": format!("storage is (re)initializing: failed to list example.com/v1, Kind=Widget: {WHY}")});
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        let definitions = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        scene.check(&[(definitions, definition, 201, any())]).await;
        while scene.cluster.get("/apis/example.com/v1/widgets").await.status != 200 {}
        scene.check(&[("POST example.com/v1/widgets", widget, 201, any())]).await;
        scene.cluster.write_to_store("/registry/example.com/widgets/default/b", HALF).await;
        scene
            .check(&[
                ("GET example.com/v1/widgets/b", NONE, 500, unclassified(WHY)),
                ("GET example.com/v1/widgets?limit=500", NONE, 500, unclassified(WHY)),
                ("GET example.com/v1/widgets", NONE, 429, unready),
            ])
            .await;
        scene.end().await;
    });
}

#[test]
fn watches_end_and_begin_anew() {
    pintle_testkit::run(async {
        let options = Options { gates: gates(true), controllers: false, ..Options::default() };
        let cluster = Cluster::with_options(options).await;
        let made = cluster.post(MAPS, map("b").to_string()).await.expect(201).json();
        let from = made["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();
        let mut watch = cluster.watch(&format!("{MAPS}?watch=1&resourceVersion={from}")).await;
        let mut other = cluster.watch("/api/v1/namespaces/kube-system/configmaps?watch=1").await;
        cluster.write_to_store("/registry/configmaps/default/b", HALF).await;
        // Nobody is told of a deletion that was none.
        assert_eq!(watch.next().await, None);
        assert_eq!(other.next().await, None);
        let path = format!("{MAPS}/b?{OPTION}=true");
        let _ = cluster.delete(&path).await.expect(200);
        let mut late = cluster.watch(&format!("{MAPS}?watch=1&resourceVersion={from}")).await;
        let event = late.next().await.expect("an event");
        assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
        let list = cluster.get(MAPS).await.expect(200).json();
        let now = list["metadata"]["resourceVersion"].as_str().expect("a revision");
        let mut fresh = cluster.watch(&format!("{MAPS}?watch=1&resourceVersion={now}")).await;
        let _ = cluster.post(MAPS, map("b").to_string()).await.expect(201);
        fresh.expect("ADDED", "b").await;
        cluster.stop().await;
    });
}

#[test]
fn a_restart_mends_nothing() {
    pintle_testkit::run(async {
        let cluster =
            Cluster::durable_with_options(Options { gates: gates(true), controllers: false, ..Options::default() })
                .await;
        let _ = cluster.post(MAPS, map("b").to_string()).await.expect(201);
        cluster.write_to_store("/registry/configmaps/default/b", "x: [").await;
        // Not even what every cluster has is needed for a start.
        cluster.write_to_store("/registry/namespaces/kube-public", "x: [").await;
        let cluster = cluster.restart().await;
        let status = cluster.get(&format!("{MAPS}/b")).await.expect(500).json();
        assert_eq!(status["reason"], "InternalError", "{status}");
        let _ = cluster.delete(&format!("{MAPS}/b?{OPTION}=true")).await.expect(200);
        let cluster = cluster.restart().await;
        let _ = cluster.get(&format!("{MAPS}/b")).await.expect(404);
        cluster.stop().await;
    });
}

/// What nobody can read may be an owner of something, and may be all that a namespace still has.
#[test]
fn controllers_take_it_for_there() {
    pintle_testkit::run(async {
        let cluster = Cluster::with_options(Options { gates: gates(true), ..Options::default() }).await;
        let owner = cluster.post(MAPS, map("b").to_string()).await.expect(201).json();
        let reference =
            |name: &str, uid: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
        let owned = |name: &str, reference: Value| {
            json!({"metadata": {"name": name, "ownerReferences": [reference]}}).to_string()
        };
        cluster.write_to_store("/registry/configmaps/default/b", HALF).await;
        let kept = owned("kept", reference("b", &owner["metadata"]["uid"]));
        let _ = cluster.post(MAPS, kept).await.expect(201);
        let _ = cluster.post(MAPS, owned("orphan", reference("nobody", &json!("1")))).await.expect(201);
        while cluster.get(&format!("{MAPS}/orphan")).await.status != 404 {}
        let _ = cluster.get(&format!("{MAPS}/kept")).await.expect(200);

        let namespace = "/api/v1/namespaces/n";
        let _ = cluster.post("/api/v1/namespaces", map("n").to_string()).await.expect(201);
        cluster.write_to_store("/registry/configmaps/n/b", HALF).await;
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
        while cluster.get(namespace).await.status != 404 {}
        cluster.stop().await;
    });
}
