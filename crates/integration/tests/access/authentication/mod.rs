//! The authenticators of tokens other than service account tokens: bootstrap tokens, issuers of JSON Web Tokens and a
//! webhook.

mod bootstrap_tokens;
mod distributed_claims;
mod issuer;
mod json_web_tokens;
mod program;
mod token_webhook;

use pintle::{AccessOptions, Options, ServiceAccountOptions, TokenCacheTtl};
use pintle_integration::{Cluster, Response, eventually};
use serde_json::{Value, json};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Options of a server that caches no tokens.
fn uncached(access: AccessOptions) -> Options {
    let service_accounts =
        ServiceAccountOptions { token_cache: TokenCacheTtl::DISABLED, ..ServiceAccountOptions::default() };
    Options { access, service_accounts, ..Options::default() }
}

/// Asks for the user of a token.
async fn self_review(cluster: &Cluster, token: &str) -> Response {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let request = cluster.request("POST", path).anonymous().header("authorization", &format!("Bearer {token}"));
    request.json("{}").send().await
}

/// The user info of a token.
async fn whoami(cluster: &Cluster, token: &str) -> Value {
    self_review(cluster, token).await.expect(201).json()["status"]["userInfo"].clone()
}

/// The status of a review of a token.
async fn review(cluster: &Cluster, token: &str, audiences: &[&str]) -> Value {
    let spec = json!({"token": token, "audiences": audiences});
    cluster.post(REVIEWS, json!({ "spec": spec }).to_string()).await.expect(201).json()["status"].clone()
}

/// Waits until the server has read the discovery document of a token's issuer.
async fn initialized(cluster: &Cluster, token: &str) {
    let error = "[invalid bearer token, oidc: authenticator not initialized]";
    eventually("the issuer is ready", || async { review(cluster, token, &[]).await["error"] != error }).await;
}

/// Checks that a token is refused, as the token of a request and in a review. The reason is empty if no authenticator
/// handles the token.
async fn check_refused(cluster: &Cluster, token: &str, why: &str) {
    self_review(cluster, token).await.expect_error(401, "Unauthorized", "Unauthorized");
    let error = if why.is_empty() { "invalid bearer token".into() } else { format!("[invalid bearer token, {why}]") };
    assert_eq!(review(cluster, token, &[]).await, json!({"user": {}, "error": error}), "{token}");
}

/// The value of a metric, by its name and labels; 0 if there is none.
async fn metric(cluster: &Cluster, name: &str, labels: &[(&str, &str)]) -> u64 {
    let text = cluster.get("/metrics").await.expect(200).text();
    let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let is_series = |line: &&str| {
        line.split_once('{')
            .is_some_and(|(found, rest)| found == name && labels.iter().all(|label| rest.contains(label)))
    };
    let line = text.lines().find(is_series);
    line.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).map_or(0, |value| value as u64)
}
