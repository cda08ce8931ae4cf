//! Field paths and field errors with the messages of apimachinery's `field` package, which clients match on.

use std::collections::HashSet;
use std::fmt;

use pintle_budget as budget;

use crate::{Str, Value, print};

pub use crate::print::quote;

/// A path such as `spec.containers[0].name`. It is built on the stack and printed only for an error.
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
    /// The path of the object itself, which prints as an empty string.
    #[must_use]
    pub const fn root() -> FieldPath<'static> {
        FieldPath { parent: None, segment: Segment::Root }
    }

    /// A path that starts with a field of the object. The name may contain dots: `metadata.name`. An empty name is
    /// upstream's path for errors about the whole object, and prints as `[]`.
    #[must_use]
    pub const fn new(name: &'a str) -> Self {
        FieldPath { parent: None, segment: Segment::Name(name) }
    }

    /// Returns whether this is the path of the object itself.
    #[must_use]
    pub const fn is_root(&self) -> bool {
        matches!(self.segment, Segment::Root)
    }

    /// The path of a field of this one.
    #[must_use]
    pub const fn child(&'a self, name: &'a str) -> FieldPath<'a> {
        FieldPath { parent: Some(self), segment: Segment::Name(name) }
    }

    /// The path of a list item.
    #[must_use]
    pub const fn index(&'a self, index: usize) -> FieldPath<'a> {
        FieldPath { parent: Some(self), segment: Segment::Index(index) }
    }

    /// The path of a map value.
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
            // For the whole object, upstream creates a path with an empty name, which prints as an empty index.
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

/// The type of a field error, which determines the `reason` of a `StatusCause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A referenced value does not exist.
    NotFound,
    /// The field must be set.
    Required,
    /// A value that must be unique is not.
    Duplicate,
    /// The value is malformed.
    Invalid,
    /// The value is not one of the supported values.
    NotSupported,
    /// The value is well formed but forbidden here.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// The value is too short.
    TooShort,
    /// There are too many items.
    TooMany,
    /// There are too few items.
    TooFew,
    /// An internal error of the server.
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

    /// The start of the message.
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

    const fn includes_value(self) -> bool {
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

/// An error in one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The error type.
    pub kind: ErrorKind,
    /// The path of the field.
    pub field: String,
    /// The invalid value, which is printed if the error type includes it.
    pub value: Value,
    /// The rest of the message; may be empty.
    pub detail: String,
    /// The text to print in place of `value`, where upstream prints something other than the JSON of the tree (its
    /// internal structs, in field order). If empty, no value is printed.
    pub shown: Option<String>,
    /// True if a validation rule in beta found the error, which replaces the same error of code (upstream:
    /// `declarativeValidationStabilityLevel`).
    pub is_beta: bool,
}

impl FieldError {
    /// Creates an error of any type.
    pub fn new(kind: ErrorKind, path: &FieldPath<'_>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self { kind, field: path.to_string(), value: value.into(), detail: detail.into(), shown: None, is_beta: false }
    }

    /// Replaces the printed value by this text.
    #[must_use]
    pub fn showing(mut self, text: impl Into<String>) -> Self {
        self.shown = Some(text.into());
        self
    }

    /// Omits the value from the message (upstream: `field.OmitValueType`).
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

    /// `path: Invalid value: "x": detail`, for a value of the wrong type. Only the reason differs from `Invalid`.
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

    /// `path: Unsupported value: "x": supported values: "a", "b"`. The values are printed in the given order; upstream
    /// sorts them where they come from a set.
    pub fn not_supported<'v>(
        path: &FieldPath<'_>,
        value: impl Into<Value>,
        supported: impl IntoIterator<Item = &'v str>,
    ) -> Self {
        let quoted: Vec<String> = supported.into_iter().map(quote).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        Self::new(ErrorKind::NotSupported, path, value, detail)
    }

    /// The approximate length of the error's text, in bytes. The value is measured up to `max`.
    fn text_bytes(&self, max: usize) -> usize {
        let shown = match &self.shown {
            Some(shown) => shown.len(),
            None => printed_bytes(&self.value, max),
        };
        self.field.len() + self.detail.len() + shown
    }

    /// The message without the path, for a `StatusCause`.
    #[must_use]
    pub fn body(&self) -> String {
        let mut text = self.kind.text().to_owned();
        // The message for too many items includes their number, if it is known.
        if self.kind.includes_value() || (self.kind == ErrorKind::TooMany && !self.value.is_null()) {
            match self.shown.as_deref() {
                Some("") => {}
                Some(shown) => {
                    text.push_str(": ");
                    text.push_str(shown);
                }
                None => {
                    text.push_str(": ");
                    // Upstream has types of their own for enumerated texts, and prints such a value as JSON.
                    let is_enumerated = self.kind == ErrorKind::NotSupported;
                    text.push_str(&if is_enumerated { print::json(&self.value) } else { print_value(&self.value) });
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

/// The approximate length of a value's JSON, in bytes. More than `max` is not measured.
fn printed_bytes(value: &Value, max: usize) -> usize {
    const SCALAR: usize = 8;
    let mut bytes = SCALAR;
    match value {
        Value::String(text) => bytes += text.len(),
        Value::Array(items) => {
            for item in items {
                if bytes > max {
                    break;
                }
                bytes += printed_bytes(item, max - bytes);
            }
        }
        Value::Object(object) => {
            for (key, value) in object.iter() {
                if bytes > max {
                    break;
                }
                bytes += key.len() + printed_bytes(value, max - bytes);
            }
        }
        _ => {}
    }
    bytes
}

/// Prints a value for an error message: simple values plain, strings quoted, composite values as JSON.
fn print_value(value: &Value) -> String {
    match value {
        Value::Float(x) => print::plain_float(*x),
        Value::String(text) => quote(text),
        other => print::json(other),
    }
}

/// The maximum number of errors that a list keeps.
pub const MAX_ERRORS: usize = 1000;
/// The maximum length of the texts that a list keeps, in bytes, unless the first error alone is longer. Errors repeat
/// values.
pub const MAX_ERROR_BYTES: usize = 1 << 20;

/// The errors of one object in the order in which they were found (`field.ErrorList`). Upstream keeps all of them. This
/// list keeps the first and counts the others, so that a small object with many errors does not become a large answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Errors {
    kept: Vec<FieldError>,
    /// The approximate length of the errors' texts together, in bytes.
    bytes: usize,
    omitted: usize,
}

impl Errors {
    /// Creates an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { kept: Vec::new(), bytes: 0, omitted: 0 }
    }

    /// Appends an error, or counts it if there are too many.
    pub fn push(&mut self, error: FieldError) {
        // A later check finds out whether the time is over, before the errors are used.
        let _ = budget::step();
        let left = MAX_ERROR_BYTES.saturating_sub(self.bytes);
        let bytes = error.text_bytes(left);
        if self.is_full() {
            self.omitted += 1;
        } else if bytes > left && !self.kept.is_empty() {
            // The next errors are not even built.
            self.bytes = MAX_ERROR_BYTES;
            self.omitted += 1;
        } else {
            self.bytes = self.bytes.saturating_add(bytes);
            self.kept.push(error);
        }
    }

    /// Appends an error that is expensive to build, which is done only if the list keeps it.
    pub fn push_with(&mut self, error: impl FnOnce() -> FieldError) {
        if self.is_full() { self.omitted += 1 } else { self.push(error()) }
    }

    /// Counts found errors that the list does not keep.
    pub fn omit(&mut self, count: usize) {
        self.omitted += count;
    }

    /// Whether further errors are only counted.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kept.len() >= MAX_ERRORS || self.bytes >= MAX_ERROR_BYTES
    }

    /// Appends the errors of another list.
    pub fn append(&mut self, others: Errors) {
        if self.is_empty() {
            *self = others;
        } else {
            self.omitted += others.omitted;
            others.kept.into_iter().for_each(|error| self.push(error));
        }
    }

    /// Appends an error of type `Required`.
    pub fn required(&mut self, path: &FieldPath<'_>, detail: impl Into<String>) {
        self.push_with(|| FieldError::required(path, detail));
    }

    /// Appends an error of type `Invalid`.
    pub fn invalid(&mut self, path: &FieldPath<'_>, value: impl Into<Value>, detail: impl Into<String>) {
        self.push_with(|| FieldError::invalid(path, value, detail));
    }

    /// Appends an error of type `Forbidden`.
    pub fn forbidden(&mut self, path: &FieldPath<'_>, detail: impl Into<String>) {
        self.push_with(|| FieldError::forbidden(path, detail));
    }

    /// Appends an error of type `Duplicate`.
    pub fn duplicate(&mut self, path: &FieldPath<'_>, value: impl Into<Value>) {
        self.push_with(|| FieldError::duplicate(path, value));
    }

    /// Appends an error of type `NotSupported`.
    pub fn not_supported(&mut self, path: &FieldPath<'_>, value: impl Into<Value>, supported: &[&str]) {
        self.push_with(|| FieldError::not_supported(path, value, supported.iter().copied()));
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The number of errors that were found, including errors that were only counted.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept.len() + self.omitted
    }

    /// The number of errors that were only counted.
    #[must_use]
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// The errors that are kept.
    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.kept.iter()
    }

    /// Changes the fields or values of the errors that are kept.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, FieldError> {
        self.kept.iter_mut()
    }

    /// Drops errors that are kept.
    pub fn retain(&mut self, keep: impl FnMut(&FieldError) -> bool) {
        self.kept.retain(keep);
    }

    /// Sorts the errors by their texts.
    pub fn sort_by_text(&mut self) {
        self.kept.sort_by_cached_key(ToString::to_string);
    }

    /// The aggregated message (`ToAggregate`): the only error, or all of them in brackets, each once. It ends with the
    /// number of errors that are not kept.
    #[must_use]
    pub fn message(&self) -> String {
        let mut messages: Vec<String> = Vec::with_capacity(self.kept.len());
        let mut seen = HashSet::new();
        for error in &self.kept {
            let text = error.to_string();
            if seen.insert(text.clone()) {
                messages.push(text);
            }
        }
        if self.omitted > 0 {
            messages.push(format!("… and {} more", self.omitted));
        }
        match messages.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        }
    }
}

impl From<FieldError> for Errors {
    fn from(error: FieldError) -> Self {
        let mut errors = Self::new();
        errors.push(error);
        errors
    }
}

impl FromIterator<FieldError> for Errors {
    fn from_iter<T: IntoIterator<Item = FieldError>>(iter: T) -> Self {
        let mut errors = Self::new();
        iter.into_iter().for_each(|error| errors.push(error));
        errors
    }
}

impl<'e> IntoIterator for &'e Errors {
    type Item = &'e FieldError;
    type IntoIter = std::slice::Iter<'e, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The printed path as a compact string, for map keys.
impl From<&FieldPath<'_>> for Str {
    fn from(path: &FieldPath<'_>) -> Self {
        Str::from(path.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_beyond_a_limit_are_counted() {
        let path = FieldPath::new("spec");
        let mut errors: Errors = (0..MAX_ERRORS + 5).map(|i| FieldError::required(&path, i.to_string())).collect();
        assert_eq!((errors.iter().count(), errors.count(), errors.omitted()), (MAX_ERRORS, MAX_ERRORS + 5, 5));
        errors.append(Errors::from(FieldError::required(&path, "")));
        assert!(errors.message().ends_with("999, … and 6 more]"), "{}", errors.message());
        let large = Value::from("x".repeat(MAX_ERROR_BYTES / 3).as_str());
        let mut errors = Errors::new();
        for i in 0..10 {
            errors.invalid(&path, large.clone(), i.to_string());
        }
        assert_eq!((errors.iter().count(), errors.count()), (2, 10));
        errors.push_with(|| unreachable!("an error did not fit"));
        let larger = Value::Array(vec![large; 10]);
        let mut errors = Errors::from(FieldError::invalid(&path, larger.clone(), "the first is kept"));
        errors.push_with(|| unreachable!("the list is full"));
        assert_eq!((errors.iter().count(), errors.count()), (1, 2));
    }

    #[test]
    fn paths_and_messages_match_upstream() {
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
