//! The documents of issuers, and the tokens of several issuers and keys.

use pintle::{Options, ServiceAccountOptions};
use pintle_auth::jwt::SigningKey;
use pintle_integration::run;
use serde_json::json;

use super::{ISSUER, claims, decode, start, token, whoami};

#[test]
fn relying_parties_find_the_keys_of_the_issuer() {
    run(async {
        let cluster = start(Options::default()).await;
        let configuration = cluster.get("/.well-known/openid-configuration").await.expect(200);
        assert_eq!(configuration.header("content-type"), "application/json");
        assert_eq!(configuration.header("cache-control"), "public, max-age=3600");
        let jwks_uri = format!("{}/openid/v1/jwks", cluster.url());
        let expect = json!({
            "issuer": ISSUER,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        });
        assert_eq!(configuration.json(), expect);
        let keys = cluster.get("/openid/v1/jwks").await.expect(200);
        assert_eq!(keys.header("content-type"), "application/jwk-set+json");
        assert_eq!(keys.header("cache-control"), "public, max-age=3600");
        let token = token(&cluster, json!({})).await;
        let published = pintle_auth::jwt::parse_jwks(keys.text().as_bytes()).expect("keys");
        let jws = pintle_auth::jwt::CompactJws::parse(&token).expect("a token");
        assert!(published.len() == 1 && jws.verify(&published[0]).is_ok());
        assert_eq!(published[0].id(), jws.header().kid);
        let paths = cluster.get("/").await.expect(200).json();
        let paths = paths["paths"].as_array().expect("paths");
        for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
            assert!(paths.contains(&path.into()), "{path}");
            let _ = cluster.request("POST", path).json("{}").send().await.expect(405);
        }
        let refused = cluster.request("GET", "/openid/v1/jwks").header("accept", "application/json").send().await;
        refused.expect_error(
            406,
            "NotAcceptable",
            "406: Not Acceptable\n\nAvailable representations: application/jwk-set+json",
        );
        cluster.stop().await;
    });
}

#[test]
fn issuer_that_is_no_url_has_no_documents() {
    run(async {
        let service_accounts =
            ServiceAccountOptions { issuers: vec!["mine".into(), ISSUER.into()], ..ServiceAccountOptions::default() };
        let cluster = start(Options { service_accounts, ..Options::default() }).await;
        let _ = cluster.get("/.well-known/openid-configuration").await.expect(404);
        let token = token(&cluster, json!({})).await;
        assert_eq!(claims(&token)["iss"], "mine");
        assert_eq!(claims(&token)["aud"], json!(["mine", ISSUER]));
        let _ = whoami(&cluster, &token).await;
        cluster.stop().await;
    });
}

#[test]
fn tokens_of_all_configured_keys_and_issuers_are_accepted() {
    run(async {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path
        };
        // These keys come from the tests of key formats.
        let rsa = include_str!("../../../../auth/tests/jwt/rsa.pkcs1.pem");
        let p384 = include_str!("../../../../auth/tests/jwt/p384.sec1.pem");
        let certificate = file("sa-signer.crt", include_str!("../../../../auth/tests/jwt/rsa.certificate.pem"));
        let public = file("old.pub", include_str!("../../../../auth/tests/jwt/p384.public.pem"));
        let service_accounts = ServiceAccountOptions {
            issuers: vec![ISSUER.into(), "https://old".into()],
            signing_key_file: Some(file("sa-signer.key", rsa)),
            key_files: vec![certificate, public],
            ..ServiceAccountOptions::default()
        };
        let cluster = start(Options { service_accounts, ..Options::default() }).await;
        let signed = token(&cluster, json!({})).await;
        assert_eq!(decode(signed.split('.').next().expect("a header"))["alg"], "RS256");
        let mut claims = claims(&signed);
        let old = SigningKey::from_pem(p384.as_bytes()).expect("a key");
        for issuer in [ISSUER, "https://old"] {
            claims["iss"] = issuer.into();
            let user = whoami(&cluster, &old.sign(&claims).expect("a token")).await;
            assert_eq!(user["username"], "system:serviceaccount:default:robot");
        }
        let keys = cluster.get("/openid/v1/jwks").await.expect(200).json();
        let algorithms: Vec<_> = keys["keys"].as_array().expect("keys").iter().map(|key| key["alg"].clone()).collect();
        assert_eq!(algorithms, ["RS256", "ES384"]);
        cluster.stop().await;
    });
}
