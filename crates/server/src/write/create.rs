//! Create: a request's object, or one of the server's own, becomes a stored object (upstream: `registry/generic/registry`,
//! `Store.Create`).

use std::sync::Arc;

use http::StatusCode;
use pintle_admission::{AdmissionOperation, NamespaceLifecycle};
use pintle_cache::Object;
use pintle_registry::{ApiError, Backing, Resource, WriteOperation};
use pintle_store::Compare;
use pintle_value::Value;
use pintle_value::metadata::MANAGED_FIELDS;

use super::allocation::Allocated;
use super::commit::{CommitOutcome, as_cached, commit};
use super::internal_client::InternalClient;
use super::managed_fields::ManagedFieldsUpdater;
use super::metadata;
use super::validate::{Rules, validate_and_admit};
use super::writer::Writer;
use crate::cluster::object_key;
use crate::context::RequestContext;
use crate::conversion::VersionView;
use crate::http::Response;
use crate::objects::decode::{ExpectedKind, decode};
use crate::objects::model;
use crate::represent::{ResponseFormat, to_hub};
use crate::request::negotiate;
use crate::request::query::{WriteOptions, Writing};

/// How many generated names are tried while they are taken (upstream: `maxNameGenerationCreateAttempts`).
const MAX_NAME_TRIES: usize = 8;

/// Handles a create request.
pub(crate) async fn create(call: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let format = ResponseFormat::negotiate(call, resource, false)?;
    let encoding = negotiate::input(&call.headers, model(resource).endpoint(call.endpoint()))?;
    let body = call.body().await?;
    let options = WriteOptions::read(&call.query, Writing::Create)?;
    let expected = ExpectedKind::of(resource);
    let mut object = decode(call, &body, encoding, &expected, options.field_validation)?;
    expected.default(&mut object);
    metadata::wipe_system_fields(&mut object);
    metadata::ensure_namespace(&mut object, resource, &call.info.namespace)?;
    metadata::deduplicate_owners(&mut object, &call.recorder, false);
    let managed_fields = ManagedFieldsUpdater::of(call, &expected, &options);
    if resource.versions.is_some() && object.at(&MANAGED_FIELDS).is_some() {
        // The entries of the body may be of other versions.
        let compute = || {
            let mut object = object.clone();
            managed_fields.create(&mut object);
            object
        };
        object = call.conversions.complete(&call.cluster, resource, compute).await;
    } else {
        managed_fields.create(&mut object);
    }
    if let Backing::Action(action) = resource.backing {
        return super::action::act(call, resource, action, object, &options).await;
    }
    let operation = CreateOperation { writer: Writer::of(call, &options, options.dry_run), resource };
    let created = operation.run(object).await?;
    format.answer(StatusCode::CREATED, &created).await
}

/// The creation of one object.
pub(crate) struct CreateOperation<'a> {
    pub(crate) writer: Writer<'a>,
    pub(crate) resource: &'a Arc<Resource>,
}

impl CreateOperation<'_> {
    /// Creates an object at the request's version, with its defaults and managed fields. In a dry run the result has
    /// revision 0.
    ///
    /// # Errors
    /// The object is refused, or exists already.
    pub(crate) async fn run(&self, mut object: Value) -> Result<Arc<Object>, ApiError> {
        let Self { writer, resource } = self;
        let has_revision = matches!(metadata::revision(&object), Ok(Some(_)));
        let client = InternalClient(writer.cluster.clone());
        {
            // Plugins of the mutating phase see the object before a name is generated.
            let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
            let target = ("", &*namespace, &*name);
            let attributes = writer.attributes(AdmissionOperation::Create, resource, target, None, &client);
            writer.plugins().mutate(&attributes, &mut object).await?;
        }
        metadata::deduplicate_owners(&mut object, writer.recorder, true);
        let hub = writer.cluster.hub(resource);
        let object = to_hub(resource, &hub, object);
        let is_generated = object.name().is_empty() && !object.str_at(&["metadata", "generateName"]).is_empty();
        let mut tries = if is_generated { MAX_NAME_TRIES } else { 1 };
        loop {
            tries -= 1;
            match self.attempt(&hub, &client, object.clone(), has_revision).await {
                Err(ApiError::AlreadyExists { .. }) if tries > 0 => {}
                result => return result,
            }
        }
    }

    /// Creates an object at the hub version, after the mutating phase.
    async fn attempt(
        &self,
        hub: &Arc<Resource>,
        client: &InternalClient,
        mut object: Value,
        has_revision: bool,
    ) -> Result<Arc<Object>, ApiError> {
        let context = &self.writer.context;
        metadata::fill_system_fields(context, &mut object);
        let generate_name = object.str_at(&["metadata", "generateName"]);
        if object.name().is_empty() && !generate_name.is_empty() {
            let name = metadata::generate_name(generate_name);
            object.set_at(&["metadata", "name"], name);
        }
        hub.strategy.prepare_for_create(context, &mut object);
        let write = WriteOperation::Create(&mut object);
        let allocated = Allocated::begin(hub.strategy.allocation(), context, client, write).await?;
        let result = self.validate_and_store(hub, client, object, has_revision).await;
        allocated.finish(client, result.is_ok() && !context.dry_run).await;
        result
    }

    async fn validate_and_store(
        &self,
        hub: &Arc<Resource>,
        client: &InternalClient,
        mut object: Value,
        has_revision: bool,
    ) -> Result<Arc<Object>, ApiError> {
        let Self { writer, resource } = self;
        let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
        let attributes = writer.attributes(AdmissionOperation::Create, resource, ("", &namespace, &name), None, client);
        let rules = Rules { resource, hub, subresource: None };
        validate_and_admit(writer, &rules, &writer.plugins(), &attributes, &mut object, None).await?;
        // Upstream's storage refuses it, which a dry run does not reach. A malformed resourceVersion counts as none.
        if has_revision && !writer.context.dry_run {
            return Err(ApiError::Unclassified(
                "resourceVersion should not be set on objects to be created".to_owned(),
            ));
        }
        let cluster = writer.cluster;
        let key = object_key(object.namespace(), object.name());
        let json = VersionView::of(cluster, hub).store(&object).await?;
        let already_exists = || self.already_exists(hub, &key, &object);
        if writer.context.dry_run {
            // Upstream's dry run takes a corrupt object for an absent one.
            if matches!(cluster.watch_cache(hub)?.read(&key), Ok(Some(_))) {
                return Err(already_exists());
            }
            return as_cached(&key, 0, json);
        }
        // The namespace controller waits for creates that passed this check before the namespace was terminating.
        let _pending = cluster.pending_creates.read().await;
        NamespaceLifecycle::check(&attributes)?;
        match commit(cluster, hub, &key, Compare::Absent, Some(json.clone())).await? {
            CommitOutcome::Done(revision) => as_cached(&key, revision, json),
            CommitOutcome::Conflict => Err(already_exists()),
        }
    }

    /// The error for a name that is taken (upstream: `CheckGeneratedNameError`, which looks at `generateName` only).
    fn already_exists(&self, hub: &Arc<Resource>, key: &str, object: &Value) -> ApiError {
        let existing = self.writer.cluster.watch_cache(hub).ok().and_then(|cache| cache.read(key).ok().flatten());
        let existing = existing.and_then(|object| crate::cluster::tree(&object).ok());
        ApiError::AlreadyExists {
            resource: self.resource.group_resource(),
            name: object.name().into(),
            terminating: existing.is_some_and(|tree| tree.is_terminating()),
            generated: !object.str_at(&["metadata", "generateName"]).is_empty(),
        }
    }
}
