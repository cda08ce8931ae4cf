//! Watches that start with the current state and mark its end with a bookmark (watch lists, KEP-3157).

use pintle_integration::{Options, advance_clock_until};
use serde_json::json;

use super::{
    CONFIGMAPS, check, cluster_with_manual_clock, collect_events, create, current_revision, open_watch, revision,
    start_cluster, summarize,
};

#[test]
fn a_watch_can_start_with_the_current_state() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let a = create(&cluster, "a", "red").await;
        let b = create(&cluster, "b", "blue").await;
        let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let bookmarks = "allowWatchBookmarks=true";
        let state = [format!("ADDED a {a}"), format!("ADDED b {b}")];
        let mut watches = Vec::new();
        for (query, expect, end) in [
            (format!("{stream}&{bookmarks}"), &state[..], true),
            (format!("{stream}&{bookmarks}&resourceVersion=0"), &state[..], true),
            (format!("{stream}&{bookmarks}&resourceVersion={a}"), &state[..], true),
            (format!("{stream}&{bookmarks}&labelSelector=color%3Dred"), &state[..1], true),
            (format!("{stream}&{bookmarks}&fieldSelector=metadata.name%3Dnone"), &[][..], true),
            (format!("{stream}&resourceVersion=0"), &state[..], false),
            // A watch without a resourceVersion starts with the current state by default.
            (bookmarks.to_owned(), &state[..], true),
            (format!("{bookmarks}&resourceVersion=0"), &state[..], true),
            ("resourceVersion=0".to_owned(), &state[..], false),
            (format!("{bookmarks}&resourceVersion={b}"), &[][..], false),
            (
                format!("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&{bookmarks}&resourceVersion={b}"),
                &[][..],
                false,
            ),
            (
                format!("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&{bookmarks}&resourceVersion=0"),
                &[][..],
                false,
            ),
            (format!("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&{bookmarks}"), &[][..], false),
        ] {
            let mut watch = open_watch(&cluster, CONFIGMAPS, &query).await;
            check(&mut watch, expect).await;
            if end {
                let bookmark = watch.next().await.expect("a bookmark");
                assert_eq!(bookmark["type"], "BOOKMARK", "{query}: {bookmark}");
                assert_eq!(bookmark["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
                assert!(revision(&bookmark["object"]) >= b, "{query}: {bookmark}");
            }
            if !query.contains("Selector") {
                watches.push(watch);
            }
        }
        let c = create(&cluster, "c", "red").await;
        for watch in &mut watches {
            check(watch, &[format!("ADDED c {c}")]).await;
        }
    });
}

#[test]
fn initial_events_of_a_future_revision_time_out() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
        let at = current_revision(&cluster).await;
        let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let mut soon = open_watch(&cluster, CONFIGMAPS, &format!("{stream}&resourceVersion={at}")).await;
        assert_eq!(soon.next().await.map(|bookmark| revision(&bookmark["object"])), Some(at));
        let far = format!("{stream}&resourceVersion=999999");
        let events = collect_events(advance_clock_until(&clock, open_watch(&cluster, CONFIGMAPS, &far)).await).await;
        assert_eq!(events.len(), 1, "{events:?}");
        let status = &events[0]["object"];
        assert_eq!((&events[0]["type"], &status["code"]), (&json!("ERROR"), &json!(504)));
        assert_eq!(status["message"], format!("Timeout: Too large resource version: 999999, current: {at}"));
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    });
}

#[test]
fn initial_events_accept_an_expired_revision() {
    pintle_integration::run(async {
        let mut options = Options::default();
        options.history.duration = std::time::Duration::ZERO;
        let (cluster, clock) = cluster_with_manual_clock(options).await;
        let a = create(&cluster, "a", "red").await;
        let b = create(&cluster, "b", "red").await;
        let exact = format!("{CONFIGMAPS}?resourceVersion={a}&resourceVersionMatch=Exact");
        cluster.get_until_status(&exact, 410).await;
        // Changes since an expired revision are unavailable, but the current state is not.
        let query = "resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
        let old = collect_events(
            open_watch(&cluster, CONFIGMAPS, &format!("{query}&sendInitialEvents=false&resourceVersion={a}")).await,
        )
        .await;
        assert_eq!(old.iter().map(|event| &event["object"]["code"]).collect::<Vec<_>>(), [&json!(410)]);
        let state =
            open_watch(&cluster, CONFIGMAPS, &format!("{query}&sendInitialEvents=true&resourceVersion={a}")).await;
        let state = advance_clock_until(&clock, collect_events(state)).await;
        let expect = [format!("ADDED a {a}"), format!("ADDED b {b}"), format!("BOOKMARK {b}")];
        assert_eq!(state.iter().map(summarize).collect::<Vec<_>>(), expect);
    });
}

#[test]
fn deprecated_paths_send_the_current_state_without_a_bookmark() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let a = create(&cluster, "a", "red").await;
        for query in ["", "resourceVersion=0&", "resourceVersion=&"] {
            let path = format!("/api/v1/watch/configmaps?{query}allowWatchBookmarks=true");
            let mut old = cluster.watch(&path).await;
            let mut new = cluster.watch(&format!("{path}&watch=1")).await;
            check(&mut old, &[format!("ADDED a {a}")]).await;
            check(&mut new, &[format!("ADDED a {a}"), format!("BOOKMARK {}", current_revision(&cluster).await)]).await;
            let b = create(&cluster, "b", "red").await;
            check(&mut old, &[format!("ADDED b {b}")]).await;
            check(&mut new, &[format!("ADDED b {b}")]).await;
            super::delete(&cluster, "b").await;
        }
    });
}
