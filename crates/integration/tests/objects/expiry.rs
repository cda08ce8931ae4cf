//! Events are deleted when their TTL after the last write has elapsed.

use std::time::Duration;

use pintle_integration::{Cluster, Options, manual_clock};
use serde_json::json;

const EVENTS: &str = "/api/v1/namespaces/default/events";

fn event(name: &str) -> String {
    let object = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    json!({"metadata": {"name": name}, "involvedObject": object, "reason": "Tried", "type": "Normal"}).to_string()
}

#[test]
fn events_expire_and_watches_report_it() {
    pintle_integration::run(async {
        let clock = manual_clock();
        let event_ttl = Duration::from_secs(60);
        let options = Options { clock: clock.clone(), event_ttl, ..Options::default() };
        let cluster = Cluster::with_options(options).await;
        let _ = cluster.post(EVENTS, event("a")).await.expect(201);
        let _ = cluster.post(EVENTS, event("b")).await.expect(201);
        let configmap = json!({"metadata": {"name": "kept"}}).to_string();
        let _ = cluster.post("/api/v1/namespaces/default/configmaps", configmap).await.expect(201);
        let mut watch = cluster.watch(&format!("{EVENTS}?watch=1&resourceVersion=0")).await;
        watch.expect("ADDED", "a").await;
        watch.expect("ADDED", "b").await;
        clock.advance(Duration::from_secs(40));
        // Every write renews the TTL, through either API group.
        let newer = "/apis/events.k8s.io/v1/namespaces/default/events/b";
        let _ = cluster.patch(newer, "merge", r#"{"metadata": {"labels": {"a": "b"}}}"#).await.expect(200);
        watch.expect("MODIFIED", "b").await;
        clock.advance(Duration::from_secs(30));
        watch.expect("DELETED", "a").await;
        let _ = cluster.get(&format!("{EVENTS}/b")).await.expect(200);
        clock.advance(Duration::from_secs(30));
        watch.expect("DELETED", "b").await;
        let _ = cluster.get("/api/v1/namespaces/default/configmaps/kept").await.expect(200);
        cluster.stop().await;
    });
}
