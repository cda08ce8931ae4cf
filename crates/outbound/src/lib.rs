//! The HTTP client of the server: bounded calls (webhooks, health checks), streamed requests and responses, and
//! upgrades to other protocols, in HTTP/1.1 and HTTP/2. Errors have the texts of Go's `net/http`, because clients see
//! them. This crate knows nothing of Kubernetes.

mod attempt;
mod client;
mod config;
mod connection;
mod error;
mod exchange;
mod http2;
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
pub use error::{ErrorCause, RequestError};
pub use keep_alive::enable_keep_alive;
pub use response_body::ResponseBody;
pub use tls::{ServerTrust, tls_client_config};
pub use upgrade::{UpgradeResponse, UpgradedStream};
