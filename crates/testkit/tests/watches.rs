//! Watches: where they start, what they show, and how they end (KEP-956 for bookmarks, KEP-3157 for streamed lists, the API
//! conventions for the rest). `replay.rs` watches while many write at once.

use std::time::Duration;

use pintle_testkit::{Cluster, Options, Watch};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/n/configmaps";
const PODS: &str = "/api/v1/namespaces/n/pods";

async fn cluster(options: Options) -> Cluster {
    let cluster = Cluster::with_options(options).await;
    let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await.expect(201);
    cluster
}

async fn start() -> Cluster {
    cluster(Options::default()).await
}

fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("no resourceVersion: {object}"))
}

fn map(name: &str, color: &str) -> String {
    json!({"metadata": {"name": name, "labels": {"color": color}}, "data": {"color": color}}).to_string()
}

async fn make(cluster: &Cluster, name: &str, color: &str) -> u64 {
    revision(&cluster.post(MAPS, map(name, color)).await.expect(201).json())
}

async fn paint(cluster: &Cluster, name: &str, color: &str) -> u64 {
    revision(&cluster.put(&format!("{MAPS}/{name}"), map(name, color)).await.expect(200).json())
}

async fn remove(cluster: &Cluster, name: &str) {
    let _ = cluster.delete(&format!("{MAPS}/{name}")).await.expect(200);
}

/// The current revision.
async fn now(cluster: &Cluster) -> u64 {
    revision(&cluster.get(MAPS).await.expect(200).json())
}

async fn open(cluster: &Cluster, path: &str, query: &str) -> Watch {
    cluster.watch(&format!("{path}?watch=1&{query}")).await
}

/// An event in short: `ADDED a 7`, `BOOKMARK 9`.
fn short(event: &Value) -> String {
    let object = &event["object"];
    let words =
        [event["type"].as_str(), object["metadata"]["name"].as_str(), object["metadata"]["resourceVersion"].as_str()];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Sees to it that these events come next.
async fn check(watch: &mut Watch, expect: &[String]) {
    for expect in expect {
        let event = watch.next().await.unwrap_or_else(|| panic!("the stream ended before {expect}"));
        assert_eq!(short(&event), *expect, "{event}");
    }
}

/// All events until the stream ends.
async fn all(mut watch: Watch) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(event) = watch.next().await {
        events.push(event);
    }
    events
}

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
        let cluster = start().await;
        let at = now(&cluster).await;
        let far = open(&cluster, MAPS, &format!("resourceVersion={}&timeoutSeconds=1", at + 1_000)).await;
        let mut near = open(&cluster, MAPS, &format!("resourceVersion={}", at + 2)).await;
        for name in ["a", "b"] {
            make(&cluster, name, "red").await;
        }
        let c = make(&cluster, "c", "red").await;
        check(&mut near, &[format!("ADDED c {c}")]).await;
        assert_eq!(all(far).await, Vec::<Value>::new());
    });
}

#[test]
fn what_stops_matching_is_deleted_for_the_watcher() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let at = now(&cluster).await;
        let mut red = open(&cluster, MAPS, &format!("resourceVersion={at}&labelSelector=color%3Dred")).await;
        let mut cold = open(&cluster, MAPS, &format!("resourceVersion={at}&labelSelector=color+in+(blue,green)")).await;
        let a = make(&cluster, "a", "blue").await;
        let red1 = paint(&cluster, "a", "red").await;
        let patch = r#"{"data": {"more": "yes"}}"#;
        let red2 = revision(&cluster.patch(&format!("{MAPS}/a"), "merge", patch).await.expect(200).json());
        let green = paint(&cluster, "a", "green").await;
        remove(&cluster, "a").await;
        let end = make(&cluster, "end", "red").await;

        check(&mut red, &[format!("ADDED a {red1}"), format!("MODIFIED a {red2}")]).await;
        // The object as it last matched, with the revision of the change that took it away.
        let gone = red.expect("DELETED", "a").await;
        assert_eq!(revision(&gone), green);
        assert_eq!(gone["metadata"]["labels"]["color"], "red");
        assert_eq!(gone["data"], json!({"color": "red", "more": "yes"}));
        check(&mut red, &[format!("ADDED end {end}")]).await;

        check(&mut cold, &[format!("ADDED a {a}")]).await;
        let gone = cold.expect("DELETED", "a").await;
        assert_eq!((revision(&gone), &gone["data"]["color"]), (red1, &json!("blue")));
        check(&mut cold, &[format!("ADDED a {green}")]).await;
        let gone = cold.expect("DELETED", "a").await;
        assert_eq!((revision(&gone), &gone["data"]["color"]), (green + 1, &json!("green")));
    });
}

#[test]
fn fields_select_events() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let at = now(&cluster).await;
        let query = |selector: &str| format!("resourceVersion={at}&fieldSelector={}", selector.replace('=', "%3D"));
        let mut node = open(&cluster, "/api/v1/pods", &query("spec.nodeName=node-1")).await;
        let mut unbound = open(&cluster, PODS, &query("spec.nodeName=")).await;
        let mut other = open(&cluster, "/api/v1/pods", &query("spec.nodeName!=node-1,metadata.name=a")).await;
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let made = revision(&cluster.post(PODS, pod.to_string()).await.expect(201).json());
        let target = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "node-1"}});
        let _ = cluster.post(&format!("{PODS}/a/binding"), target.to_string()).await.expect(201);
        let bound = revision(&cluster.get(&format!("{PODS}/a")).await.expect(200).json());
        let running = r#"{"status": {"phase": "Running"}}"#;
        let running = cluster.patch(&format!("{PODS}/a/status"), "merge", running).await.expect(200).json();
        check(&mut node, &[format!("ADDED a {bound}"), format!("MODIFIED a {}", revision(&running))]).await;
        for watch in [&mut unbound, &mut other] {
            check(watch, &[format!("ADDED a {made}"), format!("DELETED a {bound}")]).await;
        }
    });
}

#[test]
fn a_single_object_can_be_watched() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let a = make(&cluster, "a", "red").await;
        make(&cluster, "b", "red").await;
        let mut watches = vec![
            open(&cluster, MAPS, "fieldSelector=metadata.name%3Da").await,
            open(&cluster, "/api/v1/configmaps", "fieldSelector=metadata.name%3Da").await,
            cluster.watch("/api/v1/watch/namespaces/n/configmaps/a").await,
        ];
        make(&cluster, "aa", "red").await;
        let blue = paint(&cluster, "a", "blue").await;
        remove(&cluster, "a").await;
        for watch in &mut watches {
            check(watch, &[format!("ADDED a {a}"), format!("MODIFIED a {blue}"), format!("DELETED a {}", blue + 1)])
                .await;
        }
    });
}

#[test]
fn the_deprecated_paths_watch() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let at = now(&cluster).await;
        let mut watches = vec![
            cluster.watch(&format!("/api/v1/watch/namespaces/n/configmaps?resourceVersion={at}")).await,
            cluster.watch(&format!("/api/v1/watch/configmaps?resourceVersion={at}")).await,
            cluster.watch(&format!("/api/v1/watch/configmaps?watch=false&resourceVersion={at}")).await,
        ];
        let mut namespaces = cluster.watch(&format!("/api/v1/watch/namespaces?resourceVersion={at}")).await;
        let mut namespace = cluster.watch("/api/v1/watch/namespaces/n").await;
        let _ = namespace.expect("ADDED", "n").await;
        let a = make(&cluster, "a", "red").await;
        for watch in &mut watches {
            check(watch, &[format!("ADDED a {a}")]).await;
        }
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "o"}}"#).await.expect(201);
        let _ = namespaces.expect("ADDED", "o").await;
    });
}

#[test]
fn bookmarks_come_before_the_end() {
    pintle_testkit::run(async {
        let cluster = start().await;
        make(&cluster, "a", "red").await;
        let at = now(&cluster).await;
        let query = format!("resourceVersion={at}&timeoutSeconds=3");
        let with = open(&cluster, MAPS, &format!("{query}&allowWatchBookmarks=true")).await;
        let narrow = open(&cluster, MAPS, &format!("{query}&allowWatchBookmarks=1&labelSelector=no")).await;
        let without = open(&cluster, MAPS, &query).await;
        // Others' changes move a quiet watch on.
        let secret = cluster.post("/api/v1/namespaces/n/secrets", r#"{"metadata": {"name": "s"}}"#).await.expect(201);
        let secret = revision(&secret.json());
        for watch in [with, narrow] {
            let events = all(watch).await;
            assert!(!events.is_empty(), "no bookmark");
            for event in &events {
                assert_eq!(event["type"], "BOOKMARK", "{event}");
                assert!(revision(&event["object"]) >= secret, "{event}");
                let metadata = json!({"resourceVersion": event["object"]["metadata"]["resourceVersion"]});
                assert_eq!(event["object"], json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}));
            }
        }
        assert_eq!(all(without).await, Vec::<Value>::new());
    });
}

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
        let cluster = start().await;
        let at = now(&cluster).await;
        let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let mut soon = open(&cluster, MAPS, &format!("{stream}&resourceVersion={at}")).await;
        assert_eq!(soon.next().await.map(|mark| revision(&mark["object"])), Some(at));
        let events = all(open(&cluster, MAPS, &format!("{stream}&resourceVersion=999999")).await).await;
        assert_eq!(events.len(), 1, "{events:?}");
        let status = &events[0]["object"];
        assert_eq!((&events[0]["type"], &status["code"]), (&json!("ERROR"), &json!(504)));
        assert_eq!(status["message"], format!("Timeout: Too large resource version: 999999, current: {at}"));
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    });
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let forbidden = "resourceVersionMatch: Forbidden:";
        let requires = format!("{forbidden} sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        let unless =
            format!("{forbidden} resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        let unsupported = "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
        for (query, message) in [
            ("sendInitialEvents=true", requires.clone()),
            ("sendInitialEvents=false", requires.clone()),
            ("resourceVersionMatch=NotOlderThan&resourceVersion=1", unless.clone()),
            ("resourceVersionMatch=Exact&resourceVersion=1", format!("[{unless}, {unsupported}]")),
            ("sendInitialEvents=true&resourceVersionMatch=Exact", format!("[{requires}, {unsupported}]")),
            (
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
                format!("{forbidden} resourceVersionMatch is forbidden when continue is provided"),
            ),
        ] {
            let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {message}");
            cluster.get(&format!("{MAPS}?watch=1&{query}")).await.expect_error(422, "Invalid", &message);
            cluster.get(&format!("/api/v1/watch/configmaps?{query}")).await.expect_error(422, "Invalid", &message);
        }
        let answer = cluster.get(&format!("{MAPS}?watch=1&resourceVersion=abc")).await;
        let message = "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax";
        answer.expect_error(500, "", message);
        let answer = cluster.get(&format!("{MAPS}?watch=1&timeoutSeconds=abc")).await;
        answer.expect_error(400, "BadRequest", "strconv.ParseInt: parsing \"abc\": invalid syntax");
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
fn events_come_as_tables_and_as_metadata() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let at = now(&cluster).await;
        let path = format!("{MAPS}?watch=1&resourceVersion={at}");
        let ask = |accept: &str| cluster.ask("GET", &path).header("accept", accept).watch();
        let mut table = ask("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").await;
        let mut partial = ask("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").await;
        let made = make(&cluster, "a", "red").await;
        let blue = paint(&cluster, "a", "blue").await;
        remove(&cluster, "a").await;

        for (i, (kind, revision)) in
            [("ADDED", made), ("MODIFIED", blue), ("DELETED", blue + 1)].into_iter().enumerate()
        {
            let event = table.next().await.expect("an event");
            assert_eq!(event["type"], kind);
            let object = &event["object"];
            assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
            // Columns are said once.
            let columns: Vec<_> =
                object["columnDefinitions"].as_array().into_iter().flatten().map(|c| &c["name"]).collect();
            assert_eq!(columns, if i == 0 { vec!["Name", "Data", "Age"] } else { vec![] }, "{object}");
            let row = &object["rows"][0];
            assert_eq!((&row["cells"][0], &row["cells"][1]), (&json!("a"), &json!(1)));
            assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
            assert_eq!(row["object"]["metadata"]["resourceVersion"], revision.to_string());
            assert_eq!(object["rows"].as_array().map(Vec::len), Some(1));

            let object = partial.expect(kind, "a").await;
            assert_eq!(
                (&object["kind"], &object["apiVersion"]),
                (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
            );
            assert_eq!(object["metadata"]["resourceVersion"], revision.to_string());
            assert_eq!(object.get("data"), None);
        }
    });
}

/// The fields of a Protobuf message that are byte strings.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8])> {
    fn number(message: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = message.split_first().expect("a number");
            *message = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = number(&mut message);
        let size = number(&mut message);
        match tag & 7 {
            0 => {}
            2 => {
                let (value, rest) = message.split_at(usize::try_from(size).expect("a size"));
                found.push((tag >> 3, value));
                message = rest;
            }
            wire => panic!("wire type {wire}"),
        }
    }
    found
}

/// The first byte string of this number.
fn field(message: &[u8], number: u64) -> &[u8] {
    fields(message).into_iter().find(|(n, _)| *n == number).map_or(&[], |(_, value)| value)
}

#[test]
fn protobuf_events_are_frames() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let at = now(&cluster).await;
        make(&cluster, "a", "red").await;
        let blue = paint(&cluster, "a", "blue").await;
        remove(&cluster, "a").await;
        let path = format!("{MAPS}?watch=1&resourceVersion={at}&timeoutSeconds=1&allowWatchBookmarks=true");
        let answer = cluster.ask("GET", &path).header("accept", "application/vnd.kubernetes.protobuf").send().await;
        let answer = answer.expect(200);
        assert_eq!(answer.header("content-type"), "application/vnd.kubernetes.protobuf;stream=watch");
        let mut rest = &answer.body[..];
        let mut seen = Vec::new();
        while let Some((size, after)) = rest.split_first_chunk::<4>() {
            let (frame, after) = after.split_at(u32::from_be_bytes(*size) as usize);
            rest = after;
            let kind = std::str::from_utf8(field(frame, 1)).expect("text");
            // RawExtension, the envelope, Unknown, ConfigMap, ObjectMeta.
            let unknown = field(field(frame, 2), 1).strip_prefix(b"k8s\0").expect("the envelope");
            assert_eq!(fields(field(unknown, 1)), [(1, &b"v1"[..]), (2, &b"ConfigMap"[..])]);
            let meta = field(field(unknown, 2), 1);
            let text = |number| String::from_utf8_lossy(field(meta, number)).into_owned();
            seen.push(format!("{kind} {} {}", text(1), text(6)));
        }
        assert_eq!(rest, b"");
        let expect = [
            format!("ADDED a {}", at + 1),
            format!("MODIFIED a {blue}"),
            format!("DELETED a {}", blue + 1),
            format!("BOOKMARK  {}", blue + 1),
        ];
        assert_eq!(seen, expect);
    });
}
