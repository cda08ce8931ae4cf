//! The resources that the server serves. A [`Resource`] describes one version of a kind, built-in or custom, and its
//! [`Strategy`] contains the rules of the kind. Routing, discovery and OpenAPI derive from the [`Registry`], an
//! immutable snapshot of all resources.
//!
//! **Invariant:** this crate does not know about HTTP or storage engines.
//!
//! ```
//! use pintle_registry::{ApiError, GroupResource, GroupVersion, Registry, generate_name};
//!
//! // The crates `kinds` and `extensions` make the resources of a registry.
//! let registry = Registry::new(Vec::new());
//! assert!(!registry.serves("apps", "v1"));
//! assert_eq!(GroupVersion::new("apps", "v1").to_string(), "apps/v1");
//!
//! assert!(generate_name("web-").starts_with("web-"));
//! let error = ApiError::NotFound { resource: GroupResource::new("apps", "deployments"), name: "web".into() };
//! assert_eq!(error.to_string(), r#"deployments.apps "web" not found"#);
//! ```

mod backing;
mod connector;
mod crd;
mod deletion;
mod error;
mod generated_name;
mod names;
mod reset_fields;
mod resource;
mod scale;
mod snapshot;
mod strategy;
mod table;
mod versions;
mod webhook;

pub use pintle_fieldpath::set::Filter;

pub use backing::{Action, Backing, Collection, Computed, Review};
pub use connector::Connector;
pub use crd::CrdSource;
pub use deletion::DeletionPropagation;
pub use error::{ApiError, Cause, ErrorReason, RetryAfter};
pub use generated_name::generate_name;
pub use names::{EquivalentResource, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use reset_fields::reset_field_filter;
pub use resource::{Resource, Scope, SelectableField, Subresource, SubresourceRole, Verb, Verbs};
pub use scale::{ScalePaths, ScaleSelector, field_path};
pub use snapshot::{Group, Registry};
pub use strategy::{
    AllocationHooks, AllocationProblem, AllocationRepair, BoxFuture, ClusterValidation, CostBudget,
    DeclarativeValidation, DeclarativeWrite, DefaultStrategy, EscalationCheck, GarbageCollectionPolicy,
    GracefulDeletion, ObjectClient, RequiredAccess, StoredObject, StoredObjects, Strategy, StrategyContext,
    SubresourceStrategy, TwoPhaseDeletion, UnservedVersion, ValidatedWrite, VirtualAccess, WriteAccess, WriteOperation,
    missing_fields,
};
pub use table::{Column, DefaultTable, TableConvertor};
pub use versions::{Conversion, MultiVersion};
pub use webhook::{WebhookClientConfig, WebhookTarget};
