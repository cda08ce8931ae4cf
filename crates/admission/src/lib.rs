//! Admission: plugins that may change or refuse a write after authorization and before it is stored (upstream:
//! `apiserver/pkg/admission`). This crate knows no HTTP.
//!
//! The built-in plugins are in `plugins`. Every other module is for several plugins, or runs them.
//!
//! ```
//! use pintle_admission::{AdmissionConfiguration, PluginChain};
//! use pintle_gates::Gates;
//!
//! let configuration = AdmissionConfiguration {
//!     enabled: vec!["AlwaysPullImages".to_owned()],
//!     disabled: vec!["LimitRanger".to_owned()],
//!     ..AdmissionConfiguration::default()
//! };
//! let chain = PluginChain::assemble(&configuration, &Gates::default()).expect("known plugins");
//! let names: Vec<&str> = chain.names().collect();
//! assert!(names.contains(&"AlwaysPullImages") && names.contains(&"NamespaceLifecycle"));
//! assert!(!names.contains(&"LimitRanger"));
//! ```

mod cached_derivation;
mod chain;
mod configuration_file;
mod converted_view;
mod default_class;
mod expressions;
mod finalizers;
pub mod manifest;
pub mod matching;
mod metrics;
pub mod objects;
mod plugins;
mod pods;
mod reinvocation;
mod reservation;
mod sync_plugin;
#[cfg(test)]
mod testing;
mod tolerations;
pub mod webhook;

pub use chain::{AdmissionConfiguration, ConfigurationError, PluginChain};
pub use configuration_file::{PluginConfiguration, decode_configuration_file};
pub use metrics::Phase;
pub use plugins::{NamespaceLifecycle, PluginError, TerminatingCrd, TolerationSeconds, built_in_plugin, pod_security};
pub use reinvocation::ReinvocationContext;
pub use reservation::{NoReservations, Reservation, Reservations};
pub use sync_plugin::SyncPlugin;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use manifest::ManifestFiles;
use matching::MatchingCache;
use objects::ObjectInterfaces;
use pintle_auth::{Authorizer, UserInfo};
use pintle_metrics::{Exposition, WorkQueueMetrics};
use pintle_registry::{ApiError, BoxFuture, GroupResource, GroupVersionKind, ObjectClient, Resource, StoredObject};
use pintle_value::Value;
use webhook::{ReviewEndpoint, WebhookCaller};

/// The operation of a write (`admission.Operation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionOperation {
    /// Creates an object, or a subresource such as `pods/binding`.
    Create,
    /// Changes an object.
    Update,
    /// Deletes an object.
    Delete,
    /// Connects to a subresource such as `pods/exec`.
    Connect,
}

impl AdmissionOperation {
    /// The operation as clients and webhooks see it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Collects what plugins report beside their decision.
pub trait AdmissionRecorder: Sync {
    /// Adds a warning to the response.
    fn warn(&self, text: String);

    /// Adds an annotation to the request's audit event. The first value of a key stays. A key that is not a qualified name
    /// with a prefix is left out.
    fn annotate(&self, key: &str, value: String);

    /// Adds an annotation that an audit event has only if it has the body of the request, because the annotation has parts
    /// of it.
    fn annotate_with_request(&self, key: &str, value: String) {
        self.annotate(key, value);
    }

    /// Adds the annotation of a server whose certificate has no subject alternative names (upstream: `x509metrics`).
    fn annotate_missing_san(&self, host: &str) {
        let reason = "relies on a legacy Common Name field instead of the SAN extension for subject validation";
        self.annotate(&format!("missing-san.invalid-cert.kubernetes.io/{host}"), reason.to_owned());
    }

    /// Notes how long a call of a webhook took, for the audit event of a slow request. Calls of mutating webhooks follow
    /// each other; calls of validating webhooks are concurrent.
    fn webhook_took(&self, phase: Phase, took: Duration) {
        let _ = (phase, took);
    }

    /// Notes that a plugin will compute for long. The request then gets a thread that serves nothing else meanwhile.
    /// Returns true if this was not known before; then the plugin yields before it goes on.
    fn expect_long_work(&self) -> bool {
        false
    }
}

/// The options of a request (`CreateOptions`, `UpdateOptions`, `PatchOptions`, `DeleteOptions`). The object is built
/// only if a plugin asks for it.
pub trait RequestOptions: Sync {
    /// The options as an object of `meta.k8s.io/v1`. A patch has the options of the create or update that it makes.
    fn to_object(&self, operation: AdmissionOperation) -> Value;
}

/// A write as plugins see it (`admission.Attributes`). In the mutating phase all objects are at the version of the
/// request. In the validating phase the new object is at the hub version, and the old object is still at the version of
/// the request.
pub struct AdmissionAttributes<'a> {
    /// The operation of the write.
    pub operation: AdmissionOperation,
    /// The resource, at the version of the request.
    pub resource: &'a Arc<Resource>,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace. For a namespace it is the object's own name; for other cluster-scoped objects it is empty.
    pub namespace: &'a str,
    /// The object's name; empty if it is not generated yet.
    pub name: &'a str,
    /// The user who sends the request.
    pub user: &'a UserInfo,
    /// The options of the request.
    pub options: &'a dyn RequestOptions,
    /// True for a dry run: nothing is stored.
    pub dry_run: bool,
    /// The time by which the request has to be answered; `None` for the server's own writes.
    pub deadline: Option<Instant>,
    /// The stored object, for updates and deletes.
    pub old: Option<&'a Value>,
    /// Decides what the user may do beside the request itself.
    pub authorizer: &'a dyn Authorizer,
    /// Reads and writes other objects of the cluster.
    pub client: &'a dyn ObjectClient,
    /// Collects warnings and audit annotations.
    pub recorder: &'a dyn AdmissionRecorder,
    /// Converts, decodes and encodes objects.
    pub objects: &'a dyn ObjectInterfaces,
    /// Calls webhooks.
    pub webhooks: &'a dyn WebhookCaller,
    /// The data that the matching of webhooks and policies has looked up.
    pub matching: MatchingCache,
    /// The state of webhooks and policies in the mutating phase so far.
    pub reinvocation: ReinvocationContext,
    /// Keeps what the validating phase reserves until the write has ended.
    pub reservations: &'a dyn Reservations,
}

impl AdmissionAttributes<'_> {
    /// True if the write is a write of an object of this resource itself, not of a subresource.
    #[must_use]
    pub fn is_object_of(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_empty() && self.resource.is(group, plural)
    }

    /// True if the write creates or changes an object or a subresource.
    #[must_use]
    pub fn is_create_or_update(&self) -> bool {
        matches!(self.operation, AdmissionOperation::Create | AdmissionOperation::Update)
    }

    /// True if the write creates an object of this resource.
    #[must_use]
    pub fn creates(&self, group: &str, plural: &str) -> bool {
        self.operation == AdmissionOperation::Create && self.is_object_of(group, plural)
    }

    /// True if the write creates or changes an object of this resource itself.
    #[must_use]
    pub fn creates_or_updates(&self, group: &str, plural: &str) -> bool {
        self.is_create_or_update() && self.is_object_of(group, plural)
    }

    /// Fails if the time of the request is over.
    ///
    /// # Errors
    /// The error of a request that takes too long.
    pub fn check_deadline(&self) -> Result<(), ApiError> {
        match self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            true => {
                let message = "request did not complete within requested timeout".to_owned();
                Err(ApiError::Timeout { message, retry_after: 0 })
            }
            false => Ok(()),
        }
    }

    /// Reads the namespace of the write.
    ///
    /// # Errors
    /// The namespace does not exist or cannot be read.
    pub fn read_namespace(&self) -> Result<Box<dyn StoredObject>, ApiError> {
        let namespaces = GroupResource::new("", "namespaces");
        let namespace = self.client.read(&namespaces, "", self.namespace)?;
        namespace.ok_or_else(|| ApiError::NotFound { resource: namespaces, name: self.namespace.into() })
    }

    /// Reads and decodes the namespace of the write.
    ///
    /// # Errors
    /// The namespace does not exist. All other errors are internal errors.
    pub fn decode_namespace(&self) -> Result<Value, ApiError> {
        let namespace = self.read_namespace().and_then(|namespace| namespace.decode());
        namespace.map_err(|error| match error {
            error @ ApiError::NotFound { .. } => error,
            error => ApiError::Internal(error.to_string()),
        })
    }

    /// The kind of the object: the kind of the resource, or of the subresource.
    #[must_use]
    pub fn kind(&self) -> GroupVersionKind {
        match self.resource.subresource(self.subresource) {
            Some(subresource) => subresource.kind.clone(),
            None => self.resource.gvk(),
        }
    }

    /// The error of a plugin that refuses the write of an object (upstream: `admission.NewForbidden`). An object without
    /// a name is named by its `generateName`.
    #[must_use]
    pub fn forbidden(&self, object: &Value, why: impl Into<String>) -> ApiError {
        let names = [self.name, object.name(), object.str_at(&["metadata", "generateName"])];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        ApiError::Forbidden {
            resource: self.resource.group_resource(),
            name: name.into(),
            why: why.into(),
            causes: Vec::new(),
        }
    }
}

/// An admission plugin. Both phases admit everything by default. A plugin that never waits implements [`SyncPlugin`].
pub trait AdmissionPlugin: Send + Sync {
    /// The name, as in `--enable-admission-plugins`.
    fn name(&self) -> &'static str;

    /// The phases that the plugin has a part in (upstream: `MutationInterface`, `ValidationInterface`).
    fn phases(&self) -> &[Phase] {
        &[Phase::Mutating, Phase::Validating]
    }

    /// True if the plugin handles a write in one of its phases. It looks at the attributes only, not at the new object.
    fn handles(&self, _attributes: &AdmissionAttributes<'_>) -> bool {
        true
    }

    /// Mutating phase: may change or refuse the object. `object` is null for deletes.
    fn mutate<'a>(
        &'a self,
        _attributes: &'a AdmissionAttributes<'a>,
        _object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }

    /// Validating phase: may refuse the object that would be stored. `object` is null for deletes.
    fn validate<'a>(
        &'a self,
        _attributes: &'a AdmissionAttributes<'a>,
        _object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }

    /// The kubeconfig that the configuration of the plugin names, for the credentials of its calls.
    fn kubeconfig(&self) -> Option<&Path> {
        None
    }

    /// The server that the plugin asks for reviews.
    fn review_endpoint(&self) -> Option<&ReviewEndpoint> {
        None
    }

    /// The resources of `admissionregistration.k8s.io` whose stored objects the plugin enforces, by their plural names.
    fn enforced_resources(&self) -> &[&'static str] {
        &[]
    }

    /// The objects that the plugin reads from files, if its configuration names a directory.
    fn manifests(&self) -> Option<ManifestFiles<'_>> {
        None
    }

    /// The work queue of the plugin.
    fn work_queue(&self) -> Option<&WorkQueueMetrics> {
        None
    }

    /// Writes the plugin's metrics, under upstream's names.
    fn write_metrics(&self, _out: &mut Exposition) {}
}
