//! Query parameters and the options that they carry (`ListOptions`, `CreateOptions`, …), validated with upstream's
//! errors.

mod delete;
mod list;

pub(crate) use delete::{DeleteOptions, IGNORE_READ_ERROR, Preconditions};
pub(crate) use list::{ListOptions, VersionMatch};

use pintle_admission::{AdmissionOperation, RequestOptions};
use pintle_registry::{ApiError, GroupVersionKind};
use pintle_value::{Errors, FieldPath, Value, object};

/// A decoded query string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes a query string (`application/x-www-form-urlencoded`). Like Go's `url.URL.Query`, it leaves out
    /// parameters with a semicolon or a malformed escape.
    #[must_use]
    pub(crate) fn parse(query: &str) -> Self {
        let decode = |text: &str| {
            let text = text.replace('+', " ");
            percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
        };
        let pairs = query.split('&').filter(|pair| !pair.is_empty() && is_well_formed(pair)).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Self(pairs.collect())
    }

    /// The first value of a parameter.
    #[must_use]
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// All parameters in the order of the query.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A boolean as upstream parses it: true if the parameter is present and neither `false` nor `0`.
    #[must_use]
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.optional_flag(key).unwrap_or(false)
    }

    fn optional_flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    fn text(&self, key: &str) -> String {
        self.get(key).unwrap_or_default().to_owned()
    }

    fn integer(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        match go_integer(text) {
            Ok(value) => Ok(Some(value)),
            Err(why) => Err(ApiError::BadRequest(format!(
                "strconv.ParseInt: parsing {}: {why}",
                pintle_value::field::quote(text)
            ))),
        }
    }
}

/// False for a parameter that Go's `url.ParseQuery` refuses.
fn is_well_formed(pair: &str) -> bool {
    let is_escape =
        |rest: &str| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    !pair.contains(';') && pair.split('%').skip(1).all(is_escape)
}

/// Parses an integer like Go's `strconv.ParseInt(text, 10, 64)`.
pub(crate) fn go_integer(text: &str) -> Result<i64, &'static str> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    text.parse().map_err(|_| "value out of range")
}

/// Parses a resourceVersion like Go's `strconv.ParseUint(text, 10, 64)`.
///
/// # Errors
/// Returns Go's error message.
pub(crate) fn parse_revision(text: &str) -> Result<u64, String> {
    let why = if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        "invalid syntax"
    } else {
        match text.parse() {
            Ok(revision) => return Ok(revision),
            Err(_) => "value out of range",
        }
    };
    Err(format!("strconv.ParseUint: parsing {}: {why}", pintle_value::field::quote(text)))
}

/// Parses a resourceVersion parameter. An empty text is `None`, and 0 is `Some(0)`.
///
/// # Errors
/// Returns upstream's message if the text is malformed.
pub(crate) fn revision_parameter(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    parse_revision(text)
        .map(Some)
        .map_err(|why| format!("resourceVersion: Invalid value: {}: {why}", pintle_value::field::quote(text)))
}

/// The treatment of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Ignore such fields.
    Ignore,
    /// Add warnings to the response: the default.
    #[default]
    Warn,
    /// Reject the request.
    Strict,
}

impl FieldValidation {
    /// The value of `fieldValidation`.
    const fn name(self) -> &'static str {
        match self {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        }
    }
}

fn check_errors(kind: &str, errors: Errors) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid { kind: GroupVersionKind::new("meta.k8s.io", "v1", kind), name: "".into(), errors })
}

/// The kind of write to which options belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriteVerb {
    /// A create.
    #[default]
    Create,
    /// An update.
    Update,
    /// A patch other than server-side apply.
    Patch,
    /// Server-side apply.
    Apply,
}

impl WriteVerb {
    /// The kind of the options object.
    fn options_kind(self) -> &'static str {
        match self {
            WriteVerb::Create => "CreateOptions",
            WriteVerb::Update => "UpdateOptions",
            WriteVerb::Patch | WriteVerb::Apply => "PatchOptions",
        }
    }
}

/// The options of create, update and patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    /// The kind of write.
    pub(crate) verb: WriteVerb,
    /// True if nothing is persisted.
    pub(crate) dry_run: bool,
    /// The name of the field manager; may be empty.
    pub(crate) field_manager: String,
    /// The treatment of unknown and duplicate fields.
    pub(crate) field_validation: FieldValidation,
    /// True if the client sets `fieldValidation`.
    pub(crate) names_field_validation: bool,
    /// True to take over conflicting fields; server-side apply only.
    pub(crate) force: bool,
}

impl WriteOptions {
    /// Reads and validates the options.
    ///
    /// # Errors
    /// Returns an error if a value is invalid.
    pub(crate) fn read(query: &Query, verb: WriteVerb) -> Result<Self, ApiError> {
        let mut errors = Errors::new();
        let force = query.optional_flag("force");
        let field_manager = query.text("fieldManager");
        let manager = FieldPath::new("fieldManager");
        match verb {
            WriteVerb::Apply if field_manager.is_empty() => errors.required(&manager, "is required for apply patch"),
            WriteVerb::Patch if force.is_some() => {
                errors.forbidden(&FieldPath::new("force"), "may not be specified for non-apply patch");
            }
            _ => {}
        }
        errors.append(pintle_value::metadata::validate_field_manager(&field_manager, &manager));
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let level = query.get("fieldValidation").unwrap_or_default();
        let field_validation = match level {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let path = FieldPath::new("fieldValidation");
                errors.not_supported(&path, other, &["", "Ignore", "Strict", "Warn"]);
                FieldValidation::Warn
            }
        };
        check_errors(verb.options_kind(), errors)?;
        let (force, names_field_validation) = (force.unwrap_or(false), !level.is_empty());
        Ok(Self { verb, dry_run, field_manager, field_validation, names_field_validation, force })
    }
}

impl RequestOptions for WriteOptions {
    fn to_object(&self, operation: AdmissionOperation) -> Value {
        let kind = if operation == AdmissionOperation::Create { "CreateOptions" } else { "UpdateOptions" };
        let mut object = options_object(kind);
        if self.dry_run {
            object.set("dryRun", vec!["All"]);
        }
        if !self.field_manager.is_empty() {
            object.set("fieldManager", self.field_manager.as_str());
        }
        if self.names_field_validation {
            object.set("fieldValidation", self.field_validation.name());
        }
        object
    }
}

/// Creates an options object of `meta.k8s.io/v1`.
fn options_object(kind: &str) -> Value {
    object! { "kind": kind, "apiVersion": "meta.k8s.io/v1" }
}

fn dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut Errors) -> bool {
    let values: Vec<&str> = values.collect();
    if !values.is_empty() && values.iter().any(|v| *v != "All") {
        let list: Vec<Value> = values.iter().map(|v| Value::from(*v)).collect();
        errors.not_supported(&FieldPath::new("dryRun"), list, &["All"]);
    }
    !values.is_empty()
}
