//! Updates, and the guaranteed-update loop for every change of an object (upstream: `registry/generic/registry`,
//! `Store.Update`; `storage.GuaranteedUpdate`).

use std::borrow::Cow;
use std::sync::Arc;

use http::StatusCode;
use pintle_admission::{AdmissionAttributes, AdmissionOperation};
use pintle_cache::{CorruptObject, Object};
use pintle_codec::json::OriginalObject;
use pintle_registry::{ApiError, Resource, StrategyContext, SubresourceStrategy, WriteOperation};
use pintle_value::Value;
use pintle_value::metadata::MANAGED_FIELDS;

use super::allocation::Allocated;
use super::commit::{CommitOutcome, ObjectChange, WriteEnd, cached_object, commit, committed_object};
use super::create::CreateOperation;
use super::internal_client::InternalClient;
use super::managed_fields::{ManagedFieldsUpdater, differs_only_in_times};
use super::metadata;
use super::reservations::WriteReservations;
use super::validate::{ApplicableRules, check_budget, validate_and_admit};
use super::writer::Writer;
use crate::cluster::object_index::is_same_object;
use crate::cluster::{Turn, check_key, object_key, store_error};
use crate::context::RequestContext;
use crate::conversion::{VersionView, from_hub, to_hub};
use crate::http::Response;
use crate::objects::decode::{ExpectedKind, decode, set_stored_defaults};
use crate::objects::model;
use crate::represent::ResponseFormat;
use crate::request::negotiate;
use crate::request::query::{WriteOptions, WriteVerb};
use crate::request::trace::Step;

/// Handles an update request.
pub(crate) async fn update(request: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let format = ResponseFormat::negotiate(request, resource, false)?;
    let body = request.body().await?;
    let options = WriteOptions::read(&request.query, WriteVerb::Update)?;
    // For an update, upstream checks the options before the media type; for a create, it checks the media type first.
    let encoding = negotiate::input(&request.headers, model(resource).endpoint(request.endpoint()))?;
    let expected = ExpectedKind::of(resource);
    let mut object = decode(request.decoding(), &body, encoding, &expected, options.field_validation)?;
    expected.set_defaults(&mut object);
    request.audit_object(&object, expected.shape());
    let update = GuaranteedUpdate::for_request(request, resource, &options);
    metadata::ensure_namespace(&mut object, resource, &update.namespace)?;
    metadata::check_name(&object, &update.name, &update.namespace)?;
    metadata::dedup_owner_references(&mut object, &request.recorder, false);
    let managed_fields = ManagedFieldsUpdater::for_request(request, &expected, &options);
    let compute = |live: &Value| {
        let mut object = object.clone();
        managed_fields.update(live, &mut object);
        Ok(object)
    };
    if resource.creates_on_update && request.info.subresource.is_empty() {
        let (code, stored) = update.run_or_create(request, || managed_fields.empty_object(), compute).await?;
        return format.respond_object(code, &stored).await;
    }
    format.respond_object(StatusCode::OK, &update.run(compute).await?).await
}

/// An update of one object, for a client or for the server itself. The new object is computed again after each conflict
/// with another write.
pub(crate) struct GuaranteedUpdate<'a> {
    pub(crate) writer: Writer<'a>,
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The subresource that is written, or empty.
    pub(crate) subresource: &'a str,
    /// The rules that validate the update.
    pub(crate) rules: ValidationRules,
    pub(crate) mode: UpdateMode,
    /// The members of the object whose content the update seldom uses ([`SubresourceStrategy::seldom_used`]).
    pub(crate) seldom_used: &'static [&'static str],
    /// The view of the object that is updated; `None` for the object itself.
    pub(crate) view: Option<&'a dyn SubresourceView>,
}

/// The differences between the callers of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateMode {
    /// A new object replaces the stored object. If the new object has a uid, the stored object must have the same uid.
    Replace,
    /// A patch changes the stored object. A uid in the result is no precondition.
    Patch,
    /// A controller replaces the object, only while this server runs the controllers.
    AsLeader,
    /// The server deletes the object. The object is read at its stored version, because only its metadata changes.
    InternalDelete,
    /// A request deletes the object as part of a collection. As in upstream, plugins do not see its name.
    CollectionDelete,
}

/// The outcome of one attempt of an update.
enum AttemptOutcome {
    /// Another request has changed the object since it was read.
    Conflict,
    /// The update is rejected before a commit.
    Rejected(ApiError),
    /// The update needs no commit: it changes nothing, or it is a dry run.
    NotCommitted(Arc<Object>),
    /// The update has tried to commit. It is never repeated, because an error may hide that the commit succeeded.
    Committed(Result<Arc<Object>, ApiError>),
}

impl AttemptOutcome {
    /// The end of the write for its reservations and allocations.
    fn write_end(&self, is_dry_run: bool) -> WriteEnd {
        match self {
            Self::Committed(result) => WriteEnd::of(result, |_| true),
            Self::NotCommitted(_) if !is_dry_run => WriteEnd::Stored,
            Self::NotCommitted(_) | Self::Conflict | Self::Rejected(_) => WriteEnd::NotStored,
        }
    }
}

/// A view of an object that a subresource writes (`scale`). Clients and admission see it in place of the object.
pub(crate) trait SubresourceView: Sync {
    /// The view of an object before its update.
    ///
    /// # Errors
    /// The object has no such view.
    fn before_update(&self, object: &Value) -> Result<Value, ApiError>;

    /// The view of an object after its validation.
    ///
    /// # Errors
    /// The object has no such view.
    fn of_validated(&self, object: &Value) -> Result<Value, ApiError>;

    /// Updates an object from its new view.
    ///
    /// # Errors
    /// The view is invalid.
    fn apply(&self, object: &Value, view: &Value) -> Result<Value, ApiError>;
}

/// The rules that validate an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValidationRules {
    /// The rules of the object itself. These rules also apply to subresources that are a view of the object (`scale`).
    Object,
    /// The rules of the subresource.
    Subresource,
    /// No rules, because the computed object is valid by construction (`binding`).
    None,
}

/// The strategy of an update that needs no validation.
struct NoValidation;

impl SubresourceStrategy for NoValidation {
    fn prepare_for_update(&self, _: &StrategyContext, _: &mut Value, _: &Value) {}
}

impl<'a> GuaranteedUpdate<'a> {
    /// The update that a request makes.
    pub(crate) fn for_request(
        request: &'a RequestContext,
        resource: &'a Arc<Resource>,
        options: &'a WriteOptions,
    ) -> Self {
        let rules =
            if request.info.subresource.is_empty() { ValidationRules::Object } else { ValidationRules::Subresource };
        Self {
            subresource: &request.info.subresource,
            rules,
            ..Self::new(
                Writer::for_request(request, options, options.dry_run),
                resource,
                (request.namespace_of(resource), &request.info.name),
            )
        }
    }

    /// An update of an object by a writer, validated by the rules of the object itself.
    pub(crate) fn new(writer: Writer<'a>, resource: &'a Arc<Resource>, (namespace, name): (&str, &str)) -> Self {
        Self {
            writer,
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: "",
            rules: ValidationRules::Object,
            mode: UpdateMode::Replace,
            seldom_used: &[],
            view: None,
        }
    }

    /// The view that converts stored objects to the hub version.
    pub(crate) fn version_view(&self, hub: &Arc<Resource>) -> VersionView {
        let cluster = self.writer.cluster;
        match self.mode {
            UpdateMode::InternalDelete => VersionView::as_stored(cluster, hub),
            _ => VersionView::of(cluster, hub),
        }
    }

    fn key(&self) -> pintle_value::Str {
        object_key(&self.namespace, &self.name)
    }

    fn prefix(&self) -> &str {
        self.resource.collection().map_or("", |collection| &collection.prefix)
    }

    /// The key of the object in the store.
    fn store_key(&self) -> String {
        self.writer.cluster.stores.cache.store_key(self.prefix(), &self.key())
    }

    /// True if the object must be written again although it does not change. For example, its stored form is encrypted
    /// with an old key (upstream: the second read in `GuaranteedUpdate`).
    async fn is_stored_form_stale(&self) -> Result<bool, ApiError> {
        let store = self.writer.cluster.storage_of(self.prefix()).store;
        store.is_stale(self.store_key().into()).await.map_err(store_error)
    }

    /// Reads the stored object. The inner error is the error of a corrupt object.
    ///
    /// # Errors
    /// Returns an error if the resource stores no objects.
    pub(crate) fn read(&self) -> Result<Result<Option<Arc<Object>>, CorruptObject>, ApiError> {
        Ok(self.writer.cluster.watch_cache(self.resource)?.read(&self.key()))
    }

    /// Reads the stored object for an update.
    ///
    /// # Errors
    /// Returns an error if the object is corrupt.
    pub(crate) fn current(&self) -> Result<Option<Arc<Object>>, ApiError> {
        self.read()?.map_err(|corrupt| self.writer.cluster.corrupt_update_error(&corrupt))
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::NotFound { resource: self.resource.group_resource(), name: self.name.as_str().into() }
    }

    /// Updates the object. `compute` returns the new object for the stored object, both at the request's version. It is
    /// called again after each conflict. Returns the updated object. If the update removed the last finalizer, returns
    /// the last state of the deleted object.
    ///
    /// # Errors
    /// Returns an error if the object does not exist or the update is rejected.
    pub(crate) async fn run(
        &self,
        mut compute: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<Arc<Object>, ApiError> {
        check_key(&self.name)?;
        // As in upstream (`cachedExistingObject`), the first attempt uses the object in the watch cache, which usually
        // is the newest. If it is not, the compare of the commit fails. The result of an attempt without a commit only
        // counts if its object is known to be the newest.
        let mut is_current = self.writer.context.dry_run;
        if is_current {
            self.catch_up().await?;
        }
        let mut turn = self.turn_if_contended().await;
        let before = pintle_budget::mark();
        loop {
            let Some(current) = self.current()? else {
                if std::mem::replace(&mut is_current, true) {
                    return Err(self.not_found());
                }
                self.catch_up().await?;
                continue;
            };
            // The objects of an earlier attempt are dropped by now.
            before.release_all_but(0);
            if self.writer.recorder.set_large_by_length(current.json.len()).await {
                continue;
            }
            let result = match self.attempt(&current, &mut compute).await {
                AttemptOutcome::Conflict => {
                    turn = self.turn_after_conflict(turn).await;
                    continue;
                }
                AttemptOutcome::Committed(result) => return result,
                AttemptOutcome::NotCommitted(object) => Ok(object),
                AttemptOutcome::Rejected(error) => Err(error),
            };
            if is_current {
                return result;
            }
            self.catch_up().await?;
            is_current = true;
            if self.current()?.is_some_and(|newest| newest.revision == current.revision) {
                return result;
            }
        }
    }

    /// Waits for the turn of the update among the writes of its key, if these take turns at present. A dry run never waits.
    async fn turn_if_contended(&self) -> Option<Turn<'a>> {
        if self.writer.context.dry_run {
            return None;
        }
        self.writer.cluster.writes.contended_keys.wait_if_contended(|| self.store_key().into()).await
    }

    /// Waits for the turn of the update after a conflict, unless it is the update's turn already.
    async fn turn_after_conflict(&self, turn: Option<Turn<'a>>) -> Option<Turn<'a>> {
        if turn.as_ref().is_some_and(Turn::has_begun) {
            return turn;
        }
        drop(turn);
        Some(self.writer.cluster.writes.contended_keys.wait(self.store_key().into()).await)
    }

    /// Waits until the watch cache contains everything that is committed now.
    async fn catch_up(&self) -> Result<(), ApiError> {
        self.writer.cluster.storage_of_resource(self.resource).catch_up().await.map(drop)
    }

    /// Updates the object or, if it does not exist, creates the object that `compute` returns for the empty object. The
    /// status code tells which of the two was done.
    ///
    /// # Errors
    /// Returns an error if the update or the create is rejected.
    pub(crate) async fn run_or_create(
        &self,
        request: &RequestContext,
        empty_object: impl Fn() -> Value,
        mut compute: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<(StatusCode, Arc<Object>), ApiError> {
        check_key(&self.name)?;
        self.catch_up().await?;
        // Another client may create or delete the object in between. Then the other branch runs.
        loop {
            if self.current()?.is_some() {
                match self.run(&mut compute).await {
                    Err(ApiError::NotFound { .. }) if self.current()?.is_none() => continue,
                    updated => return Ok((StatusCode::OK, updated?)),
                }
            }
            match self.create_instead(request, compute(&empty_object())?).await {
                Err(ApiError::AlreadyExists { .. }) => {}
                created => return Ok((StatusCode::CREATED, created?)),
            }
        }
    }

    /// Creates the object, which does not exist. A numeric resourceVersion is ignored, but a dry run shows it. A uid is
    /// a conflict.
    async fn create_instead(&self, request: &RequestContext, mut object: Value) -> Result<Arc<Object>, ApiError> {
        if self.mode != UpdateMode::Patch {
            self.check_uid(&object, "")?;
        }
        // Upstream parses the resourceVersion before it knows whether the object exists.
        metadata::parse_resource_version(&object).map_err(ApiError::Unclassified)?;
        request.authorize("create").await?;
        if !self.writer.context.dry_run {
            object.remove_at(&["metadata", "resourceVersion"]);
        }
        CreateOperation { writer: self.writer.clone(), resource: self.resource }.run(object).await
    }

    /// Makes one attempt.
    async fn attempt(
        &self,
        current: &Arc<Object>,
        compute: &mut impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> AttemptOutcome {
        self.attempt_unless_rejected(current, compute).await.unwrap_or_else(AttemptOutcome::Rejected)
    }

    /// Makes one attempt. An error rejects the update before a commit.
    async fn attempt_unless_rejected(
        &self,
        current: &Arc<Object>,
        compute: &mut impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<AttemptOutcome, ApiError> {
        let Self { writer, resource, .. } = self;
        let (cluster, context) = (writer.cluster, &writer.context);
        let hub = cluster.hub(resource);
        let version_view = self.version_view(&hub);
        // If the store's encoding is made from the tree, the encoding needs the whole tree.
        let seldom_used = if cluster.stores.encoder.is_none() { self.seldom_used } else { &[] };
        let old = version_view.tree_keeping_text(current, seldom_used).await;
        let old = old.map_err(|error| version_view.update_error(current, error))?;
        let other_view = (!resource.is_hub()).then(|| from_hub(resource, old.clone()));
        let old_view = other_view.as_ref().unwrap_or(&old);
        let live = match self.view {
            Some(view) => Cow::Owned(view.before_update(old_view)?),
            None => Cow::Borrowed(old_view),
        };
        let mut object = writer.conversions.run_until_complete(cluster, resource, || compute(&live)).await?;
        check_budget(writer)?;
        if self.mode != UpdateMode::Patch {
            self.check_uid(&object, old.uid())?;
        }
        let client = InternalClient(cluster.clone());
        let target = (self.subresource, &*self.namespace, &*self.name);
        let reservations = WriteReservations::new(cluster);
        let mut attributes = AdmissionAttributes {
            reservations: &reservations,
            ..writer.attributes(AdmissionOperation::Update, resource, target, Some(&live), &client)
        };
        // As in upstream, mutating plugins see the object that the client has sent.
        writer.mutate(&attributes, &mut object).await?;
        let mut old_validated = None;
        if let Some(view) = self.view {
            object = view.apply(old_view, &object)?;
            old_validated = Some(view.of_validated(old_view)?);
        }
        metadata::ensure_namespace(&mut object, resource, &self.namespace)?;
        metadata::preserve_system_fields(&mut object, &old);
        attributes.old = old_validated.as_ref().or(Some(&live));
        metadata::dedup_owner_references(&mut object, writer.recorder, true);
        let mut object = to_hub(resource, &hub, object);
        if self.subresource.is_empty() {
            writer.check_escalation(&hub, &object, Some(&old)).await?;
        }
        self.check_resource_version(&mut object, current.revision)?;
        metadata::check_has_type(&object)?;
        let subresource = self.subresource_strategy(&hub)?;
        let rules = ApplicableRules {
            resource,
            hub: &hub,
            subresource_name: self.subresource,
            subresource,
            view: self.view,
            old_at_version: other_view.as_ref(),
        };
        match rules.subresource {
            Some(subresource) => subresource.prepare_for_update(context, &mut object, &old),
            None => hub.strategy.prepare_for_update(context, &mut object, &old),
        }
        let hooks = hub.strategy.allocation().filter(|_| rules.subresource.is_none());
        let write = WriteOperation::Update { object: &mut object, old: &old };
        let allocated = Allocated::begin(hooks, context, &client, write).await?;
        let validated_and_stored = async {
            validate_and_admit(writer, &rules, &attributes, &mut object, Some(&old)).await?;
            let stored = self.store(&version_view, object, &old, current, &client).await;
            writer.recorder.trace.step(Step::Stored);
            stored
        };
        let attempt = validated_and_stored.await.unwrap_or_else(AttemptOutcome::Rejected);
        let end = attempt.write_end(context.dry_run);
        reservations.finish(&client, end).await;
        allocated.finish(&client, end).await;
        // After a conflict, the next attempt checks whether the update requires that revision. A patched object has the
        // resourceVersion of the object before the patch. So the resourceVersion is a precondition of a patch only if
        // the patch sets it.
        Ok(attempt)
    }

    /// Checks that the resourceVersion of a new object, if it has one, is the current resourceVersion. Without a
    /// resourceVersion, the update applies to the current revision, and its resourceVersion is set.
    fn check_resource_version(&self, object: &mut Value, current: u64) -> Result<(), ApiError> {
        match metadata::parse_resource_version(object).map_err(ApiError::Unclassified)? {
            None if !self.resource.updates_unconditionally => {
                return Err(metadata::resource_version_required(self.resource, &self.name));
            }
            Some(revision) if revision != current => {
                return Err(metadata::optimistic_lock_conflict(self.resource, &self.name));
            }
            _ => {}
        }
        object.set_at(&["metadata", "resourceVersion"], current.to_string());
        Ok(())
    }

    /// Checks that the uid of a new object, if it has one, is the uid of the stored object.
    ///
    /// # Errors
    /// Returns upstream's error of the storage layer.
    pub(crate) fn check_uid(&self, object: &Value, stored: &str) -> Result<(), ApiError> {
        let wanted = object.uid();
        if wanted.is_empty() || wanted == stored {
            return Ok(());
        }
        // Upstream's dry run checks the uid above the layer that adds the root to the keys.
        let key = match self.writer.context.dry_run {
            true => format!("/{}/{}", self.prefix(), self.key()),
            false => self.store_key(),
        };
        Err(ApiError::Conflict {
            resource: self.resource.group_resource(),
            name: self.name.as_str().into(),
            why: format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {stored}"
            ),
        })
    }

    /// The error for an object that has a uid but does not exist.
    pub(crate) fn uid_without_object(&self, uid: &str) -> ApiError {
        ApiError::Conflict {
            resource: self.resource.group_resource(),
            name: self.name.as_str().into(),
            why: format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found"),
        }
    }

    /// The strategy of the subresource, or `None` if the rules of the object apply.
    fn subresource_strategy<'h>(
        &self,
        hub: &'h Arc<Resource>,
    ) -> Result<Option<&'h dyn SubresourceStrategy>, ApiError> {
        match self.rules {
            ValidationRules::Object => Ok(None),
            ValidationRules::Subresource => {
                hub.strategy.subresource(self.subresource).map(Some).ok_or(ApiError::NoSuchPath)
            }
            ValidationRules::None => Ok(Some(&NoValidation)),
        }
    }

    /// Stores the new object, or deletes it if the update removed the last finalizer of a terminating object. An
    /// error rejects the update before a commit.
    async fn store(
        &self,
        view: &VersionView,
        mut object: Value,
        old: &Value,
        current: &Arc<Object>,
        client: &InternalClient,
    ) -> Result<AttemptOutcome, ApiError> {
        let (cluster, context, hub) = (self.writer.cluster, &self.writer.context, &view.hub);
        set_stored_defaults(self.resource, hub, &mut object);
        check_budget(&self.writer)?;
        if differs_only_in_times(&object, old) {
            object.set_at(&MANAGED_FIELDS, old.at(&MANAGED_FIELDS).cloned().unwrap_or_default());
        }
        object.remove_at(&["metadata", "resourceVersion"]);
        if !context.dry_run {
            // Only the storage layer removes the `selfLink`.
            object.remove_at(&["metadata", "selfLink"]);
        }
        let key = self.key();
        if super::delete::should_delete_during_update(hub, &object, old) {
            // The object is not stored again, so it is not converted to its storage version.
            let last = cached_object(&key, current.revision, view.encode(&object, None))?;
            if context.dry_run {
                return Ok(AttemptOutcome::NotCommitted(last));
            }
            return Ok(match commit(cluster, hub, &key, ObjectChange::delete(current.revision), None).await {
                Ok(CommitOutcome::Committed(_)) => {
                    super::delete::release_allocations(self, hub, &key, old, client).await;
                    AttemptOutcome::Committed(Ok(last))
                }
                // As in upstream, an update that would have removed the object succeeds if another request has removed
                // it.
                Ok(CommitOutcome::Conflict | CommitOutcome::ConditionFailed) => match self.current() {
                    Ok(None) => AttemptOutcome::Committed(Ok(last)),
                    Ok(Some(_)) => AttemptOutcome::Conflict,
                    Err(error) => AttemptOutcome::Committed(Err(error)),
                },
                Err(error) => AttemptOutcome::Committed(Err(error)),
            });
        }
        // An update that changes nothing is not written, unless the stored value is stale (encrypted with an old key).
        let original = OriginalObject { value: old, text: &current.json };
        let json = view.encode_for_storage(&object, Some(original)).await?;
        if !current.is_stale() && is_same_object(&json, &current.json) && !self.is_stored_form_stale().await? {
            return Ok(AttemptOutcome::NotCommitted(current.clone()));
        }
        self.writer.check_memory_for_update(current.json.len(), json.len(), old.is_terminating())?;
        if context.dry_run {
            return cached_object(&key, current.revision, json).map(AttemptOutcome::NotCommitted);
        }
        let conditions = match self.mode {
            UpdateMode::AsLeader => cluster.conditions_of_leader()?,
            _ => Vec::new(),
        };
        let change = ObjectChange { conditions, ..ObjectChange::update(current.revision, json.clone()) };
        Ok(match commit(cluster, hub, &key, change, Some(&object)).await {
            Ok(CommitOutcome::Committed(revision)) => {
                AttemptOutcome::Committed(committed_object(cluster, hub, &key, revision, json))
            }
            Ok(CommitOutcome::Conflict | CommitOutcome::ConditionFailed) => AttemptOutcome::Conflict,
            Err(error) => AttemptOutcome::Committed(Err(error)),
        })
    }
}
