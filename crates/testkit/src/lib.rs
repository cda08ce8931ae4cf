//! A cluster for tests, in the test's own process and ready in milliseconds, with a small language to ask and expect:
//!
//! ```no_run
//! use pintle_testkit::Cluster;
//!
//! pintle_testkit::run(async {
//!     let cluster = Cluster::start().await;
//!     let object = r#"{"metadata": {"name": "a"}, "data": {"k": "v"}}"#;
//!     cluster.post("/api/v1/namespaces/default/configmaps", object).await.expect(201);
//!     let found = cluster.get("/api/v1/namespaces/default/configmaps/a").await.expect(200).json();
//!     assert_eq!(found["data"]["k"], "v");
//! });
//! ```
//!
//! What goes wrong in here panics with what was asked and what came, since that is what a test wants to see.

mod client;
mod cluster;
mod furnished;
mod instance;
mod port;
mod program;
mod runtime;
mod time;

pub use client::{Answer, Ask, Broken, Client, Protocol, Stream, Watch};
pub use cluster::{Cluster, Socket};
pub use furnished::furnished;
pub use program::{program, walks_through};
pub use runtime::run;
pub use time::{hurry, manual_clock};

pub use pintle::{Component, Engine, ManualClock, Options, Timestamp};
