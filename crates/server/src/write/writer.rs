//! The writer of a request or of the server itself: the state that all writes of one request share.

use std::sync::Arc;

use pintle_admission::{AdmissionAttributes, AdmissionOperation, PluginChain, RequestOptions};
use pintle_auth::UserInfo;
use pintle_registry::{ObjectClient, Resource, StrategyContext};
use pintle_value::Value;

use crate::cluster::Cluster;
use crate::context::RequestContext;
use crate::conversion::MemoizedConversions;
use crate::request::query::WriteOptions;
use crate::request::recorder::Recorder;

/// Whether a write passes admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionMode {
    /// All configured plugins run.
    Run,
    /// No plugin runs, because the write is part of another write that was admitted (`pods/binding` changes the pod).
    Skip,
}

/// Who writes, on which cluster, with which options, and where warnings are recorded.
#[derive(Clone)]
pub(crate) struct Writer<'a> {
    pub(crate) cluster: &'a Arc<Cluster>,
    pub(crate) user: &'a UserInfo,
    pub(crate) context: StrategyContext,
    pub(crate) recorder: &'a Recorder,
    /// The conversions that the request has made so far.
    pub(crate) conversions: Arc<MemoizedConversions>,
    pub(crate) admission: AdmissionMode,
    pub(crate) options: &'a (dyn RequestOptions + Send + Sync),
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
            admission: AdmissionMode::Run,
            options,
        }
    }

    /// The admission plugins that run for this writer.
    pub(super) fn plugins(&self) -> Arc<PluginChain> {
        match self.admission {
            AdmissionMode::Run => self.cluster.admission(),
            AdmissionMode::Skip => Arc::default(),
        }
    }

    /// The admission attributes of one write.
    pub(super) fn attributes<'r>(
        &'r self,
        operation: AdmissionOperation,
        resource: &'r Arc<Resource>,
        (subresource, namespace, name): (&'r str, &'r str, &'r str),
        old: Option<&'r Value>,
        client: &'r dyn ObjectClient,
    ) -> AdmissionAttributes<'r> {
        AdmissionAttributes {
            operation,
            resource,
            subresource,
            namespace,
            name,
            user: self.user,
            options: self.options,
            dry_run: self.context.dry_run,
            old,
            client,
            recorder: self.recorder,
        }
    }
}

/// The server as a writer of its own objects (upstream: the loopback client).
pub(crate) struct InternalWriter {
    user: UserInfo,
    recorder: Recorder,
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
            admission: AdmissionMode::Run,
            options: &self.options,
        }
    }
}
