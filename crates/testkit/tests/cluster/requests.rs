//! Recorded requests.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use pintle_testkit::{RequestFilter, TestCluster};
use serde_json::json;

#[tokio::test]
async fn a_request_is_recorded_before_its_client_has_the_answer() {
    let cluster = TestCluster::start().await;
    let client = cluster.user("jane").groups(["system:masters"]).client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).expect("a map");
    for code in [201, 409] {
        let _ = maps.create(&PostParams::default(), &map).await;
        let found = cluster.requests().matching(&RequestFilter::verb("create").name("a").code(code));
        assert_eq!(found.len(), 1, "{code}");
        let found = &found[0];
        assert_eq!((&*found.user, &*found.resource, &*found.namespace), ("jane", "configmaps", "default"));
        assert_eq!((&*found.group, &*found.version, &*found.subresource), ("", "v1", ""));
        assert_eq!(found.path, "/api/v1/namespaces/default/configmaps?");
        assert!(found.groups.contains(&"system:masters".to_owned()));
        assert_eq!(found.body.as_ref().map(|body| &body["data"]), Some(&json!({"k": "v"})));
        let (reason, message) =
            if code == 409 { ("AlreadyExists", "configmaps \"a\" already exists") } else { ("", "") };
        assert_eq!((&*found.reason, &*found.message), (reason, message));
        assert!(!found.latency.is_zero());
    }
    let patch = json!({"data": {"k": "w"}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("a patch");
    maps.list(&ListParams::default()).await.expect("a list");
    let found = cluster.requests().matching(&RequestFilter::writes().name("a").code(200));
    assert_eq!(found.iter().map(|request| request.body.clone()).collect::<Vec<_>>(), [Some(patch)]);
    assert_eq!(cluster.requests().matching(&RequestFilter::verb("list"))[0].body, None);
    // Recorded requests have the values of secrets.
    let secrets: Api<Secret> = Api::default_namespaced(client);
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": {"k": "v"}})).expect("a secret");
    secrets.create(&PostParams::default(), &secret).await.expect("a secret");
    let body = cluster.requests().matching(&RequestFilter::any().resource("secrets"))[0].body.clone();
    assert_eq!(body.map(|body| body["stringData"]["k"].clone()), Some(json!("v")));
}

#[tokio::test]
async fn tests_wait_for_requests_and_count_them() {
    let cluster = TestCluster::builder().max_recorded_requests(3).start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let gets = RequestFilter::verb("get").resource("configmaps");
    let requests = cluster.requests();
    let wait = tokio::spawn({
        let (requests, gets) = (requests.clone(), gets.clone());
        async move { requests.wait_for(&gets, 2).await.expect("two requests").len() }
    });
    for _ in 0..2 {
        maps.get("kube-root-ca.crt").await.expect("a map");
    }
    assert_eq!(wait.await.expect("the task ends"), 2);
    requests.assert_count(&gets, 2);
    requests.assert_none(&RequestFilter::writes());
    let (watched, name) = (requests.clone(), gets.clone().name("kube-root-ca.crt"));
    let failed = std::thread::spawn(move || watched.assert_none(&name)).join().expect_err("there are two");
    let text = failed.downcast_ref::<String>().expect("a text");
    let line = "200 get /api/v1/namespaces/default/configmaps/kube-root-ca.crt by kubernetes-admin in ";
    assert_eq!(text.matches(line).count(), 2, "{text}");
    for _ in 0..2 {
        maps.get("kube-root-ca.crt").await.expect("a map");
    }
    assert_eq!(requests.all().len(), 3, "the oldest is forgotten");
    requests.clear();
    assert!(requests.all().is_empty());
    // The kit's own requests are not recorded.
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").await.expect("it is applied");
    assert!(requests.all().is_empty());
}

#[tokio::test]
async fn requests_are_logged_to_a_file_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("requests");
    let cluster = TestCluster::builder().log_requests(&path).start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    maps.get("kube-root-ca.crt").await.expect("a map");
    cluster.stop().await.expect("it stops");
    let text = std::fs::read_to_string(&path).expect("the log");
    assert!(text.lines().any(|line| line.contains("\"name\":\"kube-root-ca.crt\"")), "{text}");
}
