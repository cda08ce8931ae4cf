//! The plugin `NamespaceLifecycle` (upstream: `admission/plugin/namespace/lifecycle`): refuses creates in a namespace
//! that does not exist or is terminating, and the deletion of the system's namespaces.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use pintle_codec::json::Projection;
use pintle_registry::{ApiError, BoxFuture, Cause, Scope};
use pintle_value::{Str, Value};

use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin, Phase};

/// The namespaces that cannot be deleted (upstream: `immortalNamespaces`).
const IMMORTAL_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The fields of a namespace that the plugin reads.
static FIELDS: LazyLock<Projection> = LazyLock::new(|| Projection::of(["metadata.deletionTimestamp", "status.phase"]));

/// The field and the value that a namespace which is being deleted has.
static DELETION_TIMESTAMP: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("deletionTimestamp"));
static TERMINATING: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("Terminating"));

/// The admission plugin `NamespaceLifecycle`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamespaceLifecycle;

impl NamespaceLifecycle {
    /// Checks a write.
    ///
    /// # Errors
    /// The namespace does not exist, is terminating, or cannot be deleted.
    pub fn check(attributes: &AdmissionAttributes<'_>) -> Result<(), ApiError> {
        let resource = attributes.resource.group_resource();
        if attributes.resource.is_namespaces() {
            if attributes.operation == AdmissionOperation::Delete && IMMORTAL_NAMESPACES.contains(&attributes.name) {
                return Err(ApiError::Forbidden {
                    resource,
                    name: attributes.name.into(),
                    why: "this namespace may not be deleted".to_owned(),
                    causes: Vec::new(),
                });
            }
            return Ok(());
        }
        // Access reviews may name namespaces that do not exist.
        let is_access_review =
            resource.group == "authorization.k8s.io" && resource.resource == "localsubjectaccessreviews";
        if attributes.resource.scope == Scope::Cluster
            || attributes.operation != AdmissionOperation::Create
            || is_access_review
        {
            return Ok(());
        }
        let namespace = attributes.read_namespace()?;
        // Every write in a namespace comes here, so most are answered without decoding it.
        if !namespace.may_contain(&DELETION_TIMESTAMP) && !namespace.may_contain(&TERMINATING) {
            return Ok(());
        }
        let namespace = namespace.decode_fields(&FIELDS)?;
        if namespace.str_at(&["status", "phase"]) != "Terminating" && !namespace.is_terminating() {
            return Ok(());
        }
        let causes = vec![Cause {
            reason: Str::from("NamespaceTerminating"),
            message: format!("namespace {} is being terminated", attributes.namespace),
            field: "metadata.namespace".to_owned(),
        }];
        Err(ApiError::Forbidden {
            resource,
            name: attributes.name.into(),
            why: format!(
                "unable to create new content in namespace {} because it is being terminated",
                attributes.namespace
            ),
            causes,
        })
    }
}

impl AdmissionPlugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Mutating]
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        match attributes.operation {
            AdmissionOperation::Create => attributes.resource.scope == Scope::Namespaced,
            AdmissionOperation::Delete => attributes.resource.is_namespaces(),
            AdmissionOperation::Update | AdmissionOperation::Connect => false,
        }
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        _: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            if Self::check(attributes).is_ok() {
                return Ok(());
            }
            // Another server may have created the namespace just now, or created it again.
            attributes.client.refresh().await?;
            Self::check(attributes)
        })
    }
}
