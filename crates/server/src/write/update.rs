//! Update, and the guaranteed-update loop that every change of an object goes through.

use std::sync::Arc;

use http::StatusCode;
use pintle_admission::{AdmissionAttributes, AdmissionOperation};
use pintle_auth::UserInfo;
use pintle_cache::{CorruptObject, Object};
use pintle_registry::{ApiError, ObjectClient, Resource, StrategyContext, SubresourceStrategy, WriteOperation};
use pintle_value::metadata::MANAGED_FIELDS;
use pintle_value::{Errors, Value};

use super::commit::{Outcome, as_cached, at, commit};
use super::create::CreateOperation;
use super::decode::{ExpectedKind, decode};
use super::ownership::{self, ManagedFieldsUpdater};
use super::{metadata, run_expensive_validation};
use crate::cluster::{Cluster, object_key};
use crate::http::Response;
use crate::negotiate::{self, Endpoint};
use crate::pipeline::RequestContext;
use crate::query::{WriteOptions, Writing};
use crate::represent::{ResponseFormat, from_hub, to_hub};
use crate::versions::{Conversions, View};
use crate::warnings::Warnings;

/// Answers an update.
pub(crate) async fn update(call: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let form = ResponseFormat::negotiate(call, resource, false)?;
    let body = call.body().await?;
    let options = WriteOptions::read(&call.query, Writing::Update)?;
    // Unlike for a create, the options are looked at before the media type.
    let encoding = negotiate::input(&call.headers, Endpoint { protobuf: resource.built_in, ..call.endpoint() })?;
    let expected = ExpectedKind::of(resource);
    let mut object = decode(call, &body, encoding, &expected, options.field_validation)?;
    let change = GuaranteedUpdate::of(call, resource, options.dry_run);
    metadata::ensure_namespace(&mut object, resource, &change.namespace)?;
    metadata::ensure_name(&object, &change.name, &change.namespace)?;
    expected.default(&mut object);
    metadata::deduplicate_owners(&mut object, &call.warnings, false);
    let ownership = ManagedFieldsUpdater::of(call, &expected, &options);
    let make = |live: &Value| {
        let mut object = object.clone();
        ownership.update(live, &mut object);
        Ok(object)
    };
    if resource.strategy.allow_create_on_update() && call.info.subresource.is_empty() {
        let (code, stored) = change.run_or_create(call, || ownership.nothing(), make).await?;
        return form.answer(code, &stored).await;
    }
    form.answer(StatusCode::OK, &change.run(make).await?.object).await
}

/// A change of one object under way, for a client or for the server itself.
pub(crate) struct GuaranteedUpdate<'a> {
    pub(crate) cluster: &'a Arc<Cluster>,
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) user: &'a UserInfo,
    pub(crate) context: StrategyContext,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The subresource that is written, or empty.
    pub(crate) subresource: &'a str,
    /// Whose rules the change is held to.
    pub(crate) judge: Judge,
    /// A uid in the new object has to be the old one's, or else it is a conflict.
    pub(crate) uid_is_precondition: bool,
    pub(crate) warnings: &'a Warnings,
    /// What is known of the object at other versions.
    pub(crate) conversions: Arc<Conversions>,
    /// The object is taken as it is stored, whatever version that is: who takes it looks at nothing but its metadata.
    pub(crate) as_stored: bool,
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

impl SubresourceStrategy for Unjudged {
    fn prepare_for_update(&self, _: &StrategyContext, _: &mut Value, _: &Value) {}
}

/// A change that was made.
pub(crate) struct Updated {
    /// The object afterwards. Where it was removed because nothing kept it any longer, its last state.
    pub(crate) object: Arc<Object>,
}

impl<'a> GuaranteedUpdate<'a> {
    /// The change that a request asks for.
    pub(crate) fn of(call: &'a RequestContext, resource: &'a Arc<Resource>, dry_run: bool) -> Self {
        Self {
            cluster: &call.cluster,
            resource,
            user: &call.user,
            context: call.context(dry_run),
            namespace: call.namespace_of(resource).to_owned(),
            name: call.info.name.to_string(),
            subresource: &call.info.subresource,
            judge: if call.info.subresource.is_empty() { Judge::Object } else { Judge::Subresource },
            uid_is_precondition: true,
            warnings: &call.warnings,
            conversions: call.conversions.clone(),
            as_stored: false,
        }
    }

    /// How stored objects are seen at the version that rules hold at.
    pub(crate) fn view(&self, hub: &Arc<Resource>) -> View {
        if self.as_stored { View::as_stored(self.cluster, hub) } else { View::of(self.cluster, hub) }
    }

    fn key(&self) -> pintle_value::Str {
        object_key(&self.namespace, &self.name)
    }

    /// The object as it is now, or what stands in its place and cannot be read.
    ///
    /// # Errors
    /// There is no such collection.
    pub(crate) fn read(&self) -> Result<Result<Option<Arc<Object>>, CorruptObject>, ApiError> {
        Ok(self.cluster.watch_cache(self.resource)?.read(&self.key()))
    }

    /// The object as it is now, to be changed.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn current(&self) -> Result<Option<Arc<Object>>, ApiError> {
        self.read()?.map_err(|corrupt| self.cluster.unchangeable(&corrupt))
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

    /// Makes the change, or creates what `compute` makes of `nothing` if the object is not there. Says which it was.
    ///
    /// # Errors
    /// The change or the creation is refused.
    pub(crate) async fn run_or_create(
        &self,
        call: &RequestContext,
        nothing: impl Fn() -> Value,
        mut compute: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<(StatusCode, Arc<Object>), ApiError> {
        metadata::check_key(&self.name)?;
        self.cluster.catch_up().await?;
        // Others may make or remove the object in between; then it is the other case.
        loop {
            if self.current()?.is_some() {
                match self.run(&mut compute).await {
                    Err(ApiError::NotFound { .. }) if self.current()?.is_none() => continue,
                    updated => return Ok((StatusCode::OK, updated?.object)),
                }
            }
            match self.create_instead(call, compute(&nothing())?).await {
                Err(ApiError::AlreadyExists { .. }) => {}
                created => return Ok((StatusCode::CREATED, created?)),
            }
        }
    }

    /// Creates the object that is not there. It may name a resourceVersion, which means nothing, but no uid.
    async fn create_instead(&self, call: &RequestContext, mut object: Value) -> Result<Arc<Object>, ApiError> {
        call.authorize("create")?;
        if self.uid_is_precondition {
            self.check_uid(&object, "")?;
        }
        object.remove_at(&["metadata", "resourceVersion"]);
        let creation = CreateOperation {
            cluster: self.cluster,
            resource: self.resource,
            user: self.user,
            context: self.context.clone(),
            warnings: self.warnings,
        };
        creation.run(object).await
    }

    /// One try; `None` if someone else was faster.
    async fn attempt(
        &self,
        current: &Arc<Object>,
        compute: &mut impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<Option<Updated>, ApiError> {
        let Self { cluster, resource, context, .. } = self;
        let hub = cluster.hub(resource);
        let view = self.view(&hub);
        let old = view.tree(current).await?;
        let other_view = (!resource.is_hub()).then(|| from_hub(resource, old.clone()));
        let old_view = other_view.as_ref().unwrap_or(&old);
        let mut object = self.conversions.complete(cluster, resource, || compute(old_view)).await?;
        if self.uid_is_precondition {
            self.check_uid(&object, old.uid())?;
        }
        let wanted = metadata::revision(&object).map_err(ApiError::Unclassified)?;
        match wanted {
            None if !resource.strategy.allow_unconditional_update() => {
                return Err(metadata::version_required(resource, &self.name));
            }
            Some(revision) if revision != current.revision => return Err(metadata::modified(resource, &self.name)),
            _ => {}
        }
        // Whoever names no version means the newest.
        object.set_at(&["metadata", "resourceVersion"], current.revision.to_string());
        let access = super::objects::InternalClient((*cluster).clone());
        let objects: &dyn ObjectClient = &access;
        let request = AdmissionAttributes {
            operation: AdmissionOperation::Update,
            resource,
            subresource: self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            user: self.user,
            dry_run: context.dry_run,
            old: Some(old_view),
            objects,
        };
        metadata::keep_system_fields(&mut object, &old);
        cluster.admission.mutate(&request, &mut object).await?;
        metadata::deduplicate_owners(&mut object, self.warnings, true);
        let mut object = to_hub(resource, &hub, object);
        let rules = self.rules(&hub)?;
        match rules {
            Some(rules) => rules.prepare_for_update(context, &mut object, &old),
            None => hub.strategy.prepare_for_update(context, &mut object, &old),
        }
        let allocation = hub.strategy.allocation().filter(|_| rules.is_none());
        let ticket = match allocation {
            Some(allocation) => {
                let write = WriteOperation::Update { object: &mut object, old: &old };
                Some(allocation.begin(context, objects, write).await?)
            }
            None => None,
        };
        let result = self.check_and_store(&view, rules, &request, object, &old, current).await;
        if let (Some(allocation), Some(ticket)) = (allocation, ticket) {
            if matches!(&result, Ok(Some(_))) && !context.dry_run {
                allocation.commit(objects, ticket).await;
            } else {
                allocation.revert(objects, ticket).await;
            }
        }
        // If someone else was faster, the next try finds whether this change was meant for that version only. A patch
        // carries the version of the object that it was applied to, which says nothing.
        result
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

    /// The error of an object that is to be made but says that it has a uid.
    pub(crate) fn uid_without_object(&self, uid: &str) -> ApiError {
        ApiError::Conflict {
            resource: self.resource.group_resource(),
            name: self.name.as_str().into(),
            why: format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found"),
        }
    }

    fn rules<'h>(&self, hub: &'h Arc<Resource>) -> Result<Option<&'h dyn SubresourceStrategy>, ApiError> {
        match self.judge {
            Judge::Object => Ok(None),
            Judge::Subresource => hub.strategy.subresource(self.subresource).map(Some).ok_or(ApiError::NoSuchPath),
            Judge::Nobody => Ok(Some(&Unjudged)),
        }
    }

    async fn check_and_store(
        &self,
        view: &View,
        rules: Option<&dyn SubresourceStrategy>,
        request: &AdmissionAttributes<'_>,
        mut object: Value,
        old: &Value,
        current: &Arc<Object>,
    ) -> Result<Option<Updated>, ApiError> {
        let Self { cluster, resource, context, .. } = self;
        let hub = &view.hub;
        let mut errors = metadata::validate_update(&object, old, hub);
        let mut found = match rules {
            Some(rules) => rules.validate_update(context, &object, old),
            None => self.validate(hub, &object, old),
        };
        let warnings = run_expensive_validation(|budget| match rules {
            Some(rules) => rules.validate_expensive(&object, old, &mut found, budget),
            None => hub.strategy.validate_expensive(&object, Some(old), &mut found, budget),
        });
        for warning in warnings {
            self.warnings.push(warning);
        }
        errors.append(found);
        metadata::refuse(resource, &self.name, errors)?;
        let warnings = match rules {
            Some(rules) => rules.warnings(context, &object, old),
            None => hub.strategy.warnings(context, &object, Some(old)),
        };
        for warning in warnings {
            self.warnings.push(warning);
        }
        hub.strategy.canonicalize(&mut object);
        cluster.admission.validate(request, &object).await?;
        object.remove_at(&["metadata", "resourceVersion"]);
        let key = self.key();
        if super::delete::is_over(hub, &object, old) {
            // The last finalizer is gone: so is the object, and nobody need know it as it would be stored.
            let last = as_cached(&key, current.revision, view.bytes(&object))?;
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
        // What changes nothing is not written, and that it was written again now is nothing.
        if ownership::differs_in_time_alone(&object, old) {
            let mut at_that_time = object.clone();
            at_that_time.set_at(&MANAGED_FIELDS, old.at(&MANAGED_FIELDS).cloned().unwrap_or_default());
            if view.store(&at_that_time).await? == current.json {
                return Ok(Some(Updated { object: current.clone() }));
            }
        }
        let json = view.store(&object).await?;
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
        if self.resource.strategy.validates_own_version() {
            return self.resource.strategy.validate_update(&self.context, object, old);
        }
        hub.strategy.validate_update(&self.context, object, old)
    }
}
