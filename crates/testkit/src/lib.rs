//! A Kubernetes control plane inside the process of a test, for authors of controllers. It starts in milliseconds, and
//! needs no binaries, no Docker and no network.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::Api;
//! use pintle_testkit::TestCluster;
//!
//! #[tokio::test]
//! async fn maps_can_be_listed() {
//!     let cluster = TestCluster::start().await;
//!     let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
//!     let found = maps.list(&Default::default()).await.unwrap();
//!     assert_eq!(found.items[0].metadata.name.as_deref(), Some("kube-root-ca.crt"));
//! }
//! ```
//!
//! The server is that of `pintle serve`: the same API, defaults, validation and admission as kube-apiserver 1.36, with
//! RBAC, service accounts, and the controllers on which the API relies (namespaces, garbage collection, service accounts,
//! quotas). **No pods are run**: there is no scheduler, no kubelet and no controller manager, so pods stay `Pending` and
//! deployments get no replica sets. A test writes the status that its controller waits for.
//!
//! Each cluster is on its own: tests run in parallel, each with one or several clusters. A cluster has its own threads, so
//! any tokio runtime does, also one with a single thread, and any size of stack.
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
//! Versions: types of the crates `kube` and `k8s-openapi` are part of this crate's API, so its major version changes with
//! theirs. The program that is tested chooses the features of both, and the version of `k8s-openapi`.

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
