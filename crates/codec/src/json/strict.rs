//! The exact second look at a JSON text: what Go's decoder says about unknown fields, duplicate fields and values of the
//! wrong type, in the order of the text. Run only for texts in which something of that kind was found, since the tree
//! keeps neither the order of members nor the text of numbers.

use std::fmt::Write;

use pintle_schema::leaf::Mismatch;
use pintle_schema::{List, Map, Scalar, Struct, Type, TypeId, Types, Union, UnionKind, bare_name};
use pintle_value::{Str, Value};

use super::decode::{DecodeError, Token, Walk, to_utf8};
use super::merge;

/// What a second look at a text found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strictness {
    /// Why the text cannot be read into the type: a client error whatever the strictness.
    pub error: Option<String>,
    /// `unknown field "spec.foo"` and `duplicate field "spec.bar"` in upstream's order, each once, at most 100.
    pub problems: Vec<String>,
    /// The quantities that are numbers, where they stand and in their canonical form.
    quantities: Vec<(Vec<Step>, Value)>,
    /// The tree of a text with duplicate fields, not normalised.
    merged: Option<Value>,
}

impl Strictness {
    /// Sets what a tree that was read from the text does not tell to what the text says: quantities, since `1e3` is
    /// `1000` there, and fields that come twice, which Go's decoder merges. The tree has to be normalised after it.
    pub fn correct(self, tree: &mut Value) {
        if let Some(merged) = self.merged {
            *tree = merged;
        }
        for (steps, quantity) in self.quantities {
            let place = steps.iter().try_fold(&mut *tree, |value, step| match step {
                Step::Key(key) => value.get_mut(key),
                Step::Index(i) => value.as_array_mut()?.get_mut(*i),
            });
            if let Some(place) = place {
                *place = quantity;
            }
        }
    }
}

/// A step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(Str),
    Index(usize),
}

/// Looks at a text as Go's decoder does when it reads it into a type.
///
/// # Errors
/// If the text is not well-formed JSON.
pub fn strictness(text: &[u8], types: &Types, type_id: TypeId) -> Result<Strictness, DecodeError> {
    let text = checked(text)?;
    let mut look = Look::new(&text, Some(types));
    let fatal = look.value(Some(type_id), false).err();
    let repeated = !look.duplicates.is_empty();
    let mut found = look.finish(fatal);
    if repeated && found.error.is_none() {
        found.merged = Some(merge::merged(&text, types, type_id));
    }
    Ok(found)
}

/// Looks at a text as Go's decoder does when it reads it into untyped data: there are no unknown fields.
///
/// # Errors
/// If the text is not well-formed JSON.
pub fn strictness_untyped(text: &[u8]) -> Result<Strictness, DecodeError> {
    let text = checked(text)?;
    let mut look = Look::new(&text, None);
    let fatal = look.value(None, false).err();
    Ok(look.finish(fatal))
}

fn checked(text: &[u8]) -> Result<std::borrow::Cow<'_, str>, DecodeError> {
    match super::syntax::error(text) {
        Some(message) => Err(DecodeError::Syntax(message)),
        None => to_utf8(text),
    }
}

/// The paths of duplicate keys in untyped data. The text must be well-formed.
pub(super) fn duplicates(text: &str) -> Vec<String> {
    let mut look = Look::new(text, None);
    // Numbers out of range are reported by the decoder already.
    let _ = look.value(None, false);
    look.duplicates
}

/// An error of Go's decoder.
enum GoError {
    /// `json.UnmarshalTypeError`: what, into which type, and the innermost struct and the fields from the root, which
    /// decoders further out add to.
    Type { value: String, ty: String, owner: String, fields: String },
    /// Any other error, which keeps its words.
    Other(String),
}

impl std::fmt::Display for GoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GoError::Other(text) => f.write_str(text),
            GoError::Type { value, ty, owner, fields } if owner.is_empty() && fields.is_empty() => {
                write!(f, "json: cannot unmarshal {value} into Go value of type {ty}")
            }
            GoError::Type { value, ty, owner, fields } => {
                write!(f, "json: cannot unmarshal {value} into Go struct field {owner}.{fields} of type {ty}")
            }
        }
    }
}

const MOST_PROBLEMS: usize = 100;

struct Look<'a> {
    walk: Walk<'a>,
    types: Option<&'a Types>,
    /// The innermost struct that a field was entered from, and the fields from the root.
    owner: &'a str,
    fields: Vec<&'a str>,
    /// The path for strict problems.
    path: String,
    /// The same, as steps.
    steps: Vec<Step>,
    /// The first error that does not end the decoding.
    saved: Option<GoError>,
    problems: Vec<String>,
    duplicates: Vec<String>,
    quantities: Vec<(Vec<Step>, Value)>,
}

impl<'a> Look<'a> {
    fn new(text: &'a str, types: Option<&'a Types>) -> Self {
        Self {
            walk: Walk::new(text),
            types,
            owner: "",
            fields: Vec::new(),
            path: String::new(),
            steps: Vec::new(),
            saved: None,
            problems: Vec::new(),
            duplicates: Vec::new(),
            quantities: Vec::new(),
        }
    }

    fn finish(self, fatal: Option<GoError>) -> Strictness {
        let error = fatal.or(self.saved).map(|e| e.to_string());
        Strictness { error, problems: self.problems, quantities: self.quantities, merged: None }
    }

    fn problem(&mut self, what: &str, name: &str) {
        if self.problems.len() >= MOST_PROBLEMS {
            return;
        }
        let separator = if self.path.is_empty() { "" } else { "." };
        let path = format!("{}{separator}{name}", self.path);
        let text = format!("{what} field {}", crate::go::quote(&path));
        if !self.problems.contains(&text) {
            self.problems.push(text);
            if what == "duplicate" {
                self.duplicates.push(path);
            }
        }
    }

    /// Adds where we are to an error, as every decoder does with the errors that reach it.
    fn in_context(&self, error: GoError) -> GoError {
        match error {
            GoError::Type { value, ty, fields, .. } if !self.fields.is_empty() => {
                let mut path = self.fields.join(".");
                if !fields.is_empty() {
                    path.push('.');
                    path.push_str(&fields);
                }
                GoError::Type { value, ty, owner: bare_name(self.owner).to_owned(), fields: path }
            }
            other => other,
        }
    }

    fn save(&mut self, error: GoError) {
        if self.saved.is_none() {
            self.saved = Some(self.in_context(error));
        }
    }

    fn save_type(&mut self, value: &str, id: TypeId) {
        if let Some(types) = self.types {
            let error = type_error(value, types.go_name(id));
            self.save(error);
        }
    }

    /// Reads the next value. An error ends the decoding.
    fn value(&mut self, id: Option<TypeId>, pointer: bool) -> Result<(), GoError> {
        let start = self.walk.position();
        let token = self.walk.token();
        let Some((types, id)) = self.types.zip(id) else {
            self.untyped(token);
            return Ok(());
        };
        if token == Token::Null && pointer {
            return Ok(());
        }
        match (types.get(id), token) {
            (Type::Any, token) => self.untyped(token),
            (Type::Union(union), token) => {
                self.walk.skip(token);
                let text = self.walk.since(start);
                union_error(union, token, text, types).map_or(Ok(()), |e| Err(self.in_context(e)))?;
            }
            (Type::Scalar(scalar), token) => {
                self.walk.skip(token);
                let text = self.walk.since(start);
                self.scalar(scalar.kind, id, token, text)?;
            }
            (_, Token::Null) => {}
            (Type::Struct(ty), Token::Object) => self.members(ty)?,
            (Type::Map(map), Token::Object) => self.entries(map)?,
            (Type::List(list), Token::Array) => self.items(list)?,
            (_, token) => {
                self.walk.skip(token);
                self.save_type(shape(token), id);
            }
        }
        Ok(())
    }

    fn members(&mut self, ty: &'a Struct) -> Result<(), GoError> {
        let (owner, depth, place) = (self.owner, self.fields.len(), self.place());
        let mut seen = vec![false; ty.fields.len()];
        while let Some(key) = self.walk.next_key() {
            let Some(i) = ty.position(&key) else {
                self.problem("unknown", &key);
                let token = self.walk.token();
                self.walk.skip(token);
                continue;
            };
            let field = &ty.fields[i];
            if std::mem::replace(&mut seen[i], true) {
                self.problem("duplicate", &key);
            }
            self.owner = &ty.name;
            self.fields.extend(ty.inlined_in(field));
            self.fields.push(&field.name);
            self.push_key(&key);
            self.value(Some(field.ty), field.pointer)?;
            self.owner = owner;
            self.fields.truncate(depth);
            self.back_to(place);
        }
        Ok(())
    }

    fn entries(&mut self, map: &Map) -> Result<(), GoError> {
        let place = self.place();
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = self.walk.next_key() {
            if seen.contains(&key) {
                self.problem("duplicate", &key);
            }
            self.push_key(&key);
            seen.insert(key);
            self.value(Some(map.value), false)?;
            self.back_to(place);
        }
        Ok(())
    }

    fn items(&mut self, list: &List) -> Result<(), GoError> {
        let place = self.place();
        let mut i = 0;
        while self.walk.next_item() {
            self.push_index(i);
            self.value(Some(list.item), list.pointers)?;
            self.back_to(place);
            i += 1;
        }
        Ok(())
    }

    fn push_key(&mut self, key: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
        self.steps.push(Step::Key(key.into()));
    }

    fn push_index(&mut self, i: usize) {
        // Writing to a string cannot fail.
        let _ = write!(self.path, "[{i}]");
        self.steps.push(Step::Index(i));
    }

    /// Where we are, to come back to.
    fn place(&self) -> (usize, usize) {
        (self.path.len(), self.steps.len())
    }

    fn back_to(&mut self, (path, steps): (usize, usize)) {
        self.path.truncate(path);
        self.steps.truncate(steps);
    }

    fn untyped(&mut self, token: Token<'a>) {
        let place = self.place();
        match token {
            Token::Object => {
                let mut seen = std::collections::HashSet::new();
                while let Some(key) = self.walk.next_key() {
                    if seen.contains(&key) {
                        self.problem("duplicate", &key);
                    }
                    self.push_key(&key);
                    seen.insert(key);
                    let token = self.walk.token();
                    self.untyped(token);
                    self.back_to(place);
                }
            }
            Token::Array => {
                let mut i = 0;
                while self.walk.next_item() {
                    self.push_index(i);
                    let token = self.walk.token();
                    self.untyped(token);
                    self.back_to(place);
                    i += 1;
                }
            }
            Token::Number(text) => {
                let fits = super::decode::integer(text).is_some() || text.parse::<f64>().is_ok_and(f64::is_finite);
                if !fits {
                    self.save(type_error(&format!("number {text}"), "float64".to_owned()));
                }
            }
            Token::String(_) | Token::Bool(_) | Token::Null => {}
        }
    }

    fn scalar(&mut self, kind: Scalar, id: TypeId, token: Token<'a>, text: &str) -> Result<(), GoError> {
        match (kind, token) {
            (Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json, _) => Ok(()),
            (Scalar::Duration, Token::Null) => Err(GoError::Other("time: invalid duration \"\"".to_owned())),
            (_, Token::Null) => Ok(()),
            (Scalar::Quantity, token) => {
                // Upstream parses whatever text there is, without undoing escapes.
                let inner = match token {
                    Token::String(_) => text.get(1..text.len() - 1).unwrap_or_default(),
                    _ => text,
                };
                let mut value = Value::from(inner);
                kind.canonical(&mut value).map_err(|e| self.in_context(leaf_error(e, "")))?;
                if let Token::Number(_) = token {
                    self.quantities.push((self.steps.clone(), value));
                }
                Ok(())
            }
            (Scalar::Time | Scalar::MicroTime | Scalar::Duration | Scalar::IntOrString, token) => {
                let mut value = leaf_value(token);
                if let (Scalar::IntOrString, Token::Number(text)) = (kind, token)
                    && !fits(text, Scalar::Int32)
                {
                    return Err(self.in_context(type_error(&format!("number {text}"), "int32".to_owned())));
                }
                kind.canonical(&mut value).map_err(|e| self.in_context(leaf_error(e, "string")))
            }
            (Scalar::Float64, Token::Number(text)) => {
                if !text.parse::<f64>().is_ok_and(f64::is_finite) {
                    self.save_type(&format!("number {text}"), id);
                }
                Ok(())
            }
            (_, Token::Number(text)) if kind.range().is_some() => {
                if !fits(text, kind) {
                    self.save_type(&format!("number {text}"), id);
                }
                Ok(())
            }
            (Scalar::Bytes, Token::Array) => {
                let mut items = Walk::new(text);
                items.token();
                while items.next_item() {
                    let token = items.token();
                    items.skip(token);
                    match token {
                        Token::Null => {}
                        Token::Number(text) if fits(text, Scalar::Uint8) => {}
                        Token::Number(text) => self.save(type_error(&format!("number {text}"), "uint8".to_owned())),
                        token => self.save(type_error(shape(token), "uint8".to_owned())),
                    }
                }
                Ok(())
            }
            (Scalar::String, Token::String(_)) | (Scalar::Bool, Token::Bool(_)) => Ok(()),
            (Scalar::Bytes, Token::String(_)) => {
                if let Err(Mismatch::Other(text)) = kind.canonical(&mut leaf_value(token)) {
                    self.save(GoError::Other(text));
                }
                Ok(())
            }
            (_, token) => {
                self.save_type(shape(token), id);
                Ok(())
            }
        }
    }
}

/// What a decoder of a union's own says of its text.
fn union_error(union: &Union, token: Token<'_>, text: &str, types: &Types) -> Option<GoError> {
    let mut inner = Look::new(text, Some(types));
    let fatal = match (union.kind, token) {
        (_, Token::Object) => inner.value(Some(union.schema), false).err(),
        (UnionKind::SchemaOrArray, Token::Array) => {
            inner.walk.token();
            let list = List {
                item: union.schema,
                pointers: false,
                topology: pintle_schema::ListTopology::Undeclared,
                name: Str::default(),
            };
            inner.items(&list).err()
        }
        (UnionKind::SchemaOrStringArray, Token::Array) => {
            inner.walk.token();
            while inner.walk.next_item() {
                let token = inner.walk.token();
                inner.walk.skip(token);
                if !matches!(token, Token::String(_) | Token::Null) {
                    inner.save(type_error(shape(token), "string".to_owned()));
                }
            }
            None
        }
        (UnionKind::SchemaOrBool, Token::Bool(_)) => None,
        (UnionKind::SchemaOrBool, _) => Some(GoError::Other("boolean or JSON schema expected".to_owned())),
        _ => None,
    };
    fatal.or(inner.saved)
}

fn type_error(value: &str, ty: String) -> GoError {
    GoError::Type { value: value.to_owned(), ty, owner: String::new(), fields: String::new() }
}

fn leaf_error(mismatch: Mismatch, own_name: &str) -> GoError {
    match mismatch {
        Mismatch::Other(text) => GoError::Other(text),
        Mismatch::Type(value, "") => type_error(&value, own_name.to_owned()),
        Mismatch::Type(value, name) => type_error(&value, name.to_owned()),
    }
}

/// True if a number's text is an integer of that type.
fn fits(text: &str, kind: Scalar) -> bool {
    super::decode::integer(text).zip(kind.range()).is_some_and(|(i, (low, high))| (low..=high).contains(&i))
}

fn leaf_value(token: Token<'_>) -> Value {
    match token {
        Token::Object => Value::object(),
        Token::Array => Value::Array(Vec::new()),
        Token::String(text) => Value::String(Walk::unquote(text)),
        Token::Number(text) => super::decode::integer(text).map_or(Value::Float(0.5), Value::Int),
        Token::Bool(b) => Value::Bool(b),
        Token::Null => Value::Null,
    }
}

fn shape(token: Token<'_>) -> &'static str {
    match token {
        Token::Object => "object",
        Token::Array => "array",
        Token::String(_) => "string",
        Token::Number(_) => "number",
        Token::Bool(_) => "bool",
        Token::Null => "null",
    }
}
