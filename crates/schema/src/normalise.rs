//! What decoding into a Go struct and encoding again does to a tree: null is absence, unknown fields vanish, empty
//! optional values vanish, value structs appear, leaves take their canonical form. Follows `encoding/json` (with the
//! case-sensitive names of `sigs.k8s.io/json`) and the methods of the API's own types.

use std::fmt::Write;

use pintle_value::{Object, Value};

use crate::leaf::{Mismatch, shape};
use crate::{Field, List, Omit, Scalar, Struct, Type, TypeId, Types, Union, UnionKind, bare_name};

/// What was found on the way, in the order of the tree (sorted keys). For the order of the text that a tree was read
/// from, and for the text of numbers, see the codec's strict check, which needs the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// Full paths of unknown fields (`spec.containers[0].foo`), at most 100.
    pub unknown: Vec<String>,
    /// Go's messages for values of the wrong type. Upstream reports the first.
    pub errors: Vec<String>,
    /// True if a quantity was a number that is no integer: how it is written (`1e3`, `1000`) follows from its text.
    pub inexact: bool,
}

/// Upstream stops collecting here.
const MOST_PROBLEMS: usize = 100;

impl Problems {
    /// True if nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unknown.is_empty() && self.errors.is_empty() && !self.inexact
    }

    fn unknown(&mut self, path: &Path<'_>, name: &str) {
        if self.unknown.len() < MOST_PROBLEMS {
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

    fn mismatch(&mut self, path: &Path<'_>, mismatch: Mismatch, own_name: impl FnOnce() -> String) {
        if self.errors.len() >= MOST_PROBLEMS {
            return;
        }
        self.errors.push(match mismatch {
            Mismatch::Other(text) => text,
            Mismatch::Type(value, "") => path.cannot_unmarshal(&value, &own_name()),
            Mismatch::Type(value, name) => path.cannot_unmarshal(&value, name),
        });
    }
}

/// Where we are, with what Go's messages say about it.
#[derive(Clone, Copy)]
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field { owner: &'a Struct, field: &'a Field },
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    fn to(&'a self, step: Step<'a>) -> Path<'a> {
        Path { parent: Some(self), step }
    }

    /// Go names the innermost struct and then the fields from the root; keys and indexes are not part of it.
    fn cannot_unmarshal(&self, value: &str, ty: &str) -> String {
        let mut owner = None;
        let mut fields = Vec::new();
        let mut here = Some(self);
        while let Some(path) = here {
            if let Step::Field { owner: ty, field } = path.step {
                owner.get_or_insert(bare_name(&ty.name));
                fields.push(field.name.as_str());
                fields.extend(ty.inlined_in(field).into_iter().rev());
            }
            here = path.parent;
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
            Step::Root => {}
            Step::Field { field: Field { name, .. }, .. } => Self::write_name(name, out),
            Step::Key(name) => Self::write_name(name, out),
            Step::Index(i) => {
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

/// Makes of a tree what the Go type would write after reading it. Doing it again changes nothing.
///
/// Values of the wrong type are noted and become the zero value. Unknown fields are noted and dropped.
pub fn normalise(types: &Types, type_id: TypeId, value: &mut Value, problems: &mut Problems) {
    let mut walk = Walk { types, problems };
    if value.is_null() {
        *value = types.zero(type_id);
    } else {
        walk.value(type_id, value, &Path::ROOT);
    }
}

impl Types {
    /// What Go writes for the zero value of a type: null for lists and maps, the fields that are never left out for structs.
    #[must_use]
    pub fn zero(&self, id: TypeId) -> Value {
        match self.get(id) {
            Type::Scalar(scalar) => scalar.kind.zero(),
            Type::Struct(ty) => Value::Object(ty.appearing(self).map(|f| (f.name.clone(), self.absent(f))).collect()),
            Type::Union(Union { kind: UnionKind::SchemaOrBool, .. }) => Value::Bool(false),
            Type::Map(_) | Type::List(_) | Type::Union(_) | Type::Any => Value::Null,
        }
    }

    /// What a field that is not set is written as, given that it appears.
    fn absent(&self, field: &Field) -> Value {
        if field.pointer { Value::Null } else { self.zero(field.ty) }
    }

    /// True if a field is written even when it is not set.
    pub(crate) fn appears(&self, field: &Field) -> bool {
        match field.omit {
            Omit::Never => true,
            Omit::Empty => !field.pointer && self.is_go_struct(field.ty),
            Omit::Zero => false,
        }
    }

    /// True for what Go has as a struct, which `omitempty` never leaves out.
    fn is_go_struct(&self, id: TypeId) -> bool {
        match self.get(id) {
            Type::Struct(_) | Type::Union(_) => true,
            Type::Scalar(scalar) => scalar.kind.is_go_struct(),
            Type::Map(_) | Type::List(_) | Type::Any => false,
        }
    }

    /// True if a field with this value (canonical) is written.
    fn keeps(&self, field: &Field, value: &Value) -> bool {
        match field.omit {
            Omit::Never => true,
            // Go writes null for a pointer to a zero time. To us null is absence, so that it stays away once it is gone.
            _ if field.pointer => !value.is_null(),
            Omit::Empty => !value.is_empty() || self.is_go_struct(field.ty),
            Omit::Zero => match self.get(field.ty) {
                // An empty list or map is not Go's zero, nil is.
                Type::Map(_) | Type::List(_) => !value.is_null(),
                Type::Scalar(scalar) if scalar.kind == Scalar::Bytes => !value.is_null(),
                _ => *value != self.zero(field.ty),
            },
        }
    }
}

struct Walk<'t, 'p> {
    types: &'t Types,
    problems: &'p mut Problems,
}

impl Walk<'_, '_> {
    /// Normalises a value that is not null.
    fn value(&mut self, id: TypeId, value: &mut Value, path: &Path<'_>) {
        let types = self.types;
        let outcome = match (types.get(id), &mut *value) {
            (Type::Any, _) => Ok(()),
            (Type::Scalar(scalar), value) => {
                self.problems.inexact |= scalar.kind == Scalar::Quantity && matches!(value, Value::Float(_));
                scalar.kind.canonical(value)
            }
            (Type::Struct(ty), Value::Object(object)) => {
                self.fields(ty, object, path);
                Ok(())
            }
            (Type::Map(map), Value::Object(object)) => {
                for (key, value) in object.iter_mut() {
                    self.item(map.value, value, false, &path.to(Step::Key(key)));
                }
                Ok(())
            }
            (Type::List(list), Value::Array(items)) => {
                self.items(list, items, path);
                Ok(())
            }
            (Type::Union(union), value) => self.union(union, value, path),
            (_, other) => Err(Mismatch::Type(shape(other).to_owned(), "")),
        };
        if let Err(mismatch) = outcome {
            self.problems.mismatch(path, mismatch, || types.go_name(id));
            *value = types.zero(id);
        }
    }

    fn items(&mut self, list: &List, items: &mut [Value], path: &Path<'_>) {
        for (i, item) in items.iter_mut().enumerate() {
            self.item(list.item, item, list.pointers, &path.to(Step::Index(i)));
        }
    }

    /// An item of a list or map: null is nil for what can be nil, and the zero value otherwise.
    fn item(&mut self, id: TypeId, item: &mut Value, pointer: bool, path: &Path<'_>) {
        if !item.is_null() {
            self.value(id, item, path);
        } else if !pointer {
            self.null(id, path);
            *item = self.types.zero(id);
        }
    }

    /// Notes the one error that null gives: a duration that is not behind a pointer reads it as an empty text.
    fn null(&mut self, id: TypeId, path: &Path<'_>) {
        if matches!(self.types.get(id), Type::Scalar(scalar) if scalar.kind == Scalar::Duration) {
            self.problems.mismatch(path, Mismatch::Other("time: invalid duration \"\"".to_owned()), String::new);
        }
    }

    fn fields(&mut self, ty: &Struct, object: &mut Object, path: &Path<'_>) {
        let types = self.types;
        object.retain(|key, value| {
            let Some(field) = ty.field(key) else {
                self.problems.unknown(path, key);
                return false;
            };
            let path = path.to(Step::Field { owner: ty, field });
            if value.is_null() {
                if !field.pointer {
                    self.null(field.ty, &path);
                }
                return false;
            }
            self.value(field.ty, value, &path);
            types.keeps(field, value)
        });
        for field in ty.appearing(types) {
            if !object.contains_key(&field.name) {
                object.insert(field.name.clone(), types.absent(field));
            }
        }
    }

    /// The unions decode what is inside with a decoder of their own, which does not look for unknown fields.
    fn union(&mut self, union: &Union, value: &mut Value, path: &Path<'_>) -> Result<(), Mismatch> {
        let noted = self.problems.unknown.len();
        match (union.kind, &mut *value) {
            (_, Value::Object(_)) => self.value(union.schema, value, path),
            (UnionKind::SchemaOrArray, Value::Array(items)) => {
                for (i, item) in items.iter_mut().enumerate() {
                    self.item(union.schema, item, false, &path.to(Step::Index(i)));
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
                        other => return Err(Mismatch::Type(shape(other).to_owned(), "string")),
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
            // Anything else is ignored.
            _ => *value = Value::Null,
        }
        self.problems.unknown.truncate(noted);
        Ok(())
    }
}
