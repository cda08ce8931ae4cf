//! Faults, and kube clients that recover from them.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::Status;
use kube::runtime::watcher;
use kube::{Api, Client};
use pintle_testkit::{Fault, RequestFilter, TestCluster};
use serde_json::json;

const TIMEOUT: Duration = Duration::from_secs(60);

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("a map")
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::default_namespaced(client)
}

/// A client that retries nothing by itself.
fn client_without_retries(cluster: &TestCluster) -> Client {
    let mut config = cluster.config();
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

#[track_caller]
fn status<T: std::fmt::Debug>(result: kube::Result<T>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("not an error of the API: {other:?}"),
    }
}

#[tokio::test]
async fn requests_fail_with_a_status_as_often_as_wanted() {
    let cluster = TestCluster::start().await;
    let api = maps(client_without_retries(&cluster));
    let creates = RequestFilter::verb("create").resource("configmaps");
    let wait = Duration::from_secs(7);
    for (fault, code, reason) in [
        (Fault::conflict(), 409, "Conflict"),
        (Fault::gone(), 410, "Expired"),
        (Fault::too_many_requests(wait), 429, "TooManyRequests"),
        (Fault::internal_error(), 500, "InternalError"),
        (Fault::unavailable(), 503, "ServiceUnavailable"),
        (Fault::status(418).reason("Teapot").message("short and stout"), 418, "Teapot"),
    ] {
        let injected = cluster.faults().inject(creates.clone(), fault.times(2));
        for _ in 0..2 {
            let status = status(api.create(&PostParams::default(), &map("a")).await);
            assert_eq!((status.code, &*status.reason), (code, reason));
            let retry_after = status.details.map_or(0, |details| details.retry_after_seconds);
            assert_eq!(retry_after, if code == 429 { 7 } else { 0 });
        }
        api.create(&PostParams::default(), &map("a")).await.expect("the fault is used up");
        api.delete("a", &DeleteParams::default()).await.expect("it was made once");
        assert_eq!(injected.count(), 2);
    }
}

#[tokio::test]
async fn a_filter_chooses_which_requests_fail() {
    let cluster = TestCluster::start().await;
    let api = maps(client_without_retries(&cluster));
    for name in ["a", "b"] {
        api.create(&PostParams::default(), &map(name)).await.expect("a map");
    }
    let filter = RequestFilter::verb("get").resource("configmaps").namespace("default").name("b").user("jane");
    let fault = cluster.faults().inject(filter, Fault::internal_error().always());
    let jane = maps(cluster.user("jane").groups(["system:masters"]).client());
    for _ in 0..3 {
        assert_eq!(status(jane.get("b").await).code, 500);
        jane.get("a").await.expect("another name");
        api.get("b").await.expect("another user");
    }
    // Faults do not happen to the kit's own requests.
    cluster.faults().inject(RequestFilter::any(), Fault::internal_error().always());
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}").await.expect("it is applied");
    cluster.faults().clear();
    jane.get("b").await.expect("the faults are removed");
    assert_eq!(fault.count(), 3);
}

#[tokio::test]
async fn a_client_of_kube_waits_as_long_as_retry_after_says() {
    let cluster = TestCluster::start().await;
    let filter = RequestFilter::verb("get").resource("configmaps");
    cluster.faults().inject(filter.clone(), Fault::too_many_requests(Duration::from_secs(1)));
    maps(cluster.client()).get("kube-root-ca.crt").await.expect("it retries");
    let codes: Vec<u16> = cluster.requests().matching(&filter).iter().map(|request| request.code).collect();
    assert_eq!(codes, [429, 200]);
}

#[tokio::test]
async fn a_delay_is_before_the_request_is_handled() {
    let cluster = TestCluster::start().await;
    let api = maps(cluster.client());
    let delay = Duration::from_millis(50);
    cluster.faults().inject(RequestFilter::verb("create"), Fault::delay(delay));
    let start = Instant::now();
    api.create(&PostParams::default(), &map("a")).await.expect("it is handled");
    assert!(start.elapsed() >= delay);
    assert!(cluster.requests().matching(&RequestFilter::verb("create"))[0].latency >= delay);
}

#[tokio::test]
async fn connections_can_be_closed_before_and_after_a_write() {
    let cluster = TestCluster::start().await;
    let api = maps(client_without_retries(&cluster));
    cluster.faults().inject(RequestFilter::verb("create"), Fault::close_connection());
    let error = api.create(&PostParams::default(), &map("a")).await.expect_err("no answer");
    assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
    assert_eq!(api.get_opt("a").await.expect("a new connection"), None);
    cluster.faults().inject(RequestFilter::verb("create"), Fault::lose_answer());
    let error = api.create(&PostParams::default(), &map("a")).await.expect_err("no answer");
    assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
    assert!(api.get_opt("a").await.expect("a new connection").is_some());
    let codes: Vec<u16> = cluster.requests().matching(&RequestFilter::verb("create")).iter().map(|r| r.code).collect();
    assert_eq!(codes, [0, 201]);
}

/// Checks that a kube watcher sees the objects that are created after each fault, and how often it lists.
async fn check_recovery(cluster: &TestCluster, faults: &[&dyn Fn(&RequestFilter) -> usize], expect: usize) {
    let watches = RequestFilter::verb("watch").resource("configmaps");
    let mut events = pin!(watcher(maps(cluster.client()), watcher::Config::default()));
    let mut lists = 0;
    for (round, fault) in faults.iter().enumerate() {
        let name = format!("map-{round}");
        let seen = async {
            loop {
                match events.next().await.expect("a watcher does not end") {
                    Ok(watcher::Event::Init) => lists += 1,
                    Ok(watcher::Event::Apply(found) | watcher::Event::InitApply(found))
                        if found.metadata.name.as_deref() == Some(&name) =>
                    {
                        return;
                    }
                    // After an error, a watcher goes on when it is polled again.
                    Ok(_) | Err(_) => {}
                }
            }
        };
        let act = async {
            while fault(&watches) == 0 {
                tokio::task::yield_now().await;
            }
            let map = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}");
            cluster.apply(&map).await.expect("a map");
        };
        tokio::time::timeout(TIMEOUT, async { tokio::join!(seen, act) }).await.expect("the watcher recovers");
    }
    assert_eq!(lists, expect);
}

#[tokio::test]
async fn a_watcher_goes_on_after_its_watch_was_disconnected() {
    let cluster = TestCluster::start().await;
    let faults = cluster.faults();
    let disconnect = |filter: &RequestFilter| faults.disconnect_watches(filter);
    // The watcher opens a second watch after the disconnected one.
    let close = |filter: &RequestFilter| {
        let is_open = cluster.requests().count(filter) > 1;
        if is_open { faults.close_connections() } else { 0 }
    };
    check_recovery(&cluster, &[&disconnect, &close], 1).await;
}

#[tokio::test]
async fn a_watcher_lists_again_after_410() {
    let cluster = TestCluster::start().await;
    let faults = cluster.faults();
    let at_once = |filter: &RequestFilter| faults.expire_watches(filter);
    let at_next_event = |filter: &RequestFilter| faults.expire_watches_at_next_event(filter);
    check_recovery(&cluster, &[&at_once, &at_next_event], 3).await;
}

#[tokio::test]
async fn watches_expire_with_the_event_that_upstream_sends() {
    let cluster = TestCluster::start().await;
    let api = maps(cluster.client());
    let watches = RequestFilter::verb("watch").resource("configmaps");
    let stream = api.watch(&WatchParams::default(), "0").await.expect("a watch");
    let other = api.watch(&WatchParams::default().fields("metadata.name=b"), "0").await.expect("a watch");
    let (mut stream, mut other) = (pin!(stream), pin!(other));
    // These are the initial object, and the bookmark at the end of the initial state.
    assert!(matches!(stream.next().await, Some(Ok(WatchEvent::Added(_)))));
    assert!(matches!(stream.next().await, Some(Ok(WatchEvent::Bookmark(_)))));
    assert!(matches!(other.next().await, Some(Ok(WatchEvent::Bookmark(_)))));
    assert_eq!(cluster.faults().expire_watches_at_next_event(&watches), 2);
    api.create(&PostParams::default(), &map("a")).await.expect("a map");
    match stream.next().await {
        Some(Ok(WatchEvent::Error(status))) => assert_eq!((status.code, &*status.reason), (410, "Expired")),
        other => panic!("{other:?}"),
    }
    assert!(stream.next().await.is_none());
    // The other watch has had no event yet.
    api.create(&PostParams::default(), &map("b")).await.expect("a map");
    assert!(matches!(other.next().await, Some(Ok(WatchEvent::Error(status))) if status.code == 410));
    assert_eq!(cluster.faults().disconnect_watches(&watches), 0);
}

#[tokio::test]
async fn lists_and_patches_can_fail_too() {
    let cluster = TestCluster::start().await;
    let api = maps(client_without_retries(&cluster));
    cluster.faults().inject(RequestFilter::verb("list").resource("configmaps"), Fault::gone());
    assert_eq!(status(api.list(&ListParams::default()).await).code, 410);
    cluster.faults().inject(RequestFilter::writes().resource("configmaps").name("a"), Fault::conflict());
    let patch = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
    assert_eq!(status(api.patch("a", &PatchParams::apply("test"), &patch).await).code, 409);
    api.patch("a", &PatchParams::apply("test"), &patch).await.expect("it is applied");
}
