//! Many write while many watch. Whatever the order, a watch replayed onto the list that it started from gives the next
//! list, its revisions only grow, and nothing is missed or told twice; one that does not read holds up nobody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_testkit::{Cluster, Options};
use serde_json::{Value, json};

const WRITERS: u64 = 6;
const WRITES: u64 = 150;
const NAMESPACES: [&str; 2] = ["n", "o"];
const NAMES: u64 = 8;

/// Numbers that are the same in every run of a writer: what differs is how writers meet.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("no resourceVersion: {object}"))
}

fn key(object: &Value) -> String {
    let part = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", part("namespace"), part("name"))
}

fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

async fn cluster(options: Options) -> Arc<Cluster> {
    let cluster = Cluster::with_options(options).await;
    for namespace in NAMESPACES {
        let body = json!({"metadata": {"name": namespace}});
        let _ = cluster.post("/api/v1/namespaces", body.to_string()).await.expect(201);
    }
    Arc::new(cluster)
}

/// What was acknowledged: the revisions of creations and updates, and how many deletions.
#[derive(Default)]
struct Written {
    revisions: Vec<u64>,
    deletions: usize,
}

async fn write(cluster: Arc<Cluster>, writer: u64) -> Written {
    let mut dice = Dice(writer);
    let mut written = Written::default();
    for i in 0..WRITES {
        let path = collection(NAMESPACES[dice.roll(2) as usize]);
        let name = format!("m{}", dice.roll(NAMES));
        let pick = if dice.roll(2) == 0 { "yes" } else { "no" };
        let object = json!({
            "metadata": {"name": name, "labels": {"pick": pick}}, "data": {"by": format!("{writer}-{i}")},
        });
        let answer = match dice.roll(5) {
            0 => cluster.delete(&format!("{path}/{name}")).await,
            1 | 2 => cluster.post(&path, object.to_string()).await,
            3 => cluster.put(&format!("{path}/{name}"), object.to_string()).await,
            _ => cluster.patch(&format!("{path}/{name}"), "merge", object.to_string()).await,
        };
        let code = answer.status.as_u16();
        match (code, answer.json()["kind"].as_str()) {
            (200 | 201, Some("ConfigMap")) => written.revisions.push(revision(&answer.json())),
            (200, Some("Status")) => written.deletions += 1,
            (404 | 409, _) => {}
            _ => panic!("{code}: {}", answer.text()),
        }
    }
    written
}

/// One way to look at the objects: a path, a selector, and how many of the last objects it shows.
struct View {
    path: String,
    query: &'static str,
    ends: usize,
}

fn views() -> Vec<View> {
    let all = "/api/v1/configmaps".to_owned();
    vec![
        View { path: all.clone(), query: "", ends: 2 },
        View { path: collection("n"), query: "", ends: 1 },
        View { path: collection("o"), query: "&labelSelector=pick%3Dyes", ends: 1 },
        View { path: all.clone(), query: "&labelSelector=pick%3Dyes", ends: 2 },
        View { path: all, query: "&fieldSelector=metadata.name%3Dm0", ends: 2 },
        View { path: collection("n"), query: "&fieldSelector=metadata.name%3Dm0", ends: 1 },
    ]
}

/// Where a watcher takes the state from that it goes on from.
#[derive(Clone, Copy, Debug)]
enum Begin {
    List,
    CachedList,
    Stream,
}

/// Lists, watches until the end, and gives the state then and every event.
async fn follow(cluster: Arc<Cluster>, view: View, begin: Begin) -> (View, BTreeMap<String, u64>, Vec<(String, u64)>) {
    let View { path, query, ends } = &view;
    let what = format!("{path}?{query} {begin:?}");
    let mut state = BTreeMap::new();
    let mut last = 0;
    let mut left = *ends;
    let ended = |object: &Value| usize::from(object["metadata"]["labels"]["end"] == "yes");
    let mut watch = match begin {
        Begin::Stream => {
            let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
            let mut watch = cluster.watch(&format!("{path}?watch=1&{stream}{query}")).await;
            loop {
                let event = watch.next().await.expect("an event");
                let object = &event["object"];
                if event["type"] == "BOOKMARK" {
                    last = revision(object);
                    break watch;
                }
                assert_eq!(event["type"], "ADDED", "{what}: {event}");
                left -= ended(object);
                assert!(state.insert(key(object), revision(object)).is_none(), "{what}: twice: {event}");
            }
        }
        Begin::List | Begin::CachedList => {
            let at = if matches!(begin, Begin::List) { "" } else { "resourceVersion=0" };
            let list = cluster.get(&format!("{path}?{at}{query}")).await.expect(200).json();
            for object in list["items"].as_array().into_iter().flatten() {
                left -= ended(object);
                state.insert(key(object), revision(object));
            }
            last = last.max(revision(&list));
            cluster.watch(&format!("{path}?watch=1&resourceVersion={last}{query}")).await
        }
    };
    assert!(state.values().all(|r| *r <= last), "{what}: {state:?} at {last}");
    let mut events = Vec::new();
    while left > 0 {
        let event = watch.next().await.unwrap_or_else(|| panic!("{what}: the stream ended"));
        let object = &event["object"];
        let (kind, key, at) = (event["type"].as_str().unwrap_or_default(), key(object), revision(object));
        assert!(at > last, "{what}: {at} after {last}: {event}");
        last = at;
        let known = match kind {
            "DELETED" => state.remove(&key),
            _ => state.insert(key, at),
        };
        assert_eq!(known.is_none(), kind == "ADDED", "{what}: {event}");
        left -= ended(object);
        events.push((kind.to_owned(), at));
    }
    (view, state, events)
}

#[test]
fn a_watch_replayed_onto_a_list_is_the_next_list() {
    pintle_testkit::run(async {
        let cluster = cluster(Options::default()).await;
        let begins = [Begin::List, Begin::CachedList, Begin::Stream];
        let spawn = |begin: Begin| {
            views().into_iter().map(|view| tokio::spawn(follow(cluster.clone(), view, begin))).collect::<Vec<_>>()
        };
        // The first watchers see everything: they are there before anything is written.
        let mut first = cluster.watch("/api/v1/configmaps?watch=1").await;
        let mut watchers: Vec<_> = begins.iter().flat_map(|begin| spawn(*begin)).collect();
        let mut writers: Vec<_> = (0..WRITERS).map(|w| tokio::spawn(write(cluster.clone(), w))).collect();
        // More come in the middle.
        let mut written = writers.remove(0).await.expect("a writer");
        watchers.extend(begins.iter().flat_map(|begin| spawn(*begin)));
        for writer in writers {
            let more = writer.await.expect("a writer");
            written.revisions.extend(more.revisions);
            written.deletions += more.deletions;
        }
        for namespace in NAMESPACES {
            let path = collection(namespace);
            if cluster.delete(&format!("{path}/m0")).await.status == 200 {
                written.deletions += 1;
            }
            let end = json!({"metadata": {"name": "m0", "labels": {"pick": "yes", "end": "yes"}}});
            written.revisions.push(revision(&cluster.post(&path, end.to_string()).await.expect(201).json()));
        }
        written.revisions.sort_unstable();

        let mut ends = 0;
        let mut told = Vec::new();
        let mut deletions = 0;
        while ends < 2 {
            let event = first.next().await.expect("an event");
            match event["type"].as_str() {
                Some("DELETED") => deletions += 1,
                _ => told.push(revision(&event["object"])),
            }
            ends += usize::from(event["object"]["metadata"]["labels"]["end"] == "yes");
        }
        assert_eq!(told, written.revisions);
        assert_eq!(deletions, written.deletions);

        for watcher in watchers {
            let (view, state, events) = watcher.await.expect("a watcher");
            let list = cluster.get(&format!("{}?{}", view.path, view.query)).await.expect(200).json();
            let items = list["items"].as_array().into_iter().flatten();
            let expect: BTreeMap<String, u64> = items.map(|object| (key(object), revision(object))).collect();
            assert_eq!(state, expect, "{}?{} after {} events", view.path, view.query, events.len());
        }
    });
}

#[test]
fn a_reader_that_does_not_read_holds_up_nobody() {
    pintle_testkit::run(async {
        let cluster = cluster(Options::default()).await;
        let path = collection("n");
        let mut slow = cluster.watch(&format!("{path}?watch=1")).await;
        let mut quick = cluster.watch(&format!("{path}?watch=1")).await;
        let text = "x".repeat(64 << 10);
        // Far more than what connections and queues hold.
        let changes = 300;
        let mut longest = Duration::ZERO;
        let mut revisions = Vec::new();
        for i in 0..changes {
            let object = json!({"metadata": {"name": "a"}, "data": {"i": i.to_string(), "text": text}}).to_string();
            let started = std::time::Instant::now();
            let answer = match i {
                0 => cluster.post(&path, object).await.expect(201),
                _ => cluster.put(&format!("{path}/a"), object).await.expect(200),
            };
            let event = quick.expect(if i == 0 { "ADDED" } else { "MODIFIED" }, "a").await;
            longest = longest.max(started.elapsed());
            assert_eq!(revision(&event), revision(&answer.json()));
            revisions.push(revision(&event));
        }
        assert!(longest < Duration::from_secs(5), "{longest:?}");
        // The slow one has missed nothing once it reads.
        for expect in revisions {
            let event = slow.next().await.expect("an event");
            assert_eq!(revision(&event["object"]), expect);
        }
    });
}

#[test]
fn a_reader_that_falls_out_of_the_window_is_told() {
    pintle_testkit::run(async {
        let mut options = Options::default();
        options.window.bytes = 1 << 20;
        let cluster = cluster(options).await;
        let path = collection("n");
        let mut slow = cluster.watch(&format!("{path}?watch=1")).await;
        let text = "x".repeat(20 << 10);
        // More than connections and queues hold, and far more than the window does.
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (cluster, path, text) = (cluster.clone(), path.clone(), text.clone());
                tokio::spawn(async move {
                    for i in 0..250 {
                        let name = format!("m{writer}");
                        let object = json!({"metadata": {"name": name}, "data": {"i": i.to_string(), "text": text}});
                        let answer = match i {
                            0 => cluster.post(&path, object.to_string()).await,
                            _ => cluster.put(&format!("{path}/{name}"), object.to_string()).await,
                        };
                        assert!(answer.status.is_success(), "{}", answer.text());
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.expect("a writer");
        }
        // First what was on its way without a gap, then that something is missing, then the end.
        let mut events = Vec::new();
        while let Some(event) = slow.next().await {
            events.push(event);
        }
        let error = events.pop().expect("an error");
        assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
        assert_eq!(error["object"]["reason"], "Expired");
        let revisions: Vec<u64> = events.iter().map(|event| revision(&event["object"])).collect();
        let first = *revisions.first().expect("events");
        assert!(revisions.iter().copied().eq(first..first + revisions.len() as u64), "{revisions:?}");
        assert!(revisions.len() < 2000, "nothing was lost");
    });
}
