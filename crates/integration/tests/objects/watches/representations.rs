//! Events as tables, partial metadata and Protobuf.

use pintle_integration::{Options, advance_clock_until};
use serde_json::json;

use super::{CONFIGMAPS, cluster_with_manual_clock, create, current_revision, delete, set_color, start_cluster};

#[test]
fn events_can_be_tables_and_partial_metadata() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let at = current_revision(&cluster).await;
        let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={at}");
        let request = |accept: &str| cluster.request("GET", &path).header("accept", accept).watch();
        let mut table = request("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").await;
        let mut partial = request("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").await;
        let created = create(&cluster, "a", "red").await;
        let blue = set_color(&cluster, "a", "blue").await;
        delete(&cluster, "a").await;

        for (i, (kind, revision)) in
            [("ADDED", created), ("MODIFIED", blue), ("DELETED", blue + 1)].into_iter().enumerate()
        {
            let event = table.next().await.expect("an event");
            assert_eq!(event["type"], kind);
            let object = &event["object"];
            assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
            // Only the first event has column definitions.
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

/// Returns the length-delimited fields of a Protobuf message.
fn length_delimited_fields(mut message: &[u8]) -> Vec<(u64, &[u8])> {
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

/// Returns the first length-delimited field with this number.
fn field(message: &[u8], number: u64) -> &[u8] {
    length_delimited_fields(message).into_iter().find(|(n, _)| *n == number).map_or(&[], |(_, value)| value)
}

/// Summarizes a Protobuf event, and returns the type of its object.
pub(crate) fn summarize_protobuf(frame: &[u8]) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // RawExtension, the envelope, Unknown, TypeMeta; ObjectMeta.
    let unknown = field(field(frame, 2), 1).strip_prefix(b"k8s\0").expect("the envelope");
    let kind = length_delimited_fields(field(unknown, 1))
        .into_iter()
        .map(|(_, value)| text(value))
        .collect::<Vec<_>>()
        .join(" ");
    let meta = field(field(unknown, 2), 1);
    (format!("{} {} {}", text(field(frame, 1)), text(field(meta, 1)), text(field(meta, 6))), kind)
}

#[test]
fn protobuf_events_are_length_prefixed_frames() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
        let at = current_revision(&cluster).await;
        create(&cluster, "a", "red").await;
        let blue = set_color(&cluster, "a", "blue").await;
        delete(&cluster, "a").await;
        let b = create(&cluster, "b", "red").await;
        let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let changes = [
            format!("ADDED a {}", at + 1),
            format!("MODIFIED a {blue}"),
            format!("DELETED a {}", blue + 1),
            format!("ADDED b {b}"),
        ];
        let state = [format!("ADDED b {b}"), format!("BOOKMARK  {b}")];
        for (query, expect) in [(format!("resourceVersion={at}"), &changes[..]), (stream.to_owned(), &state)] {
            let path = format!("{CONFIGMAPS}?watch=1&timeoutSeconds=1&{query}");
            let request = cluster.request("GET", &path).header("accept", "application/vnd.kubernetes.protobuf");
            let response = advance_clock_until(&clock, request.send()).await.expect(200);
            assert_eq!(response.header("content-type"), "application/vnd.kubernetes.protobuf;stream=watch");
            let mut rest = &response.body[..];
            let mut found = Vec::new();
            while let Some((size, after)) = rest.split_first_chunk::<4>() {
                let (frame, after) = after.split_at(u32::from_be_bytes(*size) as usize);
                rest = after;
                let (event, kind) = summarize_protobuf(frame);
                assert_eq!(kind, "v1 ConfigMap");
                found.push(event);
            }
            assert_eq!((found.as_slice(), rest), (expect, &b""[..]), "{query}");
        }
    });
}

#[test]
fn the_first_event_of_a_table_has_the_column_definitions() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
        let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let request = |query: &str| cluster.request("GET", &format!("{CONFIGMAPS}?watch=1&{query}"));
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let mut watch = request(stream).header("accept", accept).watch().await;
        create(&cluster, "a", "red").await;
        for (kind, columns) in [("BOOKMARK", 3), ("ADDED", 0)] {
            let event = watch.next().await.expect("an event");
            let found = event["object"]["columnDefinitions"].as_array().map_or(0, Vec::len);
            assert_eq!((&event["type"], found), (&json!(kind), columns), "{event}");
        }
        // An error is not transformed into a table.
        let far = request("resourceVersion=999999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
        let mut old = advance_clock_until(&clock, far.header("accept", accept).watch()).await;
        let event = old.next().await.expect("an event");
        assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("ERROR"), &json!("Status")));
        assert_eq!(old.next().await, None);
    });
}
