//! Objects with the maximum nesting depth of decoders. The server serves and changes them, and they survive a restart,
//! whatever the stack size of the caller's thread.

use std::future::Future;

use pintle_integration::Cluster;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The stack size of the thread that starts a server, in bytes: half the default of Rust's threads. Without
/// optimizations, the test's own futures need more than half of this stack, because each start moves the options of a
/// server.
const SMALL_STACK: usize = 1 << 20;
/// The maximum nesting depth that decoders accept.
const MAX_DEPTH: usize = 10_000;
/// The depth of the deepest object whose managed fields are accepted, too. Managed fields nest as deep as the object,
/// and add levels of their own.
const DEEPEST: usize = MAX_DEPTH - 20;

/// Runs a test on a runtime with one thread and a small stack.
fn run_on_small_stack(test: impl Future<Output = ()> + Send + 'static) {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(test);
    };
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK).spawn(run).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A CRD with two versions and this schema for `spec`.
fn crd(schema: &str) -> String {
    let version = |name: &str, storage: bool| {
        format!(
            r#"{{"name":"{name}","served":true,"storage":{storage},"schema":{{"openAPIV3Schema":
            {{"type":"object","properties":{{"spec":{schema}}}}}}}}}"#
        )
    };
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{{"name":"deeps.example.com"}},"spec":{{"group":"example.com","scope":"Namespaced",
        "names":{{"plural":"deeps","singular":"deep","kind":"Deep","listKind":"DeepList"}},
        "versions":[{},{}]}}}}"#,
        version("v1", true),
        version("v2", false)
    )
}

/// Creates a CRD, and waits until its objects are served.
async fn create_crd(cluster: &Cluster, schema: &str) {
    let created = cluster.post(CRDS, crd(schema)).await;
    assert_eq!(created.status, 201, "{:.300}", created.text());
    // The text is not decoded, because serde_json accepts only 128 levels.
    let established = r#""type":"Established","status":"True""#;
    cluster.get_until(&format!("{CRDS}/deeps.example.com"), |found| found.text().contains(established)).await;
}

/// An object with this many levels.
fn object(name: &str, depth: usize) -> String {
    let (open, close) = (r#"{"a":"#.repeat(depth - 2), "}".repeat(depth - 2));
    format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Deep","metadata":{{"name":"{name}"}},"spec":{{"x":{open}1{close}}}}}"#
    )
}

#[test]
fn a_crd_with_a_deep_schema_survives_a_restart() {
    run_on_small_stack(async {
        let cluster = Cluster::durable().await;
        const LEVELS: usize = 4_900;
        let schema = format!(
            r#"{}{{"type":"string"}}{}"#,
            r#"{"type":"object","properties":{"a":"#.repeat(LEVELS),
            "}}".repeat(LEVELS)
        );
        create_crd(&cluster, &schema).await;
        let cluster = cluster.restart().await;
        let objects = "/apis/example.com/v1/namespaces/default/deeps";
        let _ = cluster.post(objects, object("a", 100)).await.expect(201);
        let _ = cluster.get("/apis/example.com/v2/namespaces/default/deeps/a").await.expect(200);
        for path in [CRDS, "/openapi/v2", "/openapi/v3/apis/example.com/v1", "/apis/example.com/v1"] {
            let _ = cluster.get(path).await.expect(200);
        }
        let _ = cluster.delete(&format!("{CRDS}/deeps.example.com")).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn the_deepest_custom_resources_are_served_after_a_restart() {
    run_on_small_stack(async {
        let cluster = Cluster::durable().await;
        create_crd(&cluster, r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#).await;
        let objects = "/apis/example.com/v1/namespaces/default/deeps";
        let a = format!("{objects}/a");
        let created = cluster.post(objects, object("a", DEEPEST)).await;
        assert_eq!(created.status, 201, "{:.300}", created.text());
        let _ = cluster.post(objects, object("b", MAX_DEPTH + 1)).await.expect(400);
        let cluster = cluster.restart().await;
        for version in ["v1", "v2"] {
            let objects = format!("/apis/example.com/{version}/namespaces/default/deeps");
            for path in [objects.clone(), format!("{objects}/a")] {
                let response = cluster.get(&path).await;
                assert_eq!(response.status, 200, "{:.300}", response.text());
            }
            let watch = cluster.request("GET", &format!("{objects}?watch=1&resourceVersion=0")).stream().await;
            let mut stream = watch.expect("a connection").expect("a watch");
            let event = stream.next().await.expect("a connection").expect("an event");
            assert!(event.starts_with(br#"{"type":"ADDED""#));
        }
        for (patch_type, patch) in [
            ("merge", r#"{"metadata":{"labels":{"a":"b"}}}"#),
            ("json", r#"[{"op":"add","path":"/metadata/labels/c","value":"d"}]"#),
        ] {
            let patched = cluster.patch(&a, patch_type, patch).await;
            assert_eq!(patched.status, 200, "{patch_type}: {:.300}", patched.text());
        }
        let apply = cluster.request("PATCH", &format!("{a}?fieldManager=m&force=true"));
        let applied = apply.body("application/apply-patch+yaml", object("a", DEEPEST)).send().await;
        assert_eq!(applied.status, 200, "{:.300}", applied.text());
        let cluster = cluster.restart().await;
        let list = cluster.get(objects).await;
        assert_eq!(list.status, 200, "{:.300}", list.text());
        let deleted = cluster.delete(&a).await;
        assert_eq!(deleted.status, 200, "{:.300}", deleted.text());
        let _ = cluster.delete(&format!("{CRDS}/deeps.example.com")).await.expect(200);
        cluster.stop().await;
    });
}
