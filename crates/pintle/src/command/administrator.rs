//! Calls of a running server by its administrator, with the credentials in the server's data directory.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, Uri};
use pintle::KubeconfigCluster;
use pintle::certificates::CertificateAndKey;
use pintle_codec::json::DecodeOptions;
use pintle_outbound::{CallLimits, Client, ClientCertificate, ClientConfig, Credentials, DialAddress, ServerTrust};
use pintle_value::Value;

/// The limits of a call.
const CALL_LIMITS: CallLimits = CallLimits { timeout: Duration::from_secs(60), max_body_bytes: 4 << 20 };

/// The administrator of a running server.
pub(super) struct Administrator {
    client: Client,
    address: DialAddress,
    /// The beginning of URLs. The server's certificate is valid for its host.
    origin: String,
}

impl Administrator {
    /// The administrator of the server with a data directory.
    ///
    /// # Errors
    /// The directory has no credentials.
    pub(super) fn of(data_dir: &Path) -> Result<Self, String> {
        let admin = CertificateAndKey::load_admin(data_dir).map_err(|error| error.to_string())?;
        let cluster = KubeconfigCluster::read(&data_dir.join("admin.kubeconfig"))?;
        let server: Uri = cluster.server.parse().map_err(|error| format!("{}: {error}", cluster.server))?;
        let port = server.port_u16().unwrap_or(443);
        let host = server.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let origin = match &cluster.server_name {
            Some(name) => format!("https://{name}:{port}"),
            None => cluster.server.clone(),
        };
        let authority = cluster.authority()?;
        let client = Client::new(&ClientConfig {
            server_trust: ServerTrust::Authorities(&authority),
            credentials: Some(Credentials {
                origin: origin.parse().map_err(|error| format!("{origin}: {error}"))?,
                client_certificate: Some(ClientCertificate {
                    chain: admin.certificate.as_bytes(),
                    key: admin.key.as_bytes(),
                }),
                bearer_token: None,
            }),
            ..ClientConfig::default()
        });
        Ok(Self { client: client.map_err(|error| error.to_string())?, address: DialAddress { host, port }, origin })
    }

    /// Sends a request with an optional JSON body, and returns the JSON of the answer.
    ///
    /// # Errors
    /// The server cannot be reached or answers with an error.
    pub(super) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.origin))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .body(body.map_or_else(Bytes::new, |body| pintle_codec::json::encode(body).into()));
        let request = request.map_err(|error| error.to_string())?;
        let response = self.client.send_to(Some(&self.address), request, CALL_LIMITS).await;
        let response = response.map_err(|error| error.to_string())?;
        let answer = pintle_codec::json::decode(&response.body().bytes, DecodeOptions::default());
        let answer = answer.map_or(Value::Null, |decoded| decoded.value);
        if !response.status().is_success() {
            return Err(match answer.str_at(&["message"]) {
                "" => format!("the server answered with {}", response.status()),
                message => message.to_owned(),
            });
        }
        Ok(answer)
    }
}

/// Runs a future of a command that calls a server.
///
/// # Errors
/// The runtime cannot be started, or the future fails.
pub(super) fn block_on<T>(future: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(future)
}

/// A text as a segment or a value in a URL.
pub(super) fn url_encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
