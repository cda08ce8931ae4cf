//! Defaults are pruned once, when a schema is read, so that filling them in never adds what pruning would drop
//! (upstream: `PruneDefaults`).

use pintle_value::{Object, Str, Value};

use super::embedded::Invalid;
use super::model::{Flags, Keyword, Schema};
use super::part::{Additional, Part};

/// A step from the object to where a default is.
#[derive(Clone, Copy)]
enum Step<'s> {
    Field(&'s str),
    Item,
}

impl Schema {
    pub(super) fn prune_defaults(&mut self) {
        let mut found = Vec::new();
        self.find(self.root(), &mut Vec::new(), &mut found);
        for (at, value) in found {
            if let Some(slot) = self.values.get_mut(at as usize) {
                *slot = value;
            }
        }
    }

    fn find<'s>(&'s self, part: Part<'s>, path: &mut Vec<Step<'s>>, found: &mut Vec<(u32, Value)>) {
        if !part.has(Flags::DEFAULTS_WITHIN) {
            return;
        }
        let at = part.keyword(|keyword| if let Keyword::Default(at) = keyword { Some(*at) } else { None });
        if let Some(at) = at
            && let Some(default) = self.values.get(at as usize)
        {
            // A default that does not survive is none.
            found.push((at, self.pruned(default, path).unwrap_or_default()));
        }
        let mut below = |step, part| {
            path.push(step);
            self.find(part, path, found);
            path.pop();
        };
        for (name, part) in part.properties() {
            below(Step::Field(name), part);
        }
        if let Additional::Values(part) = part.additional() {
            below(Step::Field("*"), part);
        }
        if let Some(part) = part.items() {
            below(Step::Item, part);
        }
    }

    /// A value as it comes out of an object in which it is where the path says.
    fn pruned(&self, value: &Value, path: &[Step<'_>]) -> Option<Value> {
        let mut object = path.iter().rev().fold(value.clone(), |inner, step| match step {
            Step::Field(name) => Value::Object([(Str::from(*name), inner)].into_iter().collect::<Object>()),
            Step::Item => Value::Array(vec![inner]),
        });
        object.as_object()?;
        self.coerce(&mut object, true, Invalid::Dropped).ok()?;
        self.prune(&mut object);
        path.iter().try_fold(object, |outer, step| match (step, outer) {
            (Step::Field(name), Value::Object(mut fields)) => fields.remove(name),
            (Step::Item, Value::Array(items)) => items.into_iter().next(),
            _ => None,
        })
    }
}
