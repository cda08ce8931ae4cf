//! What selection and splicing need of stored objects, by the rules of their kinds. Kinds come and go while objects are
//! written, so the rules stand by the prefix of the collection.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::RwLock;
use pintle_cache::{Indexer, ObjectIndex, SelectableValues};
use pintle_codec::json::{self, Projection};
use pintle_codec::yaml;
use pintle_registry::{Resource, Strategy};
use pintle_value::{Str, Value};

use super::object_index::{self, Places};

/// Describes stored objects.
#[derive(Default)]
pub(crate) struct Indexers {
    /// The collections of which fields are kept.
    kept: RwLock<HashMap<Str, Arc<Kept>>>,
    /// The collections of custom kinds.
    custom: RwLock<HashSet<Str>>,
}

/// What is kept of the objects of a collection.
struct Kept {
    rules: Arc<dyn Strategy>,
    /// What the rules look at.
    sources: Projection,
}

impl Indexers {
    /// Takes the rules of a collection from one of its records. Returns false if no fields are kept, neither before nor
    /// from now on.
    pub(crate) fn set(&self, resource: &Resource) -> bool {
        let Some(collection) = resource.collection() else { return false };
        if !resource.built_in {
            self.custom.write().insert(collection.prefix.clone());
        }
        let sources = resource.strategy.selectable_field_sources();
        if sources.is_empty() {
            return self.kept.write().remove(&collection.prefix).is_some();
        }
        let kept = Kept { rules: resource.strategy.clone(), sources: Projection::of(sources) };
        self.kept.write().insert(collection.prefix.clone(), Arc::new(kept));
        true
    }

    fn why_unreadable(&self, prefix: &str, stored: &[u8]) -> String {
        if self.custom.read().contains(prefix) { why_not_custom(stored) } else { why_not_typed(stored) }
    }

    /// Forgets the rules of a collection. Returns false if there were none.
    pub(crate) fn forget(&self, prefix: &str) -> bool {
        self.custom.write().remove(prefix);
        self.kept.write().remove(prefix).is_some()
    }
}

impl Indexer for Indexers {
    fn index(&self, prefix: &str, json: &[u8]) -> Result<ObjectIndex, String> {
        // Whether the rest can be read is not looked at; what was cut off would not have its end.
        let places = object_index::places(json).filter(|_| json.ends_with(b"}"));
        let Places { version_at, item_at, labels } = places.ok_or_else(|| self.why_unreadable(prefix, json))?;
        let kept = self.kept.read().get(prefix).cloned();
        // Only kinds that are selected by their own fields need to be read, and only those fields of them.
        let fields = match kept {
            None => SelectableValues::default(),
            Some(kept) => {
                let read = kept.sources.read(json).ok_or_else(|| self.why_unreadable(prefix, json))?;
                let values = kept.rules.selected_values(&read);
                debug_assert_eq!(Some(&values), whole(json).map(|whole| kept.rules.selected_values(&whole)).as_ref());
                values.into_iter().collect()
            }
        };
        Ok(ObjectIndex {
            resource_version_offset: version_at,
            item_offset: item_at,
            labels: (labels.start, labels.end),
            fields,
        })
    }
}

/// Why something is no object of a built-in kind, as upstream's decoder says it.
fn why_not_typed(stored: &[u8]) -> String {
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
        Ok(meta) => what_is_missing(stored, &meta.kind, &meta.api_version),
        Err(why) => format!("couldn't get version/kind; json parse error: {why}"),
    }
}

/// Why something is no object of a custom kind.
fn why_not_custom(stored: &[u8]) -> String {
    let value = match json::decode(stored, json::DecodeOptions::default()) {
        Ok(decoded) => decoded.value,
        Err(error) => return error.to_string(),
    };
    let found = match value {
        Value::Object(_) => return what_is_missing(stored, value.str_at(&["kind"]), value.str_at(&["apiVersion"])),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        _ => "number",
    };
    format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
}

fn what_is_missing(stored: &[u8], kind: &str, version: &str) -> String {
    let missing = match (kind, version) {
        ("", _) => "Kind",
        (_, "") => "apiVersion",
        _ => return "metadata.uid is missing".to_owned(),
    };
    format!("Object '{missing}' is missing in '{}'", String::from_utf8_lossy(stored))
}

fn whole(json: &[u8]) -> Option<Value> {
    Some(pintle_codec::json::decode(json, pintle_codec::json::DecodeOptions::default()).ok()?.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What upstream's servers said of such values in etcd.
    #[test]
    fn what_cannot_be_read_is_explained() {
        const NO_STRUCT: &str = "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of \
                                 type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
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
            ("[]", &NO_STRUCT.replace("string into", "array into"), NO_MAP),
            (
                "{a",
                "couldn't get version/kind; json parse error: invalid character 'a' looking for beginning of object key string",
                "invalid character 'a' looking for beginning of object key string",
            ),
        ] {
            assert_eq!(
                (why_not_typed(stored.as_bytes()).as_str(), why_not_custom(stored.as_bytes()).as_str()),
                (built_in, custom)
            );
        }
    }
}
