//! Bookmarks and the ends of watches, by a clock that the tests move.

use std::time::Duration;

use pintle_testkit::{Options, Watch};
use serde_json::json;

use crate::{MAPS, check, make, now, open, revision, timed};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Sees to it that a bookmark of a revision comes next.
async fn bookmark(watch: &mut Watch, expect: u64) {
    let event = watch.next().await.expect("a bookmark");
    let metadata = json!({"resourceVersion": expect.to_string()});
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata});
    assert_eq!(event, json!({"type": "BOOKMARK", "object": object}));
}

#[test]
fn bookmarks_come_every_minute_and_before_the_end() {
    pintle_testkit::run(async {
        let (cluster, clock) = timed(Options::default()).await;
        make(&cluster, "a", "red").await;
        let query = format!("resourceVersion={}&timeoutSeconds=150", now(&cluster).await);
        let marks = "allowWatchBookmarks=true";
        let mut with = open(&cluster, MAPS, &format!("{query}&{marks}")).await;
        let mut narrow = open(&cluster, MAPS, &format!("{query}&{marks}&labelSelector=no")).await;
        let mut without = open(&cluster, MAPS, &query).await;
        // Others' changes move a quiet watch on.
        let secret = cluster.post("/api/v1/namespaces/n/secrets", r#"{"metadata": {"name": "s"}}"#).await.expect(201);
        let secret = revision(&secret.json());
        clock.advance(seconds(59));
        let b = make(&cluster, "b", "red").await;
        check(&mut with, &[format!("ADDED b {b}")]).await;
        clock.advance(seconds(1));
        bookmark(&mut with, b).await;
        bookmark(&mut narrow, b).await;
        assert!(b > secret);
        // One that says nothing new is still a sign of life.
        clock.advance(seconds(60));
        bookmark(&mut with, b).await;
        bookmark(&mut narrow, b).await;
        clock.advance(seconds(27));
        let c = make(&cluster, "c", "red").await;
        clock.advance(seconds(1));
        check(&mut with, &[format!("ADDED c {c}")]).await;
        bookmark(&mut with, c).await;
        bookmark(&mut narrow, c).await;
        clock.advance(seconds(2));
        assert_eq!((with.next().await, narrow.next().await), (None, None));
        check(&mut without, &[format!("ADDED b {b}"), format!("ADDED c {c}")]).await;
        assert_eq!(without.next().await, None);
    });
}

#[test]
fn bookmarks_say_only_what_the_client_does_not_know() {
    pintle_testkit::run(async {
        let (cluster, clock) = timed(Options::default()).await;
        let a = make(&cluster, "a", "red").await;
        let query = "allowWatchBookmarks=true&timeoutSeconds=100";
        let mut current = open(&cluster, MAPS, &format!("{query}&resourceVersion={a}")).await;
        let mut future = open(&cluster, MAPS, &format!("{query}&resourceVersion={}", a + 2)).await;
        let mut state = open(&cluster, MAPS, query).await;
        check(&mut state, &[format!("ADDED a {a}")]).await;
        let end = state.next().await.expect("a bookmark");
        assert_eq!(end["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
        for passed in [60, 38, 2] {
            clock.advance(seconds(passed));
        }
        for watch in [&mut current, &mut future, &mut state] {
            assert_eq!(watch.next().await, None);
        }
    });
}

#[test]
fn watches_that_end_soon_have_no_bookmarks() {
    pintle_testkit::run(async {
        let (cluster, clock) = timed(Options::default()).await;
        let a = make(&cluster, "a", "red").await;
        let query = |seconds| format!("resourceVersion={}&allowWatchBookmarks=1&timeoutSeconds={seconds}", a - 1);
        let mut two = open(&cluster, MAPS, &query(2)).await;
        let mut three = open(&cluster, MAPS, &query(3)).await;
        for watch in [&mut two, &mut three] {
            check(watch, &[format!("ADDED a {a}")]).await;
        }
        clock.advance(seconds(1));
        bookmark(&mut three, a).await;
        clock.advance(seconds(2));
        assert_eq!((two.next().await, three.next().await), (None, None));
    });
}

#[test]
fn the_server_ends_watches_after_its_own_time() {
    pintle_testkit::run(async {
        for least in [1800, 60] {
            let mut options = Options { min_request_timeout: seconds(least), ..Options::default() };
            options.window.duration = seconds(100_000);
            let (cluster, clock) = timed(options).await;
            let at = now(&cluster).await;
            let mut watches = Vec::new();
            for query in ["", "&timeoutSeconds=0"] {
                watches.push(open(&cluster, MAPS, &format!("resourceVersion={at}{query}")).await);
            }
            let mut longer = open(&cluster, MAPS, &format!("resourceVersion={at}&timeoutSeconds={}", 3 * least)).await;
            clock.advance(seconds(least - 1));
            let a = make(&cluster, "a", "red").await;
            for watch in &mut watches {
                check(watch, &[format!("ADDED a {a}")]).await;
            }
            clock.advance(seconds(least + 1));
            for watch in &mut watches {
                assert_eq!(watch.next().await, None);
            }
            let b = make(&cluster, "b", "red").await;
            check(&mut longer, &[format!("ADDED a {a}"), format!("ADDED b {b}")]).await;
        }
        // Without any time a watch is over at once.
        let (cluster, _) = timed(Options { min_request_timeout: Duration::ZERO, ..Options::default() }).await;
        let path = format!("{MAPS}?watch=1&resourceVersion={}", now(&cluster).await);
        assert_eq!(cluster.get(&path).await.expect(200).text(), "");
    });
}

#[test]
fn history_is_kept_for_its_time() {
    pintle_testkit::run(async {
        let (cluster, clock) = timed(Options::default()).await;
        let a = make(&cluster, "a", "red").await;
        let b = make(&cluster, "b", "red").await;
        clock.advance(seconds(299));
        make(&cluster, "c", "red").await;
        let mut watch = open(&cluster, MAPS, &format!("resourceVersion={a}")).await;
        check(&mut watch, &[format!("ADDED b {b}")]).await;
        clock.advance(seconds(2));
        // The next change takes what is too old with it.
        make(&cluster, "d", "red").await;
        let exact = format!("{MAPS}?resourceVersion={a}&resourceVersionMatch=Exact");
        while cluster.get(&exact).await.status != 410 {}
        let old = open(&cluster, MAPS, &format!("resourceVersion={a}")).await.next().await.expect("an event");
        assert_eq!((&old["type"], &old["object"]["code"]), (&json!("ERROR"), &json!(410)));
    });
}
