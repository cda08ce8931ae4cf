//! The tests of the controller. Each test has a cluster of its own, and the controller runs with the permissions of
//! `deploy/rbac.yaml`.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{Condition, await_condition};
use pintle_testkit::{Fault, RequestFilter, ServiceAccountUser, TestCluster};
use serde_json::json;
use website_controller::{Website, WebsiteSpec, run};

/// Starts a cluster, and the controller as its service account.
async fn start() -> (TestCluster, ServiceAccountUser) {
    let permissions = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/rbac.yaml");
    let cluster = TestCluster::builder().crd::<Website>().manifest_file(permissions).start().await;
    let account = cluster.service_account("default", "website-controller");
    tokio::spawn(run(account.client().await.expect("a client")));
    (cluster, account)
}

fn website() -> Website {
    Website::new("blog", WebsiteSpec { image: "nginx".to_owned(), replicas: 2 })
}

/// The deployment has two replicas.
fn has_replicas() -> impl Condition<Deployment> {
    |deployment: Option<&Deployment>| {
        deployment.and_then(|found| found.spec.as_ref()).is_some_and(|spec| spec.replicas == Some(2))
    }
}

#[tokio::test]
async fn a_website_has_a_deployment_and_reports_its_ready_pods() {
    let (cluster, account) = start().await;
    let websites: Api<Website> = Api::default_namespaced(cluster.client());
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    websites.create(&PostParams::default(), &website()).await.unwrap();
    await_condition(deployments.clone(), "blog", has_replicas()).await.unwrap();

    // No pods run in the test, so the test writes the status of the deployment.
    let status = json!({"status": {"replicas": 2, "readyReplicas": 2}});
    deployments.patch_status("blog", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let is_ready = |website: Option<&Website>| {
        website.and_then(|found| found.status.as_ref()).is_some_and(|status| status.ready_replicas == 2)
    };
    await_condition(websites.clone(), "blog", is_ready).await.unwrap();

    // The garbage collector deletes the deployment with its owner.
    websites.delete("blog", &DeleteParams::default()).await.unwrap();
    await_condition(deployments, "blog", |found: Option<&Deployment>| found.is_none()).await.unwrap();
    cluster.requests().assert_none(&RequestFilter::any().user(account.user_name()).code(403));
}

#[tokio::test]
async fn a_failed_write_is_repeated() {
    let (cluster, _) = start().await;
    let applies = RequestFilter::verb("patch").resource("deployments.apps");
    cluster.faults().inject(applies.clone(), Fault::conflict().times(2));
    let websites: Api<Website> = Api::default_namespaced(cluster.client());
    websites.create(&PostParams::default(), &website()).await.unwrap();
    await_condition(Api::default_namespaced(cluster.client()), "blog", has_replicas()).await.unwrap();
    cluster.requests().assert_count(&applies.code(409), 2);
}

#[tokio::test]
async fn a_website_without_pods_is_refused() {
    let (cluster, _) = start().await;
    let websites: Api<Website> = Api::default_namespaced(cluster.client());
    let mut website = website();
    website.spec.replicas = 0;
    let error = websites.create(&PostParams::default(), &website).await.unwrap_err();
    assert!(error.to_string().contains("spec.replicas"), "{error}");
}
