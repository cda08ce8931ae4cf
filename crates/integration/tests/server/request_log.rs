//! The log of requests (`--log-requests`): a line of JSON for each request, without secrets.

use std::path::Path;

use pintle_codec::{cbor, json, protobuf};
use pintle_integration::{AccessOptions, Cluster, Options, run};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The lines of requests for paths that begin with one of these.
fn lines(log: &Path, prefixes: &[&str]) -> Vec<Value> {
    let text = std::fs::read_to_string(log).expect("the log");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines
        .filter(|line| prefixes.iter().any(|p| line["path"].as_str().is_some_and(|path| path.starts_with(p))))
        .collect()
}

/// The fields of a line that do not change from run to run.
fn stable(line: &Value) -> Value {
    let mut line = line.clone();
    let fields = line.as_object_mut().expect("an object");
    assert!(fields.remove("latencySeconds").is_some_and(|latency| latency.as_f64() > Some(0.0)));
    assert!(fields.remove("time").is_some_and(|time| time.as_str().is_some_and(|time| time.len() == 27)));
    assert!(fields.remove("source").is_some_and(|source| source.as_str().is_some_and(|s| s.starts_with("127.0.0.1:"))));
    line
}

#[test]
fn every_request_has_a_line_with_its_user_body_and_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("requests");
    let path = log.clone();
    run(async move {
        let tokens = Some("t,jane,1,team\n".to_owned());
        let access = AccessOptions { tokens, ..AccessOptions::default() };
        let cluster = Cluster::with_options(Options { access, request_log: Some(path), ..Options::default() }).await;
        let as_jane = |method: &str, path: &str| {
            let request = cluster.request(method, path).anonymous().header("Authorization", "Bearer t");
            request.header("User-Agent", "a-controller")
        };
        let object = r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#;
        let _ = as_jane("POST", MAPS).json(object).send().await.expect(201);
        let _ = as_jane("POST", MAPS).json(object).send().await.expect(409);
        let _ = as_jane("GET", &format!("{MAPS}/a?pretty=true")).send().await.expect(200);
        let _ = cluster.request("GET", MAPS).anonymous().header("Authorization", "Bearer x").send().await.expect(401);
        let mut watch = cluster.watch(&format!("{MAPS}?watch=1")).await;
        let _ = watch.expect("ADDED", "a").await;
        cluster.stop().await;
    });
    let found = lines(&log, &[MAPS]);
    let jane = |fields: Value| {
        let mut line = json!({
            "user": "jane", "groups": ["team", "system:authenticated"], "userAgent": "a-controller", "path": MAPS,
            "version": "v1", "resource": "configmaps", "namespace": "default",
        });
        line.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        line
    };
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    assert_eq!(stable(&found[0]), jane(json!({"verb": "create", "code": 201, "body": body})));
    let message = "configmaps \"a\" already exists";
    let conflict = json!({"verb": "create", "code": 409, "body": body, "reason": "AlreadyExists", "message": message});
    assert_eq!(stable(&found[1]), jane(conflict));
    let path = format!("{MAPS}/a?pretty=true");
    assert_eq!(stable(&found[2]), jane(json!({"verb": "get", "name": "a", "code": 200, "path": path})));
    let refused = json!({
        "verb": "list", "path": MAPS, "version": "v1", "resource": "configmaps", "namespace": "default", "code": 401,
        "reason": "Unauthorized", "message": "Unauthorized",
    });
    assert_eq!(stable(&found[3]), refused);
    // The line of a watch is written when it begins.
    assert_eq!((&found[4]["verb"], &found[4]["code"]), (&json!("watch"), &json!(200)));
    assert_eq!(found.len(), 5);
}

#[test]
fn secrets_are_not_logged_in_any_encoding() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("requests");
    let path = log.clone();
    run(async move {
        let cluster = Cluster::with_options(Options { request_log: Some(path), ..Options::default() }).await;
        let text = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"NAME"},"data":{"k":"c2VjcmV0"}}"#;
        let tree = |name: &str| {
            let text = text.replace("NAME", name);
            json::decode(text.as_bytes(), json::DecodeOptions::default()).expect("JSON").value
        };
        let catalog = pintle_catalog::shared();
        let kind = catalog.kind_type("", "v1", "Secret").expect("a kind");
        let mut message = Vec::new();
        protobuf::encode_envelope("v1", "Secret", &mut message, |out| {
            protobuf::encode(&tree("p"), catalog.types(), kind, out);
        });
        let post = |media_type: &'static str, body: Vec<u8>| cluster.request("POST", SECRETS).body(media_type, body);
        let _ = post("application/json", json::encode(&tree("j"))).send().await.expect(201);
        let _ = post("application/yaml", json::encode(&tree("y"))).send().await.expect(201);
        let _ = post(PROTOBUF, message).send().await.expect(201);
        // The server does not support this media type without its feature gate, but it logs the request.
        let _ = post("application/cbor", cbor::encode(&tree("c"))).send().await.expect(415);
        let _ = post("application/json", br#"{"data":{"k":"c2VjcmV0"#.to_vec()).send().await.expect(400);
        let object = format!("{SECRETS}/j");
        let _ =
            cluster.patch(&object, "json", r#"[{"op":"add","path":"/data/l","value":"c2VjcmV0"}]"#).await.expect(200);
        let _ = cluster.patch(&object, "merge", r#"{"stringData":{"m":"c2VjcmV0"}}"#).await.expect(200);
        let maps = "/api/v1/namespaces/default/configmaps";
        let _ = cluster.post(maps, text.replace("NAME", "m")).await.expect(400);
        let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
        let _ = cluster.post(reviews, r#"{"spec":{"token":"c2VjcmV0"}}"#).await.expect(201);
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        let _ = cluster.post(accounts, r#"{"metadata":{"name":"a"}}"#).await.expect(201);
        let _ = cluster.post(&format!("{accounts}/a/token"), r#"{"spec":{"audiences":["x"]}}"#).await.expect(201);
        cluster.stop().await;
    });
    let text = std::fs::read_to_string(&log).expect("the log");
    assert!(!text.contains("c2VjcmV0"), "{text}");
    let bodies: Vec<Value> = lines(&log, &["/api"]).into_iter().map(|line| line["body"].clone()).collect();
    let object =
        |name| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"k": "REDACTED"}});
    assert_eq!(bodies[..3], [object("j"), object("y"), object("p")]);
    assert_eq!(bodies[5], json!([{"op": "add", "path": "/data/l", "value": "REDACTED"}]));
    assert_eq!(bodies[6], json!({"stringData": {"m": "REDACTED"}}));
    assert_eq!(bodies[8], json!({"spec": {"token": "REDACTED"}}));
    assert_eq!(bodies[10], json!({"spec": {"audiences": ["x"]}}));
}
