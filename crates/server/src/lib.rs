//! The API over HTTP. The modules are layers, and each uses only lower layers. ARCHITECTURE.md has the list, which a test
//! of `xtask` enforces.
//!
//! ```
//! // The answer of `GET /version`. [`ApiServer::start`](crate::ApiServer::start) starts the API over a store.
//! let version = pintle_server::version(pintle_versions::EffectiveVersion::default());
//! assert_eq!((version.str_at(&["major"]), version.str_at(&["minor"])), ("1", "36"));
//! assert!(version.str_at(&["gitVersion"]).contains("+pintle-"));
//! ```

mod access;
mod aggregation;
mod client_protocols;
mod cluster;
mod connect;
mod context;
mod controllers;
mod conversion;
mod egress;
pub mod fuzzing;
mod handlers;
pub mod http;
mod objects;
mod observe;
mod pipeline;
mod read;
mod represent;
mod request;
mod service_accounts;
mod startup;
mod webhook;
mod write;

pub use access::{
    AccessControl, CountedAuthorizer, JwtAuthenticators, NodeAuthorizer, RbacAuthorizer, ReloadableAuthorizer,
    ReloadableJwtAuthenticators, TokenWebhookAuthenticator, WebhookAuthorizer, record_authorization_reload,
};
pub use cluster::{
    AggregationOptions, Cluster, Component, FrontProxyCertificate, KubeletOptions, MemoryBudget, MemoryUsage,
    OWN_RECORDS_PREFIX, ResidentMemory, SERVER_ADDRESSES_PREFIX, ServiceAccountConfig, StorageMetrics, StorageOverride,
    TreeEncoder,
};
pub use controllers::ControllerOptions;
pub use conversion::{EncryptedForm, StoredForm};
pub use egress::{EgressSelector, EgressType};
pub use handlers::health::ENCRYPTION_RELOAD_TASK;
pub use handlers::{BuildInfo, set_build_info, version};
pub use http::Cors;
pub use observe::{
    InjectedFailure, Intervention, ObservedAnswer, ObservedConnection, ObservedRequest, RedactedBody, RequestBody,
    RequestObserver,
};
pub use pintle_controllers::server_name;
pub use pintle_kinds::{EmulationOptions, NetworkError, RuntimeConfig, ServiceNetwork};
pub use pintle_supervisor::RecoveryTimes;
pub use pipeline::RequestLimits;
pub use request::observed::{Interruption, Interruptions};
pub use service_accounts::{bootstrap_token_lookup, service_account_lookup, token_cache_observer};
pub use startup::{AccessBuilder, ApiServer, ClusterConfig, ClusterError};
pub use webhook::AuditWebhook;
