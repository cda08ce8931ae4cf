//! Paths to fields of an object and the errors found there, with the wording of apimachinery's `field` package, since
//! clients and people match on it.

use std::collections::HashSet;
use std::fmt;

use crate::{Str, Value, print};

pub use crate::print::quote;

/// A path such as `spec.containers[0].name`, built on the stack while walking an object and printed only for an error.
#[derive(Clone, Copy, Debug)]
pub struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    segment: Segment<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Segment<'a> {
    Root,
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> FieldPath<'a> {
    /// The path of the object itself; prints as nothing.
    #[must_use]
    pub const fn root() -> FieldPath<'static> {
        FieldPath { parent: None, segment: Segment::Root }
    }

    /// A path that starts with a field of the object (it may hold dots already: `metadata.name`). Without a name it is
    /// what upstream gives errors of the object as a whole, and prints as `[]`.
    #[must_use]
    pub const fn new(name: &'a str) -> Self {
        FieldPath { parent: None, segment: Segment::Name(name) }
    }

    /// True for the path of the object itself.
    #[must_use]
    pub const fn is_root(&self) -> bool {
        matches!(self.segment, Segment::Root)
    }

    /// The path of a field below this one.
    #[must_use]
    pub const fn child(&'a self, name: &'a str) -> FieldPath<'a> {
        FieldPath { parent: Some(self), segment: Segment::Name(name) }
    }

    /// The path of a list's item.
    #[must_use]
    pub const fn index(&'a self, index: usize) -> FieldPath<'a> {
        FieldPath { parent: Some(self), segment: Segment::Index(index) }
    }

    /// The path of a map's value.
    #[must_use]
    pub const fn key(&'a self, key: &'a str) -> FieldPath<'a> {
        FieldPath { parent: Some(self), segment: Segment::Key(key) }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            fmt::Display::fmt(parent, f)?;
        }
        match self.segment {
            Segment::Root => Ok(()),
            // Where upstream means the whole object it makes a path of no name, which prints as an index of none.
            Segment::Name("") => f.write_str("[]"),
            Segment::Name(name) => {
                let first = self.parent.is_none_or(|p| matches!(p.segment, Segment::Root));
                if first { f.write_str(name) } else { write!(f, ".{name}") }
            }
            Segment::Index(i) => write!(f, "[{i}]"),
            Segment::Key(k) => write!(f, "[{k}]"),
        }
    }
}

/// What is wrong with a field: the `reason` of a `StatusCause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A reference to something that is not there.
    NotFound,
    /// The field must be set.
    Required,
    /// Two items that must differ do not.
    Duplicate,
    /// The value is malformed.
    Invalid,
    /// The value is not one of the values that are known.
    NotSupported,
    /// The value is well formed but not allowed here.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// The value is too short.
    TooShort,
    /// There are too many items.
    TooMany,
    /// There are too few items.
    TooFew,
    /// Something went wrong on our side.
    Internal,
    /// The value has the wrong type.
    TypeInvalid,
}

impl ErrorKind {
    /// The machine-readable reason: `FieldValueInvalid` and the like.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "FieldValueNotFound",
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooShort => "FieldValueTooShort",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::TooFew => "FieldValueTooFew",
            ErrorKind::Internal => "InternalError",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    /// The words that start the message.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "Not found",
            ErrorKind::Required => "Required value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooShort => "Too short",
            ErrorKind::TooMany => "Too many",
            ErrorKind::TooFew => "Too few",
            ErrorKind::Internal => "Internal error",
        }
    }

    const fn shows_value(self) -> bool {
        !matches!(
            self,
            ErrorKind::Required
                | ErrorKind::Forbidden
                | ErrorKind::TooLong
                | ErrorKind::TooShort
                | ErrorKind::TooMany
                | ErrorKind::Internal
        )
    }
}

/// One thing wrong with one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The path of the field.
    pub field: String,
    /// The offending value, printed where the kind of error shows it.
    pub value: Value,
    /// The rest of the message; may be empty.
    pub detail: String,
    /// What to print in place of `value`, where upstream prints something that is not the JSON of the tree (its internal
    /// structs, in the order of their fields). Empty: no value is printed.
    pub shown: Option<String>,
}

impl FieldError {
    /// An error of any kind.
    pub fn new(kind: ErrorKind, path: &FieldPath<'_>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self { kind, field: path.to_string(), value: value.into(), detail: detail.into(), shown: None }
    }

    /// The same error with this text in place of the value.
    #[must_use]
    pub fn showing(mut self, text: impl Into<String>) -> Self {
        self.shown = Some(text.into());
        self
    }

    /// The same error without a value in its message (upstream: `field.OmitValueType`).
    #[must_use]
    pub fn without_value(self) -> Self {
        self.showing("")
    }

    /// `path: Required value: detail`.
    pub fn required(path: &FieldPath<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Required, path, Value::Null, detail)
    }

    /// `path: Invalid value: "x": detail`.
    pub fn invalid(path: &FieldPath<'_>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, path, value, detail)
    }

    /// `path: Duplicate value: "x"`.
    pub fn duplicate(path: &FieldPath<'_>, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::Duplicate, path, value, "")
    }

    /// `path: Not found: "x"`.
    pub fn not_found(path: &FieldPath<'_>, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::NotFound, path, value, "")
    }

    /// `path: Forbidden: detail`.
    pub fn forbidden(path: &FieldPath<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, path, Value::Null, detail)
    }

    /// `path: Too long: may not be more than N bytes`.
    pub fn too_long(path: &FieldPath<'_>, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(ErrorKind::TooLong, path, Value::Null, format!("may not be more than {max} {unit}"))
    }

    /// `path: Too long: may not be more than N characters`.
    pub fn too_long_characters(path: &FieldPath<'_>, max: usize) -> Self {
        let unit = if max == 1 { "character" } else { "characters" };
        Self::new(ErrorKind::TooLong, path, Value::Null, format!("may not be more than {max} {unit}"))
    }

    /// `path: Too short: must be at least N characters`.
    pub fn too_short(path: &FieldPath<'_>, min: usize) -> Self {
        let unit = if min == 1 { "character" } else { "characters" };
        Self::new(ErrorKind::TooShort, path, Value::Null, format!("must be at least {min} {unit}"))
    }

    /// `path: Invalid value: "x": detail`, for a value of the wrong type (the reason tells it from `Invalid`).
    pub fn type_invalid(path: &FieldPath<'_>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::TypeInvalid, path, value, detail)
    }

    /// `path: Too many: N: must have at most M items`.
    pub fn too_many(path: &FieldPath<'_>, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(ErrorKind::TooMany, path, Value::Int(actual as i64), format!("must have at most {max} {unit}"))
    }

    /// `path: Internal error: detail`.
    pub fn internal(path: &FieldPath<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, path, Value::Null, detail)
    }

    /// `path: Unsupported value: "x": supported values: "a", "b"`. Upstream sorts the values where they come from a
    /// set; hand them over in the order in which they are to be printed.
    pub fn not_supported<'v>(
        path: &FieldPath<'_>,
        value: impl Into<Value>,
        supported: impl IntoIterator<Item = &'v str>,
    ) -> Self {
        let quoted: Vec<String> = supported.into_iter().map(quote).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        Self::new(ErrorKind::NotSupported, path, value, detail)
    }

    /// The message without the path: what a `StatusCause` carries.
    #[must_use]
    pub fn body(&self) -> String {
        let mut text = self.kind.text().to_owned();
        // Too many says how many there are, where that is known.
        if self.kind.shows_value() || (self.kind == ErrorKind::TooMany && !self.value.is_null()) {
            match self.shown.as_deref() {
                Some("") => {}
                Some(shown) => {
                    text.push_str(": ");
                    text.push_str(shown);
                }
                None => {
                    text.push_str(": ");
                    text.push_str(&print_value(&self.value));
                }
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// A value as an error message shows it: simple values plain, strings quoted, composite values as JSON.
fn print_value(value: &Value) -> String {
    match value {
        Value::Float(x) => print::plain_float(*x),
        Value::String(text) => quote(text),
        other => print::json(other),
    }
}

/// The errors of one object, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Errors(pub Vec<FieldError>);

impl Errors {
    /// No errors.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds one.
    pub fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    /// Adds those of another list.
    pub fn append(&mut self, mut others: Errors) {
        self.0.append(&mut others.0);
    }

    /// Adds one of the kind `Required`.
    pub fn required(&mut self, path: &FieldPath<'_>, detail: impl Into<String>) {
        self.push(FieldError::required(path, detail));
    }

    /// Adds one of the kind `Invalid`.
    pub fn invalid(&mut self, path: &FieldPath<'_>, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(FieldError::invalid(path, value, detail));
    }

    /// Adds one of the kind `Forbidden`.
    pub fn forbidden(&mut self, path: &FieldPath<'_>, detail: impl Into<String>) {
        self.push(FieldError::forbidden(path, detail));
    }

    /// Adds one of the kind `Duplicate`.
    pub fn duplicate(&mut self, path: &FieldPath<'_>, value: impl Into<Value>) {
        self.push(FieldError::duplicate(path, value));
    }

    /// Adds one of the kind `NotSupported`.
    pub fn not_supported(&mut self, path: &FieldPath<'_>, value: impl Into<Value>, supported: &[&str]) {
        self.push(FieldError::not_supported(path, value, supported.iter().copied()));
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The aggregate's text: the only error, or all of them in brackets; equal ones are said once.
    #[must_use]
    pub fn message(&self) -> String {
        let mut seen: Vec<String> = Vec::with_capacity(self.0.len());
        let mut known = HashSet::new();
        for error in &self.0 {
            let text = error.to_string();
            if known.insert(text.clone()) {
                seen.push(text);
            }
        }
        match seen.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        }
    }
}

impl From<FieldError> for Errors {
    fn from(error: FieldError) -> Self {
        Self(vec![error])
    }
}

impl FromIterator<FieldError> for Errors {
    fn from_iter<T: IntoIterator<Item = FieldError>>(iter: T) -> Self {
        Self(iter.into_iter().collect())
    }
}

/// A field error's `field` as compact text, for keys of maps.
impl From<&FieldPath<'_>> for Str {
    fn from(path: &FieldPath<'_>) -> Self {
        Str::from(path.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_messages_read_as_upstream() {
        let spec = FieldPath::new("spec");
        let containers = spec.child("containers");
        let first = containers.index(0);
        let check = |error: FieldError, expect: &str| assert_eq!(error.to_string(), expect);
        check(FieldError::required(&first.child("name"), ""), "spec.containers[0].name: Required value");
        check(FieldError::forbidden(&FieldPath::new(""), "no"), "[]: Forbidden: no");
        check(
            FieldError::invalid(&spec.child("labels").key("a b"), "x\n", "bad"),
            "spec.labels[a b]: Invalid value: \"x\\n\": bad",
        );
        check(
            FieldError::not_supported(&spec.child("type"), "Z", ["A", "B"]),
            "spec.type: Unsupported value: \"Z\": supported values: \"A\", \"B\"",
        );
        check(FieldError::too_many(&containers, 3, 1), "spec.containers: Too many: 3: must have at most 1 item");
        check(FieldError::invalid(&spec, Value::Null, "bad").without_value(), "spec: Invalid value: bad");
        check(
            FieldError::invalid(&spec, Value::Null, "bad").showing("{\"A\":1}"),
            "spec: Invalid value: {\"A\":1}: bad",
        );
    }
}
