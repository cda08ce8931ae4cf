//! Strategic merge patch: a merge patch that knows the types of the object, so that lists can be merged by a key. After
//! apimachinery's `util/strategicpatch`, whose directives (`$patch`, `$retainKeys`, `$deleteFromPrimitiveList/…`,
//! `$setElementOrder/…`), oversights and error texts are kept.

use std::collections::BTreeMap;

use pintle_schema::{Scalar, Type, TypeId, Types, bare_name};
use pintle_value::{Object, Str, Value, print};

use crate::strategic_list::{merge_list, order_list};
use crate::{PatchError, cannot_unmarshal, retain_keys};

pub(crate) const MARKER: &str = "$patch";
pub(crate) const DELETE_LIST: &str = "$deleteFromPrimitiveList";
pub(crate) const ORDER_LIST: &str = "$setElementOrder";

/// Checks that the patch is an object, or null, which changes nothing.
pub fn check_strategic_patch(patch: &Value) -> Result<(), PatchError> {
    match patch {
        Value::Object(_) | Value::Null => Ok(()),
        other => Err(PatchError::malformed(cannot_unmarshal(other, "map[string]interface {}"))),
    }
}

/// Applies a strategic merge patch to an object of the type `root`.
pub fn strategic(document: Value, patch: Value, types: &Types, root: TypeId) -> Result<Value, PatchError> {
    check_strategic_patch(&patch)?;
    match (document, patch) {
        (Value::Object(document), Value::Object(patch)) => {
            merge_object(document, patch, Place::new(types, root)).map(Value::Object)
        }
        (document @ Value::Object(_), _) => Ok(document),
        (document, _) => Err(bad_type("map[string]interface {}", &document)),
    }
}

/// A type in its arena.
#[derive(Clone, Copy)]
pub(crate) struct Place<'t> {
    types: &'t Types,
    ty: TypeId,
}

/// What the type says about a field that is merged.
pub(crate) struct FieldRule<'t> {
    /// The type of the field, or of the items of a list.
    pub(crate) place: Place<'t>,
    /// The field is a Go pointer.
    pointer: bool,
    /// The strategy is to merge.
    pub(crate) merge: bool,
    /// The strategy is to replace.
    pub(crate) replace: bool,
    /// The field that identifies the items of a list, or empty.
    pub(crate) merge_key: Str,
}

impl<'t> Place<'t> {
    pub(crate) const fn new(types: &'t Types, ty: TypeId) -> Self {
        Self { types, ty }
    }

    fn get(self) -> &'t Type {
        self.types.get(self.ty)
    }

    /// Go's name of the kind of the type.
    pub(crate) fn kind(self) -> &'static str {
        match self.get() {
            Type::Struct(_) | Type::Union(_) => "struct",
            Type::Map(_) => "map",
            Type::List(_) => "slice",
            Type::Any => "interface",
            Type::Scalar(scalar) => match scalar.kind {
                Scalar::String => "string",
                Scalar::Bool => "bool",
                Scalar::Int32 => "int32",
                Scalar::Int64 => "int64",
                Scalar::Uint32 => "uint32",
                Scalar::Uint64 => "uint64",
                Scalar::Uint8 => "uint8",
                Scalar::Float64 => "float64",
                Scalar::Bytes => "slice",
                _ => "struct",
            },
        }
    }

    /// What is known of a field whose value is an object.
    pub(crate) fn field(self, name: &str) -> Result<FieldRule<'t>, PatchError> {
        let unknown = |of: &str| {
            let field = print::quote(name);
            PatchError::plain(format!("unable to find api field in struct {of} for the json field {field}"))
        };
        match self.get() {
            Type::Struct(ty) => {
                // Go's decoder takes a name in another case where there is none in the right one.
                let field = ty
                    .field(name)
                    .or_else(|| ty.fields.iter().find(|f| f.name.eq_ignore_ascii_case(name)))
                    .ok_or_else(|| unknown(bare_name(&ty.name)))?;
                Ok(FieldRule {
                    place: Place { types: self.types, ty: field.ty },
                    pointer: field.pointer,
                    merge: field.patch.merge && !field.patch.replace,
                    replace: field.patch.replace,
                    merge_key: field.patch.merge_key.clone(),
                })
            }
            Type::Scalar(_) | Type::Union(_) if self.kind() == "struct" => {
                Err(unknown(bare_name(&self.types.go_name(self.ty))))
            }
            _ => Err(PatchError::plain(format!(
                "merging an object in json but data type is not struct, instead is: {}",
                self.kind()
            ))),
        }
    }

    /// What is known of a field whose value is a list: the type is that of its items.
    pub(crate) fn list_field(self, name: &str) -> Result<FieldRule<'t>, PatchError> {
        let rule = self.field(name)?;
        let Type::List(list) = rule.place.get() else {
            // Upstream lets a pointer pass, whatever it points to.
            if rule.pointer {
                return Ok(rule);
            }
            let kind = self.kind();
            return Err(PatchError::plain(format!("expected slice or array type, but got: {kind}")));
        };
        let place = Place { types: self.types, ty: list.item };
        if place.kind() == "slice" {
            return Err(PatchError::plain("unexpected slice of slice"));
        }
        Ok(FieldRule { place, ..rule })
    }
}

/// Go's name of the type of a decoded value, as messages print it.
pub(crate) const fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        other => print::go_type(other),
    }
}

pub(crate) fn bad_type(expected: &str, actual: &Value) -> PatchError {
    PatchError::plain(format!("expected a {expected}, but received a {}", go_type(actual)))
}

pub(crate) fn no_merge_key(item: &Value, key: &str) -> PatchError {
    PatchError::plain(format!("map: {} does not contain declared merge key: {key}", print::plain(item)))
}

pub(crate) fn bad_directive(directive: &Value, item: &Value) -> PatchError {
    let shown = if directive.is_null() { "%!s(<nil>)".to_owned() } else { as_text(directive) };
    PatchError::plain(format!("unknown patch type: {shown} in map: {}", print::plain(item)))
}

/// A value as Go's `%s` prints it, with its complaints about what is no string.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Null => "<nil>".to_owned(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            format!("%!s({}={})", go_type(value), print::plain(value))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(as_text).collect::<Vec<_>>().join(" ")),
        Value::Object(object) => {
            let fields: Vec<_> = object.iter().map(|(key, value)| format!("{key}:{}", as_text(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// What Go cannot use as a key of a map: upstream panics where it tries.
pub(crate) const fn is_unhashable(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

/// Merges a patch into an object.
pub(crate) fn merge_object(mut original: Object, mut patch: Object, place: Place<'_>) -> Result<Object, PatchError> {
    if let Some(directive) = patch.get(MARKER) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(MARKER);
                return Ok(patch);
            }
            Some("delete") => return Ok(Object::new()),
            _ => return Err(bad_directive(directive, &Value::Object(patch.clone()))),
        }
    }
    retain_keys::apply(&mut original, &mut patch)?;
    let (mut original, patch) = order_lists(original, patch, place)?;
    let mut changes = Changes::new();
    for (key, value) in patch {
        let delete_from = key.strip_prefix(DELETE_LIST);
        let deletes = delete_from.is_some();
        let key = match delete_from {
            None => key,
            Some(list) => match list.strip_prefix('/') {
                Some("") => key,
                Some(list) => Str::from(list),
                None => return Err(PatchError::malformed("invalid patch format of primitive list")),
            },
        };
        let current = match changes.remove(&key) {
            Some(changed) => changed,
            None => original.get_mut(&key).map(Value::take),
        };
        let merged = match value {
            Value::Null => None,
            value => merge_field(current, &key, value, deletes, place)?,
        };
        changes.insert(key, merged);
    }
    Ok(overlay(original, changes))
}

/// What becomes of fields of an object; `None` for those that go.
type Changes = BTreeMap<Str, Option<Value>>;

/// An object with changes, made in one pass over both, so that large patches of large objects stay cheap.
fn overlay(original: Object, changes: Changes) -> Object {
    let mut entries = Vec::with_capacity(original.len() + changes.len());
    let mut changes = changes.into_iter().peekable();
    for (key, value) in original {
        while let Some((changed, value)) = changes.next_if(|(changed, _)| *changed < key) {
            entries.extend(value.map(|value| (changed, value)));
        }
        match changes.next_if(|(changed, _)| *changed == key) {
            Some((_, changed)) => entries.extend(changed.map(|value| (key, value))),
            None => entries.push((key, value)),
        }
    }
    entries.extend(changes.filter_map(|(key, value)| Some((key, value?))));
    Object::from_entries(entries)
}

/// Merges one field of a patch into what the object has there; `None` if the field goes.
fn merge_field(
    current: Option<Value>,
    key: &str,
    value: Value,
    deletes: bool,
    place: Place<'_>,
) -> Result<Option<Value>, PatchError> {
    Ok(Some(match (current, value) {
        (Some(Value::Object(current)), Value::Object(patch)) => {
            let rule = place.field(key)?;
            // A field that is replaced takes the patch as it is, directives and nulls included.
            Value::Object(if rule.replace { patch } else { merge_object(current, patch, rule.place)? })
        }
        (Some(Value::Array(current)), Value::Array(patch)) => {
            let rule = place.list_field(key)?;
            if rule.merge || deletes {
                Value::Array(merge_list(current, patch, &rule, deletes)?)
            } else {
                Value::Array(patch)
            }
        }
        (current, _) if deletes => return Ok(current),
        (current, mut value) => {
            let same_leaf = current.is_some_and(|c| go_type(&c) == go_type(&value));
            if !same_leaf {
                discard_nulls(&mut value);
            }
            return Ok(without_directives(value));
        }
    }))
}

/// Drops the null fields of all objects within a value that is newly set.
pub(crate) fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => object.retain(|_, value| {
            discard_nulls(value);
            !value.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// A value that is newly set, without the objects within that hold a directive; `None` if it does itself.
pub(crate) fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.contains_key(MARKER) => None,
        Value::Object(object) => {
            let kept = object.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(Object::from_entries(kept.collect())))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        leaf => Some(leaf),
    }
}

/// Obeys the `$setElementOrder/…` directives: merges the lists that they name, and brings their items into order.
/// Returns the object with those lists, and what is left of the patch.
fn order_lists(original: Object, patch: Object, place: Place<'_>) -> Result<(Object, Object), PatchError> {
    if !patch.keys().any(|key| key.starts_with(ORDER_LIST)) {
        return Ok((original, patch));
    }
    let (directives, rest): (Vec<_>, Vec<_>) = patch.into_iter().partition(|(key, _)| key.starts_with(ORDER_LIST));
    let mut patch = Object::from_entries(rest);
    let mut changes = Changes::new();
    for (directive, order) in directives {
        let Value::Array(order) = order else { return Err(bad_type("[]interface {}", &order)) };
        let invalid = || PatchError::malformed("invalid patch format of setElementOrder list");
        let key = directive.strip_prefix(ORDER_LIST).and_then(|rest| rest.strip_prefix('/')).ok_or_else(invalid)?;
        let list = |object: &Object| match object.get(key) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items.clone())),
            Some(other) => Err(bad_type("[]interface {}", other)),
        };
        let (current, patched) = (list(&original)?, list(&patch)?);
        let rule = place.list_field(key)?;
        if let Some(ordered) = order_list(current, patched, &order, &rule)? {
            changes.insert(Str::from(key), Some(Value::Array(ordered)));
        }
    }
    patch.retain(|key, _| !changes.contains_key(key));
    Ok((overlay(original, changes), patch))
}
