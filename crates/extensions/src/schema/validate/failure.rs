//! What was found, as kube-openapi keeps it, and what becomes of it in a `Status`.

use std::collections::HashSet;
use std::fmt;

use pintle_value::{Errors, FieldError, FieldPath, Value, print};

use crate::schema::path::Path;

/// Up to so many failures are compared one by one.
const FEW: usize = 32;

/// The outcome of judging a value.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// True if something is wrong. Where nothing is to be said, this is all that is known.
    failed: bool,
    /// Boxed: outcomes are made for every value, and mostly nothing is wrong.
    failures: Option<Box<Failures>>,
    /// How much fitted. Of alternatives that all failed, the one in which most fitted is reported.
    matches: usize,
}

/// What is wrong, each text once.
#[derive(Debug, Default)]
struct Failures {
    list: Vec<Failure>,
    /// The texts, once there are many.
    known: HashSet<String>,
}

impl Failures {
    fn push(&mut self, failure: Failure) {
        if !self.is_known(&failure.text) {
            self.list.push(failure);
        }
    }

    /// True if a text is known; it is from now on.
    fn is_known(&mut self, text: &str) -> bool {
        if self.list.len() < FEW {
            return self.list.iter().any(|known| known.text == text);
        }
        if self.known.is_empty() {
            self.known.extend(self.list.iter().map(|known| known.text.clone()));
        }
        !self.known.insert(text.to_owned())
    }
}

/// One thing that is wrong.
#[derive(Debug)]
struct Failure {
    /// The path of the value; `None` where upstream does not say.
    path: Option<String>,
    kind: Kind,
    /// What it is known by: the same text is not reported twice.
    text: String,
    value: Option<Value>,
}

#[derive(Debug)]
enum Kind {
    Invalid,
    Type,
    Required,
    /// The values that there are.
    Enum(Vec<String>),
    /// The most there may be.
    TooLong(i64),
    TooMany(i64),
}

impl Outcome {
    /// Adds `PATH in body SAYING`, shown with a value.
    pub(super) fn invalid(&mut self, path: &Path<'_>, saying: fmt::Arguments<'_>, value: impl Into<Option<Value>>) {
        self.fail(path, || Failure {
            path: Some(path.to_string()),
            kind: Kind::Invalid,
            text: format!("{path} in body {saying}"),
            value: value.into(),
        });
    }

    /// Adds a text of its own, shown with a value.
    pub(super) fn saying(&mut self, path: &Path<'_>, text: fmt::Arguments<'_>, value: impl Into<Value>) {
        self.fail(path, || Failure {
            path: Some(path.to_string()),
            kind: Kind::Invalid,
            text: text.to_string(),
            value: Some(value.into()),
        });
    }

    /// Adds a text that is not of any path.
    pub(super) fn loose(&mut self, path: &Path<'_>, text: fmt::Arguments<'_>) {
        self.fail(path, || Failure { path: None, kind: Kind::Invalid, text: text.to_string(), value: None });
    }

    /// The value is not of the type: `shown` is what it is, or what it says.
    pub(super) fn wrong_type(&mut self, path: &Path<'_>, ty: &str, shown: &str) {
        self.fail(path, || Failure {
            path: Some(path.to_string()),
            kind: Kind::Type,
            text: format!("{path} in body must be of type {ty}: {}", print::quote(shown)),
            value: Some(Value::from(shown)),
        });
    }

    pub(super) fn required(&mut self, path: &Path<'_>) {
        self.fail(path, || Failure {
            path: Some(path.to_string()),
            kind: Kind::Required,
            text: format!("{path} in body is required"),
            value: None,
        });
    }

    pub(super) fn not_listed(&mut self, path: &Path<'_>, value: &Value, listed: &[Value]) {
        self.fail(path, || {
            let show = |value: &Value| value.as_str().map_or_else(|| print::json(value), str::to_owned);
            let listed: Vec<String> = listed.iter().map(show).collect();
            let text = format!("{path} in body should be one of [{}]", listed.join(" "));
            Failure { path: Some(path.to_string()), kind: Kind::Enum(listed), text, value: Some(value.clone()) }
        });
    }

    pub(super) fn too_long(&mut self, path: &Path<'_>, max: i64) {
        self.fail(path, || Failure {
            path: Some(path.to_string()),
            kind: Kind::TooLong(max),
            text: format!("{path} in body should be at most {max} chars long"),
            value: None,
        });
    }

    /// Too many `things`: items or properties.
    pub(super) fn too_many(&mut self, path: &Path<'_>, things: &str, count: usize, max: i64) {
        self.fail(path, || Failure {
            path: Some(path.to_string()),
            kind: Kind::TooMany(max),
            text: format!("{path} in body should have at most {max} {things}"),
            value: Some(size(count)),
        });
    }

    fn fail(&mut self, path: &Path<'_>, failure: impl FnOnce() -> Failure) {
        self.failed = true;
        if !path.is_silent() {
            self.failures.get_or_insert_default().push(failure());
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        !self.failed
    }

    pub(super) fn matches(&self) -> usize {
        self.matches
    }

    /// Counts something that fitted.
    pub(super) fn matched(&mut self) {
        self.matches += 1;
    }

    /// Adds another outcome.
    pub(super) fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        self.failed |= other.failed;
        match (&mut self.failures, other.failures) {
            (Some(failures), Some(others)) => others.list.into_iter().for_each(|failure| failures.push(failure)),
            (None, others) => self.failures = others,
            (Some(_), None) => {}
        }
    }

    /// Adds the outcome of one check, which counts as one.
    pub(super) fn step(&mut self, other: Outcome) {
        self.merge(other);
        self.matched();
    }

    /// Lets what is wrong through.
    pub(super) fn forgive(&mut self) {
        self.failed = false;
        self.failures = None;
    }

    /// As field errors of an object, or of a field of it.
    pub(super) fn errors(self, field: Option<&str>) -> Errors {
        self.failures.into_iter().flat_map(|failures| failures.list).map(|failure| failure.error(field)).collect()
    }
}

impl Failure {
    /// As a field error of an object, or of a field of it.
    fn error(self, field: Option<&str>) -> FieldError {
        let base = field.map(FieldPath::new);
        let name = self.path.as_deref().unwrap_or_default();
        let name = name.strip_prefix('.').unwrap_or(name);
        let path = match &base {
            // Upstream has no path for the object as a whole, and prints that.
            None if name.is_empty() => FieldPath::new("<nil>"),
            None => FieldPath::new(name),
            Some(base) if name.is_empty() => *base,
            Some(base) => base.child(name),
        };
        // What has no value is shown as an empty text.
        let value = self.value.unwrap_or_else(|| Value::from(""));
        let most = |max: i64| usize::try_from(max).unwrap_or(0);
        match self.kind {
            Kind::Invalid => FieldError::invalid(&path, value, self.text),
            Kind::Type => FieldError::type_invalid(&path, value, self.text),
            Kind::Required => FieldError::required(&path, ""),
            Kind::Enum(values) => FieldError::not_supported(&path, value, values.iter().map(String::as_str)),
            Kind::TooLong(max) => FieldError::too_long(&path, most(max)),
            Kind::TooMany(max) => {
                let mut error = FieldError::too_many(&path, 0, most(max));
                error.value = value;
                error
            }
        }
    }
}

/// A number of items as a value.
pub(super) fn size(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}
