//! `apiVersion`, `kind` and `metadata` of the object and of embedded resources. They are decoded as in built-in kinds,
//! whatever the schema declares (upstream: `schema/objectmeta`, and the decoding in `customresource_handler`).

use pintle_catalog::shared;
use pintle_schema::{Problems, normalise};
use pintle_value::metadata::{MissingFields, validate_object_meta_at};
use pintle_value::print::go_type;
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use super::model::{Flags, StructuralSchema};
use super::node::{Additional, SchemaNode};

/// The reason why an object cannot be decoded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MalformedObject {
    /// The metadata of the object is malformed. The message is Go's decoder's message.
    #[error("{0}")]
    Metadata(String),
    /// The metadata of an embedded resource is malformed.
    #[error("{0}")]
    Embedded(FieldError),
}

/// How forbidden nulls are handled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Drop,
    Keep,
}

/// How malformed metadata fields are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InvalidMetadata {
    /// The first malformed field is an error.
    Reject,
    /// Malformed fields are dropped.
    Drop,
}

impl StructuralSchema {
    /// Decodes an object: normalises its metadata, prunes undeclared fields, and drops nulls that are not allowed.
    /// Returns the paths of unknown fields, in the order in which strict field validation reports them. Fields of the
    /// metadata come first, then fields of the object, then fields of the metadata of embedded resources.
    ///
    /// # Errors
    /// Returns an error if the metadata of the object or of an embedded resource has a value of the wrong type.
    pub fn conform(&self, object: &mut Value) -> Result<Vec<String>, MalformedObject> {
        self.read(object, InvalidMetadata::Reject, Nulls::Drop)
    }

    /// Decodes an object that an apply has merged. Upstream does not decode a merged object before it is stored.
    /// Validation finds forbidden nulls, and malformed metadata fields count as missing.
    ///
    /// # Errors
    /// Returns an error if the metadata of an embedded resource has a value of the wrong type.
    pub fn conform_merged(&self, object: &mut Value) -> Result<(), MalformedObject> {
        if let Some(metadata) = object.get_mut("metadata") {
            drop_unreadable(metadata);
        }
        self.read(object, InvalidMetadata::Reject, Nulls::Keep).map(drop)
    }

    /// Decodes a stored object, which may have been written under another schema. Malformed metadata fields are
    /// dropped.
    pub fn repair(&self, object: &mut Value) {
        if let Some(metadata) = object.get_mut("metadata") {
            drop_unreadable(metadata);
        }
        // The remaining metadata is well-formed.
        if let Err(error) = self.read(object, InvalidMetadata::Drop, Nulls::Drop) {
            tracing::warn!(%error, "Failed to decode stored custom resource");
        }
    }

    /// Decodes the metadata of a stored object, whatever its kind is. Malformed fields are dropped.
    ///
    /// # Errors
    /// The metadata is missing or not an object.
    pub fn repair_metadata(object: &mut Value) -> Result<(), MalformedObject> {
        match object.get_mut("metadata") {
            Some(metadata @ (Value::Object(_) | Value::Null)) => {
                let given = metadata.clone();
                if read_metadata(metadata).is_ok() {
                    return Ok(());
                }
                *metadata = given;
                drop_unreadable(metadata);
                read_metadata(metadata).map(drop).map_err(MalformedObject::Metadata)
            }
            other => {
                let found = other.map_or("<nil>", |value| go_type(value));
                Err(MalformedObject::Metadata(format!("invalid metadata: expected object, got {found}")))
            }
        }
    }

    /// Decodes an object of another kind or group, whose schema is known only for the metadata. Returns the paths of
    /// its unknown fields.
    ///
    /// # Errors
    /// Returns an error if the metadata has a value of the wrong type.
    pub fn conform_metadata(object: &mut Value) -> Result<Vec<String>, MalformedObject> {
        let Some(metadata) = object.as_object_mut().and_then(|object| object.get_mut("metadata")) else {
            return Ok(Vec::new());
        };
        let found = read_metadata(metadata).map_err(MalformedObject::Metadata)?;
        Ok(found.into_iter().map(|path| format!("metadata.{path}")).collect())
    }

    fn read(&self, object: &mut Value, invalid: InvalidMetadata, nulls: Nulls) -> Result<Vec<String>, MalformedObject> {
        let mut unknown = Self::conform_metadata(object)?;
        let metadata = object.as_object_mut().and_then(|object| object.remove("metadata"));
        unknown.extend(self.prune(object));
        if nulls == Nulls::Drop {
            self.drop_nulls(object);
        }
        let mut embedded = self.coerce(object, false, invalid).map_err(MalformedObject::Embedded)?;
        embedded.sort_unstable();
        unknown.extend(embedded);
        if let (Some(object), Some(metadata)) = (object.as_object_mut(), metadata) {
            object.insert("metadata", metadata);
        }
        Ok(unknown)
    }

    /// Normalises the metadata of embedded resources, and with `resource` also the metadata of the object itself.
    /// Returns the paths of unknown fields.
    pub(super) fn coerce(
        &self,
        object: &mut Value,
        resource: bool,
        invalid: InvalidMetadata,
    ) -> Result<Vec<String>, FieldError> {
        let mut coercer = Coercer { invalid, unknown: Vec::new() };
        coercer.walk(object, self.root(), resource, &FieldPath::root())?;
        Ok(coercer.unknown)
    }

    /// Validates the embedded resources of an object. `missing` is the form of errors about their owner references.
    #[must_use]
    pub fn validate_embedded(&self, object: &Value, missing: MissingFields) -> Errors {
        let mut errors = Errors::new();
        validate_node(object, self.root(), missing, &FieldPath::root(), &mut errors);
        errors
    }
}

struct Coercer {
    invalid: InvalidMetadata,
    unknown: Vec<String>,
}

impl Coercer {
    fn walk(
        &mut self,
        value: &mut Value,
        node: SchemaNode<'_>,
        resource: bool,
        path: &FieldPath<'_>,
    ) -> Result<(), FieldError> {
        if !resource && !node.has(Flags::EMBEDDED_WITHIN) {
            return Ok(());
        }
        match value {
            Value::Object(object) => {
                if resource || node.is_embedded_resource() {
                    let mut failed = None;
                    object.retain(|key, value| {
                        failed.is_some()
                            || self.meta_field(key, value, path).unwrap_or_else(|error| failed.replace(error).is_none())
                    });
                    if let Some(error) = failed {
                        return Err(error);
                    }
                }
                for (key, value) in object.iter_mut() {
                    match (node.property(key), node.additional()) {
                        (Some(node), _) => self.walk(value, node, false, &path.child(key))?,
                        (None, Additional::Values(node)) => self.walk(value, node, false, &path.key(key))?,
                        _ => {}
                    }
                }
            }
            Value::Array(items) => {
                let Some(node) = node.items() else { return Ok(()) };
                for (i, item) in items.iter_mut().enumerate() {
                    self.walk(item, node, false, &path.index(i))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns true if the field is kept.
    fn meta_field(&mut self, key: &str, value: &mut Value, path: &FieldPath<'_>) -> Result<bool, FieldError> {
        match key {
            "apiVersion" | "kind" => match (value.as_str(), self.invalid) {
                (Some(_), _) => Ok(true),
                (None, InvalidMetadata::Drop) => Ok(false),
                (None, InvalidMetadata::Reject) => {
                    Err(FieldError::invalid(&path.child(key), value.clone(), "must be a string"))
                }
            },
            "metadata" => {
                if self.invalid == InvalidMetadata::Drop {
                    drop_unreadable(value);
                }
                let given = value.clone();
                let path = path.child("metadata");
                match (read_metadata(value), self.invalid) {
                    (Ok(found), _) => {
                        self.unknown.extend(found.into_iter().map(|unknown| format!("{path}.{unknown}")));
                    }
                    // Metadata that is not an object stays unchanged.
                    (Err(_), InvalidMetadata::Drop) => *value = given,
                    (Err(text), InvalidMetadata::Reject) => return Err(FieldError::invalid(&path, given, text)),
                }
                Ok(true)
            }
            _ => Ok(true),
        }
    }
}

/// Normalises metadata. Returns the paths of unknown fields, or the error of Go's decoder.
fn read_metadata(metadata: &mut Value) -> Result<Vec<String>, String> {
    let catalog = shared();
    let Some(object_meta) = catalog.struct_type("meta/v1.ObjectMeta") else { return Ok(Vec::new()) };
    let mut problems = Problems::default();
    normalise(catalog.types(), object_meta, metadata, &mut problems);
    match problems.errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(problems.unknown),
    }
}

/// Drops the malformed fields of metadata.
fn drop_unreadable(metadata: &mut Value) {
    if let Value::Object(fields) = metadata {
        fields.retain(|key, value| {
            let mut alone = Value::Object([(key, value.clone())].into_iter().collect());
            read_metadata(&mut alone).is_ok()
        });
    }
}

fn validate_node(
    value: &Value,
    node: SchemaNode<'_>,
    missing: MissingFields,
    path: &FieldPath<'_>,
    errors: &mut Errors,
) {
    if !node.has(Flags::EMBEDDED_WITHIN) {
        return;
    }
    match value {
        Value::Object(object) => {
            if node.is_embedded_resource() {
                validate_resource(value, missing, path, errors);
            }
            for (key, value) in object.iter() {
                match (node.property(key), node.additional()) {
                    (Some(node), _) => validate_node(value, node, missing, &path.child(key), errors),
                    (None, Additional::Values(node)) => validate_node(value, node, missing, &path.key(key), errors),
                    _ => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = node.items() else { return };
            for (i, item) in items.iter().enumerate() {
                validate_node(item, node, missing, &path.index(i), errors);
            }
        }
        _ => {}
    }
}

fn validate_resource(resource: &Value, missing: MissingFields, path: &FieldPath<'_>, errors: &mut Errors) {
    let Value::Object(fields) = resource else { return };
    for field in ["apiVersion", "kind"] {
        if !fields.contains_key(field) {
            errors.required(&path.child(field), "");
        }
    }
    for field in ["apiVersion", "kind"] {
        let path = path.child(field);
        match fields.get(field) {
            None => {}
            Some(Value::String(text)) if text.is_empty() => errors.invalid(&path, "", "must not be empty"),
            Some(Value::String(text)) => {
                let wrong = if field == "apiVersion" { api_version_problem(text) } else { kind_problem(text) };
                if let Some(wrong) = wrong {
                    errors.invalid(&path, text, wrong);
                }
            }
            Some(other) => errors.invalid(&path, other.clone(), "must be a string"),
        }
    }
    if let Some(given) = fields.get("metadata") {
        validate_metadata(given, missing, &path.child("metadata"), errors);
    }
}

fn api_version_problem(version: &str) -> Option<String> {
    (version.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {version}"))
}

fn kind_problem(kind: &str) -> Option<String> {
    let wrong = names::dns1035_label(&kind.to_lowercase());
    (!wrong.is_empty()).then(|| format!("may have mixed case, but should otherwise match: {}", wrong.join(",")))
}

fn validate_metadata(given: &Value, missing: MissingFields, path: &FieldPath<'_>, errors: &mut Errors) {
    let mut metadata = given.clone();
    if let Err(text) = read_metadata(&mut metadata) {
        return errors.invalid(path, given.clone(), text);
    }
    // An embedded resource does not need a name.
    if metadata.str_at(&["name"]).is_empty() {
        metadata.set("name", "fakename");
    }
    let namespaced = !metadata.str_at(&["namespace"]).is_empty();
    errors.append(validate_object_meta_at(&metadata, namespaced, &names::path_segment_name, missing, path));
}
