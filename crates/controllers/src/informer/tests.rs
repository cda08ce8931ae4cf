//! Tests of informers with a cache of pods and config maps.

use std::time::Duration;

use pintle_cache::HistoryLimits;

use super::*;
use crate::fake_cluster::FakeCluster;

/// More events than a watcher buffers.
const MANY: usize = 2000;

/// An informer of some core resources, each identified by its plural.
fn informer(cluster: &Arc<FakeCluster>, plurals: &[&'static str]) -> Informer<&'static str> {
    let source = |plural: &&'static str| InformerSource::new(*plural, GroupResource::new("", *plural), WatchScope::All);
    Informer::new(&cluster.client(), plurals.iter().map(source).collect())
}

/// Describes an event: `added pods n/a n/b`, `changed pods n/a`, `reset pods`.
fn describe<S>(event: InformerEvent<S>, name: impl Fn(&S) -> String) -> String {
    let keys = |keys: Vec<String>| keys.into_iter().map(|key| format!(" {key}")).collect::<String>();
    match event {
        InformerEvent::Added(source, objects) => {
            format!("added {}{}", name(&source), keys(objects.iter().map(|object| object.key.to_string()).collect()))
        }
        InformerEvent::Changed(events) => {
            let changes = events.iter().map(|(source, event)| format!("{}/{}", name(source), event.key));
            format!("changed{}", keys(changes.collect()))
        }
        InformerEvent::Reset(source) => format!("reset {}", name(&source)),
    }
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("an event in time")
}

/// Checks the next events.
async fn expect(informer: &mut Informer<&'static str>, expected: &[&str]) {
    for expected in expected {
        let event = in_time(informer.next()).await.expect("the cluster exists");
        assert_eq!(describe(event, |source| (*source).to_owned()), *expected);
    }
}

#[tokio::test]
async fn existing_objects_are_listed_before_changes() {
    let cluster = FakeCluster::new(HistoryLimits::default()).await;
    cluster.put(["pods/n/a"]).await;
    let mut informer = informer(&cluster, &["pods", "configmaps"]);
    cluster.put(["pods/n/b"]).await;
    let expected = ["added pods n/a n/b", "added configmaps", "changed pods/n/b"];
    expect(&mut informer, &expected).await;
    cluster.put(["configmaps/n/c"]).await;
    expect(&mut informer, &["changed configmaps/n/c"]).await;
    drop(cluster);
    assert!(in_time(informer.next()).await.is_none(), "the cluster is gone");
}

#[tokio::test]
async fn sources_without_list_report_only_changes_in_their_scope() {
    let cluster = FakeCluster::new(HistoryLimits::default()).await;
    cluster.put(["pods/n/a"]).await;
    let source = InformerSource::new("pods", GroupResource::new("", "pods"), WatchScope::Key("n/b".into()));
    let mut informer = Informer::new(&cluster.client(), vec![source.without_list()]);
    cluster.put(["pods/n/a", "pods/n/b"]).await;
    expect(&mut informer, &["changed pods/n/b"]).await;
}

#[tokio::test]
async fn sources_are_listed_again_when_their_history_is_lost() {
    // No event fits into this history.
    let cluster = FakeCluster::new(HistoryLimits { bytes: 1, ..HistoryLimits::default() }).await;
    let mut informer = informer(&cluster, &["pods"]);
    expect(&mut informer, &["added pods"]).await;
    cluster.put(std::iter::repeat_n("pods/n/a", MANY)).await;
    expect(&mut informer, &["reset pods", "added pods n/a"]).await;
    cluster.put(["pods/n/b"]).await;
    expect(&mut informer, &["changed pods/n/b"]).await;
}

#[tokio::test]
async fn watch_caches_that_open_and_close_are_noticed() {
    let cluster = FakeCluster::new(HistoryLimits::default()).await;
    cluster.put(["pods/n/a"]).await;
    cluster.serve(&["configmaps"]);
    let mut informer = informer(&cluster, &["pods", "configmaps"]);
    expect(&mut informer, &["added configmaps"]).await;
    cluster.serve(&["pods", "configmaps"]);
    expect(&mut informer, &["added pods n/a"]).await;
    cluster.cache.close("pods");
    cluster.cache.open("pods").await.expect("a watch cache");
    cluster.serve(&["pods"]);
    expect(&mut informer, &["reset configmaps", "reset pods", "added pods n/a"]).await;
    cluster.put(["pods/n/b"]).await;
    expect(&mut informer, &["changed pods/n/b"]).await;
}

#[tokio::test]
async fn other_sources_can_be_followed() {
    let cluster = FakeCluster::new(HistoryLimits::default()).await;
    let source = |plural: &'static str| InformerSource::new(plural, GroupResource::new("", plural), WatchScope::All);
    let mut informer = Informer::new(&cluster.client(), vec![source("pods").without_list()]);
    cluster.put(["pods/n/a", "configmaps/n/a"]).await;
    // A source that stays loses no event.
    informer.set_sources(&cluster.client(), vec![source("configmaps"), source("pods").without_list()]);
    expect(&mut informer, &["added configmaps n/a", "changed pods/n/a"]).await;
    informer.set_sources(&cluster.client(), vec![source("configmaps")]);
    cluster.put(["pods/n/b", "configmaps/n/b"]).await;
    expect(&mut informer, &["changed configmaps/n/b"]).await;
}

#[tokio::test]
async fn ordered_informer_reports_all_collections_in_the_order_of_revisions() {
    let cluster = FakeCluster::new(HistoryLimits::default()).await;
    cluster.put(["pods/n/a"]).await;
    let mut informer = OrderedInformer::new(&cluster.client());
    assert!(!informer.has_synced());
    let mut listed = Vec::new();
    while !informer.has_synced() {
        let event = in_time(informer.next()).await;
        listed.push(describe(event, |watch_cache| watch_cache.prefix().to_string()));
    }
    listed.sort_unstable();
    assert_eq!(listed, ["added configmaps", "added pods n/a", "changed"]);
    cluster.put(["configmaps/n/b", "pods/n/c", "configmaps/n/d"]).await;
    let event = in_time(informer.next()).await;
    let name = |watch_cache: &Arc<WatchCache>| watch_cache.prefix().to_string();
    assert_eq!(describe(event, name), "changed configmaps/n/b pods/n/c configmaps/n/d");
    cluster.cache.close("pods");
    assert_eq!(describe(in_time(informer.next()).await, name), "reset pods");
    assert!(!informer.follows("pods") && informer.follows("configmaps"));
}
