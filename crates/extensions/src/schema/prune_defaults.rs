//! Prunes defaults once when a schema is parsed, so that defaulting never adds fields that pruning would drop
//! (upstream: `PruneDefaults`).

use pintle_value::{Object, Str, Value};

use super::embedded::InvalidMetadata;
use super::model::{Flags, Keyword, StructuralSchema};
use super::node::{Additional, SchemaNode};

/// A step on the path from the object to a default.
#[derive(Clone, Copy)]
enum DefaultPathStep<'s> {
    Field(&'s str),
    Item,
}

impl StructuralSchema {
    pub(super) fn prune_defaults(&mut self) {
        let mut found = Vec::new();
        self.find(self.root(), &mut Vec::new(), &mut found);
        for (at, value) in found {
            if let Some(slot) = self.values.get_mut(at as usize) {
                *slot = value;
            }
        }
    }

    fn find<'s>(&'s self, node: SchemaNode<'s>, path: &mut Vec<DefaultPathStep<'s>>, found: &mut Vec<(u32, Value)>) {
        if !node.has(Flags::DEFAULTS_WITHIN) {
            return;
        }
        let at = node.keyword(|keyword| if let Keyword::Default(at) = keyword { Some(*at) } else { None });
        if let Some(at) = at
            && let Some(default) = self.values.get(at as usize)
        {
            // A default that pruning removes entirely is dropped.
            found.push((at, self.pruned(default, path).unwrap_or_default()));
        }
        let mut below = |step, node| {
            path.push(step);
            self.find(node, path, found);
            path.pop();
        };
        for (name, node) in node.properties() {
            below(DefaultPathStep::Field(name), node);
        }
        if let Additional::Values(node) = node.additional() {
            below(DefaultPathStep::Field("*"), node);
        }
        if let Some(node) = node.items() {
            below(DefaultPathStep::Item, node);
        }
    }

    /// Returns the value after pruning an object that contains it at the path.
    fn pruned(&self, value: &Value, path: &[DefaultPathStep<'_>]) -> Option<Value> {
        let mut object = path.iter().rev().fold(value.clone(), |inner, step| match step {
            DefaultPathStep::Field(name) => Value::Object([(Str::from(*name), inner)].into_iter().collect::<Object>()),
            DefaultPathStep::Item => Value::Array(vec![inner]),
        });
        object.as_object()?;
        self.coerce(&mut object, true, InvalidMetadata::Drop).ok()?;
        self.prune(&mut object);
        path.iter().try_fold(object, |outer, step| match (step, outer) {
            (DefaultPathStep::Field(name), Value::Object(mut fields)) => fields.remove(name),
            (DefaultPathStep::Item, Value::Array(items)) => items.into_iter().next(),
            _ => None,
        })
    }
}
