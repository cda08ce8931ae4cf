//! The configuration of the plugin, `PodSecurityConfiguration` (upstream: `pod-security-admission/admission/api`).

use std::collections::HashSet;
use std::sync::LazyLock;

use pintle_auth::config_file::{ConfigScheme, ConfigTypes};
use pintle_schema::Scalar;
use pintle_value::field::FieldPath;
use pintle_value::{Errors, FieldError, Str, Value, names};

use super::policy::{Level, LevelVersion, Policy, Version};
use crate::PluginError;

const KIND: &str = "PodSecurityConfiguration";

static SCHEME: LazyLock<ConfigScheme> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let text = types.scalar(Scalar::String);
    let texts = types.list(text);
    let mut kinds = Vec::new();
    for (version, package) in [
        ("pod-security.admission.config.k8s.io/v1", "v1"),
        ("pod-security.admission.config.k8s.io/v1beta1", "v1beta1"),
        ("pod-security.admission.config.k8s.io/v1alpha1", "v1alpha1"),
    ] {
        let name = |name: &str| format!("{package}.{name}");
        let modes = ["enforce", "enforce-version", "audit", "audit-version", "warn", "warn-version"];
        let defaults = types.object(&name("PodSecurityDefaults"), &modes.map(|mode| (mode, text)));
        let lists = ["usernames", "namespaces", "runtimeClasses"];
        let exemptions = types.object(&name("PodSecurityExemptions"), &lists.map(|list| (list, texts)));
        let fields = [("kind", text), ("apiVersion", text), ("defaults", defaults), ("exemptions", exemptions)];
        kinds.push((version, KIND, types.object(&name(KIND), &fields)));
    }
    let name = "k8s.io/pod-security-admission/admission/api/scheme/scheme.go:31";
    ConfigScheme { name, strict: true, types, kinds }
});

/// The exemptions: their pods are neither refused nor recorded, and nobody is warned about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exemptions {
    /// Users by name.
    pub usernames: Vec<Str>,
    /// Namespaces by name.
    pub namespaces: Vec<Str>,
    /// Runtime classes by name.
    pub runtime_classes: Vec<Str>,
}

/// The configuration of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSecurityConfiguration {
    /// The policy of a namespace without labels.
    pub defaults: Policy,
    /// The exemptions.
    pub exemptions: Exemptions,
}

/// Allows everything, and exempts nobody.
impl Default for PodSecurityConfiguration {
    fn default() -> Self {
        Self { defaults: Policy::PRIVILEGED, exemptions: Exemptions::default() }
    }
}

impl PodSecurityConfiguration {
    /// Reads and validates a configuration in YAML or JSON. An empty text is the default configuration.
    ///
    /// # Errors
    /// The text cannot be decoded, or the configuration is invalid; with upstream's messages.
    pub fn load(text: &[u8]) -> Result<Self, PluginError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let decoded = SCHEME.decode(text).map_err(|error| PluginError::Unreadable(error.to_string()))?;
        Self::from_value(&decoded.value)
    }

    /// Validates a configuration that is decoded. Its kind and version are not checked.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn from_value(value: &Value) -> Result<Self, PluginError> {
        let defaults = defaults(value.get("defaults").unwrap_or(&Value::Null));
        let defaults =
            defaults.map_err(|error| PluginError::Invalid(format!("PodSecurity configuration error: {error}")))?;
        let names = |list: &str| {
            let items = value.items_at(&["exemptions", list]).iter();
            items.map(|item| item.as_str().unwrap_or_default().into()).collect()
        };
        let exemptions = Exemptions {
            usernames: names("usernames"),
            namespaces: names("namespaces"),
            runtime_classes: names("runtimeClasses"),
        };
        let errors = exemptions.validate();
        if !errors.is_empty() {
            return Err(PluginError::Invalid(format!("PodSecurity invalid: {}", errors.message())));
        }
        Ok(Self { defaults, exemptions })
    }
}

/// The default policy, or the errors of its levels and versions.
fn defaults(value: &Value) -> Result<Policy, String> {
    let mut errors: Vec<String> = Vec::new();
    let mut mode = |level_field: &str, version_field: &str| {
        let level = match value.str_at(&[level_field]) {
            "" => Some(Level::Privileged),
            text => Level::parse(text),
        };
        let version = match value.str_at(&[version_field]) {
            "" => Some(Version::Latest),
            text => Version::parse(text),
        };
        errors.extend(level.is_none().then(|| format!("{level_field}: {}", Level::EXPECTED)));
        errors.extend(version.is_none().then(|| format!("{version_field}: {}", Version::EXPECTED)));
        LevelVersion { level: level.unwrap_or(Level::Restricted), version: version.unwrap_or(Version::Latest) }
    };
    let policy = Policy {
        enforce: mode("enforce", "enforce-version"),
        audit: mode("audit", "audit-version"),
        warn: mode("warn", "warn-version"),
    };
    match errors.as_slice() {
        [] => Ok(policy),
        [error] => Err(error.clone()),
        errors => Err(format!("[{}]", errors.join(", "))),
    }
}

impl Exemptions {
    fn validate(&self) -> Errors {
        let mut errors = Errors::new();
        let namespace = |name: &str| names::namespace_name(name, false);
        validate_names(&self.namespaces, "namespaces", namespace, &mut errors);
        let runtime_class = |name: &str| names::dns1123_subdomain_name(name, false);
        validate_names(&self.runtime_classes, "runtimeClasses", runtime_class, &mut errors);
        let username = |name: &str| match name {
            "" => vec!["username must not be empty".to_owned()],
            _ => Vec::new(),
        };
        validate_names(&self.usernames, "usernames", username, &mut errors);
        errors
    }
}

/// Checks that names are valid and unique.
fn validate_names(names: &[Str], list: &str, problems: impl Fn(&str) -> Vec<String>, errors: &mut Errors) {
    let exemptions = FieldPath::new("exemptions");
    let path = exemptions.child(list);
    let mut valid = HashSet::new();
    for (index, name) in names.iter().enumerate() {
        let problems = problems(name);
        if !problems.is_empty() {
            errors.invalid(&path.index(index), name.clone(), problems.join(", "));
        } else if !valid.insert(name) {
            errors.push(FieldError::duplicate(&path.index(index), name.clone()));
        }
    }
}
