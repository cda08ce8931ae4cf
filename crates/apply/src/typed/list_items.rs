//! The path elements of list items (upstream: `listItemToPathElement`).

use pintle_value::{Str, Value, print};

use super::atom::{Atom, ElementRelationship, ListSchema};
use pintle_fieldpath::path::{KeyFields, PathElement};

impl ListSchema<'_> {
    pub(super) fn is_atomic(&self) -> bool {
        matches!(self.relationship, ElementRelationship::Atomic)
    }

    /// Returns the path element of an item.
    pub(super) fn element(&self, item: &Value) -> Result<PathElement, String> {
        match self.relationship {
            ElementRelationship::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            ElementRelationship::Set => set_element(item),
            ElementRelationship::Keys(keys) => self.key_element(keys, item),
        }
    }

    fn key_element(&self, keys: &[Str], item: &Value) -> Result<PathElement, String> {
        let object = match item {
            Value::Object(object) => object,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut fields = Vec::with_capacity(keys.len());
        for key in keys {
            // A key that is absent and has no default is omitted: its absence distinguishes items, too.
            if let Some(value) = object.get(key) {
                fields.push((key.clone(), value.clone()));
            } else if let Some(default) = self.key_default(key)? {
                fields.push((key.clone(), default));
            }
        }
        if fields.is_empty() && !keys.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| print::quote(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                keys.join(" ")
            ));
        }
        Ok(PathElement::Key(KeyFields::new(fields)))
    }

    fn key_default(&self, key: &str) -> Result<Option<Value>, String> {
        match self.item.atom(None) {
            Atom::Map(entries) => Ok(entries.default(key)),
            Atom::Scalar(_) | Atom::List(_) => {
                Err(format!("couldn't find default value for {key}: associative list may not have non-map types"))
            }
        }
    }
}

fn set_element(item: &Value) -> Result<PathElement, String> {
    let problem = match item {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        scalar => return Ok(PathElement::Value(scalar.clone())),
    };
    Err(problem.to_owned())
}
