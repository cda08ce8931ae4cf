//! `apiVersion`, `kind` and `metadata` of the object itself and of the resources that are embedded in it: they are read
//! as built-in kinds read them, whatever the schema says of them (upstream: `schema/objectmeta`, and what
//! `customresource_handler` does when it decodes).

use pintle_catalog::shared;
use pintle_schema::{Problems, normalise};
use pintle_value::metadata::validate_object_meta_at;
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use super::model::{Flags, Schema};
use super::part::{Additional, Part};

/// Why an object cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// Its metadata is not what metadata is. In the words of Go's decoder.
    #[error("{0}")]
    Metadata(String),
    /// That of a resource embedded in it.
    #[error("{0}")]
    Embedded(FieldError),
}

/// What becomes of parts of metadata that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    /// The first of them is an error.
    Refused,
    /// They are dropped.
    Dropped,
}

impl Schema {
    /// All that reading an object does to it: metadata takes its canonical form, fields that are not declared and nulls
    /// that may not be are dropped. Returns the paths of unknown fields in the order in which strict field validation
    /// reports them: of the metadata, of the object, of the metadata of embedded resources.
    ///
    /// # Errors
    /// If metadata, of the object or of an embedded resource, has something of the wrong type.
    pub fn conform(&self, object: &mut Value) -> Result<Vec<String>, Malformed> {
        self.read(object, Invalid::Refused)
    }

    /// The same for an object that was stored, maybe when the schema was another one: what cannot be read of metadata is
    /// dropped.
    pub fn repair(&self, object: &mut Value) {
        if let Some(metadata) = object.get_mut("metadata") {
            drop_unreadable(metadata);
        }
        // What is left can be read.
        if let Err(error) = self.read(object, Invalid::Dropped) {
            tracing::warn!(%error, "a stored object cannot be read");
        }
    }

    fn read(&self, object: &mut Value, invalid: Invalid) -> Result<Vec<String>, Malformed> {
        let metadata = object.as_object_mut().and_then(|object| object.remove("metadata"));
        let mut unknown = Vec::new();
        let metadata = match metadata {
            Some(mut metadata) => {
                let found = read_metadata(&mut metadata).map_err(Malformed::Metadata)?;
                unknown.extend(found.into_iter().map(|path| format!("metadata.{path}")));
                Some(metadata)
            }
            None => None,
        };
        unknown.extend(self.prune(object));
        self.drop_nulls(object);
        let mut embedded = self.coerce(object, false, invalid).map_err(Malformed::Embedded)?;
        embedded.sort_unstable();
        unknown.extend(embedded);
        if let (Some(object), Some(metadata)) = (object.as_object_mut(), metadata) {
            object.insert("metadata", metadata);
        }
        Ok(unknown)
    }

    /// Puts the metadata of embedded resources into its canonical form; that of the object too if it is to be taken as
    /// one of them. Returns the paths of unknown fields.
    pub(super) fn coerce(
        &self,
        object: &mut Value,
        resource: bool,
        invalid: Invalid,
    ) -> Result<Vec<String>, FieldError> {
        let mut coercer = Coercer { invalid, unknown: Vec::new() };
        coercer.walk(object, self.root(), resource, &FieldPath::root())?;
        Ok(coercer.unknown)
    }

    /// Judges the embedded resources of an object.
    #[must_use]
    pub fn validate_embedded(&self, object: &Value) -> Errors {
        let mut errors = Errors::new();
        judge(object, self.root(), &FieldPath::root(), &mut errors);
        errors
    }
}

struct Coercer {
    invalid: Invalid,
    unknown: Vec<String>,
}

impl Coercer {
    fn walk(
        &mut self,
        value: &mut Value,
        part: Part<'_>,
        resource: bool,
        path: &FieldPath<'_>,
    ) -> Result<(), FieldError> {
        if !resource && !part.has(Flags::EMBEDDED_WITHIN) {
            return Ok(());
        }
        match value {
            Value::Object(object) => {
                if resource || part.is_embedded_resource() {
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
                    match (part.property(key), part.additional()) {
                        (Some(part), _) => self.walk(value, part, false, &path.child(key))?,
                        (None, Additional::Values(part)) => self.walk(value, part, false, &path.key(key))?,
                        _ => {}
                    }
                }
            }
            Value::Array(items) => {
                let Some(part) = part.items() else { return Ok(()) };
                for (i, item) in items.iter_mut().enumerate() {
                    self.walk(item, part, false, &path.index(i))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Says whether the field stays.
    fn meta_field(&mut self, key: &str, value: &mut Value, path: &FieldPath<'_>) -> Result<bool, FieldError> {
        match key {
            "apiVersion" | "kind" => match (value.as_str(), self.invalid) {
                (Some(_), _) => Ok(true),
                (None, Invalid::Dropped) => Ok(false),
                (None, Invalid::Refused) => {
                    Err(FieldError::invalid(&path.child(key), value.clone(), "must be a string"))
                }
            },
            "metadata" => {
                if self.invalid == Invalid::Dropped {
                    drop_unreadable(value);
                }
                let given = value.clone();
                let path = path.child("metadata");
                match (read_metadata(value), self.invalid) {
                    (Ok(found), _) => {
                        self.unknown.extend(found.into_iter().map(|unknown| format!("{path}.{unknown}")));
                    }
                    // What is no object at all stays as it is.
                    (Err(_), Invalid::Dropped) => *value = given,
                    (Err(text), Invalid::Refused) => return Err(FieldError::invalid(&path, given, text)),
                }
                Ok(true)
            }
            _ => Ok(true),
        }
    }
}

/// Puts metadata into its canonical form. Returns the paths of its unknown fields, or the error of Go's decoder.
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

/// Drops the fields of metadata that cannot be read.
fn drop_unreadable(metadata: &mut Value) {
    if let Value::Object(fields) = metadata {
        fields.retain(|key, value| {
            let mut alone = Value::Object([(key, value.clone())].into_iter().collect());
            read_metadata(&mut alone).is_ok()
        });
    }
}

fn judge(value: &Value, part: Part<'_>, path: &FieldPath<'_>, errors: &mut Errors) {
    if !part.has(Flags::EMBEDDED_WITHIN) {
        return;
    }
    match value {
        Value::Object(object) => {
            if part.is_embedded_resource() {
                judge_resource(value, path, errors);
            }
            for (key, value) in object.iter() {
                match (part.property(key), part.additional()) {
                    (Some(part), _) => judge(value, part, &path.child(key), errors),
                    (None, Additional::Values(part)) => judge(value, part, &path.key(key), errors),
                    _ => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(part) = part.items() else { return };
            for (i, item) in items.iter().enumerate() {
                judge(item, part, &path.index(i), errors);
            }
        }
        _ => {}
    }
}

fn judge_resource(resource: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
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
                let wrong = if field == "apiVersion" { wrong_version(text) } else { wrong_kind(text) };
                if let Some(wrong) = wrong {
                    errors.invalid(&path, text, wrong);
                }
            }
            Some(other) => errors.invalid(&path, other.clone(), "must be a string"),
        }
    }
    if let Some(given) = fields.get("metadata") {
        judge_metadata(given, &path.child("metadata"), errors);
    }
}

fn wrong_version(version: &str) -> Option<String> {
    (version.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {version}"))
}

fn wrong_kind(kind: &str) -> Option<String> {
    let wrong = names::dns1035_label(&kind.to_lowercase());
    (!wrong.is_empty()).then(|| format!("may have mixed case, but should otherwise match: {}", wrong.join(",")))
}

fn judge_metadata(given: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let mut metadata = given.clone();
    if let Err(text) = read_metadata(&mut metadata) {
        return errors.invalid(path, given.clone(), text);
    }
    // An embedded resource need not have a name.
    if metadata.str_at(&["name"]).is_empty() {
        metadata.set("name", "fakename");
    }
    let namespaced = !metadata.str_at(&["namespace"]).is_empty();
    errors.append(validate_object_meta_at(&metadata, namespaced, &names::path_segment_name, path));
}
