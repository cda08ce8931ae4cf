//! Bookmarks and timeouts of watches, with a manual clock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pintle_integration::{Options, Watch};
use serde_json::json;

use super::{CONFIGMAPS, check, cluster_with_manual_clock, create, current_revision, open_watch, revision, summarize};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Checks that the next event is a bookmark of a revision.
async fn check_bookmark(watch: &mut Watch, expect: u64) {
    let event = watch.next().await.expect("a bookmark");
    let metadata = json!({"resourceVersion": expect.to_string()});
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata});
    assert_eq!(event, json!({"type": "BOOKMARK", "object": object}));
}

#[test]
fn bookmarks_are_sent_every_minute_and_before_the_timeout() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
        create(&cluster, "a", "red").await;
        let query = format!("resourceVersion={}&timeoutSeconds=150", current_revision(&cluster).await);
        let bookmarks = "allowWatchBookmarks=true";
        let mut with_bookmarks = open_watch(&cluster, CONFIGMAPS, &format!("{query}&{bookmarks}")).await;
        let mut with_selector =
            open_watch(&cluster, CONFIGMAPS, &format!("{query}&{bookmarks}&labelSelector=no")).await;
        let mut without_bookmarks = open_watch(&cluster, CONFIGMAPS, &query).await;
        // Changes of other resources advance the revision of bookmarks.
        let secret = cluster.post("/api/v1/namespaces/n/secrets", r#"{"metadata": {"name": "s"}}"#).await.expect(201);
        let secret = revision(&secret.json());
        clock.advance(seconds(59));
        let b = create(&cluster, "b", "red").await;
        check(&mut with_bookmarks, &[format!("ADDED b {b}")]).await;
        clock.advance(seconds(1));
        check_bookmark(&mut with_bookmarks, b).await;
        check_bookmark(&mut with_selector, b).await;
        assert!(b > secret);
        // A bookmark is sent even if the revision has not changed.
        clock.advance(seconds(60));
        check_bookmark(&mut with_bookmarks, b).await;
        check_bookmark(&mut with_selector, b).await;
        clock.advance(seconds(27));
        let c = create(&cluster, "c", "red").await;
        clock.advance(seconds(1));
        check(&mut with_bookmarks, &[format!("ADDED c {c}")]).await;
        check_bookmark(&mut with_bookmarks, c).await;
        check_bookmark(&mut with_selector, c).await;
        clock.advance(seconds(2));
        assert_eq!((with_bookmarks.next().await, with_selector.next().await), (None, None));
        check(&mut without_bookmarks, &[format!("ADDED b {b}"), format!("ADDED c {c}")]).await;
        assert_eq!(without_bookmarks.next().await, None);
    });
}

/// The writes around the start of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    /// Nothing is written.
    None,
    /// Another collection was written just before the start.
    Before,
    /// Another collection is written every second.
    During,
}

/// The expected events are from a Go API server with a watch cache. That server is slower by up to a second, and may
/// send the last bookmark twice.
#[test]
fn bookmarks_are_sent_for_revisions_beyond_the_start() {
    /// The start of a watch, which determines its objects and bookmarks.
    enum Start {
        /// The client names a revision.
        At,
        /// The watch starts at the current revision, without the objects.
        Now,
        /// The watch starts with the objects, followed by a bookmark.
        Objects,
    }
    use Start::{At, Now, Objects};
    pintle_integration::run(async {
        for writes in [Writes::None, Writes::Before, Writes::During] {
            let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
            let [a, b] = [create(&cluster, "a", "red").await, create(&cluster, "b", "red").await];
            let write = async |name: &str| {
                let body = json!({"metadata": {"name": name}}).to_string();
                revision(&cluster.post("/api/v1/namespaces/n/secrets", body).await.expect(201).json())
            };
            let newest = if writes == Writes::Before { write("before").await } else { b };
            let newer_or_equal = "resourceVersionMatch=NotOlderThan&sendInitialEvents";
            let mut watches = Vec::new();
            for (query, start) in [
                (format!("resourceVersion={b}"), At),
                // Newer events of the collection count, even events that the watch does not select.
                (format!("resourceVersion={a}"), At),
                (format!("resourceVersion={a}&labelSelector=no"), At),
                (format!("resourceVersion={newest}"), Now),
                ("resourceVersion=0".to_owned(), Objects),
                (String::new(), Objects),
                (format!("{newer_or_equal}=true"), Objects),
                (format!("{newer_or_equal}=true&resourceVersion=0"), Objects),
                (format!("{newer_or_equal}=true&resourceVersion={b}"), Objects),
                (format!("{newer_or_equal}=false"), Now),
                (format!("{newer_or_equal}=false&resourceVersion=0"), Now),
                (format!("{newer_or_equal}=false&resourceVersion={b}"), At),
            ] {
                for timeout in [1, 3, 4, 10] {
                    let query = format!("{query}&allowWatchBookmarks=true&timeoutSeconds={timeout}");
                    let mut watch = open_watch(&cluster, CONFIGMAPS, &query).await;
                    if query.starts_with(&format!("resourceVersion={a}&allow")) {
                        check(&mut watch, &[format!("ADDED b {b}")]).await;
                    }
                    if let Objects = start {
                        let bookmark = format!("BOOKMARK {newest}");
                        check(&mut watch, &[format!("ADDED a {a}"), format!("ADDED b {b}"), bookmark]).await;
                    }
                    let progresses = match start {
                        At => writes != Writes::None,
                        Now | Objects => writes == Writes::During,
                    };
                    let mut bookmarks = match (timeout, &start) {
                        (1, _) => Vec::new(),
                        (3, _) => vec![1],
                        (_, Objects) => vec![1, timeout - 2],
                        _ => vec![timeout - 2],
                    };
                    bookmarks.retain(|_| progresses);
                    watches.push((query, watch, bookmarks));
                }
            }
            let mut revision = newest;
            for second in 1..=10 {
                if writes == Writes::During {
                    revision = write(&format!("during-{second}")).await;
                }
                clock.advance(seconds(1));
                for (query, watch, bookmarks) in &mut watches {
                    if bookmarks.contains(&second) {
                        let event = watch.next().await.unwrap_or_else(|| panic!("{writes:?} {query}: no bookmark"));
                        assert_eq!(summarize(&event), format!("BOOKMARK {revision}"), "{writes:?} {query}");
                    }
                }
            }
            for (query, mut watch, _) in watches {
                assert_eq!(watch.next().await, None, "{writes:?} {query}");
            }
        }
    });
}

#[test]
fn no_bookmark_is_sent_for_a_revision_that_the_client_knows() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
        let a = create(&cluster, "a", "red").await;
        let query = "allowWatchBookmarks=true&timeoutSeconds=100";
        let mut current = open_watch(&cluster, CONFIGMAPS, &format!("{query}&resourceVersion={a}")).await;
        let mut future = open_watch(&cluster, CONFIGMAPS, &format!("{query}&resourceVersion={}", a + 2)).await;
        let mut state = open_watch(&cluster, CONFIGMAPS, query).await;
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
fn short_watches_have_no_bookmarks() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
        let a = create(&cluster, "a", "red").await;
        let query = |seconds| format!("resourceVersion={}&allowWatchBookmarks=1&timeoutSeconds={seconds}", a - 1);
        let mut two = open_watch(&cluster, CONFIGMAPS, &query(2)).await;
        let mut three = open_watch(&cluster, CONFIGMAPS, &query(3)).await;
        for watch in [&mut two, &mut three] {
            check(watch, &[format!("ADDED a {a}")]).await;
        }
        let b = create(&cluster, "b", "red").await;
        for watch in [&mut two, &mut three] {
            check(watch, &[format!("ADDED b {b}")]).await;
        }
        clock.advance(seconds(1));
        check_bookmark(&mut three, b).await;
        clock.advance(seconds(2));
        assert_eq!((two.next().await, three.next().await), (None, None));
    });
}

#[test]
fn watches_end_after_the_minimum_request_timeout() {
    pintle_integration::run(async {
        for minimum in [1800, 60] {
            let mut options = Options { min_request_timeout: seconds(minimum), ..Options::default() };
            options.history.duration = seconds(100_000);
            let (cluster, clock) = cluster_with_manual_clock(options).await;
            let at = current_revision(&cluster).await;
            let mut watches = Vec::new();
            for query in ["", "&timeoutSeconds=0"] {
                watches.push(open_watch(&cluster, CONFIGMAPS, &format!("resourceVersion={at}{query}")).await);
            }
            let mut longer =
                open_watch(&cluster, CONFIGMAPS, &format!("resourceVersion={at}&timeoutSeconds={}", 3 * minimum)).await;
            clock.advance(seconds(minimum - 1));
            let a = create(&cluster, "a", "red").await;
            for watch in &mut watches {
                check(watch, &[format!("ADDED a {a}")]).await;
            }
            clock.advance(seconds(minimum + 1));
            for watch in &mut watches {
                assert_eq!(watch.next().await, None);
            }
            let b = create(&cluster, "b", "red").await;
            check(&mut longer, &[format!("ADDED a {a}"), format!("ADDED b {b}")]).await;
        }
        // With a timeout of zero, a watch ends at once.
        let (cluster, _) =
            cluster_with_manual_clock(Options { min_request_timeout: Duration::ZERO, ..Options::default() }).await;
        let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={}", current_revision(&cluster).await);
        assert_eq!(cluster.get(&path).await.expect(200).text(), "");
    });
}

#[test]
fn history_is_kept_for_its_duration() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
        let a = create(&cluster, "a", "red").await;
        let b = create(&cluster, "b", "red").await;
        clock.advance(seconds(299));
        create(&cluster, "c", "red").await;
        let mut watch = open_watch(&cluster, CONFIGMAPS, &format!("resourceVersion={a}")).await;
        check(&mut watch, &[format!("ADDED b {b}")]).await;
        clock.advance(seconds(2));
        // The next change removes expired history.
        create(&cluster, "d", "red").await;
        let exact = format!("{CONFIGMAPS}?resourceVersion={a}&resourceVersionMatch=Exact");
        cluster.get_until_status(&exact, 410).await;
        let old =
            open_watch(&cluster, CONFIGMAPS, &format!("resourceVersion={a}")).await.next().await.expect("an event");
        assert_eq!((&old["type"], &old["object"]["code"]), (&json!("ERROR"), &json!(410)));
    });
}

/// The events of a busy collection must not delay the bookmarks and the end of a watch.
#[test]
fn a_busy_watch_gets_bookmarks_and_ends() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
        let at = current_revision(&cluster).await;
        let query = format!("resourceVersion={at}&allowWatchBookmarks=true&timeoutSeconds=100");
        let mut unselective = open_watch(&cluster, CONFIGMAPS, &query).await;
        let mut selective = open_watch(&cluster, CONFIGMAPS, &format!("{query}&labelSelector=no")).await;
        for name in 0..16 {
            create(&cluster, &format!("c{name}"), "red").await;
        }
        let stop = AtomicBool::new(false);
        let write = async |name: usize| {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let patch = json!({"data": {"number": number.to_string()}}).to_string();
                let _ = cluster.patch(&format!("{CONFIGMAPS}/c{name}"), "merge", patch).await.expect(200);
            }
        };
        let watch = async {
            clock.advance(seconds(60));
            for watch in [&mut selective, &mut unselective] {
                loop {
                    let event = watch.next().await.expect("an event");
                    if event["type"] == "BOOKMARK" {
                        break;
                    }
                }
            }
            clock.advance(seconds(40));
            for watch in [&mut selective, &mut unselective] {
                while watch.next().await.is_some() {}
            }
            // The writes continued up to this point.
            stop.store(true, Ordering::Relaxed);
        };
        tokio::join!(watch, futures_util::future::join_all((0..16).map(&write)));
    });
}
