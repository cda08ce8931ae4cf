//! What a durable cluster remembers of its history: watches and chunked lists of before a restart go on after it as if
//! there had been none.

use pintle_testkit::{Cluster, Watch};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("no resourceVersion: {object}"))
}

fn map(name: &str, value: &str) -> String {
    json!({"metadata": {"name": name, "labels": {"value": value}}, "data": {"k": value}}).to_string()
}

async fn make(cluster: &Cluster, name: &str) -> u64 {
    revision(&cluster.post(MAPS, map(name, "1")).await.expect(201).json())
}

async fn change(cluster: &Cluster, name: &str, value: &str) -> u64 {
    revision(&cluster.put(&format!("{MAPS}/{name}"), map(name, value)).await.expect(200).json())
}

async fn remove(cluster: &Cluster, name: &str) {
    let _ = cluster.delete(&format!("{MAPS}/{name}")).await.expect(200);
}

/// Sees to it that a watch shows these events next.
async fn check(watch: &mut Watch, expect: &[(&str, &str, u64)]) {
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
fn watches_go_on_after_a_restart() {
    pintle_testkit::run(async {
        let cluster = Cluster::durable().await;
        let a = make(&cluster, "a").await;
        let b = make(&cluster, "b").await;
        let mut before = cluster.watch(&format!("{MAPS}?watch=1&resourceVersion={a}")).await;
        check(&mut before, &[("ADDED", "b", b)]).await;
        let a2 = change(&cluster, "a", "2").await;
        remove(&cluster, "b").await;
        let b2 = make(&cluster, "b").await;
        check(&mut before, &[("MODIFIED", "a", a2), ("DELETED", "b", a2 + 1), ("ADDED", "b", b2)]).await;
        let listed = cluster.get(MAPS).await.expect(200).text();

        let cluster = cluster.restart().await;
        // The connection of before is closed, not left to hang.
        assert_eq!(before.next().await, None);
        assert_eq!(cluster.get(MAPS).await.expect(200).text(), listed);
        let mut watches = Vec::new();
        let history = [("ADDED", "b", b), ("MODIFIED", "a", a2), ("DELETED", "b", a2 + 1), ("ADDED", "b", b2)];
        for (from, expect) in
            [(a, &history[..]), (b, &history[1..]), (a2, &history[2..]), (a2 + 1, &history[3..]), (b2, &[])]
        {
            let mut watch = cluster.watch(&format!("{MAPS}?watch=1&resourceVersion={from}")).await;
            check(&mut watch, expect).await;
            watches.push(watch);
        }
        // What stopped matching before the restart is still known as it was.
        let mut selected = cluster.watch(&format!("{MAPS}?watch=1&resourceVersion={a}&labelSelector=value%3D1")).await;
        check(&mut selected, &[("ADDED", "b", b), ("DELETED", "a", a2), ("DELETED", "b", a2 + 1), ("ADDED", "b", b2)])
            .await;

        let c = make(&cluster, "c").await;
        assert!(c > b2, "revisions only grow: {c} after {b2}");
        for watch in &mut watches {
            check(watch, &[("ADDED", "c", c)]).await;
        }

        // A second restart adds up with the first.
        let cluster = cluster.restart().await;
        let mut watch = cluster.watch(&format!("{MAPS}?watch=1&resourceVersion={a2}")).await;
        check(&mut watch, &[("DELETED", "b", a2 + 1), ("ADDED", "b", b2), ("ADDED", "c", c)]).await;
        cluster.stop().await;
    });
}

#[test]
fn lists_go_on_after_a_restart() {
    pintle_testkit::run(async {
        let cluster = Cluster::durable().await;
        for name in ["a", "b", "c", "d"] {
            make(&cluster, name).await;
        }
        let first = cluster.get(&format!("{MAPS}?limit=2")).await.expect(200).json();
        assert_eq!(names(&first), ["a=1", "b=1"]);
        let token = first["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        change(&cluster, "c", "2").await;
        remove(&cluster, "d").await;
        make(&cluster, "e").await;

        let cluster = cluster.restart().await;
        change(&cluster, "a", "3").await;
        let rest = cluster.get(&format!("{MAPS}?limit=1&continue={token}")).await.expect(200).json();
        assert_eq!(names(&rest), ["c=1"]);
        assert_eq!(revision(&rest), revision(&first));
        assert_eq!(rest["metadata"]["remainingItemCount"], 1);
        let rest = cluster.get(&format!("{MAPS}?continue={token}")).await.expect(200).json();
        assert_eq!(names(&rest), ["c=1", "d=1"]);
        let at = revision(&first);
        let exact = cluster.get(&format!("{MAPS}?resourceVersion={at}&resourceVersionMatch=Exact")).await.expect(200);
        assert_eq!(names(&exact.json()), ["a=1", "b=1", "c=1", "d=1"]);
        assert_eq!(names(&cluster.get(MAPS).await.expect(200).json()), ["a=3", "b=1", "c=2", "e=1"]);
        cluster.stop().await;
    });
}

#[test]
fn streams_and_conflicts_survive_a_restart() {
    pintle_testkit::run(async {
        let cluster = Cluster::durable().await;
        let a = make(&cluster, "a").await;
        let before = cluster.get(&format!("{MAPS}/a")).await.expect(200).text();
        let cluster = cluster.restart().await;
        assert_eq!(cluster.get(&format!("{MAPS}/a")).await.expect(200).text(), before);

        let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let mut watch = cluster.watch(&format!("{MAPS}?{query}&resourceVersion={a}")).await;
        check(&mut watch, &[("ADDED", "a", a)]).await;
        let mark = watch.next().await.expect("a bookmark");
        assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");

        // A version read before the restart is good for an update, once.
        let mut object: Value = serde_json::from_str(&before).expect("JSON");
        object["data"]["k"] = json!("2");
        let updated = cluster.put(&format!("{MAPS}/a"), object.to_string()).await.expect(200).json();
        check(&mut watch, &[("MODIFIED", "a", revision(&updated))]).await;
        let again = cluster.put(&format!("{MAPS}/a"), object.to_string()).await.expect(409).json();
        assert_eq!(again["reason"], "Conflict");
        cluster.stop().await;
    });
}

#[test]
fn a_killed_server_goes_on_where_it_was() {
    pintle_testkit::run(async {
        let cluster = Cluster::durable().await;
        let a = make(&cluster, "a").await;
        let mut before = cluster.watch(&format!("{MAPS}?watch=1&resourceVersion={a}")).await;
        let mut history = Vec::new();
        for i in 0..40 {
            let name = format!("m{i:02}");
            history.push(("ADDED", name.clone(), make(&cluster, &name).await));
            if i % 4 == 0 {
                history.push(("MODIFIED", name.clone(), change(&cluster, &name, "2").await));
            }
            if i % 8 == 0 {
                remove(&cluster, &name).await;
                history.push(("DELETED", name.clone(), history.last().map_or(0, |(_, _, at)| at + 1)));
            }
        }
        let history: Vec<(&str, &str, u64)> =
            history.iter().map(|(kind, name, at)| (*kind, name.as_str(), *at)).collect();
        check(&mut before, &history).await;
        let listed = cluster.get(MAPS).await.expect(200).text();
        let first = cluster.get(&format!("{MAPS}?limit=10")).await.expect(200).json();
        let token = first["metadata"]["continue"].as_str().unwrap_or_default().to_owned();

        for round in 0..2 {
            cluster.kill_server().await;
            cluster.start_server().await;
            assert_eq!(cluster.get(MAPS).await.expect(200).text(), listed, "{round}");
            // From every revision, what is left comes once and in order.
            for (i, (_, _, at)) in history.iter().enumerate() {
                let mut watch = cluster.watch(&format!("{MAPS}?watch=1&resourceVersion={at}")).await;
                check(&mut watch, &history[i + 1..]).await;
            }
            let rest = cluster.get(&format!("{MAPS}?limit=500&continue={token}")).await.expect(200).json();
            assert_eq!(revision(&rest), revision(&first));
            let mut both = names(&first);
            both.extend(names(&rest));
            let whole: Value = serde_json::from_str(&listed).expect("JSON");
            assert_eq!(both, names(&whole));
        }
        // The first change after the kill follows the last one before it.
        let (_, _, last) = *history.last().expect("history");
        let mut watch = cluster.watch(&format!("{MAPS}?watch=1&resourceVersion={last}")).await;
        let b = make(&cluster, "z").await;
        check(&mut watch, &[("ADDED", "z", b)]).await;
        cluster.stop().await;
    });
}
