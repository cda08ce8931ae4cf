//! Where watches start, and which beginnings are refused.

use std::time::Duration;

use pintle_testkit::{Options, advance_clock_until};
use serde_json::{Value, json};

use crate::{MAPS, all, check, cluster, make, now, open, paint, remove, revision, short, start, timed};

#[test]
fn a_watch_starts_where_it_is_asked_to() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let a = make(&cluster, "a", "red").await;
        let b = make(&cluster, "b", "red").await;
        let a2 = paint(&cluster, "a", "blue").await;
        let state = [format!("ADDED a {a2}"), format!("ADDED b {b}")];
        let changes = [format!("ADDED b {b}"), format!("MODIFIED a {a2}")];
        let mut watches = Vec::new();
        for (query, expect) in [
            (String::new(), &state[..]),
            ("resourceVersion=0".to_owned(), &state[..]),
            ("resourceVersion=".to_owned(), &state[..]),
            (format!("resourceVersion={a}"), &changes[..]),
            (format!("resourceVersion={b}"), &changes[1..]),
            (format!("resourceVersion={a2}"), &[][..]),
        ] {
            let mut watch = open(&cluster, MAPS, &query).await;
            check(&mut watch, expect).await;
            watches.push(watch);
        }
        // From there on all are alike.
        let c = make(&cluster, "c", "red").await;
        remove(&cluster, "b").await;
        for watch in &mut watches {
            check(watch, &[format!("ADDED c {c}"), format!("DELETED b {}", c + 1)]).await;
        }
    });
}

#[test]
fn a_watch_from_the_future_stays_silent() {
    pintle_testkit::run(async {
        let (cluster, clock) = timed(Options::default()).await;
        let at = now(&cluster).await;
        let far = open(&cluster, MAPS, &format!("resourceVersion={}&timeoutSeconds=1", at + 1_000)).await;
        let mut near = open(&cluster, MAPS, &format!("resourceVersion={}", at + 2)).await;
        for name in ["a", "b"] {
            make(&cluster, name, "red").await;
        }
        let c = make(&cluster, "c", "red").await;
        check(&mut near, &[format!("ADDED c {c}")]).await;
        assert_eq!(advance_clock_until(&clock, all(far)).await, Vec::<Value>::new());
    });
}

#[test]
fn a_revision_that_is_forgotten_ends_the_watch() {
    pintle_testkit::run(async {
        let mut options = Options::default();
        options.window.duration = Duration::ZERO;
        let cluster = cluster(options).await;
        let a = make(&cluster, "a", "red").await;
        let b = make(&cluster, "b", "red").await;
        // Forgetting follows the answer to the write by a moment.
        let exact = format!("{MAPS}?resourceVersion={a}&resourceVersionMatch=Exact");
        while cluster.get(&exact).await.status != 410 {}
        let mut events = all(open(&cluster, MAPS, &format!("resourceVersion={a}")).await).await;
        let event = events.pop().expect("an error");
        assert_eq!(events, Vec::<Value>::new());
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
            "message": format!("too old resource version: {a} ({b})"),
        });
        assert_eq!(event, json!({"type": "ERROR", "object": status}));
        // The newest revision is never too old, nor is one of a watch that wants the state first.
        let mut newest = open(&cluster, MAPS, &format!("resourceVersion={b}")).await;
        let stream = format!("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={a}");
        let mut state = open(&cluster, MAPS, &stream).await;
        check(&mut state, &[format!("ADDED a {a}"), format!("ADDED b {b}")]).await;
        let c = make(&cluster, "c", "red").await;
        check(&mut newest, &[format!("ADDED c {c}")]).await;
        check(&mut state, &[format!("ADDED c {c}")]).await;
    });
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let forbidden = "resourceVersionMatch: Forbidden:";
        let requires = format!("{forbidden} sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        let needs =
            format!("{forbidden} resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        let unsupported = "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
        let unless = format!("{forbidden} resourceVersionMatch is forbidden unless resourceVersion is provided");
        let list = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list";
        let going_on = format!("{forbidden} resourceVersionMatch is forbidden when continue is provided");
        // The deprecated path does not make the options those of a watch: they are read as a list's.
        for (query, watch, path) in [
            ("sendInitialEvents=true", requires.clone(), list.to_owned()),
            ("sendInitialEvents=false", requires.clone(), list.to_owned()),
            ("resourceVersionMatch=NotOlderThan&resourceVersion=1", needs.clone(), String::new()),
            ("resourceVersionMatch=Exact&resourceVersion=1", format!("[{needs}, {unsupported}]"), String::new()),
            (
                "sendInitialEvents=true&resourceVersionMatch=Exact",
                format!("[{requires}, {unsupported}]"),
                format!("[{unless}, {list}]"),
            ),
            (
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
                going_on.clone(),
                format!("[{unless}, {going_on}, {list}]"),
            ),
        ] {
            let wrap = |text: &str| format!("ListOptions.meta.k8s.io \"\" is invalid: {text}");
            for (target, message) in [
                (format!("{MAPS}?watch=1&{query}"), &watch),
                (format!("/api/v1/watch/configmaps?watch=1&{query}"), &watch),
                (format!("/api/v1/watch/configmaps?{query}"), &path),
            ] {
                if !message.is_empty() {
                    cluster.get(&target).await.expect_error(422, "Invalid", &wrap(message));
                }
            }
        }
        let answer = cluster.get(&format!("{MAPS}?watch=1&timeoutSeconds=abc")).await;
        answer.expect_error(400, "BadRequest", "strconv.ParseInt: parsing \"abc\": invalid syntax");
    });
}

#[test]
fn an_object_is_not_watched_at_its_own_path() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let a = make(&cluster, "a", "red").await;
        let object = cluster.get(&format!("{MAPS}/a?watch=1")).await.expect(200).json();
        assert_eq!((&object["kind"], revision(&object)), (&json!("ConfigMap"), a));
    });
}

#[test]
fn times_that_are_over_end_a_watch_at_once() {
    pintle_testkit::run(async {
        let cluster = start().await;
        make(&cluster, "a", "red").await;
        let at = now(&cluster).await;
        for seconds in [-1, i64::MAX, i64::MIN] {
            let path = format!("{MAPS}?watch=1&resourceVersion={at}&allowWatchBookmarks=true&timeoutSeconds={seconds}");
            // What Go's nanoseconds make of the least number is none at all, which is no wish.
            if seconds != i64::MIN {
                assert_eq!(cluster.get(&path).await.expect(200).text(), "", "{seconds}");
            } else {
                let mut watch = cluster.watch(&path).await;
                let b = make(&cluster, "b", "red").await;
                assert_eq!(watch.next().await.map(|e| short(&e)), Some(format!("ADDED b {b}")));
            }
        }
    });
}
