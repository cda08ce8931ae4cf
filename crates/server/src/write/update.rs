//! Update, and the guaranteed-update loop that every change of an object goes through.

use std::sync::Arc;

use http::StatusCode;
use pintle_admission::{Operation, Request};
use pintle_auth::Identity;
use pintle_cache::Object;
use pintle_registry::{ApiError, Context, Objects, Resource, SubresourceRules, Write};
use pintle_value::{Errors, Value};

use super::commit::{Outcome, as_cached, at, commit, stored_bytes};
use super::create::Creation;
use super::decode::{Expected, decode, default};
use super::metadata;
use crate::cluster::{Cluster, object_key, tree};
use crate::http::Response;
use crate::negotiate;
use crate::pipeline::{Call, Warnings};
use crate::query::WriteOptions;
use crate::represent::{Form, from_hub, to_hub};

/// Answers an update.
pub(crate) async fn update(call: &Call, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let form = Form::negotiate(call, resource, false)?;
    let body = call.body().await?;
    let options = WriteOptions::read(&call.query, "UpdateOptions")?;
    // Unlike for a create, the options are looked at before the media type.
    let encoding = negotiate::input(&call.headers, resource.typed)?;
    let mut object = decode(call, &body, encoding, &Expected::of(resource), options.field_validation)?;
    let change = Change::of(call, resource, options.dry_run);
    metadata::ensure_namespace(&mut object, resource, &change.namespace)?;
    metadata::ensure_name(&object, &change.name, &change.namespace)?;
    default(resource, &mut object);
    metadata::deduplicate_owners(&mut object, &call.warnings, false);
    let creates = resource.behaviour.allow_create_on_update() && call.info.subresource.is_empty();
    // Others may make or remove the object in between; then it is the other case.
    loop {
        if creates && change.current()?.is_none() {
            match create_instead(call, &change, object.clone()).await {
                Err(ApiError::AlreadyExists { .. }) => continue,
                created => {
                    let created = created?;
                    let body = if options.dry_run { form.dry(&created)? } else { form.body(&created)? };
                    return Ok(form.respond(StatusCode::CREATED, body));
                }
            }
        }
        match change.run(|_| Ok(object.clone())).await {
            Err(ApiError::NotFound { .. }) if creates && change.current()?.is_none() => {}
            updated => return Ok(form.respond(StatusCode::OK, form.body(&updated?.object)?)),
        }
    }
}

/// Creates the object that an update found missing. It may name a version, which means nothing, but no uid.
async fn create_instead(call: &Call, change: &Change<'_>, mut object: Value) -> Result<Arc<Object>, ApiError> {
    change.check_uid(&object, "")?;
    object.remove_at(&["metadata", "resourceVersion"]);
    let creation = Creation {
        cluster: &call.cluster,
        resource: change.resource,
        identity: &call.identity,
        context: change.context.clone(),
        warnings: &call.warnings,
    };
    creation.run(object).await
}

/// A change of one object under way, for a client or for the server itself.
pub(crate) struct Change<'a> {
    pub(crate) cluster: &'a Arc<Cluster>,
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) identity: &'a Identity,
    pub(crate) context: Context,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The subresource that is written, or empty.
    pub(crate) subresource: &'a str,
    /// Whose rules the change is held to.
    pub(crate) judge: Judge,
    /// A uid in the new object has to be the old one's, or else it is a conflict.
    pub(crate) uid_is_precondition: bool,
    pub(crate) warnings: &'a Warnings,
}

/// Whose rules a change is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judge {
    /// Those of the object itself, also for subresources that are a view of it (`scale`).
    Object,
    /// Those of the subresource.
    Subresource,
    /// Nobody's: who computes the object has judged it already (`binding`).
    Nobody,
}

/// The rules of a change that was judged already.
struct Unjudged;

impl SubresourceRules for Unjudged {
    fn prepare_for_update(&self, _: &Context, _: &mut Value, _: &Value) {}
}

/// A change that was made.
pub(crate) struct Updated {
    /// The object afterwards. Where it was removed because nothing kept it any longer, its last state.
    pub(crate) object: Arc<Object>,
}

impl<'a> Change<'a> {
    /// The change that a request asks for.
    pub(crate) fn of(call: &'a Call, resource: &'a Arc<Resource>, dry_run: bool) -> Self {
        Self {
            cluster: &call.cluster,
            resource,
            identity: &call.identity,
            context: call.context(dry_run),
            namespace: call.namespace_of(resource).to_owned(),
            name: call.info.name.to_string(),
            subresource: &call.info.subresource,
            judge: if call.info.subresource.is_empty() { Judge::Object } else { Judge::Subresource },
            uid_is_precondition: true,
            warnings: &call.warnings,
        }
    }

    fn key(&self) -> pintle_value::Str {
        object_key(&self.namespace, &self.name)
    }

    /// The object as it is now.
    pub(crate) fn current(&self) -> Result<Option<Arc<Object>>, ApiError> {
        Ok(self.cluster.log(self.resource)?.get(&self.key(), None).ok().flatten())
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::NotFound { resource: self.resource.group_resource(), name: self.name.as_str().into() }
    }

    /// Makes the change: `compute` makes the new object of the one there is, both at the request's version, as often as
    /// others get in between.
    ///
    /// # Errors
    /// The object is not there, or the change is refused.
    pub(crate) async fn run(
        &self,
        mut compute: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<Updated, ApiError> {
        metadata::check_key(&self.name)?;
        self.cluster.catch_up().await?;
        loop {
            let Some(current) = self.current()? else { return Err(self.not_found()) };
            if let Some(updated) = self.attempt(&current, &mut compute).await? {
                return Ok(updated);
            }
        }
    }

    /// One try; `None` if someone else was faster.
    async fn attempt(
        &self,
        current: &Arc<Object>,
        compute: &mut impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<Option<Updated>, ApiError> {
        let Self { cluster, resource, context, .. } = self;
        let hub = cluster.hub(resource);
        let old = tree(current)?;
        let old_view = from_hub(resource, old.clone());
        let mut object = compute(&old_view)?;
        if self.uid_is_precondition {
            self.check_uid(&object, old.uid())?;
        }
        let wanted = metadata::revision(&object).map_err(ApiError::Unclassified)?;
        match wanted {
            None if !resource.behaviour.allow_unconditional_update() => {
                return Err(metadata::version_required(resource, &self.name));
            }
            Some(revision) if revision != current.revision => return Err(metadata::modified(resource, &self.name)),
            _ => {}
        }
        // Whoever names no version means the newest.
        object.set_at(&["metadata", "resourceVersion"], current.revision.to_string());
        let access = super::objects::Access((*cluster).clone());
        let objects: &dyn Objects = &access;
        let request = Request {
            operation: Operation::Update,
            resource,
            subresource: self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            identity: self.identity,
            dry_run: context.dry_run,
            old: Some(&old_view),
            objects,
        };
        metadata::keep_system_fields(&mut object, &old);
        cluster.admission.mutate(&request, &mut object).await?;
        metadata::deduplicate_owners(&mut object, self.warnings, true);
        let mut object = to_hub(resource, &hub, object);
        let rules = self.rules(&hub)?;
        match rules {
            Some(rules) => rules.prepare_for_update(context, &mut object, &old),
            None => hub.behaviour.prepare_for_update(context, &mut object, &old),
        }
        let allocation = hub.behaviour.allocation().filter(|_| rules.is_none());
        let ticket = match allocation {
            Some(allocation) => {
                let write = Write::Update { object: &mut object, old: &old };
                Some(allocation.begin(context, objects, write).await?)
            }
            None => None,
        };
        let result = self.check_and_store(&hub, rules, &request, object, &old, current).await;
        if let (Some(allocation), Some(ticket)) = (allocation, ticket) {
            if matches!(&result, Ok(Some(_))) && !context.dry_run {
                allocation.commit(objects, ticket).await;
            } else {
                allocation.revert(objects, ticket).await;
            }
        }
        match result {
            // Someone else was faster. Who named a resourceVersion does not want to change anything else.
            Ok(None) if wanted.is_some() => Err(metadata::modified(resource, &self.name)),
            result => result,
        }
    }

    fn check_uid(&self, object: &Value, found: &str) -> Result<(), ApiError> {
        let wanted = object.uid();
        if wanted.is_empty() || wanted == found {
            return Ok(());
        }
        let prefix = self.resource.collection().map(|c| c.prefix.clone()).unwrap_or_default();
        let key = self.cluster.cache.store_key(&prefix, &self.key());
        Err(ApiError::Conflict {
            resource: self.resource.group_resource(),
            name: self.name.as_str().into(),
            why: format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
            ),
        })
    }

    fn rules<'h>(&self, hub: &'h Arc<Resource>) -> Result<Option<&'h dyn SubresourceRules>, ApiError> {
        match self.judge {
            Judge::Object => Ok(None),
            Judge::Subresource => hub.behaviour.subresource(self.subresource).map(Some).ok_or(ApiError::NoSuchPath),
            Judge::Nobody => Ok(Some(&Unjudged)),
        }
    }

    async fn check_and_store(
        &self,
        hub: &Arc<Resource>,
        rules: Option<&dyn SubresourceRules>,
        request: &Request<'_>,
        mut object: Value,
        old: &Value,
        current: &Arc<Object>,
    ) -> Result<Option<Updated>, ApiError> {
        let Self { cluster, resource, context, .. } = self;
        let mut errors = metadata::validate_update(&object, old, hub);
        errors.append(match rules {
            Some(rules) => rules.validate_update(context, &object, old),
            None => self.validate(hub, &object, old),
        });
        metadata::refuse(resource, &self.name, errors)?;
        let warnings = match rules {
            Some(rules) => rules.warnings(context, &object, old),
            None => hub.behaviour.warnings(context, &object, Some(old)),
        };
        for warning in warnings {
            self.warnings.push(warning);
        }
        hub.behaviour.canonicalize(&mut object);
        cluster.admission.validate(request, &object).await?;
        let key = self.key();
        if super::delete::is_over(hub, &object) {
            // The last finalizer is gone: so is the object.
            let last = as_cached(&key, current.revision, stored_bytes(hub, &object))?;
            if context.dry_run {
                return Ok(Some(Updated { object: last }));
            }
            return Ok(match commit(cluster, hub, &key, at(current.revision), None).await? {
                Outcome::Done(_) => {
                    super::delete::release(self, hub, &key, old, request.objects).await;
                    Some(Updated { object: last })
                }
                Outcome::Conflict => None,
            });
        }
        let json = stored_bytes(hub, &object);
        // What changes nothing is not written.
        if json == current.json {
            return Ok(Some(Updated { object: current.clone() }));
        }
        if context.dry_run {
            return Ok(Some(Updated { object: as_cached(&key, current.revision, json)? }));
        }
        match commit(cluster, hub, &key, at(current.revision), Some(json.clone())).await? {
            Outcome::Done(revision) => Ok(Some(Updated { object: as_cached(&key, revision, json)? })),
            Outcome::Conflict => Ok(None),
        }
    }

    fn validate(&self, hub: &Arc<Resource>, object: &Value, old: &Value) -> Errors {
        if self.resource.behaviour.validates_own_version() {
            return self.resource.behaviour.validate_update(&self.context, object, old);
        }
        hub.behaviour.validate_update(&self.context, object, old)
    }
}
