//! The configuration of the plugins: which kubeconfig has the credentials for webhooks (upstream:
//! `admission/plugin/webhook/config`).

use std::path::PathBuf;
use std::sync::LazyLock;

use pintle_auth::config_file::{ConfigScheme, ConfigTypes};
use pintle_schema::Scalar;
use pintle_value::{Errors, FieldPath};

static SCHEME: LazyLock<ConfigScheme> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let text = types.scalar(Scalar::String);
    let fields = [("kind", text), ("apiVersion", text), ("kubeConfigFile", text), ("staticManifestsDir", text)];
    let config = types.object("v1.WebhookAdmission", &fields);
    let kinds = vec![("apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration", config)];
    let name = "k8s.io/apiserver/pkg/admission/plugin/webhook/config/kubeconfig.go:34";
    ConfigScheme { name, strict: true, types, kinds }
});

/// Reads the configuration of a plugin. Returns the kubeconfig that it names.
///
/// # Errors
/// Returns upstream's message if the text cannot be decoded, or if the path is not absolute.
pub(super) fn kubeconfig(text: Option<&[u8]>) -> Result<Option<PathBuf>, String> {
    let Some(text) = text else { return Ok(None) };
    let config = SCHEME.decode(text).map_err(|error| error.to_string())?.value;
    if !config.str_at(&["staticManifestsDir"]).is_empty() {
        return Err("static webhook manifests are not supported".to_owned());
    }
    let path = config.str_at(&["kubeConfigFile"]);
    if !path.is_empty() && !path.starts_with('/') {
        let mut errors = Errors::new();
        errors.invalid(&FieldPath::new("kubeConfigFile"), path, "must be an absolute file path");
        return Err(errors.message());
    }
    Ok((!path.is_empty()).then(|| PathBuf::from(path)))
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
            assert_eq!(kubeconfig(Some(text.as_bytes())), expect, "{text}");
        }
        assert_eq!(kubeconfig(None), Ok(None));
    }
}
