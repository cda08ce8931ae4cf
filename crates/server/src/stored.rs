//! What selection and splicing need of stored objects, by the rules of their kinds. Kinds come and go while objects are
//! written, so the rules stand by the prefix of the collection.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use pintle_cache::{Describe, Fields, Outline};
use pintle_codec::json::{self, Projection};
use pintle_codec::yaml;
use pintle_registry::{Behaviour, Resource};
use pintle_value::Str;

use crate::outline::{self, Places};

/// Describes stored objects.
#[derive(Default)]
pub(crate) struct Described {
    /// The collections of which fields are kept.
    kept: RwLock<HashMap<Str, Arc<Kept>>>,
}

/// What is kept of the objects of a collection.
struct Kept {
    rules: Arc<dyn Behaviour>,
    /// What the rules look at.
    sources: Projection,
}

impl Described {
    /// Takes the rules of a collection from one of its records. Returns false if no fields are kept, neither before nor
    /// from now on.
    pub(crate) fn set(&self, resource: &Resource) -> bool {
        let Some(collection) = resource.collection() else { return false };
        let sources = resource.behaviour.selectable_field_sources();
        if sources.is_empty() {
            return self.forget(&collection.prefix);
        }
        let kept = Kept { rules: resource.behaviour.clone(), sources: Projection::of(sources) };
        self.kept.write().insert(collection.prefix.clone(), Arc::new(kept));
        true
    }

    /// Forgets the rules of a collection. Returns false if there were none.
    pub(crate) fn forget(&self, prefix: &str) -> bool {
        self.kept.write().remove(prefix).is_some()
    }
}

impl Describe for Described {
    fn outline(&self, prefix: &str, json: &[u8]) -> Result<Outline, String> {
        // Whether the rest can be read is not looked at; what was cut off would not have its end.
        let places = outline::places(json).filter(|_| json.ends_with(b"}"));
        let Places { version_at, item_at, labels } = places.ok_or_else(|| why_unreadable(json))?;
        let kept = self.kept.read().get(prefix).cloned();
        // Only kinds that are selected by their own fields need to be read, and only those fields of them.
        let fields = match kept {
            None => Fields::default(),
            Some(kept) => {
                let read = kept.sources.read(json).ok_or_else(|| why_unreadable(json))?;
                let values = kept.rules.selected_values(&read);
                debug_assert_eq!(Some(&values), whole(json).map(|whole| kept.rules.selected_values(&whole)).as_ref());
                values.into_iter().collect()
            }
        };
        Ok(Outline { version_at, item_at, labels: (labels.start, labels.end), fields })
    }
}

/// Why something is no object that could be stored, as upstream's decoder says it.
fn why_unreadable(stored: &[u8]) -> String {
    let value = if stored.trim_ascii_start().starts_with(b"{") {
        json::decode(stored, json::Options::default()).map(|decoded| decoded.value).map_err(|error| error.to_string())
    } else {
        match yaml::decode(stored) {
            Ok(decoded) => Ok(decoded.value),
            Err(error) => return error.to_string(),
        }
    };
    let meta = value.and_then(|value| json::type_meta(&value).map_err(|error| error.to_string()));
    let missing = match meta {
        Err(why) => return format!("couldn't get version/kind; json parse error: {why}"),
        Ok(meta) if meta.kind.is_empty() => "Kind",
        Ok(meta) if meta.api_version.is_empty() => "apiVersion",
        Ok(_) => return "metadata.uid is missing".to_owned(),
    };
    format!("Object '{missing}' is missing in '{}'", String::from_utf8_lossy(stored))
}

fn whole(json: &[u8]) -> Option<pintle_value::Value> {
    Some(pintle_codec::json::decode(json, pintle_codec::json::Options::default()).ok()?.value)
}
