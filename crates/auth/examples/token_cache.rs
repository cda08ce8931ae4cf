//! Measures the authentication of a token of a service account: with its signature, and from the cache.
//!
//! `cargo run --release -p pintle-auth --example token_cache`

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_auth::jwt::SigningKey;
use pintle_auth::service_account::{
    BoundObject, BoundTokenRequest, ObjectIdentity, PublicKeys, SecretToken, ServiceAccountAuthenticator,
    ServiceAccountLookup, ServiceAccountTokens, TokenIssuer, TokenUse, WebhookConfigurationKind,
};
use pintle_auth::{AuthFuture, CachedTokenAuthenticator, TokenAuthenticator, TokenCacheObserver, TokenCacheTtl};
use pintle_value::Str;
use pintle_value::time::Time;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// A cluster in which every object exists.
struct AnyCluster;

fn anything() -> ObjectIdentity {
    ObjectIdentity { uid: "1c0e6e4e-2d9c-4c2e-8f0e-0d4c6f1b7a10".into(), deleted_at: None }
}

impl ServiceAccountLookup for AnyCluster {
    fn now(&self) -> Time {
        Time::from_seconds(1_800_000_000)
    }

    fn service_account(&self, _: &str, _: &str) -> Result<ObjectIdentity, String> {
        Ok(anything())
    }

    fn pod(&self, _: &str, _: &str) -> Option<ObjectIdentity> {
        Some(anything())
    }

    fn node(&self, _: &str) -> Option<ObjectIdentity> {
        Some(anything())
    }

    fn secret(&self, _: &str, _: &str) -> Option<ObjectIdentity> {
        Some(anything())
    }

    fn webhook_configuration(&self, _: WebhookConfigurationKind, _: &str) -> Option<ObjectIdentity> {
        Some(anything())
    }

    fn secret_token(&self, _: &str, _: &str, _: &str) -> Option<SecretToken> {
        None
    }

    fn set_last_used<'a>(&'a self, _: &'a str, _: &'a str, _: &'a str, _: String) -> AuthFuture<'a, ()> {
        AuthFuture::ready(())
    }

    fn record_use(&self, _: TokenUse) {}
}

struct Unobserved;

impl TokenCacheObserver for Unobserved {
    fn authenticated(&self, _: bool, _: Duration) {}
    fn blocked(&self, _: i64) {}
    fn fetch_started(&self) {}
    fn fetch_ended(&self, _: Option<bool>) {}
}

/// Prints the average cost of one authentication.
fn measure(what: &str, count: u32, authenticator: &dyn TokenAuthenticator, tokens: &[String]) {
    let started = Instant::now();
    for number in 0..count {
        let token = &tokens[number as usize % tokens.len()];
        let found = authenticator.authenticate_token(token, &[]);
        assert!(matches!(found, AuthFuture::Ready(Some(Ok(Some(_))))), "{what}");
    }
    let nanoseconds = started.elapsed().as_nanos() as f64 / f64::from(count);
    let _ = writeln!(std::io::stdout(), "{what}: {:.2} µs", nanoseconds / 1000.0);
}

fn main() {
    let (p256, p384) = (include_str!("../tests/jwt/p256.sec1.pem"), include_str!("../tests/jwt/p384.sec1.pem"));
    for (name, pem) in [("ES256", p256), ("ES384", p384), ("RS256", include_str!("../tests/jwt/rsa.pkcs8.pem"))] {
        let key = SigningKey::from_pem(pem.as_bytes()).expect("a key");
        let keys = Arc::new(PublicKeys(vec![key.public_key().clone()]));
        let issuer = TokenIssuer::new(ISSUER.into(), key);
        let uid = anything().uid;
        let token = |number: usize| {
            let request = BoundTokenRequest {
                namespace: "default".into(),
                name: "robot".into(),
                uid: uid.clone(),
                bound: Some(BoundObject::Pod {
                    pod: (format!("deployment-5d4f8c7b9-{number:05}").into(), uid.clone()),
                    node: Some(("node-1.example.com".into(), uid.clone())),
                }),
                audiences: vec![ISSUER.into()],
                now: AnyCluster.now(),
                expiration_seconds: 3600,
                warn_after_seconds: None,
                id: uid.clone(),
            };
            issuer.issue(request).expect("a token").0
        };
        let tokens: Vec<String> = (0..1000).map(token).collect();
        let _ = writeln!(std::io::stdout(), "{name}: tokens of {} bytes", tokens[0].len());
        let authenticator = || ServiceAccountAuthenticator {
            tokens: ServiceAccountTokens::Bound { issuers: vec![ISSUER.into()] },
            keys: keys.clone(),
            audiences: vec![Str::from(ISSUER)],
            lookup: Arc::new(AnyCluster),
        };
        measure("verified", 2000, &authenticator(), &tokens);
        let cached = CachedTokenAuthenticator::new(authenticator(), TokenCacheTtl::DEFAULT, Box::new(Unobserved));
        measure("into the cache", 1000, &cached, &tokens);
        measure("from the cache, one token", 200_000, &cached, &tokens[..1]);
        measure("from the cache, 1000 tokens", 200_000, &cached, &tokens);
    }
}
