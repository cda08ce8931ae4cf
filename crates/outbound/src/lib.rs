//! The HTTP client of the server: bounded calls (webhooks, health checks), streamed requests and responses, and
//! upgrades to other protocols. It speaks HTTP/1.1 and HTTP/2, directly or through proxies. Errors have the texts of
//! Go's `net/http`, because clients see them. This crate knows nothing of Kubernetes.
//!
//! ```
//! use std::time::Duration;
//!
//! use pintle_outbound::{CallLimits, Client, ClientConfig, Dialer, Protocols, ServerTrust};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() {
//!     let config = ClientConfig {
//!         server_trust: ServerTrust::InsecureSkipVerify,
//!         credentials: None,
//!         protocols: Protocols::Http1,
//!         dialer: Dialer::Direct,
//!     };
//!     let client = Client::new(&config).expect("no credentials to refuse");
//!     let request = http::Request::get("http://127.0.0.1:1/").body(bytes::Bytes::new()).expect("a request");
//!     let limits = CallLimits { timeout: Duration::from_secs(10), max_body_bytes: 1 << 20 };
//!     let error = client.send(request, limits).await.expect_err("nothing listens");
//!     assert!(error.to_string().ends_with("dial tcp 127.0.0.1:1: connect: connection refused"), "{error}");
//! }
//! ```

mod attempt;
mod client;
mod config;
mod connection;
mod dialer;
mod error;
mod exchange;
mod http2;
mod http_connect;
mod idle_timer;
mod keep_alive;
mod pool;
mod request_body;
mod response_body;
mod settings_observer;
mod tls;
mod upgrade;

pub use client::{BoundedBody, CallLimits, Client, DialAddress, StreamOptions};
pub use config::{
    BearerToken, ClientCertificate, ClientConfig, ClientConfigError, Credentials, Http2HealthCheck, Protocols,
};
pub use dialer::{ByteStream, DialMetrics, Dialer, HttpConnectProxy, Transport};
pub use error::{ErrorCause, RequestError};
pub use keep_alive::enable_keep_alive;
pub use response_body::ResponseBody;
pub use tls::{ServerTrust, tls_client_config};
pub use upgrade::{UpgradeResponse, UpgradedStream};
