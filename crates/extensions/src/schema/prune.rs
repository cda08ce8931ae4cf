//! Dropping what a schema does not declare (upstream: `schema/pruning`).

use pintle_value::Value;

use super::model::Schema;
use super::part::{Additional, Part};
use super::path::Path;

/// What every resource has, declared or not.
pub(super) const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Drops the fields that are not declared, except `apiVersion`, `kind` and `metadata` of the object and of embedded
    /// resources. Returns the paths of what it dropped (`spec.ports[0].nope`), sorted: strict field validation
    /// reports them as unknown. Doing it again drops nothing.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut pruner = Pruner { dropped: Vec::new() };
        let root = self.root();
        if root.preserves_unknown() {
            pruner.declared_only(object, root, true, &Path::ROOT);
        } else {
            pruner.prune(object, Some(root), true, &Path::ROOT);
        }
        pruner.dropped.sort_unstable();
        pruner.dropped
    }
}

struct Pruner {
    dropped: Vec<String>,
}

impl Pruner {
    fn prune(&mut self, value: &mut Value, part: Option<Part<'_>>, resource: bool, path: &Path<'_>) {
        match (value, part) {
            (value, Some(part)) if part.preserves_unknown() => self.declared_only(value, part, resource, path),
            (Value::Object(object), None) => {
                self.dropped.extend(object.keys().map(|key| path.property(key).to_string()));
                object.retain(|_, _| false);
            }
            (Value::Object(object), Some(part)) => {
                let resource = resource || part.is_embedded_resource();
                let additional = part.additional();
                object.retain(|key, value| {
                    if resource && META_FIELDS.contains(&key) {
                        return true;
                    }
                    let path = path.property(key);
                    match (part.property(key), additional) {
                        (Some(part), _) | (None, Additional::Values(part)) => {
                            self.prune(value, Some(part), false, &path);
                        }
                        // Anything is let in, but nothing is known of it.
                        (None, Additional::Any | Additional::None) => self.prune(value, None, false, &path),
                        (None, Additional::Undeclared) => {
                            self.dropped.push(path.to_string());
                            return false;
                        }
                    }
                    true
                });
            }
            (Value::Array(items), part) => {
                let part = part.and_then(Part::items);
                for (i, item) in items.iter_mut().enumerate() {
                    self.prune(item, part, false, &path.index(i));
                }
            }
            _ => {}
        }
    }

    /// Where unknown fields are preserved: prunes within the known ones.
    fn declared_only(&mut self, value: &mut Value, part: Part<'_>, resource: bool, path: &Path<'_>) {
        match value {
            Value::Object(object) => {
                let resource = resource || part.is_embedded_resource();
                let additional = part.additional();
                for (key, value) in object.iter_mut() {
                    if resource && META_FIELDS.contains(&key) {
                        continue;
                    }
                    let path = path.property(key);
                    match (part.property(key), additional) {
                        (Some(part), _) | (None, Additional::Values(part)) => {
                            self.prune(value, Some(part), false, &path);
                        }
                        (None, Additional::Any | Additional::None) => self.prune(value, None, false, &path),
                        (None, Additional::Undeclared) => {}
                    }
                }
            }
            Value::Array(items) => {
                let Some(part) = part.items() else { return };
                for (i, item) in items.iter_mut().enumerate() {
                    self.declared_only(item, part, false, &path.index(i));
                }
            }
            _ => {}
        }
    }
}
