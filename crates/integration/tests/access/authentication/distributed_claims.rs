//! Tokens that name an endpoint with the user's groups (distributed claims).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pintle::Clock;
use pintle_integration::{Cluster, HttpsServer, Options, SentResponse, advance_clock_until, manual_clock, run};
use serde_json::{Value, json};

use super::issuer::{Issuer, new_key};
use super::json_web_tokens::{configuration, from_file, options, write};
use super::{check_refused, initialized, metric, self_review, whoami};

/// An endpoint with responses by path. Paths below `/open` need no access token. All others need the token `secret`.
struct Endpoint {
    server: HttpsServer,
    responses: Arc<Mutex<HashMap<String, (u16, String)>>>,
}

impl Endpoint {
    async fn start() -> Self {
        let responses = Arc::new(Mutex::new(HashMap::new()));
        let answering: Arc<Mutex<HashMap<String, (u16, String)>>> = responses.clone();
        let server = HttpsServer::start(move |request| {
            let found = answering.lock().get(&request.path).cloned();
            let expected = if request.path.starts_with("/open") { None } else { Some("Bearer secret") };
            let response = match found {
                Some((code, body)) if request.header("authorization") == expected => SentResponse::new(code, body),
                Some(_) => SentResponse::new(401, ""),
                None => SentResponse::new(404, ""),
            };
            std::future::ready(response)
        })
        .await;
        Self { server, responses }
    }

    /// Claims that name a path of this endpoint as the source of groups. The endpoint gets the response for this path.
    fn claims(&self, path: &str, code: u16, response: &str) -> Value {
        self.responses.lock().insert(path.to_owned(), (code, response.to_owned()));
        let mut source = json!({"endpoint": self.server.url(path)});
        if !path.starts_with("/open") {
            source["access_token"] = json!("secret");
        }
        json!({"_claim_names": {"groups": "source"}, "_claim_sources": {"source": source}})
    }
}

/// A cluster with an issuer for these audiences, which trusts the certificates of these servers.
async fn cluster(issuer: &Issuer, audiences: &[&str], trusted: &[&str]) -> Cluster {
    cluster_with(Options::default().clock, issuer, audiences, trusted).await
}

/// As [`cluster`], with a clock.
async fn cluster_with(clock: Arc<dyn Clock>, issuer: &Issuer, audiences: &[&str], trusted: &[&str]) -> Cluster {
    let folder = tempfile::tempdir().expect("a folder");
    let mut fields = json!({"certificateAuthority": trusted.join("\n"), "audiences": audiences});
    if audiences.len() > 1 {
        fields["audienceMatchPolicy"] = json!("MatchAny");
    }
    let more = json!({"issuer": fields, "claimMappings": {"groups": {"claim": "groups", "prefix": "g:"}}});
    let file = write(folder.path(), "config", &configuration(issuer, &more, &json!({})));
    let cluster = Cluster::with_options(Options { clock, ..options(from_file(file)) }).await;
    initialized(&cluster, &issuer.token(json!({}))).await;
    cluster
}

/// Checks the groups of a token's user.
async fn check_groups(cluster: &Cluster, token: &str, groups: &[&str]) {
    let groups: Vec<_> = groups.iter().copied().chain(["system:authenticated"]).collect();
    assert_eq!(whoami(cluster, token).await["groups"], json!(groups));
}

async fn check_unresolved(cluster: &Cluster, token: &str, why: &str) {
    check_refused(cluster, token, &format!("oidc: could not expand distributed claims: {why}")).await;
}

#[test]
fn groups_are_fetched_from_the_endpoint_that_a_token_names() {
    run(async {
        let (issuer, other, endpoint) = (Issuer::start().await, Issuer::start().await, Endpoint::start().await);
        let trusted = [&*issuer.authority, &*other.authority, &*endpoint.server.authority];
        let cluster = cluster(&issuer, &["pintle"], &trusted).await;
        // The response is a token of the same issuer.
        let groups = issuer.token(json!({"groups": ["a", "b"]}));
        check_groups(&cluster, &issuer.token(endpoint.claims("/groups", 200, &groups)), &["g:a", "g:b"]).await;
        check_groups(&cluster, &issuer.token(endpoint.claims("/open/groups", 203, &groups)), &["g:a", "g:b"]).await;
        // The response is a token of another issuer. The server fetches that issuer's keys when it first needs them,
        // and keeps them.
        let groups = other.token(json!({"groups": "c"}));
        let token = issuer.token(endpoint.claims("/other", 200, &format!("{groups}\n")));
        for _ in 0..2 {
            check_groups(&cluster, &token, &["g:c"]).await;
        }
        assert_eq!(other.key_fetches(), 1);
        // Tokens of the other issuer authenticate no user.
        check_refused(&cluster, &groups, "").await;
        // A claim in the token itself takes precedence, and aggregated claims are ignored.
        let mut own = endpoint.claims("/own", 500, "");
        own["groups"] = json!(["d"]);
        check_groups(&cluster, &issuer.token(own), &["g:d"]).await;
        let aggregated = json!({"_claim_names": {"groups": "s"}, "_claim_sources": {"s": {"JWT": groups}}});
        check_groups(&cluster, &issuer.token(aggregated), &[]).await;
        let latency = "apiserver_authentication_jwt_authenticator_latency_seconds_count";
        assert!(metric(&cluster, latency, &[("result", "success")]).await > 0);
        cluster.stop().await;
    });
}

#[test]
fn responses_of_endpoints_are_verified() {
    run(async {
        let (issuer, other, endpoint) = (Issuer::start().await, Issuer::start().await, Endpoint::start().await);
        let trusted = [&*issuer.authority, &*other.authority, &*endpoint.server.authority];
        let cluster = cluster(&issuer, &["pintle"], &trusted).await;
        let unverified = "failed to verify signature: failed to verify id token signature";
        for signer in [&issuer, &other] {
            let forged = new_key().sign(&signer.claims(json!({"groups": "a"}))).expect("a token");
            for (response, error) in [
                (signer.token(json!({"aud": "x", "groups": "a"})), "oidc: expected audience \"pintle\" got [\"x\"]"),
                (
                    signer.token(json!({"exp": 0, "groups": "a"})),
                    "oidc: token is expired (Token Expiry: 1970-01-01 00:00:00 +0000 UTC)",
                ),
                (forged, unverified),
            ] {
                let token = issuer.token(endpoint.claims("/groups", 200, &response));
                check_unresolved(&cluster, &token, &format!("verify distributed claim token: {error}")).await;
            }
        }
        let groups = issuer.token(json!({"groups": "a"}));
        let url = endpoint.server.url("/groups");
        let missing = format!("jwt returned by distributed claim endpoint \"{url}\" did not contain claim: groups");
        let token = issuer.token(endpoint.claims("/groups", 200, &issuer.token(json!({}))));
        check_unresolved(&cluster, &token, &missing).await;
        for (code, status) in [(404, "404 Whatever"), (302, "302 Whatever"), (500, "500 Whatever")] {
            let token = issuer.token(endpoint.claims("/groups", code, &groups));
            let error = format!("error while getting distributed claim JWT: {status}");
            let error = format!("while getting distributed claim \"groups\": {error}");
            check_unresolved(&cluster, &token, &error).await;
        }
        let token = issuer.token(endpoint.claims("/groups", 200, &"a".repeat(2 << 20)));
        let error = "while getting distributed claim \"groups\": could not decode distributed claim response";
        check_unresolved(&cluster, &token, error).await;
        let unknown = json!({"_claim_names": {"groups": "s"}, "_claim_sources": {}});
        check_refused(&cluster, &issuer.token(unknown), "oidc: verify token: oidc: source does not exist").await;
        let unknown = json!({"_claim_names": {}});
        check_unresolved(&cluster, &issuer.token(unknown), "oidc: no claim sources").await;
        // Many unknown issuers do not prevent the discovery of others.
        for number in 0..20 {
            let unknown = endpoint.server.url(&format!("/{number}"));
            let response = other.token(json!({"iss": unknown, "groups": "a"}));
            let token = issuer.token(endpoint.claims("/groups", 200, &response));
            let error = format!("verifier not initialized for issuer: \"{unknown}\"");
            check_unresolved(&cluster, &token, &format!("verifying untrusted issuer {unknown} failed: {error}")).await;
        }
        let third = Issuer::start().await;
        let token = issuer.token(endpoint.claims("/groups", 200, &third.token(json!({"groups": "a"}))));
        // The third issuer's certificate is not trusted.
        let error =
            format!("verifying untrusted issuer {0} failed: verifier not initialized for issuer: \"{0}\"", third.url);
        check_unresolved(&cluster, &token, &error).await;
        let token = issuer.token(endpoint.claims("/groups", 200, &other.token(json!({"groups": "a"}))));
        check_groups(&cluster, &token, &["g:a"]).await;
        cluster.stop().await;
    });
}

#[test]
fn responses_of_endpoints_are_for_one_of_the_audiences() {
    run(async {
        let (issuer, endpoint) = (Issuer::start().await, Endpoint::start().await);
        let trusted = [&*issuer.authority, &*endpoint.server.authority];
        let cluster = cluster(&issuer, &["pintle", "hinge"], &trusted).await;
        for audience in [json!("pintle"), json!(["x", "hinge"])] {
            let groups = issuer.token(json!({"aud": audience, "groups": "a"}));
            check_groups(&cluster, &issuer.token(endpoint.claims("/groups", 200, &groups)), &["g:a"]).await;
        }
        let groups = issuer.token(json!({"aud": "x", "groups": "a"}));
        let error = "oidc: expected audience in [\"hinge\" \"pintle\"] got [\"x\"]";
        let token = issuer.token(endpoint.claims("/groups", 200, &groups));
        check_unresolved(&cluster, &token, &format!("verify distributed claim token: {error}")).await;
        cluster.stop().await;
    });
}

#[test]
fn the_issuer_of_a_response_is_tried_again() {
    run(async {
        let (issuer, other, endpoint) = (Issuer::start().await, Issuer::start().await, Endpoint::start().await);
        let trusted = [&*issuer.authority, &*other.authority, &*endpoint.server.authority];
        let clock = manual_clock();
        let cluster = cluster_with(clock.clone(), &issuer, &["pintle"], &trusted).await;
        other.change(|behavior| behavior.code = 500);
        let expiry = 4_000_000_000_i64;
        let groups = other.token(json!({"exp": expiry, "groups": "a"}));
        let mut claims = endpoint.claims("/groups", 200, &groups);
        claims["exp"] = json!(expiry);
        let token = issuer.token(claims);
        let url = &other.url;
        let error = format!("verifying untrusted issuer {url} failed: verifier not initialized for issuer: \"{url}\"");
        check_unresolved(&cluster, &token, &error).await;
        other.change(|behavior| behavior.code = 200);
        // The first attempt has failed, and the next attempt is not due yet.
        check_unresolved(&cluster, &token, &error).await;
        let found = async {
            loop {
                let response = self_review(&cluster, &token).await;
                if response.status == 201 {
                    return response.json()["status"]["userInfo"]["groups"].clone();
                }
            }
        };
        assert_eq!(advance_clock_until(&clock, found).await, json!(["g:a", "system:authenticated"]));
        cluster.stop().await;
    });
}
