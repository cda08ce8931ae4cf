//! Decodes request bodies: checks the kind, normalises the tree to the kind's schema, reports unknown and duplicate
//! fields as the client asks, and sets defaults.

use std::sync::Arc;

use pintle_catalog::Catalog;
use pintle_codec::{json, protobuf, yaml};
use pintle_registry::{ApiError, GroupVersion, Resource};
use pintle_schema::{Problems, Schema};
use pintle_value::metadata::MANAGED_FIELDS;
use pintle_value::print::quote;
use pintle_value::{Str, Value};

use super::{BuiltIn, ObjectModel, Shape, decode_cbor, model};
use crate::request::negotiate::Encoding;
use crate::request::query::FieldValidation;
use crate::request::recorder::Recorder;
use crate::request::trace::Step;
use crate::request::work_memory::budget_error;

/// The expected kind of a body: the kind of a resource, or another kind with a schema (`Scale`, `DeleteOptions`).
#[derive(Clone)]
pub(crate) struct ExpectedKind<'a> {
    pub(crate) group_version: GroupVersion,
    /// Another version of the kind, with the same fields, in which a body is accepted.
    pub(crate) accepts: Option<&'a GroupVersion>,
    pub(crate) kind: &'a str,
    pub(crate) schema: &'a Schema,
    /// The resource, if the kind belongs to one.
    pub(crate) resource: Option<&'a Arc<Resource>>,
    /// The model that the kind follows.
    pub(crate) model: &'static dyn ObjectModel,
    /// The scheme that decodes the kind.
    pub(crate) scheme: &'static KindScheme,
}

/// A set of kinds that upstream decodes together (upstream: `runtime.Scheme`).
pub(crate) struct KindScheme {
    /// The name of the scheme in messages: the place in upstream's source that creates it.
    pub(crate) name: &'static str,
    /// The versions whose kinds the scheme knows. Without any, it knows all versions.
    versions: &'static [&'static str],
    /// More kinds that the scheme knows, with their versions.
    more_kinds: &'static [(&'static str, &'static str)],
    /// True if the scheme converts an object by way of the kind's internal type.
    has_internal_types: bool,
    /// True if an apply can compare an object that has no managers with an empty object.
    pub(crate) has_empty_objects: bool,
    /// The error of a request whose body cannot be decoded, if the error does not depend on the reason.
    error: Option<&'static str>,
}

impl KindScheme {
    /// The scheme of all built-in kinds.
    pub(crate) const LEGACY: Self = Self {
        name: "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30",
        versions: &[],
        more_kinds: &[],
        has_internal_types: true,
        has_empty_objects: true,
        error: None,
    };

    /// The scheme of the scales of custom resources (upstream: `scale.NewScaleConverter`). Upstream asks the scheme of
    /// the resource's parameters for the kind of a scale. The error is the error of that scheme.
    pub(crate) const CUSTOM_SCALE: Self = Self {
        name: "k8s.io/client-go/scale/util.go:146",
        versions: &["autoscaling/v1"],
        more_kinds: &[("apps/v1beta1", "Scale"), ("apps/v1beta2", "Scale"), ("extensions/v1beta1", "Scale")],
        has_internal_types: false,
        // The empty object is an object of the custom resource, which has no such version.
        has_empty_objects: false,
        error: Some(
            "no kind is registered for the type v1.Scale in scheme \"k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go:781\"",
        ),
    };

    /// True if the scheme knows a kind.
    fn knows(&self, catalog: &Catalog, group_version: &GroupVersion, kind: &str) -> bool {
        let version = group_version.to_string();
        if self.more_kinds.contains(&(&version, kind)) {
            return true;
        }
        let is_known_version = self.versions.is_empty() || self.versions.contains(&&*version);
        is_known_version && catalog.kind_type(&group_version.group, &group_version.version, kind).is_some()
    }
}

impl<'a> ExpectedKind<'a> {
    /// The kind of a resource.
    pub(crate) fn of(resource: &'a Arc<Resource>) -> Self {
        let (kind, schema) = (resource.kind.as_str(), &*resource.schema);
        let group_version = resource.group_version();
        let (model, scheme) = (model(resource), &KindScheme::LEGACY);
        Self { group_version, accepts: None, kind, schema, resource: Some(resource), model, scheme }
    }

    /// A built-in kind without a resource of its own (`Scale`, `DeleteOptions`).
    pub(crate) fn of_type(group_version: GroupVersion, kind: &'a str, schema: &'a Schema) -> Self {
        let scheme = &KindScheme::LEGACY;
        Self { group_version, accepts: None, kind, schema, resource: None, model: &BuiltIn, scheme }
    }

    /// Sets `kind` and `apiVersion`.
    pub(crate) fn set_type(&self, value: &mut Value) {
        value.set("kind", self.kind);
        value.set("apiVersion", self.group_version.to_string());
    }

    /// The shape in which the kind is encoded.
    pub(crate) fn shape(&self) -> Shape<'a> {
        self.model.shape(self.schema)
    }

    /// Sets the defaults of the kind.
    pub(crate) fn set_defaults(&self, value: &mut Value) {
        if let Some(resource) = self.resource {
            set_defaults(resource, value);
        }
    }

    /// Sets the defaults of an object that was made by changing `live`. The object `live` already has its defaults.
    pub(crate) fn set_defaults_of_changed(&self, value: &mut Value, live: &Value) {
        if let Some(resource) = self.resource {
            self.model.set_schema_defaults(self.schema, value, Some(live));
            resource.strategy.defaults_of_changed(value, live);
        }
    }

    /// Brings a tree into the form in which the kind is encoded. An empty list of managed fields is preserved, although
    /// encoding would omit it: it resets the managed fields (upstream: `isResetManagedFields`). An unstructured object
    /// loses the list when its metadata is coerced. `normal` is the object, already in this form, from a copy of which
    /// the tree was made.
    pub(crate) fn normalise(&self, value: &mut Value, normal: Option<&Value>) -> Problems {
        let resets = !self.model.requires_type()
            && value.at(&MANAGED_FIELDS).and_then(Value::as_array).is_some_and(Vec::is_empty);
        let found = self.model.normalise(self.schema, self.resource.map(|resource| &**resource), value, normal);
        if resets {
            value.set_at(&MANAGED_FIELDS, Vec::<Value>::new());
        }
        found
    }

    pub(crate) fn undecodable(&self, why: String) -> DecodeError {
        DecodeError::Undecodable { kind: self.kind.to_owned(), version: self.group_version.version.clone(), why }
    }

    /// The error of strict decoding for a field. Upstream's decoder of custom resources does not escape the field's
    /// name.
    fn unknown_field(&self, path: &str) -> String {
        match self.model.requires_type() {
            true => format!("unknown field \"{path}\""),
            false => format!("unknown field {}", quote(path)),
        }
    }

    /// The error for a tree with unknown or duplicate fields. The tree was decoded, so upstream's message for an
    /// unstructured object names the kind of the body.
    fn not_strict(&self, value: &Value, why: String) -> DecodeError {
        match self.undecodable_value(value, why) {
            DecodeError::Undecodable { kind, version, why } => DecodeError::NotStrict { kind, version, why },
            error => error,
        }
    }

    /// The error for a tree that names its own type.
    pub(crate) fn undecodable_value(&self, value: &Value, why: String) -> DecodeError {
        if !self.model.requires_type() || value.kind().is_empty() {
            return self.undecodable(why);
        }
        let version = GroupVersion::parse(value.api_version()).unwrap_or_default().version;
        DecodeError::Undecodable { kind: value.kind().to_owned(), version, why }
    }
}

/// The reason why a body is not an object of the expected kind, with the messages of upstream's decoders.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// The body is malformed, or its kind cannot be determined.
    Unrecognized(String),
    /// The kind is known, but the body does not match its schema.
    Undecodable { kind: String, version: Str, why: String },
    /// The body was decoded, but has unknown or duplicate fields.
    NotStrict { kind: String, version: Str, why: String },
    /// The body has another version of the kind.
    VersionMismatch(String),
    /// The body has no kind.
    MissingKind,
}

impl DecodeError {
    pub(crate) fn unexpected_group_version(api_version: &str) -> Self {
        DecodeError::Unrecognized(format!("unexpected GroupVersion string: {api_version}"))
    }

    /// The decoder's message. `text` returns the decoded text.
    pub(crate) fn message(self, text: impl FnOnce() -> String) -> String {
        match self {
            DecodeError::Unrecognized(why)
            | DecodeError::Undecodable { why, .. }
            | DecodeError::NotStrict { why, .. }
            | DecodeError::VersionMismatch(why) => why,
            DecodeError::MissingKind => missing_kind_message(&text()),
        }
    }

    /// The error for the client (upstream: `transformDecodeError`).
    fn into_api_error(self, expected: &ExpectedKind<'_>, body: &[u8]) -> ApiError {
        let kind = expected.kind;
        if let Some(error) = expected.scheme.error {
            return ApiError::BadRequest(error.to_owned());
        }
        ApiError::BadRequest(match self {
            DecodeError::Unrecognized(why) => {
                format!("the object provided is unrecognized (must be of type {kind}): {why} ({})", body_excerpt(body))
            }
            DecodeError::Undecodable { kind: found, version, why } => {
                format!("{found} in version \"{version}\" cannot be handled as a {kind}: {why}")
            }
            DecodeError::NotStrict { kind, version, why } => {
                format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}")
            }
            DecodeError::VersionMismatch(why) => why,
            DecodeError::MissingKind => {
                let why = missing_kind_message(&String::from_utf8_lossy(body));
                return DecodeError::Unrecognized(why).into_api_error(expected, body);
            }
        })
    }
}

fn missing_kind_message(text: &str) -> String {
    format!("Object 'Kind' is missing in '{text}'")
}

/// Decodes a body. Does not set defaults.
///
/// # Errors
/// Returns 400 if the body is malformed, has another kind, or (with strict validation) has unknown or duplicate fields.
pub(crate) fn decode(
    (catalog, recorder): (&Catalog, &Recorder),
    body: &[u8],
    encoding: Encoding,
    expected: &ExpectedKind<'_>,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let check = |found: &GroupVersion, kind: &str| check_kind(catalog, expected, found, kind);
    let decoded = decode_strict(body, encoding, expected, &check).and_then(|(value, problems)| {
        report_strict_errors(recorder, &problems, validation).map_err(|why| expected.not_strict(&value, why))?;
        expected.model.check_version(&value, expected)?;
        Ok(value)
    });
    let decoded = decoded.map_err(|error| match error {
        DecodeError::MissingKind if validation == FieldValidation::Ignore => missing_kind(body, encoding, expected),
        error => error,
    });
    recorder.trace.step(Step::Decoded);
    pintle_budget::check().map_err(budget_error)?;
    decoded.map_err(|error| error.into_api_error(expected, body))
}

/// The error for a body without a kind that is not decoded strictly. Upstream first takes the expected kind for the
/// missing kind. Then the unstructured object itself reports that its kind is missing.
fn missing_kind(body: &[u8], encoding: Encoding, expected: &ExpectedKind<'_>) -> DecodeError {
    let found = match encoding {
        Encoding::Yaml => yaml::decode(body).map(|decoded| decoded.value).unwrap_or_default(),
        _ => json::decode(body, json::DecodeOptions::default()).map(|decoded| decoded.value).unwrap_or_default(),
    };
    let text = match encoding {
        Encoding::Yaml => String::from_utf8_lossy(&json::encode(&found)).into_owned(),
        _ => String::from_utf8_lossy(body.trim_ascii()).into_owned(),
    };
    let version = version_or_expected(&found, expected);
    DecodeError::Undecodable { kind: expected.kind.to_owned(), version, why: missing_kind_message(&text) }
}

/// The version of a body. The expected version replaces a missing one, unless the body has another group (upstream:
/// `gvkWithDefaults`).
fn version_or_expected(found: &Value, expected: &ExpectedKind<'_>) -> Str {
    let GroupVersion { group, version } = GroupVersion::parse(found.api_version()).unwrap_or_default();
    let is_expected_group = group.is_empty() || group == expected.group_version.group;
    if version.is_empty() && is_expected_group { expected.group_version.version.clone() } else { version }
}

/// Checks whether a body may have a group, version and kind.
pub(crate) type TypeCheck<'a> = &'a dyn Fn(&GroupVersion, &str) -> Result<(), DecodeError>;

/// Decodes a body. The second value holds the errors of strict decoding.
///
/// # Errors
/// Returns an error if the body is not an object of the expected kind.
pub(crate) fn decode_strict(
    body: &[u8],
    encoding: Encoding,
    expected: &ExpectedKind<'_>,
    check: TypeCheck<'_>,
) -> Result<(Value, Vec<String>), DecodeError> {
    let (mut value, problems) = match encoding {
        Encoding::Protobuf => (protobuf(body, expected, check)?, Vec::new()),
        Encoding::Json => json(body, expected, check)?,
        Encoding::Cbor => decode_cbor::decode(body, expected, check)?,
        Encoding::Yaml => {
            let decoded = yaml::decode(body).map_err(|error| DecodeError::Unrecognized(error.to_string()))?;
            let mut value = decoded.value;
            check_type_meta(&value, expected, check)?;
            let found = expected.normalise(&mut value, None);
            if let Some(error) = found.errors.into_iter().next() {
                return Err(expected.undecodable_value(&value, error));
            }
            let unknown = found.unknown.iter().map(|field| expected.unknown_field(field));
            (value, decoded.strict_error.into_iter().chain(unknown).collect())
        }
    };
    if !expected.model.requires_type() {
        expected.set_type(&mut value);
    }
    Ok((value, problems))
}

fn json(body: &[u8], expected: &ExpectedKind<'_>, check: TypeCheck<'_>) -> Result<(Value, Vec<String>), DecodeError> {
    let Schema { types, root } = expected.schema;
    let (value, duplicates) = match json::decode(body, json::DecodeOptions::default()) {
        Ok(decoded) => (decoded.value, decoded.has_duplicates),
        Err(json::DecodeError::Syntax(why)) => return Err(json_error(why)),
        Err(json::DecodeError::Type(why)) => {
            // The number does not fit into a `float64`. Upstream reads the type first, which contains no numbers.
            let options = json::DecodeOptions { infinities: true, ..json::DecodeOptions::default() };
            let tree = json::decode(body, options).map(|decoded| decoded.value).unwrap_or_default();
            let is_typed = !expected.model.requires_type();
            match is_typed {
                true => check_type_meta(&tree, expected, check)?,
                // An unstructured object is decoded before its type is checked.
                false => drop(json::type_meta(&tree).map_err(|error| json_error(error.to_string()))?),
            }
            // Go's message names the field of a type.
            let strict = is_typed.then(|| json::decode_strict(body, types, *root)).and_then(Result::ok);
            let why = strict.and_then(|strict| strict.error).unwrap_or(why);
            return Err(match expected.undecodable_value(&tree, why) {
                DecodeError::Undecodable { kind, why, .. } if !is_typed => {
                    DecodeError::Undecodable { kind, version: version_or_expected(&tree, expected), why }
                }
                error => error,
            });
        }
    };
    check_type_meta(&value, expected, check)?;
    let mut value = value;
    let found = expected.normalise(&mut value, None);
    if !duplicates && found.is_empty() {
        return Ok((value, Vec::new()));
    }
    // Upstream reports errors in the order and wording of the text, which the tree does not preserve.
    expected.model.strict_json(body, expected, value, found)
}

/// Checks the kind and apiVersion of a tree.
fn check_type_meta(value: &Value, expected: &ExpectedKind<'_>, check: TypeCheck<'_>) -> Result<(), DecodeError> {
    let meta = json::type_meta(value).map_err(|error| json_error(error.to_string()))?;
    expected.model.check_type(value, expected, (&meta.kind, &meta.api_version), check)
}

fn json_error(why: String) -> DecodeError {
    DecodeError::Unrecognized(format!("couldn't get version/kind; json parse error: {why}"))
}

/// Rejects or warns about strict decoding errors.
pub(crate) fn report_strict_errors(
    recorder: &Recorder,
    problems: &[String],
    validation: FieldValidation,
) -> Result<(), String> {
    if problems.is_empty() {
        return Ok(());
    }
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => {
            // YAML reports several errors in one message; each line is a warning of its own.
            let lines = problems.iter().flat_map(|problem| match problem.strip_prefix("yaml: unmarshal errors:\n") {
                Some(lines) => lines.split('\n').map(str::trim).collect(),
                None => vec![problem.as_str()],
            });
            lines.for_each(|line| recorder.warn(line));
        }
        FieldValidation::Strict => return Err(format!("strict decoding error: {}", problems.join(", "))),
    }
    Ok(())
}

/// The stored object that was patched, if it is in normal form. It is in normal form unless it was converted.
fn normal<'l>(live: Option<&'l Value>, expected: &ExpectedKind<'_>) -> Option<&'l Value> {
    let is_normal = expected.model.keeps_normal_form() && expected.resource.is_some_and(|found| found.is_hub());
    let live = live.filter(|_| is_normal)?;
    #[cfg(debug_assertions)]
    {
        let mut normal = live.clone();
        expected.normalise(&mut normal, None);
        assert_eq!(normal, *live, "a stored {} is not in normal form", expected.kind);
    }
    Some(live)
}

/// Decodes the result of a JSON patch or merge patch. Returns a tree at the request's version, and the errors of strict
/// decoding. `live` is the stored object, and `again` makes the result again.
///
/// # Errors
/// Returns an error if the result is not an object of the expected kind.
pub(crate) fn decode_patched(
    catalog: &Catalog,
    mut object: Value,
    live: Option<&Value>,
    again: impl FnOnce() -> Value,
    expected: &ExpectedKind<'_>,
) -> Result<(Value, Vec<String>), DecodeError> {
    let check = |found: &GroupVersion, kind: &str| check_kind(catalog, expected, found, kind);
    check_type_meta(&object, expected, &check)?;
    if !expected.model.requires_type() && expected.resource.is_some() && object.api_version().is_empty() {
        // Upstream decodes an object without a version into the internal type, which knows none of the object's fields.
        let fields = object.entries_at(&[]).map(|(key, _)| key).filter(|key| !matches!(*key, "kind" | "apiVersion"));
        let unknown = fields.map(|field| format!("unknown field {}", quote(field))).collect();
        let mut nothing = Value::object();
        expected.set_type(&mut nothing);
        return Ok((nothing, unknown));
    }
    let found = expected.normalise(&mut object, normal(live, expected));
    if found.errors.is_empty() {
        if !expected.model.requires_type() {
            expected.set_type(&mut object);
        }
        let unknown = found.unknown.iter().map(|field| expected.unknown_field(field)).collect();
        return Ok((object, unknown));
    }
    // Only decoding the text yields upstream's exact messages.
    decode_strict(&json::encode(&again()), Encoding::Json, expected, &check)
}

/// Converts the result of a strategic merge patch of `live` (upstream: `runtime.DefaultUnstructuredConverter`). Also
/// returns the unknown fields. The kind and apiVersion of the result are overwritten.
///
/// # Errors
/// Returns upstream's message if a value does not match its type.
pub(crate) fn convert_strategic_patch(
    mut object: Value,
    live: Option<&Value>,
    expected: &ExpectedKind<'_>,
) -> Result<(Value, Vec<String>), String> {
    let normal = normal(live, expected);
    expected.model.convert_patched(expected.schema, &mut object, normal)?;
    let found = expected.normalise(&mut object, normal);
    if let Some(error) = found.errors.into_iter().next() {
        return Err(error);
    }
    expected.set_type(&mut object);
    let mut unknown: Vec<String> = found.unknown.iter().map(|field| format!("unknown field \"{field}\"")).collect();
    unknown.sort_unstable();
    Ok((object, unknown))
}

fn protobuf(body: &[u8], expected: &ExpectedKind<'_>, check: TypeCheck<'_>) -> Result<Value, DecodeError> {
    let Schema { types, root } = expected.schema;
    let envelope = protobuf::open_envelope(body).map_err(|error| DecodeError::Unrecognized(error.to_string()))?;
    if !envelope.kind.is_empty() || !envelope.api_version.is_empty() {
        let kind = if envelope.kind.is_empty() { expected.kind } else { &envelope.kind };
        // Like upstream, treat a version that cannot be parsed as missing.
        let group_version = GroupVersion::parse(&envelope.api_version).filter(|gv| !gv.version.is_empty());
        check(&group_version.unwrap_or_else(|| expected.group_version.clone()), kind)?;
    }
    protobuf::decode_object(&envelope, types, *root).map_err(|error| expected.undecodable(error.to_string()))
}

fn check_kind(
    catalog: &Catalog,
    expected: &ExpectedKind<'_>,
    found: &GroupVersion,
    kind: &str,
) -> Result<(), DecodeError> {
    let is_accepted = *found == expected.group_version || expected.accepts == Some(found);
    if is_accepted && kind == expected.kind {
        return Ok(());
    }
    let undecodable = |why| DecodeError::Undecodable { kind: kind.to_owned(), version: found.version.clone(), why };
    let scheme = expected.scheme;
    if !scheme.knows(catalog, found, kind) {
        return Err(undecodable(format!(
            "no kind {} is registered for version \"{found}\" in scheme \"{}\"",
            quote(kind),
            scheme.name
        )));
    }
    if !scheme.has_internal_types {
        let version = &expected.group_version.version;
        return Err(undecodable(format!(
            "converting ({}.{kind}) to ({version}.{}): unknown conversion",
            found.version, expected.kind
        )));
    }
    if kind == expected.kind {
        return Err(DecodeError::VersionMismatch(format!(
            "the API version in the data ({found}) does not match the expected API version ({})",
            expected.group_version
        )));
    }
    Err(undecodable(format!(
        "converting ({}.{kind}) to ({}.{}): unknown conversion",
        found.version,
        internal_package(&expected.group_version.group),
        expected.kind
    )))
}

/// Returns the name of the Go package of a group's internal types.
pub(crate) fn internal_package(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        group => group.split_once('.').map_or(group, |(first, _)| first),
    }
}

/// Returns the start of a body, for error messages.
fn body_excerpt(body: &[u8]) -> String {
    const LIMIT: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    // Upstream shows JSON as text and anything else in hexadecimal.
    let (excerpt, cut) = (&body[..body.len().min(LIMIT)], body.len() > LIMIT);
    let excerpt = if body.starts_with(b"{") {
        String::from_utf8_lossy(excerpt).into_owned()
    } else {
        excerpt.iter().map(|b| format!("{b:02x}")).collect()
    };
    if cut { format!("{excerpt} ...") } else { excerpt }
}

/// Sets all defaults of a tree at a resource's version.
pub(crate) fn set_defaults(resource: &Arc<Resource>, value: &mut Value) {
    model(resource).set_schema_defaults(&resource.schema, value, None);
    resource.strategy.defaults(value);
}

/// Sets the defaults of the hub version in an object that is about to be stored and came at another version. Upstream
/// sets these defaults when it decodes the stored object. So conversions, validation and admission do not see them.
pub(crate) fn set_stored_defaults(resource: &Resource, hub: &Arc<Resource>, object: &mut Value) {
    if !resource.is_hub() {
        set_defaults(hub, object);
    }
}
