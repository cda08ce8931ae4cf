//! The configuration of the plugins. It names the kubeconfig with the credentials for webhooks, and the folder of
//! further webhooks (upstream: `admission/plugin/webhook/config`).

use std::path::PathBuf;
use std::sync::LazyLock;

use pintle_auth::config_file::{ConfigScheme, ConfigTypes};
use pintle_gates::Gates;
use pintle_schema::Scalar;
use pintle_value::{Errors, FieldPath};

use crate::manifest::check_directory;

static SCHEME: LazyLock<ConfigScheme> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let text = types.scalar(Scalar::String);
    let fields = [("kind", text), ("apiVersion", text), ("kubeConfigFile", text), ("staticManifestsDir", text)];
    let config = types.object("v1.WebhookAdmission", &fields);
    let kinds = vec![("apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration", config)];
    let name = "k8s.io/apiserver/pkg/admission/plugin/webhook/config/kubeconfig.go:34";
    ConfigScheme { name, strict: true, types, kinds }
});

/// The paths in the configuration of a plugin.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Configuration {
    /// The kubeconfig with the credentials for webhooks.
    pub(super) kubeconfig: Option<PathBuf>,
    /// The folder with the files of further webhooks.
    pub(super) manifests: Option<PathBuf>,
}

/// Reads the configuration of a plugin.
///
/// # Errors
/// Returns upstream's message if the text cannot be decoded, or if a path cannot be used.
pub(super) fn read(text: Option<&[u8]>, gates: &Gates) -> Result<Configuration, String> {
    let Some(text) = text else { return Ok(Configuration::default()) };
    let config = SCHEME.decode(text).map_err(|error| error.to_string())?.value;
    let path = config.str_at(&["kubeConfigFile"]);
    if !path.is_empty() && !path.starts_with('/') {
        let mut errors = Errors::new();
        errors.invalid(&FieldPath::new("kubeConfigFile"), path, "must be an absolute file path");
        return Err(errors.message());
    }
    let kubeconfig = (!path.is_empty()).then(|| PathBuf::from(path));
    Ok(Configuration { kubeconfig, manifests: check_directory(config.str_at(&["staticManifestsDir"]), gates)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_has_an_absolute_path() {
        let config = |fields: &str| {
            format!("apiVersion: apiserver.config.k8s.io/v1\nkind: WebhookAdmissionConfiguration\n{fields}")
        };
        for (text, expect) in [
            (config("kubeConfigFile: /a/b"), Ok(Some(PathBuf::from("/a/b")))),
            (config(""), Ok(None)),
            (
                config("kubeConfigFile: b"),
                Err("kubeConfigFile: Invalid value: \"b\": must be an absolute file path".to_owned()),
            ),
            (config("kubeconfig: /b"), Err("strict decoding error: unknown field \"kubeconfig\"".to_owned())),
        ] {
            let found = read(Some(text.as_bytes()), &Gates::default());
            assert_eq!(found.map(|found| found.kubeconfig), expect, "{text}");
        }
        assert_eq!(read(None, &Gates::default()), Ok(Configuration::default()));
    }
}
