//! A server without requests uses no processor time, whatever requests it got before.

use std::path::Path;
use std::time::{Duration, Instant};

use pintle_integration::{COSTLY_REQUESTS, Cluster, Options, run};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::PROGRAM;

/// The duration of a measurement of the processor time.
const WINDOW: Duration = Duration::from_secs(2);
/// The processor time that an idle server may use, as a part of one processor. With their periodic tasks, debug builds
/// use up to 0.003 and release builds a third of that. A single task that never ends uses 1.
const MAX_SHARE: f64 = 0.01;
/// How long the server may work after the last request. It needs much less, but the machine may be busy.
const MAX_REST: Duration = Duration::from_secs(60);

const DEFAULT: &str = "/api/v1/namespaces/default";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The lines of `/metrics` about background tasks, the busiest first.
async fn background_tasks(cluster: &Cluster) -> Vec<String> {
    let metrics = cluster.get("/metrics").await.expect(200).text();
    let busy = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).unwrap_or_default();
    let is_task = |line: &&str| line.starts_with("pintle_background_task_busy_seconds_total{");
    let mut tasks: Vec<String> = metrics.lines().filter(is_task).map(str::to_owned).collect();
    tasks.sort_by(|one, other| busy(other).total_cmp(&busy(one)));
    tasks.truncate(5);
    tasks
}

/// Waits until the server is idle.
async fn expect_idle(cluster: &Cluster, after: &str) {
    let started = Instant::now();
    loop {
        let before = cluster.processor_time().await;
        tokio::time::sleep(WINDOW).await;
        let Some(used) = cluster.processor_time().await.zip(before).map(|(now, before)| now.saturating_sub(before))
        else {
            return;
        };
        let share = used.as_secs_f64() / WINDOW.as_secs_f64();
        if share <= MAX_SHARE {
            return;
        }
        if started.elapsed() > MAX_REST {
            let tasks = background_tasks(cluster).await;
            panic!("after {after}, the server uses {share:.3} of a processor, its tasks: {tasks:#?}");
        }
    }
}

async fn write_objects(cluster: &Cluster) {
    let maps = format!("{DEFAULT}/configmaps");
    for number in 0..300 {
        let map = json!({"metadata": {"name": format!("m-{number}")}, "data": {"a": "b"}}).to_string();
        let _ = cluster.post(&maps, map).await.expect(201);
        let patch = format!(r#"{{"data":{{"a":"{number}"}}}}"#);
        let _ = cluster.patch(&format!("{maps}/m-{number}"), "merge", &patch).await.expect(200);
    }
    let _ = cluster.delete(&maps).await.expect(200);
}

async fn define_resources(cluster: &Cluster) {
    for number in 0..40 {
        let (plural, group) = (format!("things{number}"), "idle.example.com");
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let crd = json!({
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": plural, "kind": format!("Thing{number}")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        });
        let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
    }
    let _ = cluster.get("/openapi/v2").await.expect(200);
    let _ = cluster.delete(&format!("{CRDS}/things0.idle.example.com")).await.expect(200);
}

/// Deletes an owner with dependents, one of which has many other owners, and a namespace with objects.
async fn collect_garbage(cluster: &Cluster) {
    let maps = format!("{DEFAULT}/configmaps");
    let owner = cluster.post(&maps, r#"{"metadata":{"name":"owner"}}"#).await.expect(201).json();
    let reference = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    let uid = owner["metadata"]["uid"].as_str().expect("a UID");
    for number in 0..100 {
        let owners = [reference("owner", uid)];
        let map = json!({"metadata": {"name": format!("d-{number}"), "ownerReferences": owners}}).to_string();
        let _ = cluster.post(&maps, map).await.expect(201);
    }
    let missing = (0..2000).map(|number| reference(&format!("none-{number}"), &format!("uid-{number}")));
    let owners: Vec<_> = missing.chain([reference("owner", uid)]).collect();
    let map = json!({"metadata": {"name": "many", "ownerReferences": owners}}).to_string();
    let _ = cluster.post(&maps, map).await.expect(201);
    let _ = cluster.delete(&format!("{maps}/owner")).await.expect(200);
    let _ = cluster.post("/api/v1/namespaces", r#"{"metadata":{"name":"gone"}}"#).await.expect(201);
    for number in 0..20 {
        let map = format!(r#"{{"metadata":{{"name":"m-{number}"}}}}"#);
        let _ = cluster.post("/api/v1/namespaces/gone/configmaps", map).await.expect(201);
    }
    let _ = cluster.delete("/api/v1/namespaces/gone").await.expect(200);
}

/// Runs clients that read, watch, are refused, or disconnect in the middle of a response.
async fn read_and_leave(cluster: &Cluster) {
    let mut watches = Vec::new();
    for _ in 0..50 {
        watches.push(cluster.watch(&format!("{DEFAULT}/configmaps?watch=1&resourceVersion=0")).await);
        let _ = cluster.get("/api/v1/pods?limit=10").await.expect(200);
        let refused = cluster.request("GET", "/api/v1/nodes").anonymous().header("Authorization", "Bearer wrong");
        let _ = refused.send().await.expect(401);
    }
    let unfinished = "POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{";
    for _ in 0..20 {
        let mut socket = cluster.connect().await;
        socket.write_all(unfinished.as_bytes()).await.expect("a connection");
    }
    drop(watches);
}

async fn send_costly_requests(cluster: &Cluster) {
    for costly in COSTLY_REQUESTS {
        for (path, object) in (costly.setup)() {
            let _ = cluster.post(path, object.to_string()).await.expect(201);
        }
        let collection = costly.path.split('?').next().unwrap_or_default();
        cluster.get_until_status(collection, 200).await;
        let request = cluster.request("POST", costly.path).body(costly.media_type, (costly.body)());
        let response = request.send().await;
        assert!(costly.codes.contains(&response.status.as_u16()), "{}: {}", costly.name, response.status);
    }
}

#[test]
fn a_server_is_idle_after_every_kind_of_work() {
    run(async {
        let cluster = Cluster::of_process(Path::new(PROGRAM), Options::default()).await;
        expect_idle(&cluster, "the start").await;
        write_objects(&cluster).await;
        expect_idle(&cluster, "writes").await;
        define_resources(&cluster).await;
        expect_idle(&cluster, "definitions").await;
        collect_garbage(&cluster).await;
        expect_idle(&cluster, "the collection of garbage").await;
        read_and_leave(&cluster).await;
        expect_idle(&cluster, "clients that have gone").await;
        send_costly_requests(&cluster).await;
        expect_idle(&cluster, "costly requests").await;
        let tasks = background_tasks(&cluster).await;
        assert!(tasks.iter().any(|line| line.contains(r#"task="garbage-collector-controller""#)), "{tasks:#?}");
    });
}
