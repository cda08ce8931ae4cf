//! A Kubernetes control plane inside the process of a test, for authors of controllers. It starts in milliseconds, and
//! needs no binaries, no Docker and no network.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::Api;
//! use pintle_testkit::TestCluster;
//!
//! // A test is a function with `#[tokio::test]`.
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() {
//!     let cluster = TestCluster::start().await;
//!     let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
//!     let found = maps.list(&Default::default()).await.unwrap();
//!     assert_eq!(found.items[0].metadata.name.as_deref(), Some("kube-root-ca.crt"));
//! }
//! ```
//!
//! The server is Pintle, as `pintle serve` runs it. It has the API, defaults, validation and admission of
//! kube-apiserver 1.36, with RBAC and service accounts. The controllers on which the API relies run (namespaces,
//! garbage collection, service accounts, quotas). **No pods are run**: there is no scheduler, no kubelet and no
//! controller manager, so pods stay `Pending` and deployments get no replica sets. A test writes the status that its
//! controller waits for.
//!
//! Clusters are independent: tests run in parallel, each with one or several clusters. A cluster has its own threads,
//! so any tokio runtime works, even with a single thread, and any stack size.
//!
//! | what | how |
//! |---|---|
//! | users and service accounts under RBAC | [`TestCluster::user`], [`TestCluster::service_account`] |
//! | custom resources | [`TestCluster::apply_crd`], [`TestCluster::apply`] |
//! | time: expiry of tokens and events, leases, bookmarks | [`TestCluster::clock`] |
//! | failing requests, lost connections, watches with 410 Gone | [`TestCluster::faults`] |
//! | what the controller has sent | [`TestCluster::requests`] |
//! | what there is, when a test fails | [`TestCluster::dump`], which a failing test prints by itself |
//!
//! Types of the crates `kube` and `k8s-openapi` are part of this crate's API, so its major version changes with theirs.
//! The tested program chooses the features of both crates, and the Kubernetes version of `k8s-openapi`.

mod access;
mod builder;
mod clock;
mod cluster;
mod dump;
mod error;
mod faults;
mod filter;
mod manifests;
mod observer;
mod requests;
mod user;

pub use builder::TestClusterBuilder;
pub use clock::Clock;
pub use cluster::TestCluster;
pub use error::Error;
pub use faults::{Fault, Faults, InjectedFault};
pub use filter::RequestFilter;
pub use requests::{RecordedRequest, Requests};
pub use user::{ServiceAccountUser, User};
