//! An in-process cluster for tests, ready in milliseconds, with a client to send requests and assert responses:
//!
//! ```
//! use pintle_integration::Cluster;
//!
//! pintle_integration::run(async {
//!     let cluster = Cluster::start().await;
//!     let object = r#"{"metadata": {"name": "a"}, "data": {"k": "v"}}"#;
//!     cluster.post("/api/v1/namespaces/default/configmaps", object).await.expect(201);
//!     let found = cluster.get("/api/v1/namespaces/default/configmaps/a").await.expect(200).json();
//!     assert_eq!(found["data"]["k"], "v");
//! });
//! ```
//!
//! Failed assertions panic with the request and the response.

mod access_services;
mod aggregated_server;
mod api_services;
mod attacks;
mod bootstrapped;
mod client;
mod cluster;
mod costly_requests;
mod etcd;
mod eventually;
mod generic_admission;
mod https_server;
mod instance;
mod kubelet;
mod metrics_server;
mod process_memory;
mod runtime;
mod time;
mod tools;

pub use access_services::AccessServices;
pub use aggregated_server::AggregatedServer;
pub use api_services::{API_SERVICE, SERVICE_HOST, condition};
pub use attacks::{ATTACKS, Attack, AttackEnd, AttackTarget};
pub use bootstrapped::bootstrapped;
pub use client::{Client, ConnectionError, Protocol, RequestBuilder, Response, ResponseStream, Watch};
pub use cluster::{Cluster, Socket};
pub use costly_requests::{COSTLY_REQUESTS, CostlyRequest};
pub use etcd::Etcd;
pub use eventually::{eventually, expect_waiting};
pub use generic_admission::generic_admission;
pub use https_server::{HttpsServer, ReceivedRequest, SentBody, SentResponse};
pub use kubelet::{Kubelet, POD_ADDRESS};
pub use metrics_server::{ContainerUsage, MetricsServer, start_metrics_kubelet};
pub use process_memory::ProcessMemory;
pub use runtime::run;
pub use time::{advance_clock_until, manual_clock};
pub use tools::{run_client_program, tool_path};

pub use pintle::{
    AccessOptions, AuditOptions, AuthorizationMode, AuthorizationOptions, Component, Engine, ManualClock, Options,
    RuntimeConfig, ServiceNetwork, Timestamp,
};
pub use pintle::{EncryptionOptions, StoreEncryptionOptions, StoreKeySource};
pub use pintle_etcd_process::ReservedPort;
