//! The fields that a new object adds to an empty one, as text. The result equals the result of [`super::compare`], but
//! no set is made: most objects are created by one manager, which owns all fields.

use pintle_value::print::is_plain_text_in_json;
use pintle_value::{EncodedObject, Object, Str, Value};

use super::atom::{Atom, ElementRelationship, ListSchema, MapSchema, TypeRef};
use super::validate::{Duplicates, validate};
use pintle_fieldpath::path::{PathElement, values_equal};
use pintle_fieldpath::set::{FieldSet, SetWriter};

/// The result of a comparison that is written as text.
pub enum AddedFields {
    /// Nothing was added.
    None,
    /// These fields were added or changed.
    Text(EncodedObject),
    /// The objects have to be compared: a value does not fit its type, or a field cannot be written as text.
    Unknown,
}

/// The fields that are left out.
#[derive(Clone, Copy)]
pub struct Without<'s> {
    /// Fields that are never members. Fields below them may be.
    pub unowned: Option<&'s FieldSet>,
    /// Fields that are left out with everything below them.
    pub excluded: Option<&'s FieldSet>,
}

/// The remaining part of a node.
enum Left<'s> {
    Nothing,
    Node {
        /// Whether the path to the node may be a member.
        member: bool,
        below: Without<'s>,
    },
}

impl<'s> Without<'s> {
    const NOTHING: Self = Self { unowned: None, excluded: None };

    fn is_nothing(self) -> bool {
        self.unowned.is_none() && self.excluded.is_none()
    }

    fn at(self, element: impl FnOnce() -> PathElement) -> Left<'s> {
        if self.is_nothing() {
            return Left::Node { member: true, below: Self::NOTHING };
        }
        let element = element();
        let excluded = self.excluded.and_then(|set| set.node(&element));
        if excluded.is_some_and(|node| node.member) {
            return Left::Nothing;
        }
        let unowned = self.unowned.and_then(|set| set.node(&element));
        let below = Self { unowned: unowned.map(|node| &node.children), excluded: excluded.map(|node| &node.children) };
        Left::Node { member: !unowned.is_some_and(|node| node.member), below }
    }
}

/// Compares a new object with an empty one.
pub(super) fn added_fields(type_ref: TypeRef<'_>, empty: &Value, new: &Value, without: Without<'_>) -> AddedFields {
    let mut writer = SetWriter::default();
    let (Atom::Map(entries), Value::Object(empty), Value::Object(new)) = (type_ref.atom(Some(new)), empty, new) else {
        return AddedFields::Unknown;
    };
    if entries.atomic || changed_entries(&mut writer, &entries, empty, new, without).is_none() {
        return AddedFields::Unknown;
    }
    writer.finish().map_or(AddedFields::None, AddedFields::Text)
}

/// Writes the entries that only the new object has, or that differ.
fn changed_entries(
    writer: &mut SetWriter,
    entries: &MapSchema<'_>,
    old: &Object,
    new: &Object,
    without: Without<'_>,
) -> Option<()> {
    for (key, value) in new.iter() {
        let before = old.get(key);
        if before == Some(value) {
            continue;
        }
        let type_ref = entries.entry(key)?;
        let Left::Node { member, below } = without.at(|| PathElement::field(key)) else {
            check_excluded(type_ref, value)?;
            continue;
        };
        match before {
            None => writer.field(key, member, |writer| whole_value(writer, type_ref, value, below))?,
            Some(before) => changed_entry(writer, key, type_ref, (before, value), (member, below))?,
        }
    }
    Some(())
}

/// Writes an entry that both objects have. A part of a list or a map may have changed, or all of another value.
fn changed_entry(
    writer: &mut SetWriter,
    key: &str,
    type_ref: TypeRef<'_>,
    (old, new): (&Value, &Value),
    (member, without): (bool, Without<'_>),
) -> Option<()> {
    let (was, is) = (type_ref.atom(Some(old)), type_ref.atom(Some(new)));
    check(&was, type_ref, old)?;
    check(&is, type_ref, new)?;
    if !was.is_same_kind(&is) {
        return None;
    }
    match (is, new) {
        (Atom::List(items), Value::Array(values)) if !items.is_atomic() && !values.is_empty() => {
            if old.as_array().is_some_and(|old| !old.is_empty()) {
                return None;
            }
            writer.field(key, false, |writer| whole_items(writer, &items, values, without))
        }
        (Atom::Map(entries), Value::Object(object)) if !entries.atomic && !object.is_empty() => {
            let empty = Object::new();
            let old = old.as_object().unwrap_or(&empty);
            writer.field(key, false, |writer| changed_entries(writer, &entries, old, object, without))
        }
        (Atom::List(items), _) if !items.is_atomic() && old.as_array().is_some_and(|old| !old.is_empty()) => None,
        (Atom::Map(entries), _) if !entries.atomic && old.as_object().is_some_and(|old| !old.is_empty()) => None,
        _ if values_equal(old, new) => Some(()),
        _ => writer.field(key, member, |_| Some(())),
    }
}

/// Writes everything below a value that only the new object has.
fn whole_value(writer: &mut SetWriter, type_ref: TypeRef<'_>, value: &Value, without: Without<'_>) -> Option<()> {
    let atom = type_ref.atom(Some(value));
    check(&atom, type_ref, value)?;
    match (atom, value) {
        (Atom::List(items), Value::Array(values)) if !items.is_atomic() => whole_items(writer, &items, values, without),
        (Atom::Map(entries), Value::Object(object)) if !entries.atomic => {
            for (key, value) in object.iter() {
                let type_ref = entries.entry(key)?;
                match without.at(|| PathElement::field(key)) {
                    Left::Nothing => check_excluded(type_ref, value)?,
                    Left::Node { member, below } => {
                        writer.field(key, member, |writer| whole_value(writer, type_ref, value, below))?;
                    }
                }
            }
            Some(())
        }
        _ => Some(()),
    }
}

/// Writes the items of a list that only the new object has.
fn whole_items(writer: &mut SetWriter, items: &ListSchema<'_>, values: &[Value], without: Without<'_>) -> Option<()> {
    if without.is_nothing()
        && let ElementRelationship::Keys(keys) = items.relationship
    {
        match (values, keys) {
            ([value], keys) if keys.is_sorted() => {
                if let Some(start) = plain_item_key(writer, keys, value) {
                    return writer.node(start, true, |writer| whole_value(writer, items.item, value, without));
                }
            }
            (_, [key]) => {
                if let Some(named) = named_items(key, values) {
                    return whole_named_items(writer, items, key, &named);
                }
            }
            _ => {}
        }
    }
    let mut sorted = Vec::with_capacity(values.len());
    for value in values {
        sorted.push((items.element(value).ok()?, value));
    }
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut previous = String::new();
    // Duplicates are one unit.
    for group in sorted.chunk_by(|(a, _), (b, _)| a == b) {
        let [(element, value), rest @ ..] = group else { continue };
        let Left::Node { member, below } = without.at(|| element.clone()) else {
            group.iter().try_for_each(|(_, value)| check_excluded(items.item, value))?;
            continue;
        };
        let write_below = |writer: &mut SetWriter| match rest {
            [] => whole_value(writer, items.item, value, below),
            _ => Some(()),
        };
        writer.item(element, &mut previous, member, write_below)?;
    }
    Some(())
}

/// Writes the key of an item that has all identifying fields, if they are plain.
fn plain_item_key(writer: &mut SetWriter, keys: &[Str], item: &Value) -> Option<usize> {
    let fields = item.as_object()?;
    writer.plain_item_key(keys.iter().map(|key| (key.as_str(), fields.get(key))))
}

/// The items of a list that are identified by one field, sorted by it. `None` unless each has other plain text there.
fn named_items<'v>(key: &str, values: &'v [Value]) -> Option<Vec<(&'v str, &'v Value)>> {
    let name = |value: &'v Value| match value.as_object()?.get(key)? {
        Value::String(name) if is_plain_text_in_json(name.as_bytes()) => Some((name.as_str(), value)),
        _ => None,
    };
    let mut named: Vec<_> = values.iter().map(name).collect::<Option<_>>()?;
    if !named.is_sorted_by(|(a, _), (b, _)| a < b) {
        named.sort_unstable_by_key(|(name, _)| *name);
    }
    named.windows(2).all(|pair| pair[0].0 != pair[1].0).then_some(named)
}

/// Writes items with other plain names, nothing of which is left out.
fn whole_named_items(
    writer: &mut SetWriter,
    items: &ListSchema<'_>,
    key: &Str,
    named: &[(&str, &Value)],
) -> Option<()> {
    let mut previous = "";
    for (name, value) in named {
        writer.note_order(previous, name);
        previous = name;
        let start = plain_item_key(writer, std::slice::from_ref(key), value)?;
        writer.node(start, true, |writer| whole_value(writer, items.item, value, Without::NOTHING))?;
    }
    Some(())
}

/// Checks a value that is left out. As in a comparison, it has to fit its type.
fn check_excluded(type_ref: TypeRef<'_>, value: &Value) -> Option<()> {
    validate(type_ref, value, Duplicates::Allowed).ok()
}

/// Checks whether a value fits its type. The walk checks the content of granular lists and maps when it reaches it.
fn check(atom: &Atom<'_>, type_ref: TypeRef<'_>, value: &Value) -> Option<()> {
    let fits = match (atom, value) {
        (Atom::Scalar(leaf), value) => leaf.check(Some(value)).is_ok(),
        (Atom::List(items), Value::Array(_)) if !items.is_atomic() => true,
        (Atom::Map(entries), Value::Object(_)) if !entries.atomic => true,
        _ => validate(type_ref, value, Duplicates::Allowed).is_ok(),
    };
    fits.then_some(())
}
