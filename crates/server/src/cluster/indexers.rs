//! The indexers of the watch caches: selectable fields and offsets of stored objects. Resources are added and removed
//! while objects are written, so an indexer finds the rules by the collection's prefix.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use pintle_cache::{CorruptReason, Indexer, ObjectIndex, SelectableValues};
use pintle_codec::json::{self, Projection};
use pintle_codec::yaml;
use pintle_locks::{Mutex, RwLock};
use pintle_registry::{MultiVersion, Resource, Strategy};
use pintle_store::{TransformErrorKind, unreadable_reason};
use pintle_value::{Str, Value};

use super::object_index::{self, ObjectOffsets, is_kind_first};

/// The prefix of the keys of CRDs.
const CRDS_PREFIX: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// Indexes stored objects by the rules of their collections.
#[derive(Default)]
pub(crate) struct Indexers {
    /// The rules of collections with selectable fields.
    field_indexers: RwLock<HashMap<Str, Arc<FieldIndexer>>>,
    /// The collections of custom resources.
    custom: RwLock<HashMap<Str, CustomCollection>>,
    /// True if other programs write to the store as well. Such programs may store objects without a uid.
    has_other_writers: bool,
    /// The fields of objects that are being written, by the address of their JSON.
    written: Mutex<HashMap<usize, WrittenFields>>,
}

/// The CRD of a collection, as far as the indexers know it.
#[derive(Default)]
struct CustomCollection {
    /// The revision of the newest stored CRD.
    newest: u64,
    /// The versions of a CRD, which may be older than the newest stored CRD.
    versions: Option<Arc<dyn MultiVersion>>,
}

/// The selectable fields of an object that is being written.
struct WrittenFields {
    /// Keeps the JSON alive, so that no other JSON gets its address.
    json: Bytes,
    fields: SelectableValues,
}

/// Removes the fields of a written object when its write has ended.
pub(crate) struct WrittenFieldsGuard<'a> {
    indexers: &'a Indexers,
    address: usize,
}

impl Drop for WrittenFieldsGuard<'_> {
    fn drop(&mut self) {
        self.indexers.written.lock().remove(&self.address);
    }
}

/// Indexes the selectable fields of a collection.
struct FieldIndexer {
    strategy: Arc<dyn Strategy>,
    /// The fields that the strategy reads.
    sources: Projection,
}

impl Indexers {
    /// The indexers of a store, to which other programs may write as well.
    pub(crate) fn new(has_other_writers: bool) -> Self {
        Self { has_other_writers, ..Self::default() }
    }

    /// Takes the rules of a collection from one of its resources. Returns false if no fields are indexed, neither
    /// before nor after the call.
    pub(crate) fn set(&self, resource: &Resource) -> bool {
        let Some(collection) = resource.collection() else { return false };
        if !resource.built_in {
            self.custom.write().entry(collection.prefix.clone()).or_default().versions.clone_from(&resource.versions);
        }
        let sources = resource.strategy.selectable_field_sources();
        if sources.is_empty() {
            return self.field_indexers.write().remove(&collection.prefix).is_some();
        }
        let field_indexer = FieldIndexer { strategy: resource.strategy.clone(), sources: Projection::of(sources) };
        self.field_indexers.write().insert(collection.prefix.clone(), Arc::new(field_indexer));
        true
    }

    /// Takes the selectable fields from the tree of an object that is about to be written, because the tree is
    /// available now. Later the index needs only offsets from the JSON. `None` if no fields are indexed.
    pub(crate) fn expect(&self, prefix: &str, json: &Bytes, tree: &Value) -> Option<WrittenFieldsGuard<'_>> {
        let field_indexer = self.field_indexers.read().get(prefix).cloned()?;
        let fields = field_indexer.strategy.selectable_field_values(tree).into_iter().collect();
        let address = json.as_ptr().addr();
        self.written.lock().insert(address, WrittenFields { json: json.clone(), fields });
        Some(WrittenFieldsGuard { indexers: self, address })
    }

    /// The fields of a written object, given its JSON. The JSON keeps its memory address while it passes through the
    /// store in this process.
    fn written_fields(&self, json: &[u8]) -> Option<SelectableValues> {
        let written = self.written.lock();
        let written = written.get(&json.as_ptr().addr()).filter(|written| written.json.len() == json.len())?;
        Some(written.fields.clone())
    }

    fn decode_error(&self, prefix: &str, stored: &[u8]) -> String {
        if self.custom.read().contains_key(prefix) {
            custom_decode_error(stored)
        } else {
            built_in_decode_error(stored)
        }
    }

    /// Removes the rules of a collection. Returns false if there were none.
    pub(crate) fn remove(&self, prefix: &str) -> bool {
        self.custom.write().remove(prefix);
        self.field_indexers.write().remove(prefix).is_some()
    }
}

impl Indexers {
    /// Records the revision of a stored CRD. The name of a CRD consists of the plural and the group.
    fn note_crd(&self, name: &str, revision: u64) {
        let Some((plural, group)) = name.split_once('.') else { return };
        let mut custom = self.custom.write();
        let collection = custom.entry(format!("{group}/{plural}").into()).or_default();
        collection.newest = collection.newest.max(revision);
    }

    /// The versions of the newest CRD of a collection.
    fn newest_versions(&self, prefix: &str) -> Option<Arc<dyn MultiVersion>> {
        let custom = self.custom.read();
        let CustomCollection { newest, versions } = custom.get(prefix)?;
        versions.clone().filter(|versions| versions.crd_revision() >= *newest)
    }

    /// The JSON with sorted members of a custom resource whose kind comes first. `None` if a read would change the
    /// object.
    fn sorted_if_complete(versions: &dyn MultiVersion, json: &[u8]) -> Option<Bytes> {
        let stored = decode_object(json)?;
        let mut read = stored.clone();
        versions.prune_and_default_stored(&mut read);
        (versions.contains(stored.api_version()) && read == stored).then(|| json::encode(&stored).into())
    }
}

impl Indexer for Indexers {
    /// Decides in which form the cache keeps a custom resource from etcd. The store does not know whether reads under
    /// its CRD would change it, so its kind comes first. If the newest CRD changes nothing, the object is kept like a
    /// custom resource that this server wrote. Keys of CRDs precede the keys of their custom resources, but CRDs are
    /// decoded later. So only the newest stored CRD may decide.
    fn kept(&self, prefix: &str, key: &str, revision: u64, value: Bytes) -> Bytes {
        if prefix == CRDS_PREFIX {
            self.note_crd(key, revision);
        }
        if !is_kind_first(&value) {
            return value;
        }
        let versions = self.newest_versions(prefix);
        versions.and_then(|versions| Self::sorted_if_complete(&*versions, &value)).unwrap_or(value)
    }

    fn index(&self, prefix: &str, json: &[u8]) -> Result<ObjectIndex, CorruptReason> {
        // This only checks that the JSON is not truncated, and does not validate the rest.
        if let Some(why) = unreadable_reason(json) {
            let is_encrypted = why.kind == TransformErrorKind::Encryption;
            return Err(CorruptReason { text: why.detail.into(), is_encrypted });
        }
        let decode_error = || CorruptReason::from(self.decode_error(prefix, json));
        let json = Some(json).filter(|json| json.ends_with(b"}")).ok_or_else(decode_error)?;
        let field_indexer = self.field_indexers.read().get(prefix).cloned();
        // Only kinds with selectable fields are decoded, and only those fields.
        let written = field_indexer.as_ref().and_then(|_| self.written_fields(json));
        let (offsets, fields) = match (field_indexer, written) {
            (None, _) => (object_index::scan_object(json).ok_or_else(decode_error)?, SelectableValues::default()),
            (Some(field_indexer), Some(fields)) => {
                debug_assert_eq!(
                    Some(&fields),
                    decode_object(json)
                        .map(|object| field_indexer.strategy.selectable_field_values(&object).into_iter().collect())
                        .as_ref()
                );
                (object_index::scan_object(json).ok_or_else(decode_error)?, fields)
            }
            (Some(field_indexer), None) => {
                let scanned = object_index::scan_object_with_fields(json, &field_indexer.sources);
                let (offsets, read) = scanned.ok_or_else(decode_error)?;
                let values = field_indexer.strategy.selectable_field_values(&Value::Object(read));
                debug_assert_eq!(
                    Some(&values),
                    decode_object(json).map(|object| field_indexer.strategy.selectable_field_values(&object)).as_ref()
                );
                (offsets, values.into_iter().collect())
            }
        };
        let ObjectOffsets { resource_version_offset, item_offset, labels, has_uid } = offsets;
        if !has_uid && !self.has_other_writers {
            return Err(decode_error());
        }
        Ok(ObjectIndex { resource_version_offset, item_offset, labels: (labels.start, labels.end), fields })
    }
}

/// The decoding error of stored bytes that are no built-in object: the message of upstream's decoder.
pub(crate) fn built_in_decode_error(stored: &[u8]) -> String {
    let value = if stored.trim_ascii_start().starts_with(b"{") {
        json::decode(stored, json::DecodeOptions::default())
            .map(|decoded| decoded.value)
            .map_err(|error| error.to_string())
    } else {
        match yaml::decode(stored) {
            Ok(decoded) => Ok(decoded.value),
            Err(error) => return error.to_string(),
        }
    };
    match value.and_then(|value| json::type_meta(&value).map_err(|error| error.to_string())) {
        Ok(meta) => missing_field_error(stored, &meta.kind, &meta.api_version),
        Err(why) => format!("couldn't get version/kind; json parse error: {why}"),
    }
}

/// The decoding error of stored bytes that are no custom resource.
pub(crate) fn custom_decode_error(stored: &[u8]) -> String {
    let value = match json::decode(stored, json::DecodeOptions::default()) {
        Ok(decoded) => decoded.value,
        Err(error) => return error.to_string(),
    };
    let found = match value {
        // Only the conversion requires a version.
        Value::Object(_) if !value.kind().is_empty() && value.api_version().is_empty() => {
            return "request to convert CR from an invalid group/version: ".to_owned();
        }
        Value::Object(_) => return missing_field_error(stored, value.str_at(&["kind"]), value.str_at(&["apiVersion"])),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        _ => "number",
    };
    format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
}

fn missing_field_error(stored: &[u8], kind: &str, version: &str) -> String {
    let missing = match (kind, version) {
        ("", _) => "Kind",
        (_, "") => "apiVersion",
        _ => return "metadata.uid is missing".to_owned(),
    };
    format!("Object '{missing}' is missing in '{}'", String::from_utf8_lossy(stored))
}

fn decode_object(json: &[u8]) -> Option<Value> {
    Some(pintle_codec::json::decode(json, pintle_codec::json::DecodeOptions::default()).ok()?.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The versions of a CRD whose schema has a default.
    struct Versions {
        crd: u64,
    }

    impl MultiVersion for Versions {
        fn storage_version(&self) -> &str {
            "a.b/v1"
        }
        fn contains(&self, version: &str) -> bool {
            version == "a.b/v1"
        }
        fn conversion(&self) -> &pintle_registry::Conversion {
            &pintle_registry::Conversion::None
        }
        fn types(&self, _: &str) -> Option<&pintle_schema::Schema> {
            None
        }
        fn identical_versions(&self, _: &str) -> Vec<&str> {
            Vec::new()
        }
        fn versions_with(&self, _: &str) -> Vec<&str> {
            Vec::new()
        }
        fn crd_revision(&self) -> u64 {
            self.crd
        }
        fn lacks_default(&self, _: &Value) -> bool {
            false
        }
        fn prune_and_default_stored(&self, object: &mut Value) {
            object.set_default("spec", 1);
        }
        fn prune_converted(&self, _: &mut Value) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn objects_that_a_read_does_not_change_are_kept_at_their_version() {
        let indexers = Indexers::default();
        let prefix = "b/as";
        let define = |crd: u64| {
            let versions: Arc<dyn MultiVersion> = Arc::new(Versions { crd });
            indexers.custom.write().entry(prefix.into()).or_default().versions = Some(versions);
        };
        let kept = |json: &'static str| {
            let kept = indexers.kept(prefix, "n/a", 9, Bytes::from_static(json.as_bytes()));
            String::from_utf8_lossy(&kept).into_owned()
        };
        let note = |revision| indexers.kept(CRDS_PREFIX, "as.b", revision, Bytes::from_static(b"{}"));
        let complete = r#"{"kind":"A","apiVersion":"a.b/v1","metadata":{},"spec":2}"#;
        let sorted = r#"{"apiVersion":"a.b/v1","kind":"A","metadata":{},"spec":2}"#;
        let incomplete = r#"{"kind":"A","apiVersion":"a.b/v1","metadata":{}}"#;
        let unknown = r#"{"kind":"A","apiVersion":"a.b/v9","metadata":{},"spec":2}"#;
        assert_eq!(kept(complete), complete, "no CRD is known");
        note(5);
        define(5);
        for (json, expect) in [(complete, sorted), (sorted, sorted), (incomplete, incomplete), (unknown, unknown)] {
            assert_eq!(kept(json), expect);
        }
        note(7);
        assert_eq!(kept(complete), complete, "the newest CRD is not known yet");
        define(5);
        assert_eq!(kept(complete), complete);
        define(7);
        assert_eq!(kept(complete), sorted);
        assert!(!indexers.remove(prefix));
        assert_eq!(kept(complete), complete);
    }

    /// The messages were recorded from upstream's servers with such values in etcd.
    #[test]
    fn decode_errors_match_upstream() {
        const NO_STRUCT: &str = "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value \
                                 of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                                 \"json:\\\"kind,omitempty\\\"\" }";
        const NO_KIND: &str = "Object 'Kind' is missing in '{\"a\":1}'";
        const NO_MAP: &str = "json: cannot unmarshal array into Go value of type map[string]interface {}";
        for (stored, built_in, custom) in [
            (
                "{",
                "couldn't get version/kind; json parse error: unexpected end of JSON input",
                "unexpected end of JSON input",
            ),
            ("hello", NO_STRUCT, "invalid character 'h' looking for beginning of value"),
            ("{\"a\":1}", NO_KIND, NO_KIND),
            (
                "{\"kind\":\"A\"}",
                "Object 'apiVersion' is missing in '{\"kind\":\"A\"}'",
                "request to convert CR from an invalid group/version: ",
            ),
            ("[]", &NO_STRUCT.replace("string into", "array into"), NO_MAP),
            (
                "{a",
                "couldn't get version/kind; json parse error: invalid character 'a' looking for beginning of object key string",
                "invalid character 'a' looking for beginning of object key string",
            ),
        ] {
            assert_eq!(
                (built_in_decode_error(stored.as_bytes()).as_str(), custom_decode_error(stored.as_bytes()).as_str()),
                (built_in, custom)
            );
        }
    }
}
