//! The clock of a cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::Api;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use pintle_testkit::TestCluster;
use serde_json::json;

const HOUR: Duration = Duration::from_secs(3600);
const TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn tokens_expire() {
    let cluster = TestCluster::start().await;
    cluster
        .apply(
            "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: accounts}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]",
        )
        .await
        .expect("the binding is applied");
    let client =
        cluster.service_account("default", "default").expiration_seconds(1200).client().await.expect("a client");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    cluster.clock().advance(Duration::from_secs(1190));
    maps.list(&ListParams::default()).await.expect("the token is valid");
    // As upstream, the check of the expiry tolerates a clock difference of one minute.
    cluster.clock().advance(Duration::from_secs(80));
    match maps.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 401),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn events_expire() {
    let cluster = TestCluster::builder().event_ttl(2 * HOUR).start().await;
    let events: Api<Event> = Api::default_namespaced(cluster.client());
    let event =
        json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    let event: Event = serde_json::from_value(event).expect("an event");
    events.create(&PostParams::default(), &event).await.expect("the event is valid");
    cluster.clock().advance(HOUR);
    assert!(events.get_opt("e").await.expect("an answer").is_some());
    cluster.clock().advance(HOUR);
    let gone = async {
        while events.get_opt("e").await.expect("an answer").is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, gone).await.expect("the event expires");
}

#[tokio::test]
async fn timestamps_and_bookmarks_follow_the_clock() {
    let cluster = TestCluster::builder().frozen_clock().start().await;
    let start = cluster.clock().now();
    cluster.clock().advance(24 * HOUR);
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).expect("a map");
    let made = maps.create(&PostParams::default(), &map).await.expect("the map is valid");
    let time = made.metadata.creation_timestamp.expect("a timestamp").0;
    let since = start.duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs() + 24 * 3600;
    assert_eq!(time.as_second(), i64::try_from(since).expect("seconds"));

    let version = made.metadata.resource_version.expect("a version");
    let stream = maps.watch(&WatchParams::default().timeout(200), &version).await.expect("a watch");
    let mut stream = std::pin::pin!(stream);
    for name in ["b", "c"] {
        // The server sends a bookmark only after a change.
        let secret = format!("{{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}}}");
        cluster.apply(&secret).await.expect("a secret");
        cluster.clock().advance(Duration::from_secs(60));
        let next = tokio::time::timeout(TIMEOUT, futures_util::StreamExt::next(&mut stream)).await.expect("an event");
        match next {
            Some(Ok(WatchEvent::Bookmark(bookmark))) => assert_ne!(bookmark.metadata.resource_version, version),
            other => panic!("{other:?}"),
        }
    }
    // The watch ends with its timeout, after a last bookmark.
    cluster.clock().advance(Duration::from_secs(100));
    let rest = futures_util::StreamExt::collect::<Vec<_>>(stream);
    let rest = tokio::time::timeout(TIMEOUT, rest).await.expect("the watch ends");
    assert!(rest.iter().all(|event| matches!(event, Ok(WatchEvent::Bookmark(_)))), "{rest:?}");
}
