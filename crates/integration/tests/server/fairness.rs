//! API Priority and Fairness: requests that wait, requests that are rejected, and dumps.

mod departures;
mod shutdown;
mod watches;

use std::time::Duration;

use pintle::Options;
use pintle_integration::{Cluster, Response, eventually, run};
use pintle_server::RequestLimits;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::metrics::Scrape;

const GROUP: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DUMPS: &str = "/debug/api_priority_and_fairness";
const BODY: &str = r#"{"metadata":{"generateName":"a"}}"#;

/// Starts a cluster in which the requests of the user `noisy` are at the level `narrow`, which has one seat.
async fn start(limit_response: Value) -> Cluster {
    start_with(limit_response, |_| ()).await
}

/// Starts the same cluster with other options.
async fn start_with(limit_response: Value, change: impl FnOnce(&mut Options)) -> Cluster {
    let limits =
        RequestLimits { max_requests_in_flight: 30, max_mutating_requests_in_flight: 0, ..RequestLimits::default() };
    let mut options = Options { limits, flow_control: true, ..Options::default() };
    change(&mut options);
    let cluster = Cluster::with_options(options).await;
    let level = json!({
        "metadata": { "name": "narrow" },
        "spec": {
            "type": "Limited",
            "limited": { "nominalConcurrencyShares": 1, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": limit_response },
        },
    });
    let _ = cluster.post(&format!("{GROUP}/prioritylevelconfigurations"), &level.to_string()).await.expect(201);
    assign(&cluster, "noisy").await;
    cluster
}

/// Assigns the requests of a user to the level `narrow`.
async fn assign(cluster: &Cluster, user: &str) {
    let schema = json!({
        "metadata": { "name": user },
        "spec": {
            "priorityLevelConfiguration": { "name": "narrow" },
            "matchingPrecedence": 50,
            "distinguisherMethod": { "type": "ByUser" },
            "rules": [{
                "subjects": [{ "kind": "User", "user": { "name": user } }],
                "resourceRules": [{
                    "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true,
                }],
            }],
        },
    });
    let _ = cluster.post(&format!("{GROUP}/flowschemas"), &schema.to_string()).await.expect(201);
}

/// Gets the ConfigMaps as a user.
async fn list_as(cluster: &Cluster, user: &str) -> Response {
    let request = cluster.request("GET", MAPS).header("Impersonate-User", user);
    request.header("Impersonate-Group", "system:authenticated").send().await
}

/// The limit response of a level whose only queue has room for so many requests.
fn queue(length: u32) -> Value {
    json!({ "type": "Queue", "queuing": { "queues": 1, "handSize": 1, "queueLengthLimit": length } })
}

/// Waits until a column of the level `narrow` has a value in the dump of levels.
async fn wait_for_column(cluster: &Cluster, column: &str, count: usize) {
    let has_value = || async {
        let dump = cluster.get(&format!("{DUMPS}/dump_priority_levels")).await.expect(200).text();
        let cells = |line: &str| line.split(',').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        let mut rows = dump.lines().map(cells);
        let place = rows.next().and_then(|head| head.iter().position(|name| name == column)).expect("a column");
        rows.find(|row| row[0] == "narrow").is_some_and(|row| row[place] == count.to_string())
    };
    eventually(&format!("{column}: {count}"), has_value).await;
}

/// Waits until so many requests wait at the level `narrow`.
async fn wait_until_waiting(cluster: &Cluster, count: usize) {
    wait_for_column(cluster, "WaitingRequests", count).await;
}

/// Waits until so many requests have seats of the level `narrow`.
async fn wait_until_executing(cluster: &Cluster, count: usize) {
    wait_for_column(cluster, "ExecutingRequests", count).await;
}

/// A sum of the metrics.
async fn metric(cluster: &Cluster, selector: &str) -> f64 {
    Scrape::of(cluster, "/metrics").await.sum(selector)
}

/// A connection whose create has a seat until its body is sent.
trait Connection: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin {}

impl<C: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> Connection for C {}

/// Begins a create as `noisy` whose body is not sent yet.
async fn begin_create(cluster: &Cluster) -> impl Connection + use<> {
    let mut socket = cluster.connect().await;
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: x\r\nimpersonate-user: noisy\r\nimpersonate-group: system:authenticated\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        BODY.len()
    );
    socket.write_all(head.as_bytes()).await.expect("the head is sent");
    socket
}

/// Begins a create as `noisy` that has the only seat of its level.
async fn hold_seat(cluster: &Cluster) -> impl Connection + use<> {
    wait_until_executing(cluster, 0).await;
    let socket = begin_create(cluster).await;
    wait_until_executing(cluster, 1).await;
    socket
}

/// Sends the body of a create, and reads the head of its response.
async fn release_seat(mut socket: impl Connection) {
    socket.write_all(BODY.as_bytes()).await.expect("the body is sent");
    let mut response = Vec::new();
    while !response.windows(4).any(|end| end == b"\r\n\r\n") {
        assert_ne!(socket.read_buf(&mut response).await.expect("a response"), 0);
    }
    let response = String::from_utf8_lossy(&response);
    assert!(response.starts_with("HTTP/1.1 201 "), "{response}");
}

#[test]
fn a_level_without_queues_rejects_requests_beyond_its_seats() {
    run(async {
        let cluster = start(json!({ "type": "Reject" })).await;
        let level = cluster.get(&format!("{GROUP}/prioritylevelconfigurations/narrow")).await.expect(200).json();
        let schema = cluster.get(&format!("{GROUP}/flowschemas/noisy")).await.expect(200).json();
        let allowed = list_as(&cluster, "noisy").await.expect(200);
        let socket = hold_seat(&cluster).await;
        let rejected = list_as(&cluster, "noisy").await.expect(429);
        assert_eq!(rejected.text(), "Too many requests, please try again later.\n");
        assert_eq!(rejected.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!((rejected.header("retry-after"), rejected.header("x-content-type-options")), ("1", "nosniff"));
        for response in [&allowed, &rejected] {
            assert_eq!(response.header("x-kubernetes-pf-flowschema-uid"), schema["metadata"]["uid"]);
            assert_eq!(response.header("x-kubernetes-pf-prioritylevel-uid"), level["metadata"]["uid"]);
        }
        // Others have their own levels.
        let _ = list_as(&cluster, "quiet").await.expect(200);
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let count = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"noisy\",priority_level=\"narrow\",\
                     reason=\"concurrency-limit\"} 1\n";
        assert!(metrics.contains(count), "{metrics}");
        release_seat(socket).await;
        eventually("the seat is free", || async { list_as(&cluster, "noisy").await.status == 200 }).await;
        cluster.stop().await;
    });
}

#[test]
fn requests_wait_in_queues_for_a_quarter_of_their_time() {
    run(async {
        let queuing = json!({ "queues": 4, "handSize": 1, "queueLengthLimit": 1 });
        let cluster = start(json!({ "type": "Queue", "queuing": queuing })).await;
        let socket = hold_seat(&cluster).await;
        let request = cluster.request("GET", &format!("{MAPS}?timeout=4s")).header("Impersonate-User", "noisy");
        let rejected = request.header("Impersonate-Group", "system:authenticated").send().await.expect(429);
        assert_eq!(rejected.header("retry-after"), "1");
        let dump = async |name: &str| cluster.get(&format!("{DUMPS}/{name}")).await.expect(200).text();
        let (waited, ()) = tokio::join!(list_as(&cluster, "noisy"), async {
            wait_until_waiting(&cluster, 1).await;
            assert_eq!(metric(&cluster, "apiserver_current_inqueue_requests{request_kind=readOnly}").await, 1.0);
            assert_eq!(metric(&cluster, "apiserver_current_inqueue_requests{request_kind=mutating}").await, 0.0);
            // The queue has room for one request.
            let _ = list_as(&cluster, "noisy").await.expect(429);
            release_seat(socket).await;
        });
        let _ = waited.expect(200);
        assert!(dump("dump_queues").await.contains("narrow,"));
        assert!(dump("dump_flows").await.contains("noisy"));
        cluster.stop().await;
    });
}

#[test]
fn requests_of_administrators_never_wait() {
    run(async {
        let cluster = start(json!({ "type": "Reject" })).await;
        // All seats of the server are nominal seats of the level `narrow`.
        let all = json!({ "spec": { "limited": { "nominalConcurrencyShares": 1_000_000 } } }).to_string();
        let path = format!("{GROUP}/prioritylevelconfigurations/narrow");
        let _ = cluster.patch(&path, "merge", all).await.expect(200);
        let mut sockets = Vec::new();
        for _ in 0..30 {
            sockets.push(begin_create(&cluster).await);
        }
        wait_until_executing(&cluster, 30).await;
        let _ = list_as(&cluster, "noisy").await.expect(429);
        // The mandatory schema applies before its object exists. Then the header is empty.
        eventually("the response has the uid of the schema", || async {
            let exempt = cluster.get(&format!("{GROUP}/flowschemas/exempt")).await.expect(200);
            exempt.header("x-kubernetes-pf-flowschema-uid") == exempt.json()["metadata"]["uid"]
        })
        .await;
        let lists = (0..20).map(|_| cluster.get(MAPS));
        for list in futures_util::future::join_all(lists).await {
            let _ = list.expect(200);
        }
        for socket in sockets {
            release_seat(socket).await;
        }
        cluster.stop().await;
    });
}

#[test]
fn without_flow_control_there_are_no_dumps_and_no_headers() {
    run(async {
        let limits = RequestLimits { priority_and_fairness: false, ..RequestLimits::default() };
        let cluster = Cluster::with_options(Options { limits, ..Options::default() }).await;
        let _ = cluster.get(&format!("{DUMPS}/dump_requests")).await.expect(404);
        let list = cluster.get(MAPS).await.expect(200);
        assert!(!list.headers.contains_key("x-kubernetes-pf-flowschema-uid"));
        let checks = cluster.get("/readyz?verbose").await.expect(200).text();
        let informers = "[+]poststarthook/generic-apiserver-start-informers ok\n";
        assert!(checks.contains(&format!("{informers}[+]poststarthook/max-in-flight-filter ok\n")), "{checks}");
        assert!(!checks.contains("priority-and-fairness-filter"), "{checks}");
        let metrics = cluster.get("/metrics").await.expect(200).text();
        assert!(!metrics.contains("apiserver_current_inqueue_requests"));
        cluster.stop().await;
    });
}

#[test]
fn requests_that_last_long_leave_seats_to_other_users() {
    run(async {
        let queuing = json!({ "queues": 16, "handSize": 2, "queueLengthLimit": 50 });
        // The level has a 246th of these seats.
        let many_seats = |options: &mut Options| options.limits.max_requests_in_flight = 11_000;
        let cluster = start_with(json!({ "type": "Queue", "queuing": queuing }), many_seats).await;
        assign(&cluster, "quiet").await;
        let mut sockets = Vec::new();
        for _ in 0..60 {
            sockets.push(begin_create(&cluster).await);
        }
        wait_until_waiting(&cluster, 20).await;
        for _ in 0..10 {
            let answered = tokio::time::timeout(Duration::from_secs(5), list_as(&cluster, "quiet")).await;
            let _ = answered.expect("it does not wait for a create to end").expect(200);
        }
        wait_until_executing(&cluster, 40).await;
        wait_until_waiting(&cluster, 20).await;
        drop(sockets);
        cluster.stop().await;
    });
}
