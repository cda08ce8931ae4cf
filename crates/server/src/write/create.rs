//! Creates objects, for requests and for the server itself (upstream: `registry/generic/registry`, `Store.Create`).

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use pintle_admission::{AdmissionAttributes, AdmissionOperation, NamespaceLifecycle, TerminatingCrd};
use pintle_cache::Object;
use pintle_registry::{ApiError, Backing, Resource, WriteOperation};
use pintle_store::Compare;
use pintle_value::Value;
use pintle_value::metadata::MANAGED_FIELDS;

use super::allocation::Allocated;
use super::commit::{CommitOutcome, ObjectChange, WriteEnd, commit, committed_object, dry_run_object};
use super::internal_client::InternalClient;
use super::managed_fields::ManagedFieldsUpdater;
use super::metadata;
use super::reservations::WriteReservations;
use super::validate::{ApplicableRules, check_budget, validate_and_admit};
use super::writer::Writer;
use crate::cluster::{object_key, tree};
use crate::context::RequestContext;
use crate::conversion::{VersionView, to_hub};
use crate::http::Response;
use crate::objects::decode::{ExpectedKind, decode, set_stored_defaults};
use crate::objects::model;
use crate::represent::ResponseFormat;
use crate::request::negotiate;
use crate::request::query::{WriteOptions, WriteVerb, parse_revision};
use crate::request::trace::Step;
use crate::request::work_memory::budget_error;

/// Maximum number of generated names that are tried before the create fails (upstream:
/// `maxNameGenerationCreateAttempts`).
const MAX_NAME_GENERATION_ATTEMPTS: usize = 8;

/// Handles a create request.
pub(crate) async fn create(request: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let format = ResponseFormat::negotiate(request, resource, false)?;
    let encoding = negotiate::input(&request.headers, model(resource).endpoint(request.endpoint()))?;
    if resource.collection().is_some() {
        // This check comes before the body is received, because the body takes memory.
        request.cluster.limits.memory.check_create()?;
    }
    let body = request.body().await?;
    let options = WriteOptions::read(&request.query, WriteVerb::Create)?;
    let expected = ExpectedKind::of(resource);
    let mut object = decode(request.decoding(), &body, encoding, &expected, options.field_validation)?;
    expected.set_defaults(&mut object);
    request.audit_object(&object, expected.shape());
    pintle_budget::check().map_err(budget_error)?;
    metadata::wipe_system_fields(&mut object);
    metadata::ensure_namespace(&mut object, resource, &request.info.namespace)?;
    metadata::dedup_owner_references(&mut object, &request.recorder, false);
    let managed_fields = ManagedFieldsUpdater::for_request(request, &expected, &options);
    if resource.versions.is_some() && object.at(&MANAGED_FIELDS).is_some() {
        // The managed fields of the body may have entries for other versions, which may need conversion by a webhook.
        let compute = || {
            let mut object = object.clone();
            managed_fields.create(&mut object);
            object
        };
        object = request.conversions.run_until_complete(&request.cluster, resource, compute).await;
    } else {
        managed_fields.create(&mut object);
    }
    if let Backing::Action(action) = resource.backing {
        return super::action::run_action(request, resource, action, object, &options).await;
    }
    let operation = CreateOperation { writer: Writer::for_request(request, &options, options.dry_run), resource };
    let created = operation.run(object).await?;
    format.respond_object(StatusCode::CREATED, &created).await
}

/// A create of one object.
pub(crate) struct CreateOperation<'a> {
    pub(crate) writer: Writer<'a>,
    pub(crate) resource: &'a Arc<Resource>,
}

impl CreateOperation<'_> {
    /// Creates an object, given at the request's version with its defaults and managed fields. The result of a dry run
    /// has revision 0 and the resourceVersion of the given object.
    ///
    /// # Errors
    /// Returns an error if the object is rejected or exists already.
    pub(crate) async fn run(&self, mut object: Value) -> Result<Arc<Object>, ApiError> {
        let Self { writer, resource } = self;
        writer.check_memory_for_create()?;
        let resource_version = object.resource_version().to_owned();
        let client = InternalClient(writer.cluster.clone());
        // Mutating plugins run before a name is generated.
        let given = (object.namespace().to_owned(), object.name().to_owned());
        let given = (&*given.0, &*given.1);
        {
            let target = ("", given.0, given.1);
            let attributes = writer.attributes(AdmissionOperation::Create, resource, target, None, &client);
            writer.mutate(&attributes, &mut object).await?;
        }
        metadata::ensure_namespace(&mut object, resource, given.0)?;
        metadata::dedup_owner_references(&mut object, writer.recorder, true);
        let hub = writer.cluster.hub(resource);
        let object = to_hub(resource, &hub, object);
        writer.check_escalation(&hub, &object, None).await?;
        let is_generated = object.name().is_empty() && !object.str_at(&["metadata", "generateName"]).is_empty();
        let attempt =
            CreateAttempt { writer, resource, hub: &hub, client: &client, given, resource_version: &resource_version };
        let mut attempts_left = if is_generated { MAX_NAME_GENERATION_ATTEMPTS } else { 1 };
        let before = pintle_budget::mark();
        loop {
            // The objects of an earlier attempt are dropped by now.
            before.release_all_but(0);
            attempts_left -= 1;
            if attempts_left == 0 {
                return attempt.run(object).await;
            }
            match attempt.run(object.clone()).await {
                Err(ApiError::AlreadyExists { .. }) => {}
                result => return result,
            }
        }
    }
}

/// An attempt of a create. Each attempt generates a new name if the object has none.
#[derive(Clone, Copy)]
struct CreateAttempt<'a> {
    writer: &'a Writer<'a>,
    resource: &'a Arc<Resource>,
    hub: &'a Arc<Resource>,
    client: &'a InternalClient,
    /// The namespace and the name before mutating admission.
    given: (&'a str, &'a str),
    /// The resourceVersion of the given object.
    resource_version: &'a str,
}

impl CreateAttempt<'_> {
    /// Creates an object at the hub version, after mutating admission.
    async fn run(self, mut object: Value) -> Result<Arc<Object>, ApiError> {
        let Self { writer, hub, client, .. } = self;
        let context = &writer.context;
        metadata::fill_system_fields(context, &mut object);
        let generate_name = object.str_at(&["metadata", "generateName"]);
        if object.name().is_empty() && !generate_name.is_empty() {
            let name = pintle_registry::generate_name(generate_name);
            object.set_at(&["metadata", "name"], name);
        }
        hub.strategy.prepare_for_create(context, &mut object);
        let write = WriteOperation::Create(&mut object);
        let allocated = Allocated::begin(hub.strategy.allocation(), context, client, write).await?;
        let reservations = WriteReservations::new(writer.cluster);
        let result = self.validate_and_store(object, &reservations).await;
        let end = WriteEnd::of(&result, |_| !context.dry_run);
        reservations.finish(client, end).await;
        allocated.finish(client, end).await;
        result
    }

    async fn validate_and_store(
        self,
        mut object: Value,
        reservations: &WriteReservations<'_>,
    ) -> Result<Arc<Object>, ApiError> {
        let Self { writer, resource, hub, client, .. } = self;
        // As in upstream, plugins see the name that the client gave, or else the generated name. The namespace of a
        // namespace object is its name, but empty if the name is generated.
        let (namespace, given_name) = self.given;
        let name = if given_name.is_empty() { object.name() } else { given_name }.to_owned();
        let attributes = AdmissionAttributes {
            reservations,
            namespace: if resource.is_namespaces() { given_name } else { namespace },
            ..writer.attributes(AdmissionOperation::Create, resource, ("", namespace, &name), None, client)
        };
        let rules = ApplicableRules {
            resource,
            hub,
            subresource_name: "",
            subresource: None,
            view: None,
            old_at_version: None,
        };
        validate_and_admit(writer, &rules, &attributes, &mut object, None).await?;
        set_stored_defaults(resource, hub, &mut object);
        check_budget(writer)?;
        let key = object_key(object.namespace(), object.name());
        if writer.context.dry_run {
            return self.dry_run(&key, &object).await;
        }
        self.check_resource_version()?;
        self.store(&key, &object, &attributes).await
    }

    /// Upstream's storage layer rejects a resourceVersion, and a dry run does not reach that layer. A malformed
    /// resourceVersion is ignored.
    fn check_resource_version(self) -> Result<(), ApiError> {
        if !self.resource_version.is_empty() && parse_revision(self.resource_version).is_ok_and(|revision| revision > 0)
        {
            return Err(ApiError::Unclassified(
                "resourceVersion should not be set on objects to be created".to_owned(),
            ));
        }
        Ok(())
    }

    async fn json(self, object: &Value) -> Result<Bytes, ApiError> {
        VersionView::of(self.writer.cluster, self.hub).encode_for_storage(object, None).await
    }

    /// Returns the object that would be given to the storage layer.
    async fn dry_run(self, key: &str, object: &Value) -> Result<Arc<Object>, ApiError> {
        let json = self.json(object).await?;
        // As in upstream, a dry run treats a corrupt object as absent.
        match self.writer.cluster.watch_cache(self.hub)?.read(key) {
            Ok(Some(_)) => Err(self.already_exists(key, object)),
            _ => dry_run_object(key, json, self.resource_version),
        }
    }

    /// Stores the object. The namespace and the CRD are checked again each time that they have changed before the
    /// commit.
    async fn store(
        self,
        key: &str,
        object: &Value,
        attributes: &AdmissionAttributes<'_>,
    ) -> Result<Arc<Object>, ApiError> {
        let Self { writer, hub, .. } = self;
        let cluster = writer.cluster;
        let json = self.json(object).await?;
        loop {
            let conditions = cluster.conditions_of_create(hub, object.namespace());
            NamespaceLifecycle::check(attributes)?;
            TerminatingCrd::check(attributes)?;
            let change = ObjectChange { compare: Compare::Absent, conditions, json: Some(json.clone()) };
            let outcome = commit(cluster, hub, key, change, Some(object)).await?;
            writer.recorder.trace.step(Step::Stored);
            match outcome {
                CommitOutcome::Committed(revision) => return committed_object(cluster, hub, key, revision, json),
                CommitOutcome::Conflict => return Err(self.already_exists(key, object)),
                CommitOutcome::ConditionFailed => {}
            }
        }
    }

    /// The error for a name that exists (upstream: `CheckGeneratedNameError`, which checks `generateName` only).
    fn already_exists(self, key: &str, object: &Value) -> ApiError {
        let existing = self.writer.cluster.watch_cache(self.hub).ok().and_then(|cache| cache.read(key).ok().flatten());
        let existing = existing.and_then(|object| tree(&object).ok());
        ApiError::AlreadyExists {
            resource: self.resource.group_resource(),
            name: object.name().into(),
            terminating: existing.is_some_and(|tree| tree.is_terminating()),
            generated: !object.str_at(&["metadata", "generateName"]).is_empty(),
        }
    }
}
