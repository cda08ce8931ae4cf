//! Many objects at a version that they are not stored at: lists in all forms, and watches.

use pintle_testkit::Cluster;
use serde_json::{Value, json};

use super::hook::Manner;
use super::{convert, path, serving, v1, v2, widgets};

/// Widgets `w000`, `w001`, ….
async fn make(cluster: &Cluster, count: usize) {
    let made = (0..count).map(|i| {
        let colour = ["red", "green"][i % 2];
        async move { cluster.post(&widgets("v1"), v1(&format!("w{i:03}"), colour).to_string()).await.expect(201) }
    });
    futures_util::future::join_all(made).await;
}

/// Changes the colour of some of them.
async fn paint(cluster: &Cluster, widgets: &[usize], colour: &str) {
    for i in widgets {
        let change = json!({"spec": {"colour": colour}}).to_string();
        let _ = cluster.patch(&path("v1", &format!("w{i:03}")), "merge", change).await.expect(200);
    }
}

fn hues(list: &Value) -> Vec<&str> {
    list["items"].as_array().expect("items").iter().map(|item| item["spec"]["hue"].as_str().unwrap_or("?")).collect()
}

#[test]
fn lists_are_converted_in_batches_on_one_connection() {
    pintle_testkit::run(async {
        let (cluster, hook) = serving().await;
        make(&cluster, 400).await;
        let list = cluster.get(&widgets("v2")).await.expect(200).json();
        assert_eq!(hues(&list).len(), 400);
        assert_eq!(hues(&list)[..2], ["red", "green"]);
        assert_eq!(list["apiVersion"], "example.com/v2");
        let batches: Vec<usize> = hook.asked().into_iter().map(|(count, _)| count).collect();
        assert_eq!((batches.len(), batches.iter().sum::<usize>()), (4, 400), "{batches:?}");
        assert_eq!(hook.connections(), 1);
        // Who lists again is shown the same, but for what has changed.
        paint(&cluster, &[0, 1, 399], "blue").await;
        let list = cluster.get(&widgets("v2")).await.expect(200).json();
        assert_eq!(hues(&list)[..3], ["blue", "blue", "red"]);
        assert_eq!(hook.asked(), [(3, "example.com/v2".to_owned())]);
        // Large ones are compressed like any other.
        let zipped = cluster.request("GET", &widgets("v2")).header("accept-encoding", "gzip").send().await.expect(200);
        assert_eq!(zipped.header("content-encoding"), "gzip");
        // In chunks and by name, only what is shown is asked about.
        paint(&cluster, &[0, 1, 7], "red").await;
        let chunk = cluster.get(&format!("{}?limit=2", widgets("v2"))).await.expect(200).json();
        assert_eq!(hues(&chunk), ["red", "red"]);
        assert_eq!(hook.asked(), [(2, "example.com/v2".to_owned())]);
        let one = cluster.get(&format!("{}?fieldSelector=metadata.name%3Dw007", widgets("v2"))).await.expect(200);
        assert_eq!(hues(&one.json()), ["red"]);
        assert_eq!(hook.asked(), [(1, "example.com/v2".to_owned())]);
        // Who gets one object sees what the webhook says now.
        let _ = cluster.get(&path("v2", "w007")).await.expect(200);
        assert_eq!(hook.asked(), [(1, "example.com/v2".to_owned())]);
        // Who asks for the version that is stored asks nobody.
        assert_eq!(cluster.get(&widgets("v1")).await.expect(200).json()["items"].as_array().map(Vec::len), Some(400));
        assert_eq!(hook.asked(), []);
        cluster.stop().await;
    });
}

#[test]
fn other_forms_are_made_of_what_was_converted() {
    pintle_testkit::run(async {
        let (cluster, _hook) = serving().await;
        make(&cluster, 3).await;
        let as_table = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let ask = |path: String, accept: &'static str| {
            let cluster = &cluster;
            async move { cluster.request("GET", &path).header("accept", accept).send().await.expect(200) }
        };
        let table = ask(widgets("v2"), as_table).await.json();
        let columns: Vec<_> =
            table["columnDefinitions"].as_array().expect("columns").iter().map(|c| &c["name"]).collect();
        assert_eq!(columns, ["Name", "hue"]);
        assert_eq!(table["rows"][1]["cells"], json!(["w001", "green"]));
        let table = ask(path("v2", "w000"), as_table).await.json();
        assert_eq!(table["rows"][0]["cells"], json!(["w000", "red"]));
        let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let list = ask(widgets("v2"), partial).await.json();
        assert_eq!(list["items"][2]["metadata"]["labels"]["made"], "v2");
        assert!(ask(widgets("v2"), "application/yaml").await.text().contains("hue: green"));
        let pretty = cluster.get(&format!("{}?pretty=true", widgets("v2"))).await.expect(200);
        assert_eq!(hues(&pretty.json()), ["red", "green", "red"]);
        cluster.stop().await;
    });
}

#[test]
fn objects_are_selected_by_the_labels_that_they_show() {
    pintle_testkit::run(async {
        let (cluster, _hook) = serving().await;
        make(&cluster, 5).await;
        for (version, made, count) in [("v2", "v2", 5), ("v2", "v1", 0), ("v1", "v2", 0)] {
            for limit in ["", "&limit=2"] {
                let list = cluster.get(&format!("{}?labelSelector=made%3D{made}{limit}", widgets(version))).await;
                let found = list.expect(200).json()["items"].as_array().map_or(0, Vec::len);
                assert_eq!(found, if limit.is_empty() { count } else { count.min(2) }, "{version} {made} {limit}");
            }
        }
        let selected = format!("{}?watch=1&resourceVersion=0&labelSelector=made%3Dv2", widgets("v2"));
        let mut watch = cluster.watch(&selected).await;
        for i in 0..5 {
            watch.expect("ADDED", &format!("w00{i}")).await;
        }
        let _ = cluster.delete(&path("v1", "w003")).await.expect(200);
        assert_eq!(watch.expect("DELETED", "w003").await["spec"]["hue"], "green");
        cluster.stop().await;
    });
}

#[test]
fn objects_are_selected_by_the_fields_that_they_show() {
    pintle_testkit::run(async {
        let (cluster, _hook) = serving().await;
        make(&cluster, 5).await;
        for (version, selector, expect) in [
            ("v1", "spec.colour%3Dgreen", &["w001", "w003"][..]),
            ("v2", "spec.hue%3Dgreen", &["w001", "w003"]),
            ("v2", "spec.hue!%3Dgreen", &["w000", "w002", "w004"]),
            ("v2", "spec.hue%3Dgreen&limit=1", &["w001"]),
        ] {
            let list = cluster.get(&format!("{}?fieldSelector={selector}", widgets(version))).await.expect(200).json();
            let items = list["items"].as_array().expect("items");
            let names: Vec<_> = items.iter().map(|item| &item["metadata"]["name"]).collect();
            assert_eq!(names, expect, "{version} {selector}");
        }
        let selected = format!("{}?watch=1&resourceVersion=0&fieldSelector=spec.hue%3Dgreen", widgets("v2"));
        let mut watch = cluster.watch(&selected).await;
        watch.expect("ADDED", "w001").await;
        watch.expect("ADDED", "w003").await;
        let paint = async |colour: &str| {
            let body = json!({"spec": {"colour": colour}}).to_string();
            let _ = cluster.patch(&path("v1", "w003"), "merge", body).await.expect(200);
        };
        paint("blue").await;
        watch.expect("DELETED", "w003").await;
        paint("green").await;
        watch.expect("ADDED", "w003").await;
        let gone = cluster.delete(&format!("{}?fieldSelector=spec.hue%3Dgreen", widgets("v2"))).await.expect(200);
        assert_eq!(gone.json()["items"].as_array().map(Vec::len), Some(2));
        cluster.stop().await;
    });
}

#[test]
fn watches_show_every_change_at_their_version() {
    pintle_testkit::run(async {
        let (cluster, hook) = serving().await;
        make(&cluster, 2).await;
        let mut watch = cluster.watch(&format!("{}?watch=1&resourceVersion=0", widgets("v2"))).await;
        let mut stored = cluster.watch(&format!("{}?watch=1&resourceVersion=0", widgets("v1"))).await;
        for i in 0..2 {
            assert_eq!(watch.expect("ADDED", &format!("w00{i}")).await["apiVersion"], "example.com/v2");
            assert_eq!(stored.expect("ADDED", &format!("w00{i}")).await["apiVersion"], "example.com/v1");
        }
        let _ = cluster.post(&widgets("v2"), v2("x", "blue").to_string()).await.expect(201);
        let _ = cluster.patch(&path("v1", "x"), "merge", r#"{"spec": {"colour": "red"}}"#).await.expect(200);
        let _ = cluster.delete(&path("v1", "x")).await.expect(200);
        for (kind, colour) in [("ADDED", "blue"), ("MODIFIED", "red"), ("DELETED", "red")] {
            let shown = watch.expect(kind, "x").await;
            assert_eq!((&shown["spec"]["hue"], &shown["apiVersion"]), (&json!(colour), &json!("example.com/v2")));
            let kept = stored.expect(kind, "x").await;
            assert_eq!(kept["spec"]["colour"], colour);
            assert_eq!(kept["metadata"]["resourceVersion"], shown["metadata"]["resourceVersion"]);
        }
        // Many who watch ask once.
        let mut many = Vec::new();
        for _ in 0..20 {
            let mut watch = cluster.watch(&format!("{}?watch=1&resourceVersion=0", widgets("v2"))).await;
            watch.expect("ADDED", "w000").await;
            watch.expect("ADDED", "w001").await;
            many.push(watch);
        }
        let _ = hook.asked();
        paint(&cluster, &[1], "red").await;
        for watch in &mut many {
            assert_eq!(watch.expect("MODIFIED", "w001").await["spec"]["hue"], "red");
        }
        assert_eq!(hook.asked(), [(1, "example.com/v2".to_owned())]);
        watch.expect("MODIFIED", "w001").await;
        stored.expect("MODIFIED", "w001").await;
        drop(many);
        // A watch that cannot go on ends, and nobody else's does.
        hook.set(Manner::Adds(500, "Content-Type: text/plain", "broken"));
        let _ = cluster.patch(&path("v1", "w000"), "merge", r#"{"spec": {"colour": "blue"}}"#).await.expect(200);
        assert_eq!(watch.next().await, None);
        stored.expect("MODIFIED", "w000").await;
        cluster.stop().await;
    });
}

#[test]
fn what_cannot_be_shown_is_asked_for_again() {
    pintle_testkit::run(async {
        let (cluster, hook) = serving().await;
        make(&cluster, 3).await;
        hook.set(Manner::Adds(500, "Content-Type: text/plain", "broken"));
        let why = "conversion webhook for example.com/v1, Kind=Widget failed: an error on the server (\"broken\") has prevented the request from succeeding";
        let unready = format!("storage is (re)initializing: failed to list example.com/v2, Kind=Widget: {why}");
        // Where upstream looks into a cache of the version that it could not fill, and where it reads from etcd.
        for (query, code, reason, told) in [
            ("", 429, "TooManyRequests", &*unready),
            ("resourceVersion=0", 429, "TooManyRequests", &unready),
            ("limit=2&labelSelector=made%3Dv2", 429, "TooManyRequests", &unready),
            ("watch=1", 429, "TooManyRequests", &unready),
            ("watch=1&resourceVersion=0", 429, "TooManyRequests", &unready),
            ("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 429, "TooManyRequests", &unready),
            ("limit=2", 500, "", why),
        ] {
            let answer = cluster.get(&format!("{}?{query}", widgets("v2"))).await;
            if code == 429 {
                assert_eq!(answer.header("retry-after"), "1", "{query}");
            }
            answer.expect_error(code, reason, told);
        }
        cluster.get(&path("v2", "w000")).await.expect_error(500, "", why);
        let _ = cluster.get(&widgets("v1")).await.expect(200);
        hook.set(Manner::Converts(convert));
        assert_eq!(hues(&cluster.get(&widgets("v2")).await.expect(200).json()), ["red", "green", "red"]);
        cluster.stop().await;
    });
}

/// A webhook that converts the first object that it is asked about, and forgets the others.
#[test]
fn webhooks_that_take_one_object_at_a_time_work() {
    pintle_testkit::run(async {
        let (cluster, hook) = serving().await;
        make(&cluster, 3).await;
        hook.set(Manner::First(convert));
        assert_eq!(hues(&cluster.get(&widgets("v2")).await.expect(200).json()), ["red", "green", "red"]);
        let counts: Vec<usize> = hook.asked().into_iter().map(|(count, _)| count).collect();
        assert_eq!(counts, [3, 1, 1, 1]);
        paint(&cluster, &[0, 2], "green").await;
        hook.set(Manner::Small(convert));
        assert_eq!(hues(&cluster.get(&widgets("v2")).await.expect(200).json()), ["green", "green", "green"]);
        let counts: Vec<usize> = hook.asked().into_iter().map(|(count, _)| count).collect();
        assert_eq!(counts, [2, 1, 1]);
        // Whose fault it is comes out.
        paint(&cluster, &[0, 1, 2], "blue").await;
        hook.set(Manner::Converts(|object, desired| {
            let mut converted = convert(object, desired);
            if converted["metadata"]["name"] == "w001" {
                converted["kind"] = json!("Gadget");
            }
            converted
        }));
        let why = "conversion webhook for example.com/v1, Kind=Widget returned invalid object at index 0: invalid kind (expected Widget, received Gadget)";
        cluster.get(&format!("{}?limit=9", widgets("v2"))).await.expect_error(500, "", why);
        cluster.stop().await;
    });
}
