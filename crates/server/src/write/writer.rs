//! The writer of a request or of the server itself: the state that all writes of one request share.

use std::sync::Arc;
use std::time::Duration;

use pintle_admission::matching::MatchingCache;
use pintle_admission::webhook::WebhookCaller;
use pintle_admission::{
    AdmissionAttributes, AdmissionOperation, NoReservations, PluginChain, ReinvocationContext, RequestOptions,
};
use pintle_auth::{AlwaysAllow, UserInfo};
use pintle_registry::{ApiError, Resource, StrategyContext};
use pintle_value::metadata::MANAGED_FIELDS;
use pintle_value::{Errors, Value};
use tokio::time::Instant;

use super::internal_client::InternalClient;
use super::{escalation, param_access};
use crate::cluster::Cluster;
use crate::context::RequestContext;
use crate::conversion::MemoizedConversions;
use crate::request::query::WriteOptions;
use crate::request::recorder::Recorder;
use crate::request::trace::Step;

/// Maximum time for plugins, even if the request may take longer (upstream: `requestTimeoutUpperBound`).
const MAX_WRITE_TIME: Duration = Duration::from_secs(34);

/// The warning for a plugin that has broken managed fields.
const INVALID_MANAGED_FIELDS: &str = ".metadata.managedFields was in an invalid state after admission; this could be \
     caused by an outdated mutating admission controller; please fix your requests";

/// The writer of objects: its cluster, its user and options, and the recorder of warnings.
#[derive(Clone)]
pub(crate) struct Writer<'a> {
    pub(crate) cluster: &'a Arc<Cluster>,
    pub(crate) user: &'a UserInfo,
    pub(crate) context: StrategyContext,
    pub(crate) recorder: &'a Recorder,
    /// The conversions that the request has made so far.
    pub(crate) conversions: Arc<MemoizedConversions>,
    /// The admission plugins of the writes. All phases of a request use the same chain.
    pub(crate) plugins: Arc<PluginChain>,
    /// Calls the webhooks of the plugins.
    pub(crate) webhooks: Arc<dyn WebhookCaller>,
    pub(crate) options: &'a (dyn RequestOptions + Send + Sync),
    /// The deadline for plugins.
    pub(super) deadline: Option<Instant>,
    /// The client's request; `None` for the server's own writes.
    pub(super) request: Option<&'a RequestContext>,
}

impl<'a> Writer<'a> {
    /// The writer of a request.
    pub(crate) fn for_request(
        request: &'a RequestContext,
        options: &'a (dyn RequestOptions + Send + Sync),
        dry_run: bool,
    ) -> Self {
        Self {
            cluster: &request.cluster,
            user: &request.user,
            context: request.strategy_context(dry_run),
            recorder: &request.recorder,
            conversions: request.conversions.clone(),
            plugins: request.cluster.admission(),
            webhooks: request.cluster.webhook_caller(),
            options,
            deadline: Some(request.deadline.min(Instant::now() + MAX_WRITE_TIME)),
            request: Some(request),
        }
    }

    /// Checks that there is memory for a new object. Only writes of clients are refused: the server's own writes are
    /// few and small, and the deletion of namespaces needs them.
    ///
    /// # Errors
    /// Memory is short.
    pub(super) fn check_memory_for_create(&self) -> Result<(), ApiError> {
        if self.request.is_some() { self.cluster.limits.memory.check_create() } else { Ok(()) }
    }

    /// Checks that there is memory for an object of `new` bytes in place of an object of `old` bytes.
    ///
    /// # Errors
    /// Memory is short, and the object becomes larger.
    pub(super) fn check_memory_for_update(&self, old: usize, new: usize, is_terminating: bool) -> Result<(), ApiError> {
        match self.request {
            Some(_) => self.cluster.limits.memory.check_update(old, new, is_terminating),
            None => Ok(()),
        }
    }

    /// Checks that a write, after mutating admission, does not grant permissions that its user does not hold. `old` is
    /// the object before an update.
    ///
    /// # Errors
    /// The write grants such permissions.
    pub(super) async fn check_escalation(
        &self,
        resource: &Resource,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        match self.request {
            Some(request) => escalation::check(request, resource, object, old).await,
            None => Ok(()),
        }
    }

    /// Checks that the user of a valid write can read the parameters to which an admission policy or a binding refers.
    /// `old` is the object before an update. Writes of the server itself can read everything.
    pub(super) async fn check_params(&self, resource: &Resource, object: &Value, old: Option<&Value>) -> Errors {
        match self.request {
            Some(request) => param_access::check(request, resource, object, old).await,
            None => Errors::new(),
        }
    }

    /// The same writer for a change that is part of an already admitted write (`pods/binding` changes the pod).
    pub(super) fn without_admission(self) -> Self {
        Self { plugins: Arc::default(), ..self }
    }

    /// The admission attributes of one write, without reservations. The namespace of a namespace object is the object's
    /// own name (upstream: `RequestInfo`, and `namespaceGVR` in the handler of creates).
    pub(super) fn attributes<'r>(
        &'r self,
        operation: AdmissionOperation,
        resource: &'r Arc<Resource>,
        (subresource, namespace, name): (&'r str, &'r str, &'r str),
        old: Option<&'r Value>,
        client: &'r InternalClient,
    ) -> AdmissionAttributes<'r> {
        AdmissionAttributes {
            operation,
            resource,
            subresource,
            namespace: if resource.is_namespaces() { name } else { namespace },
            name,
            user: self.user,
            options: self.options,
            dry_run: self.context.dry_run,
            deadline: self.deadline.map(Instant::into_std),
            old,
            // The server's own user is privileged.
            authorizer: self.request.map_or(&AlwaysAllow, |request| &*request.access.authorizer),
            client,
            recorder: self.recorder,
            objects: client,
            webhooks: &*self.webhooks,
            matching: MatchingCache::default(),
            reservations: &NoReservations,
            reinvocation: ReinvocationContext::default(),
        }
    }

    /// Runs the mutating phase of admission. Managed fields that a plugin has broken are restored (upstream:
    /// `managedFieldsValidatingAdmissionController`).
    ///
    /// # Errors
    /// A plugin refuses the write.
    pub(super) async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        self.plugins.mutate(attributes, object).await?;
        if let Some(before) = attributes.reinvocation.take_managed_fields()
            && before.as_ref() != object.at(&MANAGED_FIELDS)
            && let Err(error) = pintle_apply::managed_fields::decode(object.items_at(&MANAGED_FIELDS))
        {
            self.recorder.warn(format!("{INVALID_MANAGED_FIELDS}: {error}"));
            match before {
                Some(before) => object.set_at(&MANAGED_FIELDS, before),
                None => drop(object.remove_at(&MANAGED_FIELDS)),
            }
        }
        self.recorder.trace.step(Step::Mutated);
        Ok(())
    }
}

/// The server as a writer of its own objects (upstream: the loopback client).
pub(crate) struct InternalWriter {
    pub(super) user: UserInfo,
    pub(super) recorder: Recorder,
    options: WriteOptions,
}

impl Default for InternalWriter {
    fn default() -> Self {
        let user =
            UserInfo { name: "system:apiserver".into(), groups: vec!["system:masters".into()], ..UserInfo::default() };
        Self { user, recorder: Recorder::default(), options: WriteOptions::default() }
    }
}

impl InternalWriter {
    /// The writer for a cluster. Its writes pass admission, as the writes of upstream's loopback client do.
    pub(crate) fn for_cluster<'a>(&'a self, cluster: &'a Arc<Cluster>) -> Writer<'a> {
        Writer {
            cluster,
            user: &self.user,
            context: cluster.own_context(),
            recorder: &self.recorder,
            conversions: Arc::default(),
            plugins: cluster.admission(),
            webhooks: cluster.webhook_caller(),
            options: &self.options,
            deadline: None,
            request: None,
        }
    }
}
