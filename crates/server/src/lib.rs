//! The API over HTTP. The modules are layers. Each layer uses only the layers above it in this list:
//!
//! 1. `http`, `client_protocols`: sockets, TLS, connections, bodies; which protocols the clients of the server offer
//! 2. `request`: request info, query parameters, content negotiation
//! 3. `cluster`: the state that all requests and controllers share
//! 4. `webhook`; `access`, `objects`, `conversion`: access control; decoding and encoding; objects at API versions
//! 5. `context`, `represent`: everything known about a request; response formats
//! 6. `read`, then `write`: get, list and watch from the watch cache; writes through the guaranteed update
//! 7. `connect`: connections of clients with pods, services and nodes; `handlers`: choose the operation of a request
//! 8. `observe`: observers of requests and their answers
//! 9. `pipeline`: the handler chain of every request
//! 10. `controllers`, `service_accounts`, `startup`: background tasks, the objects to which tokens are bound, and
//!    [`ApiServer`], which starts everything

mod access;
mod client_protocols;
mod cluster;
mod connect;
mod context;
mod controllers;
mod conversion;
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
    Cluster, Component, KubeletOptions, MemoryBudget, MemoryUsage, OWN_RECORDS_PREFIX, ResidentMemory,
    SERVER_ADDRESSES_PREFIX, ServiceAccountConfig, StorageMetrics, StorageOverride, TreeEncoder,
};
pub use controllers::ControllerOptions;
pub use handlers::{BuildInfo, set_build_info, version};
pub use http::Cors;
pub use observe::{
    InjectedFailure, Intervention, ObservedAnswer, ObservedConnection, ObservedRequest, RedactedBody, RequestBody,
    RequestObserver,
};
pub use pintle_controllers::server_name;
pub use pintle_kinds::{NetworkError, RuntimeConfig, ServiceNetwork};
pub use pintle_supervisor::RecoveryTimes;
pub use pipeline::RequestLimits;
pub use represent::StoredForm;
pub use request::observed::{Interruption, Interruptions};
pub use service_accounts::{bootstrap_token_lookup, service_account_lookup, token_cache_observer};
pub use startup::{AccessBuilder, ApiServer, ClusterConfig, ClusterError};
