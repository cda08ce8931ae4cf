//! Rules applied to an object (upstream: `Validator.Validate` of apiextensions-apiserver's `pkg/apiserver/schema/cel`).

use pintle_cel::Budget;
use pintle_value::{Errors, FieldPath, Value as Json};

use super::correlate::{Level, Ratchet};
use super::tree::Rules;
use crate::schema::{Old, Part};

/// What the rules say of a value.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// What is wrong.
    pub(crate) errors: Errors,
    /// What is wrong but was so before, which the client is told.
    pub(crate) warnings: Vec<String>,
    /// What is left of the budget; negative if it did not suffice.
    pub(crate) budget: i64,
}

/// A value to judge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// Its schema.
    pub(crate) part: Part<'a>,
    /// The value.
    pub(crate) new: &'a Json,
    /// What it replaces.
    pub(crate) old: Option<&'a Json>,
    /// True if what was wrong before and has not changed is let through.
    pub(crate) ratchets: bool,
}

/// What judging may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// All rules together.
    budget: i64,
    /// A rule once.
    per_call: u64,
}

impl Limits {
    /// A budget, and upstream's limit for each rule.
    pub(crate) fn of(budget: i64) -> Self {
        Self { budget, per_call: Budget::PER_CALL }
    }

    /// The same limit for all rules and for each.
    pub(crate) fn together(limit: u32) -> Self {
        Self { budget: limit.into(), per_call: limit.into() }
    }
}

impl Rules {
    /// Applies the rules. `path` is where the value is.
    pub(crate) fn judge(&self, subject: Subject<'_>, limits: Limits, path: &FieldPath<'_>) -> Verdict {
        let Limits { budget, per_call } = limits;
        let mut walk = Walk { verdict: Verdict { budget, ..Verdict::default() }, per_call };
        let Subject { part, new, old, ratchets } = subject;
        let level = old.filter(|_| ratchets).map(|old| Level::new(part, new, old));
        // That it ended early shows in the budget.
        let _ = walk.node(self, &Spot { part, new, old, ratchet: Ratchet::of(level.as_ref()), path });
        walk.verdict
    }
}

/// Where the walk is.
pub(super) struct Spot<'a> {
    pub(super) part: Part<'a>,
    pub(super) new: &'a Json,
    pub(super) old: Option<&'a Json>,
    pub(super) ratchet: Ratchet<'a>,
    pub(super) path: &'a FieldPath<'a>,
}

impl Spot<'_> {
    fn old_field(&self, name: &str) -> Option<&Json> {
        self.old.and_then(|old| old.get(name))
    }
}

/// A walk over an object, by its rules.
pub(super) struct Walk {
    pub(super) verdict: Verdict,
    /// What one rule may cost.
    pub(super) per_call: u64,
}

/// Nothing more is to be done: the budget did not suffice.
pub(super) struct Over;

/// Whether the walk goes on.
pub(super) type Goes = Result<(), Over>;

impl Walk {
    fn node(&mut self, rules: &Rules, spot: &Spot<'_>) -> Goes {
        match spot.new {
            Json::Null => return Ok(()),
            _ if rules.unseen => self.unseen(spot),
            _ if rules.own.is_empty() => {}
            _ => self.own(rules, spot)?,
        }
        match spot.new {
            Json::Array(items) => self.items(rules, spot, items),
            Json::Object(_) => {
                self.values(rules, spot)?;
                self.properties(rules, spot)
            }
            _ => Ok(()),
        }
    }

    fn properties(&mut self, rules: &Rules, spot: &Spot<'_>) -> Goes {
        for (name, below) in &rules.properties {
            let (Some(new), Some(part)) = (spot.new.get(name), spot.part.property(name)) else { continue };
            let level = spot.ratchet.level(name);
            let ratchet = spot.ratchet.key(name, level.as_ref());
            self.node(below, &Spot { part, new, old: spot.old_field(name), ratchet, path: &spot.path.child(name) })?;
        }
        Ok(())
    }

    fn values(&mut self, rules: &Rules, spot: &Spot<'_>) -> Goes {
        let Some(below) = &rules.values else { return Ok(()) };
        let Some(part) = spot.part.values() else { return Ok(()) };
        for (key, new) in spot.new.entries_at(&[]) {
            let level = spot.ratchet.level(key);
            let ratchet = spot.ratchet.key(key, level.as_ref());
            self.node(below, &Spot { part, new, old: spot.old_field(key), ratchet, path: &spot.path.key(key) })?;
        }
        Ok(())
    }

    fn items(&mut self, rules: &Rules, spot: &Spot<'_>, items: &[Json]) -> Goes {
        let (Some(below), Some(part)) = (&rules.items, spot.part.items()) else { return Ok(()) };
        let old_items = spot.old.and_then(|old| Old(old).items(spot.part));
        for (i, new) in items.iter().enumerate() {
            let old = old_items.as_ref().and_then(|old| old.like(new)).map(|old| old.0);
            let level = old.filter(|_| spot.ratchet.is_correlated()).map(|old| Level::new(part, new, old));
            let ratchet = spot.ratchet.below(level.as_ref());
            self.node(below, &Spot { part, new, old, ratchet, path: &spot.path.index(i) })?;
        }
        Ok(())
    }
}
