//! Normalises a JSON tree like decoding into a Go struct and encoding again. Nulls and unknown fields are removed,
//! empty optional values are omitted, structs appear, and scalars become canonical. Follows `encoding/json` (with the
//! case-sensitive names of `sigs.k8s.io/json`) and the methods of the API's own types.

use std::fmt::Write;

use pintle_budget as budget;
use pintle_value::{MEMBER_BYTES, Object, Value};

use crate::scalar::{Mismatch, json_type_name};
use crate::{Field, List, Omit, Scalar, Struct, Type, TypeId, Types, Union, UnionKind, bare_name};

/// The problems found, in the order of the tree (sorted keys). The original order and the text of numbers are not known
/// here. The codec's strict decoding, which has the text, reports problems with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// The full paths of unknown fields (`spec.containers[0].foo`), at most 100.
    pub unknown: Vec<String>,
    /// Go's messages for values of the wrong type. Upstream reports the first message.
    pub errors: Vec<String>,
    /// True if a quantity was a number that is not an integer. Its encoding (`1e3`, `1000`) then depends on its text.
    pub inexact: bool,
}

/// The maximum number of problems that upstream collects.
const MAX_PROBLEMS: usize = 100;

impl Problems {
    /// True if no problem was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unknown.is_empty() && self.errors.is_empty() && !self.inexact
    }

    fn unknown(&mut self, path: &DecodePath<'_>, name: &str) {
        if self.unknown.len() < MAX_PROBLEMS {
            let mut text = path.text();
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(name);
            if !self.unknown.contains(&text) {
                self.unknown.push(text);
            }
        }
    }

    fn mismatch(&mut self, path: &DecodePath<'_>, mismatch: Mismatch, own_name: impl FnOnce() -> String) {
        if self.errors.len() >= MAX_PROBLEMS {
            return;
        }
        self.errors.push(match mismatch {
            Mismatch::Other(text) => text,
            Mismatch::Type(value, "") => path.cannot_unmarshal(&value, &own_name()),
            Mismatch::Type(value, name) => path.cannot_unmarshal(&value, name),
        });
    }
}

/// The path of the current value, with the types that Go's messages name.
#[derive(Clone, Copy)]
struct DecodePath<'a> {
    parent: Option<&'a DecodePath<'a>>,
    step: DecodePathStep<'a>,
}

#[derive(Clone, Copy)]
enum DecodePathStep<'a> {
    Root,
    Field { owner: &'a Struct, field: &'a Field },
    Key(&'a str),
    Index(usize),
}

impl<'a> DecodePath<'a> {
    const ROOT: DecodePath<'static> = DecodePath { parent: None, step: DecodePathStep::Root };

    fn to(&'a self, step: DecodePathStep<'a>) -> DecodePath<'a> {
        DecodePath { parent: Some(self), step }
    }

    /// Formats Go's message, which names the innermost struct and the fields from the root, without keys and indexes.
    fn cannot_unmarshal(&self, value: &str, ty: &str) -> String {
        let mut owner = None;
        let mut fields = Vec::new();
        let mut current = Some(self);
        while let Some(path) = current {
            if let DecodePathStep::Field { owner: ty, field } = path.step {
                owner.get_or_insert(bare_name(&ty.name));
                fields.push(field.name.as_str());
                fields.extend(ty.inlined_in(field).into_iter().rev());
            }
            current = path.parent;
        }
        fields.reverse();
        match owner {
            Some(owner) => {
                format!("json: cannot unmarshal {value} into Go struct field {owner}.{} of type {ty}", fields.join("."))
            }
            None => format!("json: cannot unmarshal {value} into Go value of type {ty}"),
        }
    }

    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        match self.step {
            DecodePathStep::Root => {}
            DecodePathStep::Field { field: Field { name, .. }, .. } => Self::write_name(name, out),
            DecodePathStep::Key(name) => Self::write_name(name, out),
            DecodePathStep::Index(i) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "[{i}]");
            }
        }
    }

    fn write_name(name: &str, out: &mut String) {
        if !out.is_empty() {
            out.push('.');
        }
        out.push_str(name);
    }

    fn text(self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

/// Converts a tree to Go's encoding of the value that Go decodes from the tree. Idempotent.
///
/// Values of the wrong type are reported and become the zero value. Unknown fields are reported and dropped.
pub fn normalise(types: &Types, type_id: TypeId, value: &mut Value, problems: &mut Problems) {
    normalise_changed(types, type_id, value, None, problems);
}

/// Like [`normalise`], for a tree that is a changed copy of `normal`. `normal` is a tree of the same type in normal
/// form. Parts that both still share at the same path are skipped.
pub fn normalise_changed(
    types: &Types,
    type_id: TypeId,
    value: &mut Value,
    normal: Option<&Value>,
    problems: &mut Problems,
) {
    let mut normaliser = Normaliser { types, problems };
    if value.is_null() {
        *value = types.zero(type_id);
    } else {
        normaliser.value(type_id, value, normal, &DecodePath::ROOT);
    }
}

impl Types {
    /// Go's encoding of the zero value of a type: null for lists and maps, and for structs the fields that are never
    /// omitted.
    #[must_use]
    pub fn zero(&self, id: TypeId) -> Value {
        match self.get(id) {
            Type::Scalar(scalar) => scalar.kind.zero(),
            Type::Struct(ty) => {
                Value::Object(ty.always_encoded(self).map(|f| (f.name.clone(), self.unset_value(f))).collect())
            }
            Type::Union(Union { kind: UnionKind::SchemaOrBool, .. }) => Value::Bool(false),
            Type::Map(_) | Type::List(_) | Type::Union(_) | Type::Any => Value::Null,
        }
    }

    /// The encoding of an unset field that is not omitted.
    fn unset_value(&self, field: &Field) -> Value {
        if field.pointer { Value::Null } else { self.zero(field.ty) }
    }

    /// True if a field is encoded even if it is unset.
    #[must_use]
    pub fn is_always_encoded(&self, field: &Field) -> bool {
        match field.omit {
            Omit::Never => true,
            Omit::Empty => !field.pointer && self.is_go_struct(field.ty),
            Omit::Zero => false,
        }
    }

    /// True for Go structs, which `omitempty` never omits.
    fn is_go_struct(&self, id: TypeId) -> bool {
        match self.get(id) {
            Type::Struct(_) | Type::Union(_) => true,
            Type::Scalar(scalar) => scalar.kind.is_go_struct(),
            Type::Map(_) | Type::List(_) | Type::Any => false,
        }
    }

    /// True if a field with this canonical value is encoded.
    pub(crate) fn is_encoded(&self, field: &Field, value: &Value) -> bool {
        match field.omit {
            Omit::Never => true,
            // Go encodes null for a pointer to a zero time. Here null means absent, so that normalising twice gives the
            // same result.
            _ if field.pointer => !value.is_null(),
            Omit::Empty => !value.is_empty() || self.is_go_struct(field.ty),
            Omit::Zero => match self.get(field.ty) {
                // Go's zero value is nil, not an empty list or map.
                Type::Map(_) | Type::List(_) => !value.is_null(),
                Type::Scalar(scalar) if scalar.kind == Scalar::Bytes => !value.is_null(),
                _ => *value != self.zero(field.ty),
            },
        }
    }
}

struct Normaliser<'t, 'p> {
    types: &'t Types,
    problems: &'p mut Problems,
}

impl Normaliser<'_, '_> {
    /// Normalises a value that is not null. `normal` is the value at the same path of a tree in normal form.
    fn value(&mut self, id: TypeId, value: &mut Value, normal: Option<&Value>, path: &DecodePath<'_>) {
        let types = self.types;
        if normal.is_some_and(|normal| value.shares_members(normal)) {
            return;
        }
        let outcome = match (types.get(id), &mut *value) {
            (Type::Any, _) => Ok(()),
            (Type::Scalar(scalar), value) => {
                self.problems.inexact |= scalar.kind == Scalar::Quantity && matches!(value, Value::Float(_));
                scalar.kind.canonical(value)
            }
            (Type::Struct(ty), Value::Object(object)) => {
                self.fields(ty, object, normal, path);
                Ok(())
            }
            (Type::Map(map), Value::Object(object)) => {
                for (key, value, normal) in object.iter_mut_beside(normal.and_then(Value::as_object)) {
                    self.item(map.value, value, normal, false, &path.to(DecodePathStep::Key(key)));
                }
                Ok(())
            }
            (Type::List(list), Value::Array(items)) => {
                self.items(list, items, normal, path);
                Ok(())
            }
            (Type::Union(union), value) => self.union(union, value, normal, path),
            (_, other) => Err(Mismatch::Type(json_type_name(other).to_owned(), "")),
        };
        if let Err(mismatch) = outcome {
            self.problems.mismatch(path, mismatch, || types.go_name(id));
            *value = types.zero(id);
        }
    }

    fn items(&mut self, list: &List, items: &mut [Value], normal: Option<&Value>, path: &DecodePath<'_>) {
        let normal = normal.map_or(&[][..], |normal| normal.items_at(&[]));
        for (i, item) in items.iter_mut().enumerate() {
            self.item(list.item, item, normal.get(i), list.pointers, &path.to(DecodePathStep::Index(i)));
        }
    }

    /// Normalises an item of a list or map. Null becomes nil if the item is a pointer, and the zero value otherwise.
    fn item(&mut self, id: TypeId, item: &mut Value, normal: Option<&Value>, pointer: bool, path: &DecodePath<'_>) {
        if !item.is_null() {
            self.value(id, item, normal, path);
        } else if !pointer {
            self.null(id, path);
            *item = self.types.zero(id);
        }
    }

    /// Reports the only error that null causes: a duration that is not a pointer decodes it as an empty string.
    fn null(&mut self, id: TypeId, path: &DecodePath<'_>) {
        if matches!(self.types.get(id), Type::Scalar(scalar) if scalar.kind == Scalar::Duration) {
            self.problems.mismatch(path, Mismatch::Other("time: invalid duration \"\"".to_owned()), String::new);
        }
    }

    fn fields(&mut self, ty: &Struct, object: &mut Object, normal: Option<&Value>, path: &DecodePath<'_>) {
        let types = self.types;
        object.retain_beside(normal.and_then(Value::as_object), |key, value, normal| {
            let Some(field) = ty.field(key) else {
                self.problems.unknown(path, key);
                return false;
            };
            let path = path.to(DecodePathStep::Field { owner: ty, field });
            if value.is_null() {
                if !field.pointer {
                    self.null(field.ty, &path);
                }
                return false;
            }
            self.value(field.ty, value, normal, &path);
            types.is_encoded(field, value)
        });
        for field in ty.always_encoded(types) {
            // The charge includes the room for further members that an empty object reserves.
            if !object.contains_key(&field.name) && budget::charge(2 * MEMBER_BYTES).is_ok() {
                object.insert(field.name.clone(), types.unset_value(field));
            }
        }
    }

    /// Normalises a union. In Go, a separate decoder decodes its content and does not report unknown fields.
    fn union(
        &mut self,
        union: &Union,
        value: &mut Value,
        normal: Option<&Value>,
        path: &DecodePath<'_>,
    ) -> Result<(), Mismatch> {
        let unknown_before = self.problems.unknown.len();
        match (union.kind, &mut *value) {
            (_, Value::Object(_)) => self.value(union.schema, value, normal, path),
            (UnionKind::SchemaOrArray, Value::Array(items)) => {
                for (i, item) in items.iter_mut().enumerate() {
                    self.item(union.schema, item, None, false, &path.to(DecodePathStep::Index(i)));
                }
                if items.is_empty() {
                    *value = Value::Null;
                }
            }
            (UnionKind::SchemaOrStringArray, Value::Array(items)) => {
                for item in items.iter_mut() {
                    match item {
                        Value::Null => *item = Value::from(""),
                        Value::String(_) => {}
                        other => return Err(Mismatch::Type(json_type_name(other).to_owned(), "string")),
                    }
                }
                if items.is_empty() {
                    *value = Value::Null;
                }
            }
            (UnionKind::SchemaOrBool, Value::Bool(_)) => {}
            (UnionKind::SchemaOrBool, _) => {
                return Err(Mismatch::Other("boolean or JSON schema expected".to_owned()));
            }
            // Values of other types are ignored.
            _ => *value = Value::Null,
        }
        self.problems.unknown.truncate(unknown_before);
        Ok(())
    }
}
