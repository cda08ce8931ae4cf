//! Tokens of an OpenID provider, as its users pass them to kubectl.

use pintle::{AccessOptions, AuthenticationOptions, OidcOptions};
use pintle_integration::{AccessServices, Cluster, Options, bootstrapped, eventually};
use serde_json::json;

use super::client::Kubectl;

/// Waits until a token is valid: before that, the server has to read the issuer's discovery document.
async fn wait_for_issuer(cluster: &Cluster, token: &str) {
    let get = || cluster.request("GET", "/version").anonymous().header("authorization", &format!("Bearer {token}"));
    eventually("the token is valid", || async { get().send().await.status == 200 }).await;
}

#[test]
fn tokens_of_an_openid_provider_are_users_with_the_rights_of_their_groups() {
    let services = AccessServices::start();
    let oidc = OidcOptions {
        issuer_url: services.issuer(),
        client_id: "pintle".to_owned(),
        ca_file: Some(services.authority()),
        username_prefix: "oidc:".to_owned(),
        groups_claim: "groups".to_owned(),
        signing_algorithms: vec!["RS256".to_owned(), "ES256".to_owned()],
        ..OidcOptions::default()
    };
    let authentication = AuthenticationOptions { oidc: Some(oidc), ..AuthenticationOptions::default() };
    let options = bootstrapped();
    let access = AccessOptions { authentication, ..options.access };
    let mut tokens = Vec::new();
    let k = Kubectl::with(async {
        let claims = |audience: &str| json!({"sub": "jane", "aud": audience, "groups": ["viewers"], "jti": "7"});
        for (algorithm, expires_in, audience) in
            [("RS256", 600, "pintle"), ("ES256", 600, "pintle"), ("ES256", -1, "pintle"), ("ES256", 600, "other")]
        {
            tokens.push(services.issue_token(algorithm, expires_in, claims(audience)).await);
        }
        let cluster = Cluster::with_options(Options { access, ..options }).await;
        wait_for_issuer(&cluster, &tokens[0]).await;
        cluster
    });
    let jane: Vec<String> = tokens.iter().map(|token| k.with_token(token)).collect();
    for jane in &jane[..2] {
        k.prints(
            &format!("{jane} auth whoami"),
            "
            ATTRIBUTE                                           VALUE
            Username                                            oidc:jane
            Groups                                              [viewers system:authenticated]
            Extra: authentication.kubernetes.io/credential-id   [JTI=7]
            ",
        );
    }
    for jane in &jane[2..] {
        let refused = "error: You must be logged in to the server (Unauthorized)";
        k.fails(&format!("{jane} auth whoami"), refused);
        k.fails(&format!("{jane} get pods"), refused);
    }
    let jane = &jane[1];
    k.fails(
        &format!("{jane} get configmaps"),
        "Error from server (Forbidden): configmaps is forbidden: User \"oidc:jane\" cannot list resource \"configmaps\" \
         in API group \"\" in the namespace \"default\"",
    );
    k.succeeds("create rolebinding viewers --clusterrole=view --group=viewers");
    // `view` has rules once they are aggregated.
    k.succeeds("wait --for=jsonpath={.rules[0].apiGroups} clusterrole/view");
    k.succeeds(&format!("{jane} get configmaps"));
    k.prints(&format!("{jane} auth can-i list configmaps"), "yes");
    k.fails(
        &format!("{jane} create configmap c"),
        "error: failed to create configmap: configmaps is forbidden: User \"oidc:jane\" cannot create resource \
         \"configmaps\" in API group \"\" in the namespace \"default\"",
    );
}
