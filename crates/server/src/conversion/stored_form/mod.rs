//! The form of objects in etcd, as kube-apiserver writes it (upstream: `--storage-media-type`, `storage/etcd3`).
//! Objects of built-in kinds are Protobuf at upstream's storage version. Objects of custom kinds, CRDs and APIServices
//! are JSON. The server itself works with the JSON of the hub version. Values of other writers are read in every form
//! that upstream's decoder accepts (upstream: `NewStorageCodec`).

mod custom;
mod encoding;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use pintle_catalog::{Catalog, ResourceFacts};
use pintle_codec::json::{self, DecodeOptions, Tape};
use pintle_codec::protobuf;
use pintle_gates::Gates;
use pintle_registry::{Resource, UnservedVersion};
use pintle_schema::{Problems, Schema, normalise};
use pintle_store::{Key, StoredValue, TransformError, TransformedValue, ValueTransformer};
use pintle_value::Value;
use pintle_value::threads::map_parallel;
use pintle_versions::EffectiveVersion;

use self::encoding::EncodedObject;
use super::store_keys::ByCollection;
use super::to_hub;
use crate::cluster::object_index::is_same_object;
use crate::cluster::{RANGES_PREFIX, SERVER_ADDRESSES_PREFIX, TreeEncoder, built_in_decode_error};
use crate::objects::decode::{KindScheme, internal_package, set_defaults};
use crate::objects::encode::encode_exact;

/// The groups whose objects upstream keeps as JSON, because their servers have codecs of their own.
const JSON_GROUPS: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// The prefixes of records that are stored in addition to the objects of the API, and their kinds in the core group.
const RECORDS: [(&str, &str); 2] = [(SERVER_ADDRESSES_PREFIX, "Endpoints"), (RANGES_PREFIX, "RangeAllocation")];

/// The minimum number of values that several threads decode.
const MIN_PARALLEL_VALUES: usize = 1000;

/// Converts between the JSON of the server and the form of objects in etcd.
#[derive(Debug)]
pub struct StoredForm {
    /// The collections of built-in kinds.
    collections: ByCollection<StoredCollection>,
    /// The versions in which objects of built-in kinds may be stored, by group and version.
    versions: HashMap<String, Vec<ReadVersion>>,
}

/// A version in which objects of a kind may be stored.
#[derive(Debug)]
struct ReadVersion {
    /// The version to which a read converts them: their own version, if it is served.
    resource: Arc<Resource>,
    /// The properties of a version that is not served; `None` if it is served.
    unserved: Option<Unserved>,
}

/// The differences between a version that is not served and the version to which a read converts it.
#[derive(Debug)]
struct Unserved {
    /// The type, if it differs from the served version's type.
    schema: Option<Schema>,
    /// Defaults and conversion, if there are any.
    rules: Option<&'static UnservedVersion>,
}

/// The form of a collection's stored objects.
#[derive(Debug)]
struct StoredCollection {
    hub: Arc<Resource>,
    /// The version in which objects are written; `None` for JSON.
    written: Option<WrittenVersion>,
}

#[derive(Debug)]
struct WrittenVersion {
    api_version: String,
    schema: Schema,
    /// False if objects are converted when they are read.
    is_hub_version: bool,
}

impl StoredForm {
    /// The form of the objects below a prefix of keys (`--etcd-prefix`). If `protobuf` is false, objects are written as
    /// JSON (`--storage-media-type`). Both encodings are read. The defaults that a read sets depend on the feature
    /// gates.
    ///
    /// # Errors
    /// A kind is not in the catalog.
    pub fn new(key_prefix: &str, protobuf: bool, gates: &Gates) -> Result<Self, String> {
        // Objects of versions that are turned off are still read.
        let catalog = pintle_catalog::complete_of(gates.version().binary());
        let mut resources = pintle_kinds::all_resources_with(catalog, gates);
        let mut collections = HashMap::new();
        for facts in catalog.resources() {
            let Some(storage) = facts.storage() else { continue };
            let is_hub = |hub: &&Arc<Resource>| hub.is_hub() && hub.is(facts.group, facts.plural);
            let Some(hub) = resources.iter().filter(|hub| hub.version == facts.version).find(is_hub) else { continue };
            let written = protobuf && !JSON_GROUPS.contains(&facts.group);
            let written = written.then(|| WrittenVersion::of(catalog, facts, gates.version())).transpose()?;
            collections.insert(storage.prefix, StoredCollection { hub: hub.clone(), written });
        }
        for (prefix, kind) in RECORDS {
            let hub = resources.iter().find(|resource| resource.kind == kind && resource.group.is_empty()).cloned();
            let hub = hub.map_or_else(|| unserved_kind(catalog, &resources, kind), Ok)?;
            let written = protobuf.then(|| WrittenVersion {
                api_version: "v1".to_owned(),
                schema: (*hub.schema).clone(),
                is_hub_version: true,
            });
            if !resources.iter().any(|resource| Arc::ptr_eq(resource, &hub)) {
                resources.push(hub.clone());
            }
            collections.insert(prefix, StoredCollection { hub, written });
        }
        let versions = read_versions(catalog, &resources)?;
        Ok(Self { collections: ByCollection::new(key_prefix, collections), versions })
    }

    fn collection(&self, key: &str) -> Option<&StoredCollection> {
        self.collections.get(key)
    }

    fn is_custom(&self, key: &str) -> bool {
        self.collections.custom_resource(key).is_some()
    }

    /// Decodes an object of any version to the hub version. It is stale unless it has the media type and the version in
    /// which objects are written. As in upstream, an update that changes nothing writes a stale object. So all objects
    /// can be brought to the current form.
    fn decode(&self, collection: &StoredCollection, stored: &[u8]) -> Result<TransformedValue, String> {
        let StoredCollection { hub, written } = collection;
        let (version, stale, mut object);
        let encoded = EncodedObject::of(stored);
        if let Some(stored) = encoded.protobuf() {
            let envelope = protobuf::open_envelope(stored).map_err(|error| error.to_string())?;
            stale = encoded.is_unpacked()
                || written.as_ref().is_none_or(|written| written.api_version != envelope.api_version);
            // Upstream uses the collection's kind if the kind is missing.
            let kind = if envelope.kind.is_empty() { &*hub.kind } else { &*envelope.kind };
            version = self.version_of(&envelope.api_version, kind, hub)?;
            let Schema { types, root } = version.schema();
            object = protobuf::decode_object(&envelope, types, *root).map_err(|error| error.to_string())?;
            object.set("kind", kind);
        } else {
            let stored = encoded.bytes();
            stale = encoded.is_unpacked() || written.is_some() || !stored.ends_with(b"\n");
            let tree = json::decode(stored, DecodeOptions::default()).map_err(|_| built_in_decode_error(stored))?.value;
            let mut meta = json::type_meta(&tree).map_err(|_| built_in_decode_error(stored))?;
            if meta.kind.is_empty() && !meta.api_version.is_empty() {
                meta.kind = hub.kind.clone();
            }
            if meta.kind.is_empty() || meta.api_version.is_empty() {
                return Err(built_in_decode_error(stored));
            }
            version = self.version_of(&meta.api_version, &meta.kind, hub)?;
            let Schema { types, root } = version.schema();
            object = json::decode_typed(stored, types, *root).map_err(|error| error.to_string())?.value;
            // The case of `kind` and `apiVersion` in the stored text may differ.
            object.set("kind", meta.kind);
            object.set("apiVersion", meta.api_version);
        }
        version.convert_to_served(&mut object)?;
        let resource = &version.resource;
        // As in upstream, the defaults are set when an object is read. For example, Protobuf has no types of nested
        // objects, and older versions did not have newer fields.
        if version.has_served_defaults() {
            set_defaults(resource, &mut object);
        }
        if !resource.group_version().eq(&hub.group_version()) {
            object = to_hub(resource, hub, object);
            set_defaults(hub, &mut object);
        }
        // Upstream stores neither field, and sets both when an object is read.
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            metadata.remove("selfLink");
        }
        let mut json = Vec::with_capacity(stored.len() * 2);
        json::encode_typed(&object, &hub.schema.types, hub.schema.root, &mut json);
        // Caches keep the JSON for long, so its memory is no larger than necessary.
        Ok(TransformedValue { value: Bytes::copy_from_slice(&json), stale })
    }

    /// The version that determines how an object of a collection is read.
    fn version_of(&self, api_version: &str, kind: &str, hub: &Resource) -> Result<&ReadVersion, String> {
        let mut kinds = self.versions.get(api_version).into_iter().flatten();
        let found = kinds.find(|version| version.resource.kind == kind);
        let found = found.ok_or_else(|| {
            format!(
                "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"{}\"",
                KindScheme::LEGACY.name
            )
        })?;
        if found.resource.kind != hub.kind {
            let hub = format!("{}.{}", internal_package(&hub.group), hub.kind);
            let from = format!("{}.{kind}", api_version.rsplit('/').next().unwrap_or_default());
            return Err(format!("converting ({from}) to ({hub}): unknown conversion"));
        }
        Ok(found)
    }

    fn encode(&self, collection: &StoredCollection, json: Bytes) -> Option<StoredValue> {
        let Some(written) = &collection.written else {
            let mut versions = collection.hub.strategy.unserved_versions().iter();
            let written = versions.find_map(|version| Some((version.api_version, version.from_served?)));
            let Some((api_version, from_served)) = written else {
                let bytes = [&json, &b"\n"[..]].concat().into();
                // Objects of built-in kinds that are stored as JSON are normalised when they are read.
                return Some(StoredValue { bytes, is_exact: false });
            };
            let mut object = json::decode(&json, DecodeOptions::STORED).ok()?.value;
            object.set("apiVersion", api_version);
            from_served(&mut object);
            let Schema { types, root } =
                self.version_of(api_version, &collection.hub.kind, &collection.hub).ok()?.schema();
            let mut bytes = Vec::with_capacity(json.len());
            json::encode_typed(&object, types, *root, &mut bytes);
            bytes.push(b'\n');
            return Some(StoredValue { bytes: bytes.into(), is_exact: false });
        };
        written.encode(&collection.hub.kind, |Schema { types, root }, out| {
            protobuf::encode_json_checked(&json, &mut Tape::default(), types, *root, out)
        })
    }
}

impl ReadVersion {
    /// The type of stored objects.
    fn schema(&self) -> &Schema {
        let own = self.unserved.as_ref().and_then(|unserved| unserved.schema.as_ref());
        own.unwrap_or(&self.resource.schema)
    }

    /// Whether objects get the defaults of the served version to which they are converted.
    fn has_served_defaults(&self) -> bool {
        let rules = self.unserved.as_ref().and_then(|unserved| unserved.rules);
        rules.is_none_or(|rules| rules.has_served_defaults)
    }

    /// Converts an object of a version that is not served to the served version.
    fn convert_to_served(&self, object: &mut Value) -> Result<(), String> {
        let Some(Unserved { schema, rules }) = &self.unserved else { return Ok(()) };
        if let Some(rules) = rules {
            (rules.to_served)(object);
        }
        object.set("apiVersion", self.resource.group_version().to_string());
        let mut problems = Problems::default();
        if schema.is_some() {
            let Schema { types, root } = &*self.resource.schema;
            normalise(types, *root, object, &mut problems);
        }
        problems.errors.into_iter().next().map_or(Ok(()), Err)
    }
}

/// The versions in which objects of these resources may be stored.
fn read_versions(catalog: &Catalog, resources: &[Arc<Resource>]) -> Result<HashMap<String, Vec<ReadVersion>>, String> {
    let stored_types = catalog.stored_types().map_err(|error| error.to_string())?;
    let mut versions: HashMap<String, Vec<ReadVersion>> = HashMap::new();
    for resource in resources {
        let facts = catalog.resource(&resource.group, &resource.version, &resource.plural);
        for (group, version) in facts.and_then(ResourceFacts::storage).map_or(&[][..], |s| &s.stored_versions) {
            let api_version = format!("{group}/{version}");
            let mut rules = resource.strategy.unserved_versions().iter();
            let unserved = Unserved {
                schema: stored_types.kind_schema(group, version, &resource.kind),
                rules: rules.find(|rules| rules.api_version == api_version),
            };
            let read = ReadVersion { resource: resource.clone(), unserved: Some(unserved) };
            versions.entry(api_version).or_default().push(read);
        }
        let served = ReadVersion { resource: resource.clone(), unserved: None };
        versions.entry(resource.group_version().to_string()).or_default().push(served);
    }
    Ok(versions)
}

/// A kind of the core group that is stored, but not served.
fn unserved_kind(catalog: &Catalog, resources: &[Arc<Resource>], kind: &'static str) -> Result<Arc<Resource>, String> {
    let schema = catalog.kind_schema("", "v1", kind).ok_or_else(|| format!("{kind} has no type"))?;
    // The kind has no rules.
    let like = resources.iter().find(|resource| resource.is("", "configmaps")).ok_or("the core group is missing")?;
    Ok(Arc::new(Resource {
        kind: kind.into(),
        plural: kind.to_lowercase().into(),
        schema: schema.into(),
        ..(**like).clone()
    }))
}

impl WrittenVersion {
    fn of(catalog: &Catalog, facts: &ResourceFacts, version: EffectiveVersion) -> Result<Self, String> {
        let unknown = || format!("{} has no type", facts.plural);
        let (group, version) = catalog.storage_version(facts, version).ok_or_else(unknown)?;
        let schema = catalog.kind_schema(group, version, facts.kind).ok_or_else(unknown)?;
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let is_hub_version = (group, version) == (facts.group, facts.version);
        Ok(Self { api_version, schema, is_hub_version })
    }

    /// The stored form of an object, whose message `write` appends. `write` returns whether the message is known to
    /// decode to the same object, or `None` if there is no message.
    fn encode(&self, kind: &str, write: impl FnOnce(&Schema, &mut Vec<u8>) -> Option<bool>) -> Option<StoredValue> {
        let mut is_exact = None;
        let bytes = encode_exact(|buffer| {
            protobuf::encode_envelope(&self.api_version, kind, buffer, |out| is_exact = write(&self.schema, out));
        });
        Some(StoredValue { bytes, is_exact: is_exact? && self.is_hub_version })
    }
}

impl ValueTransformer for StoredForm {
    fn transform_to_storage(&self, key: &str, value: Bytes) -> Result<StoredValue, TransformError> {
        match self.collection(key) {
            Some(collection) => {
                self.encode(collection, value).ok_or_else(|| TransformError::encoding("the object is not JSON"))
            }
            None if self.is_custom(key) => Ok(custom::write(&value)),
            None => Ok(StoredValue::exact(value)),
        }
    }

    /// Debug builds check that the encoding is the encoding of the value.
    fn transform_encoded_to_storage(
        &self,
        key: &str,
        value: Bytes,
        encoded: StoredValue,
    ) -> Result<StoredValue, TransformError> {
        if cfg!(debug_assertions) {
            let stored = self.transform_to_storage(key, value.clone())?;
            debug_assert!(stored == encoded, "{key} is not stored as {}", value.escape_ascii());
        }
        Ok(encoded)
    }

    fn transform_from_storage(&self, key: &str, stored: Bytes) -> Result<TransformedValue, TransformError> {
        let Some(collection) = self.collection(key) else {
            if self.is_custom(key) {
                return custom::read(&stored).map_err(TransformError::encoding);
            }
            // The value is copied, because the memory of etcd's answer is freed as a whole.
            return Ok(TransformedValue { value: Bytes::copy_from_slice(&stored), stale: false });
        };
        self.decode(collection, &stored).map_err(TransformError::encoding)
    }

    fn is_as_written(&self, read: &[u8], written: &[u8]) -> bool {
        read == written || is_same_object(&Bytes::copy_from_slice(read), written)
    }

    fn transform_all_from_storage(&self, stored: &[(Key, Bytes)]) -> Vec<Result<TransformedValue, TransformError>> {
        let transform = |(key, stored): &(Key, Bytes)| self.transform_from_storage(key, stored.clone());
        match stored.len() {
            ..MIN_PARALLEL_VALUES => stored.iter().map(transform).collect(),
            _ => map_parallel(stored, &transform),
        }
    }
}

impl TreeEncoder for StoredForm {
    fn encode_tree(&self, key: &str, object: &Value) -> Option<StoredValue> {
        let collection = self.collection(key)?;
        let written = collection.written.as_ref()?;
        written.encode(&collection.hub.kind, |Schema { types, root }, out| {
            Some(protobuf::encode_checked(object, types, *root, out))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> StoredForm {
        StoredForm::new("/registry", true, &Gates::default()).expect("a form")
    }

    fn read(key: &str, stored: impl Into<Bytes>) -> Result<String, String> {
        let read = form().transform_from_storage(key, stored.into()).map_err(|error| error.detail)?;
        Ok(String::from_utf8_lossy(&read.value).into_owned())
    }

    #[test]
    fn objects_are_stored_as_upstream_stores_them() {
        let form = form();
        for (key, json, expect) in [
            (
                "/registry/configmaps/n/a",
                r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n"},"data":{"k":"v"}}"#,
                &b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12"[..],
            ),
            (
                "/registry/services/specs/n/a",
                r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"a","namespace":"n"},"spec":{"type":"ClusterIP","sessionAffinity":"None","internalTrafficPolicy":"Cluster"},"status":{"loadBalancer":{}}}"#,
                b"k8s\0\x0a\x0d\x0a\x02v1\x12\x07Service\x12",
            ),
            (
                "/registry/mutatingadmissionpolicybindings/a",
                r#"{"kind":"MutatingAdmissionPolicyBinding","apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"a"},"spec":{"policyName":"p"}}"#,
                b"k8s\0\x0a\x46\x0a\x24admissionregistration.k8s.io/v1beta1\x12\x1eMutatingAdmissionPolicyBinding\x12",
            ),
            (
                "/registry/apiregistration.k8s.io/apiservices/v1.a",
                r#"{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1","metadata":{"name":"v1.a"},"spec":{"groupPriorityMinimum":1,"versionPriority":1},"status":{}}"#,
                b"{\"kind\":\"APIService\"",
            ),
            (
                "/registry/example.com/things/n/a",
                r#"{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"a"}}"#,
                b"{\"apiVersion\":\"example.com/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"a\"}}\n",
            ),
            (
                "/registry/masterleases/10.0.0.1",
                r#"{"kind":"Endpoints","apiVersion":"v1","metadata":{"generation":2},"subsets":[{"addresses":[{"ip":"10.0.0.1"}]}]}"#,
                b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Endpoints\x12",
            ),
            (
                "/registry/ranges/servicenodeports",
                r#"{"kind":"RangeAllocation","apiVersion":"v1","metadata":{},"range":"30000-32767","data":"AQ=="}"#,
                b"k8s\0\x0a\x15\x0a\x02v1\x12\x0fRangeAllocation\x12",
            ),
            ("/registry/unknown/key", "x", b"x"),
        ] {
            let stored = form.transform_to_storage(key, json.into()).expect("stored").bytes;
            assert!(stored.starts_with(expect), "{key}: {:?}", String::from_utf8_lossy(&stored));
            assert_eq!(read(key, stored).as_deref(), Ok(json), "{key}");
        }
        assert!(form.transform_to_storage("/registry/pods/n/a", "".into()).is_err());
    }

    #[test]
    fn crds_are_stored_at_a_version_that_is_not_served() {
        let key = "/registry/apiextensions.k8s.io/customresourcedefinitions/things.example.com";
        let json = r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"things.example.com"},"spec":{"group":"example.com","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},"scope":"Cluster","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}},"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".a"}]},{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}},"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".a"}],"selectableFields":[{"jsonPath":".a"}]}],"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://a"},"conversionReviewVersions":["v1"]}}},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":["v1"]}}"#;
        let expect = r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"things.example.com"},"spec":{"group":"example.com","version":"v1","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},"scope":"Cluster","validation":{"openAPIV3Schema":{"type":"object"}},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}}},{"name":"v2","served":true,"storage":false,"selectableFields":[{"jsonPath":".a"}]}],"additionalPrinterColumns":[{"name":"A","type":"string","JSONPath":".a"}],"conversion":{"strategy":"Webhook","webhookClientConfig":{"url":"https://a"},"conversionReviewVersions":["v1"]},"preserveUnknownFields":false},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":["v1"]}}"#;
        let tree = |json: &[u8]| json::decode(json, DecodeOptions::STORED).expect("JSON").value;
        let stored = form().transform_to_storage(key, json.into()).expect("stored").bytes;
        assert_eq!(tree(&stored), tree(expect.as_bytes()));
        assert_eq!(read(key, stored).as_deref(), Ok(json));
        // The properties of a single version stay with that version.
        let json = json.replace(r#""jsonPath":".a"}]},"#, r#""jsonPath":".b"}]},"#);
        let stored = form().transform_to_storage(key, json.clone().into()).expect("stored").bytes;
        assert!(tree(&stored).at(&["spec", "additionalPrinterColumns"]).is_none());
        assert_eq!(read(key, stored), Ok(json));
    }

    /// Protobuf has no empty lists and maps, and no unset fields if the Go type has no pointer.
    #[test]
    fn values_that_are_read_as_others_are_known() {
        let form = form();
        let role = |rules: &str| {
            let head = r#"{"kind":"Role","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"a"}"#;
            format!("{head}{rules}}}")
        };
        let map = |metadata: &str, rest: &str| {
            format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"a"{metadata}}}{rest}}}"#)
        };
        for (key, json, expect) in [
            ("roles/n/a", role(r#","rules":null"#), true),
            ("roles/n/a", role(r#","rules":[{"verbs":["get"]}]"#), true),
            ("roles/n/a", role(r#","rules":[{"verbs":[]}]"#), false),
            ("roles/n/a", role(r#","rules":[]"#), false),
            ("roles/n/a", role(""), false),
            ("configmaps/n/a", map("", r#","data":{"k":""}"#), true),
            ("configmaps/n/a", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}"#.to_owned(), false),
            ("configmaps/n/a", map(r#","name":"a""#, ""), false),
            ("configmaps/n/a", map("", r#","data":{}"#), false),
            ("configmaps/n/a", map("", r#","data":null"#), false),
            ("configmaps/n/a", map("", r#","immutable":false"#), true),
            ("configmaps/n/a", map("", r#","unknown":1"#), false),
            ("configmaps/n/a", map(r#","generation":0"#, ""), false),
            ("configmaps/n/a", map(r#","namespace":"""#, ""), false),
            ("unknown/things/n/a", "{}".to_owned(), true),
            ("unknown/things/n/a", "{}\n".to_owned(), true),
        ] {
            let key = format!("/registry/{key}");
            let stored = form.transform_to_storage(&key, json.clone().into()).expect("stored");
            if let Some(collection) = form.collection(&key) {
                // The text of a tree has each member once, in the order of the schema.
                let tree = json::decode(json.as_bytes(), DecodeOptions::STORED).expect("JSON").value;
                let mut text = Vec::new();
                json::encode_typed(&tree, &collection.hub.schema.types, collection.hub.schema.root, &mut text);
                let stored = form.transform_to_storage(&key, text.into()).expect("stored");
                assert_eq!(form.encode_tree(&key, &tree), Some(stored), "{json}");
            }
            assert_eq!((stored.is_exact, read(&key, stored.bytes).as_ref() == Ok(&json)), (expect, expect), "{json}");
        }
        let form = StoredForm::new("/registry", false, &Gates::default()).expect("a form");
        let stored = form.transform_to_storage("/registry/configmaps/n/a", map("", "").into()).expect("stored");
        assert!(!stored.is_exact);
    }

    /// There are more values than one thread converts. Each result belongs to its value, also after a value that cannot
    /// be read.
    #[test]
    fn many_values_are_read_as_single_ones() {
        let form = form();
        let stored = |number: usize| {
            let json = format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{number}"}}}}"#);
            let key = format!("/registry/configmaps/n/{number}");
            let bytes = match number {
                1234 => Bytes::from_static(b"k8s\0\xff"),
                _ => form.transform_to_storage(&key, json.into()).expect("stored").bytes,
            };
            (Key::from(key), bytes)
        };
        let stored: Vec<_> = (0..2 * MIN_PARALLEL_VALUES + 1).map(stored).collect();
        let texts = |read: Result<TransformedValue, TransformError>| {
            read.map(|read| (read.value, read.stale)).map_err(|error| error.detail)
        };
        let together: Vec<_> = form.transform_all_from_storage(&stored).into_iter().map(texts).collect();
        let single = stored.iter().map(|(key, stored)| texts(form.transform_from_storage(key, stored.clone())));
        assert_eq!(together, single.collect::<Vec<_>>());
        assert_eq!(together.iter().filter(|read| read.is_err()).count(), 1);
    }

    #[test]
    fn defaults_are_set_when_an_object_is_read() {
        let claim = r#"{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"v"},"spec":{"resources":{},"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}"#;
        let form = form();
        let (key, head) =
            ("/registry/statefulsets/n/a", r#"{"kind":"StatefulSet","apiVersion":"apps/v1","metadata":{"name":"a"}"#);
        let json = format!(
            r#"{head},"spec":{{"selector":null,"template":{{"metadata":{{}},"spec":{{}}}},"volumeClaimTemplates":[{claim}]}}}}"#
        );
        let stored = form.transform_to_storage(key, json.into()).expect("stored").bytes;
        let found = read(key, stored).expect("an object");
        assert!(found.contains(claim), "{found}");
    }

    #[test]
    fn what_others_have_written_is_read() {
        // This is the text that Go writes, including empty fields.
        let pod = "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"creationTimestamp\":null},\
                   \"binaryData\":null}\n";
        let json = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}"#;
        assert_eq!(read("/registry/configmaps/n/a", pod).as_deref(), Ok(json));
        let autoscaler = r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","metadata":{"name":"a"},"spec":{"scaleTargetRef":{"kind":"D","name":"d"},"maxReplicas":3,"targetCPUUtilizationPercentage":50},"status":{}}"#;
        let read_autoscaler = read("/registry/horizontalpodautoscalers/n/a", autoscaler).expect("an object");
        assert!(read_autoscaler.contains(r#""apiVersion":"autoscaling/v2""#), "{read_autoscaler}");
        assert!(read_autoscaler.contains(r#""averageUtilization":50"#), "{read_autoscaler}");
        // This is the oldest form of CRDs: one version, and no conversion.
        let crd = r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"things.example.com"},"spec":{"group":"example.com","version":"v1alpha1","names":{"plural":"things","kind":"Thing"}},"status":{"conditions":null,"acceptedNames":{"plural":"things","kind":"Thing"},"storedVersions":["v1alpha1"]}}"#;
        let found = read("/registry/apiextensions.k8s.io/customresourcedefinitions/things.example.com", crd);
        let found = found.expect("an object");
        for expect in [
            r#""apiVersion":"apiextensions.k8s.io/v1","#,
            r#""names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},"scope":"Namespaced""#,
            r#""versions":[{"name":"v1alpha1","served":true,"storage":true}],"conversion":{"strategy":"None"},"preserveUnknownFields":true}"#,
        ] {
            assert!(found.contains(expect), "{expect} is not in {found}");
        }
        let service = r#"{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1beta1","metadata":{"name":"v1.a"},"spec":{"groupPriorityMinimum":1,"versionPriority":1},"status":{}}"#;
        assert_eq!(
            read("/registry/apiregistration.k8s.io/apiservices/v1.a", service),
            Ok(service.replace("v1beta1", "v1"))
        );
        let things = "/registry/example.com/things/n/a";
        let thing = "{\"metadata\": {}, \"apiVersion\": \"example.com/v1\", \"kind\": \"Thing\"}\n";
        assert_eq!(
            read(things, thing).as_deref(),
            Ok(r#"{"kind":"Thing","apiVersion":"example.com/v1","metadata":{}}"#)
        );
        // An update that changes nothing brings such values to the current form, and does not write others.
        let form = form();
        let is_stale = |stored: &[u8]| {
            let read = form.transform_from_storage("/registry/configmaps/n/a", Bytes::copy_from_slice(stored));
            read.expect("an object").stale
        };
        assert!(is_stale(json.as_bytes()));
        let written = form.transform_to_storage("/registry/configmaps/n/a", json.into()).expect("stored").bytes;
        assert!(!is_stale(&written));
        let error =
            read("/registry/configmaps/n/a", &b"k8s\0\x0a\x09\x0a\x02v9\x12\x03Pod"[..]).expect_err("no such version");
        let scheme = r#"in scheme "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30""#;
        assert_eq!(error, format!(r#"no kind "Pod" is registered for version "v9" {scheme}"#));
        let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"1"}}"#;
        let error = read("/registry/configmaps/n/a", pod).expect_err("another kind");
        assert_eq!(error, "converting (v1.Pod) to (core.ConfigMap): unknown conversion");
        for broken in [&b""[..], b"k8s\0", b"k8s\0\xff", b"{", b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x05\x0a"]
        {
            assert!(read("/registry/configmaps/n/a", broken).is_err(), "{broken:?}");
        }
    }
}
