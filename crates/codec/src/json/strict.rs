//! Strict decoding: finds Go's errors for unknown fields, duplicate fields and values of the wrong type, in text order.
//! This second pass only runs for texts in which the fast parser found such a problem. It needs the text, because the
//! tree preserves neither the order of members nor the text of numbers.

use std::fmt::Write;

use pintle_schema::scalar::Mismatch;
use pintle_schema::{List, Map, Scalar, Struct, Type, TypeId, Types, Union, UnionKind, bare_name};
use pintle_value::{Str, Value, print};

use super::decode::{DecodeError, Token, Tokenizer, to_utf8};
use super::merge;

/// The result of a strict decoding pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StrictResult {
    /// Why the text cannot be decoded into the type. This is a client error whatever the field validation directive.
    pub error: Option<String>,
    /// `unknown field "spec.foo"` and `duplicate field "spec.bar"` in upstream's order. Each is listed once, and at
    /// most 100 are listed.
    pub strict_errors: Vec<String>,
    /// The quantities that are written as numbers: their paths and their canonical form.
    quantities: Vec<(Vec<Step>, Value)>,
    /// The tree of a text with duplicate fields, not normalised.
    merged: Option<Value>,
}

impl StrictResult {
    /// Restores the parts of the text that a tree lost: quantities, because `1e3` is `1000` in the tree, and duplicate
    /// fields, which Go merges. The caller must normalise the tree afterwards.
    pub fn correct_tree(self, tree: &mut Value) {
        if let Some(merged) = self.merged {
            *tree = merged;
        }
        for (steps, quantity) in self.quantities {
            let target = steps.iter().try_fold(&mut *tree, |value, step| match step {
                Step::Key(key) => value.get_mut(key),
                Step::Index(i) => value.as_array_mut()?.get_mut(*i),
            });
            if let Some(target) = target {
                *target = quantity;
            }
        }
    }
}

/// A step from a value to one of its children.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(Str),
    Index(usize),
}

/// Runs Go's strict decoding of a text into a type.
///
/// # Errors
/// Returns an error if the text is not well-formed JSON.
pub fn decode_strict(text: &[u8], types: &Types, type_id: TypeId) -> Result<StrictResult, DecodeError> {
    let text = validated_utf8(text)?;
    let mut decoder = StrictDecoder::new(&text, Some(types));
    let fatal = decoder.value(Some(type_id), false).err();
    let has_duplicates = !decoder.duplicates.is_empty();
    let mut result = decoder.finish(fatal);
    if has_duplicates && result.error.is_none() {
        result.merged = Some(merge::decode_merging(&text, types, type_id));
    }
    Ok(result)
}

/// Runs Go's strict decoding of a text into untyped data, which has no unknown fields.
///
/// # Errors
/// Returns an error if the text is not well-formed JSON.
pub fn decode_strict_untyped(text: &[u8]) -> Result<StrictResult, DecodeError> {
    let text = validated_utf8(text)?;
    let mut decoder = StrictDecoder::new(&text, None);
    let fatal = decoder.value(None, false).err();
    Ok(decoder.finish(fatal))
}

fn validated_utf8(text: &[u8]) -> Result<std::borrow::Cow<'_, str>, DecodeError> {
    match super::syntax::error(text) {
        Some(message) => Err(DecodeError::Syntax(message)),
        None => to_utf8(text),
    }
}

/// The paths of duplicate keys in untyped data. The text must be well-formed.
pub(super) fn duplicates(text: &str) -> Vec<String> {
    let mut decoder = StrictDecoder::new(text, None);
    // The decoder has already reported numbers that are out of range.
    let _ = decoder.value(None, false);
    decoder.duplicates
}

/// An error of Go's decoder.
enum GoError {
    /// `json.UnmarshalTypeError`: the JSON value, the Go type, the innermost struct and the field path from the root.
    /// Outer decoders extend the path.
    Type { value: String, ty: String, owner: String, fields: String },
    /// Any other error. Its message stays unchanged.
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

const MAX_STRICT_ERRORS: usize = 100;

struct StrictDecoder<'a> {
    tokenizer: Tokenizer<'a>,
    types: Option<&'a Types>,
    /// The innermost struct whose field is being decoded, and the field path from the root.
    owner: &'a str,
    fields: Vec<&'a str>,
    /// The field path for strict errors.
    path: String,
    /// The same path as steps.
    steps: Vec<Step>,
    /// The first error that does not stop decoding (`decodeState.savedError`).
    saved_error: Option<GoError>,
    strict_errors: Vec<String>,
    duplicates: Vec<String>,
    quantities: Vec<(Vec<Step>, Value)>,
}

impl<'a> StrictDecoder<'a> {
    fn new(text: &'a str, types: Option<&'a Types>) -> Self {
        Self {
            tokenizer: Tokenizer::new(text),
            types,
            owner: "",
            fields: Vec::new(),
            path: String::new(),
            steps: Vec::new(),
            saved_error: None,
            strict_errors: Vec::new(),
            duplicates: Vec::new(),
            quantities: Vec::new(),
        }
    }

    fn finish(self, fatal: Option<GoError>) -> StrictResult {
        let error = fatal.or(self.saved_error).map(|e| e.to_string());
        StrictResult { error, strict_errors: self.strict_errors, quantities: self.quantities, merged: None }
    }

    fn strict_error(&mut self, what: &str, name: &str) {
        if self.strict_errors.len() >= MAX_STRICT_ERRORS {
            return;
        }
        let separator = if self.path.is_empty() { "" } else { "." };
        let path = format!("{}{separator}{name}", self.path);
        let text = format!("{what} field {}", print::quote(&path));
        if !self.strict_errors.contains(&text) {
            self.strict_errors.push(text);
            if what == "duplicate" {
                self.duplicates.push(path);
            }
        }
    }

    /// Adds the struct and field path to an error, as each Go decoder does (`decodeState.addErrorContext`).
    fn add_error_context(&self, error: GoError) -> GoError {
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

    fn save_error(&mut self, error: GoError) {
        if self.saved_error.is_none() {
            self.saved_error = Some(self.add_error_context(error));
        }
    }

    fn save_type_error(&mut self, value: &str, id: TypeId) {
        if let Some(types) = self.types {
            let error = type_error(value, types.go_name(id));
            self.save_error(error);
        }
    }

    /// Decodes the next value. An error stops decoding.
    fn value(&mut self, id: Option<TypeId>, pointer: bool) -> Result<(), GoError> {
        let start = self.tokenizer.position();
        let token = self.tokenizer.token();
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
                self.tokenizer.skip(token);
                let text = self.tokenizer.since(start);
                union_error(union, token, text, types).map_or(Ok(()), |e| Err(self.add_error_context(e)))?;
            }
            (Type::Scalar(scalar), token) => {
                self.tokenizer.skip(token);
                let text = self.tokenizer.since(start);
                self.scalar(scalar.kind, id, token, text)?;
            }
            (_, Token::Null) => {}
            (Type::Struct(ty), Token::Object) => self.members(ty)?,
            (Type::Map(map), Token::Object) => self.entries(map)?,
            (Type::List(list), Token::Array) => self.items(list)?,
            (_, token) => {
                self.tokenizer.skip(token);
                self.save_type_error(json_type_name(token), id);
            }
        }
        Ok(())
    }

    fn members(&mut self, ty: &'a Struct) -> Result<(), GoError> {
        let (owner, depth, path_mark) = (self.owner, self.fields.len(), self.path_mark());
        let mut seen = vec![false; ty.fields.len()];
        while let Some(key) = self.tokenizer.next_key() {
            let Some(i) = ty.position(&key) else {
                self.strict_error("unknown", &key);
                let token = self.tokenizer.token();
                self.tokenizer.skip(token);
                continue;
            };
            let field = &ty.fields[i];
            if std::mem::replace(&mut seen[i], true) {
                self.strict_error("duplicate", &key);
            }
            self.owner = &ty.name;
            self.fields.extend(ty.inlined_in(field));
            self.fields.push(&field.name);
            self.push_key(&key);
            self.value(Some(field.ty), field.pointer)?;
            self.owner = owner;
            self.fields.truncate(depth);
            self.truncate_path(path_mark);
        }
        Ok(())
    }

    fn entries(&mut self, map: &Map) -> Result<(), GoError> {
        let path_mark = self.path_mark();
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = self.tokenizer.next_key() {
            if seen.contains(&key) {
                self.strict_error("duplicate", &key);
            }
            self.push_key(&key);
            seen.insert(key);
            self.value(Some(map.value), false)?;
            self.truncate_path(path_mark);
        }
        Ok(())
    }

    fn items(&mut self, list: &List) -> Result<(), GoError> {
        let path_mark = self.path_mark();
        let mut i = 0;
        while self.tokenizer.next_item() {
            self.push_index(i);
            self.value(Some(list.item), list.pointers)?;
            self.truncate_path(path_mark);
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

    /// The current path, for [`Self::truncate_path`].
    fn path_mark(&self) -> (usize, usize) {
        (self.path.len(), self.steps.len())
    }

    fn truncate_path(&mut self, (path, steps): (usize, usize)) {
        self.path.truncate(path);
        self.steps.truncate(steps);
    }

    fn untyped(&mut self, token: Token<'a>) {
        let path_mark = self.path_mark();
        match token {
            Token::Object => {
                let mut seen = std::collections::HashSet::new();
                while let Some(key) = self.tokenizer.next_key() {
                    if seen.contains(&key) {
                        self.strict_error("duplicate", &key);
                    }
                    self.push_key(&key);
                    seen.insert(key);
                    let token = self.tokenizer.token();
                    self.untyped(token);
                    self.truncate_path(path_mark);
                }
            }
            Token::Array => {
                let mut i = 0;
                while self.tokenizer.next_item() {
                    self.push_index(i);
                    let token = self.tokenizer.token();
                    self.untyped(token);
                    self.truncate_path(path_mark);
                    i += 1;
                }
            }
            Token::Number(text) => {
                let fits = super::decode::integer(text).is_some() || text.parse::<f64>().is_ok_and(f64::is_finite);
                if !fits {
                    self.save_error(type_error(&format!("number {text}"), "float64".to_owned()));
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
                // Upstream parses the raw text without decoding escapes.
                let inner = match token {
                    Token::String(_) => text.get(1..text.len() - 1).unwrap_or_default(),
                    _ => text,
                };
                let mut value = Value::from(inner);
                kind.canonical(&mut value).map_err(|e| self.add_error_context(leaf_error(e, "")))?;
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
                    return Err(self.add_error_context(type_error(&format!("number {text}"), "int32".to_owned())));
                }
                kind.canonical(&mut value).map_err(|e| self.add_error_context(leaf_error(e, "string")))
            }
            (Scalar::Float64, Token::Number(text)) => {
                if !text.parse::<f64>().is_ok_and(f64::is_finite) {
                    self.save_type_error(&format!("number {text}"), id);
                }
                Ok(())
            }
            (_, Token::Number(text)) if kind.range().is_some() => {
                if !fits(text, kind) {
                    self.save_type_error(&format!("number {text}"), id);
                }
                Ok(())
            }
            (Scalar::Bytes, Token::Array) => {
                let mut items = Tokenizer::new(text);
                items.token();
                while items.next_item() {
                    let token = items.token();
                    items.skip(token);
                    match token {
                        Token::Null => {}
                        Token::Number(text) if fits(text, Scalar::Uint8) => {}
                        Token::Number(text) => {
                            self.save_error(type_error(&format!("number {text}"), "uint8".to_owned()))
                        }
                        token => self.save_error(type_error(json_type_name(token), "uint8".to_owned())),
                    }
                }
                Ok(())
            }
            (Scalar::String, Token::String(_)) | (Scalar::Bool, Token::Bool(_)) => Ok(()),
            (Scalar::Bytes, Token::String(_)) => {
                if let Err(Mismatch::Other(text)) = kind.canonical(&mut leaf_value(token)) {
                    self.save_error(GoError::Other(text));
                }
                Ok(())
            }
            (_, token) => {
                self.save_type_error(json_type_name(token), id);
                Ok(())
            }
        }
    }
}

/// The error of a union type's own `UnmarshalJSON`.
fn union_error(union: &Union, token: Token<'_>, text: &str, types: &Types) -> Option<GoError> {
    let mut inner = StrictDecoder::new(text, Some(types));
    let fatal = match (union.kind, token) {
        (_, Token::Object) => inner.value(Some(union.schema), false).err(),
        (UnionKind::SchemaOrArray, Token::Array) => {
            inner.tokenizer.token();
            let list = List {
                item: union.schema,
                pointers: false,
                topology: pintle_schema::ListTopology::Undeclared,
                name: Str::default(),
            };
            inner.items(&list).err()
        }
        (UnionKind::SchemaOrStringArray, Token::Array) => {
            inner.tokenizer.token();
            while inner.tokenizer.next_item() {
                let token = inner.tokenizer.token();
                inner.tokenizer.skip(token);
                if !matches!(token, Token::String(_) | Token::Null) {
                    inner.save_error(type_error(json_type_name(token), "string".to_owned()));
                }
            }
            None
        }
        (UnionKind::SchemaOrBool, Token::Bool(_)) => None,
        (UnionKind::SchemaOrBool, _) => Some(GoError::Other("boolean or JSON schema expected".to_owned())),
        _ => None,
    };
    fatal.or(inner.saved_error)
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

/// Returns whether a number's text is an integer in the range of the scalar type.
fn fits(text: &str, kind: Scalar) -> bool {
    super::decode::integer(text).zip(kind.range()).is_some_and(|(i, (low, high))| (low..=high).contains(&i))
}

fn leaf_value(token: Token<'_>) -> Value {
    match token {
        Token::Object => Value::object(),
        Token::Array => Value::Array(Vec::new()),
        Token::String(text) => Value::String(Tokenizer::unquote(text)),
        Token::Number(text) => super::decode::integer(text).map_or(Value::Float(0.5), Value::Int),
        Token::Bool(b) => Value::Bool(b),
        Token::Null => Value::Null,
    }
}

fn json_type_name(token: Token<'_>) -> &'static str {
    match token {
        Token::Object => "object",
        Token::Array => "array",
        Token::String(_) => "string",
        Token::Number(_) => "number",
        Token::Bool(_) => "bool",
        Token::Null => "null",
    }
}
