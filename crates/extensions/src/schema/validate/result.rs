//! Validation results as in kube-openapi (`validate.Result`), and their conversion to field errors of a `Status`.

use std::collections::HashSet;
use std::fmt;

use pintle_value::field::{MAX_ERROR_BYTES, MAX_ERRORS};
use pintle_value::{Errors, FieldError, FieldPath, Value, print};

use crate::schema::value_path::ValuePath;

/// Up to this many errors are compared linearly.
const LINEAR_SEARCH_MAX: usize = 32;

/// The result of validating a value.
#[derive(Debug, Default)]
pub(super) struct ValidationResult {
    /// True if the value is invalid. This is the only information if errors are suppressed.
    failed: bool,
    /// The errors. They are boxed, because a result is created for every value and most results have no errors.
    failures: Option<Box<ValidationErrors>>,
    /// The number of successful checks. If all alternatives fail, the alternative with the most matches is reported.
    match_count: usize,
}

/// Errors, without repeated texts.
#[derive(Debug, Default)]
struct ValidationErrors {
    list: Vec<ValidationError>,
    /// The texts, indexed once there are many.
    known: HashSet<String>,
    /// The length of all texts and values, in bytes.
    bytes: usize,
    /// The number of further errors that were found.
    omitted: usize,
}

impl ValidationErrors {
    /// Whether further errors are only counted, as in [`Errors`].
    fn is_full(&self) -> bool {
        self.list.len() >= MAX_ERRORS || self.bytes >= MAX_ERROR_BYTES
    }

    fn push(&mut self, failure: ValidationError) {
        if self.is_full() {
            self.omitted += 1;
        } else if !self.is_known(&failure.text) {
            let value = failure.value.as_ref().and_then(Value::as_str).map_or(0, str::len);
            self.bytes += failure.text.len() + value;
            self.list.push(failure);
        }
    }

    fn append(&mut self, others: ValidationErrors) {
        self.omitted += others.omitted;
        others.list.into_iter().for_each(|failure| self.push(failure));
    }

    /// True if the text is already recorded. Records it otherwise.
    fn is_known(&mut self, text: &str) -> bool {
        if self.list.len() < LINEAR_SEARCH_MAX {
            return self.list.iter().any(|known| known.text == text);
        }
        if self.known.is_empty() {
            self.known.extend(self.list.iter().map(|known| known.text.clone()));
        }
        !self.known.insert(text.to_owned())
    }
}

/// A validation error.
#[derive(Debug)]
struct ValidationError {
    /// The path of the value; `None` if upstream has none.
    path: Option<String>,
    kind: ValidationErrorKind,
    /// The message, which identifies the error. The same text is not reported twice.
    text: String,
    value: Option<Value>,
}

#[derive(Debug)]
enum ValidationErrorKind {
    Invalid,
    Type,
    Required,
    /// The supported values.
    Enum(Vec<String>),
    /// The maximum.
    TooLong(i64),
    TooMany(i64),
}

impl ValidationResult {
    /// Adds the error `PATH in body MESSAGE`, with a value.
    pub(super) fn invalid(
        &mut self,
        path: &ValuePath<'_>,
        message: fmt::Arguments<'_>,
        value: impl Into<Option<Value>>,
    ) {
        self.fail(path, || ValidationError {
            path: Some(path.to_string()),
            kind: ValidationErrorKind::Invalid,
            text: format!("{path} in body {message}"),
            value: value.into(),
        });
    }

    /// Adds an error with a complete message, with a value.
    pub(super) fn invalid_with_message(
        &mut self,
        path: &ValuePath<'_>,
        text: fmt::Arguments<'_>,
        value: impl Into<Value>,
    ) {
        self.fail(path, || ValidationError {
            path: Some(path.to_string()),
            kind: ValidationErrorKind::Invalid,
            text: text.to_string(),
            value: Some(value.into()),
        });
    }

    /// Adds an error without a path.
    pub(super) fn add_without_path(&mut self, path: &ValuePath<'_>, text: fmt::Arguments<'_>) {
        self.fail(path, || ValidationError {
            path: None,
            kind: ValidationErrorKind::Invalid,
            text: text.to_string(),
            value: None,
        });
    }

    /// Adds an error for a value of the wrong type. `shown` is its actual type or its text.
    pub(super) fn wrong_type(&mut self, path: &ValuePath<'_>, ty: &str, shown: &str) {
        self.fail(path, || ValidationError {
            path: Some(path.to_string()),
            kind: ValidationErrorKind::Type,
            text: format!("{path} in body must be of type {ty}: {}", print::quote(shown)),
            value: Some(Value::from(shown)),
        });
    }

    pub(super) fn required(&mut self, path: &ValuePath<'_>) {
        self.fail(path, || ValidationError {
            path: Some(path.to_string()),
            kind: ValidationErrorKind::Required,
            text: format!("{path} in body is required"),
            value: None,
        });
    }

    pub(super) fn not_listed(&mut self, path: &ValuePath<'_>, value: &Value, listed: &[Value]) {
        self.fail(path, || {
            let show = |value: &Value| value.as_str().map_or_else(|| print::json(value), str::to_owned);
            let listed: Vec<String> = listed.iter().map(show).collect();
            let text = format!("{path} in body should be one of [{}]", listed.join(" "));
            ValidationError {
                path: Some(path.to_string()),
                kind: ValidationErrorKind::Enum(listed),
                text,
                value: Some(value.clone()),
            }
        });
    }

    pub(super) fn too_long(&mut self, path: &ValuePath<'_>, max: i64) {
        self.fail(path, || ValidationError {
            path: Some(path.to_string()),
            kind: ValidationErrorKind::TooLong(max),
            text: format!("{path} in body should be at most {max} chars long"),
            value: None,
        });
    }

    /// Adds an error for too many `things`: items or properties.
    pub(super) fn too_many(&mut self, path: &ValuePath<'_>, things: &str, count: usize, max: i64) {
        self.fail(path, || ValidationError {
            path: Some(path.to_string()),
            kind: ValidationErrorKind::TooMany(max),
            text: format!("{path} in body should have at most {max} {things}"),
            value: Some(size(count)),
        });
    }

    fn fail(&mut self, path: &ValuePath<'_>, failure: impl FnOnce() -> ValidationError) {
        self.failed = true;
        if !path.is_silent() {
            let failures = self.failures.get_or_insert_default();
            if failures.is_full() {
                failures.omitted += 1;
            } else {
                failures.push(failure());
            }
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        !self.failed
    }

    pub(super) fn match_count(&self) -> usize {
        self.match_count
    }

    /// Counts a successful check.
    pub(super) fn increment_match_count(&mut self) {
        self.match_count += 1;
    }

    /// Merges another result.
    pub(super) fn merge(&mut self, other: ValidationResult) {
        self.match_count += other.match_count;
        self.failed |= other.failed;
        match (&mut self.failures, other.failures) {
            (Some(failures), Some(others)) => failures.append(*others),
            (None, others) => self.failures = others,
            (Some(_), None) => {}
        }
    }

    /// Merges the result of one check, which itself counts as a match.
    pub(super) fn merge_and_count(&mut self, other: ValidationResult) {
        self.merge(other);
        self.increment_match_count();
    }

    /// Removes all errors.
    pub(super) fn clear(&mut self) {
        self.failed = false;
        self.failures = None;
    }

    /// Converts the result to field errors of an object, or of one of its fields.
    pub(super) fn errors(self, field: Option<&str>) -> Errors {
        let Some(failures) = self.failures else { return Errors::new() };
        let mut errors: Errors = failures.list.into_iter().map(|failure| failure.error(field)).collect();
        errors.omit(failures.omitted);
        errors
    }
}

impl ValidationError {
    /// Converts the error to a field error of an object, or of one of its fields.
    fn error(self, field: Option<&str>) -> FieldError {
        let base = field.map(FieldPath::new);
        let name = self.path.as_deref().unwrap_or_default();
        let name = name.strip_prefix('.').unwrap_or(name);
        let path = match &base {
            // Upstream has no path for the object as a whole, and prints `<nil>`.
            None if name.is_empty() => FieldPath::new("<nil>"),
            None => FieldPath::new(name),
            Some(base) if name.is_empty() => *base,
            Some(base) => base.child(name),
        };
        // A missing value is shown as an empty string.
        let value = self.value.unwrap_or_else(|| Value::from(""));
        let most = |max: i64| usize::try_from(max).unwrap_or(0);
        match self.kind {
            ValidationErrorKind::Invalid => FieldError::invalid(&path, value, self.text),
            ValidationErrorKind::Type => FieldError::type_invalid(&path, value, self.text),
            ValidationErrorKind::Required => FieldError::required(&path, ""),
            ValidationErrorKind::Enum(values) => {
                FieldError::not_supported(&path, value, values.iter().map(String::as_str))
            }
            ValidationErrorKind::TooLong(max) => FieldError::too_long(&path, most(max)),
            ValidationErrorKind::TooMany(max) => {
                let mut error = FieldError::too_many(&path, 0, most(max));
                error.value = value;
                error
            }
        }
    }
}

/// Converts a number of items to a value.
pub(super) fn size(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}
