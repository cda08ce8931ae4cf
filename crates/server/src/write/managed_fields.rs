//! Who owns which field of an object: what a write leaves in `metadata.managedFields`, and server-side apply (KEP-555;
//! upstream: apimachinery's `util/managedfields`). The merging itself is in `pintle_apply`; here it meets the registry.

use std::sync::Arc;

use pintle_apply::managed_fields::{
    FieldManager, FieldManagerRequest, LAST_APPLIED, Managed, Manager, conflict_causes, conflict_message, decode,
    decode_for_update, encode_reusing,
};
use pintle_apply::merge::{ConvertError, UpdateError, Updater, VersionConverter};
use pintle_apply::set::Filter;
use pintle_apply::typed::{Duplicates, TypeRef};
use pintle_codec::json;
use pintle_registry::{ApiError, Cause, GroupVersion, GroupVersionKind, MultiVersion, Registry, Resource};
use pintle_value::metadata::{MANAGED_FIELDS, validate_annotations};
use pintle_value::time::Time;
use pintle_value::{FieldPath, Value, print};

use crate::cluster::Cluster;
use crate::context::RequestContext;
use crate::conversion::MemoizedConversions;
use crate::objects::decode::{ExpectedKind, converted};
use crate::objects::model;
use crate::represent::{from_hub, to_hub};
use crate::request::query::WriteOptions;

/// Who owns what was there before anyone was followed.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The field manager that goes over from apply in the client to apply in the server.
const KUBECTL: &str = "kubectl";
/// The field manager of the server's own writes.
const OWN_MANAGER: &str = "kube-apiserver";
/// The longest name of a field manager.
const MANAGER_MAX: usize = 128;

/// A writer of fields: of what, who, through what, and when.
pub(crate) struct ManagedFieldsUpdater<'a> {
    /// What is written. Objects of a resource may have other versions; anything else has one.
    expected: ExpectedKind<'a>,
    registry: Arc<Registry>,
    conversions: Arc<MemoizedConversions>,
    /// Group and version as `apiVersion` has them.
    version: String,
    manager: String,
    subresource: &'a str,
    now: Time,
}

impl<'a> ManagedFieldsUpdater<'a> {
    /// The writer that a request is of what it writes.
    pub(crate) fn of(call: &'a RequestContext, expected: &ExpectedKind<'a>, options: &WriteOptions) -> Self {
        let manager = if options.field_manager.is_empty() {
            let agent = call.headers.get(http::header::USER_AGENT);
            manager_of(&String::from_utf8_lossy(agent.map_or(&[], |agent| agent.as_bytes())))
        } else {
            options.field_manager.clone()
        };
        let conversions = call.conversions.clone();
        Self::new(&call.cluster, expected.clone(), manager, &call.info.subresource, conversions)
    }

    /// The server itself as a writer of objects.
    pub(crate) fn internal(cluster: &Cluster, resource: &'a Arc<Resource>, subresource: &'a str) -> Self {
        Self::new(cluster, ExpectedKind::of(resource), OWN_MANAGER.to_owned(), subresource, Arc::default())
    }

    fn new(
        cluster: &Cluster,
        expected: ExpectedKind<'a>,
        manager: String,
        subresource: &'a str,
        conversions: Arc<MemoizedConversions>,
    ) -> Self {
        let version = expected.group_version.to_string();
        let now = Time::from_seconds(cluster.now().seconds);
        Self { expected, registry: cluster.registry(), conversions, version, manager, subresource, now }
    }

    fn field_manager(&self) -> FieldManager<'_> {
        FieldManager { updater: Updater { converter: self } }
    }

    fn request<'r>(&'r self, manager: &'r str) -> FieldManagerRequest<'r> {
        FieldManagerRequest { manager, version: &self.version, subresource: self.subresource, now: self.now }
    }

    /// The empty object as its type writes it: what was there before a creation.
    pub(crate) fn nothing(&self) -> Value {
        let mut nothing = Value::object();
        self.expected.normalise(&mut nothing);
        self.expected.set_type(&mut nothing);
        nothing
    }

    /// Notes who owns what after a creation. The object is normalised, defaulted and at the version of the request.
    pub(crate) fn create(&self, object: &mut Value) {
        self.update(&self.nothing(), object);
    }

    /// Notes who owns what after an update made one object of another, both at the version of the request. The new one
    /// may hold entries of its own.
    pub(crate) fn update(&self, live: &Value, object: &mut Value) {
        let sent = object.remove_at(&MANAGED_FIELDS).unwrap_or_default();
        let managed = decode_for_update(live.at(&MANAGED_FIELDS).unwrap_or(&Value::Null), &sent, self.subresource);
        // Whom nobody has followed so far, or whose owners were reset, is not followed until something is applied.
        if managed.managers.is_empty() && !live.uid().is_empty() {
            return;
        }
        match self.field_manager().update(live, object, managed, &self.request(&self.manager)) {
            Ok(managed) => set(object, &managed, sent),
            // It will be asked again.
            Err(_) if self.conversions.wants() => {}
            // Nothing a client could do about it, and no reason to refuse the write.
            Err(error) => tracing::error!(?error, kind = %self.expected.kind, "it is not known who owns the fields"),
        }
    }

    /// Applies a configuration to a live object at the version of the request, or to nothing. Returns the new object,
    /// with defaults.
    ///
    /// # Errors
    /// The configuration does not fit the kind, or others own what it would change.
    pub(crate) fn apply(&self, live: &Value, config: &Value, force: bool) -> Result<Value, ApiError> {
        self.check(config)?;
        let entries = live.items_at(&MANAGED_FIELDS);
        let mut managed = decode(entries)
            .map_err(|error| ApiError::Unclassified(format!("failed to decode managed fields: {error}")))?;
        let field_manager = self.field_manager();
        if managed.managers.is_empty() && !live.uid().is_empty() {
            let everything = field_manager.update(&self.nothing(), live, managed, &self.request(BEFORE_FIRST_APPLY));
            managed = everything.map_err(|error| {
                refused(error, |why| format!("failed to create manager for existing fields: {why}"))
            })?;
        }
        let last_applied = (self.manager == KUBECTL).then(|| last_applied(live)).flatten();
        let request = self.request(&self.manager);
        let applied = field_manager.apply(live, config, managed, &request, force, last_applied.as_ref());
        let (object, managed) = applied.map_err(|error| refused(error, |why| why))?;
        let is_changed = object.is_some();
        let mut object = object.unwrap_or_else(|| live.clone());
        let before = object.remove_at(&MANAGED_FIELDS).unwrap_or_default();
        if is_changed {
            object = self.finished(object, config)?;
        }
        if self.manager == KUBECTL && !object.str_at(&["metadata", "annotations", LAST_APPLIED]).is_empty() {
            set_last_applied(&mut object, config);
        }
        set(&mut object, &managed, before);
        Ok(object)
    }

    /// Checks that a configuration may be applied.
    fn check(&self, config: &Value) -> Result<(), ApiError> {
        let bad = |why: String| Err(ApiError::BadRequest(why));
        let (version, kind) = (config.api_version(), config.kind());
        if version != self.version || kind != self.expected.kind {
            let version = GroupVersion::parse(version).unwrap_or_default();
            return bad(format!("invalid object type: {}/{}, Kind={kind}", version.group, version.version));
        }
        if config.at(&MANAGED_FIELDS).is_some_and(|entries| entries.as_array().is_some()) {
            return bad("metadata.managedFields must be nil".to_owned());
        }
        let type_ref = self.type_ref(&self.version).unwrap_or(TypeRef::DEDUCED);
        type_ref.validate(config, Duplicates::Forbidden).map_err(|errors| {
            ApiError::Unclassified(format!("failed to create typed patch object ({}): {errors}", self.named(config)))
        })
    }

    /// A merged object as its type writes it, with defaults.
    fn finished(&self, object: Value, config: &Value) -> Result<Value, ApiError> {
        let (mut object, _) = converted(object, &self.expected).map_err(|why| {
            let named = self.named(config);
            ApiError::Unclassified(format!("failed to convert new object ({named}) to proper version: {why}"))
        })?;
        self.expected.default(&mut object);
        Ok(object)
    }

    /// An object as errors name it.
    fn named(&self, object: &Value) -> String {
        let GroupVersion { group, version } = &self.expected.group_version;
        format!("{}/{}; {group}/{version}, Kind={}", object.namespace(), object.name(), self.expected.kind)
    }

    /// The record of the same objects at another version.
    fn at(&self, version: &str) -> Option<&Arc<Resource>> {
        let resource = self.expected.resource?;
        if version == self.version {
            return Some(resource);
        }
        let GroupVersion { group, version } = GroupVersion::parse(version)?;
        let other = self.registry.kind(&GroupVersionKind::new(group, version, resource.kind.clone()))?;
        other.collection().filter(|c| resource.collection().is_some_and(|own| own.prefix == c.prefix))?;
        Some(other)
    }
}

impl VersionConverter for ManagedFieldsUpdater<'_> {
    fn type_ref(&self, version: &str) -> Option<TypeRef<'_>> {
        let unserved = || self.expected.resource?.versions.as_ref()?.types(version);
        let schema = match self.at(version) {
            _ if version == self.version => self.expected.schema,
            Some(record) => &record.schema,
            None => unserved()?,
        };
        Some(TypeRef::new(&schema.types, schema.root))
    }

    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ConvertError> {
        if let Some(versions) = self.expected.resource.and_then(|resource| resource.versions.as_deref()) {
            // As upstream does, by way of the version of the request.
            let at_hub = self.among_equals(versions, object, &self.version)?;
            return self.among_equals(versions, &at_hub, to);
        }
        let record = |version| self.at(version).ok_or(ConvertError::MissingVersion);
        let (from, to) = (record(from)?, record(to)?);
        let hub = from.collection().and_then(|c| self.registry.hub(c)).ok_or(ConvertError::MissingVersion)?;
        let mut converted = from_hub(to, to_hub(from, hub, object.clone()));
        model(to).normalise(&to.schema, None, &mut converted);
        Ok(converted)
    }

    fn ignore_filter(&self, version: &str) -> Option<&Filter> {
        self.at(version)?.reset_field_filter(self.subresource)
    }
}

impl ManagedFieldsUpdater<'_> {
    /// An object at another one of the versions of which none is the hub.
    fn among_equals(&self, versions: &dyn MultiVersion, object: &Value, to: &str) -> Result<Value, ConvertError> {
        let converted = self.conversions.get(versions, object, to);
        converted.unwrap_or_else(|| Err("it is not converted yet".to_owned())).map_err(ConvertError::Failed)
    }
}

/// The name of a field manager that says nothing but what program it is: what is before the first `/`, as far as it can
/// be printed.
fn manager_of(user_agent: &str) -> String {
    let program = user_agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for c in program.chars().filter(|c| print::is_print(*c)) {
        if manager.len() + c.len_utf8() > MANAGER_MAX {
            break;
        }
        manager.push(c);
    }
    manager
}

/// Sets the managers of an object, which had these entries before.
fn set(object: &mut Value, managed: &Managed, before: Value) {
    let before = if let Value::Array(entries) = before { entries } else { Vec::new() };
    let entries = encode_reusing(managed, before);
    if entries.is_empty() {
        object.remove_at(&MANAGED_FIELDS);
    } else {
        object.set_at(&MANAGED_FIELDS, entries);
    }
}

fn refused(error: UpdateError<Manager>, in_words: impl Fn(String) -> String) -> ApiError {
    match error {
        UpdateError::Conflicts(conflicts) => {
            let causes = conflict_causes(&conflicts).into_iter().map(|cause| Cause {
                reason: "FieldManagerConflict".into(),
                message: cause.message,
                field: cause.field,
            });
            ApiError::ApplyConflict { message: conflict_message(&conflicts), causes: causes.collect() }
        }
        UpdateError::Failed(why) => ApiError::Unclassified(in_words(why)),
    }
}

/// What the client applied last, by itself. Like upstream's decoder, it does not take an object that does not say its kind.
fn last_applied(live: &Value) -> Option<Value> {
    let text = live.str_at(&["metadata", "annotations", LAST_APPLIED]);
    let decoded = json::decode(text.as_bytes(), json::DecodeOptions::default()).ok()?;
    Some(decoded.value).filter(|applied| !applied.kind().is_empty())
}

/// Keeps the annotation of what the client applied last up to date, or drops it if it would be too large.
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

/// True if the entries of two objects differ, but in nothing else than their times.
pub(crate) fn differs_in_time_alone(new: &Value, old: &Value) -> bool {
    let (new, old) = (new.items_at(&MANAGED_FIELDS), old.items_at(&MANAGED_FIELDS));
    let same_but_time = |(new, old): (&Value, &Value)| {
        let rest = |entry: &Value| entry.entries_at(&[]).filter(|(key, _)| *key != "time").count();
        rest(new) == rest(old) && new.entries_at(&[]).all(|(key, value)| key == "time" || old.get(key) == Some(value))
    };
    new.len() == old.len() && new != old && new.iter().zip(old).all(same_but_time)
}
