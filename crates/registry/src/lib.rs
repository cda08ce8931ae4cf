//! Kinds are data: the [`Resource`] record that describes one, built-in or custom, the [`Behaviour`] that holds the
//! rules a kind has of its own, and the [`Registry`] snapshot from which routing, discovery and everything else that
//! needs to know "which kinds are there" derives. Knows nothing of HTTP or of storage engines.

mod backing;
mod behaviour;
mod definition;
mod error;
mod names;
mod reset_fields;
mod resource;
mod scale;
mod snapshot;
mod table;
mod versions;
mod webhook;

pub use pintle_apply::set::Filter;

pub use backing::{Action, Backing, Collection, Computed, Review};
pub use behaviour::{
    Allocation, Behaviour, BoxFuture, Context, Dependents, Effort, Graceful, Marking, NoBehaviour, Objects,
    SubresourceRules, Write,
};
pub use definition::Definition;
pub use error::{ApiError, Cause, ErrorReason, RetryAfter};
pub use names::{GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use reset_fields::ResetFields;
pub use resource::{Resource, Role, Scope, SelectableField, Subresource, Verb, Verbs};
pub use scale::{ScalePaths, ScaleSelector, field_path};
pub use snapshot::{Group, Registry};
pub use table::{Column, NameAndAge, Table};
pub use versions::{Conversion, Versions};
pub use webhook::{Target, Webhook};
