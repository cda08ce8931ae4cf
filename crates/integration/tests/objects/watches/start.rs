//! The start of watches, and options that are rejected.

use std::time::Duration;

use pintle_integration::{Options, advance_clock_until};
use serde_json::{Value, json};

use super::{
    CONFIGMAPS, check, cluster_with_manual_clock, cluster_with_options, collect_events, create, current_revision,
    delete, open_watch, revision, set_color, start_cluster, summarize,
};

#[test]
fn a_watch_starts_at_the_requested_revision() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let a = create(&cluster, "a", "red").await;
        let b = create(&cluster, "b", "red").await;
        let a2 = set_color(&cluster, "a", "blue").await;
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
            let mut watch = open_watch(&cluster, CONFIGMAPS, &query).await;
            check(&mut watch, expect).await;
            watches.push(watch);
        }
        // All watches see later changes.
        let c = create(&cluster, "c", "red").await;
        delete(&cluster, "b").await;
        for watch in &mut watches {
            check(watch, &[format!("ADDED c {c}"), format!("DELETED b {}", c + 1)]).await;
        }
    });
}

#[test]
fn a_watch_of_a_future_revision_skips_earlier_events() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
        let at = current_revision(&cluster).await;
        let far = open_watch(&cluster, CONFIGMAPS, &format!("resourceVersion={}&timeoutSeconds=1", at + 1_000)).await;
        let mut near = open_watch(&cluster, CONFIGMAPS, &format!("resourceVersion={}", at + 2)).await;
        for name in ["a", "b"] {
            create(&cluster, name, "red").await;
        }
        let c = create(&cluster, "c", "red").await;
        check(&mut near, &[format!("ADDED c {c}")]).await;
        assert_eq!(advance_clock_until(&clock, collect_events(far)).await, Vec::<Value>::new());
    });
}

#[test]
fn a_watch_of_an_expired_revision_ends_with_an_error() {
    pintle_integration::run(async {
        let mut options = Options::default();
        options.history.duration = Duration::ZERO;
        let cluster = cluster_with_options(options).await;
        let a = create(&cluster, "a", "red").await;
        let b = create(&cluster, "b", "red").await;
        // The history is discarded shortly after the response to the write.
        let exact = format!("{CONFIGMAPS}?resourceVersion={a}&resourceVersionMatch=Exact");
        cluster.get_until_status(&exact, 410).await;
        let mut events = collect_events(open_watch(&cluster, CONFIGMAPS, &format!("resourceVersion={a}")).await).await;
        let event = events.pop().expect("an error");
        assert_eq!(events, Vec::<Value>::new());
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
            "message": format!("too old resource version: {a} ({b})"),
        });
        assert_eq!(event, json!({"type": "ERROR", "object": status}));
        // The newest revision never expires. A watch that starts with the state accepts an expired revision.
        let mut newest = open_watch(&cluster, CONFIGMAPS, &format!("resourceVersion={b}")).await;
        let stream = format!("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={a}");
        let mut state = open_watch(&cluster, CONFIGMAPS, &stream).await;
        check(&mut state, &[format!("ADDED a {a}"), format!("ADDED b {b}")]).await;
        let c = create(&cluster, "c", "red").await;
        check(&mut newest, &[format!("ADDED c {c}")]).await;
        check(&mut state, &[format!("ADDED c {c}")]).await;
    });
}

#[test]
fn contradictory_options_are_rejected() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let forbidden = "resourceVersionMatch: Forbidden:";
        let requires = format!("{forbidden} sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        let needs =
            format!("{forbidden} resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        let unsupported = "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
        let unless = format!("{forbidden} resourceVersionMatch is forbidden unless resourceVersion is provided");
        let list = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list";
        let with_continue = format!("{forbidden} resourceVersionMatch is forbidden when continue is provided");
        // At the deprecated path without `watch=1`, the options are validated as list options.
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
                with_continue.clone(),
                format!("[{unless}, {with_continue}, {list}]"),
            ),
        ] {
            let wrap = |text: &str| format!("ListOptions.meta.k8s.io \"\" is invalid: {text}");
            for (target, message) in [
                (format!("{CONFIGMAPS}?watch=1&{query}"), &watch),
                (format!("/api/v1/watch/configmaps?watch=1&{query}"), &watch),
                (format!("/api/v1/watch/configmaps?{query}"), &path),
            ] {
                if !message.is_empty() {
                    cluster.get(&target).await.expect_error(422, "Invalid", &wrap(message));
                }
            }
        }
        let response = cluster.get(&format!("{CONFIGMAPS}?watch=1&timeoutSeconds=abc")).await;
        response.expect_error(400, "BadRequest", "strconv.ParseInt: parsing \"abc\": invalid syntax");
    });
}

#[test]
fn a_get_with_watch_parameter_returns_the_object() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let a = create(&cluster, "a", "red").await;
        let object = cluster.get(&format!("{CONFIGMAPS}/a?watch=1")).await.expect(200).json();
        assert_eq!((&object["kind"], revision(&object)), (&json!("ConfigMap"), a));
    });
}

#[test]
fn a_timeout_in_the_past_ends_a_watch_at_once() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        create(&cluster, "a", "red").await;
        let at = current_revision(&cluster).await;
        for seconds in [-1, i64::MAX, i64::MIN] {
            let path =
                format!("{CONFIGMAPS}?watch=1&resourceVersion={at}&allowWatchBookmarks=true&timeoutSeconds={seconds}");
            // The minimum value overflows to zero nanoseconds in Go, which means no timeout.
            if seconds != i64::MIN {
                assert_eq!(cluster.get(&path).await.expect(200).text(), "", "{seconds}");
            } else {
                let mut watch = cluster.watch(&path).await;
                let b = create(&cluster, "b", "red").await;
                assert_eq!(watch.next().await.map(|e| summarize(&e)), Some(format!("ADDED b {b}")));
            }
        }
    });
}
