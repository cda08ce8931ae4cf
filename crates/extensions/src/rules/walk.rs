//! Rules applied to an object (upstream: `Validator.Validate` of apiextensions-apiserver's `pkg/apiserver/schema/cel`).

use pintle_cel::{Budget, Evaluation, Failure, Program, Shape as _, Value};
use pintle_value::{Errors, FieldError, FieldPath, Value as Json};

use super::correlate::{Level, Ratchet};
use super::message;
use super::tree::{Rule, Rules};
use crate::schema::{Old, Part, Type};

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

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

impl Rules {
    /// Applies the rules. `budget` is what that may cost; `path` is where the value is.
    pub(crate) fn judge(&self, subject: Subject<'_>, budget: i64, path: &FieldPath<'_>) -> Verdict {
        let mut walk = Walk { verdict: Verdict { budget, ..Verdict::default() } };
        let Subject { part, new, old, ratchets } = subject;
        let level = old.filter(|_| ratchets).map(|old| Level::new(part, new, old));
        walk.value(self, &Place { part, new, old, ratchet: Ratchet::of(level.as_ref()), path });
        walk.verdict
    }
}

/// Where the walk is.
struct Place<'a> {
    part: Part<'a>,
    new: &'a Json,
    old: Option<&'a Json>,
    ratchet: Ratchet<'a>,
    path: &'a FieldPath<'a>,
}

struct Walk {
    verdict: Verdict,
}

/// Nothing more is to be done.
struct Over;

type Goes = Result<(), Over>;

impl Walk {
    fn value(&mut self, rules: &Rules, place: &Place<'_>) {
        // That it is over shows in the budget.
        let _ = self.node(rules, place);
    }

    fn node(&mut self, rules: &Rules, place: &Place<'_>) -> Goes {
        match place.new {
            Json::Null => return Ok(()),
            _ if rules.unseen => {
                let why = "failed to convert to declType for CEL validation rules";
                self.invalid(place, format!("rule compiler initialization error: {why}"));
            }
            _ if rules.own.is_empty() => {}
            _ => self.own(rules, place)?,
        }
        match place.new {
            Json::Array(items) => self.items(rules, place, items),
            Json::Object(_) => {
                self.values(rules, place)?;
                self.properties(rules, place)
            }
            _ => Ok(()),
        }
    }

    fn properties(&mut self, rules: &Rules, place: &Place<'_>) -> Goes {
        for (name, below) in &rules.properties {
            let (Some(new), Some(part)) = (place.new.get(name), place.part.property(name)) else { continue };
            let level = place.ratchet.level(name);
            let ratchet = place.ratchet.key(name, level.as_ref());
            self.node(below, &Place { part, new, old: place.old_field(name), ratchet, path: &place.path.child(name) })?;
        }
        Ok(())
    }

    fn values(&mut self, rules: &Rules, place: &Place<'_>) -> Goes {
        let Some(below) = &rules.values else { return Ok(()) };
        let Some(part) = place.part.values() else { return Ok(()) };
        for (key, new) in place.new.entries_at(&[]) {
            let level = place.ratchet.level(key);
            let ratchet = place.ratchet.key(key, level.as_ref());
            self.node(below, &Place { part, new, old: place.old_field(key), ratchet, path: &place.path.key(key) })?;
        }
        Ok(())
    }

    fn items(&mut self, rules: &Rules, place: &Place<'_>, items: &[Json]) -> Goes {
        let (Some(below), Some(part)) = (&rules.items, place.part.items()) else { return Ok(()) };
        let old_items = place.old.and_then(|old| Old(old).items(place.part));
        for (i, new) in items.iter().enumerate() {
            let old = old_items.as_ref().and_then(|old| old.like(new)).map(|old| old.0);
            let level = old.filter(|_| place.ratchet.is_correlated()).map(|old| Level::new(part, new, old));
            let ratchet = place.ratchet.below(level.as_ref());
            self.node(below, &Place { part, new, old, ratchet, path: &place.path.index(i) })?;
        }
        Ok(())
    }

    /// The rules of one node.
    fn own(&mut self, rules: &Rules, place: &Place<'_>) -> Goes {
        let Some(shape) = &rules.place else { return Ok(()) };
        if self.verdict.budget <= 0 {
            return self.end(place, OUT_OF_BUDGET);
        }
        let this = shape.read(place.new);
        let old = place.old.filter(|old| rules.use_old_self && !old.is_null()).map(|old| shape.read(old));
        let optional = match (rules.own.iter().any(|rule| rule.optional_old_self), &old) {
            (true, Some(old)) => Some([this.clone(), Value::some(old.clone())]),
            (true, None) => Some([this.clone(), Value::Optional(None)]),
            (false, _) => None,
        };
        let bindings: Vec<Value<'_>> = std::iter::once(this).chain(old).collect();
        for (rule, text) in rules.own.iter().zip(place.part.rules()) {
            let program = match &rule.program {
                None => continue,
                Some(Ok(program)) => program,
                Some(Err(error)) => {
                    self.invalid(place, format!("rule compile error: {error}"));
                    continue;
                }
            };
            if rule.uses_old_self && bindings.len() == 1 && !rule.optional_old_self {
                // There is nothing to compare to.
                continue;
            }
            // Where no rule of the node asks for the old value, there is none to be optional either.
            let own = optional.as_ref().filter(|_| rule.optional_old_self && rules.use_old_self);
            let own = own.map_or(&bindings[..], |optional| &optional[..]);
            let judge = Judge { rule, text, program, bindings: own, message_bindings: &bindings };
            self.rule(place, &judge)?;
        }
        Ok(())
    }

    fn rule(&mut self, place: &Place<'_>, judge: &Judge<'_>) -> Goes {
        let Evaluation { result, cost } = judge.program.evaluate(judge.bindings, Budget::limit(Budget::PER_CALL));
        if !self.spend(cost) {
            return self.end(place, OUT_OF_BUDGET);
        }
        let error = match result {
            Ok(Value::Bool(true)) => return Ok(()),
            Ok(_) => return self.broken(place, judge),
            Err(error) => error,
        };
        let shown = message::shown(judge.text);
        let text = error.to_string();
        if text.starts_with("no such overload") {
            let detail = format!(
                "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
            );
            self.invalid(place, detail);
        } else if *error.failure() == Failure::CostLimit {
            let detail = format!(
                "'{text}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
            );
            return self.end(place, detail);
        } else {
            self.invalid(place, format!("{text} evaluating rule: {shown}"));
        }
        Ok(())
    }

    /// The error of a rule that is not kept.
    fn broken(&mut self, place: &Place<'_>, judge: &Judge<'_>) -> Goes {
        let rule = judge.rule;
        let path = rule.field.as_ref().map(|field| place.path.child(field));
        let path = path.as_ref().unwrap_or(place.path);
        let detail = match &rule.message {
            None => None,
            Some(program) => {
                let said = message::evaluate(program, judge.text, judge.message_bindings, self.verdict.budget);
                self.verdict.budget = said.budget;
                match said.outcome {
                    Ok(detail) => detail,
                    Err(fault) => {
                        let error = FieldError::invalid(&at(path), place.type_name(), fault);
                        self.add(place, rule, error);
                        return Err(Over);
                    }
                }
            }
        };
        let detail = detail.unwrap_or_else(|| message::default(judge.text));
        let error = place.error(judge.text.str_at(&["reason"]), path, detail);
        self.add(place, rule, error);
        Ok(())
    }

    fn add(&mut self, place: &Place<'_>, rule: &Rule, error: FieldError) {
        if !rule.uses_old_self && place.ratchet.lets_through() {
            self.verdict.warnings.push(error.to_string());
        } else {
            self.verdict.errors.push(error);
        }
    }

    /// Takes a cost from the budget; false if that is too small.
    fn spend(&mut self, cost: u64) -> bool {
        let left = i64::try_from(cost).ok().and_then(|cost| self.verdict.budget.checked_sub(cost));
        match left.filter(|left| *left >= 0) {
            Some(left) => self.verdict.budget = left,
            None => return false,
        }
        true
    }

    fn invalid(&mut self, place: &Place<'_>, detail: impl Into<String>) {
        self.verdict.errors.push(FieldError::invalid(&at(place.path), place.type_name(), detail));
    }

    fn end(&mut self, place: &Place<'_>, detail: impl Into<String>) -> Goes {
        self.invalid(place, detail);
        self.verdict.budget = -1;
        Err(Over)
    }
}

/// One rule and what it is asked about.
struct Judge<'j> {
    rule: &'j Rule,
    /// The rule as it is written.
    text: &'j Json,
    program: &'j Program,
    bindings: &'j [Value<'j>],
    /// To messages an old value is never optional.
    message_bindings: &'j [Value<'j>],
}

impl Place<'_> {
    fn old_field(&self, name: &str) -> Option<&Json> {
        self.old.and_then(|old| old.get(name))
    }

    fn type_name(&self) -> &'static str {
        self.part.ty().map_or("", Type::name)
    }

    fn error(&self, reason: &str, path: &FieldPath<'_>, detail: String) -> FieldError {
        let path = &at(path);
        let whole = matches!(self.part.ty(), Some(Type::Object | Type::Array));
        let shown = |error: FieldError| if whole { error.without_value() } else { error };
        match reason {
            "FieldValueForbidden" => FieldError::forbidden(path, detail),
            "FieldValueRequired" => FieldError::required(path, detail),
            "FieldValueDuplicate" => shown(FieldError::duplicate(path, self.new.clone())),
            _ => shown(FieldError::invalid(path, self.new.clone(), detail)),
        }
    }
}

/// Upstream has no path for the object as a whole, and prints that.
fn at<'a>(path: &'a FieldPath<'a>) -> FieldPath<'a> {
    if path.is_root() { FieldPath::new("<nil>") } else { *path }
}
