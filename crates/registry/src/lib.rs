//! Kinds are data: the [`Resource`] record that describes one, built-in or custom, the [`Strategy`] that holds the
//! rules a kind has of its own, and the [`Registry`] snapshot from which routing, discovery and everything else that
//! needs to know "which kinds are there" derives. Knows nothing of HTTP or of storage engines.

mod backing;
mod definition;
mod deletion;
mod error;
mod names;
mod reset_fields;
mod resource;
mod scale;
mod snapshot;
mod strategy;
mod table;
mod versions;
mod webhook;

pub use pintle_apply::set::Filter;

pub use backing::{Action, Backing, Collection, Computed, Review};
pub use definition::DefinitionSource;
pub use deletion::DeletionPropagation;
pub use error::{ApiError, Cause, ErrorReason, RetryAfter};
pub use names::{GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use reset_fields::ResetFields;
pub use resource::{Resource, Scope, SelectableField, Subresource, SubresourceRole, Verb, Verbs};
pub use scale::{ScalePaths, ScaleSelector, field_path};
pub use snapshot::{Group, Registry};
pub use strategy::{
    AllocationHooks, BoxFuture, CostBudget, DefaultStrategy, GarbageCollectionPolicy, GracefulDeletion, ObjectClient,
    Strategy, StrategyContext, SubresourceStrategy, TwoPhaseDeletion, WriteOperation,
};
pub use table::{Column, DefaultTable, TableConvertor};
pub use versions::{Conversion, MultiVersion};
pub use webhook::{WebhookClientConfig, WebhookTarget};
