//! An issuer of JSON Web Tokens in the test's process.

use std::sync::Arc;

use parking_lot::Mutex;
use pintle_auth::jwt::{SigningKey, write_jwks};
use pintle_integration::{HttpsServer, SentResponse};
use serde_json::{Value, json};

/// The behavior of an issuer.
pub(crate) struct IssuerBehavior {
    /// The `issuer` of the discovery document; by default the URL.
    pub(crate) name: Option<String>,
    /// The response with the keys.
    pub(crate) jwks: Vec<u8>,
    /// A header line of the response with the keys.
    pub(crate) header: String,
    /// The status code of both documents.
    pub(crate) code: u16,
    /// Whether the issuer never answers.
    pub(crate) hangs: bool,
}

/// A running issuer.
pub(crate) struct Issuer {
    pub(crate) url: String,
    pub(crate) authority: String,
    pub(crate) key: SigningKey,
    behavior: Arc<Mutex<IssuerBehavior>>,
    /// The numbers of fetches of the discovery document and of the keys.
    fetches: Arc<Mutex<(usize, usize)>>,
}

/// A new key on the curve P-256.
pub(crate) fn new_key() -> SigningKey {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
    SigningKey::from_pem(pair.serialize_pem().as_bytes()).expect("a key")
}

impl Issuer {
    /// Starts an issuer. It serves its discovery document at two paths.
    pub(crate) async fn start() -> Self {
        let key = new_key();
        let behavior = Arc::new(Mutex::new(IssuerBehavior {
            name: None,
            jwks: write_jwks([key.public_key()]).into_bytes(),
            header: "Server: issuer".into(),
            code: 200,
            hangs: false,
        }));
        let fetches = Arc::new(Mutex::new((0, 0)));
        let (answering, counting) = (behavior.clone(), fetches.clone());
        let server = HttpsServer::start_with_http2(&["127.0.0.1"], move |request| {
            let (answering, counting) = (answering.clone(), counting.clone());
            async move {
                if answering.lock().hangs {
                    std::future::pending::<()>().await;
                }
                let behavior = answering.lock();
                let base = request.header("host").unwrap_or_default();
                let url = format!("https://{base}");
                if request.protocol() != "HTTP/2.0" {
                    return SentResponse::new(505, "");
                }
                match &*request.path {
                    "/.well-known/openid-configuration" | "/elsewhere" => {
                        counting.lock().0 += 1;
                        let issuer = behavior.name.clone().unwrap_or_else(|| url.clone());
                        let document = json!({"issuer": issuer, "jwks_uri": format!("{url}/keys")});
                        SentResponse::json(behavior.code, document.to_string())
                    }
                    "/keys" => {
                        counting.lock().1 += 1;
                        SentResponse::json(behavior.code, behavior.jwks.clone()).header(&behavior.header)
                    }
                    _ => SentResponse::new(404, ""),
                }
            }
        })
        .await;
        Self { url: server.url(""), authority: server.authority, key, behavior, fetches }
    }

    /// Changes the issuer's behavior.
    pub(crate) fn change(&self, change: impl FnOnce(&mut IssuerBehavior)) {
        change(&mut self.behavior.lock());
    }

    /// The number of fetches of the keys.
    pub(crate) fn key_fetches(&self) -> usize {
        self.fetches.lock().1
    }

    /// The claims of a token that is valid for an hour, with changes. Null removes a claim.
    pub(crate) fn claims(&self, changes: Value) -> Value {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs();
        let mut claims = json!({"iss": self.url, "aud": "pintle", "sub": "jane", "exp": now + 3600});
        for (claim, value) in changes.as_object().into_iter().flatten() {
            claims[claim] = value.clone();
        }
        claims.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
        claims
    }

    /// A token with changed claims.
    pub(crate) fn token(&self, changes: Value) -> String {
        self.key.sign(&self.claims(changes)).expect("a token")
    }
}
