//! Which old value a new one is compared to, when what is wrong may stay as it was (upstream: `ratchetingOptions` of
//! apiextensions-apiserver's `pkg/apiserver/schema/cel`, `CorrelatedObject` of `apiserver/pkg/cel/common`).

use std::cell::OnceCell;

use pintle_value::Value;

use crate::schema::{Old, Part};

/// A value whose old value is known.
#[derive(Debug)]
pub(super) struct Level<'a> {
    part: Part<'a>,
    new: &'a Value,
    old: &'a Value,
    /// True if both are the same. Found out when it is first asked for.
    same: OnceCell<bool>,
}

/// How the walk stands to the old object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ratchet<'a> {
    /// The value that the walk is at, if its old value is known.
    here: Option<&'a Level<'a>>,
    /// The innermost value around it whose old value is known.
    around: Option<&'a Level<'a>>,
}

impl<'a> Level<'a> {
    pub(super) fn new(part: Part<'a>, new: &'a Value, old: &'a Value) -> Self {
        Self { part, new, old, same: OnceCell::new() }
    }

    fn is_same(&self) -> bool {
        *self.same.get_or_init(|| Old(self.old).is_same(self.part, self.new))
    }
}

impl<'a> Ratchet<'a> {
    /// For the object as a whole.
    pub(super) fn of(level: Option<&'a Level<'a>>) -> Self {
        Self { here: level, around: None }
    }

    /// True if the old value is known.
    pub(super) fn is_correlated(self) -> bool {
        self.here.is_some()
    }

    /// The value under a key, if its old value is known.
    pub(super) fn level(self, key: &str) -> Option<Level<'a>> {
        let here = self.here?;
        let part = here.part.entry(key)?;
        Some(Level::new(part, here.new.as_object()?.get(key)?, here.old.as_object()?.get(key)?))
    }

    /// For the value under a key.
    pub(super) fn key<'b>(self, key: &str, level: Option<&'b Level<'b>>) -> Ratchet<'b>
    where
        'a: 'b,
    {
        // Both objects were converted to the same kind, so that these always look unchanged.
        if self.here.is_some() && self.around.is_none() && matches!(key, "apiVersion" | "kind") {
            return Ratchet::default();
        }
        self.below(level)
    }

    /// For a value below this one.
    pub(super) fn below<'b>(self, level: Option<&'b Level<'b>>) -> Ratchet<'b>
    where
        'a: 'b,
    {
        match self.here {
            None => self,
            Some(here) => Ratchet { here: level, around: Some(here) },
        }
    }

    /// True if what is wrong here was so before: nothing has changed, here or in what is around it.
    pub(super) fn lets_through(self) -> bool {
        self.here.or(self.around).is_some_and(Level::is_same)
    }
}
