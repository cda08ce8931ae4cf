//! Audit: which requests are recorded, what an event says, and where events go (upstream: `apiserver/pkg/audit`,
//! `apiserver/plugin/pkg/audit`). This crate knows no HTTP and no handlers. The server makes events.
//!
//! ```
//! use pintle_audit::{Level, Policy};
//! use pintle_auth::{AuthorizationAttributes, UserInfo};
//!
//! let text = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata, resources: [{resources: [pods]}]}]}";
//! let policy = Policy::parse(format!("# A policy\n{text}").as_bytes()).expect("a valid policy");
//! let jane = UserInfo { name: "jane".into(), ..UserInfo::default() };
//! let attributes =
//!     AuthorizationAttributes { verb: "delete", resource: "pods", name: "web", ..AuthorizationAttributes::default() };
//! assert_eq!(policy.decide(Some(&jane), &attributes).level, Level::Metadata);
//! ```

mod event;
mod level;
mod options;
mod policy;

pub use event::{
    AuthenticationMetadata, Event, InvalidJson, ObjectReference, ResponseStatus, StatusCause, StatusDetails,
    event_list_json,
};
pub use level::{Level, Stage, Stages};
pub use options::{AuditOptions, BatchOptions, LogOptions, TruncateOptions, WebhookOptions};
pub use policy::{AuditDecision, Policy};
