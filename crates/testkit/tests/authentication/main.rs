//! The authenticators of tokens that are not of service accounts: bootstrap tokens.

mod bootstrap_tokens;

use pintle::{AccessOptions, Options, ServiceAccountOptions, TokenCacheTtl};
use pintle_testkit::{Cluster, Response};
use serde_json::{Value, json};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Options of a server that caches no tokens.
fn uncached(access: AccessOptions) -> Options {
    let service_accounts =
        ServiceAccountOptions { token_cache: TokenCacheTtl::DISABLED, ..ServiceAccountOptions::default() };
    Options { access, service_accounts, ..Options::default() }
}

/// Asks who the owner of a token is.
async fn self_review(cluster: &Cluster, token: &str) -> Response {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let request = cluster.request("POST", path).anonymous().header("authorization", &format!("Bearer {token}"));
    request.json("{}").send().await
}

/// The user info of a token's owner.
async fn whoami(cluster: &Cluster, token: &str) -> Value {
    self_review(cluster, token).await.expect(201).json()["status"]["userInfo"].clone()
}

/// The status of a review of a token.
async fn review(cluster: &Cluster, token: &str, audiences: &[&str]) -> Value {
    let spec = json!({"token": token, "audiences": audiences});
    cluster.post(REVIEWS, json!({ "spec": spec }).to_string()).await.expect(201).json()["status"].clone()
}

/// Checks that a token is refused, as the token of a request and in a review. The reason is empty if nobody handles it.
async fn check_refused(cluster: &Cluster, token: &str, why: &str) {
    self_review(cluster, token).await.expect_error(401, "Unauthorized", "Unauthorized");
    let error = if why.is_empty() { "invalid bearer token".into() } else { format!("[invalid bearer token, {why}]") };
    assert_eq!(review(cluster, token, &[]).await, json!({"user": {}, "error": error}), "{token}");
}
