//! Watches that begin with what is there, and say when they have shown it all.

use pintle_testkit::{Options, advance_clock_until};
use serde_json::json;

use crate::{MAPS, all, check, make, now, open, revision, short, start, timed};

#[test]
fn a_stream_can_begin_with_what_is_there() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let a = make(&cluster, "a", "red").await;
        let b = make(&cluster, "b", "blue").await;
        let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let marks = "allowWatchBookmarks=true";
        let state = [format!("ADDED a {a}"), format!("ADDED b {b}")];
        let mut watches = Vec::new();
        for (query, expect, end) in [
            (format!("{stream}&{marks}"), &state[..], true),
            (format!("{stream}&{marks}&resourceVersion=0"), &state[..], true),
            (format!("{stream}&{marks}&resourceVersion={a}"), &state[..], true),
            (format!("{stream}&{marks}&labelSelector=color%3Dred"), &state[..1], true),
            (format!("{stream}&{marks}&fieldSelector=metadata.name%3Dnone"), &[][..], true),
            (format!("{stream}&resourceVersion=0"), &state[..], false),
            // A watch from nowhere is such a stream without saying so.
            (marks.to_owned(), &state[..], true),
            (format!("{marks}&resourceVersion=0"), &state[..], true),
            ("resourceVersion=0".to_owned(), &state[..], false),
            (format!("{marks}&resourceVersion={b}"), &[][..], false),
            (
                format!("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&{marks}&resourceVersion={b}"),
                &[][..],
                false,
            ),
            (
                format!("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&{marks}&resourceVersion=0"),
                &[][..],
                false,
            ),
            (format!("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&{marks}"), &[][..], false),
        ] {
            let mut watch = open(&cluster, MAPS, &query).await;
            check(&mut watch, expect).await;
            if end {
                let mark = watch.next().await.expect("a bookmark");
                assert_eq!(mark["type"], "BOOKMARK", "{query}: {mark}");
                assert_eq!(mark["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
                assert!(revision(&mark["object"]) >= b, "{query}: {mark}");
            }
            if !query.contains("Selector") {
                watches.push(watch);
            }
        }
        let c = make(&cluster, "c", "red").await;
        for watch in &mut watches {
            check(watch, &[format!("ADDED c {c}")]).await;
        }
    });
}

#[test]
fn a_stream_of_a_revision_that_does_not_come_ends_with_an_error() {
    pintle_testkit::run(async {
        let (cluster, clock) = timed(Options::default()).await;
        let at = now(&cluster).await;
        let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let mut soon = open(&cluster, MAPS, &format!("{stream}&resourceVersion={at}")).await;
        assert_eq!(soon.next().await.map(|mark| revision(&mark["object"])), Some(at));
        let far = format!("{stream}&resourceVersion=999999");
        let events = all(advance_clock_until(&clock, open(&cluster, MAPS, &far)).await).await;
        assert_eq!(events.len(), 1, "{events:?}");
        let status = &events[0]["object"];
        assert_eq!((&events[0]["type"], &status["code"]), (&json!("ERROR"), &json!(504)));
        assert_eq!(status["message"], format!("Timeout: Too large resource version: 999999, current: {at}"));
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    });
}

#[test]
fn streams_may_start_long_ago() {
    pintle_testkit::run(async {
        let mut options = Options::default();
        options.window.duration = std::time::Duration::ZERO;
        let (cluster, clock) = timed(options).await;
        let a = make(&cluster, "a", "red").await;
        let b = make(&cluster, "b", "red").await;
        let exact = format!("{MAPS}?resourceVersion={a}&resourceVersionMatch=Exact");
        while cluster.get(&exact).await.status != 410 {}
        // Changes are asked for from a revision that is gone, or only what is there.
        let query = "resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
        let old =
            all(open(&cluster, MAPS, &format!("{query}&sendInitialEvents=false&resourceVersion={a}")).await).await;
        assert_eq!(old.iter().map(|event| &event["object"]["code"]).collect::<Vec<_>>(), [&json!(410)]);
        let state = open(&cluster, MAPS, &format!("{query}&sendInitialEvents=true&resourceVersion={a}")).await;
        let state = advance_clock_until(&clock, all(state)).await;
        let expect = [format!("ADDED a {a}"), format!("ADDED b {b}"), format!("BOOKMARK {b}")];
        assert_eq!(state.iter().map(short).collect::<Vec<_>>(), expect);
    });
}

#[test]
fn the_deprecated_paths_show_what_is_there_without_saying_when_that_is_all() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let a = make(&cluster, "a", "red").await;
        for query in ["", "resourceVersion=0&", "resourceVersion=&"] {
            let path = format!("/api/v1/watch/configmaps?{query}allowWatchBookmarks=true");
            let mut old = cluster.watch(&path).await;
            let mut new = cluster.watch(&format!("{path}&watch=1")).await;
            check(&mut old, &[format!("ADDED a {a}")]).await;
            check(&mut new, &[format!("ADDED a {a}"), format!("BOOKMARK {}", now(&cluster).await)]).await;
            let b = make(&cluster, "b", "red").await;
            check(&mut old, &[format!("ADDED b {b}")]).await;
            check(&mut new, &[format!("ADDED b {b}")]).await;
            crate::remove(&cluster, "b").await;
        }
    });
}
