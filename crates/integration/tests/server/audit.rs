//! Audit events of requests, as the server records them in a file.

use std::path::Path;

use pintle_audit::AuditOptions;
use pintle_integration::{AccessOptions, Cluster, Options, run};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Selects all requests except the server's own.
const ALL: &str = "rules: [{level: None, users: ['system:apiserver']}, {level: RequestResponse}]";

/// A server that records events by a policy in a folder, with a user `jane` who may do everything.
async fn start(folder: &Path, policy: &str, change: impl FnOnce(&mut Options)) -> Cluster {
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    std::fs::write(file("policy"), format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{policy}\n")).expect("a file");
    let mut audit = AuditOptions { policy_file: file("policy"), ..AuditOptions::default() };
    audit.log.path = file("log");
    audit.log.batch.mode = "blocking-strict".to_owned();
    let tokens = Some("t,jane,1,system:masters\n".to_owned());
    let mut options = Options { access: AccessOptions { tokens, ..AccessOptions::default() }, ..Options::default() };
    options.audit = audit;
    change(&mut options);
    Cluster::with_options(options).await
}

/// Runs a test with a folder of its own.
fn in_folder<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(std::path::PathBuf) -> F) {
    let folder = tempfile::tempdir().expect("a folder");
    run(test(folder.path().to_owned()));
}

/// All events that are recorded so far.
fn events(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("log")).expect("the log");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The events with an audit ID.
fn events_of(folder: &Path, id: &str) -> Vec<Value> {
    events(folder).into_iter().filter(|event| event["auditID"] == id).collect()
}

/// The last event with an audit ID.
fn last_event(folder: &Path, id: &str) -> Value {
    events_of(folder, id).pop().unwrap_or_else(|| panic!("no event of {id}"))
}

/// Waits until there are so many events with an audit ID.
async fn wait_for_events(folder: &Path, id: &str, count: usize) -> Vec<Value> {
    loop {
        let found = events_of(folder, id);
        if found.len() >= count {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[test]
fn each_stage_of_a_request_has_an_event() {
    in_folder(|folder| async move {
        let cluster = start(&folder, ALL, |_| ()).await;
        let send = |id: &str, method: &str, path: &str| {
            let request = cluster.request(method, path).anonymous().header("Authorization", "Bearer t");
            request.header("User-Agent", "test").header("Audit-ID", id).header("X-Forwarded-For", "10.1.2.3")
        };
        let created = send("a", "POST", MAPS).json(r#"{"metadata":{"name":"a"},"data":{"k":"<v>"}}"#).send().await;
        let created = created.expect(201);
        assert_eq!(created.header("audit-id"), "a");
        let mut found = events_of(&folder, "a");
        for event in &mut found {
            for field in ["requestReceivedTimestamp", "stageTimestamp"] {
                let time = event.as_object_mut().and_then(|event| event.remove(field)).expect("a time");
                assert_eq!(time.as_str().map(str::len), Some("2026-01-02T03:04:05.678901Z".len()), "{time}");
            }
        }
        let received = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse", "auditID": "a",
            "stage": "RequestReceived", "requestURI": MAPS, "verb": "create",
            "user": {"username": "jane", "uid": "1", "groups": ["system:masters", "system:authenticated"]},
            "sourceIPs": ["10.1.2.3", "127.0.0.1"], "userAgent": "test",
            "objectRef": {"resource": "configmaps", "namespace": "default", "apiVersion": "v1"},
        });
        let mut complete = received.clone();
        complete["stage"] = json!("ResponseComplete");
        complete["objectRef"]["name"] = json!("a");
        complete["responseStatus"] = json!({"metadata": {}, "code": 201});
        complete["requestObject"] =
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "<v>"}});
        complete["responseObject"] = created.json();
        complete["annotations"] = json!({"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""});
        assert_eq!(found, [received, complete]);
        let line = std::fs::read_to_string(folder.join("log")).expect("the log");
        assert!(line.contains(r#""data":{"k":"\u003cv\u003e"}"#), "{line}");

        let stages = |events: &[Value]| -> Vec<(String, Value)> {
            let of = |event: &Value| {
                (event["stage"].as_str().unwrap_or_default().to_owned(), event["responseStatus"].clone())
            };
            events.iter().map(of).collect()
        };
        let _ = send("b", "GET", &format!("{MAPS}/b")).send().await.expect(404);
        let missing = last_event(&folder, "b");
        assert_eq!(missing["responseStatus"]["message"], "configmaps \"b\" not found");
        assert_eq!(missing["responseObject"]["kind"], "Status");

        let watch = send("w", "GET", &format!("{MAPS}?watch=1")).watch().await;
        let started = wait_for_events(&folder, "w", 2).await;
        let ok = json!({"metadata": {}, "code": 200});
        let first = [("RequestReceived".to_owned(), Value::Null), ("ResponseStarted".to_owned(), ok.clone())];
        assert_eq!(stages(&started), first);
        drop(watch);
        let ended = wait_for_events(&folder, "w", 3).await;
        assert_eq!(stages(&ended)[2], ("ResponseComplete".to_owned(), ok));
        assert!(ended[2].get("responseObject").is_none());

        let refused = cluster.request("GET", MAPS).anonymous().header("Authorization", "Bearer x");
        let _ = refused.header("Audit-ID", "u").send().await.expect(401);
        let _ = send("t", "GET", &format!("{MAPS}?timeout=x")).send().await.expect(400);
        for (id, code) in [("u", 401), ("t", 400)] {
            let [event] = &events_of(&folder, id)[..] else { panic!("one event of {id}") };
            assert_eq!((&event["stage"], &event["user"]), (&json!("ResponseStarted"), &json!({})));
            assert_eq!(event["responseStatus"]["code"], code);
        }
        cluster.stop().await;
    });
}

#[test]
fn objects_are_json_in_every_encoding() {
    in_folder(|folder| async move {
        let cluster = start(&folder, ALL, |_| ()).await;
        for name in ["a", "b"] {
            let _ = cluster.post(MAPS, json!({"metadata": {"name": name}}).to_string()).await.expect(201);
        }
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let get = async |id: &str, path: &str, accept: &str| {
            let request = cluster.request("GET", path).header("Audit-ID", id).header("Accept", accept);
            let answer = request.header("Accept-Encoding", "gzip").send().await.expect(200);
            (answer, last_event(&folder, id)["responseObject"].clone())
        };
        for path in [format!("{MAPS}/a"), MAPS.to_owned(), "/api".to_owned(), "/apis".to_owned()] {
            let (answer, object) = get(&format!("j{path}"), &path, "application/json").await;
            assert_eq!(object, answer.json(), "{path}");
            for (number, accept) in [PROTOBUF, "application/yaml", "application/json;pretty=1"].into_iter().enumerate()
            {
                let (_, again) = get(&format!("{number}{path}"), &path, accept).await;
                assert_eq!(again, object, "{path} {accept}");
            }
        }
        let (answer, object) = get("table", MAPS, table).await;
        assert_eq!((&object, &object["kind"]), (&answer.json(), &json!("Table")));
        let (_, object) = get("partial", MAPS, partial).await;
        assert_eq!(
            (&object["kind"], &object["items"][1]["metadata"]["name"]),
            (&json!("PartialObjectMetadataList"), &json!("b"))
        );
        // Documents that are no API objects are not recorded.
        let (_, object) = get("version", "/version", "application/json").await;
        assert_eq!(object, Value::Null);
        cluster.stop().await;
    });
}

#[test]
fn the_policy_decides_what_is_recorded() {
    let policy = "omitStages: [RequestReceived]\nomitManagedFields: true\nrules:
- {level: None, nonResourceURLs: ['/healthz*']}
- {level: Metadata, verbs: [get]}
- {level: Request, verbs: [create, delete, patch], omitStages: []}
- {level: RequestResponse, omitManagedFields: false, verbs: [update]}
- {level: RequestResponse, verbs: [list]}";
    in_folder(|folder| async move {
        let cluster = start(&folder, policy, |_| ()).await;
        let request = |id: &str, method: &str, path: &str| cluster.request(method, path).header("Audit-ID", id);
        let object = format!("{MAPS}/a");
        let _ = request("none", "GET", "/healthz").send().await.expect(200);
        let created = request("create", "POST", MAPS)
            .json(r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#)
            .send()
            .await
            .expect(201);
        let _ = request("get", "GET", &object).send().await.expect(200);
        let _ = request("update", "PUT", &object).json(created.json().to_string()).send().await.expect(200);
        let _ = request("list", "GET", MAPS).send().await.expect(200);
        let merge = request("merge", "PATCH", &object)
            .body("application/merge-patch+json", r#"{ "data": {"b":"1", "a":"2"} }"#);
        let _ = merge.send().await.expect(200);
        let apply = request("apply", "PATCH", &format!("{object}?fieldManager=m&force=true"));
        let yaml = "apiVersion: v1\nkind: ConfigMap\ndata:\n  c: '3'\n";
        let _ = apply.body("application/apply-patch+yaml", yaml).send().await.expect(200);
        let broken = request("broken", "PATCH", &object).body("application/merge-patch+json", "{");
        let _ = broken.send().await.expect(400);
        let options = r#"{"propagationPolicy":"Background","gracePeriodSeconds":0}"#;
        let _ = request("delete", "DELETE", &object).json(options).send().await.expect(200);

        let shown = |id: &str| {
            let events = events_of(&folder, id);
            let has = |event: &Value, field: &str| event.get(field).is_some();
            let last = events.last().cloned().unwrap_or_default();
            (events.len(), has(&last, "requestObject"), has(&last, "responseObject"))
        };
        assert_eq!(shown("none"), (0, false, false));
        assert_eq!(shown("create"), (1, true, false));
        assert_eq!(shown("get"), (1, false, false));
        assert_eq!(shown("update"), (1, true, true));
        assert_eq!(shown("list"), (1, false, true));
        let update = last_event(&folder, "update");
        assert!(update["requestObject"]["metadata"]["managedFields"].is_array(), "{update}");
        assert!(update["responseObject"]["metadata"]["managedFields"].is_array(), "{update}");
        let uid = &created.json()["metadata"]["uid"];
        assert_eq!((&update["objectRef"]["uid"], update["objectRef"]["resourceVersion"].is_string()), (uid, true));
        let list = last_event(&folder, "list");
        let metadata = &list["responseObject"]["items"][0]["metadata"];
        assert!(metadata["name"] == "a" && metadata.get("managedFields").is_none(), "{list}");
        let patch = |id: &str| last_event(&folder, id)["requestObject"].clone();
        let lines = std::fs::read_to_string(folder.join("log")).expect("the log");
        assert!(lines.contains(r#""requestObject":{"data":{"b":"1","a":"2"}}"#), "{lines}");
        assert_eq!(patch("apply"), json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"c": "3"}}));
        assert_eq!(patch("broken"), "{");
        let options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal", "gracePeriodSeconds": 0,
            "propagationPolicy": "Background"});
        assert_eq!(patch("delete"), options);
        cluster.stop().await;
    });
}

#[test]
fn nothing_is_answered_that_cannot_be_recorded() {
    let policy = "rules: [{level: None, users: ['system:apiserver']}, {level: None, verbs: [list]}, {level: Metadata}]";
    for (mode, code) in [("blocking-strict", 500), ("blocking", 201)] {
        in_folder(move |folder| async move {
            let full = |options: &mut Options| {
                options.audit.log.path = "/dev/full".to_owned();
                options.audit.log.batch.mode = mode.to_owned();
            };
            let cluster = start(&folder, policy, full).await;
            let answer = cluster.post(MAPS, r#"{"metadata":{"name":"a"}}"#).await.expect(code);
            if code == 500 {
                let message = format!("Internal Server Error: \"{MAPS}\": failed to store audit event\n");
                assert_eq!(answer.text(), message);
            }
            let list = cluster.get(MAPS).await.expect(200).json();
            let names: Vec<&Value> = list["items"].as_array().into_iter().flatten().collect();
            assert_eq!(names.len(), usize::from(code == 201));
            let metrics = cluster.get("/metrics").await;
            // The metrics are a request, too.
            if code == 500 {
                let _ = metrics.expect(500);
            } else {
                let metrics = metrics.expect(200).text();
                // Both stages of the create, and the first stage of the request for metrics.
                assert!(metrics.contains("apiserver_audit_error_total{plugin=\"log\"} 3\n"), "{metrics}");
                assert!(metrics.contains("apiserver_audit_requests_rejected_total 0\n"), "{metrics}");
            }
            cluster.stop().await;
        });
    }
}

#[test]
fn large_lists_are_left_out_of_truncated_events() {
    in_folder(|folder| async move {
        let small = |options: &mut Options| {
            options.audit.log.truncate.enabled = true;
            options.audit.log.truncate.max_event_size = 3000;
            options.audit.log.truncate.max_batch_size = 3000;
        };
        let cluster = start(&folder, ALL, small).await;
        let text = "x".repeat(1000);
        for name in ["a", "b", "c", "d"] {
            let object = json!({"metadata": {"name": name}, "data": {"k": text}});
            let _ = cluster.post(MAPS, object.to_string()).await.expect(201);
        }
        for (id, path) in [("one", &format!("{MAPS}/a")), ("list", &MAPS.to_owned())] {
            let _ = cluster.request("GET", path).header("Audit-ID", id).send().await.expect(200);
        }
        let one = last_event(&folder, "one");
        assert_eq!(one["responseObject"]["data"]["k"], text);
        let list = last_event(&folder, "list");
        assert_eq!(
            (list.get("responseObject"), &list["annotations"]["audit.k8s.io/truncated"]),
            (None, &json!("true"))
        );
        assert_eq!(list["responseStatus"]["code"], 200);
        cluster.stop().await;
    });
}

#[test]
fn annotations_tell_what_else_is_known() {
    in_folder(|folder| async move {
        let cluster = start(&folder, ALL, |_| ()).await;
        let get = |id: &str, path: &str| cluster.request("GET", path).header("Audit-ID", id);
        let endpoints = "/api/v1/namespaces/default/endpoints";
        let _ = get("deprecated", endpoints).send().await.expect(200);
        assert_eq!(last_event(&folder, "deprecated")["annotations"]["k8s.io/deprecated"], "true");
        // The server waits three seconds for a future revision.
        let _ = get("slow", &format!("{MAPS}?resourceVersion=100000000")).send().await.expect(504);
        let slow = last_event(&folder, "slow");
        let total = slow["annotations"]["apiserver.latency.k8s.io/total"].as_str().unwrap_or_default();
        assert!(total.starts_with('3') && total.ends_with('s'), "{slow}");
        assert_eq!(slow["responseStatus"]["reason"], "Timeout");
        let namespace =
            json!({"metadata": {"name": "n", "labels": {"pod-security.kubernetes.io/audit": "restricted"}}});
        let _ = cluster.post("/api/v1/namespaces", namespace.to_string()).await.expect(201);
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let create = cluster.request("POST", "/api/v1/namespaces/n/pods").header("Audit-ID", "pod");
        let _ = create.json(pod.to_string()).send().await.expect(201);
        let pod = last_event(&folder, "pod");
        let violations = pod["annotations"]["pod-security.kubernetes.io/audit-violations"].as_str().unwrap_or_default();
        assert!(violations.starts_with("would violate PodSecurity \"restricted:latest\""), "{pod}");
        // The object of the request has its defaults, but no changes by admission.
        assert_eq!(pod["requestObject"]["spec"]["restartPolicy"], "Always");
        assert_eq!(pod["requestObject"]["metadata"], json!({"name": "p"}));
        cluster.stop().await;
    });
}

#[test]
fn the_servers_own_writes_are_requests_over_loopback() {
    in_folder(|folder| async move {
        let policy = "rules: [{level: RequestResponse, users: ['system:apiserver'], resources: [{group: '', resources: [configmaps]}]}]";
        let cluster = start(&folder, policy, |options| options.every_namespace_objects = true).await;
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata":{"name":"n"}}"#).await.expect(201);
        let own = loop {
            let of_namespace =
                |event: &Value| event["objectRef"]["namespace"] == "n" && event["stage"] == "ResponseComplete";
            if let Some(event) = events(&folder).into_iter().find(of_namespace) {
                break event;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        };
        assert_eq!(own["user"]["username"], "system:apiserver");
        assert_eq!(own["user"]["groups"], json!(["system:authenticated", "system:masters"]));
        assert_eq!((&own["verb"], &own["sourceIPs"]), (&json!("create"), &json!(["127.0.0.1"])));
        assert_eq!(own["requestURI"], "/api/v1/namespaces/n/configmaps");
        assert_eq!(
            (&own["objectRef"]["name"], &own["responseStatus"]["code"]),
            (&json!("kube-root-ca.crt"), &json!(201))
        );
        assert!(
            own["requestObject"]["metadata"].get("uid").is_none()
                && own["responseObject"]["metadata"]["uid"].is_string()
        );
        let _ = cluster.delete("/api/v1/namespaces/n").await.expect(200);
        loop {
            let is_delete = |event: &Value| event["verb"] == "delete" && event["objectRef"]["namespace"] == "n";
            if events(&folder).iter().any(is_delete) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        cluster.stop().await;
    });
}
