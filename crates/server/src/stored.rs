//! What selection and splicing need of stored objects, by the rules of their kinds. Kinds come and go while objects are
//! written, so the rules stand by the prefix of the collection.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use pintle_cache::{Describe, Fields, Outline};
use pintle_codec::json::Projection;
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
        let Places { version_at, item_at, labels } = outline::places(json).ok_or("its JSON has no metadata.uid")?;
        let kept = self.kept.read().get(prefix).cloned();
        // Only kinds that are selected by their own fields need to be read, and only those fields of them.
        let fields = match kept {
            None => Fields::default(),
            Some(kept) => {
                let read = kept.sources.read(json).ok_or("its JSON is malformed")?;
                let values = kept.rules.selected_values(&read);
                debug_assert_eq!(Some(&values), whole(json).map(|whole| kept.rules.selected_values(&whole)).as_ref());
                values.into_iter().collect()
            }
        };
        Ok(Outline { version_at, item_at, labels: (labels.start, labels.end), fields })
    }
}

fn whole(json: &[u8]) -> Option<pintle_value::Value> {
    Some(pintle_codec::json::decode(json, pintle_codec::json::Options::default()).ok()?.value)
}
