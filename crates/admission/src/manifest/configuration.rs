//! The directory that the configuration of a plugin names (upstream: `ValidateStaticManifestsDir`, and
//! `admission/plugin/policy/config`).

use std::path::PathBuf;

use pintle_auth::config_file::{ConfigScheme, ConfigTypes, system_error};
use pintle_gates::{Feature, Gates};
use pintle_schema::Scalar;
use pintle_value::{Errors, FieldPath};

/// The field that names the directory.
const FIELD: &str = "staticManifestsDir";

/// The kinds of configurations, one of which the plugin has.
const KINDS: [&str; 2] = ["ValidatingAdmissionPolicyConfiguration", "MutatingAdmissionPolicyConfiguration"];

fn scheme() -> ConfigScheme {
    let mut types = ConfigTypes::default();
    let text = types.scalar(Scalar::String);
    let fields = [("kind", text), ("apiVersion", text), (FIELD, text)];
    let kinds = KINDS.map(|kind| ("apiserver.config.k8s.io/v1", kind, types.object(&format!("v1.{kind}"), &fields)));
    let name = "k8s.io/apiserver/pkg/admission/plugin/policy/config/config.go:32";
    ConfigScheme { name, strict: true, kinds: kinds.into(), types }
}

/// Reads the configuration of a plugin for policies, which must have the given kind. Returns the directory.
///
/// # Errors
/// Returns upstream's message if the text cannot be decoded, or if the directory cannot be used.
pub(crate) fn policy_directory(text: Option<&[u8]>, kind: &str, gates: &Gates) -> Result<Option<PathBuf>, String> {
    let Some(text) = text else { return Ok(None) };
    let config = scheme().decode(text).map_err(|error| error.to_string())?.value;
    if config.kind() != kind {
        return Err(format!("unexpected type: *policyconfig.{}", config.kind()));
    }
    check_directory(config.str_at(&[FIELD]), gates)
}

/// Checks the directory of a configuration. Returns it, if there is one.
///
/// # Errors
/// Returns upstream's message if the feature is off, or if the path does not name a directory.
pub(crate) fn check_directory(path: &str, gates: &Gates) -> Result<Option<PathBuf>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    let feature = Feature::MANIFEST_BASED_ADMISSION_CONTROL_CONFIG;
    let (mut errors, field) = (Errors::new(), FieldPath::new(FIELD));
    if !gates.is_enabled(feature) {
        errors.forbidden(&field, format!("{FIELD} requires the {} feature gate to be enabled", feature.name()));
        return Err(errors.message());
    }
    let why = match std::fs::metadata(path) {
        _ if !path.starts_with('/') => "must be an absolute file path".to_owned(),
        Err(error) => format!("unable to read: stat {path}: {}", system_error(&error)),
        Ok(found) if !found.is_dir() => "must be a directory".to_owned(),
        Ok(_) => return Ok(Some(PathBuf::from(path))),
    };
    errors.invalid(&field, path, why);
    Err(errors.message())
}

#[cfg(test)]
mod tests {
    use pintle_gates::FeatureGatesFlag;

    use super::*;

    fn gates(is_enabled: bool) -> Gates {
        let mut flag = FeatureGatesFlag::default();
        flag.add(&format!("ManifestBasedAdmissionControlConfig={is_enabled}"));
        flag.gates(Default::default()).expect("gates").0
    }

    #[test]
    fn the_folder_has_to_exist_and_needs_the_feature() {
        let check = |path: &str, is_enabled: bool, expect: Result<bool, &str>| {
            let checked = check_directory(path, &gates(is_enabled));
            assert_eq!(checked.map(|path| path.is_some()), expect.map_err(str::to_owned), "{path}");
        };
        let (directory, file) = (env!("CARGO_MANIFEST_DIR"), concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        check("", false, Ok(false));
        check(directory, true, Ok(true));
        check(
            directory,
            false,
            Err("staticManifestsDir: Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig \
                 feature gate to be enabled"),
        );
        check("a", true, Err("staticManifestsDir: Invalid value: \"a\": must be an absolute file path"));
        let missing = "staticManifestsDir: Invalid value: \"/missing/a\": unable to read: stat /missing/a: no such file \
                       or directory";
        check("/missing/a", true, Err(missing));
        check(file, true, Err(&format!("staticManifestsDir: Invalid value: \"{file}\": must be a directory")));
    }

    #[test]
    fn the_configuration_has_the_kind_of_its_plugin() {
        let check = |kind: &str, fields: &str, expect: Result<Option<PathBuf>, &str>| {
            let text = format!("apiVersion: apiserver.config.k8s.io/v1\nkind: {kind}\n{fields}");
            let found = policy_directory(Some(text.as_bytes()), KINDS[0], &gates(true));
            assert_eq!(found, expect.map_err(str::to_owned), "{text}");
        };
        check(KINDS[0], "", Ok(None));
        check(KINDS[0], "staticManifestsDir: /", Ok(Some("/".into())));
        check(KINDS[1], "", Err("unexpected type: *policyconfig.MutatingAdmissionPolicyConfiguration"));
        check(KINDS[0], "a: b", Err("strict decoding error: unknown field \"a\""));
        check(
            "Other",
            "",
            Err("no kind \"Other\" is registered for version \"apiserver.config.k8s.io/v1\" in scheme \
                 \"k8s.io/apiserver/pkg/admission/plugin/policy/config/config.go:32\""),
        );
        assert_eq!(policy_directory(None, KINDS[0], &gates(true)), Ok(None));
    }
}
