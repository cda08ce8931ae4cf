//! Users and service accounts under RBAC.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use pintle_testkit::TestCluster;

/// The HTTP status code of a failed request.
fn code<T: std::fmt::Debug>(result: kube::Result<T>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("not an error of the API: {other:?}"),
    }
}

/// The name and the groups of a client's user.
async fn identity(client: kube::Client) -> (String, Vec<String>) {
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.expect("a review");
    let user = review.status.and_then(|status| status.user_info).expect("a user");
    (user.username.unwrap_or_default(), user.groups.unwrap_or_default())
}

#[tokio::test]
async fn users_may_do_what_their_bindings_allow() {
    let cluster = TestCluster::start().await;
    let user = cluster.user("jane").groups(["team", "other"]);
    assert_eq!(
        identity(user.client()).await,
        ("jane".to_owned(), ["team", "other", "system:authenticated"].map(str::to_owned).to_vec())
    );
    let maps: Api<ConfigMap> = Api::default_namespaced(user.client());
    assert_eq!(code(maps.list(&ListParams::default()).await), 403);
    let binding = "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: team, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: team}]";
    cluster.apply(binding).await.expect("the binding is applied");
    maps.list(&ListParams::default()).await.expect("the user may list");
    let map = ConfigMap {
        metadata: kube::api::ObjectMeta { name: Some("a".into()), ..Default::default() },
        ..Default::default()
    };
    assert_eq!(code(maps.create(&PostParams::default(), &map).await), 403);
    let elsewhere: Api<ConfigMap> = Api::namespaced(user.client(), "kube-system");
    assert_eq!(code(elsewhere.list(&ListParams::default()).await), 403);
}

#[tokio::test]
async fn service_accounts_identify_themselves_with_tokens() {
    let cluster = TestCluster::start().await;
    let account = cluster.service_account("default", "default");
    let (name, groups) = identity(account.client().await.expect("a client")).await;
    assert_eq!(name, account.user_name());
    assert!(groups.contains(&"system:serviceaccounts:default".to_owned()), "{groups:?}");
    let missing = cluster.service_account("default", "missing").token().await.expect_err("no account");
    assert!(missing.to_string().contains("serviceaccounts \"missing\" not found"), "{missing}");
}

#[tokio::test]
async fn kubeconfigs_identify_their_users() {
    let cluster = TestCluster::start().await;
    let file = std::fs::read_to_string(cluster.kubeconfig_file().expect("a file")).expect("a text");
    assert_eq!(file, cluster.kubeconfig());
    let account = cluster.service_account("kube-system", "default").kubeconfig().await.expect("a kubeconfig");
    for (text, user) in [
        (file, "kubernetes-admin"),
        (cluster.user("jane").kubeconfig(), "jane"),
        (account, "system:serviceaccount:kube-system:default"),
    ] {
        let kubeconfig = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let client = kube::Client::try_from(config.expect("a configuration")).expect("a client");
        assert_eq!(identity(client).await.0, user);
    }
}
