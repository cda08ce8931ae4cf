//! Pruning of undeclared fields (upstream: `schema/pruning`).

use pintle_value::Value;

use super::model::StructuralSchema;
use super::node::{Additional, SchemaNode};
use super::value_path::ValuePath;

/// The fields that every resource has, declared or not.
pub(super) const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl StructuralSchema {
    /// Drops undeclared fields, except `apiVersion`, `kind` and `metadata` of the object and of embedded resources.
    /// Returns the sorted paths of the dropped fields (`spec.ports[0].nope`), which strict field validation reports as
    /// unknown. This is idempotent.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut pruner = Pruner { dropped: Vec::new() };
        let root = self.root();
        if root.preserves_unknown() {
            pruner.declared_only(object, root, true, &ValuePath::ROOT);
        } else {
            pruner.prune(object, Some(root), true, &ValuePath::ROOT);
        }
        pruner.dropped.sort_unstable();
        pruner.dropped
    }
}

struct Pruner {
    dropped: Vec<String>,
}

impl Pruner {
    fn prune(&mut self, value: &mut Value, node: Option<SchemaNode<'_>>, resource: bool, path: &ValuePath<'_>) {
        match (value, node) {
            (value, Some(node)) if node.preserves_unknown() => self.declared_only(value, node, resource, path),
            (Value::Object(object), None) => {
                self.dropped.extend(object.keys().map(|key| path.property(key).to_string()));
                object.retain(|_, _| false);
            }
            (Value::Object(object), Some(node)) => {
                let resource = resource || node.is_embedded_resource();
                let additional = node.additional();
                object.retain(|key, value| {
                    if resource && META_FIELDS.contains(&key) {
                        return true;
                    }
                    let path = path.property(key);
                    match (node.property(key), additional) {
                        (Some(node), _) | (None, Additional::Values(node)) => {
                            self.prune(value, Some(node), false, &path);
                        }
                        // Any value is allowed here, but objects in it have no declared fields.
                        (None, Additional::Any | Additional::None) => self.prune(value, None, false, &path),
                        (None, Additional::Undeclared) => {
                            self.dropped.push(path.to_string());
                            return false;
                        }
                    }
                    true
                });
            }
            (Value::Array(items), node) => {
                let node = node.and_then(SchemaNode::items);
                for (i, item) in items.iter_mut().enumerate() {
                    self.prune(item, node, false, &path.index(i));
                }
            }
            _ => {}
        }
    }

    /// Prunes only within declared fields, because unknown fields are preserved.
    fn declared_only(&mut self, value: &mut Value, node: SchemaNode<'_>, resource: bool, path: &ValuePath<'_>) {
        match value {
            Value::Object(object) => {
                let resource = resource || node.is_embedded_resource();
                let additional = node.additional();
                for (key, value) in object.iter_mut() {
                    if resource && META_FIELDS.contains(&key) {
                        continue;
                    }
                    let path = path.property(key);
                    match (node.property(key), additional) {
                        (Some(node), _) | (None, Additional::Values(node)) => {
                            self.prune(value, Some(node), false, &path);
                        }
                        (None, Additional::Any | Additional::None) => self.prune(value, None, false, &path),
                        (None, Additional::Undeclared) => {}
                    }
                }
            }
            Value::Array(items) => {
                let Some(node) = node.items() else { return };
                for (i, item) in items.iter_mut().enumerate() {
                    self.declared_only(item, node, false, &path.index(i));
                }
            }
            _ => {}
        }
    }
}
