//! Seats of watches, and the watches that writes count.

use bytes::Bytes;
use pintle_integration::{HttpsServer, SERVICE_HOST, SentBody, SentResponse, eventually, run};
use serde_json::json;
use tokio::sync::mpsc;

use super::{DUMPS, MAPS, list_as, metric, start, start_with, wait_until_executing};

#[test]
fn a_watch_gives_its_seat_back_after_its_initial_events() {
    run(async {
        let cluster = start(json!({ "type": "Reject" })).await;
        let watch = cluster.request("GET", &format!("{MAPS}?watch=1")).header("Impersonate-User", "noisy");
        let watch = watch.header("Impersonate-Group", "system:authenticated").watch().await;
        eventually("the seat is free", || async { list_as(&cluster, "noisy").await.status == 200 }).await;
        drop(watch);
        cluster.stop().await;
    });
}

#[test]
fn a_watch_that_is_passed_on_has_no_seat_and_counts_until_it_ends() {
    run(async {
        let cluster = start_with(json!({ "type": "Reject" }), |options| options.api_services = true).await;
        // The API server begins the response to a watch when the test says so.
        let (began, mut begun) = mpsc::unbounded_channel();
        let server = HttpsServer::start_with_names(&[SERVICE_HOST], move |request| {
            let began = began.clone();
            async move {
                if !request.path.contains("watch=1") {
                    return SentResponse::json(200, "{}");
                }
                let (start, started) = tokio::sync::oneshot::channel();
                let (pieces, body) = mpsc::channel::<Bytes>(1);
                let _ = began.send((start, pieces));
                let _ = started.await;
                SentResponse { body: SentBody::Pieces(body), ..SentResponse::json(200, "") }
            }
        })
        .await;
        cluster.register_available(&server).await;
        const THINGS: &str = "/apis/x.example.com/v1/things";
        let as_noisy = |method: &str, path: &str| {
            let request = cluster.request(method, path).header("Impersonate-User", "noisy");
            request.header("Impersonate-Group", "system:authenticated")
        };
        let sum = "apiserver_flowcontrol_watch_count_samples_sum{flow_schema=noisy}";
        let watches = async || {
            let before = metric(&cluster, sum).await;
            let _ = as_noisy("POST", THINGS).json("{}").send().await.expect(200);
            metric(&cluster, sum).await - before
        };
        assert_eq!(watches().await, 0.0);
        let path = format!("{THINGS}?watch=1");
        let (watch, pieces) = tokio::join!(as_noisy("GET", &path).watch(), async {
            let (start, pieces) = begun.recv().await.expect("a watch");
            // The only seat is free although the watch has no response yet.
            assert_eq!(watches().await, 1.0);
            start.send(()).expect("the watch waits");
            pieces
        });
        assert_eq!(watches().await, 1.0);
        drop(watch);
        pieces.closed().await;
        eventually("the watch is forgotten", || async { watches().await == 0.0 }).await;
        cluster.stop().await;
    });
}

#[test]
fn a_watch_is_shown_with_its_user_while_it_sends_its_initial_events() {
    run(async {
        let cluster = start(json!({ "type": "Reject" })).await;
        let value = "x".repeat(900_000);
        for number in 0..20 {
            let body = json!({ "metadata": { "name": format!("a{number}") }, "data": { "k": value } });
            let _ = cluster.post(MAPS, body.to_string()).await.expect(201);
        }
        // The client does not read the events.
        let watch = cluster.request("GET", &format!("{MAPS}?watch=1")).header("Impersonate-User", "noisy");
        let watch = watch.header("Impersonate-Group", "system:authenticated").watch().await;
        wait_until_executing(&cluster, 1).await;
        let dump = cluster.get(&format!("{DUMPS}/dump_requests?includeRequestDetails=1")).await.expect(200).text();
        let line = dump.lines().find(|line| line.starts_with("narrow,")).expect("the watch");
        let cells: Vec<&str> = line.split(',').map(str::trim).skip(10).collect();
        assert_eq!(cells, ["noisy", "watch", MAPS, "default", "", "v1", "configmaps", ""]);
        drop(watch);
        wait_until_executing(&cluster, 0).await;
        cluster.stop().await;
    });
}
