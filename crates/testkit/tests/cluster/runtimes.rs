//! Clusters on all kinds of runtimes and threads, and many clusters at once.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams};
use pintle_testkit::{RequestFilter, TestCluster};
use serde_json::json;

/// Uses a cluster, and returns the names of its maps.
async fn use_cluster(name: &str) -> Vec<String> {
    let cluster = TestCluster::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a map");
    maps.create(&PostParams::default(), &map).await.expect("the map is valid");
    let found = maps.list(&ListParams::default()).await.expect("a list");
    cluster.requests().assert_count(&RequestFilter::any().resource("configmaps"), 2);
    cluster.stop().await.expect("it stops");
    found.items.into_iter().filter_map(|map| map.metadata.name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_are_on_their_own() {
    let names: Vec<String> = (0..20).map(|n| format!("map-{n}")).collect();
    let tasks: Vec<_> =
        names.iter().cloned().map(|name| tokio::spawn(async move { use_cluster(&name).await })).collect();
    for (name, task) in names.into_iter().zip(tasks) {
        assert_eq!(task.await.expect("the task ends"), ["kube-root-ca.crt".to_owned(), name]);
    }
}

#[test]
fn a_thread_with_a_small_stack_and_a_runtime_of_its_own_is_enough() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(Box::pin(use_cluster("a")))
    };
    let thread = std::thread::Builder::new().stack_size(256 * 1024).spawn(run).expect("a thread");
    assert_eq!(thread.join().expect("no overflow"), ["a", "kube-root-ca.crt"]);
}

#[test]
fn a_cluster_outlives_the_runtime_that_has_started_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let cluster = runtime().block_on(TestCluster::start());
    runtime().block_on(async {
        let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        maps.list(&ListParams::default()).await.expect("a list");
        cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").await.expect("it is applied");
    });
    // The cluster is dropped outside of a runtime.
    drop(cluster);
}

#[tokio::test]
async fn nothing_answers_after_a_cluster_has_stopped() {
    for graceful in [true, false] {
        let cluster = TestCluster::start().await;
        let address = cluster.url().trim_start_matches("https://").to_owned();
        let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        let watch = maps.watch(&kube::api::WatchParams::default(), "0").await.expect("a watch");
        match graceful {
            true => cluster.stop().await.expect("it stops"),
            false => drop(cluster),
        }
        // The end of the cluster ends a watch, so that its client does not wait.
        let end = futures_util::StreamExt::count(watch);
        tokio::time::timeout(std::time::Duration::from_secs(20), end).await.expect("the watch ends");
        while tokio::net::TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}
