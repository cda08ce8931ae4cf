//! The source from which the records of custom resources read their schemas: the stored JSON of the CRD, which the
//! watch cache retains anyway.

use bytes::Bytes;
use pintle_codec::json::Projection;
use pintle_extensions::is_condition_true;
use pintle_locks::{Mutex, RwLock};
use pintle_registry::CrdSource;
use pintle_value::Value;
use pintle_versions::EffectiveVersion;

/// A stored CRD at one generation.
pub(super) struct StoredCrd {
    fingerprint: String,
    served_by: EffectiveVersion,
    /// The newest JSON: status and metadata change without a new generation.
    json: RwLock<Bytes>,
    /// Whether the CRD was terminating at the last checked revision.
    terminating: Mutex<(u64, bool)>,
}

impl StoredCrd {
    /// A CRD and its JSON, which a server of this version serves.
    pub(super) fn new(crd: &Value, json: Bytes, served_by: EffectiveVersion) -> Self {
        Self { fingerprint: fingerprint(crd), served_by, json: RwLock::new(json), terminating: Mutex::default() }
    }

    /// True if a CRD is of this generation.
    pub(super) fn has_generation_of(&self, crd: &Value) -> bool {
        self.fingerprint == fingerprint(crd)
    }

    /// Replaces the JSON by newer JSON of the same generation, so that the older one can be freed.
    pub(super) fn set_json(&self, json: Bytes) {
        *self.json.write() = json;
    }
}

/// All fields of a CRD except the schemas of its versions.
const FIELDS_WITHOUT_SCHEMAS: &[&str] = &[
    "metadata",
    "spec.group",
    "spec.scope",
    "spec.names",
    "spec.conversion",
    "spec.versions.name",
    "spec.versions.served",
    "spec.versions.storage",
    "spec.versions.deprecated",
    "spec.versions.deprecationWarning",
    "spec.versions.subresources",
    "spec.versions.additionalPrinterColumns",
    "spec.versions.selectableFields",
    "status",
];

/// A stored CRD without the schema of its version, which is the largest part and is read later. A CRD with several
/// versions is read whole, since their schemas are compared.
pub(super) fn without_schemas(json: &[u8]) -> Option<Value> {
    let crd = Projection::of(FIELDS_WITHOUT_SCHEMAS.iter().copied()).read(json)?;
    if crd.items_at(&["spec", "versions"]).len() < 2 {
        return Some(crd);
    }
    Some(pintle_codec::json::decode(json, pintle_codec::json::DecodeOptions::default()).ok()?.value)
}

/// Identifies a generation of a CRD.
fn fingerprint(crd: &Value) -> String {
    format!("{} {}", crd.uid(), crd.generation())
}

impl CrdSource for StoredCrd {
    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn served_by(&self) -> EffectiveVersion {
        self.served_by
    }

    fn schema(&self, version: &str) -> Option<Value> {
        let json = self.json.read().clone();
        let mut crd = Projection::of(["spec.versions.name", "spec.versions.schema.openAPIV3Schema"]).read(&json)?;
        let versions = crd.at_mut(&["spec", "versions"])?.as_array_mut()?;
        let version = versions.iter_mut().find(|found| found.str_at(&["name"]) == version)?;
        Some(version.at_mut(&["schema", "openAPIV3Schema"])?.take())
    }

    fn is_terminating(&self, revision: u64, json: &[u8]) -> bool {
        let mut known = self.terminating.lock();
        if known.0 != revision {
            let fields = Projection::of(["metadata.deletionTimestamp", "status.conditions"]).read(json);
            // After the clean-up the condition is false, but a client may have seen it true just before. Nothing would
            // delete an object that is created then.
            let is_terminating = |fields: Value| fields.is_terminating() || is_condition_true(&fields, "Terminating");
            *known = (revision, fields.is_some_and(is_terminating));
        }
        known.1
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::object;
    use pintle_versions::Minor;

    use super::*;

    #[test]
    fn schemas_are_read_from_the_stored_bytes() {
        let version = |name: &str, text: &str| {
            let schema = object! { "openAPIV3Schema": object! { "type": "object", "description": text } };
            object! { "name": name, "served": true, "schema": schema }
        };
        let versions = vec![version("v1", "one"), version("v2", "two"), object! { "name": "v3" }];
        let crd = object! {
            "metadata": object! { "uid": "u", "generation": 2 },
            "spec": object! { "group": "example.com", "versions": versions },
        };
        let source =
            StoredCrd::new(&crd, pintle_codec::json::encode(&crd).into(), EffectiveVersion::of(Minor::DEFAULT));
        let text = |version| source.schema(version).map(|schema| schema.str_at(&["description"]).to_owned());
        assert_eq!(["v1", "v2", "v3", "v4"].map(text), [Some("one".into()), Some("two".into()), None, None]);
        assert!(source.has_generation_of(&crd));
        let several = pintle_codec::json::encode(&crd);
        assert_eq!(without_schemas(&several), Some(crd.clone()));
        let mut single = crd.clone();
        single.set_at(&["spec", "versions"], vec![version("v1", "one")]);
        let read = without_schemas(&pintle_codec::json::encode(&single)).unwrap_or_default();
        assert_eq!(read["spec"]["versions"][0], object! { "name": "v1", "served": true });
        assert!(source.has_generation_of(&read));
        source.set_json(Bytes::from_static(b"{}"));
        assert_eq!(source.schema("v1"), None);
    }
}
