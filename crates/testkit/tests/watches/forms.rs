//! Events as tables, as metadata and as Protobuf.

use pintle_testkit::{Options, advance_clock_until};
use serde_json::json;

use crate::{MAPS, make, now, paint, remove, start, timed};

#[test]
fn events_come_as_tables_and_as_metadata() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let at = now(&cluster).await;
        let path = format!("{MAPS}?watch=1&resourceVersion={at}");
        let ask = |accept: &str| cluster.request("GET", &path).header("accept", accept).watch();
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

/// An event of Protobuf in short, and the type of its object.
pub(crate) fn short(frame: &[u8]) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // RawExtension, the envelope, Unknown, TypeMeta; ObjectMeta.
    let unknown = field(field(frame, 2), 1).strip_prefix(b"k8s\0").expect("the envelope");
    let kind = fields(field(unknown, 1)).into_iter().map(|(_, value)| text(value)).collect::<Vec<_>>().join(" ");
    let meta = field(field(unknown, 2), 1);
    (format!("{} {} {}", text(field(frame, 1)), text(field(meta, 1)), text(field(meta, 6))), kind)
}

#[test]
fn protobuf_events_are_frames() {
    pintle_testkit::run(async {
        let (cluster, clock) = timed(Options::default()).await;
        let at = now(&cluster).await;
        make(&cluster, "a", "red").await;
        let blue = paint(&cluster, "a", "blue").await;
        remove(&cluster, "a").await;
        let b = make(&cluster, "b", "red").await;
        let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let changes = [
            format!("ADDED a {}", at + 1),
            format!("MODIFIED a {blue}"),
            format!("DELETED a {}", blue + 1),
            format!("ADDED b {b}"),
        ];
        let state = [format!("ADDED b {b}"), format!("BOOKMARK  {b}")];
        for (query, expect) in [(format!("resourceVersion={at}"), &changes[..]), (stream.to_owned(), &state)] {
            let path = format!("{MAPS}?watch=1&timeoutSeconds=1&{query}");
            let ask = cluster.request("GET", &path).header("accept", "application/vnd.kubernetes.protobuf");
            let answer = advance_clock_until(&clock, ask.send()).await.expect(200);
            assert_eq!(answer.header("content-type"), "application/vnd.kubernetes.protobuf;stream=watch");
            let mut rest = &answer.body[..];
            let mut seen = Vec::new();
            while let Some((size, after)) = rest.split_first_chunk::<4>() {
                let (frame, after) = after.split_at(u32::from_be_bytes(*size) as usize);
                rest = after;
                let (event, kind) = short(frame);
                assert_eq!(kind, "v1 ConfigMap");
                seen.push(event);
            }
            assert_eq!((seen.as_slice(), rest), (expect, &b""[..]), "{query}");
        }
    });
}

#[test]
fn the_first_event_of_a_table_says_its_columns() {
    pintle_testkit::run(async {
        let (cluster, clock) = timed(Options::default()).await;
        let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let ask = |query: &str| cluster.request("GET", &format!("{MAPS}?watch=1&{query}"));
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let mut watch = ask(stream).header("accept", accept).watch().await;
        make(&cluster, "a", "red").await;
        for (kind, columns) in [("BOOKMARK", 3), ("ADDED", 0)] {
            let event = watch.next().await.expect("an event");
            let found = event["object"]["columnDefinitions"].as_array().map_or(0, Vec::len);
            assert_eq!((&event["type"], found), (&json!(kind), columns), "{event}");
        }
        // An error is no table.
        let far = ask("resourceVersion=999999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
        let mut old = advance_clock_until(&clock, far.header("accept", accept).watch()).await;
        let event = old.next().await.expect("an event");
        assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("ERROR"), &json!("Status")));
        assert_eq!(old.next().await, None);
    });
}
