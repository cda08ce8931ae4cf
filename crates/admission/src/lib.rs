//! Admission: what may change or refuse a write after authorization and before it is stored. Built-in plugins live
//! here; webhooks and policies become further plugins of the same trait.

mod namespace_lifecycle;
mod terminating_definition;

pub use namespace_lifecycle::NamespaceLifecycle;
pub use terminating_definition::TerminatingDefinition;

use std::sync::Arc;

use pintle_auth::UserInfo;
use pintle_registry::{ApiError, BoxFuture, ObjectClient, Resource};
use pintle_value::Value;

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionOperation {
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
pub struct AdmissionAttributes<'a> {
    /// What it does.
    pub operation: AdmissionOperation,
    /// The resource, at the version of the request.
    pub resource: &'a Arc<Resource>,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The object's name; may be empty where it is yet to be generated.
    pub name: &'a str,
    /// Who asks.
    pub user: &'a UserInfo,
    /// True if nothing will be stored.
    pub dry_run: bool,
    /// The object as it is, for updates and deletes.
    pub old: Option<&'a Value>,
    /// The rest of the cluster.
    pub objects: &'a dyn ObjectClient,
}

/// A plugin. Both steps do nothing unless a plugin says otherwise.
pub trait AdmissionPlugin: Send + Sync {
    /// The name, as in `--enable-admission-plugins`.
    fn name(&self) -> &'static str;

    /// May change the object.
    fn mutate<'a>(
        &'a self,
        _request: &'a AdmissionAttributes<'a>,
        _object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }

    /// May refuse the write. `object` is what would be stored; null for deletes.
    fn validate<'a>(
        &'a self,
        _request: &'a AdmissionAttributes<'a>,
        _object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }
}

/// The plugins in the order in which they run.
#[derive(Default)]
pub struct PluginChain(pub Vec<Box<dyn AdmissionPlugin>>);

impl PluginChain {
    /// Lets each plugin change the object.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn mutate(&self, request: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        for plugin in &self.0 {
            plugin.mutate(request, object).await?;
        }
        Ok(())
    }

    /// Lets each plugin refuse the write.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn validate(&self, request: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
        for plugin in &self.0 {
            plugin.validate(request, object).await?;
        }
        Ok(())
    }
}
