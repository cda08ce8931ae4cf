//! Managed fields: updates `metadata.managedFields` on each write, and implements server-side apply (KEP-555; upstream:
//! apimachinery's `util/managedfields`). The merge itself is in `pintle_apply`; this file connects it to the registry.

use std::sync::Arc;

use pintle_apply::managed_fields::{
    FieldManager, FieldManagerRequest, LAST_APPLIED, Managed, Manager, conflict_causes, conflict_message, decode,
    decode_for_update, encode_reusing,
};
use pintle_apply::merge::{ConvertError, UpdateError, Updater, VersionConverter};
use pintle_apply::typed::{Duplicates, TypeRef};
use pintle_codec::json;
use pintle_controllers::SERVER_MANAGER;
use pintle_fieldpath::set::Filter;
use pintle_gates::Change;
use pintle_registry::{ApiError, Cause, GroupVersion, GroupVersionKind, MultiVersion, Registry, Resource};
use pintle_value::metadata::{MANAGED_FIELDS, validate_annotations};
use pintle_value::time::Time;
use pintle_value::{FieldPath, Value, print};

use crate::cluster::Cluster;
use crate::context::RequestContext;
use crate::conversion::{MemoizedConversions, from_hub, to_hub};
use crate::objects::decode::ExpectedKind;
use crate::objects::model;
use crate::request::query::WriteOptions;

/// The manager of the fields that were set before managed fields were tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The fields of an entry that are strings.
const ENTRY_STRINGS: [&str; 5] = ["manager", "operation", "apiVersion", "fieldsType", "subresource"];
/// The field manager that may migrate from client-side apply to server-side apply.
const KUBECTL: &str = "kubectl";
/// Maximum length of the name of a field manager, in bytes.
const MAX_MANAGER_LENGTH: usize = 128;

/// Updates the managed fields of one write, with the manager, the operation, the subresource and the time.
pub(crate) struct ManagedFieldsUpdater<'a> {
    /// The kind of the written object. Only objects of a resource can have entries for other versions.
    expected: ExpectedKind<'a>,
    registry: Arc<Registry>,
    conversions: Arc<MemoizedConversions>,
    /// The version of the request, as `apiVersion`.
    api_version: String,
    manager: String,
    subresource: &'a str,
    now: Time,
    /// True if an update that fails keeps the managed fields of the live object (since 1.37).
    keeps_on_failure: bool,
}

impl<'a> ManagedFieldsUpdater<'a> {
    /// The updater for the write of a request.
    pub(crate) fn for_request(
        request: &'a RequestContext,
        expected: &ExpectedKind<'a>,
        options: &WriteOptions,
    ) -> Self {
        let manager = if options.field_manager.is_empty() {
            let agent = request.headers.get(http::header::USER_AGENT);
            manager_from_user_agent(&String::from_utf8_lossy(agent.map_or(&[], |agent| agent.as_bytes())))
        } else {
            options.field_manager.clone()
        };
        let conversions = request.conversions.clone();
        Self::new(&request.cluster, expected.clone(), manager, &request.info.subresource, conversions)
    }

    /// The updater for a write of the server itself.
    pub(crate) fn internal(cluster: &Cluster, resource: &'a Arc<Resource>, subresource: &'a str) -> Self {
        Self::new(cluster, ExpectedKind::of(resource), SERVER_MANAGER.to_owned(), subresource, Arc::default())
    }

    /// The updater for the apply of a controller of the server.
    pub(crate) fn for_controller(
        cluster: &Cluster,
        resource: &'a Arc<Resource>,
        subresource: &'a str,
        manager: &str,
    ) -> Self {
        Self::new(cluster, ExpectedKind::of(resource), manager.to_owned(), subresource, Arc::default())
    }

    fn new(
        cluster: &Cluster,
        expected: ExpectedKind<'a>,
        manager: String,
        subresource: &'a str,
        conversions: Arc<MemoizedConversions>,
    ) -> Self {
        let api_version = expected.group_version.to_string();
        let now = Time::from_seconds(cluster.now().seconds);
        let keeps_on_failure = cluster.gates().has(Change::FAILED_TRACKING_KEEPS_MANAGED_FIELDS);
        let registry = cluster.registry();
        Self { expected, registry, conversions, api_version, manager, subresource, now, keeps_on_failure }
    }

    fn field_manager(&self) -> FieldManager<'_> {
        FieldManager { updater: Updater { converter: self } }
    }

    fn request<'r>(&'r self, manager: &'r str) -> FieldManagerRequest<'r> {
        FieldManagerRequest { manager, version: &self.api_version, subresource: self.subresource, now: self.now }
    }

    /// An empty object of the kind. A create is compared with it.
    pub(crate) fn empty_object(&self) -> Value {
        let mut object = Value::object();
        self.expected.normalise(&mut object, None);
        self.expected.set_type(&mut object);
        object
    }

    /// Sets the managed fields of a new object, which is normalised, defaulted and at the version of the request.
    pub(crate) fn create(&self, object: &mut Value) {
        let empty = self.empty_object();
        // Most clients send no entries.
        if object.at(&MANAGED_FIELDS).is_none() && self.has_known_type(object) {
            object.remove_at(&MANAGED_FIELDS);
            let request = self.request(&self.manager);
            if let Some(entries) = self.field_manager().create(&empty, object, &request) {
                return set_entries(object, entries);
            }
        }
        self.update(&empty, object);
    }

    /// Updates the managed fields after an update from `live` to `object`, both at the version of the request. `object`
    /// may have entries that the client sent.
    pub(crate) fn update(&self, live: &Value, object: &mut Value) {
        let sent = object.remove_at(&MANAGED_FIELDS).unwrap_or_default();
        object.share_with(live);
        let managed = decode_for_update(live.at(&MANAGED_FIELDS).unwrap_or(&Value::Null), &sent, self.subresource);
        // An existing object without managers was never tracked, or a client has reset its managers. It is not tracked
        // before the first apply.
        if managed.managers.is_empty() && !live.uid().is_empty() {
            return;
        }
        if !self.has_known_type(object) {
            return self.keep_on_failure(live, object);
        }
        match self.field_manager().update(live, object, managed, &self.request(&self.manager)) {
            Ok(managed) => set_managed_fields(object, &managed, sent),
            // The update is computed again when the conversions are available.
            Err(_) if self.conversions.is_incomplete() => {}
            // The client cannot fix this, so the write continues (upstream: `UpdateNoErrors`).
            Err(error) => {
                tracing::error!(?error, kind = %self.expected.kind, "Failed to update managed fields");
                self.keep_on_failure(live, object);
            }
        }
    }

    /// After a failed update, copies the managed fields of the live object. Up to 1.36 the object has none.
    fn keep_on_failure(&self, live: &Value, object: &mut Value) {
        if let Some(entries) = live.at(&MANAGED_FIELDS).filter(|_| self.keeps_on_failure) {
            object.set_at(&MANAGED_FIELDS, entries.clone());
        }
    }

    /// Returns false for a custom resource of another type, which is possible here. There is no schema for its type, so
    /// the update of managed fields fails.
    fn has_known_type(&self, object: &Value) -> bool {
        let is_known = || object.kind() == self.expected.kind && self.resource_at(object.api_version()).is_some();
        !self.expected.model.requires_type() || is_known()
    }

    /// Applies a configuration to a live object at the version of the request, or to the empty object. Returns the new
    /// object, with defaults.
    ///
    /// # Errors
    /// Returns an error if the configuration does not fit the kind, or if other managers own fields that it changes.
    pub(crate) fn apply(&self, live: &Value, config: &Value, force: bool) -> Result<Value, ApiError> {
        self.validate_configuration(config)?;
        let entries = live.items_at(&MANAGED_FIELDS);
        let mut managed = decode(entries)
            .map_err(|error| ApiError::Unclassified(format!("failed to decode managed fields: {error}")))?;
        let field_manager = self.field_manager();
        if managed.managers.is_empty() && !live.uid().is_empty() {
            if !self.expected.scheme.has_empty_objects {
                let (version, kind) = (&self.api_version, self.expected.kind);
                return Err(ApiError::Unclassified(format!(
                    "failed to create manager for existing fields: failed to convert live object (/; {version}, Kind={kind}) to proper version: request to convert CR to an invalid group/version: {version}"
                )));
            }
            let all_fields =
                field_manager.update(&self.empty_object(), live, managed, &self.request(BEFORE_FIRST_APPLY));
            managed = all_fields.map_err(|error| {
                update_error(error, |why| format!("failed to create manager for existing fields: {why}"))
            })?;
        }
        let last_applied = (self.manager == KUBECTL).then(|| last_applied(live)).flatten();
        let request = self.request(&self.manager);
        let applied = field_manager.apply(live, config, managed, &request, force, last_applied.as_ref());
        let (object, managed) = applied.map_err(|error| update_error(error, |why| why))?;
        let is_changed = object.is_some();
        let mut object = object.unwrap_or_else(|| live.clone());
        let before = object.remove_at(&MANAGED_FIELDS).unwrap_or_default();
        if is_changed {
            object = self.finish_merged(object, live, config)?;
        }
        if self.manager == KUBECTL && !object.str_at(&["metadata", "annotations", LAST_APPLIED]).is_empty() {
            set_last_applied(&mut object, config);
        }
        set_managed_fields(&mut object, &managed, before);
        Ok(object)
    }

    /// Checks that a configuration can be applied.
    fn validate_configuration(&self, config: &Value) -> Result<(), ApiError> {
        let bad = |why: String| Err(ApiError::BadRequest(why));
        let (version, kind) = (config.api_version(), config.kind());
        if version != self.api_version || kind != self.expected.kind {
            // If the version is malformed, the message contains no kind.
            let (version, kind) = GroupVersion::parse(version).map_or_else(Default::default, |found| (found, kind));
            return bad(format!("invalid object type: {}/{}, Kind={kind}", version.group, version.version));
        }
        let entries = config.at(&MANAGED_FIELDS).and_then(Value::as_array);
        if entries.is_some_and(|entries| entries.iter().all(is_entry)) {
            return bad("metadata.managedFields must be nil".to_owned());
        }
        let type_ref = self.type_ref(&self.api_version).unwrap_or(TypeRef::DEDUCED);
        type_ref.validate(config, Duplicates::Forbidden).map_err(|errors| {
            ApiError::Unclassified(format!("failed to create typed patch object ({}): {errors}", self.describe(config)))
        })
    }

    /// Normalises an object that was merged into `live` and sets its defaults.
    fn finish_merged(&self, object: Value, live: &Value, config: &Value) -> Result<Value, ApiError> {
        let mut object = self.expected.model.decode_merged(object, live, &self.expected).map_err(|why| {
            let name = self.describe(config);
            ApiError::Unclassified(format!("failed to convert new object ({name}) to proper version: {why}"))
        })?;
        // Parts that are shared with `live` have their defaults. Setting defaults copies a list, so unchanged parts are
        // shared again afterwards.
        object.share_with(live);
        self.expected.set_defaults_of_changed(&mut object, live);
        object.share_with(live);
        Ok(object)
    }

    /// The name of an object in error messages.
    fn describe(&self, object: &Value) -> String {
        let GroupVersion { group, version } = &self.expected.group_version;
        format!("{}/{}; {group}/{version}, Kind={}", object.namespace(), object.name(), self.expected.kind)
    }

    /// The resource at another version that serves the same objects. Entries of other versions are dropped, even if
    /// objects could be converted to them. Upstream compares objects by the schemas of served versions. It keeps the
    /// schemas of the core group separate from the schemas of all other groups.
    fn resource_at(&self, version: &str) -> Option<&Arc<Resource>> {
        let resource = self.expected.resource?;
        if version == self.api_version {
            return Some(resource);
        }
        let GroupVersion { group, version } = GroupVersion::parse(version)?;
        let other = self.registry.kind(&GroupVersionKind::new(group, version, resource.kind.clone()))?;
        other.collection().filter(|c| resource.collection().is_some_and(|own| own.prefix == c.prefix))?;
        Some(other).filter(|other| other.group.is_empty() == resource.group.is_empty())
    }
}

impl VersionConverter for ManagedFieldsUpdater<'_> {
    fn type_ref(&self, version: &str) -> Option<TypeRef<'_>> {
        let unserved_types = || self.expected.resource?.versions.as_ref()?.types(version);
        let schema = match self.resource_at(version) {
            _ if version == self.api_version => self.expected.schema,
            Some(resource) => &resource.schema,
            None => unserved_types()?,
        };
        Some(TypeRef::new(&schema.types, schema.root))
    }

    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ConvertError> {
        if let Some(versions) = self.expected.resource.and_then(|resource| resource.versions.as_deref()) {
            // As in upstream, the conversion goes through the version of the request.
            let at_hub = self.convert_custom_resource(versions, object, &self.api_version)?;
            return self.convert_custom_resource(versions, &at_hub, to);
        }
        let resource = |version| self.resource_at(version).ok_or(ConvertError::MissingVersion);
        let (from, to) = (resource(from)?, resource(to)?);
        let hub = from.collection().and_then(|c| self.registry.hub(c)).ok_or(ConvertError::MissingVersion)?;
        let mut converted = from_hub(to, to_hub(from, hub, object.clone()));
        model(to).normalise(&to.schema, None, &mut converted, None);
        Ok(converted)
    }

    fn ignore_filter(&self, version: &str) -> Option<&Filter> {
        self.resource_at(version)?.reset_field_filter(self.subresource)
    }
}

impl ManagedFieldsUpdater<'_> {
    /// Converts a custom resource to another version. If a webhook has to convert it first, this returns an error. Then
    /// the caller computes the update again when the conversion is available.
    fn convert_custom_resource(
        &self,
        versions: &dyn MultiVersion,
        object: &Value,
        to: &str,
    ) -> Result<Value, ConvertError> {
        let converted = self.conversions.get(versions, object, to);
        converted.unwrap_or_else(|| Err("it is not converted yet".to_owned())).map_err(ConvertError::Failed)
    }
}

/// The default name of a field manager: the printable characters of the user agent before the first `/` (upstream:
/// `prefixFromUserAgent`).
fn manager_from_user_agent(user_agent: &str) -> String {
    let program = user_agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for c in program.chars().filter(|c| print::is_print(*c)) {
        if manager.len() + c.len_utf8() > MAX_MANAGER_LENGTH {
            break;
        }
        manager.push(c);
    }
    manager
}

/// Sets the managed fields of an object. `before` has its previous entries.
fn set_managed_fields(object: &mut Value, managed: &Managed, before: Value) {
    let before = if let Value::Array(entries) = before { entries } else { Vec::new() };
    set_entries(object, encode_reusing(managed, before));
}

fn set_entries(object: &mut Value, entries: Vec<Value>) {
    if entries.is_empty() {
        object.remove_at(&MANAGED_FIELDS);
    } else {
        object.set_at(&MANAGED_FIELDS, entries);
    }
}

/// Turns an error of the field manager into the error of the request.
fn update_error(error: UpdateError<Manager>, message: impl Fn(String) -> String) -> ApiError {
    match error {
        UpdateError::Conflicts(conflicts) => {
            let causes = conflict_causes(&conflicts).into_iter().map(|cause| Cause {
                reason: "FieldManagerConflict".into(),
                message: cause.message,
                field: cause.field,
            });
            ApiError::ApplyConflict { message: conflict_message(&conflicts), causes: causes.collect() }
        }
        UpdateError::Failed(why) => ApiError::Unclassified(message(why)),
    }
}

/// The configuration that client-side apply recorded last. As in upstream's decoder, an object without a kind is
/// ignored.
fn last_applied(live: &Value) -> Option<Value> {
    let text = live.str_at(&["metadata", "annotations", LAST_APPLIED]);
    let decoded = json::decode(text.as_bytes(), json::DecodeOptions::default()).ok()?;
    Some(decoded.value).filter(|applied| !applied.kind().is_empty())
}

/// Updates the last-applied annotation of client-side apply, or removes it if it would be too large.
fn set_last_applied(object: &mut Value, config: &Value) {
    let mut applied = config.clone();
    applied.remove_at(&["metadata", "annotations", LAST_APPLIED]);
    let path = ["metadata", "annotations", LAST_APPLIED];
    object.set_at(&path, print::json(&applied) + "\n");
    let annotations = FieldPath::new("annotations");
    if !validate_annotations(&object["metadata"]["annotations"], &annotations).is_empty() {
        object.remove_at(&path);
    }
}

/// True if two objects differ only in the times of their managed fields (upstream:
/// `IgnoreManagedFieldsTimestampsTransformer`).
pub(crate) fn differs_only_in_times(new: &Value, old: &Value) -> bool {
    let (new_managers, old_managers) = (new.items_at(&MANAGED_FIELDS), old.items_at(&MANAGED_FIELDS));
    let is_same_but_time = |(new, old): (&Value, &Value)| is_same_but(new, old, &["time"]);
    new_managers.len() == old_managers.len()
        && new_managers != old_managers
        && new_managers.iter().zip(old_managers).all(is_same_but_time)
        && is_same_but(new, old, &MANAGED_FIELDS)
}

/// True if two objects are equal except for the value at a path.
fn is_same_but(a: &Value, b: &Value, path: &[&str]) -> bool {
    let [key, rest @ ..] = path else { return true };
    let others = |object: &Value| object.entries_at(&[]).filter(|(name, _)| name != key).count();
    let is_same = |(name, value): (&str, &Value)| match b.get(name) {
        Some(other) if name == *key => is_same_but(value, other, rest),
        other => name == *key || other == Some(value),
    };
    others(a) == others(b) && a.entries_at(&[]).all(is_same)
}

/// True if an element of managed fields can be decoded. If any element cannot be decoded, upstream treats the whole
/// list as missing.
fn is_entry(entry: &Value) -> bool {
    let is_text = |value: &Value| matches!(value, Value::Null | Value::String(_));
    let is_time = |value: &Value| match value {
        Value::String(text) => Time::parse_rfc3339(text).is_ok(),
        other => other.is_null(),
    };
    entry.as_object().is_some_and(|fields| {
        fields.iter().all(|(key, value)| match key {
            "time" => is_time(value),
            key if ENTRY_STRINGS.contains(&key) => is_text(value),
            _ => true,
        })
    })
}
