//! Tokens of service accounts: requests for tokens, the objects to which tokens are bound, and refused tokens.

mod issuers;
mod requests;
mod token_secrets;
mod validation;
mod webhook_tokens;

use pintle::{Options, ServiceAccountOptions, TokenCacheTtl};
use pintle_integration::{Cluster, Protocol, Response};
use serde_json::{Value, json};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ISSUER: &str = pintle::DEFAULT_SERVICE_ACCOUNT_ISSUER;

/// A cluster that caches no tokens, with the service account `robot`.
async fn start(options: Options) -> Cluster {
    let service_accounts = ServiceAccountOptions { token_cache: TokenCacheTtl::DISABLED, ..options.service_accounts };
    let cluster = Cluster::with_options(Options { service_accounts, ..options }).await;
    create(&cluster, ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    cluster
}

/// Creates an object and returns its UID.
async fn create(cluster: &Cluster, path: &str, object: Value) -> String {
    let created = cluster.post(path, object.to_string()).await.expect(201).json();
    created["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

async fn create_pod(cluster: &Cluster, name: &str, account: &str) -> String {
    let spec = json!({"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]});
    create(cluster, PODS, json!({"metadata": {"name": name}, "spec": spec})).await
}

async fn request_token(cluster: &Cluster, account: &str, spec: Value) -> Response {
    cluster.post(&format!("{ACCOUNTS}/{account}/token"), json!({ "spec": spec }).to_string()).await
}

/// A token of the account `robot`.
async fn token(cluster: &Cluster, spec: Value) -> String {
    let created = request_token(cluster, "robot", spec).await.expect(201).json();
    created["status"]["token"].as_str().expect("a token").to_owned()
}

fn bound_to(kind: &str, name: &str) -> Value {
    json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}})
}

/// Sends a request with a bearer token and without a certificate.
async fn with_token(cluster: &Cluster, token: &str, method: &str, path: &str) -> Response {
    // The server closes HTTP/2 connections after requests that it refuses.
    let client = cluster.client(Protocol::Http1);
    let request = client.request(method, path).anonymous().header("authorization", &format!("Bearer {token}"));
    if method == "POST" { request.json("{}").send().await } else { request.send().await }
}

/// The user info of a token.
async fn whoami(cluster: &Cluster, token: &str) -> Value {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    with_token(cluster, token, "POST", path).await.expect(201).json()["status"]["userInfo"].clone()
}

/// The status of a review of a token.
async fn review(cluster: &Cluster, token: &str, audiences: &[&str]) -> Value {
    let spec = json!({"token": token, "audiences": audiences});
    cluster.post(REVIEWS, json!({ "spec": spec }).to_string()).await.expect(201).json()["status"].clone()
}

/// Checks that a token is refused, as the token of a request and in a review.
async fn check_refused(cluster: &Cluster, token: &str, why: &str) {
    let refused = with_token(cluster, token, "GET", ACCOUNTS).await;
    refused.expect_error(401, "Unauthorized", "Unauthorized");
    let error = if why.is_empty() { "invalid bearer token".into() } else { format!("[invalid bearer token, {why}]") };
    assert_eq!(review(cluster, token, &[]).await, json!({"user": {}, "error": error}), "{token}");
}

fn decode(part: &str) -> Value {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).expect("base64url");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn claims(token: &str) -> Value {
    decode(token.split('.').nth(1).expect("a payload"))
}
