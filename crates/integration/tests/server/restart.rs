//! Restarts of a durable cluster. Watches and chunked lists from before a restart continue after it.

use pintle_integration::{Cluster, Watch};
use serde_json::{Value, json};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("no resourceVersion: {object}"))
}

fn configmap(name: &str, value: &str) -> String {
    json!({"metadata": {"name": name, "labels": {"value": value}}, "data": {"k": value}}).to_string()
}

async fn create(cluster: &Cluster, name: &str) -> u64 {
    revision(&cluster.post(CONFIGMAPS, configmap(name, "1")).await.expect(201).json())
}

async fn update(cluster: &Cluster, name: &str, value: &str) -> u64 {
    revision(&cluster.put(&format!("{CONFIGMAPS}/{name}"), configmap(name, value)).await.expect(200).json())
}

async fn delete(cluster: &Cluster, name: &str) {
    let _ = cluster.delete(&format!("{CONFIGMAPS}/{name}")).await.expect(200);
}

/// Asserts the type, name and revision of the next events of a watch.
async fn expect_events(watch: &mut Watch, expect: &[(&str, &str, u64)]) {
    for (kind, name, at) in expect {
        let object = watch.expect(kind, name).await;
        assert_eq!(revision(&object), *at, "{kind} {name}");
    }
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|i| format!("{}={}", i["metadata"]["name"], i["data"]["k"]).replace('"', "")).collect()
}

#[test]
fn watches_resume_after_a_restart() {
    pintle_integration::run(async {
        let cluster = Cluster::durable().await;
        let a = create(&cluster, "a").await;
        let b = create(&cluster, "b").await;
        let mut before = cluster.watch(&format!("{CONFIGMAPS}?watch=1&resourceVersion={a}")).await;
        expect_events(&mut before, &[("ADDED", "b", b)]).await;
        let a2 = update(&cluster, "a", "2").await;
        delete(&cluster, "b").await;
        let b2 = create(&cluster, "b").await;
        expect_events(&mut before, &[("MODIFIED", "a", a2), ("DELETED", "b", a2 + 1), ("ADDED", "b", b2)]).await;
        let listed = cluster.get(CONFIGMAPS).await.expect(200).text();

        let cluster = cluster.restart().await;
        // The old connection is closed.
        assert_eq!(before.next().await, None);
        assert_eq!(cluster.get(CONFIGMAPS).await.expect(200).text(), listed);
        let mut watches = Vec::new();
        let history = [("ADDED", "b", b), ("MODIFIED", "a", a2), ("DELETED", "b", a2 + 1), ("ADDED", "b", b2)];
        for (from, expect) in
            [(a, &history[..]), (b, &history[1..]), (a2, &history[2..]), (a2 + 1, &history[3..]), (b2, &[])]
        {
            let mut watch = cluster.watch(&format!("{CONFIGMAPS}?watch=1&resourceVersion={from}")).await;
            expect_events(&mut watch, expect).await;
            watches.push(watch);
        }
        // Objects that stopped matching before the restart are DELETED events.
        let mut selected =
            cluster.watch(&format!("{CONFIGMAPS}?watch=1&resourceVersion={a}&labelSelector=value%3D1")).await;
        expect_events(
            &mut selected,
            &[("ADDED", "b", b), ("DELETED", "a", a2), ("DELETED", "b", a2 + 1), ("ADDED", "b", b2)],
        )
        .await;

        let c = create(&cluster, "c").await;
        assert!(c > b2, "revisions only increase: {c} after {b2}");
        for watch in &mut watches {
            expect_events(watch, &[("ADDED", "c", c)]).await;
        }

        // The history from before both restarts is available after a second restart.
        let cluster = cluster.restart().await;
        let mut watch = cluster.watch(&format!("{CONFIGMAPS}?watch=1&resourceVersion={a2}")).await;
        expect_events(&mut watch, &[("DELETED", "b", a2 + 1), ("ADDED", "b", b2), ("ADDED", "c", c)]).await;
        cluster.stop().await;
    });
}

#[test]
fn chunked_lists_continue_after_a_restart() {
    pintle_integration::run(async {
        let cluster = Cluster::durable().await;
        for name in ["a", "b", "c", "d"] {
            create(&cluster, name).await;
        }
        let first = cluster.get(&format!("{CONFIGMAPS}?limit=2")).await.expect(200).json();
        assert_eq!(names(&first), ["a=1", "b=1"]);
        let token = first["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        update(&cluster, "c", "2").await;
        delete(&cluster, "d").await;
        create(&cluster, "e").await;

        let cluster = cluster.restart().await;
        update(&cluster, "a", "3").await;
        let rest = cluster.get(&format!("{CONFIGMAPS}?limit=1&continue={token}")).await.expect(200).json();
        assert_eq!(names(&rest), ["c=1"]);
        assert_eq!(revision(&rest), revision(&first));
        assert_eq!(rest["metadata"]["remainingItemCount"], 1);
        let rest = cluster.get(&format!("{CONFIGMAPS}?continue={token}")).await.expect(200).json();
        assert_eq!(names(&rest), ["c=1", "d=1"]);
        let at = revision(&first);
        let exact =
            cluster.get(&format!("{CONFIGMAPS}?resourceVersion={at}&resourceVersionMatch=Exact")).await.expect(200);
        assert_eq!(names(&exact.json()), ["a=1", "b=1", "c=1", "d=1"]);
        assert_eq!(names(&cluster.get(CONFIGMAPS).await.expect(200).json()), ["a=3", "b=1", "c=2", "e=1"]);
        cluster.stop().await;
    });
}

#[test]
fn watch_lists_and_optimistic_concurrency_work_after_a_restart() {
    pintle_integration::run(async {
        let cluster = Cluster::durable().await;
        let a = create(&cluster, "a").await;
        let before = cluster.get(&format!("{CONFIGMAPS}/a")).await.expect(200).text();
        let cluster = cluster.restart().await;
        assert_eq!(cluster.get(&format!("{CONFIGMAPS}/a")).await.expect(200).text(), before);

        let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let mut watch = cluster.watch(&format!("{CONFIGMAPS}?{query}&resourceVersion={a}")).await;
        expect_events(&mut watch, &[("ADDED", "a", a)]).await;
        let bookmark = watch.next().await.expect("a bookmark");
        assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");

        // A resourceVersion from before the restart is valid for one update.
        let mut object: Value = serde_json::from_str(&before).expect("JSON");
        object["data"]["k"] = json!("2");
        let updated = cluster.put(&format!("{CONFIGMAPS}/a"), object.to_string()).await.expect(200).json();
        expect_events(&mut watch, &[("MODIFIED", "a", revision(&updated))]).await;
        let again = cluster.put(&format!("{CONFIGMAPS}/a"), object.to_string()).await.expect(409).json();
        assert_eq!(again["reason"], "Conflict");
        cluster.stop().await;
    });
}

#[test]
fn watches_and_lists_resume_after_a_kill() {
    pintle_integration::run(async {
        let cluster = Cluster::durable().await;
        let a = create(&cluster, "a").await;
        let mut before = cluster.watch(&format!("{CONFIGMAPS}?watch=1&resourceVersion={a}")).await;
        let mut history = Vec::new();
        for i in 0..40 {
            let name = format!("m{i:02}");
            history.push(("ADDED", name.clone(), create(&cluster, &name).await));
            if i % 4 == 0 {
                history.push(("MODIFIED", name.clone(), update(&cluster, &name, "2").await));
            }
            if i % 8 == 0 {
                delete(&cluster, &name).await;
                history.push(("DELETED", name.clone(), history.last().map_or(0, |(_, _, at)| at + 1)));
            }
        }
        let history: Vec<(&str, &str, u64)> =
            history.iter().map(|(kind, name, at)| (*kind, name.as_str(), *at)).collect();
        expect_events(&mut before, &history).await;
        let listed = cluster.get(CONFIGMAPS).await.expect(200).text();
        let first = cluster.get(&format!("{CONFIGMAPS}?limit=10")).await.expect(200).json();
        let token = first["metadata"]["continue"].as_str().unwrap_or_default().to_owned();

        for round in 0..2 {
            cluster.kill_server().await;
            cluster.start_server().await;
            assert_eq!(cluster.get(CONFIGMAPS).await.expect(200).text(), listed, "{round}");
            // A watch from each revision shows the remaining events once and in order.
            for (i, (_, _, at)) in history.iter().enumerate() {
                let mut watch = cluster.watch(&format!("{CONFIGMAPS}?watch=1&resourceVersion={at}")).await;
                expect_events(&mut watch, &history[i + 1..]).await;
            }
            let rest = cluster.get(&format!("{CONFIGMAPS}?limit=500&continue={token}")).await.expect(200).json();
            assert_eq!(revision(&rest), revision(&first));
            let mut combined = names(&first);
            combined.extend(names(&rest));
            let all: Value = serde_json::from_str(&listed).expect("JSON");
            assert_eq!(combined, names(&all));
        }
        // A watch from the last change before the kill shows the first change after it.
        let (_, _, last) = *history.last().expect("history");
        let mut watch = cluster.watch(&format!("{CONFIGMAPS}?watch=1&resourceVersion={last}")).await;
        let b = create(&cluster, "z").await;
        expect_events(&mut watch, &[("ADDED", "z", b)]).await;
        cluster.stop().await;
    });
}
