//! Client certificates and bearer tokens.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, LOCATION};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use pintle_outbound::{
    BearerToken, CallLimits, Client, ClientCertificate, ClientConfig, ClientConfigError, Credentials, ErrorCause,
    ServerTrust,
};
use rcgen::{CertificateParams, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

use crate::support::{GENEROUS, ServerBody, empty, serve, server_config, serving_certificate, text, within};

const LIMITS: CallLimits = CallLimits { max_body_bytes: 100, ..GENEROUS };

/// Responds with the `Authorization` header. `/redirect` redirects to another host.
async fn handle(_: usize, request: Request<Incoming>) -> Response<ServerBody> {
    if request.uri().path() == "/redirect" {
        let response = Response::builder().status(StatusCode::FOUND).header(LOCATION, "https://127.0.0.2:1/");
        return response.body(empty()).expect("a response");
    }
    let authorization = request.headers().get(AUTHORIZATION).map(|value| value.to_str().expect("text"));
    Response::new(text(authorization.unwrap_or("none")))
}

fn credentials(origin: &str) -> Credentials<'static> {
    let origin = origin.parse().expect("a URI");
    Credentials { origin, client_certificate: None, bearer_token: Some(BearerToken("secret")) }
}

fn request(url: String) -> Request<Bytes> {
    Request::get(url).body(Bytes::new()).expect("a request")
}

#[tokio::test]
async fn a_bearer_token_goes_to_its_origin_only() {
    within(async {
        let (pem, acceptor) = serving_certificate();
        let (address, other) = (serve(Some(acceptor.clone()), handle).await, serve(Some(acceptor), handle).await);
        let server_trust = ServerTrust::Authorities(pem.as_bytes());
        let credentials = Some(credentials(&format!("https://{address}")));
        let client =
            Client::new(&ClientConfig { server_trust, credentials, ..ClientConfig::default() }).expect("a client");
        let response = client.send(request(format!("https://{address}/")), LIMITS).await.expect("a response");
        assert_eq!(response.body().bytes, "Bearer secret");
        // The request's own header has precedence.
        let own = Request::get(format!("https://{address}/")).header(AUTHORIZATION, "Bearer own");
        let response = client.send(own.body(Bytes::new()).expect("a request"), LIMITS).await.expect("a response");
        assert_eq!(response.body().bytes, "Bearer own");
        // The client treats a redirect like any other response.
        let response = client.send(request(format!("https://{address}/redirect")), LIMITS).await.expect("a response");
        assert_eq!(
            (response.status(), &response.headers()[LOCATION]),
            (StatusCode::FOUND, &"https://127.0.0.2:1/".parse().expect("a value"))
        );
        for url in [format!("https://{other}/"), format!("http://{address}/"), "https://example.com/".to_owned()] {
            let error = client.send(request(url), LIMITS).await.expect_err("another origin");
            assert!(matches!(error.cause, ErrorCause::ForeignOrigin), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_certificate_is_presented() {
    within(async {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("names");
        let serving = params.self_signed(&key).expect("a certificate");
        let client_key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.extended_key_usages.push(rcgen::ExtendedKeyUsagePurpose::ClientAuth);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = params.self_signed(&client_key).expect("a certificate");
        let leaf_key = KeyPair::generate().expect("a key");
        let mut leaf = CertificateParams::default();
        leaf.extended_key_usages.push(rcgen::ExtendedKeyUsagePurpose::ClientAuth);
        let leaf = leaf.signed_by(&leaf_key, &rcgen::Issuer::new(params, client_key)).expect("a certificate");

        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let config = server_config().with_client_cert_verifier(verifier.expect("a verifier"));
        let serving_key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let config = config.with_single_cert(vec![serving.der().clone()], serving_key).expect("a configuration");
        let address = serve(Some(TlsAcceptor::from(Arc::new(config))), handle).await;

        let (serving, leaf, leaf_key) = (serving.pem(), leaf.pem(), leaf_key.serialize_pem());
        let certificate = ClientCertificate { chain: leaf.as_bytes(), key: leaf_key.as_bytes() };
        let origin: http::Uri = format!("https://{address}").parse().expect("a URI");
        let presented = Credentials { origin, client_certificate: Some(certificate), bearer_token: None };
        let server_trust = ServerTrust::Authorities(serving.as_bytes());
        for (credentials, expect) in [(Some(presented), true), (None, false)] {
            let client =
                Client::new(&ClientConfig { server_trust, credentials, ..ClientConfig::default() }).expect("a client");
            let response = client.send(request(format!("https://{address}/")), LIMITS).await;
            assert_eq!(response.is_ok(), expect, "{response:?}");
        }
    })
    .await;
}

#[test]
fn unsafe_or_invalid_credentials_are_refused() {
    let check = |server_trust: ServerTrust<'_>, credentials: Credentials<'_>, expect: &str| {
        let error =
            Client::new(&ClientConfig { server_trust, credentials: Some(credentials), ..ClientConfig::default() })
                .err();
        assert_eq!(error.map(|error: ClientConfigError| error.to_string()).as_deref(), Some(expect));
    };
    let insecure = "a bearer token needs a server whose certificate is verified";
    check(ServerTrust::InsecureSkipVerify, credentials("https://127.0.0.1"), insecure);
    let origin = "credentials need an https origin, got \"http://127.0.0.1/\"";
    check(ServerTrust::System, credentials("http://127.0.0.1/"), origin);
    let malformed = Credentials { bearer_token: Some(BearerToken("a\nb")), ..credentials("https://127.0.0.1") };
    check(ServerTrust::System, malformed, "the bearer token is not a valid header value");
}

#[test]
fn secrets_are_not_printed() {
    let certificate = ClientCertificate { chain: b"chain", key: b"secret" };
    let credentials = Credentials { client_certificate: Some(certificate), ..credentials("https://127.0.0.1") };
    let printed = format!(
        "{:?}",
        ClientConfig { server_trust: ServerTrust::System, credentials: Some(credentials), ..ClientConfig::default() }
    );
    assert!(!printed.contains("secret") && !printed.contains("115, 101"), "{printed}");
}
