//! The interpreter of compiled rules (upstream: the functions of `apimachinery/pkg/api/validate`, in the order in which
//! generated code calls them).

use std::collections::{HashMap, HashSet};

use pintle_value::field::quote;
use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::{ErrorKind, Errors, FieldError, FieldPath, Value, ValueKey, names, repeated, same};

use super::program::{
    Check, Cohort, Dependent, Discriminated, Field, Identity, MemberOf, Next, Program, Shape, Steps, Type, Union,
};

use crate::validation::{has_wildcard, invalid_each};

static NULL: Value = Value::Null;

/// One validation.
pub(super) struct Run<'r> {
    pub(super) program: &'r Program,
    /// Whether an option is enabled.
    pub(super) has_option: &'r dyn Fn(&str) -> bool,
    pub(super) is_update: bool,
    /// Whether values that an update does not change are valid.
    pub(super) ratchets: bool,
    /// Whether rules in beta have errors.
    pub(super) with_beta: bool,
}

/// A value, and the old value that it replaces.
#[derive(Clone, Copy)]
pub(super) struct Pair<'v> {
    pub(super) shape: Shape,
    pub(super) new: Option<&'v Value>,
    pub(super) old: Option<&'v Value>,
    /// Whether there is an old object that may have the value.
    pub(super) has_old_owner: bool,
}

impl<'v> Pair<'v> {
    fn field(self, name: &str, shape: Shape) -> Self {
        Self {
            shape,
            new: child(self.new, name, shape),
            old: child(self.old, name, shape),
            has_old_owner: self.old.is_some(),
        }
    }

    /// Whether the values are equal. Unset values are, however they are written.
    fn is_unchanged(&self) -> bool {
        let has_unset_form = !matches!(self.shape, Shape::Pointer | Shape::Struct);
        (has_unset_form && !is_set(self.shape, self.new) && !is_set(self.shape, self.old)) || same(self.new, self.old)
    }

    fn is_set(&self) -> bool {
        is_set(self.shape, self.new)
    }

    /// The string. A string without a pointer is empty where it is absent.
    fn text(&self) -> Option<&'v str> {
        self.new.and_then(Value::as_str).or((self.shape == Shape::Text).then_some(""))
    }

    fn number(&self) -> Option<i64> {
        self.new.and_then(Value::as_int).or((self.shape == Shape::Number).then_some(0))
    }

    fn items(&self) -> &'v [Value] {
        items(self.new)
    }

    /// The entries of a map whose keys the old map lacks.
    fn added_entries(&self) -> impl Iterator<Item = (&'v str, &'v Value)> {
        let old = self.old;
        let entries = self.new.map(|map| map.entries_at(&[])).into_iter().flatten();
        entries.filter(move |(key, _)| old.is_none_or(|old| old.get(key).is_none()))
    }
}

/// The number of items of a list or of entries of a map.
fn length(value: Option<&Value>) -> usize {
    match value {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(entries)) => entries.len(),
        _ => 0,
    }
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A field of an object. A struct without a pointer is there even if the object lacks it.
fn child<'v>(owner: Option<&'v Value>, name: &str, shape: Shape) -> Option<&'v Value> {
    let value = owner?.get(name).filter(|value| !value.is_null());
    if shape == Shape::Struct { Some(value.unwrap_or(&NULL)) } else { value }
}

/// A string of an object; empty if the object lacks it.
fn text_of<'v>(owner: Option<&'v Value>, name: &str) -> &'v str {
    owner.map_or("", |owner| owner.str_at(&[name]))
}

fn is_set(shape: Shape, value: Option<&Value>) -> bool {
    value.is_some_and(|value| match (shape, value) {
        (_, Value::Null) => false,
        (Shape::Pointer | Shape::Struct, _) => true,
        (_, Value::Bool(value)) => *value,
        (_, Value::Int(value)) => *value != 0,
        (_, Value::Float(value)) => *value != 0.0,
        (_, Value::String(text)) => !text.is_empty(),
        (_, Value::Array(items)) => !items.is_empty(),
        (_, Value::Object(object)) => !object.is_empty(),
    })
}

/// Adds the error of a rule about updates.
fn invalid_update(errors: &mut Errors, path: &FieldPath<'_>, detail: &str) {
    errors.push(FieldError::invalid(path, Value::Null, detail));
}

impl Run<'_> {
    /// Validates a value by the rules of its type.
    pub(super) fn validate(&self, ty: usize, pair: Pair<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
        let Some(ty) = self.program.types.get(ty) else { return };
        self.validate_type(ty, pair, path, errors);
    }

    fn validate_type(&self, ty: &Type, pair: Pair<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
        if !self.pass(&ty.steps, pair, path, errors) {
            return;
        }
        self.follow(ty.next.as_ref(), pair, path, errors);
        for field in &ty.fields {
            self.validate_field(field, pair, path, errors);
        }
    }

    fn validate_field(&self, field: &Field, owner: Pair<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
        if field.name.is_empty() {
            if self.pass(&field.steps, owner, path, errors) {
                self.follow(field.next.as_ref(), owner, path, errors);
            }
            return;
        }
        let pair = owner.field(field.name, field.shape);
        if self.skips(pair) {
            return;
        }
        let path = path.child(field.name);
        if self.pass(&field.steps, pair, &path, errors) {
            self.follow(field.next.as_ref(), pair, &path, errors);
        }
    }

    /// True for a value that an update does not change.
    fn skips(&self, pair: Pair<'_>) -> bool {
        self.is_update && self.ratchets && pair.has_old_owner && pair.is_unchanged()
    }

    /// Whether constraints of updates apply to a value. A value that can be absent is unset without an old owner.
    fn is_updated(&self, pair: Pair<'_>) -> bool {
        let can_be_absent = matches!(pair.shape, Shape::Pointer | Shape::List | Shape::Map);
        can_be_absent || pair.has_old_owner || self.program.updates_new_values
    }

    /// Applies the rules of the types that a value leads to.
    fn follow(&self, next: Option<&Next>, pair: Pair<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
        match next {
            None => {}
            Some(Next::Type(_)) if pair.shape == Shape::Pointer && pair.new.is_none() => {}
            Some(Next::Type(ty)) => self.validate(*ty, pair, path, errors),
            Some(Next::Items { ty, shape, identity }) => self.each_item(pair, *shape, identity, |pair, i| {
                self.validate(*ty, pair, &path.index(i), errors);
            }),
            Some(Next::Values { ty, shape }) => self.each_value(pair, *shape, |pair, key| {
                self.validate(*ty, pair, &path.key(key), errors);
            }),
        }
    }

    /// Runs steps. Returns whether what follows them is validated.
    fn pass(&self, steps: &Steps, pair: Pair<'_>, path: &FieldPath<'_>, errors: &mut Errors) -> bool {
        let mut cohorts = steps.cohorts.iter();
        let Some(first) = cohorts.next() else { return true };
        if !self.pass_cohort(first, pair, path, errors) {
            return false;
        }
        for cohort in cohorts {
            self.pass_cohort(cohort, pair, path, errors);
        }
        true
    }

    fn pass_cohort(&self, cohort: &Cohort, pair: Pair<'_>, path: &FieldPath<'_>, errors: &mut Errors) -> bool {
        let mut passed = true;
        for gate in &cohort.gates {
            passed &= !self.fails(gate, pair, path, errors);
        }
        if passed {
            for check in &cohort.rest {
                self.fails(check, pair, path, errors);
            }
        }
        passed
    }

    /// Runs one check. Returns whether it fails.
    fn fails(&self, whole: &Check, pair: Pair<'_>, path: &FieldPath<'_>, errors: &mut Errors) -> bool {
        let before = errors.count();
        match whole {
            Check::Detailed(detail, check) => {
                let mut found = Errors::new();
                let failed = self.fails(check, pair, path, &mut found);
                for error in found.iter_mut() {
                    (*detail).clone_into(&mut error.detail);
                    // A detail does not list the supported values.
                    if error.kind == ErrorKind::NotSupported {
                        error.kind = ErrorKind::Invalid;
                    }
                }
                errors.append(found);
                return failed;
            }
            Check::Beta(check) | Check::Hidden(check) => {
                let mut found = Errors::new();
                let failed = self.fails(check, pair, path, &mut found);
                if self.with_beta && matches!(whole, Check::Beta(_)) {
                    found.iter_mut().for_each(|error| error.is_beta = true);
                    errors.append(found);
                }
                return failed;
            }
            Check::Code(function) => function(errors, pair.new.unwrap_or(&NULL), path),
            Check::Port => {
                if let Some(number) = pair.number() {
                    invalid_each(errors, path, number, names::port_number(number));
                }
            }
            Check::WildcardAlone if pair.items().len() > 1 && has_wildcard(pair.items()) => {
                errors.invalid(path, pair.new.cloned(), "if '*' is present, must not specify other items");
            }
            Check::Required if !pair.is_set() => errors.required(path, ""),
            Check::Forbidden if pair.is_set() => errors.forbidden(path, ""),
            Check::Optional => return !pair.is_set(),
            Check::MaxLength(max)
                if pair.text().is_some_and(|text| text.len() > *max && text.chars().count() > *max) =>
            {
                errors.push(FieldError::too_long_characters(path, *max));
            }
            Check::MinLength(min) if pair.text().is_some_and(|text| text.chars().count() < *min) => {
                errors.push(FieldError::too_short(path, *min));
            }
            Check::MaxBytes(max) if pair.text().is_some_and(|text| text.len() > *max) => {
                errors.push(FieldError::too_long(path, *max));
            }
            Check::MaxItems(max) | Check::MaxProperties(max) if length(pair.new) > *max => {
                errors.push(FieldError::too_many(path, length(pair.new), *max));
            }
            Check::MinItems(min) | Check::MinProperties(min) if length(pair.new) < *min => {
                let unit = if *min == 1 { "item" } else { "items" };
                let detail = format!("must have at least {min} {unit}");
                errors.push(FieldError::new(ErrorKind::TooFew, path, length(pair.new) as i64, detail));
            }
            Check::Monotonic if self.is_update && pair.has_old_owner => {
                let numbers = pair.number().zip(Pair { new: pair.old, ..pair }.number());
                if let Some((new, old)) = numbers.filter(|(new, old)| new < old) {
                    errors.invalid(path, new, format!("may not be decreased from {old}"));
                }
            }
            Check::Minimum(min) => {
                if let Some(number) = pair.number().filter(|number| number < min) {
                    errors.invalid(path, number, format!("must be greater than or equal to {min}"));
                }
            }
            Check::Maximum(max) => {
                if let Some(number) = pair.number().filter(|number| number > max) {
                    errors.invalid(path, number, format!("must be less than or equal to {max}"));
                }
            }
            Check::GreaterThan(limit) => {
                if let Some(number) = pair.number().filter(|number| number <= limit) {
                    errors.invalid(path, number, format!("must be greater than {limit}"));
                }
            }
            Check::NotEqual(disallowed) => reject_equal(pair, disallowed, path, errors),
            Check::Format(format) => {
                if let Some(text) = pair.text() {
                    format(errors, path, text);
                }
            }
            Check::Enum(values) => {
                if let Some(text) = pair.text().filter(|text| !values.contains(text)) {
                    errors.not_supported(path, text, values);
                }
            }
            Check::Immutable if self.is_update && !(pair.has_old_owner && pair.is_unchanged()) => {
                invalid_update(errors, path, IMMUTABLE_TEXT);
            }
            Check::NoSet | Check::NoUnset | Check::NoModify if self.is_update && self.is_updated(pair) => {
                reject_update(whole, pair, path, errors);
            }
            Check::NoAddItem(_) if self.is_update && pair.shape == Shape::Map => {
                for (key, _) in pair.added_entries() {
                    errors.push(FieldError::forbidden(&path.key(key), "item may not be added"));
                }
            }
            Check::NoRemoveItem(_) if self.is_update && pair.shape == Shape::Map => {
                for (key, _) in (Pair { new: pair.old, old: pair.new, ..pair }).added_entries() {
                    errors.push(FieldError::forbidden(&path.key(key), "item may not be removed"));
                }
            }
            Check::NoAddItem(identity) if self.is_update => {
                let old: HashSet<_> = items(pair.old).iter().map(|item| key_of(item, identity)).collect();
                for (i, _) in pair.items().iter().enumerate().filter(|(_, new)| !old.contains(&key_of(new, identity))) {
                    errors.push(FieldError::forbidden(&path.index(i), "item may not be added"));
                }
            }
            Check::NoRemoveItem(identity) if self.is_update => {
                let new: HashSet<_> = pair.items().iter().map(|item| key_of(item, identity)).collect();
                for _ in items(pair.old).iter().filter(|old| !new.contains(&key_of(old, identity))) {
                    errors.push(FieldError::forbidden(path, "item may not be removed"));
                }
            }
            Check::Unique(identity) => reject_duplicates(pair.items(), identity, path, errors),
            Check::EachVal { check, shape, identity } => {
                return self.each_fails(check, (*shape, identity), pair, path, errors);
            }
            Check::EachKey(check) => return self.each_key_fails(check, pair, path, errors),
            Check::Subfield { name, shape, check } => {
                let pair = pair.field(name, *shape);
                return !self.skips(pair) && self.fails(check, pair, &path.child(name), errors);
            }
            Check::Item { keys, check } => return self.item_fails(keys, check, pair, path, errors),
            Check::If { option, enabled, check } => {
                return (self.has_option)(option) == *enabled && self.fails(check, pair, path, errors);
            }
            Check::Union(union) => self.validate_union(union, pair, path, errors),
            Check::Discriminated(rules) => self.validate_discriminated(rules, pair, path, errors),
            Check::Dependent(rule) => self.validate_dependent(rule, pair, path, errors),
            _ => return false,
        }
        errors.count() > before
    }

    /// Checks a field that must be set, or must not be, if another one is. An update that sets and unsets neither is valid.
    fn validate_dependent(&self, rule: &Dependent, pair: Pair<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
        let (field, other) = (pair.field(rule.field.0, rule.field.1), pair.field(rule.other.0, rule.other.1));
        let unchanged = |pair: &Pair<'_>| pair.is_set() == is_set(pair.shape, pair.old);
        if self.is_update && pair.old.is_some() && unchanged(&field) && unchanged(&other) {
            return;
        }
        if field.is_set() && other.is_set() != rule.is_required {
            let path = path.child(rule.other.0);
            let name = rule.field.0;
            errors.push(if rule.is_required {
                FieldError::required(&path, format!("must be set when {name} is set"))
            } else {
                FieldError::forbidden(&path, format!("may not be set when {name} is set"))
            });
        }
    }

    /// Calls a function with each item of a list that an update changes.
    fn each_item(&self, list: Pair<'_>, shape: Shape, identity: &Identity, mut each: impl FnMut(Pair<'_>, usize)) {
        let old_items = if matches!(identity, Identity::None) { &[] } else { items(list.old) };
        // Reversed, so that the first of equal items stays.
        let olds: HashMap<_, _> = old_items.iter().rev().map(|old| (key_of(old, identity), old)).collect();
        for (i, item) in list.items().iter().enumerate() {
            let old = if olds.is_empty() { None } else { olds.get(&key_of(item, identity)).copied() };
            let pair = Pair { shape, new: Some(item), old, has_old_owner: old.is_some() };
            if !self.skips(pair) {
                each(pair, i);
            }
        }
    }

    /// Calls a function with each value of a map that an update changes.
    fn each_value(&self, map: Pair<'_>, shape: Shape, mut each: impl FnMut(Pair<'_>, &str)) {
        let Some(Value::Object(entries)) = map.new else { return };
        for (key, value) in entries.iter() {
            let old = map.old.and_then(|old| old.get(key));
            let pair = Pair { shape, new: Some(value), old, has_old_owner: old.is_some() };
            if !self.skips(pair) {
                each(pair, key);
            }
        }
    }

    fn each_fails(
        &self,
        check: &Check,
        (shape, identity): (Shape, &Identity),
        pair: Pair<'_>,
        path: &FieldPath<'_>,
        errors: &mut Errors,
    ) -> bool {
        let mut failed = false;
        if pair.shape == Shape::Map {
            self.each_value(pair, shape, |pair, key| failed |= self.fails(check, pair, &path.key(key), errors));
        } else {
            self.each_item(pair, shape, identity, |pair, i| {
                failed |= self.fails(check, pair, &path.index(i), errors);
            });
        }
        failed
    }

    /// Checks the keys of a map. Their errors have the path of the map.
    fn each_key_fails(&self, check: &Check, pair: Pair<'_>, path: &FieldPath<'_>, errors: &mut Errors) -> bool {
        let Some(Value::Object(entries)) = pair.new else { return false };
        let mut failed = false;
        for key in entries.keys() {
            let is_known = pair.old.is_some_and(|old| old.get(key).is_some());
            if !(self.is_update && self.ratchets && is_known) {
                let text = Value::from(key);
                let pair = Pair { shape: Shape::Text, new: Some(&text), old: None, has_old_owner: false };
                failed |= self.fails(check, pair, path, errors);
            }
        }
        failed
    }

    /// Checks the first item with these values.
    fn item_fails(
        &self,
        keys: &[(&str, &str)],
        check: &Check,
        list: Pair<'_>,
        path: &FieldPath<'_>,
        errors: &mut Errors,
    ) -> bool {
        let find = |list| items(list).iter().enumerate().find(|(_, item)| has_values(item, keys));
        let Some((i, item)) = find(list.new) else { return false };
        let old = find(list.old).map(|(_, old)| old);
        let pair = Pair { shape: Shape::Struct, new: Some(item), old, has_old_owner: old.is_some() };
        !self.skips(pair) && self.fails(check, pair, &path.index(i), errors)
    }

    fn validate_union(&self, union: &Union, pair: Pair<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
        let has = |owner: Option<&Value>, of: &MemberOf| match of {
            MemberOf::Field(name, shape) => is_set(*shape, child(owner, name, *shape)),
            MemberOf::Item(keys) => items(owner).iter().any(|item| has_values(item, keys)),
        };
        let discriminator = |owner| union.discriminator.map_or("", |name| text_of(owner, name));
        if self.is_update && self.ratchets && pair.old.is_some_and(|old| !old.is_null()) {
            let is_same = |member: &super::program::Member| has(pair.new, &member.of) == has(pair.old, &member.of);
            if union.members.iter().all(is_same) && discriminator(pair.new) == discriminator(pair.old) {
                return;
            }
        }
        if let Some(name) = union.discriminator {
            let value = discriminator(pair.new);
            for member in &union.members {
                let (is_set, is_chosen) = (has(pair.new, &member.of), value == member.value);
                if is_set != is_chosen {
                    let verb = if is_set { "may only be" } else { "must be" };
                    let detail = format!("{verb} specified when `{name}` is {}", quote(member.value));
                    errors.invalid(&path.child(&member.name), "", detail);
                }
            }
            return;
        }
        let count = union.members.iter().filter(|member| has(pair.new, &member.of)).count();
        if count == 1 || (count == 0 && union.may_be_empty) {
            return;
        }
        let all: Vec<String> = union.members.iter().map(|member| format!("`{}`", member.name)).collect();
        let all = all.join(", ");
        if count == 0 {
            errors.invalid(path, "", format!("must specify one of: {all}"));
            return;
        }
        let members = union.members.iter().filter(|member| has(pair.new, &member.of));
        let set: Vec<&str> = members.map(|member| member.name.as_str()).collect();
        let number = if union.may_be_empty { "at most one" } else { "exactly one" };
        errors.invalid(path, format!("{{{}}}", set.join(", ")), format!("must specify {number} of: {all}"));
    }

    fn validate_discriminated(
        &self,
        rules: &Discriminated,
        owner: Pair<'_>,
        path: &FieldPath<'_>,
        errors: &mut Errors,
    ) {
        let new_value = text_of(owner.new, rules.discriminator);
        let pair = owner.field(rules.field, rules.shape);
        if self.skips(pair) && new_value == text_of(owner.old, rules.discriminator) {
            return;
        }
        let path = path.child(rules.field);
        match rules.cases.iter().find(|(value, _)| *value == new_value) {
            Some((_, cohort)) => {
                self.pass_cohort(cohort, pair, &path, errors);
            }
            None if pair.is_set() => errors.forbidden(&path, ""),
            None => {}
        }
    }
}

/// Whether fields of an item have these values.
fn has_values(item: &Value, keys: &[(&str, &str)]) -> bool {
    keys.iter().all(|(key, expected)| match item.get(key) {
        Some(Value::Int(value)) => value.to_string() == *expected,
        Some(Value::Bool(value)) => value.to_string() == *expected,
        value => value.and_then(Value::as_str).unwrap_or_default() == *expected,
    })
}

/// Rejects the items that equal an earlier one.
fn reject_duplicates(items: &[Value], identity: &Identity, path: &FieldPath<'_>, errors: &mut Errors) {
    if matches!(identity, Identity::None) || items.len() < 2 {
        return;
    }
    for i in repeated(items.iter().map(|item| key_of(item, identity))) {
        errors.push_with(|| FieldError::duplicate(&path.index(i), items[i].clone()));
    }
}

/// The parts of an item that identify it in its list.
fn key_of<'v>(item: &'v Value, identity: &Identity) -> Vec<ValueKey<'v>> {
    match identity {
        Identity::None => Vec::new(),
        Identity::Whole => vec![ValueKey(item)],
        Identity::Keys(keys) => keys.iter().map(|key| ValueKey(&item[*key])).collect(),
    }
}

fn reject_equal(pair: Pair<'_>, disallowed: &str, path: &FieldPath<'_>, errors: &mut Errors) {
    if let Some(text) = pair.text().filter(|text| *text == disallowed) {
        errors.invalid(path, text, format!("must not be equal to {}", quote(disallowed)));
    } else if let Some(number) = pair.number().filter(|number| number.to_string() == disallowed) {
        errors.invalid(path, number, format!("must not be equal to {disallowed}"));
    } else if let Some(value) = pair.new.and_then(Value::as_bool).filter(|value| value.to_string() == disallowed) {
        errors.invalid(path, value, format!("must not be equal to {disallowed}"));
    }
}

/// Applies a constraint of updates. The caller has found that the value has changed.
fn reject_update(check: &Check, pair: Pair<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
    let (was_set, is_set) = (is_set(pair.shape, pair.old), pair.is_set());
    match check {
        Check::NoSet if !was_set && is_set => invalid_update(errors, path, "field cannot be set once created"),
        Check::NoUnset if was_set && !is_set => invalid_update(errors, path, "field cannot be cleared once set"),
        Check::NoModify if was_set && is_set => invalid_update(errors, path, "field cannot be modified once set"),
        _ => {}
    }
}
