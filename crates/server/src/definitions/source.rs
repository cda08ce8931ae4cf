//! Where the records of custom kinds read what their definition says: in the stored definition itself, of which the cache
//! holds the bytes anyway.

use bytes::Bytes;
use parking_lot::RwLock;
use pintle_codec::json::Projection;
use pintle_registry::DefinitionSource;
use pintle_value::Value;

/// A stored definition at one generation.
pub(super) struct Source {
    mark: String,
    /// The newest JSON. Status and metadata change without a new generation.
    json: RwLock<Bytes>,
}

impl Source {
    /// The source of a definition with this JSON.
    pub(super) fn new(definition: &Value, json: Bytes) -> Self {
        Self { mark: mark(definition), json: RwLock::new(json) }
    }

    /// True if a definition says the same here.
    pub(super) fn is_of(&self, definition: &Value) -> bool {
        self.mark == mark(definition)
    }

    /// Reads in this JSON from now on, so that no other needs to be kept.
    pub(super) fn set(&self, json: Bytes) {
        *self.json.write() = json;
    }
}

/// What of a definition is not a schema. Of versions their fields one by one.
const BESIDE_SCHEMAS: &[&str] = &[
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

/// A stored definition without the schema of its version, which is most of it and read here later. With several versions
/// it is the whole definition, since schemas are compared.
pub(super) fn without_schemas(json: &[u8]) -> Option<Value> {
    let definition = Projection::of(BESIDE_SCHEMAS.iter().copied()).read(json)?;
    if definition.items_at(&["spec", "versions"]).len() < 2 {
        return Some(definition);
    }
    Some(pintle_codec::json::decode(json, pintle_codec::json::DecodeOptions::default()).ok()?.value)
}

/// What changes with everything that clients write of a definition.
fn mark(definition: &Value) -> String {
    format!("{} {}", definition.uid(), definition.generation())
}

impl DefinitionSource for Source {
    fn fingerprint(&self) -> &str {
        &self.mark
    }

    fn schema(&self, version: &str) -> Option<Value> {
        let json = self.json.read().clone();
        let mut read = Projection::of(["spec.versions.name", "spec.versions.schema.openAPIV3Schema"]).read(&json)?;
        let versions = read.at_mut(&["spec", "versions"])?.as_array_mut()?;
        let found = versions.iter_mut().find(|found| found.str_at(&["name"]) == version)?;
        Some(found.at_mut(&["schema", "openAPIV3Schema"])?.take())
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    #[test]
    fn schemas_are_read_from_the_stored_bytes() {
        let version = |name: &str, text: &str| {
            let schema = object! { "openAPIV3Schema": object! { "type": "object", "description": text } };
            object! { "name": name, "served": true, "schema": schema }
        };
        let versions = vec![version("v1", "one"), version("v2", "two"), object! { "name": "v3" }];
        let definition = object! {
            "metadata": object! { "uid": "u", "generation": 2 },
            "spec": object! { "group": "example.com", "versions": versions },
        };
        let source = Source::new(&definition, pintle_codec::json::encode(&definition).into());
        let text = |version| source.schema(version).map(|schema| schema.str_at(&["description"]).to_owned());
        assert_eq!(["v1", "v2", "v3", "v4"].map(text), [Some("one".into()), Some("two".into()), None, None]);
        assert!(source.is_of(&definition));
        let several = pintle_codec::json::encode(&definition);
        assert_eq!(without_schemas(&several), Some(definition.clone()));
        let mut single = definition.clone();
        single.set_at(&["spec", "versions"], vec![version("v1", "one")]);
        let read = without_schemas(&pintle_codec::json::encode(&single)).unwrap_or_default();
        assert_eq!(read["spec"]["versions"][0], object! { "name": "v1", "served": true });
        assert!(source.is_of(&read));
        source.set(Bytes::from_static(b"{}"));
        assert_eq!(source.schema("v1"), None);
    }
}
