//! Reads configuration files in YAML or JSON as upstream's decoders do (`runtime.Decode` with the universal decoder of
//! a scheme). The kind selects the Go type, and errors are errors of Go's decoder.

use pintle_codec::{json, yaml};
use pintle_schema::{Field, List, ListTopology, Map, Omit, PatchMeta, Scalar, ScalarType, Struct, Type, TypeId, Types};
use pintle_value::print::quote;
use pintle_value::{Str, Value};

/// The Go types of configuration files.
#[derive(Debug, Default)]
pub struct ConfigTypes(Types);

impl From<Types> for ConfigTypes {
    fn from(types: Types) -> Self {
        Self(types)
    }
}

impl ConfigTypes {
    /// A scalar type.
    pub fn scalar(&mut self, kind: Scalar) -> TypeId {
        self.0.add(Type::Scalar(ScalarType { kind, name: Str::default(), values: None }))
    }

    /// A string with the Go name `v1.Name`.
    pub fn named_text(&mut self, name: &str) -> TypeId {
        self.0.add(Type::Scalar(ScalarType { kind: Scalar::String, name: name.into(), values: None }))
    }

    /// Any JSON value.
    pub fn any(&mut self) -> TypeId {
        self.0.add(Type::Any)
    }

    /// A slice.
    pub fn list(&mut self, item: TypeId) -> TypeId {
        let (topology, name) = (ListTopology::default(), Str::default());
        self.0.add(Type::List(List { item, pointers: false, topology, name }))
    }

    /// A map with texts as keys.
    pub fn map(&mut self, value: TypeId) -> TypeId {
        let (name, key) = (Str::default(), Str::default());
        self.0.add(Type::Map(Map { value, atomic: false, name, key }))
    }

    /// A struct with the Go name `v1.Name` and the fields by their JSON names. Fields after `*` in the name are pointers.
    pub fn object(&mut self, name: &str, fields: &[(&str, TypeId)]) -> TypeId {
        let field = |(name, ty): &(&str, TypeId)| Field {
            name: name.trim_start_matches('*').into(),
            ty: *ty,
            pointer: name.starts_with('*'),
            omit: Omit::Empty,
            required: false,
            number: 0,
            embedded: 0,
            patch: PatchMeta::default(),
            default: None,
        };
        self.0.add(Type::Struct(Struct::new(name, "", fields.iter().map(field).collect())))
    }
}

/// The kinds that a decoder knows (upstream: `runtime.Scheme`).
#[derive(Debug)]
pub struct ConfigScheme {
    /// The name of the scheme in messages: the line of upstream's source that makes it.
    pub name: &'static str,
    /// Whether unknown and duplicate fields are errors.
    pub strict: bool,
    /// The types of the kinds.
    pub types: ConfigTypes,
    /// The kinds: the `apiVersion`, the kind and the type.
    pub kinds: Vec<(&'static str, &'static str, TypeId)>,
}

/// Why a configuration cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFileError {
    /// The text has no kind or no version.
    #[error("Object '{field}' is missing in '{text}'")]
    MissingType {
        /// `Kind` or `apiVersion`.
        field: &'static str,
        /// The text.
        text: String,
    },
    /// The scheme does not know the kind.
    #[error("{0}")]
    UnknownKind(String),
    /// The text is not well-formed, or does not fit the type.
    #[error("{0}")]
    Malformed(String),
    /// The text has unknown or duplicate fields.
    #[error("strict decoding error: {0}")]
    NotStrict(String),
}

/// A decoded configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedConfig {
    /// The `apiVersion`.
    pub api_version: Str,
    /// The object. Its fields have the types of its kind; null counts as absent.
    pub value: Value,
}

/// The error of a text whose kind cannot be read.
fn no_type(error: &json::DecodeError) -> ConfigFileError {
    ConfigFileError::Malformed(format!("couldn't get version/kind; json parse error: {error}"))
}

/// A text in YAML or JSON, decoded.
struct ConfigText {
    value: Value,
    json: Vec<u8>,
    /// The strict error of YAML.
    strict_error: Option<String>,
}

impl ConfigText {
    fn read(text: &[u8]) -> Result<Self, ConfigFileError> {
        if text.trim_ascii_start().starts_with(b"{") {
            let decoded = json::decode(text, json::DecodeOptions::default());
            let value = decoded.map_err(|error| no_type(&error))?.value;
            return Ok(Self { value, json: text.to_vec(), strict_error: None });
        }
        Self::read_yaml(text)
    }

    fn read_yaml(text: &[u8]) -> Result<Self, ConfigFileError> {
        let decoded = yaml::decode(text).map_err(|error| ConfigFileError::Malformed(error.to_string()));
        let yaml::Decoded { value, strict_error } = decoded?;
        Ok(Self { json: json::encode(&value), value, strict_error })
    }
}

impl ConfigScheme {
    /// Decodes a text.
    ///
    /// # Errors
    /// See [`ConfigFileError`].
    pub fn decode(&self, text: &[u8]) -> Result<DecodedConfig, ConfigFileError> {
        self.decode_as(text, ("", ""))
    }

    /// Decodes a text that may lack its `apiVersion` and kind, with these as default.
    ///
    /// # Errors
    /// See [`ConfigFileError`].
    pub fn decode_as(&self, text: &[u8], default: (&str, &str)) -> Result<DecodedConfig, ConfigFileError> {
        self.decode_text(ConfigText::read(text)?, text, default)
    }

    /// Like [`ConfigScheme::decode_as`], for a text that is always read as YAML.
    ///
    /// # Errors
    /// See [`ConfigFileError`].
    pub fn decode_yaml_as(&self, text: &[u8], default: (&str, &str)) -> Result<DecodedConfig, ConfigFileError> {
        self.decode_text(ConfigText::read_yaml(text)?, text, default)
    }

    fn decode_text(
        &self,
        config: ConfigText,
        text: &[u8],
        default: (&str, &str),
    ) -> Result<DecodedConfig, ConfigFileError> {
        let meta = json::type_meta(&config.value).map_err(|error| no_type(&error))?;
        let or_default = |text: Str, default: &str| if text.is_empty() { Str::from(default) } else { text };
        if meta.api_version.matches('/').count() > 1 {
            return Err(ConfigFileError::Malformed(format!("unexpected GroupVersion string: {}", meta.api_version)));
        }
        // Upstream splits the `apiVersion` into group and version; the group may be empty.
        let api_version = meta.api_version.strip_prefix('/').map(Str::from).unwrap_or(meta.api_version);
        let (api_version, kind) = (or_default(api_version, default.0), or_default(meta.kind, default.1));
        for (field, value) in [("Kind", &kind), ("apiVersion", &api_version)] {
            if value.is_empty() || (field == "apiVersion" && value.ends_with('/')) {
                let text = String::from_utf8_lossy(text).into_owned();
                return Err(ConfigFileError::MissingType { field, text });
            }
        }
        let known = self.kinds.iter().find(|(version, name, _)| *version == api_version && *name == kind);
        let Some((.., ty)) = known else {
            let text = format!("no kind {} is registered for version {}", quote(&kind), quote(&api_version));
            return Err(ConfigFileError::UnknownKind(format!("{text} in scheme {}", quote(self.name))));
        };
        let strict = json::decode_strict(&config.json, &self.types.0, *ty);
        let strict = strict.map_err(|error| ConfigFileError::Malformed(error.to_string()))?;
        if let Some(error) = strict.error {
            return Err(ConfigFileError::Malformed(error));
        }
        let errors: Vec<_> = config.strict_error.into_iter().chain(strict.strict_errors).collect();
        if self.strict && !errors.is_empty() {
            return Err(ConfigFileError::NotStrict(errors.join(", ")));
        }
        Ok(DecodedConfig { api_version, value: config.value })
    }
}

/// The text of a system error as Go prints it: in lower case and without its number.
#[must_use]
pub fn system_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_ascii_lowercase()
}
