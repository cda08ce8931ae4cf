//! Assembles a server from its parts: certificates, kubeconfig, store, API server and listener. The binary is a thin
//! shell around [`Server`]; tests start one in their own process.
//!
//! ```
//! use pintle::{Options, Server};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Objects are stored in memory, and the server listens on a free port.
//!     let server = Server::start(Options::default()).await?;
//!     assert!(server.url.starts_with("https://127.0.0.1:"));
//!     assert!(server.kubeconfig.contains(&server.url));
//!     server.stop().await?;
//!     Ok(())
//! }
//! ```

mod access;
mod admission;
mod advertise;
mod audit;
mod authentication;
mod authorization;
pub mod certificates;
pub mod cgroup;
mod client_certificate;
mod cluster_keys;
mod config_file;
mod engine;
mod front_proxy;
mod kubeconfig;
mod migration;
mod renewal;
mod request_log;
mod server;
mod service_accounts;
mod serving;
mod snapshot;
mod store_encryption;

pub use access::AccessOptions;
pub use admission::read_admission_configuration;
pub use authentication::{AuthenticationOptions, OidcOptions, TokenWebhookOptions};
pub use authorization::{AuthorizationMode, AuthorizationOptions};
pub use client_certificate::{CertificateUser, sign_client_certificate};
pub use engine::{Engine, EtcdConfig, EtcdServersOverride, StoreFolder};
pub use front_proxy::AggregatorOptions;
pub use kubeconfig::{KubeconfigCluster, KubeconfigCredentials};
pub use migration::{MigrationError, MigrationOptions, MigrationReport, MigrationTarget, migrate};
pub use pintle_audit::AuditOptions;
pub use pintle_auth::{RequestHeaderNames, TokenCacheTtl};
pub use pintle_encryption::EncryptionOptions;
pub use pintle_server::{
    Component, EgressSelector, EmulationOptions, InjectedFailure, Interruption, Interruptions, Intervention,
    KubeletOptions, MemoryBudget, MemoryUsage, NetworkError, ObservedAnswer, ObservedConnection, ObservedRequest,
    RequestBody, RequestObserver, ResidentMemory, RuntimeConfig, ServiceNetwork, StorageMetrics,
};
pub use pintle_store::EtcdCertificateFiles;
pub use pintle_store::{Clock, Durability, ManualClock, SystemClock, Timestamp};
pub use request_log::RequestLogError;
pub use server::{DEFAULT_ENCODING_CACHE_MIB, MAX_STOP_TIME, Options, Server, StartError};
pub use service_accounts::{DEFAULT_SERVICE_ACCOUNT_ISSUER, ServiceAccountOptions};
pub use serving::{CertificateFiles, NamedCertificate, ServingError, TlsOptions};
pub use snapshot::Snapshot;
pub use store_encryption::{StoreEncryptionOptions, StoreKeySource};
