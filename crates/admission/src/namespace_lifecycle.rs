//! `NamespaceLifecycle`: nothing is created in a namespace that is not there or is going away, and the namespaces that
//! every cluster has cannot be deleted.

use pintle_registry::{ApiError, BoxFuture, Cause, GroupResource, Scope};
use pintle_value::{Str, Value};

use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin};

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamespaceLifecycle;

impl NamespaceLifecycle {
    /// Checks a request.
    ///
    /// # Errors
    /// Its namespace is not there, is going away, or may not go.
    pub fn check(request: &AdmissionAttributes<'_>) -> Result<(), ApiError> {
        let resource = request.resource.group_resource();
        let namespaces = GroupResource::new("", "namespaces");
        if resource == namespaces {
            if request.operation == AdmissionOperation::Delete && IMMORTAL.contains(&request.name) {
                return Err(ApiError::Forbidden {
                    resource,
                    name: request.name.into(),
                    why: "this namespace may not be deleted".to_owned(),
                    causes: Vec::new(),
                });
            }
            return Ok(());
        }
        // Reviews of access ask about namespaces that need not exist.
        let review = resource.group == "authorization.k8s.io" && resource.resource == "localsubjectaccessreviews";
        if request.resource.scope == Scope::Cluster || request.operation != AdmissionOperation::Create || review {
            return Ok(());
        }
        let Some(namespace) = request.objects.get(&namespaces, "", request.namespace)? else {
            return Err(ApiError::NotFound { resource: namespaces, name: request.namespace.into() });
        };
        if namespace.str_at(&["status", "phase"]) != "Terminating" && !namespace.is_terminating() {
            return Ok(());
        }
        let causes = vec![Cause {
            reason: Str::from("NamespaceTerminating"),
            message: format!("namespace {} is being terminated", request.namespace),
            field: "metadata.namespace".to_owned(),
        }];
        Err(ApiError::Forbidden {
            resource,
            name: request.name.into(),
            why: format!(
                "unable to create new content in namespace {} because it is being terminated",
                request.namespace
            ),
            causes,
        })
    }
}

impl AdmissionPlugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn mutate<'a>(
        &'a self,
        request: &'a AdmissionAttributes<'a>,
        _: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move { Self::check(request) })
    }
}
