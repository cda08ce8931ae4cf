//! The option `shardSelector` (KEP-5866): parts of a collection in lists, watches and deletions, by ranges of hashes.

use pintle_gates::FeatureGatesFlag;
use pintle_integration::{Cluster, Options, run};
use serde_json::{Value, json};

use super::CONFIGMAPS;

const LOWER: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
const UPPER: &str = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";

/// A cluster with the feature and some objects.
async fn cluster(gate: &str) -> Cluster {
    let mut flag = FeatureGatesFlag::default();
    flag.add(gate);
    let (gates, _) = flag.gates(Default::default()).expect("gates");
    let cluster = super::cluster(Options { gates, ..Options::default() }).await;
    for n in 0..24 {
        let object = json!({"metadata": {"name": format!("m{n:02}"), "labels": {"odd": (n % 2 == 1).to_string()}}});
        let _ = cluster.post(CONFIGMAPS, object.to_string()).await.expect(201);
    }
    cluster
}

fn query(path: &str, selector: &str, rest: &str) -> String {
    let escaped: String = selector.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("{path}?shardSelector={escaped}{rest}")
}

/// The hash that decides to which part an object belongs (FNV-1a).
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn is_upper(object: &Value) -> bool {
    hash(object["metadata"]["uid"].as_str().expect("a uid")) >= 1 << 63
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}

async fn list(cluster: &Cluster, path: &str) -> Value {
    cluster.get(path).await.expect(200).json()
}

#[test]
fn lists_have_the_objects_of_the_part() {
    run(async {
        let cluster = cluster("ShardedListAndWatch=true").await;
        let all = list(&cluster, CONFIGMAPS).await;
        assert_eq!(all["metadata"].get("shardInfo"), None);
        let of_part = |upper: bool| -> Vec<String> {
            let items = all["items"].as_array().expect("items").iter().filter(|item| is_upper(item) == upper);
            names(&json!({"items": items.collect::<Vec<_>>()}))
        };
        for (selector, upper) in [(LOWER, false), (UPPER, true)] {
            let part = list(&cluster, &query(CONFIGMAPS, selector, "")).await;
            assert_eq!(names(&part), of_part(upper));
            assert_eq!(part["metadata"]["shardInfo"], json!({"selector": selector}));
            // Labels select objects within the part.
            let odd = list(&cluster, &query(CONFIGMAPS, selector, "&labelSelector=odd%3Dtrue")).await;
            let expect: Vec<String> =
                of_part(upper).into_iter().filter(|name| name.ends_with(['1', '3', '5', '7', '9'])).collect();
            assert_eq!(names(&odd), expect);
            // A part can be listed in chunks.
            let (mut found, mut token) = (Vec::new(), String::new());
            loop {
                let rest = format!("&limit=2&continue={token}");
                let chunk = list(&cluster, &query(CONFIGMAPS, selector, &rest)).await;
                assert_eq!(chunk["metadata"]["shardInfo"], json!({"selector": selector}));
                found.extend(names(&chunk));
                token = chunk["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
                if token.is_empty() {
                    break;
                }
                assert_eq!(names(&chunk).len(), 2);
            }
            assert_eq!(found, of_part(upper));
        }
        // The remaining item count includes objects of other parts.
        let chunk = list(&cluster, &query(CONFIGMAPS, LOWER, "&limit=2")).await;
        let total = names(&all).len();
        assert_eq!(chunk["metadata"]["remainingItemCount"], json!(total - 2));
        let both = format!("  {LOWER}||{UPPER} ");
        let whole = list(&cluster, &query(CONFIGMAPS, &both, "")).await;
        assert_eq!(names(&whole), names(&all));
        assert_eq!(whole["metadata"]["shardInfo"], json!({"selector": format!("{LOWER} || {UPPER}")}));
        // A part can be selected by namespace.
        let namespace = hash("n");
        let range = format!("shardRange(object.metadata.namespace, '{namespace:#018x}', '{:#018x}')", namespace + 1);
        assert_eq!(names(&list(&cluster, &query(CONFIGMAPS, &range, "")).await), names(&all));
        let other =
            format!("shardRange(object.metadata.namespace, '{:#018x}', '{:#018x}')", namespace + 1, namespace + 2);
        assert_eq!(names(&list(&cluster, &query(CONFIGMAPS, &other, "")).await), Vec::<String>::new());
    });
}

#[test]
fn only_whole_lists_of_built_in_kinds_repeat_the_selector() {
    run(async {
        let cluster = cluster("ShardedListAndWatch=true").await;
        let path = query(CONFIGMAPS, LOWER, "");
        let of = |accept: &'static str| cluster.request("GET", &path).header("accept", accept).send();
        let yaml = of("application/yaml").await.expect(200).text();
        assert!(yaml.contains("  shardInfo:\n    selector: shardRange(object.metadata.uid"), "{yaml}");
        let protobuf = of("application/vnd.kubernetes.protobuf").await.expect(200);
        assert!(String::from_utf8_lossy(&protobuf.body).contains(LOWER));
        let expect = names(&list(&cluster, &path).await);
        for target in ["Table", "PartialObjectMetadataList"] {
            let accept = format!("application/json;as={target};v=v1;g=meta.k8s.io");
            let transformed = cluster.request("GET", &path).header("accept", &accept).send().await.expect(200).json();
            assert_eq!(transformed["metadata"].get("shardInfo"), None, "{target}");
            let count =
                ["rows", "items"].iter().find_map(|field| transformed[*field].as_array()).expect("objects").len();
            assert_eq!(count, expect.len(), "{target}");
        }
    });
}

#[test]
fn custom_resources_have_parts_too() {
    run(async {
        let cluster = cluster("ShardedListAndWatch=true").await;
        let schema = json!({"type": "object"});
        let crd = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let _ = cluster.post(crds, crd.to_string()).await.expect(201);
        let widgets = "/apis/example.com/v1/namespaces/n/widgets";
        cluster.get_until_status(widgets, 200).await;
        let mut expect = [Vec::new(), Vec::new()];
        for n in 0..12 {
            let name = format!("w{n:02}");
            let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
            let created = cluster.post(widgets, widget.to_string()).await.expect(201).json();
            expect[usize::from(is_upper(&created))].push(name);
        }
        for (selector, expect) in [LOWER, UPPER].into_iter().zip(expect) {
            let part = list(&cluster, &query(widgets, selector, "")).await;
            assert_eq!(names(&part), expect);
            // Upstream's unstructured lists have no field for `shardInfo`.
            assert_eq!(part["metadata"].get("shardInfo"), None);
        }
    });
}

#[test]
fn watches_have_the_events_of_the_part() {
    run(async {
        let cluster = cluster("ShardedListAndWatch=true").await;
        let mut lower = cluster.watch(&query(CONFIGMAPS, LOWER, "&watch=1")).await;
        let mut upper = cluster.watch(&query(CONFIGMAPS, UPPER, "&watch=1")).await;
        let before = list(&cluster, CONFIGMAPS).await;
        for item in before["items"].as_array().expect("items") {
            let watch = if is_upper(item) { &mut upper } else { &mut lower };
            let _ = watch.expect("ADDED", item["metadata"]["name"].as_str().expect("a name")).await;
        }
        for n in 0..8 {
            let name = format!("new{n}");
            let object = json!({"metadata": {"name": name}}).to_string();
            let created = cluster.post(CONFIGMAPS, object).await.expect(201).json();
            let watch = if is_upper(&created) { &mut upper } else { &mut lower };
            let _ = watch.expect("ADDED", &name).await;
            let path = format!("{CONFIGMAPS}/{name}");
            let patch = r#"{"data": {"k": "v"}}"#;
            let _ = cluster.patch(&path, "merge", patch).await.expect(200);
            let _ = watch.expect("MODIFIED", &name).await;
            let _ = cluster.delete(&path).await.expect(200);
            let _ = watch.expect("DELETED", &name).await;
        }
        let metrics = cluster.get("/metrics").await.expect(200).text();
        assert!(metrics.contains("apiserver_watch_shards_total{group=\"\",resource=\"configmaps\"} 2\n"), "{metrics}");
        // Each change counts twice: for the object before the change and for the object after it.
        expect_filtered_events(&cluster, names(&before).len() + 8 * 4).await;
    });
}

/// Waits until the watches have filtered out this number of events. One watch may filter out the last event after the
/// other watch's client has received it.
async fn expect_filtered_events(cluster: &Cluster, expect: usize) {
    let expect = format!("apiserver_watch_filtered_events_total{{group=\"\",resource=\"configmaps\"}} {expect}\n");
    cluster.get_until("/metrics", |metrics| metrics.text().contains(&expect)).await;
}

#[test]
fn deletions_of_collections_leave_the_other_parts() {
    run(async {
        let cluster = cluster("ShardedListAndWatch=true").await;
        let upper = names(&list(&cluster, &query(CONFIGMAPS, UPPER, "")).await);
        let deleted = cluster.delete(&query(CONFIGMAPS, LOWER, "")).await.expect(200).json();
        assert_eq!(deleted["metadata"]["shardInfo"], json!({"selector": LOWER}));
        assert_eq!(names(&list(&cluster, CONFIGMAPS).await), upper);
    });
}

#[test]
fn malformed_selectors_fail_as_upstream() {
    run(async {
        let cluster = cluster("ShardedListAndWatch=true").await;
        let message = "invalid shard selector: unsupported function \"f\"; only shardRange() and || are allowed";
        for path in [query(CONFIGMAPS, "f()", ""), query(CONFIGMAPS, "f()", "&watch=1")] {
            cluster.get(&path).await.expect_error(500, "", message);
        }
        cluster.delete(&query(CONFIGMAPS, "f()", "")).await.expect_error(500, "", message);
        let empty =
            "invalid shard selector: empty shard selector is not allowed; omit the parameter for unfiltered lists";
        cluster.get(&query(CONFIGMAPS, " ", "")).await.expect_error(500, "", empty);
        assert_eq!(names(&list(&cluster, &query(CONFIGMAPS, "", "")).await).len(), 24);
    });
}

#[test]
fn the_option_is_ignored_without_the_feature() {
    run(async {
        let cluster = cluster("ShardedListAndWatch=false").await;
        for selector in [LOWER, "f()"] {
            let all = list(&cluster, &query(CONFIGMAPS, selector, "")).await;
            assert_eq!(names(&all).len(), 24);
            assert_eq!(all["metadata"].get("shardInfo"), None);
        }
        assert!(!cluster.get("/metrics").await.expect(200).text().contains("apiserver_watch_shards_total"));
    });
}
