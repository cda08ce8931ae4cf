//! Bootstrap tokens: their users, and their expiry.

use pintle::{AccessOptions, DEFAULT_SERVICE_ACCOUNT_ISSUER};
use pintle_integration::{Cluster, run};
use serde_json::json;

use super::{check_refused, review, uncached, whoami};

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const TOKEN: &str = "abcdef.0123456789abcdef";

async fn start(bootstrap_tokens: bool) -> Cluster {
    let cluster = Cluster::with_options(uncached(AccessOptions { bootstrap_tokens, ..AccessOptions::default() })).await;
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef",
            "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:worker",
            "expiration": "2099-01-01T00:00:00Z",
        },
    });
    let _ = cluster.post(SECRETS, secret.to_string()).await.expect(201);
    cluster
}

#[test]
fn a_bootstrap_token_is_valid_while_its_secret_says_so() {
    run(async {
        let cluster = start(true).await;
        let user = json!({
            "username": "system:bootstrap:abcdef",
            "groups": ["system:bootstrappers", "system:bootstrappers:worker", "system:authenticated"],
        });
        assert_eq!(whoami(&cluster, TOKEN).await, user);
        let audiences = [DEFAULT_SERVICE_ACCOUNT_ISSUER];
        let reviewed = json!({"authenticated": true, "user": user, "audiences": audiences});
        assert_eq!(review(&cluster, TOKEN, &audiences).await, reviewed);
        assert_eq!(review(&cluster, TOKEN, &["other"]).await, json!({"user": {}, "error": "invalid bearer token"}));
        check_refused(&cluster, "abcdef.0123456789abcdeg", "").await;
        check_refused(&cluster, "fedcba.0123456789abcdef", "").await;
        let path = format!("{SECRETS}/bootstrap-token-abcdef");
        let expired = json!({"stringData": {"expiration": "2020-01-01T00:00:00Z"}}).to_string();
        let _ = cluster.patch(&path, "merge", expired).await.expect(200);
        check_refused(&cluster, TOKEN, "").await;
        let endless = json!({"data": {"expiration": null}}).to_string();
        let _ = cluster.patch(&path, "merge", endless).await.expect(200);
        assert_eq!(whoami(&cluster, TOKEN).await, user);
        let _ = cluster.delete(&path).await.expect(200);
        check_refused(&cluster, TOKEN, "").await;
        cluster.stop().await;
    });
}

#[test]
fn bootstrap_tokens_are_not_enabled_by_default() {
    run(async {
        let cluster = start(AccessOptions::default().bootstrap_tokens).await;
        check_refused(&cluster, TOKEN, "").await;
        cluster.stop().await;
    });
}
