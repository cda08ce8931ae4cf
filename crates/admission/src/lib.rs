//! Admission: what may change or refuse a write after authorization and before it is stored. Built-in plugins live
//! here; webhooks and policies become further plugins of the same trait.

mod closing;
mod namespace_lifecycle;

pub use closing::Closing;
pub use namespace_lifecycle::NamespaceLifecycle;

use std::sync::Arc;

use pintle_auth::Identity;
use pintle_registry::{ApiError, BoxFuture, ObjectClient, Resource};
use pintle_value::Value;

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of an object.
    Update,
    /// A removal.
    Delete,
    /// A subresource that is called rather than written (`pods/exec`).
    Connect,
}

/// A write as a plugin sees it.
pub struct Request<'a> {
    /// What it does.
    pub operation: Operation,
    /// The resource, at the version of the request.
    pub resource: &'a Arc<Resource>,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The object's name; may be empty where it is yet to be generated.
    pub name: &'a str,
    /// Who asks.
    pub identity: &'a Identity,
    /// True if nothing will be stored.
    pub dry_run: bool,
    /// The object as it is, for updates and deletes.
    pub old: Option<&'a Value>,
    /// The rest of the cluster.
    pub objects: &'a dyn ObjectClient,
}

/// A plugin. Both steps do nothing unless a plugin says otherwise.
pub trait Plugin: Send + Sync {
    /// The name, as in `--enable-admission-plugins`.
    fn name(&self) -> &'static str;

    /// May change the object.
    fn mutate<'a>(&'a self, _request: &'a Request<'a>, _object: &'a mut Value) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }

    /// May refuse the write. `object` is what would be stored; null for deletes.
    fn validate<'a>(&'a self, _request: &'a Request<'a>, _object: &'a Value) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }
}

/// The plugins in the order in which they run.
#[derive(Default)]
pub struct Chain(pub Vec<Box<dyn Plugin>>);

impl Chain {
    /// Lets each plugin change the object.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<(), ApiError> {
        for plugin in &self.0 {
            plugin.mutate(request, object).await?;
        }
        Ok(())
    }

    /// Lets each plugin refuse the write.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn validate(&self, request: &Request<'_>, object: &Value) -> Result<(), ApiError> {
        for plugin in &self.0 {
            plugin.validate(request, object).await?;
        }
        Ok(())
    }
}
