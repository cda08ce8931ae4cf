//! Lists in all formats and watches at a version that is not the storage version.

use pintle_integration::Cluster;
use pintle_versions::Minor;
use serde_json::{Value, json};

use super::webhook::WebhookBehavior;
use super::{
    cluster_of_version_with_webhook, cluster_with_webhook, convert, widget_path, widget_v1, widget_v2, widgets_path,
};

/// Creates the widgets `w000`, `w001`, ....
async fn create_widgets(cluster: &Cluster, count: usize) {
    let created = (0..count).map(|i| {
        let colour = ["red", "green"][i % 2];
        async move {
            cluster.post(&widgets_path("v1"), widget_v1(&format!("w{i:03}"), colour).to_string()).await.expect(201)
        }
    });
    futures_util::future::join_all(created).await;
}

/// Changes the colour of some widgets.
async fn set_colour(cluster: &Cluster, numbers: &[usize], colour: &str) {
    for i in numbers {
        let change = json!({"spec": {"colour": colour}}).to_string();
        let _ = cluster.patch(&widget_path("v1", &format!("w{i:03}")), "merge", change).await.expect(200);
    }
}

fn hues(list: &Value) -> Vec<&str> {
    list["items"].as_array().expect("items").iter().map(|item| item["spec"]["hue"].as_str().unwrap_or("?")).collect()
}

#[test]
fn lists_are_converted_in_batches_on_one_connection() {
    pintle_integration::run(async {
        let (cluster, webhook) = cluster_with_webhook().await;
        create_widgets(&cluster, 400).await;
        let list = cluster.get(&widgets_path("v2")).await.expect(200).json();
        assert_eq!(hues(&list).len(), 400);
        assert_eq!(hues(&list)[..2], ["red", "green"]);
        assert_eq!(list["apiVersion"], "example.com/v2");
        let batches: Vec<usize> = webhook.take_requests().into_iter().map(|(count, _)| count).collect();
        assert_eq!((batches.len(), batches.iter().sum::<usize>()), (4, 400), "{batches:?}");
        assert_eq!(webhook.connection_count(), 1);
        // A second list converts only the changed objects.
        set_colour(&cluster, &[0, 1, 399], "blue").await;
        let list = cluster.get(&widgets_path("v2")).await.expect(200).json();
        assert_eq!(hues(&list)[..3], ["blue", "blue", "red"]);
        assert_eq!(webhook.take_requests(), [(3, "example.com/v2".to_owned())]);
        // Large lists are compressed as usual.
        let compressed =
            cluster.request("GET", &widgets_path("v2")).header("accept-encoding", "gzip").send().await.expect(200);
        assert_eq!(compressed.header("content-encoding"), "gzip");
        // A chunk, or a list with a name selector, converts only the returned objects.
        set_colour(&cluster, &[0, 1, 7], "red").await;
        let chunk = cluster.get(&format!("{}?limit=2", widgets_path("v2"))).await.expect(200).json();
        assert_eq!(hues(&chunk), ["red", "red"]);
        assert_eq!(webhook.take_requests(), [(2, "example.com/v2".to_owned())]);
        let one = cluster.get(&format!("{}?fieldSelector=metadata.name%3Dw007", widgets_path("v2"))).await.expect(200);
        assert_eq!(hues(&one.json()), ["red"]);
        assert_eq!(webhook.take_requests(), [(1, "example.com/v2".to_owned())]);
        // A get always calls the webhook.
        let _ = cluster.get(&widget_path("v2", "w007")).await.expect(200);
        assert_eq!(webhook.take_requests(), [(1, "example.com/v2".to_owned())]);
        // A list at the storage version does not call the webhook.
        assert_eq!(
            cluster.get(&widgets_path("v1")).await.expect(200).json()["items"].as_array().map(Vec::len),
            Some(400)
        );
        assert_eq!(webhook.take_requests(), []);
        cluster.stop().await;
    });
}

#[test]
fn all_response_formats_show_converted_objects() {
    pintle_integration::run(async {
        let (cluster, _webhook) = cluster_with_webhook().await;
        create_widgets(&cluster, 3).await;
        let as_table = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let get = |path: String, accept: &'static str| {
            let cluster = &cluster;
            async move { cluster.request("GET", &path).header("accept", accept).send().await.expect(200) }
        };
        let table = get(widgets_path("v2"), as_table).await.json();
        let columns: Vec<_> =
            table["columnDefinitions"].as_array().expect("columns").iter().map(|c| &c["name"]).collect();
        assert_eq!(columns, ["Name", "hue"]);
        assert_eq!(table["rows"][1]["cells"], json!(["w001", "green"]));
        let table = get(widget_path("v2", "w000"), as_table).await.json();
        assert_eq!(table["rows"][0]["cells"], json!(["w000", "red"]));
        let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let list = get(widgets_path("v2"), partial).await.json();
        assert_eq!(list["items"][2]["metadata"]["labels"]["made"], "v2");
        assert!(get(widgets_path("v2"), "application/yaml").await.text().contains("hue: green"));
        let pretty = cluster.get(&format!("{}?pretty=true", widgets_path("v2"))).await.expect(200);
        assert_eq!(hues(&pretty.json()), ["red", "green", "red"]);
        cluster.stop().await;
    });
}

#[test]
fn label_selectors_match_converted_labels() {
    pintle_integration::run(async {
        let (cluster, _webhook) = cluster_with_webhook().await;
        create_widgets(&cluster, 5).await;
        for (version, created, count) in [("v2", "v2", 5), ("v2", "v1", 0), ("v1", "v2", 0)] {
            for limit in ["", "&limit=2"] {
                let list =
                    cluster.get(&format!("{}?labelSelector=made%3D{created}{limit}", widgets_path(version))).await;
                let found = list.expect(200).json()["items"].as_array().map_or(0, Vec::len);
                assert_eq!(found, if limit.is_empty() { count } else { count.min(2) }, "{version} {created} {limit}");
            }
        }
        let selected = format!("{}?watch=1&resourceVersion=0&labelSelector=made%3Dv2", widgets_path("v2"));
        let mut watch = cluster.watch(&selected).await;
        for i in 0..5 {
            watch.expect("ADDED", &format!("w00{i}")).await;
        }
        let _ = cluster.delete(&widget_path("v1", "w003")).await.expect(200);
        assert_eq!(watch.expect("DELETED", "w003").await["spec"]["hue"], "green");
        cluster.stop().await;
    });
}

#[test]
fn field_selectors_match_converted_fields() {
    pintle_integration::run(async {
        let (cluster, _webhook) = cluster_with_webhook().await;
        create_widgets(&cluster, 5).await;
        for (version, selector, expect) in [
            ("v1", "spec.colour%3Dgreen", &["w001", "w003"][..]),
            ("v2", "spec.hue%3Dgreen", &["w001", "w003"]),
            ("v2", "spec.hue!%3Dgreen", &["w000", "w002", "w004"]),
            ("v2", "spec.hue%3Dgreen&limit=1", &["w001"]),
        ] {
            let list =
                cluster.get(&format!("{}?fieldSelector={selector}", widgets_path(version))).await.expect(200).json();
            let items = list["items"].as_array().expect("items");
            let names: Vec<_> = items.iter().map(|item| &item["metadata"]["name"]).collect();
            assert_eq!(names, expect, "{version} {selector}");
        }
        let selected = format!("{}?watch=1&resourceVersion=0&fieldSelector=spec.hue%3Dgreen", widgets_path("v2"));
        let mut watch = cluster.watch(&selected).await;
        watch.expect("ADDED", "w001").await;
        watch.expect("ADDED", "w003").await;
        let set_colour = async |colour: &str| {
            let body = json!({"spec": {"colour": colour}}).to_string();
            let _ = cluster.patch(&widget_path("v1", "w003"), "merge", body).await.expect(200);
        };
        set_colour("blue").await;
        watch.expect("DELETED", "w003").await;
        set_colour("green").await;
        watch.expect("ADDED", "w003").await;
        let deleted =
            cluster.delete(&format!("{}?fieldSelector=spec.hue%3Dgreen", widgets_path("v2"))).await.expect(200);
        assert_eq!(deleted.json()["items"].as_array().map(Vec::len), Some(2));
        cluster.stop().await;
    });
}

#[test]
fn watches_convert_every_change() {
    pintle_integration::run(async {
        let (cluster, webhook) = cluster_with_webhook().await;
        create_widgets(&cluster, 2).await;
        let mut watch = cluster.watch(&format!("{}?watch=1&resourceVersion=0", widgets_path("v2"))).await;
        let mut stored = cluster.watch(&format!("{}?watch=1&resourceVersion=0", widgets_path("v1"))).await;
        for i in 0..2 {
            assert_eq!(watch.expect("ADDED", &format!("w00{i}")).await["apiVersion"], "example.com/v2");
            assert_eq!(stored.expect("ADDED", &format!("w00{i}")).await["apiVersion"], "example.com/v1");
        }
        let _ = cluster.post(&widgets_path("v2"), widget_v2("x", "blue").to_string()).await.expect(201);
        let _ = cluster.patch(&widget_path("v1", "x"), "merge", r#"{"spec": {"colour": "red"}}"#).await.expect(200);
        let _ = cluster.delete(&widget_path("v1", "x")).await.expect(200);
        for (kind, colour) in [("ADDED", "blue"), ("MODIFIED", "red"), ("DELETED", "red")] {
            let shown = watch.expect(kind, "x").await;
            assert_eq!((&shown["spec"]["hue"], &shown["apiVersion"]), (&json!(colour), &json!("example.com/v2")));
            let event = stored.expect(kind, "x").await;
            assert_eq!(event["spec"]["colour"], colour);
            assert_eq!(event["metadata"]["resourceVersion"], shown["metadata"]["resourceVersion"]);
        }
        // Many watches share one conversion.
        let mut many = Vec::new();
        for _ in 0..20 {
            let mut watch = cluster.watch(&format!("{}?watch=1&resourceVersion=0", widgets_path("v2"))).await;
            watch.expect("ADDED", "w000").await;
            watch.expect("ADDED", "w001").await;
            many.push(watch);
        }
        let _ = webhook.take_requests();
        set_colour(&cluster, &[1], "red").await;
        for watch in &mut many {
            assert_eq!(watch.expect("MODIFIED", "w001").await["spec"]["hue"], "red");
        }
        assert_eq!(webhook.take_requests(), [(1, "example.com/v2".to_owned())]);
        watch.expect("MODIFIED", "w001").await;
        stored.expect("MODIFIED", "w001").await;
        drop(many);
        // A watch whose event cannot be converted ends. Watches at the storage version continue.
        webhook.set_behavior(WebhookBehavior::RespondWithHeader(500, "Content-Type: text/plain", "broken"));
        let _ = cluster.patch(&widget_path("v1", "w000"), "merge", r#"{"spec": {"colour": "blue"}}"#).await.expect(200);
        assert_eq!(watch.next().await, None);
        stored.expect("MODIFIED", "w000").await;
        cluster.stop().await;
    });
}

/// Since 1.37, objects that a webhook cannot convert are corrupt objects, which a client may delete.
#[test]
fn since_1_37_objects_that_cannot_be_converted_are_corrupt() {
    const UNSAFE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential=true";
    pintle_integration::run(async {
        let (cluster, webhook) = cluster_of_version_with_webhook(Minor::new(37)).await;
        create_widgets(&cluster, 3).await;
        let first = cluster.get(&widget_path("v1", "w000")).await.expect(200).json();
        let revision = first["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        webhook.set_behavior(WebhookBehavior::RespondWithHeader(500, "Content-Type: text/plain", "broken"));
        let why = "conversion webhook for example.com/v1, Kind=Widget failed: an error on the server (\"broken\") has prevented the request from succeeding";
        let undecodable = format!("object not decodable revision={revision}: {why}");
        let corrupt = |prefix: &str| {
            let key = format!("{prefix}/example.com/widgets/default/w000");
            format!(
                "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {undecodable}"
            )
        };
        let failed = "failed to read one or more widgets.example.com from the storage";
        let list_error = format!("{failed}: {} (and 2 more)", corrupt("/registry"));
        let unready = format!("storage is (re)initializing: failed to list <unspecified>: {list_error}");
        for (query, code, reason, message) in [
            ("", 429, "TooManyRequests", &unready),
            ("watch=1", 429, "TooManyRequests", &unready),
            ("limit=5", 500, "StorageReadError", &list_error),
        ] {
            cluster.get(&format!("{}?{query}", widgets_path("v2"))).await.expect_error(code, reason, message);
        }
        let path = widget_path("v2", "w000");
        let internal = format!("Internal error occurred: {}", corrupt(""));
        cluster.get(&path).await.expect_error(500, "InternalError", &internal);
        cluster.delete(&path).await.expect_error(500, "InternalError", &internal);
        cluster.patch(&path, "merge", r#"{"spec": {"hue": "blue"}}"#).await.expect_error(500, "", &undecodable);
        // At the stored version, the object can be decoded.
        let _ = cluster.delete(&format!("{}?{UNSAFE}", widget_path("v1", "w000"))).await.expect(409);
        let _ = cluster.delete(&format!("{path}?{UNSAFE}&dryRun=All")).await.expect(200);
        let _ = cluster.get(&widget_path("v1", "w000")).await.expect(200);
        let _ = cluster.delete(&format!("{path}?{UNSAFE}")).await.expect(200);
        let _ = cluster.delete(&format!("{path}?{UNSAFE}")).await.expect(404);
        webhook.set_behavior(WebhookBehavior::ConvertAll(convert));
        assert_eq!(hues(&cluster.get(&widgets_path("v2")).await.expect(200).json()), ["green", "red"]);
        cluster.stop().await;
    });
}

#[test]
fn lists_fail_while_the_webhook_fails_and_recover_after() {
    pintle_integration::run(async {
        let (cluster, webhook) = cluster_with_webhook().await;
        create_widgets(&cluster, 3).await;
        webhook.set_behavior(WebhookBehavior::RespondWithHeader(500, "Content-Type: text/plain", "broken"));
        let why = "conversion webhook for example.com/v1, Kind=Widget failed: an error on the server (\"broken\") has prevented the request from succeeding";
        let unready = format!("storage is (re)initializing: failed to list example.com/v2, Kind=Widget: {why}");
        // Upstream responds with 429 if the request uses the watch cache, which cannot be initialized, and with 500 if
        // it reads from etcd.
        for (query, code, reason, message) in [
            ("", 429, "TooManyRequests", &*unready),
            ("resourceVersion=0", 429, "TooManyRequests", &unready),
            ("limit=2&labelSelector=made%3Dv2", 429, "TooManyRequests", &unready),
            ("watch=1", 429, "TooManyRequests", &unready),
            ("watch=1&resourceVersion=0", 429, "TooManyRequests", &unready),
            ("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 429, "TooManyRequests", &unready),
            ("limit=2", 500, "", why),
        ] {
            let response = cluster.get(&format!("{}?{query}", widgets_path("v2"))).await;
            if code == 429 {
                assert_eq!(response.header("retry-after"), "1", "{query}");
            }
            response.expect_error(code, reason, message);
        }
        cluster.get(&widget_path("v2", "w000")).await.expect_error(500, "", why);
        let _ = cluster.get(&widgets_path("v1")).await.expect(200);
        webhook.set_behavior(WebhookBehavior::ConvertAll(convert));
        assert_eq!(hues(&cluster.get(&widgets_path("v2")).await.expect(200).json()), ["red", "green", "red"]);
        cluster.stop().await;
    });
}

#[test]
fn a_webhook_that_converts_one_object_at_a_time_is_called_for_each() {
    pintle_integration::run(async {
        let (cluster, webhook) = cluster_with_webhook().await;
        create_widgets(&cluster, 3).await;
        webhook.set_behavior(WebhookBehavior::ConvertFirst(convert));
        assert_eq!(hues(&cluster.get(&widgets_path("v2")).await.expect(200).json()), ["red", "green", "red"]);
        let counts: Vec<usize> = webhook.take_requests().into_iter().map(|(count, _)| count).collect();
        assert_eq!(counts, [3, 1, 1, 1]);
        set_colour(&cluster, &[0, 2], "green").await;
        webhook.set_behavior(WebhookBehavior::ConvertSingle(convert));
        assert_eq!(hues(&cluster.get(&widgets_path("v2")).await.expect(200).json()), ["green", "green", "green"]);
        let counts: Vec<usize> = webhook.take_requests().into_iter().map(|(count, _)| count).collect();
        assert_eq!(counts, [2, 1, 1]);
        // The error names the invalid object.
        set_colour(&cluster, &[0, 1, 2], "blue").await;
        webhook.set_behavior(WebhookBehavior::ConvertAll(|object, desired| {
            let mut converted = convert(object, desired);
            if converted["metadata"]["name"] == "w001" {
                converted["kind"] = json!("Gadget");
            }
            converted
        }));
        let why = "conversion webhook for example.com/v1, Kind=Widget returned invalid object at index 0: invalid kind (expected Widget, received Gadget)";
        cluster.get(&format!("{}?limit=9", widgets_path("v2"))).await.expect_error(500, "", why);
        cluster.stop().await;
    });
}
