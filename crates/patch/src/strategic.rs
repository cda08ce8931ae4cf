//! Strategic merge patch: a merge patch that uses the types of the object, so that lists can be merged by a key. It
//! follows apimachinery's `util/strategicpatch`. This includes its directives (`$patch`, `$retainKeys`,
//! `$deleteFromPrimitiveList/...`, `$setElementOrder/...`), its bugs and its error messages.

use std::collections::BTreeMap;

use pintle_schema::{Scalar, Type, TypeId, Types, bare_name};
use pintle_value::{Object, Str, Value, print};

use crate::strategic_list::{merge_and_order_list, merge_list};
use crate::{PatchError, cannot_unmarshal, retain_keys};

pub(crate) const DIRECTIVE_MARKER: &str = "$patch";
pub(crate) const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";
pub(crate) const SET_ELEMENT_ORDER: &str = "$setElementOrder";

/// Checks that the patch is an object or null. Null is an empty patch.
pub fn validate_strategic_merge_patch(patch: &Value) -> Result<(), PatchError> {
    match patch {
        Value::Object(_) | Value::Null => Ok(()),
        other => Err(PatchError::malformed(cannot_unmarshal(other, "map[string]interface {}"))),
    }
}

/// Applies a strategic merge patch to an object of the type `root`.
pub fn strategic_merge_patch(document: Value, patch: Value, types: &Types, root: TypeId) -> Result<Value, PatchError> {
    validate_strategic_merge_patch(&patch)?;
    match (document, patch) {
        (Value::Object(document), Value::Object(patch)) => {
            merge_object(document, patch, PatchSchema::new(types, root)).map(Value::Object)
        }
        (document @ Value::Object(_), _) => Ok(document),
        (document, _) => Err(bad_arg_type("map[string]interface {}", &document)),
    }
}

/// A type in its arena (`LookupPatchMeta` of strategicpatch).
#[derive(Clone, Copy)]
pub(crate) struct PatchSchema<'t> {
    types: &'t Types,
    ty: TypeId,
}

/// The patch metadata of a field (`PatchMeta` of strategicpatch).
pub(crate) struct PatchMeta<'t> {
    /// The type of the field, or of the items of a list.
    pub(crate) schema: PatchSchema<'t>,
    /// Whether the field is a Go pointer.
    pointer: bool,
    /// Whether the patch strategy is merge.
    pub(crate) merge: bool,
    /// Whether the patch strategy is replace.
    pub(crate) replace: bool,
    /// The merge key of a list's items, or empty.
    pub(crate) merge_key: Str,
}

impl<'t> PatchSchema<'t> {
    pub(crate) const fn new(types: &'t Types, ty: TypeId) -> Self {
        Self { types, ty }
    }

    fn get(self) -> &'t Type {
        self.types.get(self.ty)
    }

    /// The name of the type's Go kind (`reflect.Kind`).
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

    /// The patch metadata of a field whose value is an object.
    pub(crate) fn field(self, name: &str) -> Result<PatchMeta<'t>, PatchError> {
        let unknown = |of: &str| {
            let field = print::quote(name);
            PatchError::plain(format!("unable to find api field in struct {of} for the json field {field}"))
        };
        match self.get() {
            Type::Struct(ty) => {
                // Go's decoder falls back to a field whose name differs only in case.
                let field = ty
                    .field(name)
                    .or_else(|| ty.fields.iter().find(|f| f.name.eq_ignore_ascii_case(name)))
                    .ok_or_else(|| unknown(bare_name(&ty.name)))?;
                Ok(PatchMeta {
                    schema: PatchSchema { types: self.types, ty: field.ty },
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

    /// The patch metadata of a field whose value is a list. The type is the type of the list's items.
    pub(crate) fn list_field(self, name: &str) -> Result<PatchMeta<'t>, PatchError> {
        let meta = self.field(name)?;
        let Type::List(list) = meta.schema.get() else {
            // Upstream accepts any pointer here.
            if meta.pointer {
                return Ok(meta);
            }
            let kind = self.kind();
            return Err(PatchError::plain(format!("expected slice or array type, but got: {kind}")));
        };
        let schema = PatchSchema { types: self.types, ty: list.item };
        if schema.kind() == "slice" {
            return Err(PatchError::plain("unexpected slice of slice"));
        }
        Ok(PatchMeta { schema, ..meta })
    }
}

/// The Go type of a decoded value, as messages print it.
pub(crate) const fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        other => print::go_type(other),
    }
}

pub(crate) fn bad_arg_type(expected: &str, actual: &Value) -> PatchError {
    PatchError::plain(format!("expected a {expected}, but received a {}", go_type(actual)))
}

pub(crate) fn no_merge_key(item: &Value, key: &str) -> PatchError {
    PatchError::plain(format!("map: {} does not contain declared merge key: {key}", print::plain(item)))
}

pub(crate) fn bad_patch_type(directive: &Value, item: &Value) -> PatchError {
    let printed = if directive.is_null() { "%!s(<nil>)".to_owned() } else { go_string(directive) };
    PatchError::plain(format!("unknown patch type: {printed} in map: {}", print::plain(item)))
}

/// Formats a value as Go's `%s` does, including the errors for values that are not strings.
fn go_string(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Null => "<nil>".to_owned(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            format!("%!s({}={})", go_type(value), print::plain(value))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(go_string).collect::<Vec<_>>().join(" ")),
        Value::Object(object) => {
            let fields: Vec<_> = object.iter().map(|(key, value)| format!("{key}:{}", go_string(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// Returns true if Go cannot use the value as a map key. Upstream panics if it tries.
pub(crate) const fn is_unhashable(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

/// Merges a patch into an object.
pub(crate) fn merge_object(
    mut original: Object,
    mut patch: Object,
    schema: PatchSchema<'_>,
) -> Result<Object, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE_MARKER) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE_MARKER);
                return Ok(patch);
            }
            Some("delete") => return Ok(Object::new()),
            _ => return Err(bad_patch_type(directive, &Value::Object(patch.clone()))),
        }
    }
    retain_keys::apply(&mut original, &mut patch)?;
    let (mut original, patch) = apply_element_orders(original, patch, schema)?;
    let mut changes = Changes::new();
    for (key, value) in patch {
        let delete_from = key.strip_prefix(DELETE_FROM_PRIMITIVE_LIST);
        let is_deletion = delete_from.is_some();
        let key = match delete_from {
            None => key,
            Some(list) => match list.strip_prefix('/') {
                Some("") => key,
                Some(list) => Str::from(list),
                None => return Err(PatchError::malformed("invalid patch format of primitive list")),
            },
        };
        let changed = changes.remove(&key);
        // If nothing changes in an object of scalars, it continues to share its members with the live object.
        if changed.is_none()
            && !is_deletion
            && original.get(&key).is_some_and(|current| is_same_scalar(current, &value))
        {
            continue;
        }
        let mut slot = if changed.is_none() { original.get_mut(&key) } else { None };
        let current = changed.unwrap_or_else(|| slot.as_deref_mut().map(Value::take));
        let merged = match value {
            Value::Null => None,
            value => merge_field(current, &key, value, is_deletion, schema)?,
        };
        match (slot, merged) {
            (Some(slot), Some(merged)) => *slot = merged,
            (_, merged) => drop(changes.insert(key, merged)),
        }
    }
    Ok(apply_changes(original, changes))
}

/// True if the fields have the same text, boolean or integer.
fn is_same_scalar(current: &Value, value: &Value) -> bool {
    matches!(
        (current, value),
        (Value::String(_), Value::String(_)) | (Value::Bool(_), Value::Bool(_)) | (Value::Int(_), Value::Int(_))
    ) && current == value
}

/// The added, changed and removed fields of an object. The value of a removed field is `None`.
type Changes = BTreeMap<Str, Option<Value>>;

/// Applies changes in one pass over object and changes, so that large patches of large objects stay cheap.
fn apply_changes(original: Object, changes: Changes) -> Object {
    if changes.is_empty() {
        return original;
    }
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

/// Merges one field of a patch into the current value. Returns `None` if the field is removed.
fn merge_field(
    current: Option<Value>,
    key: &str,
    value: Value,
    is_deletion: bool,
    schema: PatchSchema<'_>,
) -> Result<Option<Value>, PatchError> {
    Ok(Some(match (current, value) {
        (Some(Value::Object(current)), Value::Object(patch)) => {
            let meta = schema.field(key)?;
            // A field with the replace strategy takes the patch unchanged, including directives and nulls.
            Value::Object(if meta.replace { patch } else { merge_object(current, patch, meta.schema)? })
        }
        (Some(Value::Array(current)), Value::Array(patch)) => {
            let meta = schema.list_field(key)?;
            if meta.merge || is_deletion {
                Value::Array(merge_list(current, patch, &meta, is_deletion)?)
            } else {
                Value::Array(patch)
            }
        }
        (current, _) if is_deletion => return Ok(current),
        (current, mut value) => {
            let same_leaf = current.is_some_and(|c| go_type(&c) == go_type(&value));
            if !same_leaf {
                discard_nulls(&mut value);
            }
            return Ok(remove_directives(value));
        }
    }))
}

/// Removes the null fields of all objects in a newly set value.
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

/// Removes the objects with a directive from a newly set value. Returns `None` if the value itself has a directive.
pub(crate) fn remove_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.contains_key(DIRECTIVE_MARKER) => None,
        Value::Object(object) => {
            let retained = object.into_iter().filter_map(|(key, value)| Some((key, remove_directives(value)?)));
            Some(Value::Object(Object::from_entries(retained.collect())))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(remove_directives).collect())),
        leaf => Some(leaf),
    }
}

/// Applies the `$setElementOrder/...` directives. It merges the lists that they name and sorts their items. Returns the
/// object with those lists, and the rest of the patch.
fn apply_element_orders(
    mut original: Object,
    patch: Object,
    schema: PatchSchema<'_>,
) -> Result<(Object, Object), PatchError> {
    if !patch.keys().any(|key| key.starts_with(SET_ELEMENT_ORDER)) {
        return Ok((original, patch));
    }
    let (directives, rest): (Vec<_>, Vec<_>) =
        patch.into_iter().partition(|(key, _)| key.starts_with(SET_ELEMENT_ORDER));
    let mut patch = Object::from_entries(rest);
    let mut changes = Changes::new();
    for (directive, order) in directives {
        let Value::Array(order) = order else { return Err(bad_arg_type("[]interface {}", &order)) };
        let invalid = || PatchError::malformed("invalid patch format of setElementOrder list");
        let key =
            directive.strip_prefix(SET_ELEMENT_ORDER).and_then(|rest| rest.strip_prefix('/')).ok_or_else(invalid)?;
        let list = |value: Option<Value>| match value {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(bad_arg_type("[]interface {}", &other)),
        };
        let mut slot = original.get_mut(key);
        let (current, patched) = (list(slot.as_deref_mut().map(Value::take))?, list(patch.remove(key))?);
        let meta = schema.list_field(key)?;
        let ordered = merge_and_order_list(current, patched, &order, &meta)?.map(Value::Array);
        match (slot, ordered) {
            (Some(slot), Some(ordered)) => *slot = ordered,
            (None, Some(ordered)) => drop(changes.insert(Str::from(key), Some(ordered))),
            // Neither the object nor the patch has the list.
            (_, None) => {}
        }
    }
    Ok((apply_changes(original, changes), patch))
}
