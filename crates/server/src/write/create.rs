//! Create.

use std::sync::Arc;

use http::StatusCode;
use pintle_admission::{AdmissionAttributes, AdmissionOperation, NamespaceLifecycle};
use pintle_auth::UserInfo;
use pintle_cache::Object;
use pintle_registry::{ApiError, Backing, Resource, StrategyContext, WriteOperation};
use pintle_store::Compare;
use pintle_value::Value;
use pintle_value::metadata::MANAGED_FIELDS;

use super::commit::{Outcome, as_cached, commit};
use super::decode::{ExpectedKind, decode};
use super::ownership::ManagedFieldsUpdater;
use super::{metadata, run_expensive_validation};
use crate::cluster::{Cluster, object_key};
use crate::http::Response;
use crate::negotiate::{self, Endpoint};
use crate::pipeline::RequestContext;
use crate::query::{WriteOptions, Writing};
use crate::represent::{ResponseFormat, to_hub};
use crate::versions::View;
use crate::warnings::Warnings;

/// How often another name is tried when a generated one is taken.
const NAME_TRIES: usize = 8;

/// Answers a create.
pub(crate) async fn create(call: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let form = ResponseFormat::negotiate(call, resource, false)?;
    let encoding = negotiate::input(&call.headers, Endpoint { protobuf: resource.built_in, ..call.endpoint() })?;
    let body = call.body().await?;
    let options = WriteOptions::read(&call.query, Writing::Create)?;
    let expected = ExpectedKind::of(resource);
    let mut object = decode(call, &body, encoding, &expected, options.field_validation)?;
    expected.default(&mut object);
    metadata::wipe_system_fields(&mut object);
    metadata::ensure_namespace(&mut object, resource, &call.info.namespace)?;
    metadata::deduplicate_owners(&mut object, &call.warnings, false);
    let ownership = ManagedFieldsUpdater::of(call, &expected, &options);
    if resource.versions.is_some() && object.at(&MANAGED_FIELDS).is_some() {
        // Those who owned it elsewhere may have done so at other versions.
        let owned = || {
            let mut object = object.clone();
            ownership.create(&mut object);
            object
        };
        object = call.conversions.complete(&call.cluster, resource, owned).await;
    } else {
        ownership.create(&mut object);
    }
    if let Backing::Action(action) = resource.backing {
        return super::action::act(call, resource, action, object, options.dry_run).await;
    }
    let creation = CreateOperation {
        cluster: &call.cluster,
        resource,
        user: &call.user,
        context: call.context(options.dry_run),
        warnings: &call.warnings,
    };
    let created = creation.run(object).await?;
    form.answer(StatusCode::CREATED, &created).await
}

impl ResponseFormat {
    /// Answers with an object that was written. One that a dry run made has revision 0, and shows no resourceVersion.
    ///
    /// # Errors
    /// As [`ResponseFormat::body`], or the object cannot be shown at the version of the request.
    pub(crate) async fn answer(&self, code: StatusCode, object: &Arc<Object>) -> Result<Response, ApiError> {
        let object = self.view.show_one(object).await?;
        if object.revision > 0 {
            return Ok(self.respond(code, self.body(&object)?));
        }
        let mut tree = self.tree(&object)?;
        tree.remove_at(&["metadata", "resourceVersion"]);
        Ok(self.respond(code, self.body_of(tree)?))
    }
}

/// A create under way, for a client or for the server itself.
pub(crate) struct CreateOperation<'a> {
    pub(crate) cluster: &'a Arc<Cluster>,
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) user: &'a UserInfo,
    pub(crate) context: StrategyContext,
    pub(crate) warnings: &'a Warnings,
}

impl CreateOperation<'_> {
    /// Creates an object at the request's version that has its defaults and says who owns what. A dry run's object has
    /// revision 0.
    ///
    /// # Errors
    /// It is refused or is there already.
    pub(crate) async fn run(&self, object: Value) -> Result<Arc<Object>, ApiError> {
        let generates = object.name().is_empty() && !object.str_at(&["metadata", "generateName"]).is_empty();
        let mut tries = if generates { NAME_TRIES } else { 1 };
        loop {
            tries -= 1;
            match self.attempt(object.clone()).await {
                Err(ApiError::AlreadyExists { .. }) if tries > 0 => {}
                result => return result,
            }
        }
    }

    async fn attempt(&self, mut object: Value) -> Result<Arc<Object>, ApiError> {
        let Self { cluster, resource, context, .. } = self;
        let hub = cluster.hub(resource);
        let versioned = matches!(metadata::revision(&object), Ok(Some(_)));
        let generate = object.str_at(&["metadata", "generateName"]).to_owned();
        if object.name().is_empty() && !generate.is_empty() {
            object.set_at(&["metadata", "name"], metadata::generate_name(&generate));
        }
        let (name, namespace) = (object.name().to_owned(), object.namespace().to_owned());
        let objects: &dyn pintle_registry::ObjectClient = &super::objects::InternalClient((*cluster).clone());
        let request = AdmissionAttributes {
            operation: AdmissionOperation::Create,
            resource,
            subresource: "",
            namespace: &namespace,
            name: &name,
            user: self.user,
            dry_run: context.dry_run,
            old: None,
            objects,
        };
        cluster.admission.mutate(&request, &mut object).await?;
        metadata::deduplicate_owners(&mut object, self.warnings, true);
        let mut object = to_hub(resource, &hub, object);
        metadata::fill_system_fields(context, &mut object);
        hub.strategy.prepare_for_create(context, &mut object);
        let ticket = match hub.strategy.allocation() {
            Some(allocation) => Some(allocation.begin(context, objects, WriteOperation::Create(&mut object)).await?),
            None => None,
        };
        let result = self.check_and_store(&hub, &request, &mut object, versioned, &name).await;
        if let (Some(allocation), Some(ticket)) = (hub.strategy.allocation(), ticket) {
            if result.is_ok() && !context.dry_run {
                allocation.commit(objects, ticket).await;
            } else {
                allocation.revert(objects, ticket).await;
            }
        }
        result
    }

    async fn check_and_store(
        &self,
        hub: &Arc<Resource>,
        request: &AdmissionAttributes<'_>,
        object: &mut Value,
        versioned: bool,
        name: &str,
    ) -> Result<Arc<Object>, ApiError> {
        let Self { cluster, resource, context, .. } = self;
        let mut errors = metadata::validate(object, hub);
        if resource.strategy.validates_own_version() {
            errors.append(resource.strategy.validate(context, object));
        } else {
            errors.append(hub.strategy.validate(context, object));
        }
        for warning in
            run_expensive_validation(|budget| hub.strategy.validate_expensive(object, None, &mut errors, budget))
        {
            self.warnings.push(warning);
        }
        metadata::refuse(resource, name, errors)?;
        for warning in hub.strategy.warnings(context, object, None) {
            self.warnings.push(warning);
        }
        hub.strategy.canonicalize(object);
        cluster.admission.validate(request, object).await?;
        // Upstream's storage says so, and a dry run does not get there; what is no number counts as none.
        if versioned && !context.dry_run {
            return Err(ApiError::Unclassified(
                "resourceVersion should not be set on objects to be created".to_owned(),
            ));
        }
        let key = object_key(object.namespace(), object.name());
        let json = View::of(cluster, hub).store(object).await?;
        let taken = || self.taken(hub, &key, object);
        if context.dry_run {
            // Upstream takes what it cannot read for nothing here.
            if matches!(cluster.watch_cache(hub)?.read(&key), Ok(Some(_))) {
                return Err(taken());
            }
            return as_cached(&key, 0, json);
        }
        // Whoever empties a namespace waits for those who were let in before it began to go.
        let _let_in = cluster.creates.read().await;
        NamespaceLifecycle::check(request)?;
        match commit(cluster, hub, &key, Compare::Absent, Some(json.clone())).await? {
            Outcome::Done(revision) => as_cached(&key, revision, json),
            Outcome::Conflict => Err(taken()),
        }
    }

    /// The error of a name that is taken (upstream: `CheckGeneratedNameError`, which looks for a `generateName` alone).
    fn taken(&self, hub: &Arc<Resource>, key: &str, object: &Value) -> ApiError {
        let existing = self.cluster.watch_cache(hub).ok().and_then(|watch_cache| watch_cache.read(key).ok().flatten());
        let existing = existing.and_then(|object| crate::cluster::tree(&object).ok());
        ApiError::AlreadyExists {
            resource: self.resource.group_resource(),
            name: object.name().into(),
            terminating: existing.is_some_and(|tree| tree.is_terminating()),
            generated: !object.str_at(&["metadata", "generateName"]).is_empty(),
        }
    }
}
