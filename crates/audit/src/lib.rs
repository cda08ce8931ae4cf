//! Audit policies, events, and the backends that record events (upstream: `apiserver/pkg/audit`,
//! `apiserver/plugin/pkg/audit`). The server evaluates a [`Policy`] for each request, makes an [`Event`] at each stage,
//! and passes it to the [`AuditBackend`]. This crate knows no HTTP and no handlers.
//!
//! ```
//! use std::sync::Arc;
//!
//! use pintle_audit::{AuditBackend, AuditMetrics, AuditOptions, Event, Level, Policy};
//! use pintle_auth::{AuthorizationAttributes, UserInfo};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() {
//!     let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n  verbs: [delete]\n";
//!     let policy = Policy::parse(policy.as_bytes()).expect("a valid policy");
//!     let user = UserInfo { name: "jane".into(), ..UserInfo::default() };
//!     let attributes = AuthorizationAttributes { verb: "delete", resource: "pods", ..AuthorizationAttributes::default() };
//!     let decision = policy.decide(Some(&user), &attributes);
//!     assert_eq!(decision.level, Level::Metadata);
//!
//!     let folder = tempfile::tempdir().expect("a folder");
//!     let path = folder.path().join("audit.log");
//!     let mut options = AuditOptions::default();
//!     options.log.path = path.display().to_string();
//!     assert!(options.validate().is_empty());
//!     let metrics = Arc::new(AuditMetrics::default());
//!     let backend = AuditBackend::open(&options, None, &metrics).expect("a writable folder").expect("a log");
//!     assert!(backend.process(Event { level: decision.level, user, ..Event::default() }).await);
//!     assert!(std::fs::read_to_string(path).expect("a file").contains(r#""user":{"username":"jane"}"#));
//! }
//! ```

mod auditor;
mod backend;
mod buffered;
mod event;
mod level;
mod log;
mod memory;
mod metrics;
mod options;
mod policy;
mod sink;
mod throttle;
mod truncate;

pub use auditor::Auditor;
pub use backend::AuditBackend;
pub use event::{
    AuthenticationMetadata, Event, InvalidJson, ObjectReference, ResponseStatus, StatusCause, StatusDetails,
    event_list_json, is_json, without_managed_fields,
};
pub use level::{Level, Stage, Stages};
pub use metrics::AuditMetrics;
pub use options::{AuditOptions, BatchOptions, LogOptions, TruncateOptions, WebhookOptions};
pub use policy::{AuditDecision, Policy};
pub use sink::{Sink, SinkFuture};
